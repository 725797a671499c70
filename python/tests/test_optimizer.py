"""Training on any number of ranks gives what one process gives."""

import copy

import pytest
import torch
from ranks import on_ranks
from small_training import OPTIMIZERS, batches, expect_equal_on_ranks, expect_same, loss_of, network, own

import sullae
import sullae.torch as hvd


@on_ranks(1, 2, 4)
def test_equal_one_process():
    hvd.init()
    for make in OPTIMIZERS.values():
        reference, model = network(), network()
        single = make(reference.parameters())
        optimizer = hvd.DistributedOptimizer(make(model.parameters()), model.named_parameters(), bucket_bytes=256)
        for step, batch in enumerate(batches(30)):
            for m, o, rows in ((reference, single, batch), (model, optimizer, own(batch))):
                o.zero_grad(set_to_none=step % 2 == 0)
                loss_of(m, rows).backward()
                torch.nn.utils.clip_grad_norm_(m.parameters(), 0.05)
                o.step()
        expect_same(model, reference)


@on_ranks(2)
def test_accumulation_closures_schedules_and_state():
    hvd.init()
    reference, model = network(), network()
    single = torch.optim.SGD(reference.parameters(), lr=0.1)
    wrapped = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(wrapped, model.named_parameters(), backward_passes_per_step=2)
    assert isinstance(optimizer, torch.optim.SGD) and type(optimizer).__name__ == "SGD"
    schedules = [torch.optim.lr_scheduler.StepLR(o, 3, 0.5) for o in (single, optimizer)]
    data = batches(12)
    for step in range(6):
        for m, o, part in ((reference, single, lambda b: b), (model, optimizer, own)):
            for batch in data[2 * step : 2 * step + 2]:
                (loss_of(m, part(batch)) / 2).backward()
            o.step()
            o.zero_grad()
        for schedule in schedules:
            schedule.step()
    expect_same(model, reference)
    state = copy.deepcopy(optimizer.state_dict())
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["lr"] == 0.1 * 0.25

    reference, model = network(), network()
    single = torch.optim.LBFGS(reference.parameters(), lr=0.1, max_iter=4)
    optimizer = hvd.DistributedOptimizer(torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4), model.named_parameters())
    for batch in data[:3]:
        for m, o, rows in ((reference, single, batch), (model, optimizer, own(batch))):

            def closure(m=m, o=o, rows=rows):
                o.zero_grad()
                loss = loss_of(m, rows)
                loss.backward()
                # What the line search sees must be the same on every rank.
                return hvd.allreduce(loss.detach()) if m is model else loss

            o.step(closure)
    expect_same(model, reference)


@on_ranks(2)
def test_gradients_as_they_are():
    hvd.init()
    for closure in (None, lambda: torch.zeros(())):
        model = network()
        before = [p.detach().clone() for p in model.parameters()]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
        for p in model.parameters():
            p.grad = torch.full_like(p, hvd.rank() + 1)
        with optimizer.skip_synchronize():
            optimizer.step(closure)
        for old, p in zip(before, model.parameters()):
            assert torch.allclose(old - p, torch.full_like(p, hvd.rank() + 1))


@on_ranks(2)
def test_loss_scaling_needs_no_ritual():
    hvd.init()
    if not hasattr(torch.amp, "GradScaler"):
        return  # torch 1.13 scales on GPUs alone
    reference, model = network().float(), network().float()
    single = torch.optim.SGD(reference.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    scalers = [torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3) for _ in range(2)]
    for step, batch in enumerate(batches(10)):
        for m, o, rows, scaler in ((reference, single, batch, scalers[0]), (model, optimizer, own(batch), scalers[1])):
            o.zero_grad()
            loss = loss_of(m, rows.float())
            if step == 4 and (m is reference or hvd.rank() == 1):
                loss = loss * float("inf")  # on one rank alone: all leave the step out
            scaler.scale(loss).backward()
            scaler.unscale_(o)
            torch.nn.utils.clip_grad_norm_(m.parameters(), 0.05)
            scaler.step(o)
            scaler.update()
    assert scalers[0].get_scale() == scalers[1].get_scale()
    expect_same(model, reference)


@on_ranks(2)
def test_equal_starts():
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (hvd.rank() + 1))
    if hvd.rank() == 0:  # the others have no state yet
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert all(p.grad is None for p in model.parameters())
    for tensors in (
        [p.detach() for p in model.parameters()],
        [state["exp_avg"] for state in optimizer.state.values()],
        [state["step"].view(1) for state in optimizer.state.values()],
    ):
        assert len(tensors) == 2
        for tensor in tensors:
            assert torch.equal(hvd.broadcast(tensor, root_rank=0), tensor)


@on_ranks(2)
def test_uneven_data():
    hvd.init()
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    for batch in batches(3 + 2 * hvd.rank()):
        optimizer.zero_grad()
        loss_of(model, own(batch)).backward()
        optimizer.step()
    assert optimizer.join() == 1
    expect_equal_on_ranks(model)


@on_ranks(1, 3)
def test_sampler():
    hvd.init()
    sampler = hvd.DistributedSampler(range(10), seed=5)
    epochs = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        indices = list(sampler)
        assert len(indices) == len(sampler)
        epochs.append(indices)
        assert sorted(set(hvd.allgather(torch.tensor(indices)).tolist())) == list(range(10))
    assert epochs[0] != epochs[1]
    sampler.set_epoch(1, taken=6)  # two steps of as many samples on each of three ranks; or by one
    of_epoch = hvd.allgather(torch.tensor(epochs[1])).reshape(hvd.size(), -1).t().flatten().tolist()
    rest = hvd.allgather(torch.tensor(list(sampler))).tolist()
    assert set(rest) >= set(of_epoch[6:10]) and not set(rest) & set(of_epoch[:6]) - set(of_epoch[6:10])
    sampler.set_epoch(1)
    loader = torch.utils.data.DataLoader(torch.arange(10), batch_size=2, sampler=sampler, num_workers=2)
    assert sum(len(batch) for batch in loader) == len(sampler)


@on_ranks(2)
def test_compression_and_tables():
    hvd.init()
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16, "topk:0.5"):
        model = network().float()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), compression=compression
        )
        first = last = None
        for batch in batches(20):
            optimizer.zero_grad()
            loss = loss_of(model, own(batch).float())
            loss.backward()
            optimizer.step()
            first, last = first or loss.item(), loss.item()
        assert last < first
        for p in model.parameters():
            assert torch.equal(hvd.broadcast(p.detach(), root_rank=0), p)
    table = torch.nn.Embedding(10, 3, sparse=True)
    hvd.broadcast_parameters(table.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam(list(table.parameters()), lr=0.1))
    for _ in range(3):
        optimizer.zero_grad()
        table(torch.tensor([1 + hvd.rank(), 5])).sum().backward()
        assert table.weight.grad.is_sparse
        optimizer.step()
    assert torch.equal(hvd.broadcast(table.weight.detach(), root_rank=0), table.weight)


@on_ranks(1)
def test_mistakes():
    model = network()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    named = list(model.named_parameters())

    def refused(message, *arguments, **options):
        with pytest.raises(sullae.InputError, match=message):
            hvd.DistributedOptimizer(*arguments, **options)

    refused("init\\(\\) has not been called", sgd, named)
    hvd.init()
    refused("expected a torch.optim.Optimizer", model)
    refused("expected pairs of a name and a parameter", sgd, list(model.parameters()))
    refused("0.weight more than once", sgd, named + named[:1])
    refused("updates 1 parameters that have no name", sgd, named[1:])
    refused("backward_passes_per_step: expected a number above 0", sgd, named, backward_passes_per_step=0)
    refused("backward_passes_per_step: expected a number above 0, got 2.5", sgd, named, backward_passes_per_step=2.5)
    refused("bucket_bytes: expected a number that is not negative, got -1", sgd, named, bucket_bytes=-1)
    refused("has no name that C\\+\\+ knows", sgd, named, compression=object())
    refused("gradient_predivide_factor", sgd, named, op=hvd.Sum, gradient_predivide_factor=2.0)
    optimizer = hvd.DistributedOptimizer(sgd, named)
    refused("is distributed already", optimizer, named)
    refused("belongs to another DistributedOptimizer", torch.optim.SGD(model.parameters(), lr=0.1), named)
    with pytest.raises(sullae.InputError, match="expected model.state_dict"):
        hvd.broadcast_parameters(5, root_rank=0)
