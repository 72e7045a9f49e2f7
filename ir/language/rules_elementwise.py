"""Type rules of the arithmetic, activation, ternary and quantisation functions."""

from __future__ import annotations

import math
from collections.abc import Mapping

from .dims import Dim, product
from .signatures import Fold, Functions, Result, RuleCall
from .types import DENSE_ELEMENTS, TensorType, dense

MAX_RANDOM_TRITS = 2**28
"""The most trits of one `random_ternary`: the compiler makes them in memory."""


def elementwise(call: RuleCall) -> Result:
    """`x` of numbers; the element type is kept."""
    return call.numeric("x")


def floating(call: RuleCall) -> Result:
    """`x` converted to floats."""
    return call.floating("x")


def along_axis(call: RuleCall) -> Result:
    """`x` converted to floats, worked on along `axis`."""
    x = call.floating("x")
    call.axis("axis", x.rank)
    return x


def arithmetic(call: RuleCall) -> Result:
    """Two tensors of numbers, broadcast and promoted."""
    call.numeric("x")
    call.numeric("y")
    element = call.unify_elements(("x", "y"))
    return TensorType(
        "dense", element, call.broadcast(call.types["x"].shape, call.types["y"].shape)
    )


def ordered_range(call: RuleCall) -> Result:
    """`x` of numbers held between `min` and `max`, of which one may be absent."""
    x = call.numeric("x")
    low, high = call.attributes["min"], call.attributes["max"]
    if low is None and high is None:
        call.fail("needs 'min' or 'max'")
    if isinstance(low, float) and isinstance(high, float) and low > high:
        call.fail(f"'min' ({low}) is above 'max' ({high})", "min")
    for name, bound in (("min", low), ("max", high)):
        if x.is_integer and isinstance(bound, float) and not bound.is_integer():
            call.fail(f"'{name}' {bound} does not fit {x}", name, "make floats of it with cast(…)")
    return x


def where(call: RuleCall) -> Result:
    """`x` where the condition holds, `y` elsewhere."""
    condition = call.dense("condition")
    if condition.element != "bool":
        call.fail(f"needs a condition of bool, found {condition}", "condition")
    call.dense("x")
    call.dense("y")
    element = call.unify_elements(("x", "y"))
    shape = call.broadcast(condition.shape, call.types["x"].shape, call.types["y"].shape)
    return TensorType("dense", element, shape)


def cast(call: RuleCall) -> Result:
    """`x` with the element type `dtype`."""
    x = call.types["x"]
    if x.kind == "spike":
        call.dense("x")
    return x.with_element(str(call.number("dtype")))


def sign(call: RuleCall) -> Result:
    """The trit of each number."""
    x = call.types["x"]
    if x.kind == "ternary":
        return x
    return TensorType("ternary", "trit", call.numeric("x").shape)


def ternarize(call: RuleCall) -> Result:
    """Trits, or their dense product with the scale."""
    x = call.floating("x")
    call.check_seed()
    threshold = call.attributes["threshold"]
    if isinstance(threshold, float) and threshold < 0:
        call.fail(f"'threshold' must not be negative, found {threshold}", "threshold")
    if call.attributes["axis"] is None:
        call.attributes["axis"] = 0 if x.rank > 2 else max(x.rank - 1, 0)
    elif x.rank:
        call.axis("axis", x.rank)
    scale = call.number("scale")
    if scale == "none":
        return TensorType("ternary", "trit", x.shape)
    if scale == "channel" and x.rank == 0:
        call.fail('scale="channel" needs at least one axis', "scale")
    return x


def pack(call: RuleCall) -> Result:
    """Four trits to a byte."""
    x = call.ternary("x")
    count = product(x.shape)
    call.known(count.simplified())
    return dense("int8", call.assumptions.floor_divide(count + 3, Dim.of(4)))


def unpack(call: RuleCall) -> Result:
    """Trits of the given shape from packed bytes."""
    x = call.rank("x", 1, like="Tensor<int8>[bytes]")
    if x.kind != "dense" or x.element != "int8":
        call.fail(f"needs 'x' of the form Tensor<int8>[bytes], found {x}", "x")
    shape = checked_shape(call)
    count = product(shape)
    call.known(count.simplified())
    size = call.assumptions.floor_divide(count + 3, Dim.of(4))
    if not call.same(size, x.shape[0]):
        call.fail(f"{count} trits take {size} bytes, found {x.shape[0]}", "shape")
    return TensorType("ternary", "trit", shape)


def random_ternary(call: RuleCall) -> Result:
    """Trits of the given shape."""
    shape = checked_shape(call)
    sizes = [call.known(dim.simplified()) for dim in shape]
    if math.prod(sizes) > MAX_RANDOM_TRITS:
        call.fail("makes at most 2^28 trits; put larger weights in a file", "shape")
    return TensorType("ternary", "trit", shape)


def checked_shape(call: RuleCall) -> tuple[Dim, ...]:
    """The `shape` argument with every size positive."""
    shape = tuple(Dim.lift(d) for d in call.attributes["shape"])
    for dim in shape:
        value = dim.constant()
        if value is not None and value < 1:
            call.fail(f"a size must be at least 1, found {value}", "shape")
    return shape


def _per_channel(call: RuleCall, x: TensorType) -> None:
    names = [name for name in ("scale", "zero_point") if name in call.types]
    axis = call.attributes["axis"]
    if axis is None:
        if any(call.types[name].rank for name in names):
            call.fail("needs 'axis' where 'scale' or 'zero_point' is one number per channel")
        return
    size = x.shape[call.axis("axis", x.rank)]
    for name in names:
        vector = call.types[name]
        if vector.rank != 1 or not call.same(vector.shape[0], size):
            call.fail(f"needs '{name}' of shape [{size}], found {vector}", name)


def quantize(call: RuleCall) -> Result:
    """Integers of the smallest type with `bits`."""
    x = call.floating("x")
    bits = call.number("bits")
    if not 2 <= bits <= 32:
        call.fail(f"'bits' must be between 2 and 32, found {bits}", "bits")
    if "scale" in call.types:
        call.floating("scale")
    elif isinstance(call.attributes["scale"], float) and call.attributes["scale"] <= 0:
        call.fail(f"'scale' must be positive, found {call.attributes['scale']}", "scale")
    _per_channel(call, x)
    return x.with_element("int8" if bits <= 8 else "int16" if bits <= 16 else "int32")


def dequantize(call: RuleCall) -> Result:
    """`float32` numbers from integers."""
    x = call.numeric("x")
    if not x.is_integer or x.element == "int64":
        hint = "convert it with cast(…, int32)" if x.is_integer else None
        call.fail(f"needs integers of at most 32 bits, found {x}", "x", hint)
    if "scale" in call.types:
        call.floating("scale")
    _per_channel(call, x)
    return x.with_element("float32")


ELEMENTWISE: Functions = {
    "arithmetic": {
        "abs(x): Absolute value.": elementwise,
        "exp(x): e to the power x.": floating,
        "log(x): Natural logarithm.": floating,
        "sqrt(x): Square root.": floating,
        "cos(x): Cosine of an angle in radians.": floating,
        "sin(x): Sine of an angle in radians.": floating,
        "maximum(x: operand, y: operand): The larger, element by element.": arithmetic,
        "minimum(x: operand, y: operand): The smaller, element by element.": arithmetic,
        (
            "where(condition, x: operand, y: operand): x where the condition holds, y elsewhere."
        ): where,
        (
            "clamp(x, min: float = none, max: float = none): x held between min and max."
        ): ordered_range,
        "round(x): To the nearest, halves to even.": elementwise,
        "floor(x): Down to a whole number.": elementwise,
        (
            f"cast(x, dtype: {'|'.join(DENSE_ELEMENTS)}): x with another element type; floats "
            "are cut towards zero."
        ): cast,
    },
    "activation": {
        "relu(x): max(x, 0).": elementwise,
        "relu6(x): min(max(x, 0), 6).": elementwise,
        "leaky_relu(x, negative_slope: float = 0.01): x, times the slope below zero.": floating,
        "gelu(x, approximate: none|tanh = none): x Φ(x), exact or by tanh.": floating,
        "silu(x): x sigmoid(x).": floating,
        "sigmoid(x): 1 / (1 + exp(-x)).": floating,
        "tanh(x): Hyperbolic tangent.": floating,
        "hard_swish(x): x relu6(x + 3) / 6.": floating,
        (
            "hard_tanh(x, min: float = -1.0, max: float = 1.0): x held between min and max."
        ): ordered_range,
        "softmax(x, axis: int = -1): exp(x) over its sum along an axis.": along_axis,
        "log_softmax(x, axis: int = -1): Logarithm of softmax.": along_axis,
    },
    "ternary": {
        "sign(x): -1, 0 or 1: a TernaryTensor.": sign,
        (
            "ternarize(x, threshold: float = none, scale: none|tensor|channel = none, "
            "mode: deterministic|stochastic = deterministic, rule: twn|absmean = twn, "
            "axis: int = none, seed: int = 0): Trits of x: 0 up to the threshold, "
            "else the sign. With a scale, the dense product."
        ): ternarize,
        "pack(x): Four trits to a byte, row-major.": pack,
        "unpack(x, shape: shape): Trits from packed bytes.": unpack,
        (
            "random_ternary(shape: shape, seed: int = 0): Trits drawn uniformly, "
            "the same for the same seed."
        ): random_ternary,
    },
    "quantisation": {
        (
            "quantize(x, bits: int, scale: setting, zero_point: setting = 0, "
            "axis: int = none): round(x / scale) + zero_point, "
            "held in the range of signed `bits`."
        ): quantize,
        (
            "dequantize(x, scale: setting, zero_point: setting = 0, axis: int = none): "
            "(x - zero_point) * scale."
        ): dequantize,
    },
}


def _magnitude(value: float) -> float:
    return abs(value)


def _round_even(value: float) -> float:
    return float(round(value))


def _floor(value: float) -> float:
    return float(math.floor(value))


FOLDS: Mapping[str, Fold] = {
    "abs": _magnitude,
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "cos": math.cos,
    "sin": math.sin,
    "maximum": max,
    "minimum": min,
    "round": _round_even,
    "floor": _floor,
}
"""What some compute of compile-time numbers."""
