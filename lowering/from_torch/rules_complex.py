"""Rules of complex numbers, as rotary positions and Fourier transforms have them between real ones.

A complex tensor is the list of its real and imaginary part. What only moves elements is done to
both by the rule for real tensors; transforms are those of `from_onnx`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ..from_onnx.rules_spectra import transformed
from ..problems import refuse
from .calls import Call, fake_tensor, is_tensor
from .rules_onnx import companion, sized
from .rules_shape import RULES as SHAPE
from .sizes import is_node, static
from .torch_builder import Builder, Known, Rule, element_type

if TYPE_CHECKING:
    from torch.fx import Node


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


def _exponential(e: Builder, call: Call) -> list[SSAValue]:
    real, angle = _both(e, call["self"])
    size = real.of(tensor.ExpOp)
    return [(size * angle.of(kind)).value for kind in (tensor.CosOp, tensor.SinOp)]


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


def _absolute(e: Builder, call: Call) -> SSAValue:
    real, imaginary = _both(e, call["self"])
    return (real * real + imaginary * imaginary).of(tensor.SqrtOp).value


def _moved(rule: Rule) -> Rule:
    """A rule that moves elements, for both parts."""

    def both(e: Builder, call: Call) -> list[SSAValue]:
        node, kept, results = call["self"], e.values[call["self"]], list[SSAValue]()
        for part in _both(e, node):
            e.values[node] = part.value
            result = rule(e, call)
            assert isinstance(result, SSAValue)
            results.append(result)
        e.values[node] = kept
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


_MOVING = (
    "expand", "flatten", "permute", "reshape", "select", "slice", "squeeze", "transpose",
    "unflatten", "_unsafe_view", "unsqueeze", "view",
)  # fmt: skip

_RULES: dict[str, Rule] = {
    **{name: _moved(SHAPE[name]) for name in _MOVING},
    "abs": _absolute,
    "add": _sum(1),
    "angle": _angle,
    **dict.fromkeys(("alias", "clone", "contiguous", "to", "_to_copy"), _converted),
    "complex": _made(lambda a, b: (a, b), "real", "imag"),
    **dict.fromkeys(("_conj", "_conj_physical"), _conjugate),
    "div": _quotient,
    "exp": _exponential,
    **dict.fromkeys(("_fft_c2c", "_fft_c2r", "_fft_r2c"), _fourier),
    "imag": lambda e, call: _both(e, call["self"])[1].value,
    "mul": _product,
    "neg": lambda e, call: [(-part).value for part in _both(e, call["self"])],
    "polar": _made(
        lambda r, phi: (r * phi.of(tensor.CosOp), r * phi.of(tensor.SinOp)), "abs", "angle"
    ),
    "real": lambda e, call: _both(e, call["self"])[0].value,
    "sub": _sum(-1),
    "view_as_complex": lambda e, call: _apart(e, e.value(call["self"])),
    "view_as_real": lambda e, call: _stacked(e, call["self"]),
}

COMPLEX: dict[str, Rule] = {f"aten::{name}": rule for name, rule in _RULES.items()}
"""By the name of an operator that takes or gives complex numbers."""
