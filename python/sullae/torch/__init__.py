"""Sullae for PyTorch, with Horovod's names:

    import sullae.torch as hvd

    hvd.init()
    sampler = hvd.DistributedSampler(dataset)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

Start it with ``sullae run -np 4 python train.py``, torchrun, mpirun or srun, or alone."""

from typing import Optional, Sequence, Union

from .. import (
    CheckpointError,
    Error,
    InputError,
    MismatchError,
    PeerError,
    TimeoutError,  # noqa: A004
    _core,
    cross_rank,
    cross_size,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
    world,
)
from .. import init as _init
from .collectives import (
    Handle,
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
    poll,
    reducescatter,
    reducescatter_async,
    sparse_allreduce_async,
    synchronize,
)
from .compression import Compression, Compressor
from .joining import join
from .objects import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from .optimizer import DistributedOptimizer
from .process_sets import ProcessSet, add_process_set, global_process_set, make_all, remove_process_set
from .reduce_ops import Adasum, Average, Max, Min, Product, ReduceOp, Sum
from .sampler import DistributedSampler
from .sync_batch_norm import SyncBatchNorm, convert_sync_batchnorm
from . import elastic  # noqa: E402

#: What Horovod calls the errors of ranks that cannot go on together.
HorovodInternalError = Error


def init(comm: Optional[Sequence[int]] = None, process_sets: Union[Sequence[ProcessSet], str, None] = None) -> None:
    """Joins the world; see sullae.init(). ``process_sets`` are made at once; "dynamic" is taken for Horovod's sake: sets can
    always be added. ``comm``: none but the whole world."""
    if comm is not None and not (isinstance(comm, Sequence) and len(comm) == 0):
        raise InputError("init: comm: expected none: sub-worlds are process sets (process_sets=[…])")
    if not is_initialized():
        _init()
    if process_sets and not isinstance(process_sets, str):
        make_all(one for one in process_sets if not isinstance(one, ProcessSet) or one.process_set_id is None)


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Records what every rank does in one file that Perfetto and chrome://tracing open. Collective. ``mark_cycles`` is taken
    for Horovod's sake."""
    world().start_timeline(file_path)


def stop_timeline() -> None:
    """Ends the record, and writes it. Collective."""
    world().stop_timeline()


def is_homogeneous() -> bool:
    """Whether all hosts have equally many ranks."""
    return world().is_homogeneous


def mpi_built() -> bool:
    """Whether MPI can move the bytes: ``SULLAE_TRANSPORT=mpi``."""
    return _has("MPI")


def mpi_enabled() -> bool:
    """Whether MPI moves them now."""
    return is_initialized() and "mpi" in world().backend


def mpi_threads_supported() -> bool:
    """Whether several threads may call: always."""
    return True


def nccl_built() -> int:
    """Whether NCCL moves tensors on GPUs."""
    return int(_has("NCCL"))


def cuda_built() -> bool:
    """Whether this build knows GPUs."""
    return _has("NCCL")


def gloo_built() -> bool:
    """Never: what Horovod does with Gloo, Sullae does itself."""
    return False


def gloo_enabled() -> bool:
    """Never."""
    return False


def ccl_built() -> bool:
    """Never."""
    return False


def ddl_built() -> bool:
    """Never."""
    return False


def rocm_built() -> bool:
    """Never."""
    return False


def _has(part: str) -> bool:
    return part in _core.parts.split(";")[0]


__all__ = [name for name in dir() if not name.startswith("_")]
