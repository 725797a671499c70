"""A backend for torch.distributed: DDP, FSDP, Lightning, Accelerate over Sullae, on CPUs.

    import sullae.c10d
    torch.distributed.init_process_group("sullae")            # or "cpu:sullae,cuda:nccl"

Every collective of torch.distributed, blocking and asynchronous, with point-to-point messages and groups. Groups' limit is
``timeout=`` of init_process_group() and new_group(). Errors are sullae's: PeerError knows the rank, of the group."""

import os
import socket

import torch.distributed as dist

from . import _core
from .errors import Error

if not hasattr(_core, "c10d_backend"):
    raise ImportError("sullae.c10d needs torch 2: this one knows no backends but its own")


def _own_address() -> str:
    """By which the other ranks reach this host."""
    master = os.environ.get("MASTER_ADDR", "localhost")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((master, 9))  # sends nothing
            return probe.getsockname()[0]
        except OSError:
            return socket.gethostbyname(socket.gethostname())


def _create(options, _backend_options):
    store, rank, size = options.store, options.group_rank, options.group_size
    server, address = None, ""
    if size > 1:
        if rank == 0:
            host = _own_address()
            server = _core.StoreServer(f"{host}:0")
            address = f"{host}:{server.port}"
            store.set("sullae/store", address)
        else:
            address = store.get("sullae/store").decode()
    return _core.c10d_backend(rank, size, address, options.timeout, server)


dist.Backend.register_backend("sullae", _create, extended_api=True, devices=["cpu"])

__all__ = ["Error"]
