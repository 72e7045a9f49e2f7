"""The pass `optimize-adder-graph`: products with constant trits become shared additions."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import tensor, ternary
from ..dialects.elements import numpy_dtype
from ..dialects.inference import InferredOp, tensor_type
from ..dialects.parameters import Array
from ..dialects.shapes import is_float
from ..dialects.ternary.types import is_trit
from ..ir.errors import OptionError
from .adder_graph import COSTS, InputRange, optimize_matrix
from .compile_time import is_literal, literal_value
from .replacement import erase, insert_before, replace
from .skip_zeros import FORM_ATTRIBUTE

WEIGHT_ATTRIBUTE = "ternary.weight"
"""The attribute of an adder graph that names the parameter it was made from."""

HARDWARE_FORM = "verilog.form"
"""The attribute of a product that `choose-folding` gave another form; it stays a product."""

Product = ternary.MatmulOp | ternary.LinearOp


@dataclass(frozen=True)
class OptimizeAdderGraphPass(ModulePass):
    """Turn integer products with constant trits into small graphs of shared additions.

    `ternary.matmul` and `ternary.linear` on integers or trits, with a weight [K, N] whose values
    are known, become `ternary.adder_graph`; bias, activation, thresholds and requantisation of a
    `linear` follow as ops of their own. The same bits are computed. This is for hardware, where an
    addition costs area: on a processor the product is faster.

        %y = ternary.linear %x, %w bias(%b : tensor<2xi32>) {activation = "relu"}
             : tensor<?x2xi8>, tensor<2x2x!ternary.trit> -> tensor<?x2xi32>
        // becomes
        %0 = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64: 0, 1, -1, 0>,
             outputs = array<i64: 2, 1, 1, 1>} : (tensor<?x2xi8>) -> tensor<?x2xi32>
        %1 = tensor.add %0, %b : (tensor<?x2xi32>, tensor<2xi32>) -> tensor<?x2xi32>
        %y = tensor.relu %1 : (tensor<?x2xi32>) -> tensor<?x2xi32>

    Left alone: float products, whose sums would round differently; weights that are not literals
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
        if self.cost not in COSTS:
            raise OptionError(
                f"{self.name} expects cost one of {', '.join(COSTS)}, got '{self.cost}'"
            )
        if self.max_depth is not None and self.max_depth < 0:
            raise OptionError(f"{self.name} expects max-depth of 0 or more, got {self.max_depth}")
        if not 0 <= self.time_budget < float("inf"):
            raise OptionError(f"{self.name} expects time-budget in seconds, got {self.time_budget}")
        if self.input_bits is not None and not 1 <= self.input_bits <= 32:
            raise OptionError(f"{self.name} expects input-bits in [1, 32], got {self.input_bits}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for product in list(op.walk()):
            if not isinstance(product, Product) or is_float(tensor_type(product.input)):
                continue
            if HARDWARE_FORM in product.attributes:
                split_product(product)
                continue
            weight = literal_value(product.weight)
            if weight is not None and weight.ndim == 2:
                self._convert(product, weight)

    def _convert(self, product: Product, weight: Array) -> None:
        inputs = input_range(product.input)
        if self.input_bits is not None:
            inputs = InputRange.of_bits(self.input_bits, signed=inputs.low < 0)
        found = optimize_matrix(
            weight,
            cost=self.cost,
            max_depth=self.max_depth,
            time_budget=float(self.time_budget),
            inputs=inputs,
        )
        graph = ternary.AdderGraphOp(product.input, found.inputs, found.nodes, found.outputs)
        literal = product.weight.owner
        _note_weight(graph, product)
        product.attributes.pop(FORM_ATTRIBUTE, None)
        ops = [graph, *_steps_after(graph.result, product)]
        for step in ops[:-1]:
            insert_before(product, step)
        replace(product, ops[-1])
        if is_literal(literal) and literal.result.first_use is None:
            erase(literal)


def split_product(op: Product) -> ternary.MatmulOp:
    """A product with what follows it as ops of their own; it notes the name of its weight."""
    product = op if isinstance(op, ternary.MatmulOp) else ternary.MatmulOp(op.input, op.weight)
    _note_weight(product, op)
    if product is not op:
        if HARDWARE_FORM in op.attributes:
            product.attributes[HARDWARE_FORM] = op.attributes[HARDWARE_FORM]
        *steps, last = [product, *_steps_after(product.result, op)]
        for step in steps:
            insert_before(op, step)
        replace(op, last)
    return product


def _note_weight(product: Operation, op: Product) -> None:
    literal = op.weight.owner
    if isinstance(literal, ternary.ParameterOp):
        product.attributes[WEIGHT_ATTRIBUTE] = literal.key
    elif op.weight.name_hint is not None:
        product.attributes[WEIGHT_ATTRIBUTE] = StringAttr(op.weight.name_hint)


def _steps_after(product: SSAValue, op: Product) -> list[InferredOp]:
    """The ops that do what a fused `linear` does after its product, in its order."""
    steps: list[InferredOp] = []
    value = product
    if not isinstance(op, ternary.LinearOp):
        return steps

    def then(step: InferredOp) -> None:
        nonlocal value
        steps.append(step)
        (value,) = step.results

    axis = tensor_type(product).get_num_dims() - 1
    if op.bias is not None:
        then(tensor.AddOp(value, op.bias))
    if op.activation.data == "relu":
        then(tensor.ReluOp(value))
    if op.thresholds is not None:
        then(tensor.MultiThresholdOp(value, op.thresholds, axis=axis))
    if op.multiplier is not None:
        assert op.shift is not None and op.zero_point is not None
        assert op.low is not None and op.high is not None
        then(
            tensor.RequantizeOp(
                value,
                op.multiplier,
                op.shift,
                op.zero_point,
                axis=axis,
                low=op.low.value.data,
                high=op.high.value.data,
            )
        )
    return steps


_MOVES = (
    tensor.FlattenOp,
    tensor.ReshapeToOp,
    tensor.PermuteOp,
    tensor.SqueezeOp,
    tensor.UnsqueezeOp,
)
"""Ops whose results hold the values of their one operand."""


def input_range(value: SSAValue) -> InputRange:
    """The integers that `value`, a tensor of integers or trits, can hold, by who made it."""
    while isinstance(value.owner, _MOVES):
        (value,) = value.owner.operands
    maker = value.owner
    if isinstance(maker, tensor.QuantizeOp | tensor.RequantizeOp):
        return InputRange(maker.low.value.data, maker.high.value.data)
    if isinstance(maker, ternary.FusedOp) and maker.low is not None and maker.high is not None:
        return InputRange(maker.low.value.data, maker.high.value.data)
    if isinstance(maker, tensor.MultiThresholdOp | ternary.FusedOp) and maker.thresholds:
        return InputRange(0, tensor_type(maker.thresholds).get_shape()[1])
    type = tensor_type(value)
    if is_trit(type):
        return InputRange(-1, 1)
    element = numpy_dtype(type.element_type)
    if element.kind == "b":
        return InputRange(0, 1)
    return InputRange.of_bits(8 * element.itemsize, signed=element.kind == "i")
