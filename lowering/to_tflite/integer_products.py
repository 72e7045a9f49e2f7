"""Fully connected layers and convolutions of bytes, on LiteRT's integer kernels.

The scales of the weights are not in the program: they follow from its multipliers and the grids of
operand and result, and are taken where LiteRT makes the same multipliers of them.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...passes.calibration.stored_grids import Grid
from .graph import Array, Element, Quantization, Tensor
from .integer_grids import Kernel, activation, agrees, element_of, grid_of, node_for
from .integer_patterns import Rescaled, Weighted, rescaled, weighted
from .layout import channels_last
from .linear import vector_input
from .products import is_depthwise, weight_order
from .tflite_writer import Writer
from .window import Window, window_of

LOST = 2.0**-70
"""A factor that neither form of multiplier and shift holds: they are 0."""


def product(value: SSAValue) -> Kernel | None:
    scaled = rescaled(value)
    inner = None if scaled is None else weighted(scaled.source)
    if scaled is None or inner is None:
        return None
    is_conv = isinstance(inner.op, tensor.ConvOp)
    x, y = grid_of(inner.x), grid_of(value)
    if x is None or y is None or (x.zero_point, y.zero_point) != (inner.zero, scaled.zero):
        return None
    number = activation(scaled.bounds, y, element_of(value))
    if number is None or element_of(value) is not Element.INT8:
        return None
    if tensor_type(inner.x).get_num_dims() < 2:
        return None
    scales = weight_scales(scaled, x, y, once=not is_conv)
    if scales is None:
        return None
    write = _convolution if is_conv else _connected
    return Kernel([inner.x], lambda e: write(e, value, inner, x, scales, number))


def _stored(
    e: Writer, inner: Weighted, x: Grid, scales: Array, weight: Array, axis: int
) -> tuple[Tensor, Tensor | None]:
    """The weight as it stands in the file, and the bias."""
    name = e.stored(inner.op.rhs if isinstance(inner.op, tensor.MatmulOp) else inner.op.weight)[0]
    stored = Tensor(
        name.name, Element.INT8, weight.shape, np.ascontiguousarray(weight),
        Quantization(scales, 0, axis),
    )  # fmt: skip
    if inner.bias is None:
        return stored, None
    fine = Quantization((np.float32(x.scale) * scales).astype(np.float32))
    return stored, Tensor("bias", Element.INT32, inner.bias.shape, inner.bias, fine)


def _connected(
    e: Writer, value: SSAValue, inner: Weighted, x: Grid, scales: Array, number: int
) -> None:
    """FULLY_CONNECTED."""
    rows_in, rows, layout = vector_input(e, inner.x, inner.weight)
    weight, bias = _stored(e, inner, x, scales, rows.T, 0)
    shape = (*rows_in.shape[:-1], weight.shape[0])
    result = node_for(
        e, "FULLY_CONNECTED", [rows_in, weight, bias], value, shape,
        fusedActivationFunction=number, keepNumDims=rows_in.rank > 2,
    )  # fmt: skip
    e.bind(value, result, layout)


def _convolution(
    e: Writer, value: SSAValue, inner: Weighted, x: Grid, scales: Array, number: int
) -> None:
    """CONV_2D or DEPTHWISE_CONV_2D."""
    op = inner.op
    assert isinstance(op, tensor.ConvOp)
    image, groups = e.laid(inner.x, channels_last(4)), op.groups.value.data
    window = window_of(op, inner.weight.shape[2:])
    padded, same = _padded(e, image, window, x.zero_point)
    depthwise = is_depthwise(image, groups)
    order = weight_order(image, groups, 4)
    laid = inner.weight.transpose(order)
    weight, bias = _stored(e, inner, x, scales, laid, 3 if depthwise else 0)
    channels = int(inner.weight.shape[0])
    if bias is None:
        none = np.zeros((channels,), dtype=np.int32)
        fine = Quantization((np.float32(x.scale) * scales).astype(np.float32))
        bias = Tensor("bias", Element.INT32, (channels,), none, fine)
    options = {**window.conv_options(same), "fusedActivationFunction": number}
    kind = "CONV_2D"
    if depthwise:
        kind, options = "DEPTHWISE_CONV_2D", {**options, "depthMultiplier": channels // groups}
    shape = (image.shape[0], *window.outputs(image), channels)
    result = node_for(e, kind, [padded, weight, bias], value, shape, **options)
    e.bind(value, result, channels_last(4))


def _padded(e: Writer, x: Tensor, window: Window, zero: int) -> tuple[Tensor, bool]:
    """The image with pads where SAME does not give them; whether SAME does."""
    with e.exactly():
        return window.padded(e, x, float(zero))


def weight_scales(scaled: Rescaled, x: Grid, y: Grid, *, once: bool) -> Array | None:
    """Scales of weights, float32, for which LiteRT rescales as the program does."""
    size = max(scaled.multipliers.size, scaled.exponents.size)
    multipliers = np.broadcast_to(scaled.multipliers, size).astype(np.float64)
    if (multipliers < 0).any():
        return None
    real = np.ldexp(multipliers, np.broadcast_to(scaled.exponents - 31, size))
    # What is rescaled to nothing has any scale that is small enough.
    real = np.where(multipliers == 0, LOST, real)
    nearest = (real * y.scale / x.scale).astype(np.float32)
    scales = nearest.copy()
    for index in range(size):
        part = Rescaled(
            scaled.source, multipliers[index : index + 1].astype(np.int64),
            np.broadcast_to(scaled.exponents, size)[index : index + 1], 0, (0, 0), scaled.twice,
        )  # fmt: skip
        near = nearest[index]
        tried = (near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(np.inf)))
        fits = (s for s in tried if agrees(part, _factor(x, float(s), y), once=once))
        chosen = next(fits, None)
        if chosen is None:
            return None
        scales[index] = chosen
    return scales


def _factor(x: Grid, scale: float, y: Grid) -> Array:
    return np.atleast_1d(np.float64(x.scale) * np.float64(scale) / np.float64(y.scale))
