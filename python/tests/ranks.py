"""Runs a test on several ranks: each test function is started again by ``sullae run``, in processes of its own."""

import functools
import importlib
import os
import socket
import subprocess
import sys
from typing import Callable, Dict, List, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))


def run(size: int, module: str, function: str, env: Optional[Dict[str, str]] = None) -> subprocess.CompletedProcess:
    command = ["sullae", "run", "-np", str(size), sys.executable, __file__, module, function]
    limits = {"SULLAE_TIMEOUT": "60", "SULLAE_STALL_TIMEOUT": "60", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=HERE, env={**os.environ, **limits, **(env or {})}, capture_output=True, text=True, timeout=280
    )


def on_ranks(*sizes: int, env: Optional[Dict[str, str]] = None) -> Callable:
    """Runs a test function on every one of the numbers of ranks. Ranks must all return."""

    def decorate(test: Callable) -> Callable:
        @functools.wraps(test)
        def start() -> None:
            for size in sizes:
                ended = run(size, test.__module__, test.__name__, env)
                assert ended.returncode == 0, f"on {size} ranks:\n{ended.stdout}\n{ended.stderr}"

        start.on_a_rank = test
        return start

    return decorate


def by_hand(size: int, module: str, function: str) -> List[Tuple[int, str]]:
    """As torchrun's agents start ranks, since ``sullae run`` would end the others at once where one ends: exit codes and outputs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    job = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCAL_WORLD_SIZE": str(size)}
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, module, function],
            cwd=HERE,
            env={**os.environ, **job, "RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
    return [(rank.returncode, output) for rank, output in zip(ranks, outputs)]


# NCCL takes ranks with such names of their own for ranks of hosts of their own, and so two on one GPU.
THROUGH_NCCL = {"SULLAE_DEVICE_TRANSPORT": "nccl", "NCCL_HOSTID": "RANK", "NCCL_SOCKET_IFNAME": "lo"}


if __name__ == "__main__":
    if os.environ.get("NCCL_HOSTID") == "RANK":
        os.environ["NCCL_HOSTID"] = "host" + os.environ["SULLAE_RANK"]
    sys.path.insert(0, HERE)
    getattr(importlib.import_module(sys.argv[1]), sys.argv[2]).on_a_rank()
