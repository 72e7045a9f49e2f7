"""The pass `optimize-adder-graph`: products with constant trits become shared additions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, i32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ...dialects import tensor, ternary
from ...dialects.elements import numpy_dtype
from ...dialects.inference import InferredOp, tensor_type
from ...dialects.parameters import module_of
from ...dialects.shapes import is_float
from ...dialects.ternary.types import is_trit
from ...dialects.traits import SelectsElements, has
from ...ir.errors import OptionError, expect_one_of
from ...ir.progress import tracked
from ..analysis.argument_bounds import noted_bounds
from ..analysis.compile_time import is_literal, literal, literal_value
from ..analysis.layers import Layer, channel_axis, input_of, layer_name, options_of, weight_of
from ..analysis.replacement import erase, insert_before, replace
from ..skip_zeros.skip_zeros import FORM_ATTRIBUTE
from . import COSTS, AdderGraph, InputRange, optimize_integers, optimize_matrix

WEIGHT_ATTRIBUTE = "ternary.weight"
"""The attribute of an adder graph that names the parameter it was made from."""

HARDWARE_FORM = "verilog.form"
"""The attribute of a product that `choose-folding` gave another form; it stays a product."""

Product = ternary.MatmulOp | ternary.LinearOp | tensor.MatmulOp | tensor.LinearOp
"""Products by a matrix; those of `tensor` with weights of several bits."""

Convolution = ternary.ConvOp | tensor.ConvOp


def check_search(of: str, cost: str, max_depth: int | None, time_budget: float) -> None:
    """Refuse options of a search for adders that are out of range; `of` is the pass.

    Raises:
        OptionError: one is.
    """
    expect_one_of(f"{of} expects cost", cost, COSTS)
    if max_depth is not None and max_depth < 0:
        raise OptionError(f"{of} expects max-depth of 0 or more, got {max_depth}")
    if not 0 <= time_budget < float("inf"):
        raise OptionError(f"{of} expects time-budget in seconds, got {time_budget}")


@dataclass(frozen=True)
class OptimizeAdderGraphPass(ModulePass):
    """Turn integer products with constant weights into small graphs of shared additions.

    `ternary.matmul` and `ternary.linear` on integers or trits, with a weight [K, N] whose values
    are known, become `ternary.adder_graph`; bias, activation, thresholds and requantisation of a
    `linear` follow as ops of their own. So do `tensor.matmul` and `tensor.linear` on i32: their
    weights of several bits are signed digits at their places, added after the sums of each place,
    and a `tensor.mul` by powers of two follows where all weights of a column are even. The same
    bits are computed. This is for hardware, where an
    addition costs area: on a processor the product is faster.

        %y = ternary.linear %x, %w bias(%b : tensor<2xi32>) {activation = "relu"}
             : tensor<?x2xi8>, tensor<2x2x!ternary.trit> -> tensor<?x2xi32>
        // becomes
        %0 = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64: 0, 1, -1, 0>,
             outputs = array<i64: 2, 1, 1, 1>} : (tensor<?x2xi8>) -> tensor<?x2xi32>
        %1 = tensor.add %0, %b : (tensor<?x2xi32>, tensor<2xi32>) -> tensor<?x2xi32>
        %y = tensor.relu %1 : (tensor<?x2xi32>) -> tensor<?x2xi32>

    Left alone: float products, whose sums would round differently; products of `tensor` on other
    integers than i32, whose sums wrap around elsewhere; weights that are not literals
    (run `fold-constants` before); products by several matrices; and `ternary.conv`, as there is no
    op for the windows of an image: who builds the windows (a line buffer in hardware) calls
    `passes.adder_graph.optimize_matrix` on the matrix [window, channels] itself.

    The result depends on the weights and the options alone, not on the machine or its load. It is
    expanded back and compared with the weight before it is used. `ternary.weight` names the
    parameter that the graph was made from.

    Raises:
        OptionError: an option is out of its range, or no graph of a weight is as flat as asked.
    """

    name = "optimize-adder-graph"

    cost: str = "bits"
    """What to make small: `bits`, the sum of the widths of the adders, which LUTs follow;
    `adders`, their number; `depth`, the longest way, and then their number."""

    max_depth: int | None = None
    """The most adders on the way from an input to an output; no bound by default."""

    time_budget: float | int = 1.0
    """About how many seconds to search a layer. Counted as work and not timed."""

    input_bits: int | None = None
    """The width of the inputs; by default that of their type, or of what made them if that is
    narrower (bounds of a quantisation, a number of thresholds)."""

    def __post_init__(self) -> None:
        check_search(self.name, self.cost, self.max_depth, self.time_budget)
        if self.input_bits is not None and not 1 <= self.input_bits <= 32:
            raise OptionError(f"{self.name} expects input-bits in [1, 32], got {self.input_bits}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        products = [p for p in op.walk() if isinstance(p, Product) and is_known_product(p)]
        for product in tracked(products, "Adders of a product", shown=False):
            if HARDWARE_FORM in product.attributes:
                split_product(product)
            else:
                self._convert(product)

    def _convert(self, product: Product) -> None:
        network, shifts = self._graph(product)
        graph = ternary.AdderGraphOp(
            input_of(product), network.inputs, network.nodes, network.outputs
        )
        literal = weight_of(product).owner
        note_weight(graph, product)
        product.attributes.pop(FORM_ATTRIBUTE, None)
        ops: list[InferredOp] = [graph]
        if any(shifts):
            ops.append(tensor.MulOp(graph.result, _powers(product, shifts)))
        ops += _steps_after(ops[-1].results[0], product)
        for step in ops[:-1]:
            insert_before(product, step)
        replace(product, ops[-1])
        if is_literal(literal) and literal.result.first_use is None:
            erase(literal)

    def _graph(self, product: Product) -> tuple[AdderGraph, list[int]]:
        """The graph, and the powers of two that columns are multiplied by behind it."""
        weight = literal_value(weight_of(product))
        assert weight is not None
        inputs = input_range(input_of(product))
        if self.input_bits is not None:
            inputs = InputRange.of_bits(self.input_bits, signed=inputs.low < 0)
        if isinstance(product, tensor.MatmulOp | tensor.LinearOp):
            return optimize_integers(
                weight.astype(np.int64),
                cost=self.cost,
                max_depth=self.max_depth,
                time_budget=float(self.time_budget),
                inputs=inputs,
            )
        graph = optimize_matrix(
            weight,
            cost=self.cost,
            max_depth=self.max_depth,
            time_budget=float(self.time_budget),
            inputs=inputs,
        )
        return graph, []


def is_known_product(op: Product) -> bool:
    """Whether an op multiplies integers by one matrix of known numbers, with sums in i32."""
    if is_float(tensor_type(input_of(op))):
        return False
    if (
        isinstance(op, tensor.MatmulOp | tensor.LinearOp)
        and tensor_type(op.result).element_type != i32
    ):
        return False
    weight = literal_value(weight_of(op))
    return weight is not None and weight.ndim == 2


def _powers(product: Product, shifts: list[int]) -> SSAValue:
    """Powers of two, one a column, before a product."""
    values = np.array([1 << shift for shift in shifts], np.int32)
    op = literal(module_of(product), "powers", values, TensorType(i32, values.shape), buffer=True)
    insert_before(product, op)
    return op.result


def split_product(op: Product | Convolution) -> None:
    """Make what follows a product or a convolution ops of their own.

    It notes the name of its weight, and so does what follows a convolution. One with a scale,
    or whose bias is not known, stays as it is.
    """
    product = _bare(op)
    if product is None:
        return
    ops = [product, *([] if product is op else _steps_after(product.results[0], op))]
    for each in ops if isinstance(op, Convolution) else ops[:1]:
        note_weight(each, op)
    if product is op:
        return
    if HARDWARE_FORM in op.attributes:
        product.attributes[HARDWARE_FORM] = op.attributes[HARDWARE_FORM]
    for step in ops[:-1]:
        insert_before(op, step)
    replace(op, ops[-1])


def _bare(op: Product | Convolution) -> InferredOp | None:
    """The product alone, which is the op itself where nothing follows."""
    match op:
        case ternary.MatmulOp() | tensor.MatmulOp():
            return op
        case tensor.LinearOp():
            return tensor.MatmulOp(op.input, op.weight)
        case ternary.LinearOp():
            return ternary.MatmulOp(op.input, op.weight)
        case _:
            options = options_of(op)
            if "scale" in options or ("bias" in options and literal_value(options["bias"]) is None):
                return None
            rectified = isinstance(op, ternary.ConvOp) and op.activation.data != "none"
            if not rectified and not options:
                return op
            return type(op)(op.input, op.weight, **op.window)


def note_weight(product: Operation, op: Layer) -> None:
    """Let a product have the name of a layer."""
    name = layer_name(op)
    if name:
        product.attributes[WEIGHT_ATTRIBUTE] = StringAttr(name)


def _steps_after(product: SSAValue, op: Product | Convolution) -> list[InferredOp]:
    """The ops that do what a fused op does after its product, in its order."""
    if isinstance(op, tensor.MatmulOp | ternary.MatmulOp):
        return []
    bias = _along_channels(op) if isinstance(op, Convolution) else op.bias
    biased = [] if bias is None else [tensor.AddOp(product, bias)]
    if not isinstance(op, ternary.FusedOp):
        return [*biased]
    return [*biased, *fused_steps(biased[0].result if biased else product, op, channel_axis(op))]


def _along_channels(op: Convolution) -> SSAValue | None:
    """The known bias of a convolution in a shape that broadcasts, before it."""
    bias = None if op.bias is None else literal_value(op.bias)
    if op.bias is None or bias is None:
        return None
    array = bias.reshape(-1, *[1] * (tensor_type(op.result).get_num_dims() - 2))
    maker = op.bias.owner
    key = maker.key.data if isinstance(maker, tensor.ParameterOp) else "bias"
    type = TensorType(tensor_type(op.bias).element_type, array.shape)
    constant = literal(module_of(op), f"{key}.channels", array, type)
    insert_before(op, constant)
    return constant.result


def fused_steps(value: SSAValue, op: ternary.FusedOp, axis: int) -> list[InferredOp]:
    """The ops that do what a fused op does after its bias, along an axis of channels."""
    steps: list[InferredOp] = []

    def then(step: InferredOp) -> None:
        nonlocal value
        steps.append(step)
        (value,) = step.results

    if op.activation.data == "relu":
        then(tensor.ReluOp(value))
    if op.thresholds is not None:
        then(tensor.MultiThresholdOp(value, op.thresholds, axis=axis))
    if op.multiplier is not None:
        assert op.shift is not None and op.zero_point is not None
        assert op.low is not None and op.high is not None
        ends = {"low": op.low.value.data, "high": op.high.value.data}
        scaling = op.multiplier, op.shift, op.zero_point
        then(tensor.RequantizeOp(value, *scaling, axis=axis, **ends))
    return steps


def _selected(value: SSAValue) -> SSAValue | None:
    """The one tensor whose elements those of `value` are."""
    op = value.owner
    return op.operands[0] if has(op, SelectsElements) and len(op.operands) == 1 else None


def input_range(value: SSAValue) -> InputRange:
    """The integers that `value`, a tensor of integers or trits, can hold, by who made it."""
    while (moved := _selected(value)) is not None:
        value = moved
    if (noted := noted_bounds(value)) is not None:
        return noted.range
    maker = value.owner
    if isinstance(maker, tensor.QuantizeOp | tensor.RequantizeOp):
        return InputRange(maker.low.value.data, maker.high.value.data)
    if isinstance(maker, ternary.FusedOp) and maker.low is not None and maker.high is not None:
        return InputRange(maker.low.value.data, maker.high.value.data)
    if isinstance(maker, tensor.MultiThresholdOp | ternary.FusedOp) and maker.thresholds:
        return InputRange(0, tensor_type(maker.thresholds).get_shape()[1])
    all_of_type = type_range(value)
    computed = _computed_range(maker) if isinstance(maker, Operation) else None
    if computed is None or computed.low < all_of_type.low or computed.high > all_of_type.high:
        return all_of_type
    return computed


def _computed_range(op: Operation) -> InputRange | None:
    """What conversions and sums with known numbers make of their operand, without wrapping."""
    if isinstance(op, tensor.ConvertOp) and not is_float(tensor_type(op.operand)):
        return input_range(op.operand)
    if isinstance(op, tensor.PadToOp):
        inner, pad = input_range(op.operand), int(op.value.value.data)
        return InputRange(min(inner.low, pad), max(inner.high, pad))
    if isinstance(op, tensor.ReluOp):
        inner = input_range(op.operand)
        return InputRange(max(inner.low, 0), max(inner.high, 0))
    if not isinstance(op, tensor.AddOp | tensor.SubOp | tensor.MaximumOp | tensor.MinimumOp):
        return None
    left, right = (_ends(operand) for operand in op.operands)
    if isinstance(op, tensor.SubOp):
        right = InputRange(-right.high, -right.low)
    if isinstance(op, tensor.AddOp | tensor.SubOp):
        return InputRange(left.low + right.low, left.high + right.high)
    choose = max if isinstance(op, tensor.MaximumOp) else min
    return InputRange(choose(left.low, right.low), choose(left.high, right.high))


def _ends(value: SSAValue) -> InputRange:
    known = literal_value(value)
    if known is None or not known.size:
        return input_range(value)
    return InputRange(int(known.min()), int(known.max()))


def type_range(value: SSAValue) -> InputRange:
    """The integers that the type of a tensor of integers or trits holds."""
    type = tensor_type(value)
    if is_trit(type):
        return InputRange(-1, 1)
    element = numpy_dtype(type.element_type)
    if element.kind == "b":
        return InputRange(0, 1)
    return InputRange.of_bits(8 * element.itemsize, signed=element.kind == "i")
