"""Rows from every rank to every rank."""

from typing import List, Optional, Sequence, Tuple, Union

import torch

from ... import _core
from ...errors import InputError
from ..process_sets import ProcessSet, global_process_set, world_of
from .handle import Handle, check, named

Splits = Union[torch.Tensor, Sequence[int], None]


def _as_list(splits: Splits) -> Optional[List[int]]:
    if splits is None:
        return None
    if isinstance(splits, torch.Tensor):
        if splits.is_floating_point() or splits.dim() != 1:
            raise InputError(f"alltoall: splits of type {splits.dtype} and shape {list(splits.shape)}: expected one row of integers")
        return splits.tolist() or None
    return [int(rows) for rows in splits]


def alltoall_async(
    tensor: torch.Tensor,
    splits: Splits = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Sends ``splits[r]`` rows to rank r, or equally many to each; the result is what arrives, in the order of ranks, and how many
    rows came from each rank, as int32 unless ``splits`` is a tensor of another type."""
    check(tensor)
    rows = _as_list(splits)
    handle = _core.alltoall_async(world_of(process_set), tensor, rows, named(name))
    return Handle(handle, lambda results: _with_splits(results, splits))


def _with_splits(results, splits) -> Tuple[torch.Tensor, torch.Tensor]:
    output, received = results
    if isinstance(splits, torch.Tensor):
        return output, received.to(dtype=splits.dtype, device=splits.device)
    return output, received.to(torch.int32)


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        ctx.process_set = process_set
        handle = _core.alltoall_async(world_of(process_set), tensor, _as_list(splits), named(name))
        output, received = handle.wait()
        ctx.received = received.tolist()
        if splits is None:
            return output
        output, received = _with_splits((output, received), splits)
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, gradient, *_):
        sent_back = _Alltoall.apply(gradient, ctx.received, None, ctx.process_set)[0]
        return sent_back, None, None, None


def alltoall(
    tensor: torch.Tensor,
    splits: Splits = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """As alltoall_async(), whose result it returns."""
    check(tensor)
    return _Alltoall.apply(tensor, splits, name, process_set)
