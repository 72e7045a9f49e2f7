"""PyTorch forms of quantisation, thresholds, and of making and packing trits."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.shapes import axes_behind
from ..emission import no_form
from .expressions import Expr, binary, sequence
from .forward import Forward, Refusal, bits_of, dtype_of
from .literals import number


def along(expression: Expr, value: SSAValue, rank: int, axis: int) -> Expr:
    """A vector shaped to broadcast along `axis` of a tensor of `rank`; a scalar stays."""
    scalar = expression.scalar or not tensor_type(value).get_shape()
    behind = 0 if scalar else axes_behind(axis, rank)
    return expression.method("reshape", -1, *[1] * behind) if behind else expression


def quantize(op: tensor.QuantizeOp, e: Forward) -> Expr:
    """Floats to integers."""
    rank, axis = tensor_type(op.input).get_num_dims(), op.axis.value.data
    return e.library(
        "quantize",
        e.value(op.input),
        along(e.operand(op.scale), op.scale, rank, axis),
        along(e.operand(op.zero_point), op.zero_point, rank, axis),
        op.low.value.data,
        op.high.value.data,
        dtype_of(op.result),
    )


def dequantize(op: tensor.DequantizeOp, e: Forward) -> Expr:
    """Integers to floats."""
    rank, axis = tensor_type(op.input).get_num_dims(), op.axis.value.data
    steps = e.value(op.input)
    zero = along(e.operand(op.zero_point), op.zero_point, rank, axis)
    if zero.text != "0":
        wide = "torch.int32" if bits_of(op.input) < 32 else "torch.int64"
        steps = binary("-", steps.method("to", wide), zero)
    scale = along(e.operand(op.scale), op.scale, rank, axis)
    return binary("*", steps.method("to", "torch.float32"), scale)


def requantize(op: tensor.RequantizeOp, e: Forward) -> Expr:
    """Integers to narrower integers."""
    return rescale(
        e.value(op.input),
        (op.multiplier, op.shift, op.zero_point),
        (op.low.value.data, op.high.value.data),
        tensor_type(op.input).get_num_dims(),
        op.axis.value.data,
        dtype_of(op.result),
        e,
    )


def rescale(
    x: Expr,
    parameters: tuple[SSAValue, SSAValue, SSAValue],
    bounds: tuple[int, int],
    rank: int,
    axis: int,
    dtype: str,
    e: Forward,
) -> Expr:
    """The arithmetic of `tensor.requantize`; `parameters` are multiplier, shift, zero point."""
    vectors = [along(e.operand(value), value, rank, axis) for value in parameters]
    return e.library("requantize", x, *vectors, *bounds, dtype)


def multi_threshold(op: tensor.MultiThresholdOp, e: Forward) -> Expr:
    """Count thresholds."""
    axis = op.axis.value.data
    return count_thresholds(e.value(op.input), op.thresholds, axis, dtype_of(op.result), e)


def count_thresholds(x: Expr, thresholds: SSAValue, axis: int, dtype: str, e: Forward) -> Expr:
    """The number of thresholds that x reaches."""
    return e.library("count_thresholds", x, e.value(thresholds), axis, dtype)


def ternarize(op: ternary.TernarizeOp, e: Forward) -> list[Expr]:
    """Floats to trits, with a straight-through gradient, and their scale."""
    if op.mode.data != "deterministic":
        raise Refusal(no_form(op, "PyTorch"))
    x = e.local(op.operand)
    dtype = dtype_of(op.operand)
    axis = op.axis.value.data if op.scaling.data == "channel" else None
    if op.threshold is not None:
        trits = e.library("ternarize", x, number(op.threshold.value.data))
    elif op.rule.data == "absmean":
        mean = e.library("mean_magnitude", x, *([] if axis is None else [axis]))
        trits = e.library("ternarize_absmean", x, mean)
    else:
        mean = e.library("mean_magnitude", x, *([] if axis is None else [axis]))
        trits = e.library("ternarize", x, binary("*", Expr("0.7"), mean))
    wish = x.text.removeprefix("self.")
    name = e.bind(op, f"{wish}_ternary", trits)
    e.set_trits(op.trits, name, dtype)
    if op.scale is None:
        return [name]
    return [name, e.library("ternary_scale", x, name, *([] if axis is None else [axis]))]


def pack(op: ternary.PackOp, e: Forward) -> Expr:
    """Trits to bytes."""
    return e.library("pack_ternary", e.trits(op.operand, "torch.int8"))


def unpack(op: ternary.UnpackOp, e: Forward) -> Expr:
    """Bytes to trits."""
    shape = tensor_type(op.result).get_shape()
    packed = e.local(op.operand)
    trits = e.library("unpack_ternary", packed, sequence(shape), dtype="torch.int8")
    name = e.bind(op, op.result.name_hint or "trits", trits)
    e.set_trits(op.result, name, "torch.int8")
    return name


def ternary_dequantize(op: ternary.DequantizeOp, e: Forward) -> Expr:
    """Trits times a scale."""
    trits = e.trits(op.operand, dtype_of(op.result))
    if op.scale is None:
        return trits
    rank, axis = tensor_type(op.operand).get_num_dims(), op.axis.value.data
    return binary("*", trits, along(e.operand(op.scale), op.scale, rank, axis))


def adder_graph(op: ternary.AdderGraphOp, e: Forward) -> Expr:
    """A matrix as additions; the graph stands as a table at the top of the file."""
    nodes = e.table(op, "ADDER_NODES", op.nodes.get_values(), 4)
    outputs = e.table(op, "ADDER_OUTPUTS", op.outputs.get_values(), 2)
    return e.library("run_adder_graph", e.value(op.operand), nodes, outputs, dtype_of(op.result))


RULES = {
    tensor.QuantizeOp: quantize,
    tensor.DequantizeOp: dequantize,
    tensor.RequantizeOp: requantize,
    tensor.MultiThresholdOp: multi_threshold,
    ternary.TernarizeOp: ternarize,
    ternary.PackOp: pack,
    ternary.UnpackOp: unpack,
    ternary.DequantizeOp: ternary_dequantize,
    ternary.AdderGraphOp: adder_graph,
}
"""The rule of each op."""
