"""The target `onnx`: its options, its stages, and the walk over the entry function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import prod
from typing import Literal, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type
from ...ir.errors import LoweringError, OptionError
from ...ir.identifiers import identifier
from ...ir.pipeline import option_text
from ...ir.progress import doing
from ...ir.value_names import DIMENSIONS_ATTRIBUTE, argument_names, result_names
from ...passes.calibration.ranges import Range
from ...passes.decompose import decomposition
from ..artifact import Artifact
from ..comparison import calibration_inputs
from ..emission import (
    STORED,
    Inexpressible,
    UnsupportedOps,
    entry_function,
    require_values,
    source_place,
)
from ..options import TargetOptions, option
from ..stages import UNTIL_FUSED, Stage
from ..target import Target, source_hash
from .byte_functions import ask
from .calibrated import quantize_graph
from .engine import self_check
from .graph import Graph, Port, element_type
from .model import FILE_LIMIT, IR_VERSIONS, ModelInfo, needs_external_data, serialize
from .onnx_rules import takes, write
from .onnx_writer import Writer
from .pairs import has_pairs
from .sharing import share_weights
from .widths import widen_channels


@dataclass(frozen=True)
class OnnxOptions(TargetOptions):
    """Options of the target `onnx`."""

    opset: int = option(21, "version of the standard operators, 13 to 25")
    form: Literal["exact", "fast"] = option(
        "exact",
        "exact: standard operators; fast: ternary layers as com.microsoft.MatMulNBits, which "
        "rounds activations to 8 bits and needs ONNX Runtime 1.28 or later",
    )
    precision: Literal["float32", "int8", "dynamic-int8"] = option(
        "float32",
        "int8: integers where ONNX Runtime has kernels, on ranges of the pass `calibrate` or of "
        "`calibration`; dynamic-int8: it rounds activations of matrix products in each run",
    )
    calibration: str | None = option(
        None, "samples for precision=int8: .npy, .npz or .safetensors, by argument name"
    )
    observer: Literal["minmax", "percentile", "entropy", "mse"] = option(
        "minmax", "how ranges follow from `calibration`, as in the pass `calibrate`"
    )
    weight_bits: int = option(
        8,
        "of float weights with precision=int8 and dynamic-int8: 8, or 7 for faster kernels",
    )
    int8_weights: Literal["asked", "safe", "always"] = option(
        "asked",
        "where weights of integer products are INT8: where the processor that loads the file adds "
        "them exactly, which a file of some size asks; safe: where all do; always: everywhere",
    )
    external_data: Literal["auto", "always"] = option(
        "auto", "put weights in a file beside the model: above `external-limit`, or always"
    )
    external_limit: int = option(
        FILE_LIMIT, "bytes of weights from which on they stand beside the model; 2 GB at most"
    )
    self_check: bool = option(
        True, "run the file in ONNX Runtime on generated inputs and compare with the interpreter"
    )

    def __post_init__(self) -> None:
        if self.opset not in IR_VERSIONS:
            low, high = min(IR_VERSIONS), max(IR_VERSIONS)
            raise OptionError(
                f"target 'onnx': option 'opset' expects {low} to {high}, got {self.opset}"
            )
        if self.weight_bits not in (7, 8):
            raise OptionError(
                f"target 'onnx': option 'weight-bits' expects 7 or 8, got {self.weight_bits}"
            )
        if self.calibration is not None and self.precision != "int8":
            raise OptionError("target 'onnx': the option 'calibration' belongs to precision=int8")
        if self.precision != "float32" and self.form == "fast":
            raise OptionError("target 'onnx': give form=fast or a precision, not both")
        if not 0 <= self.external_limit <= FILE_LIMIT:
            raise OptionError(
                f"target 'onnx': option 'external-limit' expects 0 to {FILE_LIMIT}, "
                f"got {self.external_limit}"
            )


ASKED_FROM = 8192
"""So many weights take long enough, and are large enough beside the 1,000 bytes of a question."""


class OnnxTarget(Target):
    """A model of standard ONNX operators; ternary weights stay packed in the file."""

    name = "onnx"
    description = "ONNX model, standard operators, ternary weights packed 2 bits each"
    Options = OnnxOptions
    engine = f"{__package__}.engine:OnnxEngine"
    engine_package = "onnxruntime"

    def stages(self, options: OnnxOptions) -> Sequence[Stage]:
        """Decompose, simplify, compute what is constant, fuse what follows a ternary product."""
        legal = decomposition(takes, options.opset)
        # Neurons last, so that nothing of their arithmetic is fused.
        loops = "convert-spike-to-tensor{neurons=loop resets=product}"
        end = f"{loops},{legal},fold-constants{{keep-packed=true}},canonicalize,cse,dce"
        stages = (Stage("decompose", legal), *UNTIL_FUSED, Stage("neurons", end))
        if options.precision == "float32":
            stages = tuple(_keeping_bytes(stage) for stage in stages)
        if options.precision != "int8" or options.calibration is None:
            return stages
        pairs = (("data", options.calibration), ("observer", options.observer))
        options_text = " ".join(option_text(name, (value,)) for name, value in pairs)
        return (*stages, Stage("calibrate", f"calibrate{{{options_text}}}"))

    def emit(self, module: ModuleOp, options: OnnxOptions) -> Artifact:
        """The `.onnx` file, and a file of weights beside it where one is not enough.

        Raises:
            UnsupportedError: names every op, or combination of element types, without a form.
            LoweringError: parameters without values, no `@forward`, or a failed self-check.
            BackendError: the `onnx` package is missing.
        """
        function = entry_function(module, self.name)
        require_values(module, "an ONNX file")
        graph = build_graph(function, options)
        name = identifier(module.sym_name.data) if module.sym_name is not None else "model"
        always = options.external_data == "always"
        external = always or needs_external_data(graph, options.external_limit)
        info = ModelInfo(
            name,
            _doc(module, name),
            version("triton-dsl"),
            {
                "source_layer": name,
                "pipeline": ",".join(stage.pipeline for stage in UNTIL_FUSED),
                "module_sha256": source_hash(module),
            },
        )
        data, beside = serialize(graph, info, external=external)
        if options.self_check:
            coarse = options.form == "fast" or options.precision != "float32"
            inputs = calibration_inputs(function, options.calibration)
            with doing("Comparing the file in ONNX Runtime"):
                self_check(data, beside, module, function, coarse=coarse, inputs=inputs)
        files = {f"{name}.onnx": data, **beside}
        return Artifact(name, files, primary=f"{name}.onnx")


def _keeping_bytes(stage: Stage) -> Stage:
    """A stage that leaves what stored integers stand for in the program (`pairs`)."""
    return Stage(
        stage.name, stage.pipeline.replace("{keep-packed=true", "{keep-packed=true keep-bytes=true")
    )


def _doc(module: ModuleOp, name: str) -> str:
    place = source_place(module.location)
    if place is None:
        return name
    return f"{name}, compiled from {place.rpartition('/')[2].split(':')[0]}"


def build_graph(function: func.FuncOp, options: OnnxOptions) -> Graph:
    """The graph of the entry function.

    Raises:
        UnsupportedError: names every op without a form.
    """
    graph, stored = Graph(options.opset, options.int8_weights), _stored(function)
    if options.int8_weights == "asked" and stored < ASKED_FROM:
        graph.int8_weights = "safe"
    writer = Writer(graph, options.form, options.precision, options.weight_bits)
    writer.stored = stored
    writer.keeps_pairs = options.precision == "float32" and has_pairs(function, writer.opset)
    inputs = _symbols(function.args, function.arg_attrs, argument_names(function), None)
    for argument, (name, sizes) in zip(function.args, inputs, strict=True):
        element = element_type(dense_type(argument).element_type)
        writer.bind_input(argument, graph.add_input(name, element, sizes))
    outputs = [graph.new_name(name) for name in result_names(function)]
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    _reserve_keys(function, writer)
    unsupported = UnsupportedOps("onnx")
    for op in function.body.block.ops:
        if op is not end:
            _emit_op(writer, op, unsupported)
    unsupported.raise_if_any()
    batch = next((size for port in graph.inputs for size in (port.shape or ())[:1]), "batch")
    ports = _symbols(end.arguments, function.res_attrs, outputs, batch)
    elements = [element_type(dense_type(value).element_type) for value in end.arguments]
    results = [writer.numbers(*pair) for pair in zip(end.arguments, elements, strict=True)]
    if options.precision == "int8":
        called = quantize_graph(graph, _ranges(writer), writer.matrices(), options.weight_bits)
        results = [called.get(name, name) for name in results]
    current: dict[str, str] = {}
    for value, element, name, (_, sizes) in zip(results, elements, outputs, ports, strict=True):
        current[value] = graph.add_output(current.get(value, value), Port(name, element, sizes))
    ask(graph)
    graph.drop_unused()
    widen_channels(graph)
    graph.drop_unused()
    share_weights(graph)
    return graph


def _stored(function: func.FuncOp) -> int:
    """How many weights a program has."""
    stored = [op for op in function.walk() if isinstance(op, tensor.ParameterOp)]
    return sum(prod(tensor_type(op.result).get_shape()) for op in stored)


def _ranges(writer: Writer) -> dict[str, Range]:
    ranges = writer.ranges()
    if not ranges:
        raise LoweringError(
            "target 'onnx': precision=int8 takes its scales from samples: give calibration=FILE "
            "(.npy, .npz or .safetensors), or run the pass 'calibrate' before"
        )
    return ranges


def _reserve_keys(function: func.FuncOp, writer: Writer) -> None:
    for op in function.walk():
        if isinstance(op, tensor.ParameterOp | ternary.ParameterOp):
            writer.reserve_key(op.key.data)


def _emit_op(writer: Writer, op: Operation, unsupported: UnsupportedOps) -> None:
    if isinstance(op, STORED):
        return
    try:
        write(writer, op)
    except Inexpressible as reason:
        unsupported.add(op, str(reason))
        writer.stand_in(op)


def _symbols(
    values: Sequence[SSAValue],
    attributes: ArrayAttr[DictionaryAttr] | None,
    names: Sequence[str],
    batch: int | str | None,
) -> list[tuple[str, tuple[int | str, ...]]]:
    """Each tensor's name and its dimensions: sizes, or names for dynamic ones.

    The source's own names are used where known; else `batch` for the first axis.
    """
    result: list[tuple[str, tuple[int | str, ...]]] = []
    for index, (value, name) in enumerate(zip(values, names, strict=True)):
        written = _written(attributes.data[index] if attributes is not None else None)
        sizes: list[int | str] = []
        for axis, size in enumerate(dense_type(value).get_shape()):
            if size != DYNAMIC:
                sizes.append(size)
            elif axis < len(written) and not written[axis].isdigit():
                sizes.append(written[axis])
            elif axis == 0:
                sizes.append(batch if isinstance(batch, str) else "batch")
            else:
                sizes.append(f"{name}_dim{axis}")
        result.append((name, tuple(sizes)))
    return result


def _written(attributes: DictionaryAttr | None) -> list[str]:
    value = None if attributes is None else attributes.data.get(DIMENSIONS_ATTRIBUTE)
    if not isinstance(value, ArrayAttr):
        return []
    items = cast("ArrayAttr[Attribute]", value)
    return [item.data for item in items if isinstance(item, StringAttr)]
