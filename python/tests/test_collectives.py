"""Collectives on tensors: values, gradients, and every mistake that has a message."""

import numpy
import pytest
import torch
from ranks import on_ranks

import sullae
import sullae.torch as hvd

TYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
]


@on_ranks(1, 2, 3)
def test_reduce_every_type():
    hvd.init()
    total = sum(range(1, hvd.size() + 1))
    for dtype in TYPES:
        tensor = torch.full((17, 3), hvd.rank() + 1, dtype=dtype)
        assert torch.equal(hvd.allreduce(tensor, op=hvd.Sum), torch.full((17, 3), total, dtype=dtype))
        assert torch.equal(hvd.allreduce(tensor, op=hvd.Max), torch.full((17, 3), hvd.size(), dtype=dtype))
        assert torch.equal(tensor, torch.full((17, 3), hvd.rank() + 1, dtype=dtype))
    flag = torch.tensor([hvd.rank() == 0])
    assert hvd.allreduce(flag, op=hvd.Sum).item() is True
    scaled = hvd.allreduce(torch.ones(3), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    assert torch.equal(scaled, torch.full((3,), 2.0 * hvd.size()))
    hvd.shutdown()


@on_ranks(1, 2, 3)
def test_gathers_and_scatters():
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    rows = [torch.full((r, 2), float(r)) for r in range(size)]
    assert torch.equal(hvd.allgather(rows[rank]), torch.cat(rows))
    gathered = hvd.grouped_allgather([rows[rank], torch.tensor([float(rank)])])
    assert torch.equal(gathered[1], torch.arange(float(size)))
    part = hvd.reducescatter(torch.arange(7.0), op=hvd.Sum)
    counts = [7 // size + (r < 7 % size) for r in range(size)]
    assert torch.equal(part, size * torch.arange(7.0).split(counts)[rank])
    output, received = hvd.alltoall(torch.arange(float(size * size)), splits=torch.arange(size))
    assert received.tolist() == [rank] * size and output.numel() == rank * size
    assert hvd.alltoall(torch.arange(float(2 * size))).numel() == 2 * size
    output, received = hvd.synchronize(hvd.alltoall_async(torch.arange(float(2 * size))))
    assert output.numel() == 2 * size and received.tolist() == [2] * size and received.dtype == torch.int32
    assert hvd.alltoall(torch.zeros(size), splits=[1] * size)[1].dtype == torch.int32
    assert hvd.broadcast(torch.tensor([rank]), root_rank=size - 1).item() == size - 1
    assert hvd.allgather_object({"rank": rank}) == [{"rank": r} for r in range(size)]
    assert hvd.broadcast_object([rank, "a"], root_rank=0) == [0, "a"]
    hvd.barrier()


@on_ranks(2)
def test_gradients_flow():
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    x = torch.full((4,), float(rank + 1), requires_grad=True)
    (hvd.allreduce(x, op=hvd.Sum) * (rank + 1)).sum().backward()
    assert torch.equal(x.grad, torch.full((4,), 3.0))
    x.grad = None
    (hvd.allgather(x) * (rank + 1)).sum().backward()
    assert torch.equal(x.grad, torch.full((4,), 1.5))
    x.grad = None
    (hvd.broadcast(x, root_rank=1) * 2).sum().backward()
    assert torch.equal(x.grad, torch.full((4,), 2.0 * rank))
    x.grad = None
    hvd.alltoall(x, splits=[1, 3])[0].mul(rank + 1).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 2.0, 2.0]
    x.grad = None
    hvd.reducescatter(x, op=hvd.Average).mul(rank + 1).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 2.0, 2.0]
    assert size == 2


@on_ranks(3)
def test_process_sets():
    evens = hvd.ProcessSet([0, 2])
    hvd.init(process_sets=[evens])
    odd = hvd.add_process_set([1])
    if evens.included():
        assert evens.size() == 2 and evens.rank() == hvd.rank() // 2
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=evens)[0] == 2
        assert hvd.broadcast(torch.tensor([hvd.rank()]), root_rank=2, process_set=evens).item() == 2
        with pytest.raises(sullae.InputError, match="rank 1 is not in it"):
            hvd.broadcast(torch.ones(1), root_rank=1, process_set=evens)
        with pytest.raises(sullae.InputError, match="is not in it"):
            hvd.allreduce(torch.ones(1), process_set=odd)
    with pytest.raises(ValueError, match="there is a process set of these ranks already"):
        hvd.add_process_set([2, 0])
    assert hvd.remove_process_set(evens) and not hvd.remove_process_set(evens)
    assert not hvd.remove_process_set(hvd.global_process_set)
    with pytest.raises(sullae.InputError, match="it is not made"):
        hvd.allreduce(torch.ones(1), process_set=evens)
    hvd.barrier()


@on_ranks(2)
def test_any_order_and_names():
    hvd.init()
    names = [f"tensor {i}" for i in range(50)]
    if hvd.rank() == 1:
        names.reverse()
    handles = {name: hvd.allreduce_async(torch.ones(5), name=name, op=hvd.Sum) for name in names}
    for name in sorted(names):
        assert torch.equal(hvd.synchronize(handles[name]), torch.full((5,), 2.0))
        assert hvd.poll(handles[name])
    first = hvd.allreduce_async(torch.ones(5), name="twice")
    with pytest.raises(ValueError, match="^allreduce 'twice' was submitted again before it was done"):
        hvd.allreduce_async(torch.ones(5), name="twice")
    hvd.synchronize(first)
    hvd.synchronize(hvd.allreduce_async(torch.ones(5), name="twice"))
    # A name is one operation of its kind, whatever others are named.
    ones = torch.ones(2, 3)
    kinds = [
        lambda: hvd.allreduce_async(ones, name="same", op=hvd.Sum),
        lambda: hvd.allgather_async(ones, name="same"),
        lambda: hvd.broadcast_async(ones, root_rank=0, name="same"),
        lambda: hvd.reducescatter_async(ones, name="same", op=hvd.Sum),
        lambda: hvd.alltoall_async(ones, name="same"),
    ]
    order = range(len(kinds)) if hvd.rank() == 0 else reversed(range(len(kinds)))
    handles = {kind: kinds[kind]() for kind in order}
    results = [hvd.synchronize(handles[kind]) for kind in sorted(handles)]
    results[-1], received = results[-1]  # as Horovod's, an alltoall's result comes with its splits
    assert received.tolist() == [1, 1]
    shapes = [list(result.shape) for result in results]
    assert shapes == [[2, 3], [4, 3], [2, 3], [1, 3], [2, 3]]
    for _ in range(1000):  # handles that nobody waits for
        hvd.allreduce_async(torch.ones(5))
    hvd.barrier()


@on_ranks(2)
def test_mismatches_are_told_and_the_world_goes_on():
    hvd.init()
    rank = hvd.rank()
    with pytest.raises(sullae.MismatchError, match=r"rank 0 submitted allreduce \(sum\) of 2 float32 \[2\], but rank 1"):
        hvd.allreduce(torch.ones(2 + rank), name="shapes", op=hvd.Sum)
    with pytest.raises(sullae.MismatchError, match="int32.*int64|int64.*int32"):
        hvd.allgather(torch.ones(2, dtype=[torch.int32, torch.int64][rank]), name="types")
    with pytest.raises(sullae.MismatchError, match="root"):
        hvd.broadcast(torch.ones(2), root_rank=rank, name="roots")
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2


@on_ranks(1)
def test_mistakes():
    with pytest.raises(sullae.Error, match="init"):
        hvd.rank()
    hvd.init()
    with pytest.raises(sullae.InputError, match="numpy.ndarray: expected a torch.Tensor"):
        hvd.allreduce(numpy.ones(3))
    with pytest.raises(sullae.InputError, match="expected a dense one"):
        hvd.allreduce(torch.ones(3).to_sparse())
    with pytest.raises(sullae.InputError, match="Complex"):
        hvd.allreduce(torch.ones(3, dtype=torch.complex64))
    with pytest.raises(sullae.InputError, match="op and average are both given"):
        hvd.allreduce(torch.ones(3), average=True, op=hvd.Sum)
    with pytest.raises(sullae.InputError, match="root 3: expected a rank between 0 and 0"):
        hvd.broadcast(torch.ones(3), root_rank=3)
    with pytest.raises(sullae.InputError, match="several of its elements are one in memory"):
        hvd.allreduce_(torch.ones(1).expand(3))
    computed = torch.ones(3, requires_grad=True) * 2
    with pytest.raises(sullae.InputError, match="cannot be changed in place"):
        hvd.allreduce_(computed)
    with pytest.raises(sullae.InputError, match="expected one row of integers"):
        hvd.alltoall(torch.ones(3), splits=torch.tensor([1.5]))
    with pytest.raises(sullae.InputError, match=r"splits \(4\) of 3 rows"):
        hvd.alltoall(torch.ones(3), splits=[4])
    strided = torch.arange(6.0).view(2, 3).t()
    assert torch.equal(hvd.allreduce(strided), strided)
    for call, message in (
        (lambda: hvd.allreduce(torch.ones(1), op="sum"), "op: 'sum': expected Average, Sum"),
        (lambda: hvd.reducescatter(torch.ones(1), op=1), "op: 1: expected Average, Sum"),
        (lambda: hvd.allgather(torch.ones(1), name=5), "name: 5: expected a str"),
        (lambda: hvd.broadcast(torch.ones(1), root_rank="0"), "rank '0': expected a number"),
        (lambda: hvd.allreduce(torch.ones(1), process_set=[0]), r"process_set: \[0\]: expected a ProcessSet"),
        (lambda: hvd.allreduce(torch.ones(1), compression="topk:0.1"), "names are for DistributedOptimizer"),
        (lambda: hvd.grouped_allreduce(torch.ones(1)), "a group: a Tensor: expected a list of tensors"),
        (lambda: hvd.grouped_allgather(None), "a group: a NoneType: expected a list of tensors"),
        (lambda: hvd.synchronize(None), "synchronize: a NoneType: expected what a call"),
        (lambda: hvd.allreduce(torch.ones(1, device="meta")), "on the device meta"),
        (lambda: hvd.ProcessSet(["0"]), "expected a list of ranks"),
        (lambda: hvd.init(object()), "comm: expected none"),
    ):
        with pytest.raises(sullae.InputError, match=message):
            call()
    assert hvd.ProcessSet(numpy.array([0])).ranks == [0]
    assert issubclass(sullae.PeerError, hvd.HorovodInternalError) and issubclass(sullae.InputError, ValueError)


def _odd_layouts():
    """With values that say where they are."""
    yield torch.arange(6.0).view(2, 3).t()
    yield torch.arange(6, dtype=torch.float64).view(2, 3).t()
    yield torch.arange(24.0).view(1, 2, 3, 4).to(memory_format=torch.channels_last)
    yield torch.arange(12.0).view(3, 4)[:, ::2]


@on_ranks(2)
def test_tensors_in_place_may_be_in_any_order_in_memory():
    hvd.init()
    for tensor in _odd_layouts():
        expected = tensor * 2
        assert torch.equal(hvd.allreduce_(tensor.clone(), op=hvd.Sum), expected)
        assert torch.equal(hvd.synchronize(hvd.allreduce_async_(tensor.clone(), op=hvd.Sum)), expected)
        for one in hvd.grouped_allreduce_((t for t in (tensor.clone(), tensor.clone())), op=hvd.Sum):
            assert torch.equal(one, expected)
        # Each rank's in an order of its own.
        own = tensor.clone() if hvd.rank() == 0 else torch.zeros(tensor.shape, dtype=tensor.dtype)
        assert torch.equal(hvd.broadcast_(own, root_rank=0), tensor)
        own = tensor.clone() if hvd.rank() == 0 else torch.zeros(tensor.shape, dtype=tensor.dtype)
        hvd.broadcast_parameters([("one", own)], root_rank=0)
        assert torch.equal(own, tensor)


@on_ranks(2)
def test_sparse_sums_are_of_tensors_alike():
    hvd.init()
    rank = hvd.rank()

    def sparse(size, dtype=torch.float32):
        return torch.sparse_coo_tensor([[size - 1]], torch.ones(1, dtype=dtype), (size,))

    total = hvd.sparse_allreduce_async(sparse(3), "same", hvd.Sum)()
    assert total.to_dense().tolist() == [0, 0, 2]
    with pytest.raises(sullae.MismatchError, match=r"different sizes or types; this rank's is \[[23]\] of torch.float32"):
        hvd.sparse_allreduce_async(sparse(2 + rank), "other", hvd.Sum)()
    with pytest.raises(sullae.InputError, match="expected Sum or Average"):
        hvd.sparse_allreduce_async(sparse(3), "largest", hvd.Max)


@on_ranks(1, 2)
def test_tensors_that_cannot_be_sent():
    hvd.init()
    freed = torch.ones(4)
    freed.untyped_storage().resize_(0) if hasattr(freed, "untyped_storage") else freed.storage().resize_(0)
    negated = torch.tensor([1 + 2j]).conj().imag
    for collective in (hvd.allreduce, hvd.allgather, hvd.alltoall, lambda t: hvd.broadcast(t, 0)):
        with pytest.raises(sullae.InputError, match="no memory"):
            collective(freed)
        with pytest.raises(sullae.InputError, match="resolve_neg"):
            collective(negated)
    assert hvd.grouped_allreduce([]) == [] and hvd.grouped_allgather([]) == []
