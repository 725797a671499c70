"""Callbacks for ``fit()``, with Horovod's names. They go before those that look at metrics or learning rates (ReduceLROnPlateau,
TensorBoard, ModelCheckpoint), on every rank."""

from typing import Any, Callable, Dict, Iterable, Optional, Union

import keras
import torch

from .. import torch as hvd
from ..errors import InputError, MismatchError
from .collectives import broadcast_variables

Logs = Optional[Dict[str, Any]]


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """When training starts, weights and the optimizer's state become those of ``root_rank``, whether they are random or were
    loaded. ``local_variables`` stay as they are. Raises MismatchError on every rank where ranks would not make equally many
    steps an epoch: the others would wait for ever for the step that one does not make."""

    def __init__(
        self,
        root_rank: int,
        device: str = "",
        local_variables: Union[keras.Variable, Iterable[keras.Variable], None] = None,
    ):
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        local = [local_variables] if isinstance(local_variables, keras.Variable) else list(local_variables or [])
        if not all(isinstance(variable, keras.Variable) for variable in local):
            raise InputError("local_variables: expected variables of Keras")
        self._local = {id(variable) for variable in local}

    def on_train_begin(self, logs: Logs = None) -> None:
        self._expect_equal_steps()
        variables = self.model.weights + self.model.optimizer.variables
        broadcast_variables([v for v in variables if id(v) not in self._local], self.root_rank)

    def _expect_equal_steps(self) -> None:
        steps = hvd.allgather(torch.tensor([(self.params or {}).get("steps") or 0])).tolist()
        if len(set(steps)) > 1:
            told = ", ".join(f"rank {rank}: {count}" for rank, count in enumerate(steps))
            raise MismatchError(
                f"fit(): ranks make different numbers of steps an epoch ({told}): expected the same: give every rank equally "
                "many samples, or fit(steps_per_epoch=…)"
            )


class MetricAverageCallback(keras.callbacks.Callback):
    """At the end of an epoch, every metric becomes the average over all ranks, for the callbacks that come after this one."""

    def __init__(self, device: str = ""):
        super().__init__()
        self.device = device

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if not logs:
            return
        names = sorted(logs)
        averages = hvd.allreduce(torch.tensor([float(logs[name]) for name in names], dtype=torch.float64))
        logs.update(zip(names, averages.tolist()))


class LearningRateScheduleCallback(keras.callbacks.Callback):
    """The learning rate is ``initial_lr * multiplier(epoch)`` from ``start_epoch`` up to ``end_epoch``; ``multiplier`` is a function,
    or the base of an exponential decay. With ``staircase`` it is set when an epoch starts, else at every batch, with
    fractions of epochs, of ``steps_per_epoch`` batches (what ``fit()`` says unless given). ``momentum_correction``: the momentum of
    the one step at which the rate changes is scaled as the rate is (Goyal et al., https://arxiv.org/abs/1706.02677,
    section 2.1)."""

    def __init__(
        self,
        initial_lr: float,
        multiplier: Union[float, Callable[[float], float]],
        start_epoch: int = 0,
        end_epoch: Optional[int] = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
    ):
        super().__init__()
        if initial_lr is None:
            raise InputError("initial_lr: expected the learning rate that is multiplied")
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier ** (epoch - start_epoch)
        self._epoch = 0
        self._momentum: Optional[float] = None

    def on_train_begin(self, logs: Logs = None) -> None:
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = (self.params or {}).get("steps")
            if not self.steps_per_epoch:
                raise InputError(f"{type(self).__name__}: fit() does not know the steps of an epoch: expected steps_per_epoch=…")

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        if self._epoch < self.start_epoch or (self.end_epoch is not None and self._epoch >= self.end_epoch):
            return
        if not self.staircase:
            self._set(self._epoch + batch / self.steps_per_epoch)
        elif batch == 0:
            self._set(self._epoch)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if self._momentum is not None:
            self._inner().momentum = self._momentum
            self._momentum = None

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if logs is not None:
            logs["lr"] = float(self.model.optimizer.learning_rate)

    def _inner(self):
        return getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)

    def _set(self, epoch: float) -> None:
        before = float(self.model.optimizer.learning_rate)
        rate = self.initial_lr * self.multiplier(epoch)
        self.model.optimizer.learning_rate = rate
        inner = self._inner()
        if self.momentum_correction and getattr(inner, "momentum", 0) and before > 0:
            self._momentum = inner.momentum
            inner.momentum = self._momentum * rate / before


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """From ``initial_lr / size()``, which is right for one rank, to ``initial_lr``, which was multiplied by the ranks, in
    ``warmup_epochs`` (Goyal et al., https://arxiv.org/abs/1706.02677, section 2.2)."""

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
        verbose: int = 0,
    ):
        def multiplier(epoch: float) -> float:
            # The last batch of the last epoch arrives at the whole.
            epoch += 1.0 / self.steps_per_epoch
            return (epoch * (hvd.size() - 1) / warmup_epochs + 1) / hvd.size()

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_end(epoch, logs)
        if epoch == self.end_epoch - 1 and self.verbose > 0 and hvd.rank() == 0:
            rate = float(self.model.optimizer.learning_rate)
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.")


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """Saves the model on rank 0 when ``monitor`` is better than before."""

    def __init__(self, filepath: str, monitor: str = "val_loss", verbose: int = 0, mode: str = "auto", save_freq: Any = "epoch"):
        super().__init__(filepath, monitor=monitor, verbose=verbose, save_best_only=True, mode=mode, save_freq=save_freq)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if hvd.rank() == 0:
            super().on_epoch_end(epoch, logs)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if hvd.rank() == 0:
            super().on_train_batch_end(batch, logs)
