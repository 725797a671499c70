"""Groups of ranks that compute together, with Horovod's names."""

import operator
from typing import Iterable, List, Optional, Sequence, Union

from .. import _before_leaving, _core
from ..errors import Error, InputError


class ProcessSet:
    """Some of the ranks, given in any order. It can be used once ``init(process_sets=[…])`` or ``add_process_set()`` has made
    it, on every rank in the same order. Ranks in arguments, such as ``root_rank``, remain those of the whole world."""

    def __init__(self, ranks: Sequence[int]):
        try:
            ranks = sorted(operator.index(rank) for rank in ranks)  # NumPy's, too
        except TypeError:
            raise InputError(f"ProcessSet: {ranks!r}: expected a list of ranks") from None
        self.ranks: Optional[List[int]] = ranks
        self.process_set_id: Optional[int] = None
        self._world: Optional[_core.World] = None

    def size(self) -> Optional[int]:
        """The number of its ranks; None before it is made."""
        return None if self.process_set_id is None else len(self.ranks)

    def rank(self) -> Optional[int]:
        """This process's number in it; None before it is made and where this process is not in it."""
        if self.process_set_id is None or not self.included():
            return None
        return self.ranks.index(_core.world().rank)

    def included(self) -> Optional[bool]:
        """Whether this process is in it."""
        return None if self.ranks is None else _core.world().rank in self.ranks

    def takes_part(self) -> bool:
        """Whether this process is in it. Raises InputError before init(), when nobody knows."""
        return _core.world().rank in (self.ranks or ())

    def world(self) -> _core.World:
        """The world of its ranks. Raises InputError where it was not made, or this process is not in it."""
        if self.process_set_id is None:
            raise InputError(f"{self}: it is not made: give it to init(process_sets=[…]) or to add_process_set()")
        if self._world is None:
            raise InputError(f"{self}: rank {_core.world().rank} is not in it")
        return self._world

    def place_of(self, rank: int) -> int:
        """The number in it of the world's rank ``rank``."""
        if rank not in self.ranks:
            raise InputError(f"{self}: rank {rank} is not in it")
        return self.ranks.index(rank)

    def __deepcopy__(self, _) -> "ProcessSet":
        return self  # of a model with such a set in it: ranks are not copied

    def __reduce__(self):
        return _set_of, (self.ranks,)

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


class _GlobalProcessSet(ProcessSet):
    """All ranks of the world that ``init()`` joined."""

    def __init__(self):
        self.process_set_id = 0

    @property
    def ranks(self) -> Optional[List[int]]:
        return list(range(_core.world().size)) if _core.is_initialized() else None

    def size(self) -> Optional[int]:
        return _core.world().size

    def rank(self) -> Optional[int]:
        return _core.world().rank

    def world(self) -> _core.World:
        return _core.world()

    def place_of(self, rank: int) -> int:
        try:
            return operator.index(rank)
        except TypeError:
            raise InputError(f"rank {rank!r}: expected a number") from None

    def __reduce__(self):
        return "global_process_set"


global_process_set = _GlobalProcessSet()


def world_of(process_set: ProcessSet) -> _core.World:
    """Raises InputError for what is no process set, or one that this process cannot use."""
    if not isinstance(process_set, ProcessSet):
        raise InputError(f"process_set: {process_set!r}: expected a ProcessSet, as add_process_set([…]) returns")
    return process_set.world()


_made: List[ProcessSet] = []
_next_id = 1


def _set_of(ranks: List[int]) -> ProcessSet:
    """The one that is made of them, if there is one."""
    return next((one for one in _made if one.ranks == ranks), None) or ProcessSet(ranks)


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Makes a set, at any time. Collective: every rank gives the same ranks. Raises InputError where one of the same ranks is
    there already."""
    global _next_id
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    known = [other.ranks for other in _made] + [global_process_set.ranks]
    if process_set.ranks in known:
        raise InputError(f"{process_set}: there is a process set of these ranks already")
    process_set._world = _core.world().process_set(process_set.ranks)
    process_set.process_set_id = _next_id
    _next_id += 1
    _made.append(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Ends a set, on every rank. False for the world's, and for one that was not made."""
    if process_set not in _made:
        return False
    _made.remove(process_set)
    _end(process_set)
    return True


def _end(process_set: ProcessSet) -> None:
    process_set.process_set_id = None
    world, process_set._world = process_set._world, None
    if world is not None:
        try:
            world.leave()  # without the interpreter's lock, which its end would keep
        except Error:
            pass  # the world has failed; what it said was said where it failed


def make_all(process_sets: Iterable[Union[ProcessSet, Sequence[int]]]) -> None:
    for process_set in process_sets:
        add_process_set(process_set)


def forget_all() -> None:
    """The world has ended, and its sets with it."""
    global _next_id
    for process_set in _made:
        _end(process_set)
    _made.clear()
    _next_id = 1


_before_leaving.append(forget_all)
