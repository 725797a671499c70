"""An optimizer, its model and its world that change, fail or are copied while it is used."""

import copy
import pickle
import warnings

import pytest
import torch
from ranks import on_ranks
from small_training import expect_equal_on_ranks, network

import sullae
import sullae.torch as hvd


@on_ranks(2)
def test_schedules_and_hooks_made_before():
    hvd.init()
    model = network()
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(inner, 1, 0.5)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters())
    calls = []
    has_hooks = hasattr(optimizer, "register_step_post_hook")  # of torch 2
    if has_hooks:
        optimizer.register_step_post_hook(lambda *_: calls.append("hook"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            optimizer.zero_grad()
            (model(torch.randn(4, 6, dtype=torch.float64)).sum() * (1 + hvd.rank())).backward()
            optimizer.step()
            schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.1 * 0.5**3
    expect_equal_on_ranks(model)
    optimizer.load_state_dict(optimizer.state_dict())
    hvd.broadcast_optimizer_state(optimizer, 0)
    calls.clear()
    optimizer.step()
    assert calls == ["hook"] * has_hooks
    patched = torch.optim.SGD(network().parameters(), lr=0.1)
    patched.step = lambda: None
    with pytest.raises(sullae.InputError, match="step.. of the optimizer was replaced"):
        hvd.DistributedOptimizer(patched)
    for copy_of in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="save its state_dict"):
            copy_of(optimizer)


@on_ranks(2)
def test_parameters_that_are_trained_later():
    hvd.init()
    model = network()
    first, *_, last = model
    first.requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p for m in (first, *_) for p in m.parameters()], lr=0.1))

    def step(clear=True):
        if clear:
            optimizer.zero_grad()
        (model(torch.randn(4, 6, dtype=torch.float64)).sum() * (1 + hvd.rank())).backward()
        optimizer.step()

    torch.manual_seed(hvd.rank())
    step()
    optimizer.add_param_group({"params": last.parameters(), "lr": 0.01})
    step()
    first.requires_grad_(True)
    with pytest.raises(sullae.InputError, match="required no gradient when this was made"):
        step(clear=False)
    step()
    expect_equal_on_ranks(model)
    before = first.weight.detach().clone()
    step()
    assert not torch.equal(before, first.weight)
    expect_equal_on_ranks(model)


# As where a rank dies while the optimizer is made for the world that the others have joined.
@on_ranks(1)
def test_a_world_that_fails_while_it_is_made_for_it():
    hvd.init()
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    make = optimizer._make_gradients

    def fail(*_):
        raise sullae.PeerError("rank 1 is gone", 1)

    optimizer._make_gradients = fail
    with pytest.raises(sullae.PeerError):
        optimizer.world_changed()
    for call in (optimizer.step, optimizer.synchronize, optimizer.zero_grad, optimizer.join):
        with pytest.raises(sullae.Error, match="the world failed while this was made for it"):
            call()
    optimizer._make_gradients = make
    optimizer.world_changed()
    model(torch.ones(4, 6, dtype=torch.float64)).sum().backward()
    optimizer.step()


@on_ranks(2)
def test_passes_stay_what_they_were_set_to():
    hvd.init()
    model = network()
    first, *_, last = model
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p for m in (first, *_) for p in m.parameters()], lr=0.1))
    optimizer.set_backward_passes_per_step(2)
    optimizer.add_param_group({"params": last.parameters(), "lr": 0.1})
    assert optimizer.backward_passes_per_step == 2
    torch.manual_seed(hvd.rank())
    model(torch.randn(4, 6, dtype=torch.float64)).sum().backward()
    own = first.weight.grad.clone()  # not the average yet
    assert not torch.allclose(hvd.allreduce(own), own)
    model(torch.randn(4, 6, dtype=torch.float64)).sum().backward()
    both = first.weight.grad.clone()
    assert torch.allclose(hvd.allreduce(both), both)
    optimizer.step()
    expect_equal_on_ranks(model)


@on_ranks(2)
def test_a_backward_that_raised_is_no_hindrance():
    hvd.init()
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())

    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x.clone()

        @staticmethod
        def backward(*_):
            raise ValueError("in the middle")

    for raises in (False, True, False, True, False):
        optimizer.zero_grad()
        hidden = model[0](torch.randn(4, 6, dtype=torch.float64))
        loss = model[2](torch.tanh(Raises.apply(hidden) if raises else hidden)).sum() * (1 + hvd.rank())
        if raises:
            with pytest.raises(ValueError):
                loss.backward()
            continue
        loss.backward()
        for p in model.parameters():  # averages, without another call
            assert torch.allclose(hvd.allreduce(p.grad), p.grad)
        optimizer.step()
    expect_equal_on_ranks(model)


@on_ranks(2)
def test_objects_that_cannot_be_pickled():
    hvd.init()

    class Unwilling:
        def __reduce__(self):
            raise RuntimeError("never")

    expected = [(RuntimeError, "never"), (sullae.Error, "rank 0 could not pickle")]
    for call in (lambda o: hvd.broadcast_object(o, 0), hvd.allgather_object):
        kind, message = expected[hvd.rank()]
        with pytest.raises(kind, match=message):
            call(Unwilling() if hvd.rank() == 0 else 3)
    assert hvd.broadcast_object(hvd.rank(), 1) == 1
