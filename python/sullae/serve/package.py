"""A model as a package of AOTInductor: machine code for one kind of processor, or GPU, that libtorch loads without Python."""

import contextlib
import json
import os
import threading
from typing import Dict, List, Tuple

import torch

from ..errors import InputError
from .trial import leaves, other_values, with_rows

# A package computes with any sizes, beyond its inputs' memory too, unless this is set when it computes first.
_LOOKS_AT_INPUTS = "AOTI_RUNTIME_CHECK_INPUTS"
# torch's compiler is for one thread.
_lock = threading.Lock()


def compile_package(model: torch.nn.Module, examples: Tuple[torch.Tensor, ...], takes: Dict, gives: Dict, max_batch_size: int, file: str):
    """Writes ``file``. ``takes`` and ``gives`` are TensorSpecs by name; the first sizes are the batch's unless ``max_batch_size`` is 0,
    others that are -1 may be any. InputError where the model cannot be compiled, or not for those sizes, and where what is compiled
    gives other answers than the model. Any thread."""
    kind = type(model).__name__
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 8):
        raise InputError(f"export: format='aot_inductor': expected torch 2.8 or later, this is {torch.__version__}")
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError(f"export: format='aot_inductor': a {kind}, which is TorchScript: expected the module that it was made from")
    for name, spec in takes.items():
        if max_batch_size > 0 and list(spec[1])[:1] != [-1]:
            raise InputError(f"export: input '{name}': the first size is the batch, expected -1 (or max_batch_size=0)")
    before = {name: buffer._version for name, buffer in model.named_buffers()}
    with contextlib.suppress(Exception):  # what fails is told where it is compiled
        model(*examples)
    changed = [name for name, buffer in model.named_buffers() if buffer._version != before.get(name)]
    if changed:
        raise InputError(f"export: forward changes {changed}, which batches that are computed at a time would share")
    # A size that is 1 in the example would be taken for one that is always 1.
    shown = with_rows(examples, min(max_batch_size, 2)) if max_batch_size > 0 else examples
    # NNPACK would compute batches of 16 and more, and what is compiled were for those or for others alone.
    with _lock, torch.backends.nnpack.flags(enabled=False):
        try:
            program = _program(model, shown, takes, max_batch_size)
            settings = {"aot_inductor.metadata": {"sullae_sizes": json.dumps(_sizes(program, len(shown)))}}
            if not shown[0].is_cuda:
                settings["cpp.threads"] = 1  # a server computes several batches at a time; and what a loop of threads throws ends the process
            with _from_one_on():
                torch._inductor.aoti_compile_and_package(program, package_path=file, inductor_configs=settings)
        except InputError:
            raise
        except Exception as error:  # of many kinds, the compiler's too
            raise InputError(f"export: AOTInductor cannot compile {kind}: {error}") from error
    with _lock, _inputs_looked_at():
        package = torch._inductor.aoti_load_package(file)
        for rows in sorted({1, min(2, max_batch_size), min(3, max_batch_size), max_batch_size} - {0}) if max_batch_size > 0 else [0]:
            tried = other_values(with_rows(examples, rows) if rows > 0 else examples)
            _try(package, model, tried, gives, max_batch_size, kind)


def _program(model: torch.nn.Module, shown: Tuple[torch.Tensor, ...], takes: Dict, max_batch_size: int):
    """What torch makes of the model, for sizes from 1 on where it can be, else from 2: attention goes another way for one row, of which
    the server makes two. InputError where an open size is not open in it."""
    given = [list(spec[1]) for spec in takes.values()]
    open_sizes = [{i: i == 0 and max_batch_size > 1 or i > 0 and size == -1 for i, size in enumerate(shape)} for shape in given]
    if max_batch_size == 0:
        open_sizes = [{i: size == -1 for i, size in enumerate(shape)} for shape in given]

    def export(dim_of):
        shapes = tuple(
            {i: dim_of(k, i) if is_open else torch.export.Dim.STATIC for i, is_open in sizes.items()} for k, sizes in enumerate(open_sizes)
        )
        return torch.export.export(model, shown, dynamic_shapes=shapes)

    # Which sizes are one, and how far they may go, only this tells: without it sizes from 1 on may have no end that is true.
    first = export(lambda k, i: torch.export.Dim.AUTO)
    found = _sizes(first, len(shown))
    for (name, _), sizes, is_open in zip(takes.items(), found, open_sizes):
        for i, (size, wanted) in enumerate(zip(sizes, is_open.values())):
            if not wanted or isinstance(size, list) and size[1] <= 2 and (i > 0 or not 0 < size[2] < max_batch_size):
                continue
            much = f"is always {size}" if isinstance(size, int) else f"is {size[1]} to {size[2] if size[2] > 0 else 'any'}"
            raise InputError(
                f"export: input '{name}': size {i} was to be any{f' up to {max_batch_size}' if i == 0 and max_batch_size > 0 else ''}, and {much} "
                f"in what AOTInductor compiles: expected a model that takes any, or inputs and max_batch_size that say so"
            )
    for least_rows in (1, 2):
        dims: Dict[str, object] = {}

        def dim_of(k: int, i: int):
            symbol, _, most = found[k][i]
            is_batch = i == 0 and max_batch_size > 0
            if is_batch:
                most = max_batch_size
            if not symbol.isidentifier():  # follows from others
                return torch.export.Dim.AUTO
            limits = {"max": most} if most > 0 else {}
            return dims.setdefault(symbol, torch.export.Dim(f"size_{symbol}", min=least_rows if is_batch else 1, **limits))

        with contextlib.suppress(Exception), _from_one_on():
            return export(dim_of)
    return first


def _sizes(program, inputs: int) -> List[List]:
    """Of each input's sizes: the number, or [symbol, least, most], most 0 where there is none."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    ranges = {str(symbol): limits for symbol, limits in program.range_constraints.items()}

    def describe(size):
        if isinstance(size, int):
            return size
        symbol = str(size.node.expr)
        limits = ranges.get(symbol)
        if limits is None:
            return [symbol, 0, 0]
        most = int(limits.upper) if limits.upper.is_Integer and int(limits.upper) < 2**62 else 0
        return [symbol, max(int(limits.lower), 1), most]

    return [[describe(size) for size in nodes[name].meta["val"].shape] for name in list(program.graph_signature.user_inputs)[:inputs]]


@contextlib.contextmanager
def _from_one_on():
    """Without it a size that is not always the same is at least 2."""
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
        answer = model(*inputs)
    except Exception as error:
        raise InputError(f"export: forward fails with inputs of the shapes {shapes}: {error}") from error
    if isinstance(answer, dict):
        raise InputError("export: forward returns a dict: expected a tensor, or a tuple of tensors")
    wanted = leaves(answer)
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
        close = 1e-3 if expected.dtype not in (torch.float16, torch.bfloat16) else 0.05
        if not torch.allclose(answer, expected, rtol=close, atol=close / 10, equal_nan=True):
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
