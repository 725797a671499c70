"""Beginnings and ends: no hang, no crash at exit, and the rank that is gone has a name."""

import copy
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import torch
from ranks import HERE, by_hand, on_ranks, run

import sullae
import sullae.torch as hvd


@on_ranks(1, 2)
def test_init_and_shutdown_a_hundred_times():
    for i in range(100):
        hvd.init()
        assert hvd.is_initialized()
        world = sullae.world()
        assert sullae.world() is world and not world.has_left
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()
        if i % 10 == 0 and hvd.size() > 1:
            hvd.add_process_set([0])
        hvd.shutdown()
        assert not hvd.is_initialized() and world.has_left


@on_ranks(2)
def test_exit_without_shutdown():
    hvd.init()
    model = torch.nn.Linear(3, 3)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    handle = hvd.allreduce_async(torch.ones(1000))  # noqa: F841


@on_ranks(2)
def test_a_rank_that_leaves_is_named():
    hvd.init()
    hvd.barrier()
    if hvd.rank() == 1:
        return
    with pytest.raises(sullae.PeerError) as raised:
        for _ in range(100):
            hvd.allreduce(torch.ones(1))
    assert raised.value.rank == 1
    hvd.shutdown()


def die_in_a_step():
    hvd.init()
    model = torch.nn.Linear(3, 3)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    try:
        for step in range(100):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            if hvd.rank() == 1 and step == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.step()
    except sullae.PeerError as error:
        print(f"gone: {error.rank}", flush=True)
        sys.exit(3)


die_in_a_step.on_a_rank = die_in_a_step


def test_a_killed_rank_is_named_on_all_others():
    ended = by_hand(3, "test_life", "die_in_a_step")
    assert [code for code, _ in ended] == [3, -signal.SIGKILL, 3], ended
    assert all("gone: 1" in ended[rank][1] for rank in (0, 2)), ended


def raise_on_one_rank():
    hvd.init()
    if hvd.rank() == 1:
        raise KeyError("of rank 1")
    hvd.allreduce(torch.ones(1))


raise_on_one_rank.on_a_rank = raise_on_one_rank


def test_an_exception_on_one_rank_ends_all():
    ended = run(2, "test_life", "raise_on_one_rank")
    assert ended.returncode != 0
    assert "KeyError: 'of rank 1'" in ended.stdout + ended.stderr


def interrupt_soon():
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()


@on_ranks(2)
def test_interrupted_wait():
    hvd.init()
    if hvd.rank() == 0:
        interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            hvd.allreduce(torch.ones(1), name="late")
    else:
        time.sleep(1)
        hvd.allreduce(torch.ones(1), name="late")
    hvd.barrier()


# At the end of a backward, in step(), and in the others' steps after the last of its own.
@on_ranks(2)
def test_interrupted_steps():
    hvd.init()
    for after_backward in (True, False):
        net = torch.nn.Linear(3, 2)
        hvd.broadcast_parameters(net.state_dict(), root_rank=0)
        sgd = torch.optim.SGD(net.parameters(), lr=1)
        optimizer = hvd.DistributedOptimizer(sgd, net.named_parameters(), after_backward=after_backward)
        before = net.weight.detach().clone()

        def step():
            optimizer.zero_grad()
            net(torch.full((1, 3), 2.0 * hvd.rank())).sum().backward()
            optimizer.step()

        step()  # makes the plan
        if hvd.rank() == 0:
            interrupt_soon()
            with pytest.raises(KeyboardInterrupt):
                step()
            optimizer.step()  # goes on with what was waited for
        else:
            time.sleep(1)
            step()
        assert torch.allclose(net.weight, before - 2, atol=1e-5)
        if hvd.rank() == 0:
            interrupt_soon()
            with pytest.raises(KeyboardInterrupt):
                optimizer.join()
        else:
            time.sleep(1)
            step()  # with rank 0's zeros, which were under way
        hvd.barrier()


@on_ranks(2)
def test_interrupted_join():
    hvd.init()
    if hvd.rank() == 0:
        interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            sullae.world().join()
    else:
        with pytest.raises(sullae.PeerError):
            while True:  # rank 0 has joined, and adds zeros until it has left
                assert hvd.allreduce(torch.ones(1), op=hvd.Sum, name="more").item() >= 1


@pytest.mark.parametrize("rank", [0, 1])
def test_interrupted_init(rank):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The other rank never comes, for rank 1 not even the store, which rank 0 serves.
    place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    # What a shell starts in the background does not hear Ctrl-C, nor what that starts.
    hears = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program = hears + "import sullae\nprint('here', flush=True)\nsullae.init()"
    waiting = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, **place}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert waiting.stdout.readline() == "here\n"
    time.sleep(0.5)
    waiting.send_signal(signal.SIGINT)
    _, error = waiting.communicate(timeout=60)
    assert error.rstrip().endswith("KeyboardInterrupt"), error


@on_ranks(3)
def test_an_operation_of_a_process_set_may_be_under_way_at_the_end():
    hvd.init()
    two = hvd.add_process_set([0, 1])
    if two.included():
        for i in range(50):
            hvd.allreduce_async(torch.ones(1000), name=f"last {i}", process_set=two)


# As within a model, of which a copy is made, or which is saved as a whole.
@on_ranks(2)
def test_process_sets_are_copied_and_pickled():
    hvd.init()
    own = [hvd.add_process_set([rank]) for rank in range(2)][hvd.rank()]
    for one in (own, hvd.global_process_set):
        assert copy.deepcopy(one) is one
        assert copy.copy(one) is one
        assert pickle.loads(pickle.dumps(one)) is one
    unmade = pickle.loads(pickle.dumps(hvd.ProcessSet([0, 1, 2])))
    assert unmade.ranks == [0, 1, 2] and unmade.size() is None
    copy.deepcopy(hvd.SyncBatchNorm(3, process_set=own))


@on_ranks(2)
def test_forks_are_no_ranks():
    hvd.init()
    child = os.fork()
    if child == 0:
        sys.exit(0)  # runs what is to be done at exit
    assert os.waitpid(child, 0)[1] == 0
    loader = torch.utils.data.DataLoader(torch.arange(20.0), batch_size=4, num_workers=2)
    total = sum(hvd.allreduce(batch.sum(), op=hvd.Sum) for batch in loader)
    assert total.item() == 2 * 190


@pytest.mark.parametrize("error", [sullae.PeerError("rank 3 is gone", 3), sullae.InputError("expected another")])
def test_errors_are_pickled(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)


def imported_with(folder):
    return subprocess.run(
        [sys.executable, "-c", "import sullae"], cwd=HERE, env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True, text=True
    ).stderr


def test_another_torch_is_told(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("__version__ = '9.9.0'")
    error = imported_with(tmp_path)
    assert f"sullae was built for torch {torch.__version__}" in error and "this is torch 9.9.0: build it for this one: pip install" in error
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('none')")
    assert "sullae needs torch, which cannot be imported here: pip install torch" in imported_with(tmp_path)
