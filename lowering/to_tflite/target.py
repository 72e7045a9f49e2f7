"""The target `tflite`: its options, its stages, and the walk over the entry function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.spike.types import dense_type
from ...dialects.traits import ChannelsFirst, has
from ...ir.errors import OptionError
from ...ir.identifiers import free_name, identifier
from ...ir.pipeline import option_text
from ...ir.progress import doing
from ...ir.value_names import argument_names, result_names
from ...passes.calibration.ranges import Range, recorded_calibration, recorded_range
from ...passes.decompose import decomposition
from ..artifact import Artifact
from ..comparison import calibration_inputs
from ..emission import (
    STORED,
    Inexpressible,
    UnsupportedOps,
    entry_function,
    require_elements,
    require_values,
)
from ..options import TargetOptions, option
from ..stages import UNTIL_FUSED, Stage
from ..target import Target, source_hash
from .calibrated import to_integers
from .engine import self_check
from .flatbuffer import ModelInfo, serialize
from .fusion import fuse
from .graph import Element, Graph, Tensor, element_type
from .integer_grids import Kernel
from .integer_kernels import integer_kernels, needed, put_on_grid
from .layout import Layout, channels_last, plain
from .precision import BITS_8, BITS_16, store_weights, to_dynamic_int8, to_float16
from .sharing import part_shared
from .tflite_rules import takes, write
from .tflite_writer import Writer


@dataclass(frozen=True)
class TFLiteOptions(TargetOptions):
    """Options of the target `tflite`."""

    precision: Literal["float32", "float16", "dynamic-int8", "int8", "int16"] = option(
        "float32",
        "float32; float16: weights in half precision; dynamic-int8: LiteRT rounds activations of "
        "products to 8 bits; int8: integers throughout, on scales from `calibration`; int16: the "
        "same with activations of 16 bits",
    )
    weights: Literal["auto", "int8", "int4"] = option(
        "auto", "dense weights in the file; auto: as `precision` says, 8 bits in integer arithmetic"
    )
    storage: Literal["auto", "2bit", "4bit", "int8"] = option(
        "auto", "trits in the file; auto: 2 bits where LiteRT multiplies them fast, else int8"
    )
    layout: Literal["nchw", "nhwc"] = option(
        "nchw", "order of image inputs and outputs; nhwc needs no transpose"
    )
    calibration: str | None = option(
        None, "samples for precision=int8 or int16: .npy, .npz or .safetensors, by argument name"
    )
    observer: Literal["minmax", "percentile", "entropy", "mse"] = option(
        "minmax", "how ranges follow from `calibration`, see the pass `calibrate`"
    )
    input_type: Literal["float32", "int8", "uint8", "int16"] = option(
        "float32", "type of inputs with precision=int8 (int8, uint8) or int16"
    )
    output_type: Literal["float32", "int8", "uint8", "int16"] = option(
        "float32", "type of outputs with precision=int8 (int8, uint8) or int16"
    )
    integers: Literal["kernels", "exact"] = option(
        "kernels",
        "kernels: LiteRT's integer kernels where they compute what the program says, bit for bit "
        "by its reference kernels; exact: float kernels that are exact everywhere",
    )
    fuse: bool = option(True, "join biases and activations with the operators before them")
    self_check: bool = option(
        True, "run the file in LiteRT on generated inputs and compare with the interpreter"
    )

    def __post_init__(self) -> None:
        full = self.precision in ("int8", "int16")
        if not full and (self.calibration, self.input_type, self.output_type) != (
            None, "float32", "float32",
        ):  # fmt: skip
            raise OptionError(
                "target 'tflite': the options 'calibration', 'input-type' and 'output-type' belong "
                "to precision=int8 and int16"
            )
        if self.precision == "float16" and self.weights != "auto":
            raise OptionError(
                "target 'tflite': precision=float16 stores dense weights in half precision; "
                "leave 'weights' out or take another precision"
            )
        ports = ("float32", "int16") if self.precision == "int16" else ("float32", "int8", "uint8")
        for name, type in (("input-type", self.input_type), ("output-type", self.output_type)):
            if type not in ports:
                raise OptionError(
                    f"target 'tflite': {name}={type} does not go with precision={self.precision}; "
                    f"expected one of {', '.join(ports)}"
                )


class TFLiteTarget(Target):
    """A `.tflite` file for LiteRT; ternary weights stay packed in it."""

    name: ClassVar[str] = "tflite"
    description: ClassVar[str] = "TFLite model for LiteRT, ternary weights packed 2 bits each"
    Options: ClassVar[type[TargetOptions]] = TFLiteOptions
    engine = f"{__package__}.engine:TFLiteEngine"
    engine_package = "ai_edge_litert"
    known_steps = True

    def stages(self, options: TFLiteOptions) -> Sequence[Stage]:
        """Simplify, compute what is constant, fuse what follows a product; look at samples."""
        legal = decomposition(takes)
        # Neurons last, so that nothing of their arithmetic is fused.
        loops = f"convert-spike-to-tensor{{neurons=loop}},{legal}"
        end = f"{loops},fold-constants{{keep-packed=true}},canonicalize,cse,dce"
        stages = (Stage("decompose", legal), *UNTIL_FUSED, Stage("neurons", end))
        if options.calibration is None:
            return stages
        values = {
            "data": options.calibration,
            "observer": options.observer,
            "bits": 8 if options.precision == "int8" else 16,
            "symmetric": options.precision == "int16",
        }
        options_text = " ".join(option_text(name, (value,)) for name, value in values.items())
        return (*stages, Stage("calibrate", f"calibrate{{{options_text}}}"))

    def emit(self, module: ModuleOp, options: TFLiteOptions) -> Artifact:
        """The `.tflite` file.

        Raises:
            UnsupportedError: names every op, or combination of element types, without a form.
            LoweringError: parameters without values, no `@forward`, or a failed self-check.
            BackendError: `ai-edge-litert` is missing.
        """
        function = entry_function(module, self.name)
        require_values(module, "a .tflite file")
        graph, orders, ranges, reference = build_graph(function, options)
        if options.fuse:
            fuse(graph)
        inputs = None
        if options.weights != "auto":
            store_weights(graph, int(options.weights.removeprefix("int")))
        match options.precision:
            case "float16":
                to_float16(graph)
            case "dynamic-int8":
                to_dynamic_int8(graph)
            case "int8" | "int16":
                types = (Element[options.input_type.upper()], Element[options.output_type.upper()])
                how = BITS_8 if options.precision == "int8" else BITS_16
                if recorded_calibration(function) is None:
                    raise OptionError(
                        f"target 'tflite': precision={options.precision} takes its scales from "
                        "samples: give calibration=FILE (.npy, .npz or .safetensors), or run the "
                        "pass 'calibrate' before"
                    )
                to_integers(graph, ranges, types, how)
                inputs = calibration_inputs(function, options.calibration)
            case _:
                pass
        part_shared(graph)
        name = identifier(module.sym_name.data) if module.sym_name is not None else "model"
        metadata = {"source_layer": name, "module_sha256": source_hash(module)}
        data = serialize(graph, ModelInfo(f"{name}, by triton-dsl", metadata))
        compared = False
        if options.self_check and (options.input_type, options.output_type) == ("float32",) * 2:
            coarse = options.precision != "float32" or options.weights != "auto"
            with doing("Comparing the file in LiteRT"):
                compared = self_check(
                    data,
                    module,
                    function,
                    orders,
                    coarse=coarse,
                    inputs=inputs,
                    reference=reference,
                )
        manifest = {
            "input_axes": orders[0],
            "output_axes": orders[1],
            "compared": compared,
            "kernels": "reference" if reference else "any",
        }
        return Artifact(name, {f"{name}.tflite": data}, manifest=manifest, primary=f"{name}.tflite")


Orders = tuple[list[tuple[int, ...]], list[tuple[int, ...]]]
"""Of each input's and each output's axes in the file."""


def build_graph(
    function: func.FuncOp, options: TFLiteOptions
) -> tuple[Graph, Orders, dict[Tensor, Range], bool]:
    """The graph of the entry function, the order of axes of inputs and outputs, recorded ranges.

    The last of the results says whether it is exact on LiteRT's reference kernels alone.

    Raises:
        UnsupportedError: names every op without a form.
    """
    require_elements(function, "tflite", element_type)
    graph = Graph()
    narrow = options.precision in ("dynamic-int8", "int8", "int16")
    writer = Writer(graph, options.storage, narrow=narrow)
    inputs = [
        _input(writer, argument, name, options.layout)
        for argument, name in zip(function.args, argument_names(function), strict=True)
    ]
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    unsupported = UnsupportedOps("tflite")
    kernels = integer_kernels(function, exact=options.integers == "exact")
    wanted = needed(function, kernels) if kernels else None
    if kernels:
        for argument in function.args:
            put_on_grid(writer, argument)
    for op in function.body.block.ops:
        if op is not end and (wanted is None or op in wanted):
            _emit_op(writer, op, unsupported, kernels.get(op))
            if kernels:
                for result in op.results:
                    put_on_grid(writer, result)
    names = set(graph.input_names)
    outputs: list[tuple[int, ...]] = []
    for value, name in zip(end.arguments, result_names(function), strict=True):
        names.add(given := free_name(name, names))
        try:
            outputs.append(_output(writer, value, given, options.layout))
        except Inexpressible as reason:
            unsupported.add(end, f"result '{name}': {reason}")
    unsupported.raise_if_any()
    graph.drop_unused()
    rescales = any(not isinstance(op, _ALIKE) for op in kernels)
    return graph, (inputs, outputs), _recorded(writer, function), rescales


def _recorded(writer: Writer, function: func.FuncOp) -> dict[Tensor, Range]:
    """The ranges that the program records, by the tensors of the values."""
    values = [*function.args, *(result for op in function.body.block.ops for result in op.results)]
    ranges = {value: recorded_range(value) for value in values if writer.has(value)}
    return {writer.stored(v)[0]: seen for v, seen in ranges.items() if seen is not None}


_ALIKE = (tensor.DequantizeOp, tensor.QuantizeOp, tensor.MaxPoolOp)
"""Ops whose integer kernels give the same numbers in all sets of LiteRT's kernels."""


def _emit_op(
    writer: Writer, op: Operation, unsupported: UnsupportedOps, kernel: Kernel | None = None
) -> None:
    if isinstance(op, STORED):
        return
    try:
        if kernel is None:
            write(writer, op)
        else:
            writer.start(op)
            kernel.write(writer)
    except Inexpressible as reason:
        unsupported.add(op, str(reason))
        writer.stand_in(op)


def _input(writer: Writer, argument: SSAValue, name: str, layout: str) -> tuple[int, ...]:
    """A graph input; the order of its axes."""
    type = dense_type(argument)
    rank = type.get_num_dims()
    image = layout == "nhwc" and rank == 4 and _reaches_window(argument)
    order = channels_last(rank) if image else plain(rank)
    element = element_type(type.element_type)
    stored = Tensor(name, element, order.stored(type.get_shape()))
    writer.graph.inputs.append(stored)
    writer.graph.input_names.append(name)
    writer.bind(argument, stored, order)
    return order.order


def _reaches_window(argument: SSAValue) -> bool:
    """Whether a value is an image: it goes, perhaps changed element by element, into a window."""
    seen: set[SSAValue] = set()
    open_ = [argument]
    while open_:
        value = open_.pop()
        for use in value.uses:
            if has(use.operation, ChannelsFirst):
                return True
            for result in use.operation.results:
                same = result not in seen and len(use.operation.results) == 1
                if same and dense_type(result).get_num_dims() == 4:
                    seen.add(result)
                    open_.append(result)
    return False


def _output(writer: Writer, value: SSAValue, name: str, layout: str) -> tuple[int, ...]:
    """A graph output; the order of its axes."""
    graph = writer.graph
    stored, have = writer.stored(value)
    keep = layout == "nhwc" and stored.rank == 4 and have.is_channels_last
    order: Layout = have if keep else plain(stored.rank)
    port = writer.laid(value, order)
    if port in graph.inputs or port in graph.outputs or port.data is not None:
        port = _copied(writer, port)
    graph.outputs.append(port)
    graph.output_names.append(name)
    return order.order


def _copied(writer: Writer, value: Tensor) -> Tensor:
    """The same values as a tensor of their own: an output is neither an input nor stored."""
    axes = [writer.indices(v, "bounds") for v in ([0] * value.rank, [-1] * value.rank)]
    if not value.rank:
        sizes = writer.indices([], "shape")
        return writer.node("RESHAPE", [value, sizes], value.element, value.shape)
    return writer.node("SLICE", [value, *axes], value.element, value.shape)
