"""Type rules of the arithmetic, activation, ternary and quantisation functions."""

from __future__ import annotations

import math

from .dims import Dim
from .signatures import REQUIRED, Builtin, Parameter, Result, RuleCall
from .types import DENSE_ELEMENTS, TensorType, dense

X = Parameter("x")

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
    count = Dim.of(1)
    for dim in x.shape:
        count = count * dim
    call.known(count.simplified())
    return dense("int8", call.assumptions.floor_divide(count + 3, Dim.of(4)))


def unpack(call: RuleCall) -> Result:
    """Trits of the given shape from packed bytes."""
    x = call.rank("x", 1, like="Tensor<int8>[bytes]")
    if x.kind != "dense" or x.element != "int8":
        call.fail(f"needs 'x' of the form Tensor<int8>[bytes], found {x}", "x")
    shape = checked_shape(call)
    count = Dim.of(1)
    for dim in shape:
        count = count * dim
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


def whole_root(value: int | float) -> float:
    """`sqrt` of a compile-time number."""
    return math.sqrt(value)


def _magnitude(value: int | float) -> int | float:
    return abs(value)


def _round_even(value: int | float) -> float:
    return float(round(value))


def _floor(value: int | float) -> float:
    return float(math.floor(value))


Y_OPERAND = (Parameter("x", "operand"), Parameter("y", "operand"))
AXIS = Parameter("axis", "int", -1)

ELEMENTWISE = (
    Builtin("abs", "arithmetic", (X,), elementwise, "Absolute value.", _magnitude),
    Builtin("exp", "arithmetic", (X,), floating, "e to the power x.", math.exp),
    Builtin("log", "arithmetic", (X,), floating, "Natural logarithm.", math.log),
    Builtin("sqrt", "arithmetic", (X,), floating, "Square root.", whole_root),
    Builtin("cos", "arithmetic", (X,), floating, "Cosine of an angle in radians.", math.cos),
    Builtin("sin", "arithmetic", (X,), floating, "Sine of an angle in radians.", math.sin),
    Builtin("maximum", "arithmetic", Y_OPERAND, arithmetic, "The larger, element by element.", max),
    Builtin(
        "minimum", "arithmetic", Y_OPERAND, arithmetic, "The smaller, element by element.", min
    ),
    Builtin(
        "where",
        "arithmetic",
        (Parameter("condition"), *Y_OPERAND),
        where,
        "x where the condition holds, y elsewhere.",
    ),
    Builtin(
        "clamp",
        "arithmetic",
        (X, Parameter("min", "float", None), Parameter("max", "float", None)),
        ordered_range,
        "x held between min and max.",
    ),
    Builtin(
        "round", "arithmetic", (X,), elementwise, "To the nearest, halves to even.", _round_even
    ),
    Builtin("floor", "arithmetic", (X,), elementwise, "Down to a whole number.", _floor),
    Builtin(
        "cast",
        "arithmetic",
        (X, Parameter("dtype", "string", REQUIRED, DENSE_ELEMENTS)),
        cast,
        "x with another element type; floats are cut towards zero.",
    ),
    Builtin("relu", "activation", (X,), elementwise, "max(x, 0)."),
    Builtin("relu6", "activation", (X,), elementwise, "min(max(x, 0), 6)."),
    Builtin(
        "leaky_relu",
        "activation",
        (X, Parameter("negative_slope", "float", 0.01)),
        floating,
        "x, times the slope below zero.",
    ),
    Builtin(
        "gelu",
        "activation",
        (X, Parameter("approximate", "string", "none", ("none", "tanh"))),
        floating,
        "x Φ(x), exact or by tanh.",
    ),
    Builtin("silu", "activation", (X,), floating, "x sigmoid(x)."),
    Builtin("sigmoid", "activation", (X,), floating, "1 / (1 + exp(-x))."),
    Builtin("tanh", "activation", (X,), floating, "Hyperbolic tangent."),
    Builtin("hard_swish", "activation", (X,), floating, "x relu6(x + 3) / 6."),
    Builtin(
        "hard_tanh",
        "activation",
        (X, Parameter("min", "float", -1.0), Parameter("max", "float", 1.0)),
        ordered_range,
        "x held between min and max.",
    ),
    Builtin("softmax", "activation", (X, AXIS), along_axis, "exp(x) over its sum along an axis."),
    Builtin("log_softmax", "activation", (X, AXIS), along_axis, "Logarithm of softmax."),
    Builtin("sign", "ternary", (X,), sign, "-1, 0 or 1: a TernaryTensor."),
    Builtin(
        "ternarize",
        "ternary",
        (
            X,
            Parameter("threshold", "float", None),
            Parameter("scale", "string", "none", ("none", "tensor", "channel")),
            Parameter("mode", "string", "deterministic", ("deterministic", "stochastic")),
            Parameter("rule", "string", "twn", ("twn", "absmean")),
            Parameter("axis", "int", None),
            Parameter("seed", "int", 0),
        ),
        ternarize,
        "Trits of x: 0 up to the threshold, else the sign. With a scale, the dense product.",
    ),
    Builtin("pack", "ternary", (X,), pack, "Four trits to a byte, row-major."),
    Builtin(
        "unpack", "ternary", (X, Parameter("shape", "shape")), unpack, "Trits from packed bytes."
    ),
    Builtin(
        "random_ternary",
        "ternary",
        (Parameter("shape", "shape"), Parameter("seed", "int", 0)),
        random_ternary,
        "Trits drawn uniformly, the same for the same seed.",
    ),
    Builtin(
        "quantize",
        "quantisation",
        (
            X,
            Parameter("bits", "int"),
            Parameter("scale", "setting"),
            Parameter("zero_point", "setting", 0),
            Parameter("axis", "int", None),
        ),
        quantize,
        "round(x / scale) + zero_point, held in the range of signed `bits`.",
    ),
    Builtin(
        "dequantize",
        "quantisation",
        (
            X,
            Parameter("scale", "setting"),
            Parameter("zero_point", "setting", 0),
            Parameter("axis", "int", None),
        ),
        dequantize,
        "(x - zero_point) * scale.",
    ),
)
