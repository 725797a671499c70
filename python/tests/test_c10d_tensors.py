"""The backend for torch.distributed and tensors of other kinds: of inference mode, and sparse ones."""

import copy

import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks
from test_c10d import each, start

import sullae

pytestmark = pytest.mark.skipif(int(torch.__version__.split(".")[0]) < 2, reason="torch 1 takes no backends")


@on_ranks(2)
def test_inference_mode():
    rank, size = start()
    with torch.inference_mode():
        for is_async in (True, False):
            parts = each(size, lambda r: torch.empty(3))
            work = dist.all_gather(parts, torch.full((3,), float(rank)), async_op=is_async)
            strided = torch.ones(2, 3).t()
            works = [work, dist.all_reduce(strided, async_op=is_async)]
            assert not is_async or all(work.wait() for work in works)
            assert [part[0].item() for part in parts] == each(size, float) and strided.sum() == 6 * size
        objects = [None] * size
        dist.all_gather_object(objects, rank)
        assert objects == each(size, int)
    # One rank alone, and what was begun before.
    before = torch.ones(3)
    work = dist.all_reduce(before, async_op=True)
    with torch.inference_mode(rank == 0):
        assert work.wait()
        dist.all_reduce(torch.ones(2, 3).t())
    before.requires_grad_().sum().backward()
    assert before[0] == size
    dist.destroy_process_group()


@on_ranks(1, 2, 3)
def test_sparse_tensors():
    rank, size = start()
    Op = dist.ReduceOp

    def own(rank):  # names an element twice, and none on the last rank
        if rank == size - 1:
            return torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0, 3), (10, 3))
        indices = torch.tensor([[rank, 5, 5]])
        return torch.sparse_coo_tensor(indices, torch.arange(9.0).view(3, 3) + rank, (10, 3))

    total = sum(own(r).to_dense() for r in range(size))
    for is_async in (False, True):
        for op, expected in ((Op.SUM, total), (Op.AVG, total / size)):
            tensor = own(rank)
            work = dist.all_reduce(tensor, op, async_op=is_async)
            assert work is None or work.wait()
            assert tensor.is_sparse and torch.equal(tensor.to_dense(), expected)
    points = torch.sparse_coo_tensor([[0, rank], [1, 2]], torch.ones(2, dtype=torch.float64), (4, 3))
    dist.all_reduce(points)
    assert points.to_dense()[0, 1] == size and points.to_dense()[size - 1, 2] == 1
    with pytest.raises(sullae.InputError, match="expected ReduceOp.SUM or AVG"):
        dist.all_reduce(own(rank), Op.MAX)
    if size > 1:
        with pytest.raises(sullae.MismatchError, match=r"rank 0 has a sparse tensor of \[3\] Float.*rank 1 .*\[4\]"):
            dist.all_reduce(torch.sparse_coo_tensor([[0]], [1.0], (3 + min(rank, 1),)))
    dist.all_reduce(points)  # the group goes on
    dist.destroy_process_group()


@on_ranks(2)
def test_ddp_of_a_sparse_embedding_equals_one_process():
    rank, _ = start()
    torch.manual_seed(1)
    reference = torch.nn.Embedding(10, 3, sparse=True)
    model = torch.nn.parallel.DistributedDataParallel(copy.deepcopy(reference))
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (reference, model)]
    generator = torch.Generator().manual_seed(2)
    for _ in range(5):
        batch = torch.randint(10, (8,), generator=generator)
        for m, o, part in zip((reference, model), optimizers, (batch, batch[4 * rank : 4 * rank + 4])):
            o.zero_grad()
            m(part).pow(2).mean().backward()
            assert m is reference or m.module.weight.grad.is_sparse
            o.step()
    assert (reference.weight - model.module.weight).abs().max() < 1e-6
    dist.destroy_process_group()
