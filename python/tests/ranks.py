"""Runs a test on several ranks: each test function is started again by ``sullae run``, in processes of its own."""

import functools
import importlib
import os
import subprocess
import sys
from typing import Callable, Dict, Optional

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


# NCCL takes ranks with such names of their own for ranks of hosts of their own, and so two on one GPU.
THROUGH_NCCL = {"SULLAE_DEVICE_TRANSPORT": "nccl", "NCCL_HOSTID": "RANK", "NCCL_SOCKET_IFNAME": "lo"}


if __name__ == "__main__":
    if os.environ.get("NCCL_HOSTID") == "RANK":
        os.environ["NCCL_HOSTID"] = "host" + os.environ["SULLAE_RANK"]
    sys.path.insert(0, HERE)
    getattr(importlib.import_module(sys.argv[1]), sys.argv[2]).on_a_rank()
