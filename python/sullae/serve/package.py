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
            sizes = _sizes(program, len(shown))
            settings = {"aot_inductor.metadata": {"sullae_sizes": json.dumps(sizes)}}
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
        _try_longer(package, model, shown, sizes, max_batch_size, gives, kind)


def _program(model: torch.nn.Module, shown: Tuple[torch.Tensor, ...], takes: Dict, max_batch_size: int):
    """What torch makes of the model, for sizes from 1 on where it can be, else from 2: attention goes another way for one row, of which
    the server makes two. InputError where an open size is not open in it."""
    are_open = [[size == -1 and (i > 0 or max_batch_size != 1) for i, size in enumerate(spec[1])] for spec in takes.values()]

    def export(dim_of):
        shapes = tuple(
            {i: dim_of(k, i) if is_open else torch.export.Dim.STATIC for i, is_open in enumerate(sizes)} for k, sizes in enumerate(are_open)
        )
        return torch.export.export(model, shown, dynamic_shapes=shapes)

    # Which sizes are one, and how far they may go, only this tells: without it sizes from 1 on may have no end that is true.
    first = export(lambda k, i: torch.export.Dim.AUTO)
    found = _sizes(first, len(shown))
    for name, sizes, is_open in zip(takes, found, are_open):
        for i, size in enumerate(sizes):
            what = _narrowness(size, max_batch_size if i == 0 else 0)
            if is_open[i] and what:
                raise InputError(
                    f"export: input '{name}': size {i} was to be any{f' up to {max_batch_size}' if i == 0 and max_batch_size > 0 else ''}, and is "
                    f"{what} in what AOTInductor compiles: expected a model that takes any, or inputs and max_batch_size that say so"
                )
    for least_rows in (1, 2):
        dims: Dict[str, object] = {}

        def dim_of(k: int, i: int):
            symbol, _, most = found[k][i]
            is_batch = i == 0 and max_batch_size > 0
            most = max_batch_size if is_batch else most
            limits = {"max": most} if most > 0 else {}
            return dims.setdefault(symbol, torch.export.Dim(f"size_{symbol}", min=least_rows if is_batch else 1, **limits))

        with contextlib.suppress(Exception), _from_one_on():
            return export(dim_of)
    return first


def _narrowness(size, wanted: int) -> str:
    """What a size of _sizes() is, where that is not any from 2 on, at least up to ``wanted``; empty where it is."""
    if isinstance(size, int):
        return f"always {size}"
    symbol, least, most = size
    if not symbol.isidentifier():  # a multiple of something, say, which nothing would look at
        return symbol
    return f"{least} to {most or 'any'}" if least > 2 or 0 < most < wanted else ""


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
    _expect_same(given, wanted, gives, kind)


def _try_longer(package, model: torch.nn.Module, inputs: Tuple[torch.Tensor, ...], sizes: List[List], max_batch_size: int, gives: Dict, kind: str) -> None:
    """With one more of each open size: what the model refuses, as a number that is not even, torch.export may not have seen."""
    longer = []
    for tensor, of_tensor in zip(inputs, sizes):
        for i, size in enumerate(of_tensor):
            if isinstance(size, list) and (i > 0 or max_batch_size == 0):
                tensor = torch.cat([tensor, tensor.narrow(i, -1, 1)], i)
        longer.append(tensor)
    shapes = [list(tensor.shape) for tensor in longer]
    if shapes == [list(tensor.shape) for tensor in inputs]:
        return
    wanted, refused = [], None
    try:
        wanted = leaves(model(*longer))
    except Exception as error:  # in its own words
        refused = error
    try:
        given = leaves(package(*longer))
    except RuntimeError:  # beyond what it is compiled for, which a server says
        return
    if refused is not None:
        raise InputError(
            f"export: {kind} refuses inputs of the shapes {shapes} ({refused}), and compiled by AOTInductor answers them: expected inputs that "
            f"say their sizes, or TorchScript"
        ) from refused
    _expect_same(given, wanted, gives, kind)


def _expect_same(given: List[torch.Tensor], wanted: List[torch.Tensor], names, kind: str) -> None:
    for name, answer, expected in zip(names, given, wanted):
        close = 1e-3 if expected.dtype not in (torch.float16, torch.bfloat16) else 0.05
        if answer.shape != expected.shape or not torch.allclose(answer, expected, rtol=close, atol=close / 10, equal_nan=True):
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
