"""The nodes of random ONNX graphs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from . import onnx_oracle
from .cases import Case
from .onnx_graphs import Rule, Writer

RULES: list[Rule] = []


def rule(weight: int) -> Callable[[Rule], Rule]:
    """Register a rule that is chosen in proportion to its weight."""

    def register(function: Rule) -> Rule:
        RULES.extend([function] * weight)
        return function

    return register


FUNCTIONS = sorted(
    onnx_oracle.operators(
        """
        Relu Abs Neg Floor Ceil Round Sigmoid Tanh Erf Softplus Softsign Elu Selu Sign
        HardSigmoid Sin Cos Atan Sinh HardSwish Mish Identity Gelu LeakyRelu Celu Exp
        ThresholdedRelu Log Sqrt Reciprocal Asin Acos Atanh
        """
    )
)


@rule(4)
def unary(w: Writer) -> NodeProto:
    x = w.pick("f")
    kind = w.random.choice(FUNCTIONS)
    if kind == "HardSwish" and w.values[x].dtype == np.float64:
        raise IndexError  # the reference takes 1/6 in float32
    attributes: dict[str, Any] = {}
    if kind == "Gelu" and w.maybe():
        attributes["approximate"] = "tanh"
    if kind in ("Elu", "Celu", "LeakyRelu", "ThresholdedRelu") and w.maybe():
        attributes["alpha"] = w.random.choice([0.5, 2.0])
    if kind == "HardSigmoid" and w.maybe():
        attributes.update(alpha=0.3, beta=0.4)
    return w.node(kind, [x], **attributes)


@rule(1)
def integer_unary(w: Writer) -> NodeProto:
    x = w.pick("i")
    return w.node(w.random.choice(["Abs", "Neg", "Sign", "Relu" if w.opset >= 14 else "Abs"]), [x])


@rule(4)
def binary(w: Writer) -> NodeProto | None:
    x = w.pick("fiu")
    a = w.values[x]
    kinds = ["Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "PRelu", "Pow"]
    kinds += ["Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"]
    kind = w.random.choice([*kinds, "BitShift"] if a.dtype.kind == "u" else kinds)
    attributes: dict[str, Any] = {}
    if kind == "BitShift":
        attributes["direction"] = w.random.choice(["LEFT", "RIGHT"])
    if kind == "Mod" and (a.dtype.kind == "f" or w.maybe()):
        attributes["fmod"] = 1
    whole = a.dtype.kind != "f"
    if w.maybe() and not (whole and kind in ("Div", "Mod", "Pow", "BitShift")):
        return w.node(kind, [x, w.like(x)], **attributes)
    shape = [n if w.maybe(0.6) else 1 for n in a.shape]
    if w.maybe(0.4):
        shape = shape[w.random.randrange(len(shape) + 1) :]
    other = w.array(shape, a.dtype.name)
    if kind in ("Div", "Mod"):
        other = np.where(np.abs(other) < 0.4, np.array(2, other.dtype), other)
    if kind == "Pow" and whole:
        other = np.abs(other) % 4
    if kind == "BitShift":
        other = other % 8
    names = [x, w.constant(other.astype(a.dtype))]
    if w.maybe() and kind not in ("Div", "Mod", "Pow", "BitShift", "PRelu"):
        names.reverse()
    return w.node(kind, names, **attributes)


@rule(1)
def logic(w: Writer) -> NodeProto:
    x = w.pick("b")
    kind = w.random.choice(["And", "Or", "Xor", "Not"])
    return w.node(kind, [x] if kind == "Not" else [x, w.like(x)])


@rule(1)
def where(w: Writer) -> NodeProto:
    x = w.pick("fi")
    return w.node("Where", [w.pick("b"), x, w.like(x)])


@rule(1)
def clip(w: Writer) -> NodeProto:
    x = w.pick("f")
    bounds = [w.constant(np.array(v, w.values[x].dtype)) for v in (-0.5, 1.5)]
    return w.node("Clip", [x, *w.random.choice([bounds, bounds[:1], ["", bounds[1]]])])


@rule(2)
def cast(w: Writer) -> NodeProto:
    x = w.pick()
    names = ["float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool", "int16"]
    name = w.random.choice(names)
    if w.values[x].dtype.kind in "f" and name.startswith("uint"):
        name = "int32"  # a negative float as an unsigned integer is not defined
    return w.node("Cast", [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(name)))


@rule(4)
def product(w: Writer) -> NodeProto:
    x = w.pick("f", 1, 2, 3, 4, 5)
    a = w.values[x]
    n, wide = a.shape[-1], w.random.choice([1, 2, 3, 5])
    weight = w.array((n, wide), a.dtype.name)
    if w.maybe(0.6):
        weight = w.numbers.integers(-1, 2, (n, wide)) * w.random.choice([1.0, 0.5, 1.0])
    weight = np.asarray(weight).astype(a.dtype)
    if a.ndim == 2 and w.maybe():
        attributes: dict[str, Any] = {}
        if w.maybe():
            weight, attributes["transB"] = weight.T, 1
        if w.maybe(0.3):
            attributes["alpha"] = w.random.choice([0.5, 2.0, -1.0])
        if w.maybe(0.3):
            attributes["beta"] = w.random.choice([0.5, 2.0, -1.0])
        names = [x, w.constant(weight)]
        if w.maybe(0.6):
            shape = w.random.choice([(wide,), (1, wide), (1,), (), (a.shape[0], 1)])
            names.append(w.constant(w.array(shape, a.dtype.name)))
        return w.node("Gemm", names, **attributes)
    if a.ndim >= 2 and w.maybe(0.2):
        left = w.numbers.integers(-1, 2, (wide, a.shape[-2])).astype(a.dtype)
        return w.node("MatMul", [w.constant(left), x])
    if w.maybe(0.15):
        return w.node("MatMul", [x, w.constant(weight[:, 0])])
    return w.node("MatMul", [x, w.constant(weight)])


@rule(3)
def convolution(w: Writer) -> NodeProto:
    x = w.pick("f", 3, 4, 5)
    a = w.values[x]
    axes, channels = a.ndim - 2, a.shape[1]

    def each(*choices: int) -> list[int]:
        return [w.random.choice(choices) for _ in range(axes)]

    groups = w.random.choice([1, 1, channels])
    out, kernel = groups * w.random.choice([1, 2]), each(1, 2, 3)
    attributes: dict[str, Any] = {"group": groups}
    if w.maybe(0.7):
        attributes["kernel_shape"] = kernel
    if w.maybe(0.6):
        attributes["strides"] = each(1, 2, 3)
    if w.maybe(0.4):
        attributes["dilations"] = each(1, 2)
    if w.maybe(0.4):
        attributes["pads"] = each(0, 1, 2) + each(0, 1, 2)
    elif w.maybe(0.3) and "dilations" not in attributes:
        attributes["auto_pad"] = w.random.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    turned = w.maybe(0.25)
    head = (channels, out // groups) if turned else (out, channels // groups)
    weight = w.array((*head, *kernel), a.dtype.name)
    if w.maybe(0.6):
        weight = w.numbers.integers(-1, 2, (*head, *kernel)).astype(a.dtype)
    names = [x, w.constant(weight)]
    if w.maybe():
        names.append(w.constant(w.array((out,), a.dtype.name)))
    return w.node("ConvTranspose" if turned else "Conv", names, **attributes)


@rule(2)
def pooling(w: Writer) -> NodeProto:
    x = w.pick("f", 3, 4, 5)
    axes = w.values[x].ndim - 2
    kind = w.random.choice(["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"])
    if kind.startswith("Global"):
        return w.node(kind, [x])
    kernel = [w.random.choice([1, 2, 3]) for _ in range(axes)]
    attributes: dict[str, Any] = {"kernel_shape": kernel}
    if w.maybe(0.6):
        attributes["strides"] = [w.random.choice([1, 2, 3]) for _ in range(axes)]
    if w.maybe(0.4):
        attributes["pads"] = [w.random.randrange(k) for _ in range(2) for k in kernel]
    elif w.maybe(0.3):
        attributes["auto_pad"] = w.random.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    if w.maybe(0.3):
        attributes["ceil_mode"] = 1
    if kind == "AveragePool" and w.maybe():
        attributes["count_include_pad"] = 1
    if kind == "MaxPool" and w.maybe(0.3):
        attributes["dilations"] = [w.random.choice([1, 2]) for _ in range(axes)]
    return w.node(kind, [x], **attributes)


@rule(2)
def normalisation(w: Writer) -> NodeProto:
    x = w.pick("f", 2, 3, 4)
    a = w.values[x]
    c = a.shape[1]

    def vector(*shape: int, positive: bool = False) -> str:
        array = w.array(shape, a.dtype.name)
        return w.constant((np.abs(array) + 0.5).astype(a.dtype) if positive else array)

    kind = w.random.choice(
        ["BatchNormalization", "InstanceNormalization", "LayerNormalization", "LpNormalization",
         "GroupNormalization", "LRN", "MeanVarianceNormalization"]
    )  # fmt: skip
    if kind == "BatchNormalization":
        given = [vector(c), vector(c), vector(c), vector(c, positive=True)]
        return w.node(kind, [x, *given], epsilon=w.random.choice([1e-5, 0.1]))
    if kind == "InstanceNormalization":
        return w.node(kind, [x, vector(c), vector(c)])
    if kind == "LayerNormalization":
        axis = w.random.randrange(1, a.ndim)
        given = [vector(*a.shape[axis:]) for _ in range(w.random.choice([1, 2]))]
        return w.node(kind, [x, *given], axis=axis - a.ndim if w.maybe() else axis)
    if kind == "LpNormalization":
        return w.node(kind, [x], axis=w.axis(a.ndim), p=w.random.choice([1, 2]))
    if kind == "GroupNormalization":
        groups = w.random.choice([n for n in range(1, c + 1) if c % n == 0])
        size = c if w.opset >= 21 else groups
        return w.node(kind, [x, vector(size), vector(size)], num_groups=groups)
    if kind == "LRN":
        return w.node(kind, [x], size=w.random.choice([1, 2, 3]))
    return w.node(kind, [x], axes=[0, *range(2, a.ndim)])


@rule(1)
def soft(w: Writer) -> NodeProto:
    x = w.pick("f", 1, 2, 3, 4)
    kind = w.random.choice(["Softmax", "LogSoftmax", "Hardmax"])
    return w.node(kind, [x], axis=w.axis(w.values[x].ndim))


@rule(3)
def reduction(w: Writer) -> NodeProto:
    x = w.pick("fi", 1, 2, 3, 4)
    a = w.values[x]
    kinds = ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"]
    if a.dtype.kind == "f":
        kinds += ["ReduceMean", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"]
    kind = w.random.choice(kinds)
    axes = w.random.sample(range(a.ndim), w.random.randint(0, a.ndim))
    axes = [n - a.ndim if w.maybe(0.4) else n for n in axes]
    attributes: dict[str, Any] = {"keepdims": w.random.randrange(2)}
    if kind == "ReduceSum" or w.opset >= 18:
        if w.maybe(0.15):
            attributes["noop_with_empty_axes"] = 1
        return w.node(kind, [x, w.ints(axes)] if axes or w.maybe(0.3) else [x], **attributes)
    if axes:
        attributes["axes"] = axes
    return w.node(kind, [x], **attributes)


@rule(1)
def extreme(w: Writer) -> NodeProto:
    x = w.pick("fi", 1, 2, 3, 4)
    return w.node(
        w.random.choice(["ArgMax", "ArgMin"]),
        [x],
        axis=w.axis(w.values[x].ndim),
        keepdims=w.random.randrange(2),
        select_last_index=w.random.randrange(2),
    )


def transpose(w: Writer, x: str, rank: int) -> NodeProto:
    perm = list(range(rank))
    w.random.shuffle(perm)
    attributes: dict[str, Any] = {"perm": perm} if w.maybe(0.8) else {}
    return w.node("Transpose", [x], **attributes)


def reshape(w: Writer, x: str, rank: int) -> NodeProto:
    count = w.values[x].size
    first = w.random.choice([n for n in range(1, count + 1) if count % n == 0])
    targets = [[first, count // first], [-1, first], [first, -1], [count], [-1]]
    if rank:
        targets.append([0, -1])
    return w.node("Reshape", [x, w.ints(w.random.choice(targets))])


def flatten(w: Writer, x: str, rank: int) -> NodeProto:
    return w.node("Flatten", [x], axis=w.random.randrange(-rank, rank + 1))


def unsqueeze(w: Writer, x: str, rank: int) -> NodeProto:
    count = w.random.choice([1, 2])
    axes = w.random.sample(range(rank + count), count)
    shown = [a - rank - count if w.maybe(0.4) else a for a in axes]
    return w.node("Unsqueeze", [x, w.ints(shown)])


def squeeze(w: Writer, x: str, rank: int) -> NodeProto:
    ones = [a for a, n in enumerate(w.shape(x)) if n == 1]
    axis = w.random.choice(ones)
    return w.node("Squeeze", [x] if w.maybe(0.3) else [x, w.ints([axis - rank * w.maybe()])])


def slicing(w: Writer, x: str, rank: int) -> NodeProto:
    axes = w.random.sample(range(rank), w.random.randint(1, rank))
    starts, ends, steps = [], [], []
    for axis in axes:
        n = w.shape(x)[axis]
        steps.append(w.random.choice([1, 1, 2, 3, -1, -1, -2]))
        starts.append(w.random.choice([w.random.randrange(-n - 1, n + 2), 0, 2**31 - 1]))
        ends.append(w.random.choice([2**63 - 1, -(2**63), w.random.randrange(-n - 2, n + 3)]))
    shown = [a - rank if w.maybe(0.4) else a for a in axes]
    return w.node("Slice", [x, *(w.ints(v) for v in (starts, ends, shown, steps))])


def pad(w: Writer, x: str, rank: int) -> NodeProto:
    mode = w.random.choice(["constant", "constant", "reflect", "edge"])
    least = -1 if mode == "constant" and w.maybe(0.3) else 0
    pads = [w.random.choice([least, 0, 0, 1, 2]) for _ in range(2 * rank)]
    if mode == "reflect" and any(
        p >= n for p, n in zip(pads, [*w.shape(x), *w.shape(x)], strict=True)
    ):
        raise IndexError
    names = [x, w.ints(pads)]
    if mode == "constant" and w.maybe(0.6):
        names.append(w.constant(np.array(3).astype(w.values[x].dtype)))
    return w.node("Pad", names, mode=mode)


def concat(w: Writer, x: str, rank: int) -> NodeProto:
    parts = [x, *(w.like(x) for _ in range(w.random.choice([0, 1, 2])))]
    return w.node("Concat", parts, axis=w.axis(rank))


def split(w: Writer, x: str, rank: int) -> NodeProto:
    axis = w.axis(rank)
    n = w.shape(x)[axis]
    first = w.random.randrange(1, n)
    return w.node("Split", [x, w.ints([first, n - first])], 2, axis=axis)


def expand(w: Writer, x: str, rank: int) -> NodeProto:
    sizes = [3 if n == 1 and w.maybe(0.6) else n for n in w.shape(x)]
    sizes = [1 if w.maybe(0.2) else n for n in sizes]
    return w.node("Expand", [x, w.ints([*w.random.choice([[], [2], [1]]), *sizes])])


def tile(w: Writer, x: str, rank: int) -> NodeProto:
    return w.node("Tile", [x, w.ints([w.random.choice([1, 1, 2, 3]) for _ in range(rank)])])


def gather(w: Writer, x: str, rank: int) -> NodeProto:
    axis = w.axis(rank)
    n = w.shape(x)[axis]
    shape = [w.random.choice([1, 2, 3]) for _ in range(w.random.choice([0, 1, 2]))]
    return w.node("Gather", [x, w.constant(w.numbers.integers(-n, n, shape))], axis=axis)


def gather_elements(w: Writer, x: str, rank: int) -> NodeProto:
    axis = w.random.randrange(rank)
    shape = list(w.shape(x))
    n, shape[axis] = shape[axis], w.random.choice([1, 2, 4])
    return w.node("GatherElements", [x, w.constant(w.numbers.integers(-n, n, shape))], axis=axis)


def gather_nd(w: Writer, x: str, rank: int) -> NodeProto:
    count = w.random.randint(1, rank)
    shape = [w.random.choice([1, 2])] * w.random.choice([0, 1])
    parts = [np.asarray(w.numbers.integers(-n, n, shape)) for n in w.shape(x)[:count]]
    return w.node("GatherND", [x, w.constant(np.stack(parts, -1))])


def scatter(w: Writer, x: str, rank: int) -> NodeProto:
    axis = w.random.randrange(rank)
    shape = list(w.shape(x))
    n = shape[axis]
    shape[axis] = 1
    indices = w.constant(w.numbers.integers(0, n, shape))
    updates = w.constant(w.array(shape, w.values[x].dtype.name))
    attributes: dict[str, Any] = {"axis": axis}
    if w.opset >= 16 and w.maybe():
        attributes["reduction"] = w.random.choice(["add", "mul"])
    return w.node("ScatterElements", [x, indices, updates], **attributes)


def depth(w: Writer, x: str, rank: int) -> NodeProto:
    if w.maybe():
        return w.node("SpaceToDepth", [x], blocksize=2)
    return w.node("DepthToSpace", [x], blocksize=2, mode=w.random.choice(["DCR", "CRD"]))


def triangle(w: Writer, x: str, rank: int) -> NodeProto:
    names = [x] + ([w.constant(np.array(w.random.randrange(-3, 4)))] if w.maybe(0.6) else [])
    return w.node("Trilu", names, upper=w.random.randrange(2))


def running_sum(w: Writer, x: str, rank: int) -> NodeProto:
    axis = w.constant(np.array(w.axis(rank)))
    flags = {name: w.random.randrange(2) for name in ("exclusive", "reverse")}
    return w.node("CumSum", [x, axis], **flags)


def largest(w: Writer, x: str, rank: int) -> NodeProto:
    axis = w.random.randrange(rank)
    count = w.ints([w.random.randint(1, w.shape(x)[axis])])
    return w.node("TopK", [x, count], 2, axis=axis, largest=w.random.randrange(2))


def resize(w: Writer, x: str, rank: int) -> NodeProto:
    if rank not in (3, 4) or w.values[x].dtype != np.float32:
        raise IndexError
    attributes: dict[str, Any] = {
        "mode": w.random.choice(
            ["nearest", "linear", "cubic"] if rank == 4 else ["nearest", "linear"]
        ),
        "coordinate_transformation_mode": w.random.choice(
            ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
        ),
    }
    if attributes["mode"] == "nearest":
        attributes["nearest_mode"] = w.random.choice(["round_prefer_floor", "floor", "ceil"])
    if w.maybe():
        scales = [1.0, 1.0, *(w.random.choice([0.5, 1.0, 1.5, 2.0, 3.0]) for _ in range(rank - 2))]
        return w.node("Resize", [x, "", w.constant(np.array(scales, np.float32))], **attributes)
    sizes = [*w.shape(x)[:2], *(w.random.choice([1, 2, 3, 5, 7]) for _ in range(rank - 2))]
    return w.node("Resize", [x, "", "", w.ints(sizes)], **attributes)


def one_hot(w: Writer, x: str, rank: int) -> NodeProto:
    if w.values[x].dtype.kind != "i":
        raise IndexError
    count = w.constant(np.array(w.random.choice([3, 5])))
    values = w.constant(np.array([0, 1], np.float32))
    return w.node("OneHot", [x, count, values], axis=w.random.randrange(-rank - 1, rank + 1))


def shape_of(w: Writer, x: str, rank: int) -> NodeProto:
    attributes: dict[str, Any] = {}
    if w.opset >= 15 and w.maybe(0.6):
        attributes = {n: w.random.randrange(-rank - 1, rank + 2) for n in ("start", "end")}
    return w.node("Shape", [x], **attributes)


def einsum(w: Writer, x: str, rank: int) -> NodeProto:
    if rank not in (2, 3, 4) or w.values[x].dtype.kind != "f":
        raise IndexError
    letters = "abcd"[:rank]
    output = "".join(w.random.sample(letters, w.random.randint(0, rank)))
    if w.maybe():
        return w.node("Einsum", [x], equation=f"{letters}->{output}")
    return w.node("Einsum", [x, w.like(x)], equation=f"{letters},{letters}->{output}")


def reverse_sequence(w: Writer, x: str, rank: int) -> NodeProto:
    if rank < 2:
        raise IndexError
    lengths = w.ints([w.random.randint(1, w.shape(x)[0]) for _ in range(w.shape(x)[1])])
    return w.node("ReverseSequence", [x, lengths], batch_axis=1, time_axis=0)


MOVEMENTS = (
    *(transpose, reshape, flatten, unsqueeze, squeeze, slicing, slicing, pad, pad, concat, split),
    *(expand, tile, gather, gather_elements, gather_nd, scatter, depth, triangle, running_sum),
    *(largest, resize, resize, one_hot, shape_of, einsum, reverse_sequence),
)


@rule(6)
def movement(w: Writer) -> NodeProto:
    x = w.pick()
    return w.random.choice(MOVEMENTS)(w, x, w.values[x].ndim)


@rule(2)
def quantisation(w: Writer) -> NodeProto:
    x = w.pick("f", 1, 2, 3, 4)
    a = w.values[x]
    if a.dtype != np.float32:
        raise IndexError
    if w.maybe(0.2):
        return w.node("DynamicQuantizeLinear", [x], 3)
    axis = w.random.randrange(a.ndim)
    per_axis = w.maybe(0.4)
    scale = np.array(w.random.choice([0.5, 0.25, 0.1, 1.0]), np.float32)
    if per_axis:
        scale = (np.abs(w.numbers.standard_normal(a.shape[axis])) + 0.05).astype(np.float32)
    zero = w.numbers.integers(0, 9, scale.shape)
    dtype = w.random.choice([np.int8, np.uint8])
    names = [x, w.constant(scale), w.constant(np.asarray(zero).astype(dtype))]
    return w.node("QuantizeLinear", names, **({"axis": axis} if per_axis else {}))


@rule(2)
def dequantisation(w: Writer) -> NodeProto:
    x = w.pick("iu")
    a = w.values[x]
    if a.dtype.name not in ("int8", "uint8"):
        raise IndexError
    scale = np.array(w.random.choice([0.5, 0.25, 0.1]), np.float32)
    zero = np.asarray(w.numbers.integers(0, 9)).astype(a.dtype)
    return w.node("DequantizeLinear", [x, w.constant(scale), w.constant(zero)])


@rule(2)
def integer_product(w: Writer) -> NodeProto:
    x = w.pick("iu", 2, 3)
    a = w.values[x]
    if a.dtype.name not in ("int8", "uint8"):
        raise IndexError
    wide, other = w.random.choice([1, 2, 3]), w.random.choice(["int8", "uint8"])
    weight = w.array((a.shape[-1], wide), other)
    if other == "int8" and w.maybe():
        weight = w.numbers.integers(-1, 2, weight.shape).astype(np.int8)

    def number(*choices: float) -> str:
        return w.constant(np.array(w.random.choice(choices), np.float32))

    def zero(name: str) -> str:
        return w.constant(np.array(w.random.randrange(5)).astype(name))

    if w.maybe():
        zeros = [zero(a.dtype.name), zero(other)][: w.random.choice([0, 1, 2])]
        return w.node("MatMulInteger", [x, w.constant(weight), *zeros])
    names = [x, number(0.5, 0.1), zero(a.dtype.name), w.constant(weight), number(0.5, 0.1)]
    return w.node("QLinearMatMul", [*names, zero(other), number(0.5, 0.1), zero(a.dtype.name)])


@rule(1)
def recurrence(w: Writer) -> NodeProto:
    x = w.pick("f", 3)
    a = w.values[x]
    if a.dtype != np.float32:
        raise IndexError
    kind = w.random.choice(["RNN", "GRU", "LSTM"])
    gates, hidden = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind], w.random.choice([1, 2, 3])
    direction = w.random.choice(["forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    size = a.shape[-1]

    def given(*shape: int) -> str:
        return w.constant(w.numbers.standard_normal(shape).astype(np.float32))

    names = [x, given(ways, gates * hidden, size), given(ways, gates * hidden, hidden)]
    names.append(given(ways, 2 * gates * hidden) if w.maybe(0.6) else "")
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if kind == "GRU":
        attributes["linear_before_reset"] = w.random.randrange(2)
    return w.node(kind, names, 3 if kind == "LSTM" else 2, **attributes)


def generate(seed: int) -> Case:
    """The graph of a seed."""
    steps = random.Random(seed).choice([1, 1, 2, 2, 3, 4, 6])
    return Writer(seed).graph(seed, steps, RULES)
