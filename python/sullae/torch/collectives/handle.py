"""What an operation under way is known by, and what it takes."""

from typing import Any, Callable, Iterable, List, Optional

import torch

from ... import _core
from ...errors import InputError


class Handle:
    """An operation on its way; see poll() and synchronize()."""

    __slots__ = ("_handle", "_result")

    def __init__(self, handle: _core.TensorHandle, result: Callable):
        self._handle = handle
        self._result = result

    def done(self) -> bool:
        return self._handle.done()

    def wait(self):
        return self._result(self._handle.wait())


def poll(handle: Handle) -> bool:
    """Whether synchronize() would return at once."""
    return handle.done()


def synchronize(handle: Handle):
    """Waits until the operation is done, and returns its result. Ctrl-C ends the wait."""
    if not isinstance(handle, Handle):
        raise InputError(f"synchronize: a {type(handle).__name__}: expected what a call that ends with _async has returned")
    return handle.wait()


def first(results):
    return results[0]


def listed(tensors: Any, checked_by: Optional[Callable] = None) -> List[torch.Tensor]:
    """The tensors of a group, which check(), or another, has looked at."""
    if isinstance(tensors, torch.Tensor) or not isinstance(tensors, Iterable):
        raise InputError(f"a group: a {type(tensors).__name__}: expected a list of tensors")
    tensors = list(tensors)
    (checked_by or check)(*tensors)
    return tensors


def check(*tensors) -> None:
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise InputError(f"a {type(tensor).__module__}.{type(tensor).__name__}: expected a torch.Tensor, as torch.as_tensor() makes")
        if not tensor.layout == torch.strided:
            raise InputError(f"a tensor of layout {tensor.layout}: expected a dense one (see sparse_allreduce_async)")
        if tensor.is_meta:
            raise InputError("a tensor on the device meta, which has no values")


def named(name: Any) -> str:
    """As the engine takes it: empty for none."""
    if name is not None and not isinstance(name, str):
        raise InputError(f"name: {name!r}: expected a str")
    return name or ""


def check_in_place(*tensors) -> None:
    check(*tensors)
    for tensor in tensors:
        if tensor.requires_grad and tensor.is_leaf is False:
            raise InputError("a tensor that was computed with gradients cannot be changed in place: expected its detach()")
