"""The record of a training run, which ``sullae dashboard`` shows."""

import os
from typing import Mapping, Optional, Union

from . import _core
from .errors import Error


class RunLog:
    """Keeps what a run is, its curves and its end in a folder, for ``sullae dashboard``. For one process of a run, rank 0 usually::

        with sullae.RunLog("runs/first", settings={"lr": 0.1}, ranks=hvd.size()) as log:
            log.scalars(step, {"train/loss": loss.item()})

    A line is written at once and as a whole: what ``scalars`` has returned from is kept when the process is killed. The run has completed when
    the block ends, and failed where an exception leaves it; ``KeyboardInterrupt`` and ``SystemExit`` stop it.

    Raises InputError where there is a run in the folder that is not to be resumed, or that another process writes."""

    def __init__(
        self,
        folder: Union[str, "os.PathLike[str]"],
        settings: Optional[Mapping[str, object]] = None,
        name: str = "",
        ranks: int = 1,
        resume: bool = False,
    ) -> None:
        texts = {str(key): str(value) for key, value in (settings or {}).items()}
        self._log: Optional[_core.RunLog] = _core.RunLog(os.fspath(folder), name, texts, ranks, resume)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Values by tag, ``"train/loss"``, at ``step``, which counts from the beginning of the training."""
        self._open().scalars(step, {tag: float(value) for tag, value in values.items()})

    def goes_on_after(self, step: int) -> None:
        """The run goes on after this step, of a checkpoint: what was written of later ones is forgotten."""
        self._open().goes_on_after(step)

    def expect_steps(self, steps: int) -> None:
        """So many are to be done, in all."""
        self._open().expect_steps(steps)

    def note(self, text: str) -> None:
        """A line of text: where the run resumes, what was exported."""
        self._open().note(text)

    def close(self, failed: Optional[str] = None) -> None:
        """The run has completed, or failed because of that."""
        log, self._log = self._log, None
        if log is None:
            return
        if failed is None:
            log.completed()
        else:
            log.failed(failed)

    def _open(self) -> "_core.RunLog":
        if self._log is None:
            raise ValueError("the run was closed")
        return self._log

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], _: object) -> None:
        if error is None or isinstance(error, Exception):
            self.close(None if error is None else f"{type(error).__name__}: {error}")
        log, self._log = self._log, None
        if log is not None:
            try:
                log.stopped(type(error).__name__)
            except Error:
                pass  # a full disk; what is on its way tells more
