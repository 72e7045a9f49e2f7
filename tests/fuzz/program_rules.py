"""The statements of random programs in `.tri`: functions, products, reductions, movements."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .cases import Case
from .programs import FLOATS, INTEGERS, TORCH, Compute, Rule, Value, Writer

RULES: list[Rule] = []


def rule(weight: int) -> Callable[[Rule], Rule]:
    """Register a rule that is chosen in proportion to its weight."""

    def register(function: Rule) -> Rule:
        RULES.extend([function] * weight)
        return function

    return register


def is_float(v: Value) -> bool:
    return v.element in FLOATS


def is_integer(v: Value) -> bool:
    return v.element in INTEGERS


def is_number(v: Value) -> bool:
    return v.element != "bool"


UNARY: dict[str, Compute] = {
    "relu({0})": F.relu,
    "relu6({0})": F.relu6,
    "abs({0})": torch.abs,
    "-{0}": torch.neg,
    "sigmoid({0})": torch.sigmoid,
    "tanh({0})": torch.tanh,
    "gelu({0})": F.gelu,
    'gelu({0}, approximate="tanh")': lambda x: F.gelu(x, approximate="tanh"),
    "silu({0})": F.silu,
    "hard_swish({0})": F.hardswish,
    "hard_tanh({0})": F.hardtanh,
    "leaky_relu({0})": F.leaky_relu,
    "leaky_relu({0}, 0.25)": lambda x: F.leaky_relu(x, 0.25),
    "floor({0})": torch.floor,
    "round({0})": torch.round,
    "exp(-abs({0}))": lambda x: torch.exp(-x.abs()),
    "sqrt(abs({0}) + 0.5)": lambda x: torch.sqrt(x.abs() + 0.5),
    "log(abs({0}) + 0.5)": lambda x: torch.log(x.abs() + 0.5),
    "clamp({0}, min=-0.5, max=0.75)": lambda x: torch.clamp(x, -0.5, 0.75),
    "clamp({0}, min=-0.25)": lambda x: torch.clamp(x, min=-0.25),
}


@rule(3)
def unary(w: Writer) -> None:
    v = w.pick(is_float)
    if v is not None:
        text = w.random.choice(list(UNARY))
        w.let(text, [v], UNARY[text], v.shape, v.element)


INTEGER_UNARY: dict[str, Compute] = {
    "relu({0})": torch.relu,
    "abs({0})": torch.abs,
    "-{0}": torch.neg,
    "relu6({0})": lambda x: torch.clamp(x, 0, 6),
    "clamp({0}, min=-2, max=3)": lambda x: torch.clamp(x, -2, 3),
    "{0} * 3": lambda x: x * 3,
    "{0} + 7": lambda x: x + 7,
    "5 - {0}": lambda x: 5 - x,
}


@rule(2)
def integer_unary(w: Writer) -> None:
    v = w.pick(is_integer)
    if v is not None:
        text = w.random.choice(list(INTEGER_UNARY))
        w.let(text, [v], INTEGER_UNARY[text], v.shape, v.element)


ARITHMETIC: dict[str, Compute] = {
    "{0} + {1}": torch.add,
    "{0} - {1}": torch.sub,
    "{0} * {1}": torch.mul,
    "maximum({0}, {1})": torch.maximum,
    "minimum({0}, {1})": torch.minimum,
}


@rule(3)
def binary(w: Writer) -> None:
    v = w.pick(is_number)
    if v is not None:
        text = w.random.choice(list(ARITHMETIC))
        w.let(text, [v, w.like(v)], ARITHMETIC[text], v.shape, v.element)


@rule(2)
def with_parameter(w: Writer) -> None:
    v = w.pick(is_number)
    if v is None or len(v.shape) < 2:
        return
    shape = [1 if w.random.random() < 0.3 else n for n in v.shape[1:]]
    p = w.parameter(shape[w.random.randrange(len(shape)) :], v.element)
    text = w.random.choice(list(ARITHMETIC))
    w.let(text, [v, p] if w.random.random() < 0.6 else [p, v], ARITHMETIC[text], v.shape, v.element)


@rule(1)
def with_number(w: Writer) -> None:
    v = w.pick(is_float)
    if v is None:
        return
    number = w.random.choice([0.0, 1.0, -1.0, 0.5, 2.0, -0.25, 3.0])
    shown = f"({number})" if number < 0 else str(number)
    operation = w.random.choice(["+", "-", "*"])
    compute = {"+": torch.add, "-": torch.sub, "*": torch.mul}[operation]
    constant = torch.tensor(number, dtype=torch.float64)
    if w.random.random() < 0.5:
        w.let(f"{{0}} {operation} {shown}", [v], lambda x: compute(x, constant), v.shape, v.element)
    else:
        w.let(f"{shown} {operation} {{0}}", [v], lambda x: compute(constant, x), v.shape, v.element)


@rule(1)
def quotient(w: Writer) -> None:
    v = w.pick(is_float)
    if v is None:
        return
    text, compute = w.random.choice(
        [
            ("{0} / (abs({1}) + 1.0)", lambda x, y: x / (y.abs() + 1.0)),
            ("{0} / 4.0 + 0.0 * {1}", lambda x, y: x / 4.0 + 0.0 * y),
            ("2.0 / (abs({0}) + 0.5) - {1}", lambda x, y: 2.0 / (x.abs() + 0.5) - y),
            ("{0} / 3.0 + {1}", lambda x, y: x / 3.0 + y),
        ]
    )
    w.let(text, [v, w.like(v)], compute, v.shape, v.element)


COMPARISONS: dict[str, Compute] = {
    "<": torch.lt,
    "<=": torch.le,
    ">": torch.gt,
    ">=": torch.ge,
    "==": torch.eq,
    "!=": torch.ne,
}


@rule(1)
def comparison(w: Writer) -> None:
    v = w.pick(is_number)
    if v is None:
        return
    sign = w.random.choice(list(COMPARISONS))
    compare, other = COMPARISONS[sign], w.like(v)
    if w.random.random() < 0.4:
        w.let(f"{{0}} {sign} {{1}}", [v, other], compare, v.shape, "bool")
    else:
        w.let(
            f"where({{0}} {sign} {{1}}, {{0}}, {{1}} + {{1}})",
            [v, other],
            lambda x, y: torch.where(compare(x, y), x, y + y),
            v.shape,
            v.element,
        )


def converted(x: Tensor, element: str) -> Tensor:
    """A cast of the language: to integers it truncates and saturates."""
    if element in INTEGERS and x.is_floating_point():
        info = torch.iinfo(TORCH[element])
        # 2⁶³ - 1 is no float64: what is beyond is put in afterwards.
        inside = torch.trunc(x).clamp(info.min, float(np.nextafter(info.max, 0)))
        inside = torch.trunc(x).clamp(info.min, info.max) if element != "int64" else inside
        return inside.to(TORCH[element])
    return x != 0 if element == "bool" else x.to(TORCH[element])


@rule(1)
def cast(w: Writer) -> None:
    v = w.pick()
    if v is not None:
        element = w.random.choice([*FLOATS[:2], *FLOATS, *INTEGERS, "bool"])
        w.let(
            f'cast({{0}}, dtype="{element}")',
            [v],
            lambda x: converted(x, element),
            v.shape,
            element,
        )


@rule(4)
def product(w: Writer) -> None:
    v = w.pick(lambda v: len(v.shape) >= 2 and is_float(v))
    if v is None:
        return
    wide = w.random.choice(w.sizes)
    p = w.parameter((v.shape[-1], wide), w.random.choice(["trit", "trit", v.element]))
    b = w.parameter((wide,), v.element) if w.random.random() < 0.4 else None
    text = "{0} @ {1}" + (" + {2}" if b else "")
    name = w.random.choice(["", "", "relu", "relu6"])
    activation: Compute = getattr(F, name) if name else lambda x: x
    w.let(
        f"{name}({text})" if name else text,
        [v, p, b],
        lambda x, weight, bias=None: activation(x @ weight if bias is None else x @ weight + bias),
        (*v.shape[:-1], wide),
        v.element,
    )


@rule(2)
def integer_product(w: Writer) -> None:
    v = w.pick(lambda v: len(v.shape) >= 2 and v.element in INTEGERS)
    if v is None:
        return
    wide, sums = w.random.choice(w.sizes), "int64" if v.element == "int64" else "int32"
    p = w.parameter((v.shape[-1], wide), "trit")
    dtype = getattr(torch, sums)
    w.let(
        "{0} @ {1}",
        [v, p],
        lambda x, weight: x.to(dtype) @ weight.to(dtype),
        (*v.shape[:-1], wide),
        sums,
    )


@rule(1)
def attention(w: Writer) -> None:
    v = w.pick(lambda v: len(v.shape) == 3 and v.element in FLOATS[:2])
    if v is None:
        return
    rows = v.shape[1]
    if w.random.random() < 0.5:
        w.let("{0} @ transpose({0})", [v], lambda x: x @ x.mT, (v.shape[0], rows, rows), v.element)
    else:
        w.let(
            "softmax({0} @ transpose({0}) * 0.125) @ {0}",
            [v],
            lambda x: torch.softmax(x @ x.mT * 0.125, -1) @ x,
            v.shape,
            v.element,
        )


@rule(3)
def convolution(w: Writer) -> None:
    v = w.pick(lambda v: len(v.shape) in (3, 4) and v.element in FLOATS[:2])
    if v is None:
        return
    axes, channels = len(v.shape) - 2, v.shape[1]
    groups = w.random.choice([1, 1, channels])
    out = groups * w.random.choice([1, 2])

    def each(*choices: int) -> list[int]:
        return [w.random.choice(choices) for _ in range(axes)]

    kernel, stride = each(1, 2, 3), each(1, 1, 2, 3)
    padding, dilation = each(0, 0, 1, 2), each(1, 1, 2)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    room = [n + 2 * p - s for n, p, s in zip(v.shape[2:], padding, spans, strict=True)]
    if min(room) < 0:
        return
    size = [r // s + 1 for r, s in zip(room, stride, strict=True)]
    p = w.parameter((out, channels // groups, *kernel), w.random.choice(["trit", v.element]))
    b = w.parameter((out,), v.element) if w.random.random() < 0.5 else None
    function = F.conv2d if axes == 2 else F.conv1d
    shown = [x if axes == 2 else x[0] for x in (stride, padding, dilation)]
    w.let(
        f"conv{axes}d({{0}}, {{1}}{', bias={2}' if b else ''}, stride={shown[0]}, "
        f"padding={shown[1]}, dilation={shown[2]}, groups={groups})",
        [v, p, b],
        lambda x, weight, bias=None: function(
            x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups
        ),
        (v.shape[0], out, *size),
        v.element,
    )


@rule(2)
def normalisation(w: Writer) -> None:
    v = w.pick(lambda v: len(v.shape) >= 2 and v.element in FLOATS[:2])
    if v is None:
        return
    kind = w.random.choice(["batch", "layer", "rms"])
    if kind == "batch":
        n = (v.shape[1],)
        ps = [w.parameter(n, v.element, positive=i == 1) for i in range(4)]

        def batch(x: Tensor, *given: Tensor) -> Tensor:
            shape = (-1, *[1] * (x.ndim - 2))
            mean, variance, scale, bias = (p.reshape(shape) for p in given)
            return (x - mean) * (variance + 1e-5).rsqrt() * scale + bias

        w.let("batch_norm({0}, {1}, {2}, {3}, {4})", [v, *ps], batch, v.shape, v.element)
    elif kind == "layer":
        ps = [w.parameter(v.shape[-1:], v.element) for _ in range(2)]

        def layer(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
            centred = x - x.mean(-1, keepdim=True)
            variance = (centred * centred).mean(-1, keepdim=True)
            return centred * (variance + 1e-5).rsqrt() * scale + bias

        w.let("layer_norm({0}, {1}, {2})", [v, *ps], layer, v.shape, v.element)
    else:
        p = w.parameter(v.shape[-1:], v.element)
        w.let(
            "rms_norm({0}, {1})",
            [v, p],
            lambda x, scale: x * ((x * x).mean(-1, keepdim=True) + 1e-6).rsqrt() * scale,
            v.shape,
            v.element,
        )


@rule(1)
def soft(w: Writer) -> None:
    v = w.pick(lambda v: len(v.shape) >= 2 and is_float(v))
    if v is not None:
        axis = w.random.choice([a for a in range(-len(v.shape), len(v.shape)) if a % len(v.shape)])
        name = w.random.choice(["softmax", "log_softmax"])
        function: Compute = getattr(F, name)
        w.let(
            f"{name}({{0}}, axis={axis})",
            [v],
            lambda x: function(x, dim=axis),
            v.shape,
            v.element,
        )


@rule(2)
def reduction(w: Writer) -> None:
    v = w.pick(lambda v: len(v.shape) >= 2 and is_number(v))
    if v is None:
        return
    name = w.random.choice(["sum", "mean", "max", "min"] if is_float(v) else ["sum", "max", "min"])
    rank = len(v.shape)
    axes = sorted(w.random.sample(range(1, rank), w.random.randint(1, rank - 1)))
    keep = w.random.random() < 0.5
    shown = [a - rank if w.random.random() < 0.5 else a for a in axes]
    function: Compute = {
        "sum": torch.sum,
        "mean": torch.mean,
        "max": torch.amax,
        "min": torch.amin,
    }[name]
    w.let(
        f"{name}({{0}}, axis={shown}, keepdims={str(keep).lower()})",
        [v],
        lambda x: function(x, axes, keepdim=keep),
        reduced(v.shape, axes, keep),
        "int64" if name == "sum" and is_integer(v) else v.element,
    )


def reduced(shape: Sequence[int], axes: Sequence[int], keep: bool) -> list[int]:
    """The shape after a reduction."""
    return [1 if a in axes else n for a, n in enumerate(shape) if keep or a not in axes]


@rule(1)
def argmax(w: Writer) -> None:
    v = w.pick(lambda v: len(v.shape) >= 2 and is_number(v))
    if v is None:
        return
    axis, keep = w.random.randrange(1, len(v.shape)), w.random.random() < 0.5

    def first(x: Tensor) -> Tensor:  # PyTorch's own may give any of several maxima
        most = x == x.amax(axis, keepdim=True)
        return (
            torch.argmax(most.to(torch.int8), axis, keepdim=keep)
            if x.shape[axis] == 1
            else ((most.cumsum(axis) == 0).sum(axis, keepdim=keep))
        )

    w.let(
        f"argmax({{0}}, axis={axis}, keepdims={str(keep).lower()})",
        [v],
        first,
        reduced(v.shape, [axis], keep),
        "int64",
    )


@rule(1)
def pooling(w: Writer) -> None:
    v = w.pick(lambda v: len(v.shape) == 4 and v.element in FLOATS[:2])
    if v is None:
        return
    if w.random.random() < 0.2:
        w.let("global_avg_pool2d({0})", [v], lambda x: x.mean((2, 3), keepdim=True),
              (*v.shape[:2], 1, 1), v.element)  # fmt: skip
        return
    kernel, stride = w.random.choice([1, 2, 3]), w.random.choice([1, 2])
    padding, counted = w.random.choice([0, kernel // 2]), w.random.random() < 0.5
    if min(v.shape[2:]) + 2 * padding < kernel:
        return
    size = [(n + 2 * padding - kernel) // stride + 1 for n in v.shape[2:]]
    if w.random.random() < 0.5:
        w.let(
            f"max_pool2d({{0}}, {kernel}, stride={stride}, padding={padding})",
            [v],
            lambda x: F.max_pool2d(x, kernel, stride, padding),
            (*v.shape[:2], *size),
            v.element,
        )
    else:
        w.let(
            f"avg_pool2d({{0}}, {kernel}, stride={stride}, padding={padding}, "
            f"count_include_pad={str(counted).lower()})",
            [v],
            lambda x: F.avg_pool2d(x, kernel, stride, padding, count_include_pad=counted),
            (*v.shape[:2], *size),
            v.element,
        )


@rule(1)
def trits(w: Writer) -> None:
    v = w.pick(lambda v: v.element in FLOATS[:2])
    if v is not None:
        least = w.random.choice([0.0, 0.5])
        w.let(
            f'cast(ternarize({{0}}, threshold={least}), dtype="{v.element}")',
            [v],
            lambda x: torch.where(x.abs() <= least, torch.zeros_like(x), torch.sign(x)),
            v.shape,
            v.element,
        )


@rule(1)
def quantised(w: Writer) -> None:
    v = w.pick(lambda v: v.element == "float32")
    if v is not None:
        bits, scale = w.random.choice([4, 8]), w.random.choice([0.5, 0.25])
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        w.let(
            f"dequantize(quantize({{0}}, {bits}, {scale}), {scale})",
            [v],
            lambda x: torch.clamp(torch.round(x * (1 / scale)), low, high) * scale,
            v.shape,
            v.element,
        )


def permuted(w: Writer, v: Value) -> None:
    axes = list(range(1, len(v.shape)))
    w.random.shuffle(axes)
    perm = [0, *axes]
    shape = [v.shape[a] for a in perm]
    w.let(f"permute({{0}}, {perm})", [v], lambda x: x.permute(perm), shape, v.element)


def transposed(w: Writer, v: Value) -> None:
    if len(v.shape) > 2:
        shape = (*v.shape[:-2], v.shape[-1], v.shape[-2])
        w.let("transpose({0})", [v], lambda x: x.mT, shape, v.element)


def flattened(w: Writer, v: Value) -> None:
    shape = (v.shape[0], int(np.prod(v.shape[1:])))
    w.let("flatten({0})", [v], lambda x: x.flatten(1), shape, v.element)


def reshaped(w: Writer, v: Value) -> None:
    count = int(np.prod(v.shape[1:]))
    first = w.random.choice([n for n in range(1, count + 1) if count % n == 0])
    shape = (v.shape[0], first, count // first)
    w.let(f"reshape({{0}}, [N, {first}, {count // first}])", [v], lambda x: x.reshape(shape),
          shape, v.element)  # fmt: skip


def unsqueezed(w: Writer, v: Value) -> None:
    axis = w.random.randrange(1, len(v.shape) + 1)
    shape = (*v.shape[:axis], 1, *v.shape[axis:])
    w.let(f"unsqueeze({{0}}, {axis})", [v], lambda x: x.unsqueeze(axis), shape, v.element)


def squeezed(w: Writer, v: Value) -> None:
    ones = [a for a in range(1, len(v.shape)) if v.shape[a] == 1]
    if ones:
        axis = w.random.choice(ones)
        shown = axis - len(v.shape) if w.random.random() < 0.5 else axis
        shape = (*v.shape[:axis], *v.shape[axis + 1 :])
        w.let(f"squeeze({{0}}, {shown})", [v], lambda x: x.squeeze(axis), shape, v.element)


def sliced(w: Writer, v: Value) -> None:
    axis = w.random.randrange(1, len(v.shape))
    n = v.shape[axis]
    low, step = w.random.randrange(-n, n), w.random.choice([1, 1, 2, 3])
    high = w.random.choice([None, *range(-n, n + 1)])
    length = len(range(n)[low:high:step])
    if length:
        index = ", ".join([":"] * axis + [f"{low}:{'' if high is None else high}:{step}"])
        where = (*[slice(None)] * axis, slice(*slice(low, high, step).indices(n)))
        shape = (*v.shape[:axis], length, *v.shape[axis + 1 :])
        w.let(f"{{0}}[{index}]", [v], lambda x: x[where], shape, v.element)


def padded(w: Writer, v: Value) -> None:
    if v.element == "bool":
        return
    axes = w.random.randint(1, len(v.shape) - 1)
    pads = [w.random.choice([0, 1, 2]) for _ in range(2 * axes)]
    value = w.random.choice([0, 1, -1]) if is_integer(v) else w.random.choice([0.0, 1.5])
    shape = list(v.shape)
    for axis in range(axes):
        shape[-1 - axis] += pads[2 * axis] + pads[2 * axis + 1]
    w.let(f"pad({{0}}, {pads}, value={value})", [v], lambda x: F.pad(x, pads, value=value),
          shape, v.element)  # fmt: skip


def joined(w: Writer, v: Value) -> None:
    other, axis = w.like(v), w.random.randrange(1, len(v.shape))
    if w.random.random() < 0.6:
        shape = (*v.shape[:axis], 2 * v.shape[axis], *v.shape[axis + 1 :])
        w.let(f"concat([{{0}}, {{1}}], axis={axis})", [v, other],
              lambda x, y: torch.cat([x, y], axis), shape, v.element)  # fmt: skip
    else:
        shape = (*v.shape[:axis], 2, *v.shape[axis:])
        w.let(f"stack([{{0}}, {{1}}], axis={axis})", [v, other],
              lambda x, y: torch.stack([x, y], axis), shape, v.element)  # fmt: skip


def expanded(w: Writer, v: Value) -> None:
    ones = [a for a in range(1, len(v.shape)) if v.shape[a] == 1]
    if ones:
        shape = list(v.shape)
        shape[w.random.choice(ones)] = 3
        sizes = ", ".join(map(str, ["N", *shape[1:]]))
        w.let(f"expand({{0}}, [{sizes}])", [v], lambda x: x.expand(shape), shape, v.element)


def split(w: Writer, v: Value) -> None:
    axis = w.random.randrange(1, len(v.shape))
    n = v.shape[axis]
    if n > 1:
        first, index = w.random.randrange(1, n), w.random.randrange(2)
        sizes = [first, n - first]
        shape = (*v.shape[:axis], sizes[index], *v.shape[axis + 1 :])
        w.let(f"split({{0}}, {sizes}, axis={axis})[{index}]", [v],
              lambda x: torch.split(x, sizes, axis)[index], shape, v.element)  # fmt: skip


MOVEMENTS = (
    *(permuted, transposed, flattened, reshaped, unsqueezed, squeezed, sliced, sliced, padded),
    *(joined, joined, expanded, split),
)


@rule(4)
def movement(w: Writer) -> None:
    v = w.pick(lambda v: len(v.shape) >= 2)
    if v is not None:
        w.random.choice(MOVEMENTS)(w, v)


def generate(seed: int) -> Case:
    """The program of a seed."""
    steps = random.Random(seed).choice([1, 2, 2, 3, 4, 6, 10])
    return Writer(seed, RULES).program(seed, steps)
