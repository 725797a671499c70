"""Ranks come and go, and each sample of an epoch is used once, and weights are those of an undisturbed run."""

import collections
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
from ranks import on_ranks

import sullae.torch as hvd

HERE = pathlib.Path(__file__).parent
EPOCHS = 6


def train(ranks, *deeds, elastic=True):
    """The weights, what the ranks that stayed saw of changes, and what was said."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--min-np", "1", "--cooldown", "0.1"] if elastic else []
        words = ["sullae", "run", "-np", str(ranks), *flags, sys.executable, str(HERE / "elastic_program.py"), folder, str(EPOCHS)]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        ended = subprocess.run([*words, *deeds], capture_output=True, text=True, timeout=200, env=env)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        used = collections.Counter(
            line for file in pathlib.Path(folder).glob("samples-*") for line in file.read_text().splitlines()
        )
        assert len(used) == EPOCHS * 48 and set(used.values()) == {1}, used.most_common(3)
        return torch.load(f"{folder}/weights"), pathlib.Path(folder, "changes").read_text(), ended.stderr


def expect_same(weights, reference):
    for p, q in zip(weights, reference):
        assert (p - q).abs().max() < 1e-10


def test_changes_do_not_show_in_what_is_trained():
    reference, _, _ = train(1, elastic=False)
    weights, changes, _ = train(3)
    assert changes == "[]"
    expect_same(weights, reference)
    for deeds in (["0:1:2:kill"], ["2:1:2:kill", "1:3:1:kill"], ["1:2:0:throw"], ["0:1:1:term"]):
        weights, changes, said = train(3, *deeds)
        assert "2" in changes, (deeds, changes)
        expect_same(weights, reference)
    assert "leaves) after" in said, said


def test_a_rank_may_die_before_it_trains():
    _, changes, said = train(3, "0:-1:0:kill")
    assert "worker 0" in said, said


def test_sampler_shares_what_is_left():
    sampler = hvd.elastic.ElasticSampler(range(10), shuffle=True, seed=3)
    assert sorted(sampler) == list(range(10)) and len(sampler) == 10
    order = list(sampler)
    sampler.record_batch(0, 4)
    saved = sampler.state_dict()
    sampler.reset()
    assert list(sampler) == order[4:]
    assert sampler.remaining_indices == order[4:] and sampler.processed_indices == set(order[:4])
    assert sampler.get_indices(1, 2) == order[6:8]
    sampler.record_indices(order[4:6])
    assert sampler.remaining_indices == order[6:]
    sampler.set_epoch(1)
    assert list(sampler) != order and len(sampler) == 10
    sampler.load_state_dict(saved)
    assert list(sampler) == order[4:]
    sampler.num_replicas = 4
    assert hvd.elastic.ElasticSampler([], shuffle=False).indices == []

    # At the end of an epoch, by its own number.
    sampler = hvd.elastic.ElasticSampler(range(8), shuffle=False)
    sampler.record_batch(0, 8)
    sampler.set_epoch(0)
    assert sampler.processed_num == 0 and sampler.indices == list(range(8))
    # One that was done before a rank was lost is not done again.
    sampler.load_state_dict({"epoch": 0, "processed_num": 8})
    sampler.set_epoch(0)
    assert sampler.indices == []


def test_what_takes_the_place_of_a_part_is_kept():
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    state = hvd.elastic.TorchState(model, optimizer, scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 3))
    state.save()
    state.scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    state.save()
    state.scheduler.last_epoch = 7
    state.restore()
    assert state.scheduler.step_size == 5 and state.scheduler.last_epoch == 0


def test_states_go_back():
    state = hvd.elastic.ObjectState(epoch=0, history=[])
    state.epoch, state.history = 3, [1]
    state.save()
    state.history.append(2)
    state.epoch = 4
    state.restore()
    assert (state.epoch, state.history) == (3, [1])
    model = torch.nn.Linear(2, 2)
    state = hvd.elastic.TorchState(model, torch.optim.SGD(model.parameters(), lr=0.1), batch=1)
    state.save()
    before = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.add_(1)
    state.batch = 2
    state.restore()
    assert torch.equal(model.weight, before) and state.batch == 1


def test_what_was_never_saved_is_left_as_it_is():
    model = torch.nn.Linear(2, 2)
    state = hvd.elastic.TorchState(model, epoch=3)  # as where a rank is lost in the first sync()
    before = model.weight.detach().clone()
    state.restore()
    assert torch.equal(model.weight, before) and state.epoch == 3


class Metric(torch.nn.Module):
    """As torchmetrics have them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def reset(self):
        self.total.zero_()


@on_ranks(1, 2)
def test_several_optimizers_go_on_in_another_world():
    hvd.init()
    torch.manual_seed(1)
    generator, judge = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    by_judge = hvd.DistributedOptimizer(torch.optim.SGD(judge.parameters(), lr=0.1), judge.named_parameters())
    by_generator = hvd.DistributedOptimizer(torch.optim.SGD(generator.parameters(), lr=0.1), generator.named_parameters())
    metric = Metric()
    # By other names than in the order in which they were made.
    state = hvd.elastic.TorchState(generator, a=by_generator, b=by_judge, metric=metric)
    state.sync()
    metric.total += 3
    hvd.shutdown()
    hvd.init()
    state.on_reset()
    state.sync()
    assert metric.total == 3
    judge(generator(torch.full((1, 2), 1.0 + hvd.rank()))).sum().backward()
    for optimizer in (by_judge, by_generator):
        optimizer.step()
    for parameter in (*generator.parameters(), *judge.parameters()):
        assert torch.equal(hvd.broadcast(parameter.detach(), root_rank=0), parameter)
    hvd.shutdown()


def test_what_is_left_is_shared_when_states_are_synchronized():
    hvd.init()
    sampler = hvd.elastic.ElasticSampler(list(range(8)))
    state = hvd.elastic.TorchState(sampler=sampler)
    sampler.record_batch(0, 6)
    state.commit()
    assert len(sampler) == 8  # the epoch that is under way goes on
    state.sync()
    assert len(list(sampler)) == 2
    hvd.shutdown()
