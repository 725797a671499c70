"""Equal starts: parameters, optimizer state and any Python object from one rank to all."""

import pickle
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

import torch

from ..errors import Error, InputError
from .collectives import allgather, broadcast_async_, synchronize
from .process_sets import ProcessSet, global_process_set

Named = Union[Dict[str, torch.Tensor], Iterable[Union[torch.Tensor, Tuple[str, torch.Tensor]]]]


def _to_bytes(obj: Any) -> torch.Tensor:
    try:
        data = pickle.dumps(obj)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            import cloudpickle  # functions of a script, lambdas
        except ImportError:
            cloudpickle = None
        if cloudpickle is None:
            raise Error(f"{error} (functions of a script, and lambdas, can be sent where cloudpickle is installed)") from error
        data = cloudpickle.dumps(obj)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _from_bytes(data: torch.Tensor) -> Any:
    return pickle.loads(data.numpy().tobytes())


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Root's object, pickled, on every rank; what other ranks give is ignored. Do not broadcast objects from programs that
    you do not trust: unpickling runs code."""
    return _broadcast_made(lambda: obj, root_rank, name or "broadcast_object", process_set)


def _broadcast_made(make: Callable[[], Any], root_rank: int, name: str, process_set: ProcessSet) -> Any:
    """What ``make()`` gives on root: where it fails, the others are told."""
    is_root = process_set.rank() == process_set.place_of(root_rank)
    data, error = torch.empty(0, dtype=torch.uint8), None
    if is_root:
        try:
            obj = make()
            data = _to_bytes(obj)
        except Exception as reason:  # whatever an object's own methods raise; the others are told, and wait for nothing
            error = reason
    length = torch.tensor([data.numel() if error is None else -1])
    synchronize(broadcast_async_(length, root_rank, f"{name}.length", process_set))
    if error is not None:
        raise error
    if length < 0:
        raise Error(f"{name}: rank {root_rank} could not pickle the object: its own message says why")
    if not is_root:
        data = torch.empty(int(length), dtype=torch.uint8)
    synchronize(broadcast_async_(data, root_rank, f"{name}.data", process_set))
    return obj if is_root else _from_bytes(data)


def allgather_object(
    obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[Any]:
    """Every rank's object, pickled, in the order of ranks."""
    name = name or "allgather_object"
    data, error = torch.empty(0, dtype=torch.uint8), None
    try:
        data = _to_bytes(obj)
    except Exception as reason:  # as above
        error = reason
    lengths = allgather(torch.tensor([data.numel() if error is None else -1]), f"{name}.lengths", process_set)
    if error is not None:
        raise error
    if (lengths < 0).any():
        raise Error(f"{name}: rank {int(lengths.argmin())} could not pickle its object: its own message says why")
    gathered = allgather(data, f"{name}.data", process_set)
    return [_from_bytes(part) for part in gathered.split(lengths.tolist())]


def _named_tensors(params: Named) -> List[Tuple[Optional[str], torch.Tensor]]:
    if isinstance(params, dict):
        named = sorted(params.items())
    elif isinstance(params, (str, torch.Tensor)) or not hasattr(params, "__iter__"):
        raise InputError(
            f"broadcast_parameters: a {type(params).__name__}: expected model.state_dict(), named_parameters() or parameters()"
        )
    else:
        named = [item if isinstance(item, tuple) else (None, item) for item in params]
    return [(name, value) for name, value in named if isinstance(value, torch.Tensor)]


def broadcast_parameters(
    params: Named, root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Every tensor becomes root's: of ``model.state_dict()``, ``model.named_parameters()`` or ``model.parameters()``."""
    handles = [
        broadcast_async_(tensor.detach(), root_rank, name and f"parameter {name}", process_set)
        for name, tensor in _named_tensors(params)
    ]
    for handle in handles:
        synchronize(handle)


class _Place:
    """Where a tensor was in what is broadcast as an object."""

    def __init__(self, number: int, tensor: torch.Tensor):
        self.number = number
        self.shape = tensor.shape
        self.dtype = tensor.dtype


def _like(value: Any, items: List[Any]) -> Any:
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def _take_tensors(value: Any, tensors: List[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return _Place(len(tensors) - 1, value)
    if isinstance(value, dict):
        return {key: _take_tensors(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return _like(value, [_take_tensors(item, tensors) for item in value])
    return value


def _put_tensors(value: Any, tensors: Dict[int, torch.Tensor]) -> Any:
    if isinstance(value, _Place):
        tensor = torch.empty(value.shape, dtype=value.dtype)
        tensors[value.number] = tensor
        return tensor
    if isinstance(value, dict):
        return {key: _put_tensors(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return _like(value, [_put_tensors(item, tensors) for item in value])
    return value


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: Optional[torch.nn.Module] = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """The optimizer's state and options (learning rates) become root's, whether other ranks have a state or none yet. No
    rank takes a step for it. ``model`` is taken for Horovod's sake."""
    is_root = process_set.rank() == process_set.place_of(root_rank)
    own: List[torch.Tensor] = []
    state = _broadcast_made(
        lambda: _take_tensors(optimizer.state_dict(), own), root_rank, "optimizer state", process_set
    )
    tensors: Dict[int, torch.Tensor] = dict(enumerate(own))
    if not is_root:
        state = _put_tensors(state, tensors)
    handles = []
    for number in sorted(tensors):
        tensor = tensors[number].detach()
        handles.append(broadcast_async_(tensor, root_rank, f"optimizer state {number}", process_set))
    for handle in handles:
        synchronize(handle)
    if not is_root:
        optimizer.load_state_dict(state)
