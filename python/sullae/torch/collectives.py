"""Collectives on tensors, with Horovod's names. Those without ``_async`` wait; those with ``_`` at the end work in place.

Ranks that use the same name mean the same operation, which starts when all have submitted it, whatever the order; without
names, operations of a kind are matched in the order in which each rank submits them. Results are tensors of the same
device; gradients flow through the collectives that wait and are not in place.

Each raises MismatchError where ranks disagree (on shapes, types, operations, roots), PeerError where a rank died or left,
TimeoutError where one did not come, and InputError for what cannot be done."""

from typing import Callable, List, Optional, Sequence, Tuple, Union

import torch

from .. import _core
from ..errors import InputError
from .compression import Compression
from .process_sets import ProcessSet, global_process_set
from .reduce_ops import Adasum, Average, ReduceOp, Sum, chosen

Splits = Union[torch.Tensor, Sequence[int], None]


class Handle:
    """An operation on its way; see poll() and synchronize()."""

    __slots__ = ("_handle", "_result")

    def __init__(self, handle: _core.TensorHandle, result: Callable):
        self._handle = handle
        self._result = result

    def done(self) -> bool:
        return self._handle.done()

    def wait(self):
        return self._result(self._handle.wait())


def poll(handle: Handle) -> bool:
    """Whether synchronize() would return at once."""
    return handle.done()


def synchronize(handle: Handle):
    """Waits until the operation is done, and returns its result. Ctrl-C ends the wait."""
    return handle.wait()


def _first(results):
    return results[0]


def _check(*tensors) -> None:
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise InputError(f"a {type(tensor).__module__}.{type(tensor).__name__}: expected a torch.Tensor, as torch.as_tensor() makes")
        if not tensor.layout == torch.strided:
            raise InputError(f"a tensor of layout {tensor.layout}: expected a dense one (see sparse_allreduce_async)")


def _check_in_place(*tensors) -> None:
    _check(*tensors)
    for tensor in tensors:
        if tensor.requires_grad and tensor.is_leaf is False:
            raise InputError("a tensor that was computed with gradients cannot be changed in place: expected its detach()")


# allreduce


def _start_allreduce(inputs, outputs, name, op, prescale_factor, postscale_factor, process_set) -> _core.TensorHandle:
    if op == Adasum and process_set is not global_process_set:
        raise NotImplementedError("Adasum is for all ranks: expected no process_set")
    return _core.allreduce_async(
        process_set.world(), inputs, outputs, op, prescale_factor, postscale_factor, name or ""
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
    _check(tensor)
    output = torch.empty_like(tensor, memory_format=torch.contiguous_format, requires_grad=False)
    return Handle(
        _start_allreduce([tensor], [output], name, op, prescale_factor, postscale_factor, process_set), _first
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
    _check_in_place(tensor)
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
    _check(*tensors)
    outputs = [torch.empty_like(t, memory_format=torch.contiguous_format, requires_grad=False) for t in tensors]
    return Handle(
        _start_allreduce(list(tensors), outputs, name, op, prescale_factor, postscale_factor, process_set), list
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
    _check_in_place(*tensors)
    tensors = list(tensors)
    handle = _start_allreduce(tensors, tensors, name, op, prescale_factor, postscale_factor, process_set)
    return Handle(handle, lambda _: tensors)


class _Allreduce(torch.autograd.Function):
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
        reduced = _Allreduce.apply(None, op, prescale_factor, postscale_factor, process_set, *gradients)
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
    _check(tensor)
    sent, context = compression.compress(tensor)
    (reduced,) = _Allreduce.apply(name, op, prescale_factor, postscale_factor, process_set, sent)
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
    _check(*tensors)
    sent, contexts = zip(*(compression.compress(tensor) for tensor in tensors))
    reduced = _Allreduce.apply(name, op, prescale_factor, postscale_factor, process_set, *sent)
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
    return synchronize(
        grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set)
    )


def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: str,
    op: ReduceOp,
    process_set: ProcessSet = global_process_set,
) -> Callable[[], torch.Tensor]:
    """The sum or average of sparse tensors, as rows and indices. Call the result to wait for it."""
    if not tensor.is_sparse:
        raise InputError("sparse_allreduce_async: a dense tensor: expected a sparse one")
    handle = _core.allgather_async(
        process_set.world(), [tensor._indices().t().contiguous()], f"{name}.indices"
    )
    values_handle = _core.allgather_async(process_set.world(), [tensor._values()], f"{name}.values")

    def wait() -> torch.Tensor:
        (values,) = values_handle.wait()
        (indices,) = handle.wait()
        if op == Average:
            values = values / process_set.size()
        return torch.sparse_coo_tensor(indices.t(), values, tensor.size())

    return wait


# allgather


def _start_allgather(tensors, name, process_set) -> _core.TensorHandle:
    return _core.allgather_async(process_set.world(), list(tensors), name or "")


def allgather_async(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Every rank's tensor, one after another along dimension 0, which may differ between ranks."""
    _check(tensor)
    return Handle(_start_allgather([tensor], name, process_set), _first)


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Several, of one type, under one name, that complete together."""
    _check(*tensors)
    return Handle(_start_allgather(tensors, name, process_set), list)


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, process_set, *tensors):
        ctx.process_set = process_set
        ctx.rows = [tensor.shape[0] if tensor.dim() > 0 else 1 for tensor in tensors]
        ctx.shapes = [tensor.shape for tensor in tensors]
        return tuple(synchronize(grouped_allgather_async(tensors, name, process_set)))

    @staticmethod
    def backward(ctx, *gradients):
        reduced = _Allreduce.apply(None, Average, 1.0, 1.0, ctx.process_set, *gradients)
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
    _check(tensor)
    return _Allgather.apply(name, process_set, tensor)[0]


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[torch.Tensor]:
    """Several, of one type, as one operation."""
    _check(*tensors)
    return list(_Allgather.apply(name, process_set, *tensors))


# broadcast


def _start_broadcast(tensor, output, root_rank, name, process_set) -> _core.TensorHandle:
    return _core.broadcast_async(
        process_set.world(), tensor, output, process_set.place_of(root_rank), name or ""
    )


def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """A copy of root's tensor, which has the same shape on every rank."""
    _check(tensor)
    output = torch.empty_like(tensor, memory_format=torch.contiguous_format, requires_grad=False)
    return Handle(_start_broadcast(tensor, output, root_rank, name, process_set), _first)


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """``tensor`` becomes root's."""
    _check_in_place(tensor)
    return Handle(_start_broadcast(tensor, tensor, root_rank, name, process_set), lambda _: tensor)


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.arguments = root_rank, process_set
        return synchronize(broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx, gradient):
        root_rank, process_set = ctx.arguments
        (reduced,) = _Allreduce.apply(None, Average, 1.0, 1.0, process_set, gradient)
        if process_set.rank() != process_set.place_of(root_rank):
            reduced = torch.zeros_like(reduced)
        return reduced, None, None, None


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """A copy of root's tensor. Its gradient is, on root, the average of the ranks' gradients, as in Horovod."""
    _check(tensor)
    return _Broadcast.apply(tensor, root_rank, name, process_set)


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """``tensor`` becomes root's."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


# alltoall


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
    """Sends ``splits[r]`` rows to rank r, or equally many to each; the result is what arrives, in the order of ranks, and,
    where splits were given, how many rows came from each rank."""
    _check(tensor)
    rows = _as_list(splits)
    handle = _core.alltoall_async(process_set.world(), tensor, rows, name or "")
    return Handle(handle, _first if splits is None else lambda results: _with_splits(results, splits))


def _with_splits(results, splits) -> Tuple[torch.Tensor, torch.Tensor]:
    output, received = results
    if isinstance(splits, torch.Tensor):
        received = received.to(dtype=splits.dtype, device=splits.device)
    return output, received


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        ctx.process_set = process_set
        handle = _core.alltoall_async(process_set.world(), tensor, _as_list(splits), name or "")
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
    _check(tensor)
    return _Alltoall.apply(tensor, splits, name, process_set)


# reducescatter


def _start_reducescatter(tensors, name, op, process_set, prescale_factor, postscale_factor) -> _core.TensorHandle:
    return _core.reducescatter_async(
        process_set.world(), list(tensors), op, prescale_factor, postscale_factor, name or ""
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
    _check(tensor)
    return Handle(
        _start_reducescatter([tensor], name, op, process_set, prescale_factor, postscale_factor), _first
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
    _check(*tensors)
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
        gathered = _Allgather.apply(None, process_set, *scaled)
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
    _check(*tensors)
    sent, contexts = zip(*(compression.compress(tensor) for tensor in tensors))
    reduced = _Reducescatter.apply(name, op, process_set, prescale_factor, postscale_factor, *sent)
    return [compression.decompress(tensor, context) for tensor, context in zip(reduced, contexts)]


# without tensors


def join(device: int = -1) -> int:
    """This rank has run out of data: until every rank has said so, it takes part in the others' sums with zeros. Returns the
    rank that joined last. ``device`` is taken for Horovod's sake."""
    return _core.world().join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the set has called it."""
    process_set.world().barrier_async().wait()
