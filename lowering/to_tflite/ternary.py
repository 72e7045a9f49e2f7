"""TFLite forms of the `ternary` dialect: products with stored trits, and trits at run time.

Trits are stored as INT8, INT4 or INT2 (see `Writer.stored_trits`). LiteRT's convolutions of
integers give NaN or wrong numbers with INT2: there a 1x1 convolution is a FULLY_CONNECTED, and any
other is one on `columns` where `storage=2bit` asks for it. In float32 LiteRT unpacks once what is
stored, and convolves.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import ternary
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC, is_float
from ...dialects.ternary.linear import accumulator
from ...passes.analysis.magnitude import sum_terms
from ..emission import no_form
from .activation import rectify, rectify_to_6
from .elementwise import clip
from .graph import Array, Element, Tensor, element_type
from .layout import Layout, channels_last, plain
from .linear import batch_matmul, vector_input
from .products import (
    columns,
    convolution,
    dequantized,
    exact_product,
    fully_connected,
    is_depthwise,
    lifted,
    weight_order,
)
from .quantization import Rescaling, count_thresholds, rescale
from .shape import without
from .tflite_writer import Inexpressible, Rule, Writer
from .window import lift, unlift, window_of


def matmul(e: Writer, op: ternary.MatmulOp) -> None:
    """A product with trits."""
    out, layout, scaled = _product(e, op.input, op.weight, op.scale)
    if op.scale is not None and not scaled:
        out = e.binary("MUL", out, e.value(op.scale))
    e.bind(op.result, out, layout)


def linear(e: Writer, op: ternary.LinearOp) -> None:
    """A product with trits and the steps behind it."""
    out, layout, scaled = _product(e, op.input, op.weight, op.scale)
    _finish(e, op, out, layout, scaled=scaled)


def _product(
    e: Writer, input: SSAValue, weight: SSAValue, scale: SSAValue | None
) -> tuple[Tensor, Layout, bool]:
    """x · W, its order of axes, and whether the scale is in it."""
    trits = e.array(weight)
    if trits is None:
        out = _computed_product(e, input, weight)
        return out, plain(out.rank), False
    if trits.ndim == 1:
        out, layout, scaled = _by_trits(e, input, trits[:, None], weight, None)
        return without(e, out, {out.rank - 1}), layout.without({out.rank - 1}), scaled
    if trits.ndim > 2:
        out = _batched(e, input, trits, weight)
        return out, plain(out.rank), False
    return _by_trits(e, input, trits, weight, scale)


def _by_trits(
    e: Writer, input: SSAValue, trits: Array, weight: SSAValue, scale: SSAValue | None
) -> tuple[Tensor, Layout, bool]:
    x, rows, layout = vector_input(e, input, trits)
    known = None if scale is None else e.array(scale)
    floating = is_float(tensor_type(input))
    element = e.stored_trits(len(rows), floating=floating)
    stored = _stored_trits(e, rows.T, known, 0, weight, element)
    if floating:
        wide = e.float32(x)
        out = e.cast(fully_connected(e, wide, stored, None), x.element)
        return out, layout, known is not None
    reach = int(np.abs(rows.astype(np.int64)).sum(axis=0).max(initial=0))
    bound = e.magnitudes.greatest(input)
    sums = element_type(accumulator(tensor_type(input)))
    out = exact_product(
        e, x, bound, reach, sums, lambda part: fully_connected(e, part, stored, None)
    )
    return out, layout, False


def _stored_trits(
    e: Writer, trits: Array, scale: Array | None, axis: int, weight: SSAValue, element: Element
) -> Tensor:
    """Trits as float32, dequantised from what is stored, with a scale a channel on `axis`.

    XNNPACK refuses scales that are not above 0: the trits take the sign, or are zeros.
    """
    channels = trits.shape[axis]
    scales = np.broadcast_to(np.ones(()) if scale is None else scale, (channels,))
    signs = np.where(np.abs(scales) < np.finfo(np.float32).tiny, 0, np.sign(scales))
    if (signs != 1).any():
        along = [-1 if at == axis else 1 for at in range(trits.ndim)]
        trits = (trits * signs.reshape(along)).astype(trits.dtype)
        scales = np.where(signs == 0, 1, np.abs(scales)).astype(scales.dtype)
    key = getattr(weight.owner, "key", None)
    hint = key.data if key is not None else weight.name_hint or "trits"
    return dequantized(e, trits, element, scales, axis, hint)


def _batched(e: Writer, input: SSAValue, trits: Array, weight: SSAValue) -> Tensor:
    x = e.value(input)
    stored = e.float32(e.value(weight))
    reach = trits.shape[-2]

    def product(part: Tensor) -> Tensor:
        part = e.reshape(part, (1, *part.shape)) if x.rank == 1 else part
        out = batch_matmul(e, part, stored)
        return e.reshape(out, (*out.shape[:-2], out.shape[-1])) if x.rank == 1 else out

    if is_float(tensor_type(input)):
        return e.cast(product(e.float32(x)), x.element)
    sums = element_type(accumulator(tensor_type(input)))
    return exact_product(e, x, e.magnitudes.greatest(input), reach, sums, product)


def _computed_product(e: Writer, input: SSAValue, weight: SSAValue) -> Tensor:
    """By trits computed at run time."""
    x, w = e.value(input), e.float32(e.value(weight))
    if x.rank < 2 or w.rank < 2:
        raise Inexpressible("a product of a vector with trits computed at run time")
    if is_float(tensor_type(input)):
        return e.cast(batch_matmul(e, e.float32(x), w), x.element)
    if w.shape[-2] == DYNAMIC:
        raise Inexpressible("an integer product over a dynamic size has no bound")
    bound, sums = e.magnitudes.greatest(input), element_type(accumulator(tensor_type(input)))
    return exact_product(e, x, bound, w.shape[-2], sums, lambda part: batch_matmul(e, part, w))


def conv(e: Writer, op: ternary.ConvOp) -> None:
    """A convolution with trits and the steps behind it; on integers exactly."""
    trits = e.array(op.weight)
    if trits is None:
        raise Inexpressible("a convolution with trits computed at run time has no form in LiteRT")
    rank = tensor_type(op.input).get_num_dims()
    x = lift(e, e.laid(op.input, channels_last(rank)))
    window, groups = window_of(op, trits.shape[2:]), op.groups.value.data
    floating = is_float(tensor_type(op.input))
    scale = None if op.scale is None else e.array(op.scale)
    order = lifted(trits.transpose(weight_order(x, groups, rank)))
    sized = DYNAMIC not in window.outputs(x)
    element = e.stored_trits(x.shape[3], floating=floating, connected=window.is_point)
    flat = window.is_point or (sized and e.narrow and floating)
    if groups == 1 and element is Element.INT2 and flat:
        rows = order.reshape(order.shape[0], -1)
        stored = _stored_trits(e, rows, scale, 0, op.weight, element)

        def product(part: Tensor) -> Tensor:
            laid = part if window.is_point else columns(e, part, window)
            return fully_connected(e, laid, stored, None)
    else:
        axis = 3 if is_depthwise(x, groups) else 0
        stored = _stored_trits(e, order, scale, axis, op.weight, element)

        def product(part: Tensor) -> Tensor:
            return convolution(e, part, stored, None, window, groups)

    if floating:
        out = e.cast(product(e.float32(x)), x.element)
    else:
        reach = int(np.max(sum_terms(op), initial=0))
        sums = element_type(accumulator(tensor_type(op.input)))
        out = exact_product(e, x, e.magnitudes.greatest(op.input), reach, sums, product)
    scaled = floating and scale is not None
    _finish(e, op, unlift(e, out, rank), channels_last(rank), scaled=scaled)


def _finish(e: Writer, op: ternary.FusedOp, out: Tensor, layout: Layout, *, scaled: bool) -> None:
    """The optional steps of a fused op, in its order; the channels stand last."""
    if op.scale is not None and not scaled:
        out = e.binary("MUL", out, e.value(op.scale))
    if op.bias is not None:
        out = e.binary("ADD", out, e.value(op.bias))
    if op.activation.data == "relu":
        out = rectify(e, out)
    elif op.activation.data == "relu6":
        out = rectify_to_6(e, out)
    element = element_type(tensor_type(op.result).element_type)
    if op.thresholds is not None:
        out = e.cast(count_thresholds(e, out, op.thresholds), element)
    elif op.multiplier is not None:
        assert op.shift is not None and op.zero_point is not None
        assert op.low is not None and op.high is not None
        low, high = op.low.value.data, op.high.value.data
        to = Rescaling(op.multiplier, op.shift, op.zero_point, low, high)
        out = rescale(e, out, to, out.rank - 1)
    e.bind(op.result, out, layout)


def adder_graph(e: Writer, op: ternary.AdderGraphOp) -> None:
    """A product with the matrix that the graph stands for."""
    matrix = op.matrix()
    x = e.value(op.operand)
    greatest = int(np.abs(matrix).max(initial=0))
    if greatest <= 1:
        ones = np.ones(matrix.shape[1])
        name = f"{e.hint}.matrix"
        element = e.stored_trits(len(matrix), floating=x.element.is_float)
        weight = dequantized(e, matrix.T, element, ones, 0, name)
    else:
        weight = e.constant(np.ascontiguousarray(matrix.T).astype(np.float32), f"{e.hint}.matrix")
    element = element_type(tensor_type(op.result).element_type)
    if x.element.is_float:
        out = fully_connected(e, e.float32(x), weight, None)
    else:
        reach = int(np.abs(matrix).sum(axis=0).max(initial=0))
        bound = e.magnitudes.greatest(op.operand)
        out = exact_product(
            e, x, bound, reach, element, lambda p: fully_connected(e, p, weight, None)
        )
    e.bind(op.result, e.cast(out, element))


def dequantize(e: Writer, op: ternary.DequantizeOp) -> None:
    """scale·t."""
    out, layout = e.with_axes(op.operand)
    out = e.cast(out, element_type(tensor_type(op.result).element_type))
    if op.scale is not None:
        axis = layout.axis(op.axis.value.data)
        out = e.binary("MUL", out, e.along_axis(e.value(op.scale), axis, out.rank))
    e.bind(op.result, out, layout)


def ternarize(e: Writer, op: ternary.TernarizeOp) -> None:
    """The deterministic rules, with means in float32; `scale` from the mean of what is kept."""
    if op.mode.data == "stochastic":
        raise Inexpressible(no_form(op, "TFLite"))
    operand = e.value(op.operand)
    x = e.float32(operand)
    channel = op.axis.value.data % x.rank if op.scaling.data == "channel" else None
    axes = [axis for axis in range(x.rank) if axis != channel]
    size = e.apply("ABS", [x])
    mean = e.reduce("MEAN", size, axes, keepdims=True)
    if op.rule.data == "absmean":
        zero = e.scalar(0, Element.FLOAT32)
        flat = e.compare("EQUAL", mean, zero)
        divisor = e.choose(flat, e.scalar(1, Element.FLOAT32), mean)
        trits = clip(e, e.apply("ROUND", [e.binary("DIV", x, divisor)]), -1, 1)
    else:
        if op.threshold is not None:
            threshold = e.scalar(op.threshold.value.data, Element.FLOAT32)
        else:
            threshold = e.binary("MUL", mean, e.scalar(0.7, Element.FLOAT32))
        over = e.float32(e.compare("GREATER", size, threshold))
        trits = e.binary("MUL", e.apply("SIGN", [x]), over)
    if op.scale is not None:
        nonzero = e.apply("ABS", [trits])
        total, count = (e.reduce("SUM", t, axes) for t in (e.binary("MUL", size, nonzero), nonzero))
        least = clip(e, count, 1, None)
        e.bind(op.scale, e.cast(e.binary("DIV", total, least), operand.element))
    e.bind(op.trits, e.cast(trits, Element.INT8))


RULES: dict[type[Operation], Rule] = {
    ternary.MatmulOp: matmul,
    ternary.LinearOp: linear,
    ternary.ConvOp: conv,
    ternary.AdderGraphOp: adder_graph,
    ternary.DequantizeOp: dequantize,
    ternary.TernarizeOp: ternarize,
}
