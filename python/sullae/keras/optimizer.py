"""Gradients averaged over ranks around any optimizer of Keras."""

import weakref
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Union

import keras

from .. import _core
from .. import torch as hvd
from ..errors import InputError
from ..torch.optimizer import compression_name


_attached: "weakref.WeakSet[_Distribution]" = weakref.WeakSet()


class _Distribution:
    """Stands between an optimizer and those who call its build() and apply(). The optimizer remains one of its own class, so
    that what is saved with it can be loaded without Sullae."""

    def __init__(self, optimizer, process_set: hvd.ProcessSet, options: Dict[str, Any], local: Sequence, scale_local: bool):
        self._process_set = process_set
        self._options = options
        self._local_layers = local
        self._local: Set[int] = set()
        self._scale_local = scale_local
        self._gradients: Optional[_core.DistributedGradients] = None
        self._variables: Set[int] = set()
        self._optimizer = optimizer
        self._build, self._apply = optimizer.build, optimizer.apply
        if optimizer.built:
            self._attach(optimizer._trainable_variables)
        optimizer.build, optimizer.apply = self.build, self.apply

    def build(self, variables: Iterable[keras.Variable]) -> None:
        variables = list(variables)
        self._build(variables)
        self._attach(variables)

    def apply(self, grads: Sequence, trainable_variables: Optional[Sequence] = None) -> None:
        variables = self._optimizer._trainable_variables if trainable_variables is None else list(trainable_variables)
        if self._gradients is None or not self._gradients.has_seen_gradients:
            # No hook has seen these: backward() came before build(), or they are torch.autograd.grad()'s.
            grads = self._average(grads, variables)
        else:
            self._gradients.synchronize()
        if self._local and self._scale_local:
            share = 1.0 / self._process_set.size()
            grads = [g * share if g is not None and id(v) in self._local else g for g, v in zip(grads, variables)]
        self._apply(grads, trainable_variables)
        if self._gradients is not None:
            self._gradients.stepped()

    def _attach(self, variables: Iterable[keras.Variable]) -> None:
        variables = list(variables)
        for layer in self._local_layers:
            if not layer.built:
                raise InputError(f"local_layers: '{layer.name}' is not built when the optimizer is: expected a layer of its model")
        self._local = {id(variable) for layer in self._local_layers for variable in layer.trainable_weights}
        # Not by their paths, in which Keras numbers the layers that a process has made before.
        named = [
            (f"{number} {variable.name}", variable.value)
            for number, variable in enumerate(variables)
            if id(variable) not in self._local and variable.value.requires_grad
        ]
        # A model that is compiled again has another optimizer, and the one before may live on for a while.
        self._variables = {id(variable) for variable in variables}
        for other in _attached:
            if other is not self and not other._variables.isdisjoint(self._variables):
                other._gradients, other._variables = None, set()
        _attached.add(self)
        self._gradients = None
        self._gradients = _core.DistributedGradients(named, world=self._process_set.world(), **self._options)

    def _average(self, grads: Sequence, variables: Sequence) -> List:
        handles = [
            None
            if grad is None or id(variable) in self._local
            else hvd.allreduce_async(grad, op=self._options["op"], process_set=self._process_set)
            for grad, variable in zip(grads, variables)
        ]
        return [grad if handle is None else hvd.synchronize(handle) for grad, handle in zip(grads, handles)]


def PartialDistributedOptimizer(  # noqa: N802
    optimizer: keras.optimizers.Optimizer,
    name: Optional[str] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Union[hvd.Compressor, str] = hvd.Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: hvd.ReduceOp = hvd.Average,
    groups: Union[int, List[List[keras.Variable]], None] = None,
    process_set: hvd.ProcessSet = hvd.global_process_set,
    local_layers: Union[keras.layers.Layer, Sequence[keras.layers.Layer], None] = None,
    scale_local_gradients: bool = True,
    bucket_bytes: int = 4 << 20,
) -> keras.optimizers.Optimizer:
    """DistributedOptimizer() but for the weights of ``local_layers``, which every rank trains by itself: their gradients do not
    travel. They are divided by the number of ranks, as the others' averages are, unless ``scale_local_gradients`` is False."""
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise InputError(
            f"DistributedOptimizer: a {type(optimizer).__module__}.{type(optimizer).__name__}: expected a keras.optimizers.Optimizer"
        )
    if isinstance(getattr(optimizer.apply, "__self__", None), _Distribution):
        raise InputError("DistributedOptimizer: the optimizer is distributed already")
    if op not in (hvd.Average, hvd.Sum):
        raise InputError("DistributedOptimizer: op: expected Average or Sum")
    if gradient_predivide_factor != 1.0 and op != hvd.Average:
        raise InputError("gradient_predivide_factor: it divides an average, and op is another: expected op=Average")
    layers = [local_layers] if isinstance(local_layers, keras.layers.Layer) else list(local_layers or [])
    for layer in layers:
        if not isinstance(layer, keras.layers.Layer):
            raise InputError(f"local_layers: a {type(layer).__name__}: expected layers of Keras")
    options = {
        "op": op,
        "backward_passes_per_step": 1,
        "bucket_bytes": bucket_bytes,
        "compression": compression_name(compression),
        "sparse_as_dense": sparse_as_dense,
        "overlap": True,
        "after_backward": True,
    }
    if process_set.takes_part():
        _Distribution(optimizer, process_set, options, layers, scale_local_gradients)
    return optimizer


def DistributedOptimizer(  # noqa: N802
    optimizer: keras.optimizers.Optimizer,
    name: Optional[str] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Union[hvd.Compressor, str] = hvd.Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: hvd.ReduceOp = hvd.Average,
    num_groups: int = 0,
    groups: Union[int, List[List[keras.Variable]], None] = None,
    bucket_bytes: int = 4 << 20,
) -> keras.optimizers.Optimizer:
    """``optimizer`` itself, whose steps from now on use the average of all ranks' gradients, in ``fit()`` and in loops of one's
    own. Collective when the optimizer is built: every rank's model has the same weights, in the same order.

    Gradients travel in buckets while backward computes the others; clipping, loss scaling (mixed_float16) and gradient
    accumulation see averages. A model that is saved with it loads as any other: with ``keras.models.load_model()`` for one
    process, with ``load_model()`` of this module to train on.

    ``compression``: Compression.fp16, .bf16, or a name such as "topk:0.01". ``op``: Average or Sum. ``bucket_bytes``: see
    docs/tuning.md. ``name``, ``device_dense``, ``device_sparse``, ``gradient_predivide_factor``, ``num_groups`` and ``groups``
    are taken for Horovod's sake."""
    return PartialDistributedOptimizer(
        optimizer,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor,
        op=op,
        bucket_bytes=bucket_bytes,
    )


def load_model(
    filepath: Any,
    custom_optimizers: Optional[Sequence[type]] = None,
    custom_objects: Optional[Dict[str, Any]] = None,
    compression: Union[hvd.Compressor, str] = hvd.Compression.none,
) -> keras.Model:
    """``keras.models.load_model()``, with the model's optimizer, and its state, distributed. ``custom_optimizers`` and
    ``custom_objects``: classes that Keras does not know by itself. Every rank loads, or one does and broadcasts (see
    callbacks.BroadcastGlobalVariablesCallback)."""
    known = {kind.__name__: kind for kind in custom_optimizers or []}
    model = keras.models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    if getattr(model, "optimizer", None) is not None:
        DistributedOptimizer(model.optimizer, compression=compression)
    return model
