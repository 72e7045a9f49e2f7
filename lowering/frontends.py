"""Front ends: the one way from a model, of whatever kind, to IR.

`import_model` takes a file of any suffix in the table `BUILT_IN` or of a plug-in, an `nn.Module` of
PyTorch, or IR as it is. Built-in front ends load on first use; other packages add theirs by an
entry point of the group `triton_dsl.frontends` (a suffix without its dot, and a `FrontEnd`),
programs by `register_front_end`. Not here: the readers (`from_*`), and options of one alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import ModuleOp

from ..dialects.registry import parse_module
from ..ir.arrays import Array
from ..ir.errors import BackendError, OptionError, SourceError
from ..runtime.engines import from_array
from .weights import Weights, attach_weights

if TYPE_CHECKING:
    from torch import Tensor, nn

    from .from_torch.exporting import DynamicSizes
    from .sources.source import Source

ENTRY_POINTS = "triton_dsl.frontends"

STDIN = "-"
"""The path that stands for IR from standard input."""


Model: TypeAlias = "ModuleOp | str | Path | nn.Module"
"""What a model is given as: IR, the path of a file, or a module of PyTorch."""

ExampleInputs: TypeAlias = "Tensor | Sequence[object] | Mapping[str, object]"
"""Of a module of PyTorch: a tensor, or the arguments of `forward` by position or by name."""


@dataclass(frozen=True)
class FrontEnd:
    """A kind of file that models come in.

    Attributes:
        read: gives the model in a file as IR; called with its path and with `options` by name. Or
            where it stands: `package.module:function`.
        options: which of `layer`, `weights` and `trainable` it takes.
        reads_text: whether `read` takes the text of a file, a `str`, in place of its path too.
        source: an engine that is not ours for such files, called with the path; or where it stands.
            `None` where there is none.
    """

    read: Callable[..., ModuleOp] | str
    options: frozenset[str] = frozenset()
    reads_text: bool = False
    source: Callable[[Path], Source] | str | None = None

    def reader(self) -> Callable[..., ModuleOp]:
        """`read`, loaded."""
        return resolve_name(self.read) if isinstance(self.read, str) else self.read


def read_ir(path: Path, *, weights: Weights | None = None) -> ModuleOp:
    """Textual IR of a file, or of standard input for `-`.

    Raises:
        SourceError: no such file, or no IR.
        VerifyError: IR that breaks an invariant.
        ParameterError: the weights do not fit.
    """
    is_stdin = str(path) == STDIN
    try:
        text = (sys.stdin.buffer.read() if is_stdin else path.read_bytes()).decode("utf-8")
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: not UTF-8 text at byte {error.start}") from None
    module = parse_module(text, "<stdin>" if is_stdin else str(path))
    if weights is not None:
        attach_weights(module, weights)
    return module


_IR = FrontEnd(read_ir, frozenset({"weights"}))

BUILT_IN = {
    ".tri": FrontEnd(
        f"{__package__}.from_tri:import_tri",
        frozenset({"layer", "weights", "trainable"}),
        reads_text=True,
    ),
    ".mlir": _IR,
    ".nir": FrontEnd(
        f"{__package__}.from_nir:import_nir",
        source=f"{__package__}.sources.nir:NIRSource",
    ),
    ".onnx": FrontEnd(
        f"{__package__}.from_onnx:from_onnx",
        source=f"{__package__}.sources.onnx:OnnxSource",
    ),
    ".tflite": FrontEnd(
        f"{__package__}.from_tflite:from_tflite",
        source=f"{__package__}.sources.tflite:TFLiteSource",
    ),
}
"""Our own front ends by suffix; `triton-opt` reads `.mlir` itself, in parts if asked to."""

_registered: dict[str, FrontEnd] = {}


def register_front_end(suffix: str, front_end: FrontEnd) -> None:
    """Read files of a suffix, such as `.csv`, by `front_end`; a later one replaces it.

    Raises:
        OptionError: the suffix has no dot, or is that of a built-in front end.
    """
    if not suffix.startswith(".") or suffix in BUILT_IN:
        raise OptionError(f"'{suffix}' is no suffix that a front end can be added for")
    _registered[suffix] = front_end


def get_plugin_front_ends() -> dict[str, FrontEnd]:
    """The front ends that are not built in, by suffix: of installed packages, and registered.

    Raises:
        BackendError: a plug-in does not load.
    """
    found: dict[str, FrontEnd] = {}
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        try:
            loaded = point.load()
        except Exception as error:
            raise BackendError(
                f"front end plug-in '{point.name}' does not load: {error}"
            ) from error
        if not isinstance(loaded, FrontEnd):
            raise BackendError(f"front end plug-in '{point.name}': '{point.value}' is no FrontEnd")
        found[f".{point.name}"] = loaded
    return {**found, **_registered}


def front_end_of(path: Path) -> FrontEnd:
    """What reads `path`.

    Raises:
        SourceError: no front end reads such files.
        BackendError: a plug-in does not load.
    """
    if str(path) == STDIN:
        return _IR
    known = BUILT_IN
    if path.suffix not in known:  # plug-ins replace none, so that none need be looked for
        known = {**get_plugin_front_ends(), **BUILT_IN}
    if path.suffix not in known:
        *first, last = known
        raise SourceError(f"{path}: unknown kind of file; expected {', '.join(first)} or {last}")
    return known[path.suffix]


def import_model(
    model: Model,
    *,
    layer: str | None = None,
    weights: str | Weights | None = None,
    trainable: bool = False,
    example_inputs: ExampleInputs | None = None,
    input_shape: Sequence[int] | None = None,
    dynamic: DynamicSizes | None = None,
) -> ModuleOp:
    """A model as IR.

    Args:
        model: a path whose suffix a front end reads (`.tri`, `.mlir`, `.nir`, `.onnx`, `.tflite`;
            `-` is IR from standard input), an `nn.Module`, or IR, which is given back.
        layer: of a `.tri` program the entry layer.
        weights: of a `.tri` program or IR: a weights file or a `state_dict`.
        trainable: of a `.tri` program: keep float latents (see `from_tri.import_tri`).
        example_inputs: of an `nn.Module` (see `from_torch.from_torch`).
        input_shape: in its place, of the one input, of floats.
        dynamic: the free sizes of an `nn.Module`; by default the first axis, the batch.

    Raises:
        SourceError: no such file, an unknown kind of file, or errors in the program.
        OptionError: an option that this kind of model does not take, or a missing one.
        ParameterError: the weights do not fit.
        LoweringError: PyTorch cannot export the module.
        UnsupportedError: operators without a meaning in the IR.
        BackendError: a package is missing that reads the file.
    """
    if isinstance(weights, str):
        weights = Path(weights)
    wanted = {"layer": layer, "weights": weights, "trainable": trainable or None}
    options = {name: value for name, value in wanted.items() if value is not None}
    is_file = isinstance(model, str | Path)
    if is_file or isinstance(model, ModuleOp):
        if not (example_inputs is None and input_shape is None and dynamic is None):
            raise OptionError(
                "example_inputs and shapes belong to a PyTorch module; "
                f"{_said(model)} is a program, and a program has its shapes"
            )
        front_end = front_end_of(Path(model)) if is_file else _IR
        _check(options, front_end.options, _said(model))
        if is_file:
            return front_end.reader()(Path(model), **options)
        if weights is None:
            return model
        filled = model.clone()
        attach_weights(filled, weights)
        return filled
    if not hasattr(model, "state_dict"):
        kind = type(model).__name__
        raise OptionError(f"expected a path, IR or an nn.Module as the model, got {kind}")
    _check(options, frozenset(), "a PyTorch module")
    if example_inputs is None:
        if input_shape is None:
            raise OptionError("a PyTorch module needs input_shape or example_inputs")
        example_inputs = _zeros(input_shape)
    from_torch = resolve_name(f"{__package__}.from_torch:from_torch")
    return from_torch(model, example_inputs, dynamic=dynamic)


def import_for(model: Model, inputs: Sequence[Array] | Mapping[str, Array]) -> ModuleOp:
    """A model as IR, to run on such inputs: of a module of PyTorch they are the example inputs.

    Raises:
        TritonError: see `import_model`.
    """
    example: ExampleInputs | None = None
    if hasattr(model, "state_dict"):
        named = isinstance(inputs, Mapping)
        tensors = [from_array(x) for x in (inputs.values() if named else inputs)]
        example = dict(zip(inputs, tensors, strict=True)) if named else tensors
    return import_model(model, example_inputs=example)


def _zeros(shape: Sequence[int]) -> tuple[Tensor]:
    try:
        import torch
    except ModuleNotFoundError:
        raise BackendError("the model needs PyTorch: pip install 'triton-dsl[torch]'") from None
    return (torch.zeros([int(size) for size in shape]),)


def _said(model: Model) -> str:
    return f"'{model}'" if isinstance(model, str | Path) else "IR"


def _check(options: Iterable[str], taken: frozenset[str], what: str) -> None:
    """Refuse options that a front end does not take."""
    wrong = sorted(set(options) - taken)
    if wrong:
        names = " or ".join(f"'{name}'" for name in wrong)
        raise OptionError(
            f"{what} takes no {names}; a .tri program does"
            if taken
            else f"{what} has its own weights and layers, and takes no {names}"
        )
