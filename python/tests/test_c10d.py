"""The backend for torch.distributed: every collective, groups, messages, DDP, FSDP, errors."""

import copy
import datetime
import time

import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks

import sullae

pytestmark = pytest.mark.skipif(int(torch.__version__.split(".")[0]) < 2, reason="torch 1 takes no backends")


def start(backend="sullae"):
    import sullae.c10d  # noqa: F401

    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=60))
    return dist.get_rank(), dist.get_world_size()


def each(size, of):
    return [of(rank) for rank in range(size)]


@on_ranks(1, 2, 3)
def test_collectives():
    rank, size = start()
    Op = dist.ReduceOp
    for is_async in (False, True):

        def done(work, is_async=is_async):
            assert (work is not None) == is_async
            if is_async:
                assert work.wait() and work.is_completed()

        for op, expected in (
            (Op.SUM, sum(range(1, size + 1))),
            (Op.AVG, (size + 1) / 2),
            (Op.MIN, 1),
            (Op.MAX, size),
            (Op.PRODUCT, torch.arange(1.0, size + 1).prod().item()),
        ):
            for shape in ((), (1,), (17, 3), (0,), (70000,)):
                tensor = torch.full(shape, rank + 1.0)
                done(dist.all_reduce(tensor, op, async_op=is_async))
                assert torch.equal(tensor, torch.full(shape, float(expected)))
        bits = torch.tensor([1 << rank, 1])
        done(dist.all_reduce(bits, Op.BOR, async_op=is_async))
        assert bits.tolist() == [2**size - 1, 1]
        strided = torch.arange(6.0).view(2, 3).t()
        done(dist.all_reduce(strided, async_op=is_async))
        assert torch.equal(strided, size * torch.arange(6.0).view(2, 3).t())
        complex_ = torch.full((3,), 1 + 2j)
        done(dist.all_reduce(complex_, async_op=is_async))
        assert torch.equal(complex_, torch.full((3,), size * (1 + 2j)))
        told = torch.full((5,), float(rank), dtype=torch.complex128)
        done(dist.broadcast(told, size - 1, async_op=is_async))
        assert torch.equal(told, torch.full((5,), size - 1.0, dtype=torch.complex128))
        reduced = torch.ones(4)
        done(dist.reduce(reduced, 0, async_op=is_async))
        assert rank != 0 or torch.equal(reduced, torch.full((4,), float(size)))
        parts = each(size, lambda r: torch.empty(r + 1))
        done(dist.all_gather(parts, torch.full((rank + 1,), float(rank)), async_op=is_async))
        assert all(torch.equal(part, torch.full((r + 1,), float(r))) for r, part in enumerate(parts))
        whole = torch.empty(2 * size)
        done(dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)), async_op=is_async))
        assert torch.equal(whole, torch.arange(float(size)).repeat_interleave(2))
        part = torch.empty(2)
        done(dist.reduce_scatter_tensor(part, torch.arange(2.0 * size), async_op=is_async))
        assert torch.equal(part, size * torch.arange(2.0 * rank, 2.0 * rank + 2))
        part = torch.empty(rank + 1)
        done(dist.reduce_scatter(part, each(size, lambda r: torch.full((r + 1,), float(r))), async_op=is_async))
        assert torch.equal(part, torch.full((rank + 1,), float(rank * size)))
        gathered = each(size, lambda r: torch.empty(3)) if rank == 0 else None
        done(dist.gather(torch.full((3,), float(rank)), gathered, dst=0, async_op=is_async))
        assert rank != 0 or [g[0].item() for g in gathered] == list(range(size))
        scattered = torch.empty(2)
        given = each(size, lambda r: torch.full((2,), float(r))) if rank == size - 1 else None
        done(dist.scatter(scattered, given, src=size - 1, async_op=is_async))
        assert torch.equal(scattered, torch.full((2,), float(rank)))
        moved = torch.empty(size, 2)
        done(dist.all_to_all_single(moved, torch.full((size, 2), float(rank)), async_op=is_async))
        assert torch.equal(moved, torch.arange(float(size))[:, None].expand(size, 2))
        uneven = torch.empty(size * rank)
        done(
            dist.all_to_all_single(uneven, torch.arange(sum(range(size)) * 1.0), [rank] * size, list(range(size)), async_op=is_async)
        )
        assert uneven.numel() == size * rank
        lists = each(size, lambda r: torch.empty(1))
        done(dist.all_to_all(lists, each(size, lambda r: torch.tensor([10.0 * rank + r])), async_op=is_async))
        assert [t.item() for t in lists] == each(size, lambda r: 10.0 * r + rank)
        done(dist.barrier(async_op=is_async))
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == each(size, lambda r: {"rank": r})
    told = [rank, "x"]
    dist.broadcast_object_list(told, src=0)
    assert told == [0, "x"]
    dist.destroy_process_group()


@on_ranks(3)
def test_groups_and_messages():
    rank, size = start()
    evens = dist.new_group([0, 2])
    pairs = [dist.new_group([a, b]) for a, b in ((0, 1), (1, 2))]
    tensor = torch.ones(3)
    if rank != 1:
        dist.all_reduce(tensor, group=evens)
        assert tensor[0] == 2
    for pair in pairs:
        if rank in dist.get_process_group_ranks(pair):
            tensor = torch.full((2,), float(rank))
            dist.all_reduce(tensor, dist.ReduceOp.MAX, group=pair)
    if rank == 0:
        for sender in (2, 1):
            tensor = torch.empty(4)
            dist.recv(tensor, src=sender, tag=sender)
            assert torch.equal(tensor, torch.full((4,), float(sender)))
        tensor = torch.empty(100000)
        assert dist.recv(tensor) == 2 and tensor[-1] == 7
    else:
        dist.send(torch.full((4,), float(rank)), 0, tag=rank)
        if rank == 2:
            dist.send(torch.full((100000,), 7.0), 0)
    near, far = torch.empty(5), torch.full((5,), float(rank))
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, far, (rank + 1) % size), dist.P2POp(dist.irecv, near, (rank - 1) % size)]
    )
    for work in works:
        work.wait()
    assert torch.equal(near, torch.full((5,), float((rank - 1) % size)))
    dist.barrier()
    dist.destroy_process_group()


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 300), torch.nn.Tanh(), torch.nn.Linear(300, 3))


@on_ranks(1, 2, 3)
def test_ddp_equals_one_process():
    rank, size = start()
    reference = network()
    model = torch.nn.parallel.DistributedDataParallel(network(), bucket_cap_mb=0.001)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (reference, model)]
    generator = torch.Generator().manual_seed(2)
    for _ in range(10):
        batch = torch.randn(12, 6, generator=generator)
        rows = 12 // size
        for m, o, part in zip((reference, model), optimizers, (batch, batch[rank * rows : (rank + 1) * rows])):
            o.zero_grad()
            m(part).pow(2).mean().backward()
            o.step()
    for p, q in zip(reference.parameters(), model.parameters()):
        assert (p - q).abs().max() < 1e-6
    dist.destroy_process_group()


@on_ranks(2)
def test_ddp_gives_what_gloo_gives():
    rank, _ = start("gloo")
    import sullae.c10d  # noqa: F401

    ours = dist.new_group(backend="sullae")
    models = [torch.nn.parallel.DistributedDataParallel(network(), process_group=group) for group in (None, ours)]
    for model in models:
        for step in range(3):
            torch.manual_seed(10 * step + rank)
            model.zero_grad()
            model(torch.randn(5, 6)).sum().backward()
    for p, q in zip(*(model.parameters() for model in models)):
        assert torch.equal(p.grad, q.grad)
    dist.destroy_process_group()


@on_ranks(2)
def test_fully_sharded():
    start()
    from torch.distributed.fsdp import FullyShardedDataParallel

    torch.manual_seed(1)
    reference = network()
    model = FullyShardedDataParallel(copy.deepcopy(reference), device_id=torch.device("cpu"))
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (reference, model)]
    for step in range(3):
        torch.manual_seed(step)
        batch = torch.randn(8, 6)
        for m, o in zip((reference, model), optimizers):
            o.zero_grad()
            m(batch).pow(2).mean().backward()
            o.step()
    with FullyShardedDataParallel.summon_full_params(model):
        for p, q in zip(reference.parameters(), model.parameters()):
            assert (p - q).abs().max() < 1e-6
    dist.destroy_process_group()


@on_ranks(2)
def test_one_rank_may_wait_where_another_does_not():
    rank, size = start()
    tensors = [torch.full((50,), float(rank + i)) for i in range(20)]
    works = []
    for i, tensor in enumerate(tensors):
        works.append(dist.all_reduce(tensor, async_op=(rank + i) % 3 == 0))
        if i % 4 == 0:
            dist.broadcast(tensor, 0, async_op=False)
    for work in works:
        assert work is None or work.wait()
    assert [t[0].item() for t in tensors] == [2.0 * i + 1 for i in range(20)]
    from torch.distributed.algorithms.join import Join

    model = torch.nn.parallel.DistributedDataParallel(network())
    with Join([model]):  # a rank that has no data left waits for what the other does not
        for _ in range(3 + 2 * rank):
            model(torch.ones(2, 6)).sum().backward()
    dist.barrier()
    dist.destroy_process_group()


@on_ranks(2)
def test_callbacks_may_wait_for_collectives():
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    rank, _ = start()

    def again(future):
        second = dist.all_reduce(future.value()[0], async_op=True).get_future()
        second.wait()
        return dist.all_reduce(second.value()[0], async_op=True).get_future().wait()[0]

    chained = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(again)
    assert torch.equal(chained.wait(), torch.full((3,), 8.0))

    # What the callbacks of several start has no order that ranks share, whatever the backend: each sum is the same.
    def twice(_):
        dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
        return dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()[0]

    futures = [dist.all_reduce(torch.ones(3), async_op=True).get_future().then(twice) for _ in range(5)]
    assert all(torch.equal(future.wait(), torch.full((3,), 2.0)) for future in futures)
    hooks = [
        (power.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2), power.powerSGD_hook),
        (None, fp16_compress_hook),
    ]
    for state, hook in hooks:
        # One bucket, then, whose callbacks are the only ones.
        model = torch.nn.parallel.DistributedDataParallel(network())
        model.register_comm_hook(state, hook)
        for step in range(5):
            torch.manual_seed(10 * step + rank)
            model.zero_grad()
            model(torch.randn(5, 6)).sum().backward()
        for p in model.parameters():
            told = p.grad.clone()
            dist.broadcast(told, 0)
            assert torch.equal(told, p.grad)
    dist.destroy_process_group()


@on_ranks(2)
def test_lists_of_several_tensors():
    rank, size = start()
    results = [[torch.empty(2), torch.empty(3)] for _ in range(size)]
    dist.all_gather_coalesced(results, [torch.full((2,), float(rank)), torch.full((3,), 10.0 + rank)])
    assert [[t[0].item() for t in of_rank] for of_rank in results] == [[r, 10.0 + r] for r in range(size)]
    scattered = torch.empty(2, dtype=torch.complex64)
    dist.reduce_scatter(scattered, [torch.full((2,), 1 + 2j * r) for r in range(size)])
    assert torch.equal(scattered, torch.full((2,), 2 + 4j * rank))
    dist.destroy_process_group()


@on_ranks(2)
def test_what_does_not_fit_is_refused_and_the_group_goes_on():
    _, size = start()
    integers = torch.zeros(4, dtype=torch.int32)
    expanded = torch.zeros(1).expand(4)
    lists = [torch.zeros(2) for _ in range(size)]
    mixed = [torch.zeros(2), torch.zeros(2, dtype=torch.float64)]
    cases = [
        (lambda: dist.all_gather_into_tensor(integers, torch.zeros(2)), "Float and Int together"),
        (lambda: dist.reduce_scatter_tensor(integers[:2], torch.zeros(4)), "Float and Int together"),
        (lambda: dist.reduce_scatter(torch.zeros(3), lists), r"a result \[3\] of Float for \[2\] of Float"),
        (lambda: dist.all_gather(lists, torch.zeros(3)), r"a result \[2\] of Float for \[3\] of Float"),
        (lambda: dist.all_gather(lists[:1], torch.zeros(2)), "1 tensors for 2 ranks"),
        (lambda: dist.all_to_all(mixed, lists), "different dtypes"),
        (lambda: dist.all_to_all_single(integers, torch.zeros(4)), "different dtypes|Float and Int together"),
        (lambda: dist.all_reduce(torch.zeros(3), dist.ReduceOp.BAND), "BAND, BOR and BXOR of Float"),
        (lambda: dist.all_reduce(expanded), "is expanded"),
        (lambda: dist.broadcast(expanded, 0), "is expanded"),
        (lambda: dist.broadcast(torch.zeros(2), 7), "broadcast: root 7: expected a rank of the group, 0 to 1"),
        (lambda: dist.broadcast(torch.zeros(2), -1), "broadcast: root -1"),
        (lambda: dist.reduce(torch.zeros(2), 7), "reduce: root 7"),
        (lambda: dist.gather(torch.zeros(2), None, dst=100000), "gather: root 100000"),
        (lambda: dist.scatter(torch.zeros(2), None, src=7), "scatter: root 7"),
    ]
    for case, (call, message) in enumerate(cases):
        with pytest.raises(Exception, match=message) as raised:
            call()
        assert raised.type is sullae.InputError or case in (4, 5, 6), raised.value  # torch itself looks at some
        total = torch.ones(1)
        dist.all_reduce(total)
        assert total == size
    dist.destroy_process_group()


@on_ranks(2)
def test_an_aborted_group_ends_what_is_under_way():
    rank, _ = start()
    if rank == 0:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        assert not work.is_completed() and work.exception() is None
        dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu")).abort()
        with pytest.raises(sullae.Error, match="aborted"):
            work.wait()
        assert isinstance(work.exception(), Exception) and not work.is_success()
    else:
        time.sleep(1)  # rank 0 has nobody to reduce with meanwhile
        with pytest.raises(sullae.PeerError, match="rank 0 (cannot go on: the process group was aborted|has left)"):
            dist.all_reduce(torch.ones(3))


@on_ranks(2)
def test_a_call_may_have_a_limit_of_its_own():
    rank, _ = start()
    options = dist.BarrierOptions()
    options.timeout = datetime.timedelta(milliseconds=100)
    if rank == 0:
        with pytest.raises(sullae.TimeoutError, match="within 100 ms, which the call named"):
            dist.group.WORLD.barrier(options).wait()
    else:
        time.sleep(0.5)
        dist.barrier()
    dist.barrier()
