"""Reference semantics of element-wise ops and activations, on NumPy.

A rule takes the op and its operands. `dialects.interpret` widens f16 and bf16 to f32 before and
rounds to the result's type after, and silences floating-point warnings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from ..elements import numpy_dtype
from ..inference import tensor_type
from . import activation, elementwise

Array = NDArray[Any]
Rule = Callable[..., Array | tuple[Array, ...]]
"""`rule(op, *operands)`: one array, or a tuple of them for several results."""


def unary(function: Callable[[Array], Array]) -> Rule:
    """The rule that applies `function`."""

    def rule(op: Operation, x: Array) -> Array:
        return function(x)

    return rule


def binary(function: Callable[[Array, Array], Array]) -> Rule:
    """The rule that applies `function`, which broadcasts."""

    def rule(op: Operation, x: Array, y: Array) -> Array:
        return function(x, y)

    return rule


def divide(x: Array, y: Array) -> Array:
    """x / y; integers truncate toward zero."""
    if x.dtype.kind == "f":
        return np.true_divide(x, y)
    quotient = np.floor_divide(x, y)
    inexact = (quotient * y != x) & (y != 0)
    return quotient + (inexact & ((x < 0) != (y < 0))).astype(quotient.dtype)


def erf(x: Array) -> Array:
    """erf(x), computed in double precision by the C library."""
    values = np.fromiter(map(math.erf, x.reshape(-1).tolist()), np.float64, x.size)
    return values.reshape(x.shape)


def sigmoid(x: Array) -> Array:
    """1/(1 + e^(-x))."""
    return 1 / (1 + np.exp(-x))


def saturate(x: Array, dtype: np.dtype[Any]) -> Array:
    """Floats to integers: truncated toward zero, saturated, NaN to 0."""
    info = np.iinfo(dtype)
    truncated = np.trunc(x.astype(np.float64))
    end = math.ldexp(1.0, info.bits - (info.kind == "i"))  # max + 1, exact in double precision
    inside = (truncated >= info.min) & (truncated < end)
    result = np.where(inside, truncated, 0).astype(dtype)
    result = np.where(truncated >= end, info.max, result)
    return np.where(truncated < info.min, info.min, result).astype(dtype)


def convert(op: elementwise.ConvertOp, x: Array) -> Array:
    """See `tensor.convert`."""
    dtype = numpy_dtype(tensor_type(op.result).element_type)
    if dtype == np.bool_:
        return x != 0
    if dtype.kind in "iu":
        return saturate(x, dtype) if x.dtype.kind == "f" else x.astype(dtype)
    # Floats are rounded to the result's type by the caller.
    return x if x.dtype.kind == "f" else x.astype(dtype)


def clamp(op: elementwise.ClampOp, x: Array) -> Array:
    """See `tensor.clamp`."""
    low = None if op.min is None else op.min.value.data
    high = None if op.max is None else op.max.value.data
    if x.dtype.kind == "f":
        x = x if low is None else np.maximum(x, np.asarray(low, x.dtype))
        return x if high is None else np.minimum(x, np.asarray(high, x.dtype))
    x = x if low is None else np.maximum(x, saturate(np.asarray(low), x.dtype))
    return x if high is None else np.minimum(x, saturate(np.asarray(high), x.dtype))


def leaky_relu(op: activation.LeakyReluOp, x: Array) -> Array:
    """See `tensor.leaky_relu`."""
    return np.where(x >= 0, x, np.asarray(op.alpha.value.data, x.dtype) * x)


def gelu(op: activation.GeluOp, x: Array) -> Array:
    """See `tensor.gelu`."""
    if op.approximate.data == "exact":
        return x / 2 * (1 + erf(x / math.sqrt(2)).astype(x.dtype))
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def softmax_along(x: Array, axis: int) -> Array:
    """e^x / Σ e^x along `axis`, after subtracting the maximum."""
    exponentials = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return exponentials / np.sum(exponentials, axis=axis, keepdims=True)


def softmax(op: activation.SoftmaxOp, x: Array) -> Array:
    """See `tensor.softmax`."""
    return softmax_along(x, op.axis.value.data)


def log_softmax(op: activation.LogSoftmaxOp, x: Array) -> Array:
    """See `tensor.log_softmax`."""
    axis = op.axis.value.data
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def compare(op: elementwise.CompareOp, x: Array, y: Array) -> Array:
    """See `tensor.compare`."""
    return COMPARISONS[op.predicate.data](x, y)


def where(op: elementwise.WhereOp, condition: Array, x: Array, y: Array) -> Array:
    """See `tensor.where`."""
    return np.where(condition, x, y)


RULES: dict[type[Operation], Rule] = {
    elementwise.AddOp: binary(np.add),
    elementwise.SubOp: binary(np.subtract),
    elementwise.MulOp: binary(np.multiply),
    elementwise.DivOp: binary(divide),
    elementwise.ModOp: binary(np.mod),
    elementwise.PowOp: binary(np.power),
    elementwise.MaximumOp: binary(np.maximum),
    elementwise.MinimumOp: binary(np.minimum),
    elementwise.AndOp: binary(np.logical_and),
    elementwise.OrOp: binary(np.logical_or),
    elementwise.CompareOp: compare,
    elementwise.WhereOp: where,
    elementwise.ConvertOp: convert,
    elementwise.NegOp: unary(np.negative),
    elementwise.NotOp: unary(np.logical_not),
    elementwise.AbsOp: unary(np.abs),
    elementwise.SignOp: unary(np.sign),
    elementwise.ExpOp: unary(np.exp),
    elementwise.LogOp: unary(np.log),
    elementwise.SqrtOp: unary(np.sqrt),
    elementwise.RsqrtOp: unary(lambda x: 1 / np.sqrt(x)),
    elementwise.RoundOp: unary(np.rint),
    elementwise.FloorOp: unary(np.floor),
    elementwise.ErfOp: unary(erf),
    elementwise.ClampOp: clamp,
    activation.ReluOp: unary(lambda x: np.maximum(x, x.dtype.type(0))),
    activation.Relu6Op: unary(
        lambda x: np.minimum(np.maximum(x, x.dtype.type(0)), x.dtype.type(6))
    ),
    activation.LeakyReluOp: leaky_relu,
    activation.GeluOp: gelu,
    activation.SiluOp: unary(lambda x: x * sigmoid(x)),
    activation.SigmoidOp: unary(sigmoid),
    activation.TanhOp: unary(np.tanh),
    activation.HardSwishOp: unary(lambda x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6),
    activation.HardTanhOp: unary(lambda x: np.minimum(np.maximum(x, -1), 1)),
    activation.SoftmaxOp: softmax,
    activation.LogSoftmaxOp: log_softmax,
}
