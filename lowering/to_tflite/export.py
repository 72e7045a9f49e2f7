"""`export_to_tflite`: a PyTorch module, or a program, as a `.tflite` file from Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast

from ...ir.errors import OptionError, refuse
from ..artifact import write_artifact
from ..calibration_file import SAMPLES, save_calibration
from ..emission import entry_function
from ..models import import_model
from ..targets import compile_to_target

MODES = {"int8": "int8", "float16": "float16", "dynamic": "dynamic-int8"}
"""The option `precision` of the target for each mode."""


@dataclass(frozen=True)
class TFLiteQuantizationConfig:
    """How to quantise.

    Attributes:
        mode: `int8`: integers throughout, on scales from samples. `dynamic`: integer weights;
            LiteRT rounds activations in each run. `float16`: weights in half precision.
        representative_dataset: for `int8`: batches of inputs, as a data loader gives them. A batch
            is an array or tensor, or a tuple whose first entries are the model's inputs (what
            follows, such as labels, is left out). At most `SAMPLES` samples are taken.
        inference_input_type: for `int8`: the type of inputs in the file.
        inference_output_type: for `int8`: the type of outputs.
    """

    mode: Literal["int8", "float16", "dynamic"] = "dynamic"
    representative_dataset: Iterable[Any] | None = field(default=None, repr=False)
    inference_input_type: Literal["float32", "int8", "uint8"] = "float32"
    inference_output_type: Literal["float32", "int8", "uint8"] = "float32"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise OptionError(f"expected mode one of {', '.join(MODES)}, got '{self.mode}'")
        if self.mode == "int8" and self.representative_dataset is None:
            raise OptionError(
                "mode 'int8' takes its scales from samples: give a representative_dataset"
            )


def export_to_tflite(
    model: Any,
    output_path: str | Path,
    *,
    input_shape: Sequence[int] | None = None,
    example_inputs: Any = None,
    quantize: bool = False,
    optimize_for_size: bool = False,
    quantization_config: TFLiteQuantizationConfig | None = None,
    layout: Literal["nchw", "nhwc"] = "nchw",
    self_check: bool = True,
) -> Path:
    """Write a model as a `.tflite` file; its path.

    Args:
        model: an `nn.Module`, a path, or IR (see `models.import_model`).
        output_path: where to.
        input_shape: of the one input of a PyTorch module; the first size is the batch, which the
            file leaves free.
        example_inputs: in its place, for other inputs (see `lowering.from_torch.from_torch`).
            Neither is needed where a representative data set gives inputs.
        quantize: 8-bit arithmetic without samples: mode `dynamic`.
        optimize_for_size: ternary weights in 2 bits in every layer, convolutions included.
        quantization_config: in place of `quantize`.
        layout: order of image inputs and outputs.
        self_check: compare the file in LiteRT with the interpreter before it is written.

    Raises:
        OptionError: arguments that do not go together.
        UnsupportedError: the target cannot express the model.
        BackendError: `ai-edge-litert` or PyTorch is missing.
    """
    if quantize and quantization_config is not None:
        raise OptionError("give quantize or quantization_config, not both")
    config = quantization_config or (TFLiteQuantizationConfig() if quantize else None)
    batches = _batches(config)
    needed = hasattr(model, "state_dict") and input_shape is None and example_inputs is None
    if needed and batches:
        example_inputs = (batches[0][0],)
    module = import_model(model, input_shape=input_shape, example_inputs=example_inputs)
    options: dict[str, object] = {
        "layout": layout,
        "self_check": self_check,
        "storage": "2bit" if optimize_for_size else "auto",
    }
    with TemporaryDirectory() as folder:
        if config is not None:
            options["precision"] = MODES[config.mode]
        if config is not None and config.mode == "int8":
            function = entry_function(module, "tflite")
            options["calibration"] = str(save_calibration(function, batches, Path(folder)))
            options["input_type"] = config.inference_input_type
            options["output_type"] = config.inference_output_type
        artifact = compile_to_target(module, "tflite", options)
    return write_artifact(artifact, Path(output_path))[0]


def _batches(config: TFLiteQuantizationConfig | None) -> list[tuple[Any, ...]]:
    """The batches of the representative data set, as tuples."""
    if config is None or config.representative_dataset is None:
        return []
    batches: list[tuple[Any, ...]] = []
    count = 0
    for batch in config.representative_dataset:
        several = isinstance(batch, tuple | list)
        batches.append(tuple(cast("Sequence[Any]", batch)) if several else (batch,))
        count += len(batches[-1][0])
        if count >= SAMPLES:
            break
    refuse(not batches, "the representative data set is empty")
    return batches
