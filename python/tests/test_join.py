"""Ranks whose data ends before that of others."""

import gc

import pytest
import torch
from ranks import on_ranks
from small_training import batches, expect_equal_on_ranks, loss_of, network, own

import sullae
import sullae.torch as hvd


# As scripts of Horovod's have it: every rank has other batches, and tells the others its loss.
@on_ranks(1, 2, 3)
def test_join_serves_sums_and_steps():
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    place = {"ascending": rank, "descending": size - 1 - rank}
    for order, fewest in (("ascending", 3), ("descending", 3), ("ascending", 0)):
        for differ in (False, True):  # ranks' gradients, so that buckets are negotiated before anybody joins
            model = network()
            sgd = torch.optim.SGD(model.parameters(), lr=0.1)
            optimizer = hvd.DistributedOptimizer(sgd, model.named_parameters(), bucket_bytes=256)
            for epoch in range(2):
                for step, batch in enumerate(batches(fewest + 3 * place[order])):
                    optimizer.zero_grad()
                    part = model[:2] if differ and (step + rank) % 2 == 0 else model
                    loss = loss_of(part, own(batch) * (1 + rank))
                    with_data = hvd.allreduce(torch.ones(1), op=hvd.Sum)
                    assert with_data == sum(step < fewest + 3 * other for other in range(size))
                    if step % 2 == 0:
                        hvd.allreduce(loss.detach())
                    loss.backward()
                    if step % 2 == 1:
                        hvd.allreduce(loss.detach(), name="loss")
                    optimizer.step()
                assert hvd.join() == (size - 1 if order == "ascending" else 0)
                expect_equal_on_ranks(model)
                assert hvd.allreduce(torch.ones(1), op=hvd.Sum) == size  # all take part again
            del sgd, optimizer


# A rank that only follows knows of nothing that the program does around steps.
@on_ranks(2, 3)
@pytest.mark.filterwarnings("ignore")
def test_all_end_as_the_last_to_join():
    hvd.init()
    rank = hvd.rank()
    for case in ("clipping", "schedule", "scaler", "unplanned accumulation"):
        model = network()
        optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.01), model.named_parameters())
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=case == "scaler") if hasattr(torch.amp, "GradScaler") else None
        for batch in batches(2 + 2 * rank):
            optimizer.zero_grad()
            for _ in range(2 if case == "unplanned accumulation" else 1):
                loss = loss_of(model, own(batch))
                (scaler.scale(loss) if case == "scaler" and scaler else loss).backward()
            if case == "clipping":
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            if case == "scaler" and scaler:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            if case == "schedule":
                schedule.step()
        assert hvd.join() == hvd.size() - 1
        expect_equal_on_ranks(model)
        rate = torch.tensor([optimizer.param_groups[0]["lr"]])
        assert hvd.allreduce(rate, op=hvd.Max) == rate
        del optimizer, schedule
        gc.collect()


@on_ranks(2)
def test_join_does_not_go_with_closures():
    hvd.init()
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.LBFGS(model.parameters(), max_iter=2), model.named_parameters())

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model, own(batches(1)[0]))
        loss.backward()
        return loss

    optimizer.step(closure)
    for join in (hvd.join, optimizer.join):
        with pytest.raises(sullae.InputError, match="steps evaluate the model several times"):
            join()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum) == 2


@on_ranks(2)
def test_join_knows_which_optimizer_to_follow():
    hvd.init()
    first, second = network(), network()
    optimizers = [hvd.DistributedOptimizer(torch.optim.SGD(m.parameters(), lr=0.1), m.named_parameters()) for m in (first, second)]
    with pytest.raises(sullae.InputError, match=r"2 distributed optimizers.*call optimizer.join\(\)"):
        hvd.join()
    gc.collect()  # what the exception has seen
    of_one = hvd.add_process_set([0])
    if hvd.rank() == 0:
        optimizers[1] = hvd.DistributedOptimizer(torch.optim.SGD(network().parameters(), lr=0.1), process_set=of_one)
    else:
        del optimizers[1]
    assert hvd.join() in (0, 1)
    hvd.shutdown()
    hvd.init()  # what the last world had is none of this one's
    assert hvd.join() in (0, 1)
    hvd.shutdown()
