"""Gradients averaged over ranks around any optimizer of torch.optim."""

import contextlib
import functools
import itertools
import warnings
import weakref
from typing import TYPE_CHECKING, Callable, Iterable, List, Optional, Tuple, Type, Union

import torch

from .. import _core
from ..errors import Error, InputError
from .compression import Compression, Compressor
from .process_sets import ProcessSet, global_process_set
from .reduce_ops import Adasum, Average, ReduceOp, chosen

NamedParameters = Iterable[Tuple[str, torch.Tensor]]

_numbers = itertools.count()
_of_all_ranks: "weakref.WeakSet[_DistributedOptimizer]" = weakref.WeakSet()
in_elastic_run = False


def of_all_ranks() -> List["_DistributedOptimizer"]:
    """Those that there are of the world that this process is in, and not of some of its ranks."""
    return [optimizer for optimizer in _of_all_ranks if optimizer._world is not None and not optimizer._world.has_left]


def make_waiting_ones() -> None:
    """Makes those for the world that were made before elastic.run had one. Collective."""
    waiting = [optimizer for optimizer in _of_all_ranks if optimizer._world is None]
    for optimizer in sorted(waiting, key=lambda one: one._number):
        optimizer.world_changed()


class _DistributedOptimizer(torch.optim.Optimizer if TYPE_CHECKING else object):
    """What DistributedOptimizer() adds to a class of optimizers."""

    _gradients: Optional[_core.DistributedGradients]
    _make_gradients: Callable[[List[Tuple[str, torch.Tensor]], int, _core.World], _core.DistributedGradients]
    _process_set: Optional[ProcessSet]  # None where this process is not in it
    _named: List[Tuple[str, torch.Tensor]]
    _frozen: List[torch.Tensor]
    _synchronizes: bool
    _evaluates: bool  # the model several times a step, as LBFGS does
    _world: Optional[_core.World]  # None before it is made for one
    backward_passes_per_step: int
    _number: int  # tells in which order this process made its optimizers

    def synchronize(self) -> None:
        """Waits until every gradient is the average over all ranks. After ``backward()`` they are: this is for gradients that
        came otherwise, and for scripts that call it before clipping."""
        if self._is_distributed():
            self._gradients.synchronize()

    @contextlib.contextmanager
    def skip_synchronize(self):
        """``step()`` within it takes gradients as they are."""
        self._synchronizes = False
        try:
            yield
        finally:
            self._synchronizes = True

    def step(self, closure=None):
        """Averages gradients, unless that was done, and takes the optimizer's step; of several that ``closure`` computes,
        each."""
        if not self._is_distributed():
            return super().step(closure)
        if closure is None or not self._synchronizes:
            if self._synchronizes:
                self._gradients.synchronize()
            result = super().step(closure)
        else:
            evaluations = itertools.count()

            def averaged():
                next(evaluations)
                loss = closure()
                self._gradients.synchronize()
                return loss

            result = super().step(averaged)
            self._evaluates = self._evaluates or next(evaluations) > 1
        self._gradients.stepped()
        return result

    # Of torch's hooks of steps, which call them around the optimizer's own: not once more around this one.
    step.hooked = True

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes all gradients, at any moment; with ``set_to_none=False`` they become zeros."""
        if self._is_distributed():
            if set_to_none:
                self._gradients.zero_grad()
            if any(parameter.requires_grad for parameter in self._frozen):
                self._listen()
        super().zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict) -> None:
        """As the optimizer's own. Collective: every rank adds the same parameters, between two steps."""
        super().add_param_group(param_group)
        if not self._is_distributed():
            return
        known = {id(p) for _, p in self._named}
        added = [p for p in self.param_groups[-1]["params"] if id(p) not in known]
        group = len(self.param_groups) - 1
        self._named = self._named + [(f"group {group} parameter {i}", p) for i, p in enumerate(added)]
        self._parameter_names.update({p: name for name, p in self._named})
        self._listen()

    def world_changed(self) -> None:
        """After init() has joined another world; ``elastic.run`` calls it. Collective there."""
        if self._process_set is not None:
            self._listen()

    def _is_distributed(self) -> bool:
        if self._process_set is not None and self._gradients is None:
            if self._world is None:
                raise Error("DistributedOptimizer: in an elastic job it is used in what elastic.run calls, which makes it for a world")
            raise Error(
                "DistributedOptimizer: the world failed while this was made for it: call world_changed(), on every rank of the next"
            )
        return self._process_set is not None

    def _listen(self) -> None:
        self._gradients = None  # which parameters belong to, one at a time
        self._world = self._process_set.world()
        self._gradients = self._make_gradients(self._named, self.backward_passes_per_step, self._world)
        self._frozen = [p for _, p in self._named if not p.requires_grad]

    def __reduce_ex__(self, protocol):
        raise TypeError(
            "a distributed optimizer can be neither copied nor pickled, since ranks take its steps together: "
            "save its state_dict(), and load that into one that was made by DistributedOptimizer()"
        )

    def join(self) -> int:
        """This rank has run out of data: until every rank has called it, it makes the others' steps with gradients of zero. What the
        program does around steps (clipping, schedules, a GradScaler) it cannot repeat, so in the end all ranks take the parameters
        and the optimizer's state of the last rank to join, which is returned. ``hvd.join()`` does that, and takes part in the
        others' collectives as well."""
        if not self._is_distributed():
            return 0
        last = self.follow()
        self.take_from(last)
        return last

    def follow(self) -> int:
        """The others' steps, up to those of the rank of its process set that is returned; see join()."""
        self.check_can_follow()
        return self._gradients.join(super().step, lambda: super(_DistributedOptimizer, self).zero_grad())

    def check_can_follow(self) -> None:
        if self._is_distributed() and self._evaluates:
            raise InputError(
                "join: steps evaluate the model several times, for which this rank has no data: expected as many steps on every rank"
            )

    def take_from(self, last: int) -> None:
        """What the rank ``last`` of its process set has become everybody's; see join()."""
        from .objects import broadcast_optimizer_state, broadcast_parameters

        root = self._process_set.ranks[last]
        broadcast_parameters(self._named, root, self._process_set)
        broadcast_optimizer_state(self, root, process_set=self._process_set)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """From the next step on; the same on every rank."""
        if self._is_distributed():
            self._gradients.set_backward_passes_per_step(passes)
        self.backward_passes_per_step = passes


def _named(optimizer, named_parameters: Optional[NamedParameters]) -> List[Tuple[str, torch.Tensor]]:
    updated = [p for group in optimizer.param_groups for p in group["params"]]
    if named_parameters is None:
        return [(f"parameter {i}", p) for i, p in enumerate(updated)]
    named = list(named_parameters)
    if any(not isinstance(item, tuple) or len(item) != 2 for item in named):
        raise InputError("named_parameters: expected pairs of a name and a parameter, as model.named_parameters() gives")
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise InputError(f"named_parameters: {', '.join(twice)} more than once: expected unique names")
    ids = {id(p) for _, p in named}
    missing = [p for p in updated if id(p) not in ids]
    if missing:
        raise InputError(
            f"named_parameters: the optimizer updates {len(missing)} parameters that have no name (the first of shape "
            f"{list(missing[0].shape)}): expected all of them, as model.named_parameters() gives"
        )
    lazy = [name for name, p in named if torch.nn.parameter.is_lazy(p)]
    if lazy:
        raise InputError(f"named_parameters: {lazy[0]} has no shape yet: expected a forward pass through the model before")
    own = {id(p) for p in updated}
    return [(name, p) for name, p in named if id(p) in own]


def _take_over_schedule(distributed: torch.optim.Optimizer) -> None:
    """A scheduler of learning rates that was made before counts the optimizer's steps in one of its own, which it has put in
    front of the optimizer's."""
    before = distributed.__dict__.pop("step", None)
    if before is None:
        return
    if not any(name in vars(before) for name in ("_wrapped_by_lr_sched", "_with_counter")):
        raise InputError(
            f"DistributedOptimizer: step() of the optimizer was replaced by {before!r}: expected to be called before that"
        )
    itself = weakref.ref(distributed)

    @functools.wraps(before)
    def step(*args, **kwargs):
        optimizer = itself()
        optimizer._opt_called = True
        optimizer._step_count = getattr(optimizer, "_step_count", 0) + 1
        return type(optimizer).step(optimizer, *args, **kwargs)

    distributed.step = step


def _check_groups(groups: Union[int, List[List[torch.Tensor]], None]) -> None:
    if groups is None:
        return
    if not isinstance(groups, list):
        if not isinstance(groups, int) or groups < 0:
            raise InputError("groups: expected a number that is not negative, or a list of lists of torch.Tensor")
        return
    seen = set()
    for group in groups:
        for parameter in group:
            if not isinstance(parameter, torch.Tensor):
                raise InputError(f"groups: a {type(parameter).__name__} in a group: expected torch.Tensor")
            if id(parameter) in seen:
                raise InputError("groups: a parameter more than once: expected each in one group")
            seen.add(id(parameter))


def compression_name(compression) -> str:
    if isinstance(compression, str):
        return compression
    name = getattr(compression, "name", None)
    if name is None:
        raise InputError(
            f"compression: {compression} has no name that C++ knows: expected Compression.none, .fp16, .bf16, or a name such as "
            '"topk:0.01"; a policy of your own is a class in C++ (sullae/compression.h)'
        )
    return name


def DistributedOptimizer(  # noqa: N802
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[NamedParameters] = None,
    compression: Union[Type[Compressor], Compressor, str] = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Union[int, List[List[torch.Tensor]], None] = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
    bucket_bytes: int = 4 << 20,
    overlap: bool = True,
    after_backward: bool = True,
) -> "_DistributedOptimizer":
    """``optimizer``, of the same class and with the same parameters and state, whose steps use the average of all ranks'
    gradients. Collective: every rank gives the same parameters, in the same order. What requires gradients later is taken in
    by the next ``zero_grad()``, and by ``add_param_group()``.

    Gradients travel in buckets while ``backward()`` computes the others, and are averages when it returns: clip them, look
    at them, or let a ``GradScaler`` unscale them without another call. ``loss.backward()`` may be called several times
    before ``step()``; ``backward_passes_per_step`` spares the reductions in between. ``zero_grad(set_to_none=True)`` is
    what torch does by default, and right. A gradient is memory of its bucket, which the next ``backward()`` writes to: keep its
    ``clone()``. ``backward()`` waits where it has reached a parameter of this optimizer; where models have an optimizer each,
    and ranks' losses reach different ones, call ``synchronize()`` of each, on every rank, before you look at gradients.

    ``compression``: Compression.fp16, .bf16, or a name such as "topk:0.01". ``op``: Average, Sum or Adasum.
    ``sparse_as_dense``: sparse gradients travel as dense ones. ``bucket_bytes``: see docs/tuning.md. ``after_backward=False`` leaves
    the wait to ``step()`` or ``synchronize()``, which call before you look at gradients: the way for models of which all trained
    layers are in reentrant activation checkpoints, whose every segment is a backward() of its own.
    ``gradient_predivide_factor``, ``groups`` and ``num_groups`` are taken for Horovod's sake: sums of 16-bit values are
    formed in 32 bits here, and buckets make groups by themselves."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError(f"DistributedOptimizer: a {type(optimizer).__name__}: expected a torch.optim.Optimizer")
    if isinstance(optimizer, _DistributedOptimizer):
        raise InputError("DistributedOptimizer: the optimizer is distributed already")
    op = chosen(op, None)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise InputError("gradient_predivide_factor: it divides an average, and op is another: expected op=Average")
    if num_groups != 0:
        warnings.warn("num_groups: use groups", DeprecationWarning, stacklevel=2)
    _check_groups(groups)
    # NumPy's numbers are numbers, too.
    if not hasattr(backward_passes_per_step, "__index__") or backward_passes_per_step <= 0:
        raise InputError(f"backward_passes_per_step: expected a number above 0, got {backward_passes_per_step!r}")
    if not hasattr(bucket_bytes, "__index__") or bucket_bytes < 0:
        raise InputError(f"bucket_bytes: expected a number that is not negative, got {bucket_bytes!r}")
    if op == Adasum and process_set is not global_process_set:
        raise NotImplementedError("Adasum is for all ranks: expected no process_set")
    named = _named(optimizer, named_parameters)

    kind = type(optimizer.__class__.__name__, (_DistributedOptimizer, optimizer.__class__), {})
    distributed = kind.__new__(kind)
    distributed.__dict__ = optimizer.__dict__  # its parameters, options, state and hooks
    distributed._synchronizes = True
    distributed._evaluates = False
    distributed._number = next(_numbers)
    distributed._parameter_names = {parameter: name for name, parameter in named}
    distributed._gradients = None
    distributed._process_set = None
    distributed._world = None
    distributed.backward_passes_per_step = backward_passes_per_step
    distributed._named = named
    distributed._frozen = []
    _take_over_schedule(distributed)
    if process_set.takes_part():
        options = (bucket_bytes, compression_name(compression), sparse_as_dense, overlap, after_backward)
        distributed._make_gradients = lambda parameters, passes, world: _core.DistributedGradients(parameters, op, passes, *options, world)
        distributed._process_set = process_set
        if process_set is global_process_set:
            _of_all_ranks.add(distributed)
        # In an elastic job ranks may be lost before they train: who is made before is made for a world by elastic.run.
        if _core.elastic_member() is None or in_elastic_run:
            distributed._listen()
    return distributed
