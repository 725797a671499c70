"""Collectives on tensors, with Horovod's names. Those without ``_async`` wait; those with ``_`` at the end work in place.

Ranks that use the same name mean the same operation of that kind, which starts when all have submitted it, whatever the
order; without names, operations of a kind are matched in the order in which each rank submits them. Results are tensors of the same
device; gradients flow through the collectives that wait and are not in place.

Each raises MismatchError where ranks disagree (on shapes, types, operations, roots), PeerError where a rank died or left,
TimeoutError where one did not come, and InputError for what cannot be done."""

from ..process_sets import ProcessSet, global_process_set
from .allgather import allgather, allgather_async, grouped_allgather, grouped_allgather_async
from .allreduce import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    sparse_allreduce_async,
)
from .alltoall import alltoall, alltoall_async
from .broadcast import broadcast, broadcast_, broadcast_async, broadcast_async_
from .handle import Handle, poll, synchronize
from .reducescatter import grouped_reducescatter, grouped_reducescatter_async, reducescatter, reducescatter_async


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the set has called it."""
    process_set.world().barrier_async().wait()


__all__ = [
    "Handle",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "poll",
    "reducescatter",
    "reducescatter_async",
    "sparse_allreduce_async",
    "synchronize",
]
