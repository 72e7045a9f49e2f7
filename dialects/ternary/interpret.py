"""Reference semantics of the `ternary` dialect, on NumPy. Trits are int8 in {-1, 0, 1}.

Sums of integers are exact before they wrap to i32, and modulo 2^64 in i64; recorded sparsity facts
are checked against the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from ...ir.arrays import Array
from ...ir.errors import VerifyError
from ...ir.trits import accumulator_bits, pack_trits, unpack_trits
from ..inference import tensor_type
from ..meaning import Rule
from ..tensor.interpret import stored
from ..tensor.interpret_linear import along_channels, convolve, integer_matmul
from ..tensor.quantization import count_thresholds, rescale
from . import adder_graph, linear, storage
from .sparsity import check_sparsity, reduction_matrix


def ternarize(op: storage.TernarizeOp, x: Array) -> tuple[Array, ...]:
    """See `ternary.ternarize`. Means are taken in f64 and rounded to the type that
    x is computed in: f32 for f16 and bf16."""
    channel = op.axis.value.data % x.ndim if op.scaling.data == "channel" else None
    axes = tuple(a for a in range(x.ndim) if a != channel)
    magnitude = np.abs(x).astype(np.float64)

    if op.seed is not None:
        largest = magnitude.max(initial=0.0)
        draws = np.random.Generator(np.random.Philox(op.seed.value.data)).random(x.shape)
        nonzero = draws * largest < magnitude
        trits = np.where(nonzero, np.sign(x), 0).astype(np.int8)
    elif op.rule.data == "absmean":
        mean = _mean(magnitude, axes).astype(x.dtype)
        steps = np.rint(np.divide(x, mean, out=np.zeros_like(x), where=mean > 0))
        trits = np.clip(steps, -1, 1).astype(np.int8)
    else:
        if op.threshold is not None:
            threshold = x.dtype.type(op.threshold.value.data)
        else:
            threshold = (0.7 * _mean(magnitude, axes)).astype(x.dtype)
        trits = np.where(np.abs(x) <= threshold, 0, np.sign(x)).astype(np.int8)

    if op.scale is None:
        return (trits,)
    nonzero = trits != 0
    count = nonzero.sum(axis=axes)
    total = np.where(nonzero, magnitude, 0).sum(axis=axes)
    return trits, (total / np.maximum(count, 1)).astype(x.dtype)


def _mean(magnitude: Array, axes: tuple[int, ...]) -> Array:
    total = magnitude.sum(axis=axes, keepdims=True)
    count = magnitude.size // max(total.size, 1)
    return total / max(count, 1)


def pack(op: storage.PackOp, trits: Array) -> Array:
    """See `ternary.pack`."""
    return pack_trits(trits)


def unpack(op: storage.UnpackOp, packed: Array) -> Array:
    """See `ternary.unpack`."""
    return unpack_trits(packed, tensor_type(op.result).get_shape())


def dequantize(op: storage.DequantizeOp, trits: Array, *scale: Array) -> Array:
    """See `ternary.dequantize`."""
    if not scale:
        return trits.astype(np.float32)
    factor = along_channels(scale[0], trits.ndim, op.axis.value.data)
    return trits.astype(factor.dtype) * factor


def product(x: Array, weight: Array) -> Array:
    """x · W: floats in x's type, integers and trits modulo the width of their accumulator."""
    if x.dtype.kind == "f":
        return np.matmul(x, weight.astype(x.dtype))
    return integer_matmul(x, weight).astype(sum_dtype(x.dtype))


def sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What trits times elements of `dtype` are summed in."""
    if dtype.kind not in "iub":
        return dtype
    bits = accumulator_bits(dtype.itemsize * 8, unsigned=dtype.kind == "u")
    return np.dtype(f"int{bits}")


def matmul(op: linear.MatmulOp, x: Array, weight: Array, *scale: Array) -> Array:
    """See `ternary.matmul`."""
    result = product(x, weight)
    return result * scale[0] if scale else result


def fully_connected(op: linear.LinearOp, *operands: Array) -> Array:
    """See `ternary.linear`."""
    values = op.named(operands)
    x, weight = values["input"], values["weight"]
    _check_facts(op, reduction_matrix(weight, conv=False))
    return finish(op, product(x, weight), values)


def conv(op: linear.ConvOp, *operands: Array) -> Array:
    """See `ternary.conv`."""
    values = op.named(operands)
    x, weight = values["input"], values["weight"]
    _check_facts(op, reduction_matrix(weight, conv=True))
    wide = weight.astype(x.dtype) if x.dtype.kind == "f" else weight
    result = convolve(x, wide, **op.window)
    return finish(op, result.astype(sum_dtype(x.dtype)), values)


def finish(op: linear.FusedOp, product: Array, values: Mapping[str, Array]) -> Array:
    """The optional steps of `FusedOp` after the product, in their order."""
    rank, axis = product.ndim, op.CHANNEL_AXIS
    result = product
    if "scale" in values:
        result = result * along_channels(values["scale"], rank, axis)
    if "bias" in values:
        result = result + along_channels(values["bias"], rank, axis)
    if op.activation.data != "none":
        result = np.maximum(result, result.dtype.type(0))
    if op.activation.data == "relu6":
        result = np.minimum(result, result.dtype.type(6))
    if "thresholds" in values:
        return count_thresholds(result, values["thresholds"], axis)
    if op.low is not None and op.high is not None:
        return rescale(
            result,
            values["multiplier"],
            values["shift"],
            values["zero_point"],
            op.low.value.data,
            op.high.value.data,
            axis,
        )
    return result


def _check_facts(op: linear.FusedOp, matrix: NDArray[np.int8]) -> None:
    if op.sparsity is None:
        return
    try:
        check_sparsity(op.name, op.sparsity, matrix)
    except VerifyException as error:
        raise VerifyError(str(error)) from None


def run_adder_graph(op: adder_graph.AdderGraphOp, x: Array) -> Array:
    """See `ternary.adder_graph`."""
    is_float = x.dtype.kind == "f"
    # Wrapping modulo 2^64 and then modulo 2^32 is wrapping modulo 2^32.
    wide = x if is_float else x.astype(np.int64)
    values = list(np.moveaxis(wide, -1, 0))
    nodes, outputs = op.nodes.get_values(), op.outputs.get_values()
    for a, b, sign, shift in zip(*(nodes[k::4] for k in range(4)), strict=True):
        values.append(values[a] + wide.dtype.type(sign * 2**shift) * values[b])
    result = np.zeros((*x.shape[:-1], len(outputs) // 2), wide.dtype)
    for column, (value, sign) in enumerate(zip(outputs[::2], outputs[1::2], strict=True)):
        if sign:
            result[..., column] = values[value] * wide.dtype.type(sign)
    return result.astype(sum_dtype(x.dtype))


RULES: dict[type[Operation], Rule] = {
    storage.ParameterOp: stored,
    storage.ConstantOp: stored,
    storage.TernarizeOp: ternarize,
    storage.PackOp: pack,
    storage.UnpackOp: unpack,
    storage.DequantizeOp: dequantize,
    linear.MatmulOp: matmul,
    linear.LinearOp: fully_connected,
    linear.ConvOp: conv,
    adder_graph.AdderGraphOp: run_adder_graph,
}
