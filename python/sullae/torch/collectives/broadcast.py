"""Root's tensor, on every rank."""

from typing import Optional

import torch

from ... import _core
from ..process_sets import ProcessSet, global_process_set, world_of
from ..reduce_ops import Average
from .allreduce import Allreduce
from .handle import Handle, check, check_in_place, first, named, synchronize


def _start_broadcast(tensor, output, root_rank, name, process_set) -> _core.TensorHandle:
    return _core.broadcast_async(
        world_of(process_set), tensor, output, process_set.place_of(root_rank), named(name)
    )


def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """A copy of root's tensor, which has the same shape on every rank."""
    check(tensor)
    output = torch.empty_like(tensor, memory_format=torch.contiguous_format, requires_grad=False)
    return Handle(_start_broadcast(tensor, output, root_rank, name, process_set), first)


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """``tensor`` becomes root's."""
    check_in_place(tensor)
    return Handle(_start_broadcast(tensor, tensor, root_rank, name, process_set), lambda _: tensor)


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.arguments = root_rank, process_set
        return synchronize(broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx, gradient):
        root_rank, process_set = ctx.arguments
        (reduced,) = Allreduce.apply(None, Average, 1.0, 1.0, process_set, gradient)
        if process_set.rank() != process_set.place_of(root_rank):
            reduced = torch.zeros_like(reduced)
        return reduced, None, None, None


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """A copy of root's tensor. Its gradient is, on root, the average of the ranks' gradients, as in Horovod."""
    check(tensor)
    return _Broadcast.apply(tensor, root_rank, name, process_set)


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """``tensor`` becomes root's."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))
