"""Sullae for Keras 3 on torch, with Horovod's names:

    import keras
    import sullae.keras as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size()))
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy")
    model.fit(x[hvd.rank() :: hvd.size()], y[hvd.rank() :: hvd.size()],
              callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

Start it with ``sullae run -np 4 python train.py``, torchrun, mpirun or srun, or alone. Where neither KERAS_BACKEND nor an
import of keras has chosen a backend before, this import chooses torch."""

import os as _os
import sys as _sys

if "keras" not in _sys.modules:
    _os.environ.setdefault("KERAS_BACKEND", "torch")

try:
    import keras as _keras
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"sullae.keras needs Keras 3 on torch: {error}: pip install 'keras>=3', and set KERAS_BACKEND=torch") from error

if not hasattr(_keras, "config") or _keras.backend.backend() != "torch":
    _found = f"Keras {_keras.__version__} on {_keras.backend.backend()}"
    raise ImportError(f"sullae.keras: this is {_found}: expected Keras 3 on torch: set KERAS_BACKEND=torch before keras is imported")

from ..torch import (  # noqa: E402
    Adasum,
    Average,
    Compression,
    Compressor,
    DistributedSampler,
    Error,
    InputError,
    Max,
    Min,
    MismatchError,
    PeerError,
    ProcessSet,
    Product,
    Sum,
    TimeoutError,  # noqa: A004
    add_process_set,
    allgather_object,
    barrier,
    broadcast_object,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    global_process_set,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    remove_process_set,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from . import callbacks  # noqa: E402
from .collectives import allgather, allreduce, broadcast, broadcast_variables, reducescatter  # noqa: E402
from .optimizer import DistributedOptimizer, PartialDistributedOptimizer, load_model  # noqa: E402

__all__ = [name for name in dir() if not name.startswith("_")]
