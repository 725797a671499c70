"""A module of PyTorch or Keras as a version of a model that ``sullae serve`` answers from."""

import contextlib
import functools
import inspect
import io
import pathlib
import re
import tempfile
import warnings
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from .. import _core
from ..errors import InputError
from .package import compile_package
from .trial import leaves, other_values, with_rows


class TensorSpec(NamedTuple):
    """A tensor that a model takes or gives: a type, and sizes, of which -1 may be any. The first is the batch."""

    dtype: torch.dtype
    shape: Sequence[int]


class Texts(NamedTuple):
    """Texts, which the server cuts at spaces: ``forward(words, lengths)`` takes numbers of words, int64 [batch, time], padded
    with 0, and how many they are, int64 [batch], and gives scores, [batch, classes]. The first word of ``vocabulary`` is number
    2; 1 is any other. ``normalise``: ASCII letters in lower case, and punctuation as words of its own."""

    vocabulary: Sequence[str]
    max_words: int = 64
    normalise: bool = False


class Images(NamedTuple):
    """Images (JPEG), which the server decodes, cuts and resizes: ``forward(pixels)`` takes float32 [batch, channels, size, size] and
    gives scores, [batch, classes]. ``mean`` and ``deviation`` are those of torchvision's ImageNet unless given, of values from
    0 to 1; ``centre_share``: the part of the smaller side that is looked at."""

    size: int = 224
    channels: int = 3
    centre_share: float = 0.875
    mean: Sequence[float] = (0.485, 0.456, 0.406)
    deviation: Sequence[float] = (0.229, 0.224, 0.225)


Tensors = Union[torch.Tensor, Sequence[torch.Tensor]]

# What a model of texts takes: words, and how many.
_TEXT, _LENGTH = TensorSpec(torch.int64, [-1, -1]), TensorSpec(torch.int64, [-1])


def export(
    model: torch.nn.Module,
    repository: Union[str, pathlib.Path],
    name: str,
    *,
    example_inputs: Optional[Tensors] = None,
    inputs: Optional[Dict[str, TensorSpec]] = None,
    outputs: Optional[Dict[str, TensorSpec]] = None,
    preprocessing: Union[Texts, Images, None] = None,
    classes: Sequence[str] = (),
    max_batch_size: int = 64,
    format: str = "torchscript",
) -> Union[str, pathlib.Path]:
    """Writes ``model`` (of PyTorch, Keras on torch, or TorchScript) as ``<repository>/<name>/<n>/model.pt``, the next version, and
    beside the first a config.toml that says how it is served. The version appears whole or not at all; a running server
    loads it. Returns its folder. A repository in a store is a str, "s3://bucket/models", and so is the folder in it.

    Say what the model takes by one of: ``example_inputs``, a tensor or several, whose first size is the batch; ``inputs``,
    {name: TensorSpec}; ``preprocessing``, Texts(…) or Images(…), with the names of ``classes``. ``outputs`` are found by a try
    unless given; ``max_batch_size=0`` is for models that take no batches.

    The model is compiled (torch.jit.script), or, where that cannot be, traced. With ``format="aot_inductor"`` (torch 2.8 or later)
    it is compiled to machine code instead, model.pt2, for this kind of processor or for the GPU that it is on (set then
    ``device = "cuda"`` in config.toml). Either is tried with one row and with three, a package also with two and ``max_batch_size``, before anything
    is written: InputError says what differs. The model stays as it is, in its mode and on its device. Any thread; one rank."""
    if format not in ("torchscript", "aot_inductor"):
        raise InputError(f"export: format: {format!r}: expected 'torchscript' or 'aot_inductor'")
    if not isinstance(name, str):
        raise InputError(f"export: name: {name!r}: expected a str")
    if not isinstance(repository, (str, pathlib.PurePath)):
        raise InputError(f"export: repository: {repository!r}: expected a path, or a str")
    _check_list("classes", classes)
    if isinstance(preprocessing, Texts):
        _check_list("preprocessing: vocabulary", preprocessing.vocabulary)
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"export: a {type(model).__module__}.{type(model).__name__}: expected a torch.nn.Module or a Keras model")
    if isinstance(repository, pathlib.PurePath) and re.match(r"(s3|s?webhdfs):/", str(repository)):
        raise InputError(f"export: repository: a path, which has lost a slash: expected a str, '{str(repository).replace(':/', '://', 1)}'")
    given = [way for way in (example_inputs, inputs, preprocessing) if way is not None]
    if len(given) != 1:
        raise InputError(f"export: {len(given)} of example_inputs, inputs and preprocessing: expected one of them")
    if outputs is not None and preprocessing is not None:
        raise InputError("export: outputs: preprocessing knows them, expected none")
    model = getattr(model, "_orig_mod", model)  # of torch.compile()
    with _in_evaluation(model), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript's age
        warnings.simplefilter("ignore", FutureWarning)
        examples = _examples(example_inputs, inputs, preprocessing, model)
        forward, content = (model, b"") if format == "aot_inductor" else _compiled(model, examples, max_batch_size)
        if isinstance(preprocessing, Texts):
            _try_last_word(forward, examples, len(preprocessing.vocabulary) + 1)
        if preprocessing is None:
            if inputs is None:
                names = _argument_names(forward, len(examples))
                inputs = {n: TensorSpec(e.dtype, _batch_of(e, max_batch_size)) for n, e in zip(names, examples)}
            if outputs is None:
                outputs = _outputs(forward, examples, max_batch_size)
                if given[0] is inputs:
                    _open_sizes(outputs, forward, inputs, examples)
        publish = functools.partial(
            _core.export_model,
            repository=str(repository),
            name=name,
            inputs=_triples(inputs or {}),
            outputs=_triples(outputs or {}),
            max_batch_size=max_batch_size,
            preprocessing=_prepared(preprocessing),
            classes=list(classes),
        )
        if format == "torchscript":
            folder = publish(content)
        else:
            if isinstance(preprocessing, Texts):
                takes = {"words": _TEXT, "lengths": _LENGTH}
            else:
                takes = inputs or {f"input {i}": TensorSpec(e.dtype, _batch_of(e, max_batch_size)) for i, e in enumerate(examples)}
            gives = outputs or {"scores": TensorSpec(torch.float32, [-1, len(classes) or -1])}
            with tempfile.TemporaryDirectory() as making:
                package = f"{making}/model.pt2"
                compile_package(model, examples, takes, gives, max_batch_size, package)
                folder = publish(package)
    return folder if "://" in folder else pathlib.Path(folder)


def _check_list(what: str, names) -> None:
    """A str is a sequence of strs, too."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InputError(f"export: {what}: {names!r}: expected a list of strs")


@contextlib.contextmanager
def _in_evaluation(model: torch.nn.Module):
    # A frozen module has no mode, which is evaluation.
    modes = [(module, module.training) for module in model.modules() if hasattr(module, "training")]
    # Forward may count in them.
    buffers = [(buffer, buffer._version, buffer.clone()) for buffer in model.buffers() if not torch.nn.parameter.is_lazy(buffer)]
    if modes:
        model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for buffer, version, before in buffers:
            if buffer._version != version:
                buffer.copy_(before)


def _device_of(model: torch.nn.Module) -> torch.device:
    return next((tensor.device for tensor in (*model.parameters(), *model.buffers())), torch.device("cpu"))


def _examples(example_inputs, inputs, preprocessing, model) -> Tuple[torch.Tensor, ...]:
    device = _device_of(model)
    if example_inputs is not None:
        examples = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else tuple(example_inputs)
        if not examples or not all(isinstance(example, torch.Tensor) for example in examples):
            raise InputError("export: example_inputs: expected a tensor, or a list of tensors")
    elif isinstance(preprocessing, Texts):
        examples = (torch.ones(2, 12, dtype=torch.int64), torch.full((2,), 12))  # as the server tries it
    elif isinstance(preprocessing, Images):
        examples = (torch.zeros(2, preprocessing.channels, preprocessing.size, preprocessing.size),)
    elif preprocessing is not None:
        raise InputError(f"export: preprocessing: a {type(preprocessing).__name__}: expected Texts(…) or Images(…)")
    else:
        examples = tuple(
            torch.zeros([size if size != -1 else 2 if i == 0 else 8 for i, size in enumerate(spec.shape)], dtype=spec.dtype)
            for spec in map(lambda spec: TensorSpec(*spec), inputs.values())
        )
    return tuple(example.to(device).contiguous() for example in examples)


def _compiled(model: torch.nn.Module, examples: Tuple[torch.Tensor, ...], max_batch_size: int) -> Tuple[torch.jit.ScriptModule, bytes]:
    """And as it is saved."""
    if isinstance(model, torch.jit.ScriptModule):
        return model, _saved(model)
    try:
        script = torch.jit.script(model)
        content = _saved(script)  # before forward counts in its buffers
        script(*examples)
        return script, content
    except Exception as no_script:  # the compiler raises what it likes, and tracing takes more
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", torch.jit.TracerWarning)
                traced = torch.jit.trace(model, examples, check_trace=False)
            _check_traced(model, traced, examples, max_batch_size, [str(warning.message) for warning in caught])
            return traced, _saved(traced)
        except InputError:
            raise
        except Exception as no_trace:
            try:
                model(*examples)
            except Exception as error:
                raise InputError(f"export: forward fails: {error}") from error
            raise InputError(
                f"export: {type(model).__name__} cannot be compiled ({no_script}), nor traced with inputs of the shapes "
                f"{[list(example.shape) for example in examples]} ({no_trace})"
            ) from no_trace


def _saved(script: torch.jit.ScriptModule) -> bytes:
    buffer = io.BytesIO()
    torch.jit.save(script, buffer)
    return buffer.getvalue()


def _check_traced(model: torch.nn.Module, traced: torch.jit.ScriptModule, examples, max_batch_size: int, warned: List[str]) -> None:
    """Tracing writes down what forward did for these inputs: InputError where it gives another answer for others."""
    tried = [examples, with_rows(examples, 3)] if max_batch_size > 0 else [examples]
    for others in map(other_values, tried):
        try:
            wanted = leaves(model(*others))
        except Exception:  # a model may refuse values, in its own words, or other rows: then there is nothing to compare
            continue
        try:
            answers = leaves(traced(*others))
        except Exception:  # with another number of rows, which is told where those are tried
            continue
        for expected, given in zip(wanted, answers):
            if expected.shape == given.shape and torch.allclose(expected, given, rtol=1e-3, atol=1e-4, equal_nan=True):
                continue
            reasons = "\n".join(warned) or "forward chooses by its inputs' values or sizes, or by chance"
            raise InputError(
                f"export: {type(model).__name__} cannot be compiled by torch.jit.script, and traced it answers other inputs "
                f"otherwise than the model does: {reasons}"
            )
    for message in warned:
        warnings.warn(f"export: traced: {message}", torch.jit.TracerWarning, stacklevel=4)


def _batch_of(example: torch.Tensor, max_batch_size: int) -> List[int]:
    return [-1, *example.shape[1:]] if max_batch_size > 0 and example.dim() > 0 else list(example.shape)


def _argument_names(model: torch.nn.Module, count: int) -> List[str]:
    if isinstance(model, torch.jit.ScriptModule):
        names = [argument.name for argument in model.forward.schema.arguments[1:]]
    else:
        names = list(inspect.signature(model.forward).parameters)
    if len(names) < count:
        raise InputError(f"export: forward takes {len(names)} tensors, example_inputs has {count}")
    return names[:count]


def _try_last_word(model: torch.nn.Module, examples, number: int) -> None:
    words, lengths = examples
    if words.is_cuda:  # where a row that is not there would end CUDA for this process
        return
    try:
        model(torch.full_like(words, number), lengths)
    except Exception as error:
        raise InputError(f"export: forward fails with word {number}, the vocabulary's last: expected an embedding of {number + 1} rows: {error}") from error


def _outputs(script: torch.nn.Module, examples, max_batch_size: int) -> Dict[str, TensorSpec]:
    try:
        result = script(*examples)
    except Exception as error:
        raise InputError(f"export: forward fails: {error}") from error
    if isinstance(result, torch.Tensor):
        return {"output": TensorSpec(result.dtype, _batch_of(result, max_batch_size))}
    if not isinstance(result, tuple) or not all(isinstance(tensor, torch.Tensor) for tensor in result):
        kind = type(result).__name__
        if isinstance(result, tuple):
            kind += f" of {', '.join(type(part).__name__ for part in result)}"
        raise InputError(f"export: forward returns a {kind}: expected a tensor, or a tuple of tensors")
    return {f"output_{i}": TensorSpec(tensor.dtype, _batch_of(tensor, max_batch_size)) for i, tensor in enumerate(result)}


def _open_sizes(outputs: Dict[str, TensorSpec], script: torch.nn.Module, inputs, examples) -> None:
    """Of sizes behind the batch's that inputs leave open: an output's that are others with others are open, too."""
    specs = [TensorSpec(*spec) for spec in inputs.values()]
    if not any(-1 in list(spec.shape)[1:] for spec in specs):
        return
    larger = tuple(
        torch.zeros([2 * size if i > 0 and spec.shape[i] == -1 else size for i, size in enumerate(e.shape)]).to(e)
        for spec, e in zip(specs, examples)
    )
    try:
        results = leaves(script(*larger))
    except Exception:  # sizes that go together, and are not the same
        return
    for (name, spec), result in zip(list(outputs.items()), results):
        if len(spec.shape) == result.dim():
            sizes = [-1 if size != new else size for size, new in zip(spec.shape, result.shape)]
            outputs[name] = TensorSpec(spec.dtype, [spec.shape[0], *sizes[1:]])


def _triples(tensors: Dict[str, TensorSpec]) -> List[Tuple[str, torch.dtype, List[int]]]:
    return [(name, spec[0], list(spec[1])) for name, spec in tensors.items()]


def _prepared(preprocessing):
    if isinstance(preprocessing, Texts):
        return _core.ServedTexts(list(preprocessing.vocabulary), preprocessing.max_words, preprocessing.normalise)
    if isinstance(preprocessing, Images):
        size, channels, centre_share, mean, deviation = preprocessing
        return _core.ServedImages(size, channels, centre_share, list(mean), list(deviation))
    return None
