"""How each built-in function on dense and ternary tensors becomes ops: a table behind `from_tri`.

Not here: spiking functions, in `tri_spiking`, and what the others do to spike trains, in
`tri_trains`. One rule a function. A rule gets the elaborated `Operation` and its operands as SSA
values, inserts ops through the `Builder` and gives back the result value (a list for several
results). Operands and attributes of each function are listed in `ir.language.builtins`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import f32, i8, i64
from xdsl.ir import Operation, SSAValue

from ..dialects import tensor, ternary
from ..dialects.inference import tensor_type
from ..dialects.shapes import DYNAMIC, is_float
from ..dialects.tensor.formula import Formula
from ..dialects.tensor.shape import SLICE_END
from ..dialects.tensor.storage import INLINE_LIMIT
from ..dialects.tensor.window import ConvWindow
from ..dialects.ternary.storage import ui8
from ..dialects.ternary.types import is_trit
from ..ir.errors import LoweringError
from ..ir.language import elaborated
from ..ir.language.dims import Dim
from ..ir.trits import pack_trits
from .ir_builder import Builder
from .tri_builder import ELEMENTS, Rule, filled, ints, ir_type, optional, simple


def _compare(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    return builder.add(tensor.CompareOp(*operands, predicate=str(op.attributes["predicate"])))


def _cast(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    return builder.convert(operands[0], ELEMENTS[str(op.attributes["dtype"])])


def _matmul(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    x, y = operands
    if is_trit(tensor_type(y)):
        return builder.add(ternary.MatmulOp(x, y))
    return builder.add(tensor.MatmulOp(x, y))


def _linear(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    bias = optional(op, operands, ["bias"])["bias"]
    x, weight = operands[:2]
    if is_trit(tensor_type(weight)):
        return builder.add(ternary.LinearOp(x, weight, bias=bias))
    return builder.add(tensor.LinearOp(x, weight, bias))


def conv_window(op: elaborated.Operation, channels: int) -> ConvWindow:
    """The window properties of a convolution of `channels` channels, by name."""
    groups = op.attributes.get("groups")
    groups = channels if groups is None else groups  # depthwise
    return {
        "strides": ints(op.attributes["stride"]),
        "padding": ints(op.attributes["padding"]) * 2,
        "dilation": ints(op.attributes["dilation"]),
        "groups": groups,
    }


def _conv(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    bias = optional(op, operands, ["bias"])["bias"]
    x, weight = operands[:2]
    window = conv_window(op, tensor_type(x).get_shape()[1])
    if is_trit(tensor_type(weight)):
        return builder.add(ternary.ConvOp(x, weight, bias=bias, **window))
    return builder.add(tensor.ConvOp(x, weight, bias, **window))


def _einsum(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    return builder.add(tensor.EinsumOp(operands, str(op.attributes["equation"])))


def _ternarize(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    a = op.attributes
    stochastic = a["mode"] == "stochastic"
    fixed = a["threshold"] is not None and not stochastic
    ternarized = ternary.TernarizeOp(
        operands[0],
        rule="fixed" if fixed else "twn" if stochastic else a["rule"],
        threshold=a["threshold"] if fixed else None,
        scale=a["scale"],
        axis=-1 if a["axis"] is None else a["axis"],
        mode=a["mode"],
        seed=a["seed"] if stochastic else None,
    )
    trits = builder.add(ternarized)
    if ternarized.scale is None:
        return trits
    return builder.add(
        ternary.DequantizeOp(trits, ternarized.scale, axis=ternarized.axis.value.data)
    )


def _to_whole(kind: Callable[[SSAValue], Operation]) -> Rule:
    """Rounding, which leaves integers as they are."""

    def rule(builder: Builder, _: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
        (x,) = operands
        return builder.add(kind(x)) if is_float(tensor_type(x)) else x

    return rule


def _sign(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    if op.type.kind != "ternary":
        return builder.add(tensor.SignOp(*operands))
    x = operands[0]
    if not is_float(tensor_type(x)):
        x = builder.convert(x, f32)
    return builder.add(ternary.TernarizeOp(x, rule="fixed", threshold=0.0))


def _pack(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    return builder.convert(builder.add(ternary.PackOp(*operands)), i8)


def _unpack(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    packed = builder.convert(operands[0], ui8)
    return builder.add(ternary.UnpackOp(packed, ir_type(op.type).get_shape()))


def _ternary_matmul(
    builder: Builder, op: elaborated.Operation, operands: list[SSAValue]
) -> SSAValue:
    scale = optional(op, operands, ["scale"])["scale"]
    return builder.add(ternary.MatmulOp(operands[0], operands[1], scale))


def _random_ternary(
    builder: Builder, op: elaborated.Operation, operands: list[SSAValue]
) -> SSAValue:
    shape = ir_type(op.type).get_shape()
    seed = op.attributes["seed"]
    generator = np.random.Generator(np.random.Philox(seed & (2**64 - 1)))
    trits = generator.integers(-1, 2, size=shape, dtype=np.int8)
    if trits.size <= INLINE_LIMIT:
        return builder.add(ternary.ConstantOp(trits.reshape(-1).tolist(), shape))
    key = builder.store.add(f"random_ternary_{seed}", pack_trits(trits))
    return builder.add(ternary.ParameterOp(key, shape))


def _reshape(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    return builder.add(
        tensor.ReshapeToOp(operands[0], _target(op, [Dim.lift(d) for d in _dims(op)]))
    )


def _dims(op: elaborated.Operation) -> tuple[int | Dim, ...]:
    return op.attributes["shape"]


def _target(op: elaborated.Operation, sizes: Sequence[Dim]) -> list[int]:
    """`shape` of `tensor.reshape_to`: symbolic sizes are copied from the operand, one is free."""
    source = op.operands[0].type.shape
    target: list[int] = []
    for size in sizes:
        constant = size.constant()
        if constant is not None:
            target.append(constant)
        elif size in source and not size.is_unknown:
            target.append(-2 - source.index(size))
        else:
            target.append(-1)
    if target.count(-1) > 1:
        shown = ", ".join(str(size) for size in sizes)
        raise LoweringError(
            f"{op.span}: error: cannot reshape to [{shown}]: more than one size is neither known "
            "nor a size of the operand"
        )
    if -1 not in target and sum(size < -1 for size in target) == 1 and sum(
        size.constant() is None for size in source
    ) == 1:  # fmt: skip
        target = [-1 if size < -1 else size for size in target]
    return target


def _expand(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    shape = [Dim.lift(d).constant() for d in _dims(op)]
    return builder.add(tensor.ExpandOp(operands[0], [-1 if d is None else d for d in shape]))


def _concat(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    (axis,) = ints((op.attributes["axis"],))
    return builder.add(tensor.ConcatenateOp(operands, axis))


def _stack(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    axes = ints((op.attributes["axis"],))
    expanded = [builder.add(tensor.UnsqueezeOp(x, axes)) for x in operands]
    return builder.add(tensor.ConcatenateOp(expanded, axes[0]))


def _split(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> list[SSAValue]:
    (axis,) = ints((op.attributes["axis"],))
    (x,), sizes = operands, [Dim.lift(size) for size in op.attributes["sections"]]
    known = [n for size in sizes if (n := size.constant()) is not None]
    if len(known) == len(sizes):
        split = tensor.SplitOp(x, axis, known)
        builder.add(split)
        return list(split.results)
    if any(size != sizes[0] for size in sizes):
        shown = ", ".join(map(str, sizes))
        raise LoweringError(
            f"{op.span}: error: cannot split into [{shown}]: parts whose sizes are known at run "
            "time alone must be equal; cut them with slices"
        )
    # Equal parts stand one after another: the places of an axis of their own.
    shape = op.operands[0].type.shape
    apart = _target(op, [*shape[:axis], Dim.of(len(sizes)), sizes[0], *shape[axis + 1 :]])
    split = tensor.SplitOp(builder.add(tensor.ReshapeToOp(x, apart)), axis, [1] * len(sizes))
    builder.add(split)
    return [builder.add(tensor.SqueezeOp(part, [axis])) for part in split.results]


def _slice(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    ends = [SLICE_END if stop is None else int(stop) for stop in op.attributes["stops"]]
    return builder.add(
        tensor.SliceOp(
            operands[0], ints(op.attributes["starts"]), ends, ints(op.attributes["steps"])
        )
    )


def _gather(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    (axis,) = ints((op.attributes["axis"],))
    return builder.gather(operands[0], axis, operands[1])


def _positions(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    x = Formula(builder, operands[0])
    (axis,) = ints((op.attributes["axis"],))
    size = x.size(axis)
    if size is not None:
        return builder.numbers(np.arange(size), i64)
    for other in range(x.rank):
        x = x if other == axis else x.cut(other, 0, 1)
    row, one = x.of(tensor.ReshapeToOp, shape=[-1]), Formula(builder, builder.number(1, i64))
    ones = row.compare("eq", row).choose(one, one)
    return (ones.of(tensor.CumsumOp, axis=0) - 1).value


def _pool(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    kernel, stride = ints(op.attributes["kernel"]), ints(op.attributes["stride"])
    padding = ints(op.attributes["padding"]) * 2
    if op.function == "max_pool2d":
        return builder.add(tensor.MaxPoolOp(operands[0], kernel, stride, padding))
    counted = bool(op.attributes["count_include_pad"])
    return builder.add(
        tensor.AvgPoolOp(operands[0], kernel, stride, padding, count_include_pad=counted)
    )


def _batch_norm(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    x, mean, variance = operands[:3]
    vectors = optional(op, operands, ["weight", "bias"])
    scale = vectors["weight"] or filled(builder, mean, 1.0)
    bias = vectors["bias"] or filled(builder, mean, 0.0)
    eps = op.attributes["eps"]
    (axis,) = ints((op.attributes["axis"],))
    if axis == 1:
        return builder.add(tensor.BatchNormOp(x, scale, bias, mean, variance, eps))
    rank = tensor_type(x).get_num_dims()
    to_channels = [a for a in range(rank) if a != axis]
    to_channels.insert(1, axis)
    moved = builder.add(tensor.PermuteOp(x, to_channels))
    normed = builder.add(tensor.BatchNormOp(moved, scale, bias, mean, variance, eps))
    return builder.add(tensor.PermuteOp(normed, [to_channels.index(a) for a in range(rank)]))


def _layer_norm(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    x = operands[0]
    names = ["weight", "bias"] if op.function == "layer_norm" else ["weight"]
    vectors = optional(op, operands, names)
    (axis,) = ints((op.attributes["axis"],))
    shape, eps = tensor_type(x).get_shape()[axis:], op.attributes["eps"]
    if vectors["weight"] is None and DYNAMIC in shape:
        raise LoweringError(
            f"{op.span}: error: a normalisation without weight needs known sizes, got {x.type}"
        )
    scale = vectors["weight"] or builder.numbers(np.ones(shape), tensor_type(x).element_type)
    if op.function == "rms_norm":
        return builder.add(tensor.RmsNormOp(x, scale, eps))
    return builder.add(tensor.LayerNormOp(x, scale, vectors["bias"], eps))


def _quantization(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    x = operands[0]
    parameters = optional(op, operands, ["scale", "zero_point"])
    a = op.attributes
    scale = parameters["scale"] or builder.number(a["scale"], f32)
    quantizing = op.function == "quantize"
    element = ir_type(op.type).element_type if quantizing else tensor_type(x).element_type
    zero = parameters["zero_point"]
    zero = builder.number(a["zero_point"] or 0, element) if zero is None else zero
    zero = builder.convert(zero, element)
    axis = 0 if a["axis"] is None else a["axis"]
    if not quantizing:
        return builder.add(tensor.DequantizeOp(x, scale, zero, axis=axis))
    bits = a["bits"]
    return builder.add(
        tensor.QuantizeOp(
            builder.convert(x, f32),
            scale,
            zero,
            axis=axis,
            low=-(1 << bits - 1),
            high=(1 << bits - 1) - 1,
        )
    )


_PLAIN = (
    "abs", "add", "and", "cos", "div", "exp", "hard_swish", "log", "maximum",
    "minimum", "mod", "mul", "neg", "not", "or", "relu", "relu6", "sigmoid", "silu",
    "sin", "sqrt", "sub", "tanh", "where",
)  # fmt: skip
"""Functions of the language that are an op of the same name, with the same operands."""

_OPS = {kind.name.removeprefix("tensor."): kind for kind in tensor.OPERATIONS}

RULES: dict[str, Rule] = {
    **{name: simple(_OPS[name]) for name in _PLAIN},
    "floor": _to_whole(tensor.FloorOp),
    "round": _to_whole(tensor.RoundOp),
    "compare": _compare,
    "cast": _cast,
    "matmul": _matmul,
    "slice": _slice,
    "squeeze": simple(tensor.SqueezeOp, axes="axes"),
    "unsqueeze": simple(tensor.UnsqueezeOp, axes="axes"),
    "ternarize": _ternarize,
    "sign": _sign,
    "pack": _pack,
    "unpack": _unpack,
    "ternary_matmul": _ternary_matmul,
    "random_ternary": _random_ternary,
    "clamp": simple(tensor.ClampOp, min="min", max="max"),
    "hard_tanh": simple(tensor.ClampOp, min="min", max="max"),
    "leaky_relu": simple(tensor.LeakyReluOp, alpha="negative_slope"),
    "gelu": lambda e, op, x: e.add(
        tensor.GeluOp(x[0], "tanh" if op.attributes["approximate"] == "tanh" else "exact")
    ),
    "softmax": simple(tensor.SoftmaxOp, axis="axis"),
    "log_softmax": simple(tensor.LogSoftmaxOp, axis="axis"),
    "linear": _linear,
    "conv1d": _conv,
    "conv2d": _conv,
    "depthwise_conv2d": _conv,
    "einsum": _einsum,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "rms_norm": _layer_norm,
    "reshape": _reshape,
    "expand": _expand,
    "flatten": simple(tensor.FlattenOp, start="start", end="end"),
    "permute": simple(tensor.PermuteOp, perm="axes"),
    "transpose": simple(tensor.PermuteOp, perm="axes"),
    "concat": _concat,
    "stack": _stack,
    "split": _split,
    "pad": simple(tensor.PadToOp, low="low", high="high", value="value"),
    "gather": _gather,
    "positions": _positions,
    "max_pool2d": _pool,
    "avg_pool2d": _pool,
    "global_avg_pool2d": simple(tensor.GlobalAvgPoolOp),
    "sum": simple(tensor.ReduceSumOp, axes="axes", keepdims="keepdims"),
    "mean": simple(tensor.ReduceMeanOp, axes="axes", keepdims="keepdims"),
    "max": simple(tensor.ReduceMaxOp, axes="axes", keepdims="keepdims"),
    "min": simple(tensor.ReduceMinOp, axes="axes", keepdims="keepdims"),
    "argmax": simple(tensor.ArgmaxOp, axis="axis", keepdims="keepdims"),
    "quantize": _quantization,
    "dequantize": _quantization,
}
