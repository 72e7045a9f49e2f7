"""`export_to_onnx`: a PyTorch module, or a program, as an `.onnx` file from Python."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp

from ...ir.errors import OptionError
from ...ir.value_names import NAME_ATTRIBUTE, argument_names, result_names
from ..artifact import write_artifact
from ..emission import entry_function
from ..models import import_model
from ..targets import compile_to_target

if TYPE_CHECKING:
    from ..from_torch.free_sizes import DynamicSizes

DynamicAxes = Mapping[str, Mapping[int, str] | Iterable[int]]
"""For an input or output the names of its free sizes by axis, or the axes alone."""


def export_to_onnx(
    model: Any,
    output_path: str | Path,
    input_shape: Sequence[int] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int = 21,
    dynamic_axes: DynamicAxes | None = None,
    verbose: bool = False,
    *,
    example_inputs: Any = None,
    form: Literal["exact", "fast"] = "exact",
    precision: Literal["float32", "int8", "dynamic-int8"] = "float32",
    calibration: str | Path | None = None,
    weight_bits: Literal[7, 8] = 8,
    self_check: bool = True,
) -> Path:
    """Write a model as an `.onnx` file; its path.

    Args:
        model: an `nn.Module`, a path, or IR, which stays as it is (see `models.import_model`).
        output_path: where to.
        input_shape: of the one input of a PyTorch module.
        input_names: of the inputs, in order; by default those of `forward`.
        output_names: of the outputs, in order.
        opset_version: of the standard operators, 13 to 25.
        dynamic_axes: the free sizes of a PyTorch module, by input; what follows for outputs is
            found. By default the first axis of the inputs; `{}` for none.
        verbose: print what was written.
        example_inputs: in the place of `input_shape`, for other inputs (see `from_torch`).
        form: of ternary layers: `exact`, or `fast` with ONNX Runtime's own operator.
        precision: `int8`: integers, on scales from samples; `dynamic-int8`: ONNX Runtime rounds
            activations of products in each run.
        calibration: for `int8`: samples (.npy, .npz or .safetensors) by argument name; without it
            the program's own ranges, of the pass `calibrate`.
        weight_bits: of float weights that become integers; 7 bits take faster kernels.
        self_check: compare the file in ONNX Runtime with the interpreter before it is written.

    Raises:
        OptionError: arguments that do not go together.
        UnsupportedError: the target cannot express the model.
        LoweringError: PyTorch cannot export the module, or a failed self-check.
        BackendError: the `onnx` package or PyTorch is missing.
    """
    dynamic = None
    if dynamic_axes is not None:
        if not hasattr(model, "forward"):
            raise OptionError("dynamic_axes are of a PyTorch module; a program has its shapes")
        dynamic = _free_sizes(model, example_inputs, dynamic_axes, input_names, output_names or ())
    module = import_model(
        model, input_shape=input_shape, example_inputs=example_inputs, dynamic=dynamic
    ).clone()
    function = entry_function(module, "onnx")
    _name(function, input_names, output_names)
    _know_outputs(function, dynamic_axes or {})
    options: dict[str, object] = {
        "opset": opset_version,
        "form": form,
        "precision": precision,
        "weight_bits": weight_bits,
        "self_check": self_check,
    }
    if calibration is not None:
        options["calibration"] = str(calibration)
    artifact = compile_to_target(module, "onnx", options)
    written = write_artifact(artifact, Path(output_path))
    if verbose:
        _tell(written, function, opset_version)
    return written[0]


def _free_sizes(
    model: Any,
    example_inputs: Any,
    axes: DynamicAxes,
    input_names: Sequence[str] | None,
    output_names: Sequence[str],
) -> DynamicSizes:
    """The free sizes by arguments of `forward`; names of inputs stand for them in order."""
    arguments = list(inspect.signature(model.forward).parameters)
    if isinstance(example_inputs, Mapping):
        arguments = list(cast("Mapping[str, Any]", example_inputs))
    if input_names is not None and len(input_names) > len(arguments):
        raise OptionError(f"input_names: 'forward' takes {', '.join(arguments) or 'nothing'}")
    places = dict(zip(input_names or arguments, arguments, strict=False))
    places.update({name: name for name in arguments if name not in places})
    return {
        places[name]: _named(name, sizes)
        for name, sizes in axes.items()
        if name in places and name not in output_names
    }


def _named(name: str, axes: Mapping[int, str] | Iterable[int]) -> dict[int, str]:
    if isinstance(axes, Mapping):
        return {int(axis): str(size) for axis, size in cast("Mapping[int, str]", axes).items()}
    return {axis: "batch" if axis == 0 else f"{name}_dim{axis}" for axis in axes}


def _name(function: FuncOp, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> None:
    """Give arguments and results other names."""
    for what, names, known in (
        ("input_names", inputs, argument_names(function)),
        ("output_names", outputs, result_names(function)),
    ):
        if names is None:
            continue
        if len(names) != len(known) or len(set(names)) != len(names):
            raise OptionError(
                f"{what}: expected {len(known)} different names for {', '.join(known)}, "
                f"got {', '.join(names) or 'none'}"
            )
        table = function.arg_attrs if what == "input_names" else function.res_attrs
        dictionaries = [DictionaryAttr({})] * len(known) if table is None else list(table)
        renamed = ArrayAttr(
            [
                DictionaryAttr({**attributes.data, NAME_ATTRIBUTE: StringAttr(name)})
                for attributes, name in zip(dictionaries, names, strict=True)
            ]
        )
        if what == "input_names":
            function.arg_attrs = renamed
        else:
            function.res_attrs = renamed


def _know_outputs(function: FuncOp, axes: DynamicAxes) -> None:
    """Refuse names that are neither those of inputs nor of outputs."""
    known = [*argument_names(function), *result_names(function)]
    arguments = [argument.name_hint for argument in function.args]
    for name in axes:
        if name not in known and name not in arguments:
            raise OptionError(
                f"dynamic_axes: there is no input or output '{name}'; there are {', '.join(known)}"
            )


def _tell(written: Sequence[Path], function: FuncOp, opset: int) -> None:
    size = sum(path.stat().st_size for path in written)
    names = " → ".join(
        ", ".join(ports) for ports in (argument_names(function), result_names(function))
    )
    print(f"{written[0]}: {names}, opset {opset}, {size:,} bytes")
