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
