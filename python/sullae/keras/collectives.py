"""Collectives on whatever Keras takes for a tensor. A torch.Tensor gives a torch.Tensor, everything else (numpy arrays, numbers,
Keras variables) a numpy array."""

from typing import Any, Callable, Iterable, Optional, Union

import keras
import numpy
import torch

from .. import torch as hvd
from ..errors import InputError

Result = Union[torch.Tensor, numpy.ndarray]


def _apply(collective: Callable, value: Any, **options) -> Result:
    if isinstance(value, torch.Tensor):
        return collective(value, **options)
    array = numpy.asarray(keras.ops.convert_to_numpy(value) if isinstance(value, keras.Variable) else value)
    if array.dtype == object:
        raise InputError(f"a {type(value).__name__}: expected a tensor, an array, a number or a Keras variable")
    shape = array.shape
    result = collective(torch.from_numpy(numpy.array(array, ndmin=1)), **options).numpy()
    return result if shape else result.reshape(result.shape if result.size != 1 else ())


def allreduce(
    value: Any,
    name: Optional[str] = None,
    average: bool = True,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: Optional[hvd.ReduceOp] = None,
    compression=hvd.Compression.none,
) -> Result:
    """The average over all ranks; with ``average=False``, the sum; with ``op``, what it says."""
    op = op if op is not None else (hvd.Average if average else hvd.Sum)
    return _apply(
        hvd.allreduce,
        value,
        name=name,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        compression=compression,
    )


def allgather(value: Any, name: Optional[str] = None) -> Result:
    """All ranks' values one after the other along dimension 0, in which they may differ."""
    result = _apply(hvd.allgather, value, name=name)
    return result.reshape(-1) if result.ndim == 0 else result  # also of a number on one rank


def broadcast(value: Any, root_rank: int, name: Optional[str] = None) -> Result:
    """Root's value, on every rank."""
    return _apply(hvd.broadcast, value, root_rank=root_rank, name=name)


def reducescatter(value: Any, name: Optional[str] = None, op: hvd.ReduceOp = hvd.Average) -> Result:
    """This rank's part, along dimension 0, of the reduction."""
    return _apply(hvd.reducescatter, value, name=name, op=op)


def broadcast_variables(variables: Iterable[keras.Variable], root_rank: int = 0) -> None:
    """Every variable becomes root's: of ``model.weights``, ``model.optimizer.variables``. The same on every rank, in the same
    order."""
    hvd.broadcast_parameters([variable.value.detach() for variable in variables], root_rank)
