"""Every rank's tensor, on every rank."""

from typing import List, Optional, Sequence

import torch

from ... import _core
from ..process_sets import ProcessSet, global_process_set, world_of
from ..reduce_ops import Average
from .allreduce import Allreduce
from .handle import Handle, check, first, listed, named, synchronize


def _start_allgather(tensors, name, process_set) -> _core.TensorHandle:
    return _core.allgather_async(world_of(process_set), tensors, named(name))


def allgather_async(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Every rank's tensor, one after another along dimension 0, which may differ between ranks."""
    check(tensor)
    return Handle(_start_allgather([tensor], name, process_set), first)


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Several, of one type, under one name, that complete together."""
    tensors = listed(tensors)
    return Handle(_start_allgather(tensors, name, process_set), list)


class Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, process_set, *tensors):
        ctx.process_set = process_set
        ctx.rows = [tensor.shape[0] if tensor.dim() > 0 else 1 for tensor in tensors]
        ctx.shapes = [tensor.shape for tensor in tensors]
        return tuple(synchronize(grouped_allgather_async(tensors, name, process_set)))

    @staticmethod
    def backward(ctx, *gradients):
        reduced = Allreduce.apply(None, Average, 1.0, 1.0, ctx.process_set, *gradients)
        rows = synchronize(allgather_async(torch.tensor([ctx.rows]), None, ctx.process_set))
        before = rows[: ctx.process_set.rank()].sum(0).tolist()
        mine = [
            gradient.narrow(0, start, count).view(shape)
            for gradient, start, count, shape in zip(reduced, before, ctx.rows, ctx.shapes)
        ]
        return (None, None, *mine)


def allgather(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Every rank's tensor, one after another along dimension 0, which may differ between ranks. Its gradient is this rank's
    part of the average of the ranks' gradients, as in Horovod."""
    check(tensor)
    return Allgather.apply(name, process_set, tensor)[0]


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[torch.Tensor]:
    """Several, of one type, as one operation."""
    tensors = listed(tensors)
    if not tensors:
        return []
    return list(Allgather.apply(name, process_set, *tensors))
