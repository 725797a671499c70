"""Groups of torch.distributed: how ranks find each other, what ends them, and what is told then."""

import datetime
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
import torch
import torch.distributed as dist
from ranks import by_hand, on_ranks, run
from test_c10d import start

import sullae

pytestmark = pytest.mark.skipif(int(torch.__version__.split(".")[0]) < 2, reason="torch 1 takes no backends")


def test_own_address(monkeypatch):
    from sullae import c10d

    own = {"host": "10.1.2.3", "192.0.2.1": "10.9.9.9", "10.0.0.7": "10.0.0.2", "127.0.1.1": "127.0.0.1"}
    monkeypatch.setattr(c10d, "_address_towards", own.get)
    monkeypatch.setattr(c10d.socket, "gethostname", lambda: "host")
    assert c10d._own_address("10.0.0.7") == "10.0.0.2"
    assert c10d._own_address("localhost") == "127.0.0.1"  # all on this host
    assert c10d._own_address(None) == "10.1.2.3"  # init_process_group(init_method="tcp://…")
    assert c10d._own_address("fd00::7") == "10.1.2.3"
    own["host"] = "127.0.1.1"  # Debian's /etc/hosts
    assert c10d._own_address("127.0.1.1") == "10.9.9.9"
    del own["192.0.2.1"]
    assert c10d._own_address(None) == "127.0.0.1"
    own = {"fd00::7": "fd00::2"}  # a network without IPv4
    monkeypatch.setattr(c10d, "_address_towards", own.get)
    assert c10d._own_address("fd00::7") == "fd00::2"
    assert c10d._with_port("fd00::2", 5) == "[fd00::2]:5"
    assert c10d._told_address("[fd00::2]:5 other") == "[fd00::2]:5"
    with pytest.raises(sullae.InputError, match="no address but .::1.:5"):
        c10d._told_address("[::1]:5 other")
    assert c10d._told_address("127.0.0.1:5 host") == "127.0.0.1:5"
    with pytest.raises(sullae.InputError, match="on other, has found no address but 127.0.0.1:5.*set MASTER_ADDR"):
        c10d._told_address("127.0.0.1:5 other")


def die_in_an_allreduce():
    rank, _ = start()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
    try:
        for step in range(100):
            model(torch.ones(2, 3)).sum().backward()
            if rank == 1 and step == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            dist.all_reduce(torch.ones(1))
    except RuntimeError as error:  # DDP's own have the words alone
        print(f"gone: {error}", flush=True)
        sys.exit(3)


die_in_an_allreduce.on_a_rank = die_in_an_allreduce


def test_a_killed_rank_is_named_on_all_others():
    ended = by_hand(3, "test_c10d_life", "die_in_an_allreduce")
    assert [code for code, _ in ended] == [3, -signal.SIGKILL, 3], ended
    assert all("gone: " in ended[rank][1] and "rank 1" in ended[rank][1] for rank in (0, 2)), ended


def joins():
    start()
    dist.destroy_process_group()


joins.on_a_rank = joins


def test_an_address_that_a_batch_system_has_set_is_no_place():
    ended = run(2, "test_c10d_life", "joins", env={"MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "29500"})
    assert ended.returncode == 0, ended.stderr


@on_ranks(2)
def test_groups_come_again_in_a_store_that_stays():
    """torchrun's is its agent's, and outlives them."""
    import sullae.c10d  # noqa: F401

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(host, port, size, rank == 0, datetime.timedelta(seconds=60))
    for _ in range(3):
        again = dist.PrefixStore("job", store)
        dist.init_process_group("sullae", store=again, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=30))
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [2, 2, 2]
        dist.destroy_process_group()
    store.set(f"done/{rank}", "")
    store.wait([f"done/{1 - rank}"])


@on_ranks(2)
def test_errors():
    rank, _ = start()
    with pytest.raises(sullae.MismatchError, match="1 float32.*2 float32|2 float32.*1 float32"):
        dist.all_reduce(torch.zeros(1 + rank))
    with pytest.raises(sullae.MismatchError):
        dist.all_reduce(torch.zeros(1 + rank), async_op=True).wait()
    with pytest.raises(sullae.InputError, match="expected 6 elements"):
        dist.all_gather_into_tensor(torch.zeros(5), torch.zeros(3))
    late = torch.zeros(3)
    if rank == 0:
        work = dist.irecv(late, 1)
        with pytest.raises(sullae.TimeoutError, match="not done within 100 ms"):
            work.wait(datetime.timedelta(milliseconds=100))
        dist.barrier()
        work.wait()
        dist.barrier()
        with pytest.raises(sullae.PeerError) as raised:
            for _ in range(100):
                dist.all_reduce(late)
        assert raised.value.rank == 1
    else:
        dist.barrier()
        dist.send(late, 0)
        dist.barrier()
    # Rank 1 ends here, without destroy_process_group().


def end_while_callbacks_run():
    start()

    def late(future):
        time.sleep(0.3)
        return future.value()

    for _ in range(5):
        dist.all_reduce(torch.ones(4), async_op=True).get_future().then(late)
    if dist.get_rank() == 1:
        raise KeyError("of rank 1")
    time.sleep(1)


end_while_callbacks_run.on_a_rank = end_while_callbacks_run


def test_a_program_may_end_while_callbacks_run():
    ended = run(2, "test_c10d_life", "end_while_callbacks_run")
    said = ended.stdout + ended.stderr
    assert "KeyError: 'of rank 1'" in said
    assert "rank 1 (process" in said and "ended with exit code 1" in said and "terminate called" not in said, said


# Of tensors that Python has, and of some that nobody else has.
def end_with_operations_under_way():
    import sullae.c10d  # noqa: F401

    dist.init_process_group("sullae")
    parts = [torch.empty(1000) for _ in range(dist.get_world_size())]
    for _ in range(50):
        dist.all_reduce(parts[0], async_op=True)
        dist.all_gather(parts, torch.ones(1000), async_op=True)
    if dist.get_rank() == 0:
        dist.isend(torch.ones(3), 1)


end_with_operations_under_way.on_a_rank = end_with_operations_under_way


def test_a_program_may_end_with_operations_under_way():
    for _ in range(5):
        ended = run(2, "test_c10d_life", "end_with_operations_under_way")
        assert ended.returncode == 0, ended.stdout + ended.stderr


# The other one comes to the store, and not into the group's world.
@pytest.mark.parametrize("rank", [0, 1])
def test_interrupted_init(rank):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    # What a shell starts in the background does not hear Ctrl-C, nor what that starts.
    begin = "import signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nimport sullae.c10d\n"
    stays_away = "sullae._core.c10d_backend = lambda *_, **__: time.sleep(100)\n"
    join = "import torch.distributed as dist\nprint('here', flush=True)\ndist.init_process_group('sullae')"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", begin + ("" if one == rank else stays_away) + join],
            env={**os.environ, **place, "RANK": str(one)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for one in range(2)
    ]
    try:
        for process in ranks:
            assert process.stdout.readline() == "here\n"
        time.sleep(2)
        ranks[rank].send_signal(signal.SIGINT)
        _, error = ranks[rank].communicate(timeout=60)
        assert error.rstrip().endswith("KeyboardInterrupt"), error
    finally:
        for process in ranks:
            process.kill()
            process.communicate()
