"""A rank's part of a reduction."""

from typing import List, Optional, Sequence

import torch

from ... import _core
from ..compression import Compression, checked
from ..process_sets import ProcessSet, global_process_set, world_of
from ..reduce_ops import Average, ReduceOp, Sum, chosen
from .allgather import Allgather
from .handle import Handle, check, first, listed, named, synchronize


def _start_reducescatter(tensors, name, op, process_set, prescale_factor, postscale_factor) -> _core.TensorHandle:
    return _core.reducescatter_async(
        world_of(process_set), tensors, chosen(op, None), prescale_factor, postscale_factor, named(name)
    )


def reducescatter_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """This rank's rows of the reduction. Where rows do not divide evenly, the first ranks have one more."""
    check(tensor)
    return Handle(
        _start_reducescatter([tensor], name, op, process_set, prescale_factor, postscale_factor), first
    )


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Several, of one type, under one name, that complete together."""
    tensors = listed(tensors)
    return Handle(
        _start_reducescatter(tensors, name, op, process_set, prescale_factor, postscale_factor), list
    )


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, process_set, prescale_factor, postscale_factor, *tensors):
        ctx.arguments = op, process_set, prescale_factor, postscale_factor
        return tuple(
            synchronize(
                grouped_reducescatter_async(tensors, name, op, process_set, prescale_factor, postscale_factor)
            )
        )

    @staticmethod
    def backward(ctx, *gradients):
        op, process_set, prescale_factor, postscale_factor = ctx.arguments
        factor = prescale_factor * postscale_factor * (process_set.size() if op == Sum else 1)
        scaled = [gradient * factor if factor != 1.0 else gradient for gradient in gradients]
        gathered = Allgather.apply(None, process_set, *scaled)
        return (None,) * 5 + tuple(gathered)


def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    compression=Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """This rank's rows of the reduction. Where rows do not divide evenly, the first ranks have one more."""
    return grouped_reducescatter([tensor], name, compression, op, process_set, prescale_factor, postscale_factor)[0]


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    compression=Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[torch.Tensor]:
    """Several, of one type, as one operation."""
    tensors = listed(tensors)
    if not tensors:
        return []
    compression = checked(compression)
    sent, contexts = zip(*(compression.compress(tensor) for tensor in tensors))
    reduced = _Reducescatter.apply(name, op, process_set, prescale_factor, postscale_factor, *sent)
    return [compression.decompress(tensor, context) for tensor, context in zip(reduced, contexts)]
