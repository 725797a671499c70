"""Which samples this rank trains on."""

from typing import Iterator, Optional, Sized

import torch

from .. import _core
from .process_sets import ProcessSet, global_process_set


class DistributedSampler(torch.utils.data.Sampler):
    """This rank's share of a data set's indices; all ranks together cover it. For ``DataLoader(dataset, sampler=…)``.

    Call ``set_epoch()`` before each epoch: the order depends on it and on ``seed``, and is the same on every rank, in Python
    and in C++. Without ``drop_last`` some samples are repeated where they do not divide evenly, so that all ranks have
    equally many. ``block`` consecutive samples go to one rank: with the rank's batch size there, the ranks' batches of a
    step together are what one process would take. ``num_replicas`` and ``rank``, as torch's sampler has them, stand for what
    ``process_set`` says."""

    def __init__(
        self,
        dataset: Sized,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        block: int = 1,
        process_set: ProcessSet = global_process_set,
        *,
        num_replicas: Optional[int] = None,
        rank: Optional[int] = None,
    ):
        self._sampler = _core.DistributedSampler(
            len(dataset),
            process_set.rank() if rank is None else rank,
            process_set.size() if num_replicas is None else num_replicas,
            shuffle,
            seed,
            drop_last,
            block,
        )

    def set_epoch(self, epoch: int, taken: int = 0) -> None:
        """Before the epoch's first sample. ``taken``: so many of its samples, of all ranks together, were trained on before, by however
        many ranks: what is divided among the ranks is the rest."""
        self._sampler.set_epoch(epoch, taken)

    def __iter__(self) -> Iterator[int]:
        return iter(self._sampler.indices())

    def __len__(self) -> int:
        return len(self._sampler.indices())
