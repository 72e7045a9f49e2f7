"""A layer of integers as Verilog that is written down op by op, to prove circuits against.

Each number is a wire that is wide enough for all it can be, each sum has all its terms, each
threshold a comparison: nothing is shared, merged or rearranged, and the layer is read as the
program has it, before any pass makes hardware of it. Not here: proofs (`tools.layer_proofs`), and
layers on images, with state or of several cycles, which have no such form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
from xdsl.dialects.builtin import Float64Type, FloatAttr, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor, ternary
from ...dialects.traits import MovesElements, has
from ...ir.errors import UnsupportedError
from ...ir.interpreter import entry_function
from ...ir.locations import location_text
from ...passes.adder_graph.optimize_adder_graph import Product
from ...passes.analysis.compile_time import is_literal, literal_value
from ...passes.analysis.layers import input_of, weight_of
from .circuit.arrays import Objects, along, array_of, over_axes, rows_along
from .circuit.circuit_rules import moved
from .circuit.interface import Interface

Numbers = Objects
"""An array of `Number`s, of the shape of a tensor with a free axis of 1."""


@dataclass(frozen=True)
class Number:
    """A signed number in Verilog.

    Attributes:
        text: a wire or a constant.
        low: the least value that it can have.
        high: the largest one.
    """

    text: str
    low: int
    high: int


def constant(value: int) -> Number:
    """A known number."""
    bits = value.bit_length() + 1
    text = f"{bits}'sd{value}" if value >= 0 else f"(-{bits}'sd{-value})"
    return Number(text, value, value)


@dataclass(frozen=True)
class PlainForm:
    """A layer in plain Verilog.

    Attributes:
        text: of the modules `near_form`, which takes the layer's input in any bits and gives the
            nearest one within the bounds, and `plain_form` from the same input to the result.
        widths: of the elements of that result, which are signed.
        bits: of all additions, comparisons and products with constants together: its size.
    """

    text: str
    widths: tuple[int, ...]
    bits: int


def plain_form(module: ModuleOp, interface: Interface) -> PlainForm:
    """A layer of vectors as plain Verilog.

    Args:
        module: the layer, `@forward`.
        interface: of its circuit, which says where elements stand in the input and their bounds.

    Raises:
        UnsupportedError: ops without a plain form, all of them.
    """
    function = entry_function(module, "forward")
    check_plain(module)
    near, form = _Writer(), _Writer()
    values: dict[SSAValue, Numbers] = {}
    nearest: list[str] = []
    place = 0
    for argument, port in zip(function.args, interface.inputs, strict=True):
        flat: list[Number] = []
        for low, high, width in zip(port.low, port.high, port.widths, strict=True):
            flat.append(form.element(place, width, low, high))
            nearest.append(near.resized(near.element(place, width, low, high), width))
            place += width
        values[argument] = array_of(flat, port.shape)
    results: list[Number] = []
    for op in function.body.block.ops:
        if isinstance(op, ReturnOp):
            results = [number for value in op.operands for number in values[value].reshape(-1)]
        elif is_literal(op):
            values[op.result] = _constants(op.result)
        else:
            operands = [values[value] for value in op.operands]
            values |= dict(zip(op.results, form.results(op, operands), strict=True))
    ends = [end for port in interface.outputs for end in zip(port.low, port.high, strict=True)]
    widths = [
        1 + max(_bits(number.low, number.high), _bits(*end))
        for number, end in zip(results, ends, strict=True)
    ]
    elements = [form.resized(number, width) for number, width in zip(results, widths, strict=True)]
    text = near.text("near_form", place, nearest, place)
    text += form.text("plain_form", place, elements, sum(widths))
    return PlainForm(text, tuple(widths), form.bits)


def check_plain(module: ModuleOp) -> None:
    """Refuse a layer that has no plain form.

    Raises:
        UnsupportedError: names each op.
    """
    problems: list[tuple[str, str, str]] = []
    for op in entry_function(module, "forward").body.block.ops:
        known = isinstance(op, ReturnOp) or is_literal(op) or type(op) in _RULES
        if not known and not has(op, MovesElements):
            problems.append((op.name, location_text(op), "it is no arithmetic on one vector"))
    if problems:
        raise UnsupportedError("plain Verilog", problems)


def _bits(low: int, high: int) -> int:
    """Of a signed number within bounds; one more than it needs where the least is a power of 2."""
    return max(low.bit_length(), high.bit_length()) + 1


def _constants(value: SSAValue) -> Numbers:
    array = literal_value(value)
    assert array is not None
    return array_of([constant(int(n)) for n in array.reshape(-1)], array.shape)


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bits = 0

    def text(self, name: str, bits: int, parts: Sequence[str], bits_out: int) -> str:
        """The module: its name, the bits of its input, the parts of its output and their bits."""
        lines = "\n".join(self.lines)
        ports = f"input [{bits - 1}:0] x, output [{bits_out - 1}:0] y"
        result = f"{{{', '.join(reversed(parts))}}}"
        return f"module {name} ({ports});\n{lines}\n  assign y = {result};\nendmodule\n\n"

    def wire(self, text: str, low: int, high: int) -> Number:
        """Another wire, of just the bits that signed numbers in those bounds need."""
        name = f"n{len(self.lines)}"
        self.bits += _bits(low, high) * text.count(" ")
        self.lines.append(f"  wire signed [{_bits(low, high) - 1}:0] {name} = {text};")
        return Number(name, low, high)

    def element(self, place: int, width: int, low: int, high: int) -> Number:
        """An element of the input, or the nearest number within its bounds."""
        if low == high:
            return constant(low)
        half = 1 << (width - 1)
        least, most = (-half, half - 1) if low < 0 else (0, 2 * half - 1)
        bits = f"x[{place} +: {width}]"
        whole = bits if low < 0 else f"{{1'b0, {bits}}}"
        return self.clamped(self.wire(f"$signed({whole})", least, most), low, high)

    def resized(self, number: Number, width: int) -> str:
        """A number in so many bits, which it fits in."""
        wire = self.wire(number.text, number.low, number.high)
        bits = _bits(number.low, number.high)
        if width <= bits:
            return f"{wire.text}[{width - 1}:0]"
        return f"{{{{{width - bits}{{{wire.text}[{bits - 1}]}}}}, {wire.text}}}"

    def clamped(self, x: Number, low: int | None, high: int | None) -> Number:
        """The nearest number within bounds."""
        if low is not None and x.low < low:
            ends = max(x.low, low), max(x.high, low)
            text = f"{x.text} < {constant(low).text} ? {constant(low).text} : {x.text}"
            x = self.wire(text, *ends)
        if high is not None and x.high > high:
            ends = min(x.low, high), min(x.high, high)
            text = f"{x.text} > {constant(high).text} ? {constant(high).text} : {x.text}"
            x = self.wire(text, *ends)
        return x

    def total(self, terms: Sequence[tuple[int, Number]]) -> Number:
        """The sum of numbers, each so many times."""
        words: list[str] = []
        low = high = 0
        for factor, x in terms:
            if not factor:
                continue
            sign = "+" if factor > 0 else "-"
            times = x.text if abs(factor) == 1 else f"{constant(abs(factor)).text} * {x.text}"
            words.append(f"{sign} {times}")
            ends = factor * x.low, factor * x.high
            low, high = low + min(ends), high + max(ends)
        return self.wire(" ".join(words) or constant(0).text, low, high)

    def choose(self, condition: str, yes: Number, no: Number, low: int, high: int) -> Number:
        """One of two numbers, within bounds."""
        return self.wire(f"({condition}) ? {yes.text} : {no.text}", low, high)

    def each(self, function: Callable[..., Number], *arrays: Numbers) -> Numbers:
        """`function` of the elements, broadcast."""
        parts = np.broadcast_arrays(*arrays)
        columns = zip(*(part.reshape(-1) for part in parts), strict=True)
        return array_of([function(*items) for items in columns], parts[0].shape)

    def results(self, op: Operation, operands: Sequence[Numbers]) -> Sequence[Numbers]:
        """What an op makes."""
        if type(op) in _RULES:
            return [_RULES[type(op)](self, op, operands)]
        return moved(op, operands)

    def product(self, op: Product, operands: Sequence[Numbers]) -> Numbers:
        """A product with one matrix, and what a fused op does after it."""
        values = dict(zip(op.operands, operands, strict=True))
        x, weight = values[input_of(op)], literal_value(weight_of(op))
        assert weight is not None
        flat: list[Number] = []
        for row in x.reshape(-1, x.shape[-1]):
            for column in weight.T.astype(np.int64).tolist():
                flat.append(self.total(list(zip(column, row, strict=True))))
        y = array_of(flat, (*x.shape[:-1], weight.shape[1]))
        bias = getattr(op, "bias", None)
        if bias is not None:
            y = self.each(partial(self.combined, (1, 1)), y, values[bias])
        if not isinstance(op, ternary.FusedOp):
            return y
        if op.activation.data == "relu":
            y = self.each(partial(self.clamped, low=0, high=None), y)
        if op.thresholds is not None:
            y = self.counted(y, values[op.thresholds], y.ndim - 1)
        if op.multiplier is not None:
            assert op.shift is not None and op.zero_point is not None
            assert op.low is not None and op.high is not None
            steps = [values[value] for value in (op.multiplier, op.shift, op.zero_point)]
            y = self.rescaled(y, steps, y.ndim - 1, (op.low.value.data, op.high.value.data))
        return y

    def combined(self, factors: Sequence[int], *numbers: Number) -> Number:
        """The sum of numbers, each so many times."""
        return self.total(list(zip(factors, numbers, strict=True)))

    def multiply(self, a: Number, b: Number) -> Number:
        """a · b."""
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return self.wire(f"{a.text} * {b.text}", min(ends), max(ends))

    def compare(self, sign: str, a: Number, b: Number) -> Number:
        """1 where it holds, else 0."""
        return self.choose(f"{a.text} {sign} {b.text}", constant(1), constant(0), 0, 1)

    def end(self, sign: str, a: Number, b: Number) -> Number:
        """The larger number, or with `<` the smaller one."""
        join = max if sign == ">" else min
        ends = join(a.low, b.low), join(a.high, b.high)
        return self.choose(f"{a.text} {sign} {b.text}", a, b, *ends)

    def counted(self, x: Numbers, thresholds: Numbers, axis: int) -> Numbers:
        """How many thresholds of its channel each number has reached."""
        channels = rows_along([list(row) for row in thresholds], x.ndim, axis)

        def one(number: Number, row: list[Number]) -> Number:
            return self.total([(1, self.compare(">=", number, t)) for t in row])

        return self.each(one, x, channels)

    def rescaled(
        self, x: Numbers, steps: Sequence[Numbers], axis: int, ends: tuple[int, int]
    ) -> Numbers:
        """As `tensor.requantize`, from multiplier, shift and zero point."""
        multiplier, shift, zero = steps

        def one(number: Number, m: Number, s: Number, z: Number) -> Number:
            rounded = self.total([(m.low, number), (1, constant(1 << (s.low - 1)))])
            bounds = rounded.low >> s.low, rounded.high >> s.low
            shifted = self.wire(f"{rounded.text} >>> {s.low}", *bounds)
            return self.clamped(self.combined((1, 1), shifted, z), *ends)

        return self.each(one, x, along(multiplier, x.ndim, axis), along(shift, x.ndim, axis), zero)

    def best(self, row: Sequence[Number]) -> Number:
        """The place of the first largest number."""
        most, place = row[0], constant(0)
        for index, other in enumerate(row[1:], 1):
            above = f"{other.text} > {most.text}"
            place = self.choose(above, constant(index), place, 0, index)
            most = self.end(">", other, most)
        return place


_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def _bound(bound: FloatAttr[Float64Type] | None) -> int | None:
    return None if bound is None else int(bound.value.data)


_Rule = Callable[[_Writer, Any, Sequence[Numbers]], Numbers]

_RULES: dict[type[Operation], _Rule] = {
    ternary.LinearOp: _Writer.product,
    ternary.MatmulOp: _Writer.product,
    tensor.LinearOp: _Writer.product,
    tensor.MatmulOp: _Writer.product,
    tensor.AddOp: lambda w, op, x: w.each(partial(w.combined, (1, 1)), *x),
    tensor.SubOp: lambda w, op, x: w.each(partial(w.combined, (1, -1)), *x),
    tensor.MulOp: lambda w, op, x: w.each(w.multiply, *x),
    tensor.MaximumOp: lambda w, op, x: w.each(partial(w.end, ">"), *x),
    tensor.MinimumOp: lambda w, op, x: w.each(partial(w.end, "<"), *x),
    tensor.NegOp: lambda w, op, x: w.each(partial(w.combined, (-1,)), *x),
    tensor.ReluOp: lambda w, op, x: w.each(partial(w.clamped, low=0, high=None), *x),
    tensor.ClampOp: lambda w, op, x: w.each(
        partial(w.clamped, low=_bound(op.min), high=_bound(op.max)), *x
    ),
    tensor.ConvertOp: lambda w, op, x: x[0],
    tensor.CompareOp: lambda w, op, x: w.each(partial(w.compare, _SIGNS[op.predicate.data]), *x),
    tensor.MultiThresholdOp: lambda w, op, x: w.counted(x[0], x[1], op.axis.value.data),
    tensor.RequantizeOp: lambda w, op, x: w.rescaled(
        x[0], x[1:], op.axis.value.data, (op.low.value.data, op.high.value.data)
    ),
    tensor.ArgmaxOp: lambda w, op, x: over_axes(op, x[0], w.best),
    tensor.ReduceSumOp: lambda w, op, x: over_axes(
        op, x[0], partial(reduce, partial(w.combined, (1, 1)))
    ),
    tensor.ReduceMaxOp: lambda w, op, x: over_axes(op, x[0], partial(reduce, partial(w.end, ">"))),
    tensor.ReduceMinOp: lambda w, op, x: over_axes(op, x[0], partial(reduce, partial(w.end, "<"))),
}
