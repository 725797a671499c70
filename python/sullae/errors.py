"""What Sullae raises. All of it is a ``sullae.Error``, which is a ``RuntimeError``."""

import builtins


class Error(RuntimeError):
    """The root of every exception of Sullae. The message says where, what happened, and what was expected."""


class TimeoutError(Error, builtins.TimeoutError):  # noqa: A001
    """A wait ended before its event came. The message names the wait, its limit, and the setting that changes it."""


class PeerError(Error):
    """Another rank died, left, or failed. ``rank`` is the one that is gone."""

    def __init__(self, message: str, rank: int):
        super().__init__(message)
        self.rank = rank

    def __reduce__(self):
        return type(self), (*self.args, self.rank)  # pools of processes carry exceptions over, and would wait for ever


class MismatchError(Error):
    """Ranks called different collectives, or the same with different shapes, types, operations or roots."""


class InputError(Error, ValueError):
    """An argument, variable or file that cannot be used as it is."""


class CheckpointError(InputError):
    """A checkpoint that is missing, torn, damaged or of another version."""
