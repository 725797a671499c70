"""A model as a package of AOTInductor: machine code for one kind of processor, or GPU, that libtorch loads without Python."""

import contextlib
import os
from typing import Dict, List, Sequence, Tuple

import torch

from ..errors import InputError
from .trial import leaves, other_values, with_rows

# A package computes with any sizes, beyond its inputs' memory too, unless this is set when it computes first.
_LOOKS_AT_INPUTS = "AOTI_RUNTIME_CHECK_INPUTS"


def compile_package(model: torch.nn.Module, examples: Tuple[torch.Tensor, ...], takes: Sequence, gives: Dict, max_batch_size: int, file: str):
    """Writes ``file``. ``takes`` and ``gives`` are TensorSpecs; the first sizes are the batch's unless ``max_batch_size`` is 0, others
    that are -1 may be any that the model takes. InputError where the model cannot be compiled, and where what is compiled gives
    other answers than the model."""
    kind = type(model).__name__
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 8):
        raise InputError(f"export: format='aot_inductor': expected torch 2.8 or later, this is {torch.__version__}")
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError(f"export: format='aot_inductor': a {kind}, which is TorchScript: expected the module that it was made from")
    # A size that is 1 in the example would be taken for one that is always 1.
    shown = with_rows(examples, min(max_batch_size, 2)) if max_batch_size > 0 else examples
    try:
        with _any_batch():
            program = _exported(model, shown, takes, max_batch_size)
            # As many threads as the server gives a model, and not as this process has.
            settings = {} if shown[0].is_cuda else {"cpp.dynamic_threads": True}
            torch._inductor.aoti_compile_and_package(program, package_path=file, inductor_configs=settings)
    except Exception as error:  # of many kinds, the compiler's too
        raise InputError(f"export: AOTInductor cannot compile {kind}: {error}") from error
    with _inputs_looked_at():
        package = torch._inductor.aoti_load_package(file)
        if max_batch_size == 0:
            _try(package, model, other_values(examples), gives, max_batch_size, kind)
        for rows in sorted({1, min(2, max_batch_size), min(3, max_batch_size), max_batch_size} - {0}):
            _try(package, model, other_values(with_rows(examples, rows)), gives, max_batch_size, kind)


def _exported(model: torch.nn.Module, shown: Tuple[torch.Tensor, ...], takes: Sequence, max_batch_size: int):
    """For one row and more; where another way is taken for one, as attention does, for two and more: of one the server makes two."""
    if max_batch_size > 1:
        with contextlib.suppress(torch._dynamo.exc.UserError):
            return torch.export.export(model, shown, dynamic_shapes=_open_sizes(takes, 1, max_batch_size))
    return torch.export.export(model, shown, dynamic_shapes=_open_sizes(takes, 2, max_batch_size))


def _open_sizes(takes: Sequence, least: int, max_batch_size: int):
    batch = torch.export.Dim("batch", min=least, max=max_batch_size) if max_batch_size > 1 else torch.export.Dim.STATIC
    return tuple(
        {i: batch if i == 0 and max_batch_size > 0 else torch.export.Dim.AUTO if size == -1 else torch.export.Dim.STATIC for i, size in enumerate(spec[1])}
        for spec in takes
    )


@contextlib.contextmanager
def _any_batch():
    """Batches from 1 on; without it a size that is not always the same is at least 2."""
    from torch.fx.experimental import _config

    with _config.patch(backed_size_oblivious=True):
        yield


@contextlib.contextmanager
def _inputs_looked_at():
    before = os.environ.get(_LOOKS_AT_INPUTS)
    os.environ[_LOOKS_AT_INPUTS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_LOOKS_AT_INPUTS]
        else:
            os.environ[_LOOKS_AT_INPUTS] = before


def _try(package, model: torch.nn.Module, inputs: Tuple[torch.Tensor, ...], gives: Dict, max_batch_size: int, kind: str) -> None:
    shapes = [list(tensor.shape) for tensor in inputs]
    try:
        wanted = leaves(model(*inputs))
    except Exception as error:
        raise InputError(f"export: forward fails with inputs of the shapes {shapes}: {error}") from error
    try:
        given = leaves(package(*inputs))
    except RuntimeError as error:
        if max_batch_size > 1 and inputs[0].shape[0] == 1:
            return  # it is for two rows and more
        raise InputError(
            f"export: {kind}, compiled by AOTInductor, does not compute inputs of the shapes {shapes}, as max_batch_size={max_batch_size} "
            f"asks for: {str(error).strip()}: expected another max_batch_size, or TorchScript"
        ) from error
    _expect_outputs(given, gives, inputs, max_batch_size)
    for name, answer, expected in zip(gives, given, wanted):
        if not torch.allclose(answer, expected, rtol=1e-3, atol=1e-4, equal_nan=True):
            raise InputError(f"export: output '{name}': {kind}, compiled by AOTInductor, answers otherwise than the model does")


def _expect_outputs(given: List[torch.Tensor], gives: Dict, inputs: Tuple[torch.Tensor, ...], max_batch_size: int) -> None:
    if len(given) != len(gives):
        raise InputError(f"export: forward returns {len(given)} tensors, but there are {len(gives)} outputs")
    for tensor, (name, spec) in zip(given, gives.items()):
        dtype, shape = spec[0], list(spec[1])
        if max_batch_size > 0 and shape[:1] == [-1]:
            shape[0] = inputs[0].shape[0]
        fits = tensor.dtype == dtype and tensor.dim() == len(shape) and all(w in (-1, size) for w, size in zip(shape, tensor.shape))
        if not fits:
            raise InputError(
                f"export: output '{name}': forward returns {tensor.dtype} {list(tensor.shape)}, expected {dtype} {list(spec[1])}"
            )
