"""The end of a rank's data, where others have more."""

from .. import _core
from ..errors import InputError
from .optimizer import of_all_ranks


def join(device: int = -1) -> int:
    """This rank has run out of data: until every rank has said so, it takes part in the others' sums with zeros, and makes the
    steps of the DistributedOptimizer of all ranks, if there is one, with gradients of zero. In the end that optimizer's parameters
    and state are those of the last rank to join, which has made its steps with all that the program does around them; buffers and
    schedules are each rank's own. Returns the rank that joined last. ``device`` is taken for Horovod's sake.

    Raises InputError where there are several such optimizers, whose steps have no order that it could know."""
    optimizers = of_all_ranks()
    if len(optimizers) > 1:
        raise InputError(
            f"join: {len(optimizers)} distributed optimizers of all ranks: expected one, whose steps to follow: call "
            "optimizer.join() of the one that the other ranks step, or let ranks have equally many batches"
        )
    for optimizer in optimizers:
        optimizer.check_can_follow()
    # Sums and steps come in an order of the others' own, so both are served at once; sums in the background.
    joined = _core.world().join_async()
    last = [optimizer.follow() for optimizer in optimizers]
    joined.wait()
    for optimizer, rank in zip(optimizers, last):
        optimizer.take_from(rank)
    return last[0] if last else joined.source
