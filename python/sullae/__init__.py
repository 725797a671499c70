"""Sullae: distributed deep learning. ``import sullae.torch as hvd`` is what most programs want."""

import atexit as _atexit
import os as _os
import sys as _sys
from typing import Callable, List, Optional

try:
    import torch as _torch  # its libraries, which ours need
except ImportError as error:
    raise ImportError(
        "sullae needs torch, which cannot be imported here: pip install torch, then install sullae again"
    ) from error

from . import _build
from .errors import CheckpointError, Error, InputError, MismatchError, PeerError, TimeoutError  # noqa: A004

if _torch.__version__.split("+")[0] != _build.TORCH_VERSION.split("+")[0]:
    raise ImportError(
        f"sullae was built for torch {_build.TORCH_VERSION}, and this is torch {_torch.__version__}: build it for this "
        "one: pip install --force-reinstall --no-deps --no-cache-dir <where you have sullae's source>"
    )

from . import _core  # noqa: E402

__version__ = _core.__version__

World = _core.World

from .run_log import RunLog  # noqa: E402

__all__ = [
    "CheckpointError",
    "Error",
    "InputError",
    "MismatchError",
    "PeerError",
    "RunLog",
    "TimeoutError",
    "World",
    "cross_rank",
    "cross_size",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "rank",
    "shutdown",
    "size",
    "world",
]

_before_leaving: List[Callable[[], None]] = []  # what ends with the world, and before it
_joined_by: Optional[int] = None  # the process; a fork of it has no world


def init() -> World:
    """Joins the world that the environment describes: ``sullae run``'s, torchrun's, mpirun's, srun's; without any, a world
    of one. A second call returns the same world. Call it from the main thread, before the first collective. In an elastic job, a
    process that is asked to end before there is a world for it, since the job is done, ends here.

    Raises TimeoutError that names the rank which did not come, InputError for variables that cannot be."""
    global _joined_by
    member = _core.elastic_member()
    if member is not None and not _core.join_elastic(member):
        _sys.exit(0)
    joined = _core.init()
    if _joined_by is None:
        _atexit.register(_leave_at_exit)
    _joined_by = _os.getpid()
    if joined.size > 1:
        # A launcher reads the output through a pipe: whole lines as they are written, and none lost when a rank is killed.
        for stream in (_sys.stdout, _sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(line_buffering=True)
    return joined


def shutdown() -> None:
    """Completes what was submitted and leaves the world, so that ``init()`` may be called again. Done at exit by itself."""
    for leave in _before_leaving:
        leave()
    _core.shutdown()
    _core.let_go()


def _leave_at_exit() -> None:
    if _joined_by != _os.getpid():
        return
    # An exception has ended the program: who waits for this rank is told so, and not that it has left.
    error = None if hasattr(_sys, "ps1") else getattr(_sys, "last_value", None)
    try:
        if error is not None and _core.is_initialized() and not _core.has_failed(_core.world()):
            _core.fail(_core.world(), f"{type(error).__name__}: {error}")
    finally:
        shutdown()


def is_initialized() -> bool:
    """Whether ``init()`` was called, and ``shutdown()`` was not."""
    return _core.is_initialized()


def world() -> World:
    """The world that ``init()`` joined. Raises Error before."""
    return _core.world()


def rank() -> int:
    """This process's number among all, from 0."""
    return _core.world().rank


def size() -> int:
    """The number of processes."""
    return _core.world().size


def local_rank() -> int:
    """This process's number among those of its host: the GPU to take."""
    return _core.world().local_rank


def local_size() -> int:
    """The number of processes on this host."""
    return _core.world().local_size


def cross_rank() -> int:
    """The host's number among the hosts."""
    return _core.world().cross_rank


def cross_size() -> int:
    """The number of hosts."""
    return _core.world().cross_size


def process_set(ranks: List[int]) -> Optional[World]:
    """A world of some of the ranks; None on ranks that are not in it. Collective: all ranks give the same ranks."""
    return _core.world().process_set(ranks)
