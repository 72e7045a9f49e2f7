"""Rules of complex numbers, as rotary positions and Fourier transforms have them between real ones.

A complex tensor is the list of its real and imaginary part. What only moves elements is done to
both by the rule for real tensors; transforms are those of `from_onnx`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product as cartesian
from typing import TypeAlias, cast

from torch.fx import Node
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ..from_onnx.rules_spectra import transformed
from ..problems import refuse
from .calls import Call, fake_tensor, is_tensor
from .rules_elementwise import RULES as ELEMENTWISE
from .rules_index import RULES as INDEX
from .rules_onnx import companion, same, sized
from .rules_reduction import RULES as REDUCTION
from .rules_running import RULES as RUNNING
from .rules_shape import RULES as SHAPE
from .sizes import is_node, static
from .torch_builder import Builder, Known, Rule, element_type

Product: TypeAlias = "Callable[[Sequence[SSAValue]], SSAValue]"
"""A product of real tensors, one of each operand."""


def is_complex(node: Node) -> bool:
    """Whether an operator takes or gives complex numbers."""
    parts = [part for part in (node, *node.all_input_nodes) if is_tensor(part)]
    return any(fake_tensor(part).is_complex() for part in parts)


def _parts(e: Builder, node: Node) -> tuple[Formula, Formula | None]:
    """Real and imaginary part; a real tensor has none of the latter."""
    value = e.values[node]
    if isinstance(value, Known) and value.tensor.is_complex():
        halves = (value.tensor.real, value.tensor.imag)
        parts = [e.constant(Known(half.clone(), value.sizes, value.keys)) for half in halves]
        return Formula(e, parts[0]), Formula(e, parts[1])
    if isinstance(value, list) and len(value) == 2 and fake_tensor(node).is_complex():
        real, imaginary = value
        assert isinstance(real, SSAValue) and isinstance(imaginary, SSAValue)
        return Formula(e, real), Formula(e, imaginary)
    return Formula(e, e.value(node)), None


def _both(e: Builder, node: Node) -> tuple[Formula, Formula]:
    real, imaginary = _parts(e, node)
    return real, real * 0 if imaginary is None else imaginary


def _stacked(e: Builder, node: Node) -> SSAValue:
    """The parts along a last axis; of a real tensor one."""
    parts = [part for part in _parts(e, node) if part is not None]
    rank = len(fake_tensor(node).shape)
    ends = [e.add(tensor.UnsqueezeOp(part.value, [rank])) for part in parts]
    return ends[0] if len(ends) == 1 else e.add(tensor.ConcatenateOp(ends, rank))


def _apart(e: Builder, x: SSAValue) -> list[SSAValue]:
    """The parts that a last axis holds."""
    last = tensor_type(x).get_num_dims() - 1
    cut = [Formula(e, x).cut(last, part, part + 1).value for part in range(2)]
    return [e.add(tensor.SqueezeOp(part, [last])) for part in cut]


def _other(e: Builder, call: Call) -> tuple[Formula | float, Formula | float | None]:
    """The parts of the second operand: a tensor, a complex number or a real one."""
    other = call.arguments.get("other")
    if isinstance(other, complex):
        return other.real, other.imag
    other = call.operand("other")
    if is_node(other) and is_tensor(other):
        return _parts(e, other)
    return Formula(e, e.operand(other, call.value.dtype.to_real())), None


def _product(e: Builder, call: Call) -> list[SSAValue]:
    (a, b), (c, d) = _both(e, call["self"]), _other(e, call)
    if d is None:
        return [(a * c).value, (b * c).value]
    return [(a * c - b * d).value, (a * d + b * c).value]


def _quotient(e: Builder, call: Call) -> list[SSAValue]:
    (a, b), (c, d) = _both(e, call["self"]), _other(e, call)
    if d is None:
        return [(a / c).value, (b / c).value]
    size = c * c + d * d
    return [((a * c + b * d) / size).value, ((b * c - a * d) / size).value]


def _products(e: Builder, nodes: Sequence[Node], product: Product) -> list[SSAValue]:
    """A product of several tensors, linear in each: those of all parts with their powers of i."""
    sums: list[Formula | None] = [None, None]
    for choice in cartesian(*(list(enumerate(_parts(e, node))) for node in nodes)):
        parts = [part.value for _, part in choice if part is not None]
        if len(parts) < len(nodes):
            continue
        power = sum(which for which, _ in choice)
        term = Formula(e, product(parts))
        known = sums[power % 2]
        if known is None:
            sums[power % 2] = term if power < 2 else -term
        else:
            sums[power % 2] = known - term if power % 4 > 1 else known + term
    real, imaginary = sums
    assert real is not None
    return [real.value, (real * 0 if imaginary is None else imaginary).value]


def _matmul(e: Builder, call: Call) -> list[SSAValue]:
    nodes = [call["self"], call["other" if "other" in call else "mat2"]]
    return _products(e, nodes, lambda parts: e.add(tensor.MatmulOp(*parts)))


def _einsum(e: Builder, call: Call) -> list[SSAValue]:
    nodes, equation = call.tensors("tensors"), {"equation": call.word("equation")}

    def product(parts: Sequence[SSAValue]) -> SSAValue:
        pairs = zip(parts, nodes, strict=True)
        return same(e, "Einsum", [sized(e, p, e.sizes(node)) for p, node in pairs], equation)[0]

    return _products(e, nodes, product)


Pair: TypeAlias = "tuple[Formula, Formula]"
"""Real and imaginary part."""


def _function(function: Callable[[Pair], Pair]) -> Rule:
    """A rule for a function of one complex tensor."""
    return lambda e, call: [part.value for part in function(_both(e, call["self"]))]


def _times(x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


def _over(x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = x, y
    size = c * c + d * d
    return (a * c + b * d) / size, (b * c - a * d) / size


def _size(z: Pair) -> Formula:
    return (z[0] * z[0] + z[1] * z[1]).of(tensor.SqrtOp)


def _log(z: Pair, base: float = math.e) -> Pair:
    factor = 1 / math.log(base)
    parts = _size(z).of(tensor.LogOp), z[1].of(tensor.Atan2Op, z[0])
    return parts if base == math.e else (parts[0] * factor, parts[1] * factor)


def _exp(z: Pair) -> Pair:
    size = z[0].of(tensor.ExpOp)
    return size * z[1].of(tensor.CosOp), size * z[1].of(tensor.SinOp)


def _sqrt(z: Pair) -> Pair:
    """The root with a real part that is not negative (Kahan 1987), without 0/0 at 0."""
    real, imaginary = z
    large = ((_size(z) + abs(real)) * 0.5).of(tensor.SqrtOp)
    is_zero = large.compare("eq", 0)
    small = abs(imaginary) * 0.5 / is_zero.choose(large.number(1), large)
    is_left, below = real < 0, imaginary < 0
    across = is_left.choose(large, small)
    return is_left.choose(small, large), below.choose(-across, across)


def _power(e: Builder, call: Call) -> list[SSAValue]:
    """e^(w·ln z), products for small whole numbers; 0 to any power but 0 is 0, to 0 it is 1."""
    exponent = call.arguments.get("exponent")
    base = call.arguments.get("self")
    z = _both(e, base) if is_node(base) else None
    if isinstance(exponent, int | float) and exponent in range(1, 5) and z is not None:
        power = z
        for _ in range(int(exponent) - 1):
            power = _times(power, z)
        return [part.value for part in power]
    if isinstance(exponent, int | float) and exponent == 0.5 and z is not None:
        return [part.value for part in _sqrt(z)]

    def parts(value: object) -> Pair:
        if is_node(value):
            return _both(e, value)
        number = complex(cast("complex", value))
        kind = element_type(call.value.dtype.to_real())
        real, imaginary = (Formula(e, e.number(part, kind)) for part in (number.real, number.imag))
        return real, imaginary

    z, w = z or parts(base), parts(exponent)
    is_zero = _size(z).compare("eq", 0)
    log = _log((is_zero.choose(z[0].number(1), z[0]), z[1]))
    is_one = (abs(w[0]) + abs(w[1])).compare("eq", 0)
    real, imaginary = _exp(_times(w, log))
    at_zero = is_one.choose(w[0].number(1), 0)
    return [is_zero.choose(at_zero, real).value, is_zero.choose(real * 0, imaginary).value]


def _sinh(z: Pair) -> Pair:
    real, imaginary = z
    return (
        real.of(tensor.SinhOp) * imaginary.of(tensor.CosOp),
        real.of(tensor.CoshOp) * imaginary.of(tensor.SinOp),
    )


def _cosh(z: Pair) -> Pair:
    real, imaginary = z
    return (
        real.of(tensor.CoshOp) * imaginary.of(tensor.CosOp),
        real.of(tensor.SinhOp) * imaginary.of(tensor.SinOp),
    )


def _tanh(z: Pair) -> Pair:
    """Kahan 1987: no part of it overflows."""
    tangent = z[1].of(tensor.TanOp)
    rise = z[0].of(tensor.TanhOp)
    # (tanh x + i·tan y)/(1 + i·tanh x·tan y)
    return _over((rise, tangent), (rise.filled(1), rise * tangent))


def _turned(function: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """-i·f(i·z): the circular function of a hyperbolic one that is odd."""

    def turned(z: Pair) -> Pair:
        real, imaginary = function((-z[1], z[0]))
        return imaginary, -real

    return turned


def _sigmoid(z: Pair) -> Pair:
    real, imaginary = _tanh((z[0] * 0.5, z[1] * 0.5))
    return real * 0.5 + 0.5, imaginary * 0.5


def _inverse(z: Pair) -> Pair:
    return _over((z[0].filled(1), z[0] * 0), z)


def _angle(e: Builder, call: Call) -> SSAValue:
    real, imaginary = _both(e, call["self"])
    return imaginary.of(tensor.Atan2Op, real).value


def _converted(e: Builder, call: Call) -> SSAValue | list[SSAValue]:
    """Also real numbers as complex ones, complex ones of another length, and their real parts."""
    to = call.value.dtype
    element = element_type(to.to_real() if to.is_complex else to)
    parts = [e.convert(part.value, element) for part in _both(e, call["self"])]
    return parts if to.is_complex else parts[0]


def _sum(sign: int) -> Rule:
    def rule(e: Builder, call: Call) -> list[SSAValue]:
        refuse(call.number("alpha", 1) != 1, "it has a factor alpha; multiply before")
        (a, b), (c, d) = _both(e, call["self"]), _other(e, call)
        pairs = ((a, c), (b, 0.0 if d is None else d))
        return [(own + more if sign > 0 else own - more).value for own, more in pairs]

    return rule


def _made(compute: Callable[[Formula, Formula], tuple[Formula, Formula]], *names: str) -> Rule:
    """Complex numbers from two real tensors."""

    def rule(e: Builder, call: Call) -> list[SSAValue]:
        first, second = (Formula(e, e.value(call[name])) for name in names)
        return [part.value for part in compute(first, second)]

    return rule


def _conjugate(e: Builder, call: Call) -> list[SSAValue]:
    real, imaginary = _both(e, call["self"])
    return [real.value, (-imaginary).value]


def _by_parts(rule: Rule) -> Rule:
    """A rule that moves elements or adds them up, for real and imaginary parts alone."""

    def both(e: Builder, call: Call) -> list[SSAValue]:
        refuse(bool(call.arguments.get("value")), "it fills with a number; only 0 is read")
        nodes = [n for n in dict.fromkeys(call.node.all_input_nodes) if n in e.values]
        whole = [n for n in nodes if fake_tensor(n).is_complex()]
        kept = {n: (e.values[n], n.meta["val"]) for n in whole}
        parts, result = {n: _both(e, n) for n in whole}, call.node.meta["val"]
        results = list[SSAValue]()
        try:
            for part in range(2):
                for n in whole:
                    e.values[n], n.meta["val"] = parts[n][part].value, kept[n][1].real
                call.node.meta["val"] = result.real
                made = rule(e, Call.of(call.node))
                value = e.constant(made) if isinstance(made, Known) else made
                assert isinstance(value, SSAValue)
                results.append(value)
        finally:
            call.node.meta["val"] = result
            for n, (value, fake) in kept.items():
                e.values[n], n.meta["val"] = value, fake
        return results

    return both


def _fourier(e: Builder, call: Call) -> SSAValue | list[SSAValue]:
    """Transforms along several axes; `normalization` 1 divides by √n, 2 by n."""
    name, axes = call.name.removeprefix("aten::"), call.integers("dim")
    x, sizes = _stacked(e, call["self"]), e.sizes(call["self"])
    rank, back = len(sizes), name == "_fft_c2r" or not call.flag("forward", True)
    axes = [axis % rank for axis in axes]
    there, count = companion(e), 1
    x = sized(e, x, (*sizes, tensor_type(x).get_shape()[-1]))
    # Of real numbers the last axis is transformed first, and of their spectra last.
    for axis in axes[::-1] if name == "_fft_r2c" else axes:
        half = axis == axes[-1] and (
            name == "_fft_c2r" or (name == "_fft_r2c" and call.flag("onesided"))
        )
        (size,) = static([sizes[axis]], "transformed sizes")
        length = call.integer("last_dim_size") if half and name == "_fft_c2r" else size
        x = transformed(there, x, axis, length, inverse=back, one_sided=half)
        count *= length
    kind = call.integer("normalization")
    factor = (1.0, count**-0.5, 1 / count)[kind] * (count if back else 1)
    if factor != 1:
        x = (Formula(e, x) * factor).value
    if name == "_fft_c2r":
        return e.add(tensor.SqueezeOp(x, [rank]))
    return _apart(e, x)


_BY_PARTS = (
    "broadcast_to", "cat", "constant_pad_nd", "copy", "cumsum", "diff", "expand", "flatten", "flip",
    "index", "index_select", "mean", "movedim", "pad", "permute", "repeat", "reshape", "roll",
    "select", "select_scatter", "slice", "slice_scatter", "squeeze", "stack", "sum", "transpose",
    "unflatten", "_unsafe_view", "unsqueeze", "view", "where",
)  # fmt: skip

_REAL = {**ELEMENTWISE, **INDEX, **REDUCTION, **RUNNING, **SHAPE}

_RULES: dict[str, Rule] = {
    **{name: _by_parts(_REAL[name]) for name in _BY_PARTS},
    "abs": lambda e, call: _size(_both(e, call["self"])).value,
    "add": _sum(1),
    "angle": _angle,
    **dict.fromkeys(("alias", "clone", "contiguous", "to", "_to_copy"), _converted),
    "complex": _made(lambda a, b: (a, b), "real", "imag"),
    **dict.fromkeys(("_conj", "_conj_physical"), _conjugate),
    "div": _quotient,
    "einsum": _einsum,
    "exp": _function(_exp),
    "cos": _function(lambda z: _cosh((-z[1], z[0]))),
    "cosh": _function(_cosh),
    **dict.fromkeys(("_fft_c2c", "_fft_c2r", "_fft_r2c"), _fourier),
    "imag": lambda e, call: _both(e, call["self"])[1].value,
    **dict.fromkeys(("bmm", "matmul", "mm"), _matmul),
    "log": _function(_log),
    "log10": _function(lambda z: _log(z, 10)),
    "log2": _function(lambda z: _log(z, 2)),
    "mul": _product,
    "neg": lambda e, call: [(-part).value for part in _both(e, call["self"])],
    "polar": _made(
        lambda r, phi: (r * phi.of(tensor.CosOp), r * phi.of(tensor.SinOp)), "abs", "angle"
    ),
    "pow": _power,
    "reciprocal": _function(_inverse),
    "real": lambda e, call: _both(e, call["self"])[0].value,
    "rsqrt": _function(lambda z: _inverse(_sqrt(z))),
    "sigmoid": _function(_sigmoid),
    "sin": _function(_turned(_sinh)),
    "sinh": _function(_sinh),
    "sqrt": _function(_sqrt),
    "square": _function(lambda z: _times(z, z)),
    "sub": _sum(-1),
    "tan": _function(_turned(_tanh)),
    "tanh": _function(_tanh),
    "view_as_complex": lambda e, call: _apart(e, e.value(call["self"])),
    "view_as_real": lambda e, call: _stacked(e, call["self"]),
}

COMPLEX: dict[str, Rule] = {f"aten::{name}": rule for name, rule in _RULES.items()}
"""By the name of an operator that takes or gives complex numbers."""
