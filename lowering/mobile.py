"""`optimize_for_mobile`: a model as a small ONNX or TFLite file, each step of the way optional.

The steps are passes of the target's own stages; those that are turned off are left out of them. Not
here: what the passes and targets do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..ir.errors import OptionError, did_you_mean
from ..ir.pipeline import parse_pipeline, pipeline_text
from ..ir.value_names import argument_names
from ..passes.calibration.observation import Batch
from ..passes.universe import everything
from .artifact import Artifact, write_artifact
from .calibration_file import save_calibration
from .emission import entry_function
from .engine import run_artifact
from .models import ExampleInputs, Model, import_model
from .options import TargetOptions
from .stages import Stage
from .target import Target
from .targets import compile_to_target, get_target, read_options

_PRECISIONS = {None: "float32", "dynamic": "dynamic-int8", "static": "int8"}


@dataclass(frozen=True)
class MobileOptions:
    """What `optimize_for_mobile` does.

    Attributes:
        constant_folding: compute what follows from constants and weights alone.
        dead_code_elimination: simplify, leave out what nothing uses, compute equal values once.
        operator_fusion: join normalisations, biases and activations with the products before them.
        quantization: `dynamic`: 8-bit weights, activations rounded in each run. `static`: integers
            throughout, on scales from samples. `None`: floats.
    """

    constant_folding: bool = True
    dead_code_elimination: bool = True
    operator_fusion: bool = True
    quantization: Literal["dynamic", "static"] | None = None

    @staticmethod
    def of(values: Mapping[str, object]) -> MobileOptions:
        """Options by name.

        Raises:
            OptionError: an unknown name, or a value that is none of its.
        """
        known = sorted(field.name for field in fields(MobileOptions))
        for name, value in values.items():
            if name not in known:
                hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
                raise OptionError(f"unknown optimization option '{name}'{hint}")
            if name == "quantization":
                if value is not None and value not in ("dynamic", "static"):
                    raise OptionError(f"quantization is dynamic, static or None, got {value!r}")
            elif not isinstance(value, bool):
                raise OptionError(f"optimization option '{name}' is true or false, got {value!r}")
        return replace(MobileOptions(), **cast("dict[str, Any]", dict(values)))

    def dropped(self) -> set[str]:
        """The names of passes that are left out."""
        return {
            *(() if self.constant_folding else ("fold-constants",)),
            *(() if self.dead_code_elimination else ("canonicalize", "cse", "dce")),
            *(() if self.operator_fusion else ("fuse-linear",)),
        }


class MobileModel:
    """An optimised model: its file, and how to run it.

    It can be called with tensors or arrays, and saved: by `save` as an `.onnx` or `.tflite` file
    for devices, by `torch.save` as it is (`torch.load(path, weights_only=False)` reads it).
    """

    def __init__(self, backend: str, artifact: Artifact, input_names: Sequence[str]) -> None:
        self.backend = backend
        self.artifact = artifact
        self.input_names = tuple(input_names)

    @property
    def model_bytes(self) -> bytes:
        """The file."""
        assert self.artifact.primary is not None
        return self.artifact.files[self.artifact.primary]

    def save(self, path: str | Path) -> Path:
        """Write the file, and files of weights beside it where there are any; its path."""
        return write_artifact(self.artifact, Path(path), manifest=False)[0]

    def __call__(self, *inputs: Any) -> Any:
        """Run the model once in its target's engine, ONNX Runtime or LiteRT, loaded for it.

        Args:
            inputs: tensors or arrays, in order, with any batch.

        Returns:
            The result, or a tuple of them; tensors where the first input is one.
        """
        tensors = bool(inputs) and hasattr(inputs[0], "detach")
        arrays = [x.detach().cpu().numpy() if tensors else np.asarray(x) for x in inputs]
        _, made = run_artifact(self.backend, self.artifact, arrays)
        if tensors:
            import torch

            results = [torch.from_numpy(y) for y in made]
        else:
            results = made
        return results[0] if len(results) == 1 else tuple(results)

    def __repr__(self) -> str:
        size = sum(map(len, self.artifact.files.values()))
        return f"MobileModel(backend={self.backend!r}, {size} bytes)"


def optimize_for_mobile(
    model: Model,
    input_shape: Sequence[int] | None = None,
    backend: str = "onnx",
    optimization_options: Mapping[str, object] | None = None,
    *,
    example_inputs: ExampleInputs | None = None,
    calibration_data: Iterable[Batch] | None = None,
) -> MobileModel:
    """A model optimised for phones and small computers, its trits in two bits each.

    Args:
        model: an `nn.Module`, a path, or IR (see `models.import_model`).
        input_shape: of the one input of a module; the first size is the batch, which stays free.
        backend: a target with the options `precision` and `calibration`: `onnx` or `tflite`.
        optimization_options: fields of `MobileOptions` by name.
        example_inputs: in place of `input_shape`, for other inputs (see `from_torch`).
        calibration_data: for `quantization='static'`: batches of inputs, as a data loader gives
            them; what follows the inputs in a batch, such as labels, is left out.

    Raises:
        OptionError: an unknown backend or option, or no samples for `static`.
        UnsupportedError: the target cannot express the model.
        BackendError: a package that the backend needs is missing.
    """
    target = get_target(backend)
    if getattr(target.Options(), "precision", None) != "float32":
        raise OptionError(f"target '{backend}' has no floats that could be rounded")
    chosen = MobileOptions.of(optimization_options or {})
    static = chosen.quantization == "static"
    if static != (calibration_data is not None):
        raise OptionError("quantization='static' and calibration_data go together")
    program = import_model(model, input_shape=input_shape, example_inputs=example_inputs)
    function = entry_function(program, backend)
    values: dict[str, object] = {"precision": _PRECISIONS[chosen.quantization]}
    options = {field.name for field in fields(target.Options)}
    if "storage" in options:
        values["storage"] = "2bit"
    if "fuse" in options:
        values["fuse"] = chosen.operator_fusion
    with TemporaryDirectory() as folder:
        if calibration_data is not None:
            values["calibration"] = str(save_calibration(function, calibration_data, Path(folder)))
        parsed = read_options(target, values)
        artifact = compile_to_target(program, _Chosen(target, chosen), parsed)
    return MobileModel(backend, artifact, argument_names(function))


class _Chosen(Target[TargetOptions]):
    """A target without some of its passes."""

    def __init__(self, target: Target, chosen: MobileOptions) -> None:
        self.target = target
        self.chosen = chosen
        self.name = target.name  # pyright: ignore[reportAttributeAccessIssue]
        self.Options = target.Options  # pyright: ignore[reportAttributeAccessIssue]

    def prepare(self, module: ModuleOp, options: TargetOptions) -> None:
        self.target.prepare(module, options)

    def stages(self, options: TargetOptions) -> Sequence[Stage]:
        dropped, available = self.chosen.dropped(), everything().all_passes
        kept = [
            (s.name, [p for p in parse_pipeline(s.pipeline, available) if p.name not in dropped])
            for s in self.target.stages(options)
        ]
        return [Stage(name, pipeline_text(passes, anchor=False)) for name, passes in kept if passes]

    def emit(self, module: ModuleOp, options: TargetOptions) -> Artifact:
        return self.target.emit(module, options)
