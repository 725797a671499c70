"""Sums, averages and other reductions."""

import zlib
from typing import Callable, List, Optional, Sequence

import torch

from ... import _core
from ...errors import InputError, MismatchError
from ..compression import Compression, checked
from ..process_sets import ProcessSet, global_process_set, world_of
from ..reduce_ops import Adasum, Average, ReduceOp, Sum, chosen
from .handle import Handle, check, check_in_place, first, listed, named, synchronize


def _start_allreduce(inputs, outputs, name, op, prescale_factor, postscale_factor, process_set) -> _core.TensorHandle:
    if op == Adasum and process_set is not global_process_set:
        raise NotImplementedError("Adasum is for all ranks: expected no process_set")
    return _core.allreduce_async(
        world_of(process_set), inputs, outputs, op, prescale_factor, postscale_factor, named(name)
    )


def allreduce_async(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """The reduction of every rank's ``tensor`` (the average unless ``op`` says otherwise), which stays as it is."""
    op = chosen(op, average)
    check(tensor)
    output = torch.empty_like(tensor, memory_format=torch.contiguous_format, requires_grad=False)
    return Handle(
        _start_allreduce([tensor], [output], name, op, prescale_factor, postscale_factor, process_set), first
    )


def allreduce_async_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """``tensor`` becomes the reduction of every rank's."""
    op = chosen(op, average)
    check_in_place(tensor)
    handle = _start_allreduce([tensor], [tensor], name, op, prescale_factor, postscale_factor, process_set)
    return Handle(handle, lambda _: tensor)


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Several, of one type, under one name, that complete together."""
    op = chosen(op, average)
    tensors = listed(tensors)
    outputs = [torch.empty_like(t, memory_format=torch.contiguous_format, requires_grad=False) for t in tensors]
    return Handle(
        _start_allreduce(tensors, outputs, name, op, prescale_factor, postscale_factor, process_set), list
    )


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Several in place, of one type, under one name, that complete together."""
    op = chosen(op, average)
    tensors = listed(tensors, check_in_place)
    handle = _start_allreduce(tensors, tensors, name, op, prescale_factor, postscale_factor, process_set)
    return Handle(handle, lambda _: tensors)


class Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, prescale_factor, postscale_factor, process_set, *tensors):
        ctx.arguments = op, prescale_factor, postscale_factor, process_set
        return tuple(
            synchronize(
                grouped_allreduce_async(tensors, None, name, op, prescale_factor, postscale_factor, process_set)
            )
        )

    @staticmethod
    def backward(ctx, *gradients):
        op, prescale_factor, postscale_factor, process_set = ctx.arguments
        reduced = Allreduce.apply(None, op, prescale_factor, postscale_factor, process_set, *gradients)
        return (None,) * 5 + tuple(reduced)


def allreduce(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression=Compression.none,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The reduction of every rank's ``tensor``: the average, unless ``op`` says otherwise."""
    op = chosen(op, average)
    check(tensor)
    compression = checked(compression)
    sent, context = compression.compress(tensor)
    (reduced,) = Allreduce.apply(name, op, prescale_factor, postscale_factor, process_set, sent)
    return compression.decompress(reduced, context)


def allreduce_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """``tensor`` becomes the reduction of every rank's."""
    return synchronize(allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set))


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression=Compression.none,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """The reductions of several tensors of one type, as one operation."""
    op = chosen(op, average)
    tensors = listed(tensors)
    if not tensors:
        return []
    compression = checked(compression)
    sent, contexts = zip(*(compression.compress(tensor) for tensor in tensors))
    reduced = Allreduce.apply(name, op, prescale_factor, postscale_factor, process_set, *sent)
    return [compression.decompress(tensor, context) for tensor, context in zip(reduced, contexts)]


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """Several tensors of one type become their reductions, as one operation."""
    tensors = listed(tensors)
    if not tensors:
        return []
    return synchronize(
        grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set)
    )


def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: str,
    op: ReduceOp,
    process_set: ProcessSet = global_process_set,
) -> Callable[[], torch.Tensor]:
    """The sum or average of sparse tensors, as rows and indices. Call the result to wait for it. Raises MismatchError on every rank
    where their sizes or types differ."""
    if not tensor.is_sparse:
        raise InputError(f"sparse_allreduce_async: a tensor of layout {tensor.layout}: expected one of torch.sparse_coo")
    if op not in (Sum, Average):
        raise InputError(f"sparse_allreduce_async: op {op}: expected Sum or Average")
    what = f"{list(tensor.size())} of {tensor.dtype} with {tensor.sparse_dim()} sparse dimensions"
    alike = _core.allgather_async(
        world_of(process_set), [torch.tensor([zlib.crc32(what.encode())])], f"{name}.size"
    )
    handle = _core.allgather_async(
        world_of(process_set), [tensor._indices().t().contiguous()], f"{name}.indices"
    )
    values_handle = _core.allgather_async(world_of(process_set), [tensor._values()], f"{name}.values")

    def wait() -> torch.Tensor:
        (sizes,) = alike.wait()
        differ = bool((sizes != sizes[0]).any())
        try:
            (values,) = values_handle.wait()
            (indices,) = handle.wait()
        except MismatchError:
            if not differ:
                raise
        if differ:
            raise MismatchError(
                f"sparse_allreduce_async '{name}': ranks have tensors of different sizes or types; this rank's is {what}"
            )
        if op == Average:
            values = values / process_set.size()
        return torch.sparse_coo_tensor(indices.t(), values, tensor.size())

    return wait
