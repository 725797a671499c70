"""A backend for torch.distributed: DDP, FSDP, Lightning, Accelerate over Sullae, on CPUs.

    import sullae.c10d
    torch.distributed.init_process_group("sullae")            # or "cpu:sullae,cuda:nccl"

Every collective of torch.distributed, blocking and asynchronous, with point-to-point messages and groups. Groups' limit is
``timeout=`` of init_process_group() and new_group(). Errors are sullae's: PeerError knows the rank, of the group. What DDP meets
in backward() leaves that as torch's RuntimeError, whatever the backend; the next call of torch.distributed raises it again."""

import atexit
import contextlib
import datetime
import ipaddress
import os
import socket
from typing import Optional

import torch.distributed as dist

from . import _core
from .errors import Error, InputError

if not hasattr(_core, "c10d_backend"):
    raise ImportError("sullae.c10d needs torch 2: this one knows no backends but its own")


_LOOPBACK = "127.0.0.1"


def _address_towards(host: str) -> Optional[str]:
    try:
        known = socket.getaddrinfo(host.strip("[]"), 9, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    for family, kind, protocol, _, address in known:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # sends nothing
            return probe.getsockname()[0].partition("%")[0]
    return None


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def _with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _own_address(master: Optional[str]) -> str:
    """By which ranks that reach ``master`` reach this host: what is no loopback, unless ``master`` is, or there is no other."""
    if master in ("localhost", _LOOPBACK, "::1"):
        return _LOOPBACK
    # A host may know itself by 127.0.1.1. 192.0.2.1 and 2001:db8::1 are nobody's (RFC 5737, 3849): the way there is that of the
    # default route.
    for host in (master, socket.gethostname(), "192.0.2.1", "2001:db8::1"):
        address = _address_towards(host) if host else None
        if address is not None and not _is_loopback(address):
            return address
    return _LOOPBACK


def _told_address(told: str) -> str:
    """Of what the first rank has told: its address and its host's name."""
    address, host = told.split()
    if _is_loopback(address.rpartition(":")[0].strip("[]")) and host != socket.gethostname():
        raise InputError(
            f"torch.distributed with sullae: the group's first rank, on {host}, has found no address but {address}, by which "
            f"{socket.gethostname()} does not reach it: set MASTER_ADDR to one of its addresses that does"
        )
    return address


_last_store = []  # of the first rank of the job's last group


def _create(options, _backend_options):
    store, rank, size = options.store, options.group_rank, options.group_size
    server, address = None, ""
    if rank == 0 and not dist.is_initialized():
        # The next one on its port shares its server: others may still read in that of one group when the next begins.
        _last_store[:] = [store]
    if size > 1:
        # torchrun's store outlives groups, and numbers them anew after destroy_process_group().
        key = f"sullae/store/{store.add(f'sullae/joined/{rank}', 1)}"
        if rank == 0:
            host = _own_address(os.environ.get("MASTER_ADDR"))
            server = _core.StoreServer(_with_port(host, 0))
            address = _with_port(host, server.port)
            store.set(key, f"{address} {socket.gethostname()}")
        else:
            address = _told_address(store.get(key).decode())
    # The first group is the job's world; others are parts of it.
    return _core.c10d_backend(rank, size, address, options.timeout, server, is_job=not dist.is_initialized())


def _describe_job() -> None:
    """init_process_group() reads torchrun's variables: under ``sullae run``, which has others, they are made of those. An address alone
    is a batch system's, for whoever starts ranks by hand."""
    place = os.environ
    if "SULLAE_RANK" not in place or {"RANK", "MASTER_ADDR"} <= place.keys():
        return
    names = {"RANK": "RANK", "WORLD_SIZE": "SIZE", "LOCAL_RANK": "LOCAL_RANK", "LOCAL_WORLD_SIZE": "LOCAL_SIZE"}
    for theirs, ours in names.items():
        if f"SULLAE_{ours}" in place:
            place.setdefault(theirs, place[f"SULLAE_{ours}"])
    address = place.get("SULLAE_STORE", "")
    store = _core.Store(address) if place.get("SULLAE_SIZE", "1") != "1" else None
    if place["SULLAE_RANK"] == "0":
        host = "localhost" if address.startswith("unix:") or not address else _own_address(address.rsplit(":", 1)[0])
        with socket.socket() as free:
            free.bind(("", 0))
            master = _with_port(host, free.getsockname()[1])
        if store is not None:
            store.set("torch/master", master)
    else:
        master = store.get("torch/master")
    host, _, place["MASTER_PORT"] = master.rpartition(":")
    place["MASTER_ADDR"] = host.strip("[]")


# Those of a program that ends with an exception, or without destroy_process_group().
atexit.register(_core.end_groups, datetime.timedelta(seconds=10))
_describe_job()
dist.Backend.register_backend("sullae", _create, extended_api=True, devices=["cpu"])

__all__ = ["Error"]
