"""The one way from a model, of whatever kind, to IR: `import_model`.

Not here: which files there are (`frontends`), and options of one front end alone (`from_*`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import ModuleOp

from ..ir.arrays import Array
from ..ir.errors import BackendError, OptionError
from ..ir.extras import install, resolved
from ..ir.notebook import show_modules
from ..ir.seal import check_file
from ..runtime.engines import from_array
from .frontends import IR, front_end_of
from .weights import Weights, attach_weights

if TYPE_CHECKING:
    from torch import Tensor, nn

    from .from_torch.free_sizes import DynamicSizes

Model: TypeAlias = "ModuleOp | str | Path | nn.Module"
"""What a model is given as: IR, the path of a file, or a module of PyTorch."""

ExampleInputs: TypeAlias = "Tensor | Sequence[object] | Mapping[str, object]"
"""Of a module of PyTorch: a tensor, or the arguments of `forward` by position or by name."""


def import_model(
    model: Model,
    *,
    layer: str | None = None,
    weights: str | Weights | None = None,
    trainable: bool = False,
    dt: float | None = None,
    rounding: str | None = None,
    example_inputs: ExampleInputs | None = None,
    input_shape: Sequence[int] | None = None,
    dynamic: DynamicSizes | None = None,
) -> ModuleOp:
    """A model as IR.

    Args:
        model: a path whose suffix a front end reads (`.tri`, `.mlir`, `.nir`, `.onnx`, `.tflite`,
            `.pt2`; `-` is IR from standard input), an `nn.Module`, or IR, which is given back.
        layer: of a `.tri` program the entry layer.
        weights: of a `.tri` program or IR: a weights file or a `state_dict`.
        trainable: of a `.tri` program: keep float latents (see `from_tri.import_tri`).
        dt: of a NIR graph: seconds in a step.
        rounding: of a TFLite file: whose integers, `reference`, `xnnpack` or `once` (see
            `from_tflite.from_tflite`).
        example_inputs: of an `nn.Module` (see `from_torch.from_torch`).
        input_shape: in its place, of the one input, of floats; by default what the module says in
            an attribute of that name.
        dynamic: the free sizes of an `nn.Module`; by default the first axis, the batch.

    Raises:
        SourceError: no such file, an unknown kind of file, or errors in the program.
        OptionError: an option that this kind of model does not take, or a missing one.
        ParameterError: the weights do not fit.
        IntegrityError: the file carries its SHA-256, and another one than it has.
        LoweringError: PyTorch cannot export the module.
        UnsupportedError: operators without a meaning in the IR.
        BackendError: a package is missing that reads the file.
    """
    show_modules()
    if isinstance(weights, str):
        weights = Path(weights)
    wanted = {
        "layer": layer, "weights": weights, "trainable": trainable or None, "dt": dt,
        "rounding": rounding,
    }  # fmt: skip
    options = {name: value for name, value in wanted.items() if value is not None}
    is_file = isinstance(model, str | Path)
    if is_file or isinstance(model, ModuleOp):
        if not (example_inputs is None and input_shape is None and dynamic is None):
            raise OptionError(
                "example_inputs and shapes belong to a PyTorch module; "
                f"{_said(model)} is a program, and a program has its shapes"
            )
        front_end = front_end_of(Path(model)) if is_file else IR
        _check(options, front_end.options, _said(model))
        if is_file:
            check_file(Path(model))
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
        input_shape = getattr(model, "input_shape", None) if input_shape is None else input_shape
        if input_shape is None:
            raise OptionError("a PyTorch module needs input_shape or example_inputs")
        example_inputs = _zeros(input_shape)
    from_torch = resolved(f"{__package__}.from_torch:from_torch", "from_torch")
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
        raise BackendError(f"the model needs PyTorch: {install('torch')}") from None
    return (torch.zeros([int(size) for size in shape]),)


def _said(model: Model) -> str:
    return f"'{model}'" if isinstance(model, str | Path) else "IR"


_OWNERS = {"dt": "a .nir graph", "rounding": "a .tflite file"}
"""What takes an option that no other kind of model has."""


def _check(options: Iterable[str], taken: frozenset[str], what: str) -> None:
    """Refuse options that a front end does not take."""
    wrong = sorted(set(options) - taken)
    if wrong:
        names = " or ".join(f"'{name}'" for name in wrong)
        owner = _OWNERS.get(wrong[0], "a .tri program")
        raise OptionError(
            f"{what} takes no {names}; {owner} does"
            if wrong[0] in _OWNERS or "weights" in taken
            else f"{what} has its own weights and layers, and takes no {names}"
        )
