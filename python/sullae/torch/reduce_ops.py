"""How the values of all ranks become one."""

from typing import Optional

from .._core import ReduceOp
from ..errors import InputError

Average = ReduceOp.average
Sum = ReduceOp.sum
Adasum = ReduceOp.adasum
Min = ReduceOp.min
Max = ReduceOp.max
Product = ReduceOp.product


def chosen(op: Optional[ReduceOp], average: Optional[bool]) -> ReduceOp:
    """``op``, or what the older argument ``average`` says, or the average."""
    if op is not None:
        if average is not None:
            raise InputError("op and average are both given: expected op alone")
        if not isinstance(op, ReduceOp):
            raise InputError(f"op: {op!r}: expected Average, Sum, Adasum, Min, Max or Product of sullae.torch")
        return op
    return Sum if average is False else Average
