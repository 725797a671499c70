"""Training that goes on while ranks come and go, with Horovod's names: ``sullae run --min-np 2 --max-np 8 python train.py``.

    @hvd.elastic.run
    def train(state):
        for state.epoch in range(state.epoch, 10):
            state.sampler.set_epoch(state.epoch)
            for state.batch, (x, y) in enumerate(loader):
                …
                state.sampler.record_batch(state.batch, len(x))
                state.commit()

    sampler = hvd.elastic.ElasticSampler(dataset)
    train(hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, batch=0))

In a job that is not elastic ``train`` is called once."""

import copy
import functools
import math
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Sized

import torch

from .. import _core, init, shutdown, world
from ..errors import Error, TimeoutError  # noqa: A004
from .collectives import allgather
from .objects import broadcast_object, broadcast_optimizer_state, broadcast_parameters
from . import optimizer as optimizers
from .optimizer import _DistributedOptimizer

HorovodInternalError = Error


class HostsUpdatedInterrupt(RuntimeError):
    """Raised by ``commit()`` and ``check_host_updates()`` on all ranks where some come or go: let it through."""


class ElasticSampler(torch.utils.data.Sampler):
    """This rank's share of what is left of an epoch: after a change of ranks, of the samples that were not recorded. The order
    depends on ``seed`` and the epoch alone."""

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0):
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """At the beginning of an epoch, or at the end of one, with whichever number; of the one that is under way it changes nothing."""
        is_over = self._has_recorded and self.processed_num >= len(self.dataset)
        if epoch == self.epoch and not is_over:
            return
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """All ranks have done a batch of so many samples each. Before ``commit()``."""
        self.processed_num += batch_size * self.num_replicas
        self._has_recorded = True

    def record_indices(self, indices: Sequence[int]) -> None:
        """The same of a batch of these samples, of which each rank has as many of its own next ones."""
        self.record_batch(0, len(indices))

    def get_indices(self, batch_idx: int, batch_size: int) -> List[int]:
        """This rank's samples of a batch, counted since reset()."""
        return self.indices[batch_idx * batch_size : (batch_idx + 1) * batch_size]

    @property
    def processed_indices(self) -> Set[int]:
        """The epoch's samples that were recorded, on all ranks."""
        return set(self._order()[: self.processed_num])

    @property
    def remaining_indices(self) -> List[int]:
        """Those that were not."""
        return self._order()[self.processed_num :]

    def _order(self) -> List[int]:
        if not self.shuffle:
            return list(range(len(self.dataset)))
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        return torch.randperm(len(self.dataset), generator=generator).tolist()

    def reset(self) -> None:
        """Shares what is left among the ranks that there are now."""
        from . import rank, size
        from .. import is_initialized

        self.rank, self.num_replicas = (rank(), size()) if is_initialized() else (0, 1)
        self._has_recorded = False  # what was recorded before, of an epoch that was done then, is not done again
        left = self.remaining_indices
        # Equally many on all ranks: some twice where they do not divide evenly.
        self.num_samples = math.ceil(len(left) / self.num_replicas)
        total = self.num_samples * self.num_replicas
        while left and len(left) < total:
            left += left[: total - len(left)]
        self.indices = left[self.rank : total : self.num_replicas]

    def state_dict(self) -> Dict[str, int]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state: Dict[str, int]) -> None:
        self.epoch, self.processed_num = state["epoch"], state["processed_num"]
        self.reset()

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples


class State:
    """What all ranks have alike after each ``commit()``; every keyword is an attribute."""

    def __init__(self, **attributes: Any):
        self._commits = 0
        self._is_new = True  # nothing of a world is here
        self._reset_callbacks: List[Callable[[], None]] = []
        self._names = sorted(attributes)
        for name, value in attributes.items():
            setattr(self, name, value)
        self._saved: Dict[str, Any] = {}

    def register_reset_callbacks(self, callbacks: List[Callable[[], None]]) -> None:
        """Called on ranks that stay when others have come or gone, before training goes on: to scale a learning rate, say."""
        self._reset_callbacks.extend(callbacks)

    def commit(self) -> None:
        """What is here is what all ranks go back to where one is lost. Raises HostsUpdatedInterrupt, on all ranks, where some
        come or go."""
        self._commits += 1
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt, on all ranks, where some come or go. Call it on all of them, after the same step."""
        member = _core.elastic_member()
        if member is not None and allgather(torch.tensor([int(member.wants_out())]), "elastic.wants_out").any():
            raise HostsUpdatedInterrupt("ranks come or go")

    def save(self) -> None:
        """A copy of what is here."""
        self._saved = copy.deepcopy({name: getattr(self, name) for name in self._names})

    def restore(self) -> None:
        """As of the last ``commit()``."""
        for name, value in self._saved.items():
            setattr(self, name, copy.deepcopy(value))

    def sync(self) -> None:
        """Ranks that are behind, or new, get what the first of those that are not has."""
        own = -1 if self._is_new else self._commits
        commits = allgather(torch.tensor([own]), "elastic.commits")
        if self._is_new or bool((commits != own).any()):
            root = int(commits.argmax())
            # Who is given a part of it, and not the rest, has nothing.
            self._is_new = self._is_new or own < int(commits[root])
            self._take_from(root)
            self._commits = max(int(commits[root]), 0)
        self._is_new = False
        self.save()

    def _take_from(self, root: int) -> None:
        told = broadcast_object({name: getattr(self, name) for name in self._names}, root, "elastic.state")
        for name, value in told.items():
            setattr(self, name, value)

    def reset(self) -> None:
        """Called on ranks that stay before the callbacks: for who makes a State of his own."""

    def on_reset(self) -> None:
        self.reset()
        for callback in self._reset_callbacks:
            callback()


ObjectState = State


class TorchState(State):
    """State with a model, an optimizer, and more of both, samplers, and all else that has a state_dict(), which are keywords as
    anything else is."""

    def __init__(
        self, model: Optional[torch.nn.Module] = None, optimizer: Optional[torch.optim.Optimizer] = None, **attributes: Any
    ):
        self.model, self.optimizer = model, optimizer
        samplers = {name: value for name, value in attributes.items() if hasattr(value, "load_state_dict")}
        self._sampler_names = list(samplers)  # another may take its place
        self._saved_parts: Dict[str, Any] = {}  # nothing before the first save(), which the first sync() may not reach
        super().__init__(**{name: value for name, value in attributes.items() if name not in samplers})
        for name, sampler in samplers.items():
            setattr(self, name, sampler)

    @property
    def _samplers(self) -> Dict[str, Any]:
        return {name: getattr(self, name) for name in self._sampler_names}

    def _parts(self) -> Dict[str, Any]:
        parts = {"model": self.model, "optimizer": self.optimizer, **self._samplers}
        return {name: part for name, part in parts.items() if part is not None}

    def save(self) -> None:
        super().save()
        self._saved_parts = {name: copy.deepcopy(part.state_dict()) for name, part in self._parts().items()}

    def restore(self) -> None:
        super().restore()
        for name, part in self._parts().items():
            if name in self._saved_parts:
                part.load_state_dict(copy.deepcopy(self._saved_parts[name]))

    def sync(self) -> None:
        super().sync()
        self._share_samples()

    def _share_samples(self) -> None:
        """What is left of the epoch, among the ranks that there are."""
        for sampler in self._samplers.values():
            # What others have by this name, such as metrics, throws away what was gathered.
            if isinstance(sampler, ElasticSampler):
                sampler.reset()

    def _take_from(self, root: int) -> None:
        super()._take_from(root)
        if self.model is not None:
            broadcast_parameters(self.model.state_dict(), root)
        if self.optimizer is not None:
            broadcast_optimizer_state(self.optimizer, root)
        for name, sampler in self._samplers.items():
            sampler.load_state_dict(broadcast_object(sampler.state_dict(), root, f"elastic.{name}"))

    def on_reset(self) -> None:
        # As new ranks make theirs, since that is collective.
        optimizers = (part for part in self._parts().values() if isinstance(part, _DistributedOptimizer))
        for optimizer in sorted(optimizers, key=lambda one: one._number):
            optimizer.world_changed()
        self._share_samples()
        super().on_reset()


def run(train: Callable) -> Callable:
    """Decorates ``train(state, …)``, which is called again, from the last ``commit()``, whenever ranks have come or gone. What is
    made from a world, such as process sets, is made within it; each ``DistributedOptimizer`` and sampler that ``state`` has goes on. A
    process that was asked to go (SIGTERM) ends. Exceptions that are not of a world's failure come out."""

    @functools.wraps(train)
    def wrapped(state: State, *args: Any, **kwargs: Any) -> Any:
        member = _core.elastic_member()
        if member is None:
            init()
            state.sync()
            return train(state, *args, **kwargs)
        stayed = False
        while True:
            if not _core.join_elastic(member):
                sys.exit(0)
            init()
            try:
                optimizers.in_elastic_run = True
                if stayed:
                    state.on_reset()
                optimizers.make_waiting_ones()
                state.sync()
                return train(state, *args, **kwargs)
            except HostsUpdatedInterrupt:  # on all ranks, after the same step
                reason = ""
                state._commits += 1
                state.save()
            except Exception as error:  # of the world, or it goes on its way
                reason = str(error) or type(error).__name__
                if isinstance(error, TimeoutError):  # of an operation that a rank has not joined, which hangs
                    _core.fail(world(), reason)
                elif not _core.has_failed(world()):
                    raise
                state.restore()
            finally:
                optimizers.in_elastic_run = False
            # Of a world that has failed the launcher may need this one once more, for its state.
            goes = not reason and member.leaves()
            member.world_ended(reason)
            shutdown()
            if goes:
                member.leave()
                sys.exit(0)
            stayed = True

    return wrapped
