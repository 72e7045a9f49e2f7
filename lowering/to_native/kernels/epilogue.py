"""Epilogues of kernels: scale, bias, activation, thresholds or requantisation after a product.

Raw sums of biased codes become the product (Σ u·x - Σ x is that with trits, exactly), digits are
joined, and the steps of an `Epilogue` follow in vectors. Not here: the sums (`gemv`, `panel`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects import llvm
from xdsl.dialects.builtin import Float32Type, IntegerType, f32, i32, i64
from xdsl.ir import Attribute, SSAValue

from ....ir.errors import OptionError
from ....runtime.native.abi.linear import DIGIT_BASE, TABLES, Kind
from ..llvm.types import vector
from .code import POINTER, Code, Index
from .recipes import Recipe

Spread = Literal["all", "channel"]
"""One value for all outputs, or one for each."""
Activation = Literal["none", "relu", "relu6"]

_INFINITE = 0x7F800000
_MAGNITUDE_BITS = 0x7FFFFFFF


@dataclass(frozen=True)
class Requantize:
    """`tensor.requantize`: clamp(⌊(x·multiplier + 2^(shift-1)) / 2^shift⌋ + zero_point), in i64.

    `table` holds the multipliers, `shift` the shifts, both int32.

    Attributes:
        multiplier, shift: whether each output has its own.
        zero_point, low, high: numbers of the result's type.
        width: bits of the result, 8, 16 or 32.
    """

    multiplier: Spread
    shift: Spread
    zero_point: int
    low: int
    high: int
    width: int


@dataclass(frozen=True)
class Thresholds:
    """`tensor.multi_threshold`: how many thresholds are not above the value.

    `table` holds them as `abi.tables.threshold_table` makes them.

    Attributes:
        count: thresholds of each output.
        spread: whether each output has its own.
        width: bits of the result.
    """

    count: int
    spread: Spread
    width: int


@dataclass(frozen=True)
class Epilogue:
    """The steps after a product, in this order, each optional.

    Attributes:
        scale: times `scale`, float32, for floating kinds only.
        bias: plus `bias[n]`: float32 for floating kinds, else int32 (with the correction that kinds
            with an offset need).
        activation: `relu6` is for floating kinds only.
        then: thresholds, or requantisation of integers.
    """

    scale: Spread | None = None
    bias: bool = False
    activation: Activation = "none"
    then: Thresholds | Requantize | None = None

    def check(self, kind: Kind) -> None:
        """Refuse steps that the sums of a kind do not have.

        Raises:
            OptionError: a float step for integers, or the reverse.
        """
        if not kind.floating and (self.scale is not None or self.activation == "relu6"):
            raise OptionError(
                f"a scale or relu6 needs floats, and '{kind.activations}' has integers"
            )
        if kind.floating and isinstance(self.then, Requantize):
            raise OptionError(f"requantisation needs integers, and '{kind.activations}' has floats")
        if kind.offset and not self.bias:
            raise OptionError(f"'{kind.activations}' needs a bias, for its correction")

    def result(self, kind: Kind) -> IntegerType | Float32Type:
        """The element of the result."""
        if self.then is not None:
            return IntegerType(self.then.width)
        return f32 if kind.floating else i32


FINISH_ARGUMENTS = ("raw", "y", "sums", "scales", *TABLES, "raw_stride", "rows", "outs", "n0", "n1")
"""`finish`: eight pointers, five int64. `raw` [rows · digits, raw_stride] and `y` [rows, outs]
start at output 0 of the first row, `sums` (of digit rows) and `scales` at the first row."""


def write_finish(recipe: Recipe, kind: Kind, epilogue: Epilogue, name: str) -> llvm.FuncOp:
    """The function that turns raw results of a tile into results, see `FINISH_ARGUMENTS`."""
    epilogue.check(kind)
    code = Code(name, [POINTER] * 8 + [i64] * 5)
    arguments: dict[str, SSAValue] = dict(zip(FINISH_ARGUMENTS, code.arguments, strict=True))
    first, end = arguments["n0"], arguments["n1"]
    whole = code.sub(end, code.and_(code.sub(end, first), recipe.lanes - 1))
    with code.each(0, arguments["rows"]) as m:
        digit = code.mul(m, kind.digits)
        for start, stop, wide in (first, whole, recipe.lanes), (whole, end, 1):
            _write_columns(Lanes(code, wide), kind, epilogue, arguments, (m, digit), (start, stop))
    return code.finish()


def _write_columns(
    lanes: Lanes,
    kind: Kind,
    epilogue: Epilogue,
    arguments: Mapping[str, SSAValue],
    row: tuple[SSAValue, SSAValue],
    outputs: tuple[SSAValue, SSAValue],
) -> None:
    """A range of outputs of a row, which is told by its number and that of its first digit."""
    code, (m, digit) = lanes.code, row
    steps = Steps(code, kind, epilogue, arguments, arguments["outs"])
    raws = [
        code.at(arguments["raw"], code.mul(code.add(digit, d), arguments["raw_stride"]), i32)
        for d in range(kind.digits)
    ]
    sums = [
        lanes.spread(code.load(code.at(code.at(arguments["sums"], digit, i32), d, i32), i32))
        for d in range(kind.digits)
    ]
    scale = None
    if kind.floating:
        scale = lanes.spread(code.load(code.at(arguments["scales"], m, f32), f32))
    width = epilogue.result(kind).size
    line = code.at(arguments["y"], code.mul(code.mul(m, arguments["outs"]), width))
    with code.each(*outputs, lanes.wide) as n:
        values = [
            code.sub(lanes.load(raw, n, i32), total) for raw, total in zip(raws, sums, strict=True)
        ]
        value = lanes.integers(values) if scale is None else lanes.floats(values, scale)
        code.store(steps.apply(lanes, value, n), code.at(line, code.mul(n, width)))


@dataclass(frozen=True)
class Steps:
    """Writes the steps of an epilogue.

    Attributes:
        code: where to.
        kind: of the activations.
        epilogue: the steps.
        tables: their addresses.
        outs: how many outputs there are.
    """

    code: Code
    kind: Kind
    epilogue: Epilogue
    tables: Mapping[str, SSAValue]
    outs: Index

    def apply(self, lanes: Lanes, value: SSAValue, n: SSAValue) -> SSAValue:
        """The results for products of the outputs from `n`, or of output `n` alone."""
        code, steps, tables = self.code, self.epilogue, self.tables
        element = f32 if self.kind.floating else i32
        if steps.scale is not None:
            value = code.fmul(value, lanes.parameter(tables["scale"], n, f32, steps.scale))
        if steps.bias:
            offset = lanes.parameter(tables["bias"], n, element, "channel")
            value = code.fadd(value, offset) if element == f32 else code.add(value, offset)
        if steps.activation != "none":
            maximum = "maximum" if element == f32 else "smax"
            value = code.overloaded(maximum, *code.pair(value, 0))
        if steps.activation == "relu6":
            value = code.overloaded("minimum", *code.pair(value, 6.0))
        if isinstance(steps.then, Thresholds):
            return self._count(lanes, steps.then, value, n)
        if isinstance(steps.then, Requantize):
            return self._requantize(lanes, steps.then, value, n)
        return value

    def _count(self, lanes: Lanes, then: Thresholds, value: SSAValue, n: SSAValue) -> SSAValue:
        """The number of thresholds ≤ value: min(t, v) is t just then."""
        code, table = self.code, self.tables["table"]
        key = lanes.key(value) if self.kind.floating else value
        channels = self.outs if then.spread == "channel" else 1
        with code.loop(0, then.count, 1, [code.constant(0, lanes.of(i32))]) as threshold:
            line = code.at(table, code.mul(threshold.index, channels), i32)
            limit = lanes.parameter(line, n, i32, then.spread)
            differs = code.xor(code.minimum(limit, key), limit)
            above = code.overloaded("umin", *code.pair(differs, 1))
            threshold.values = [code.add(threshold.values[0], above)]
        return lanes.narrow(code.sub(then.count, threshold.values[0]), then.width)

    def _requantize(self, lanes: Lanes, then: Requantize, value: SSAValue, n: SSAValue) -> SSAValue:
        code, tables = self.code, self.tables
        wide = lanes.of(i64)
        factor = lanes.parameter(tables["table"], n, i32, then.multiplier)
        bits = code.resize(lanes.parameter(tables["shift"], n, i32, then.shift), wide)
        half = code.shl(1, code.sub(bits, 1))
        product = code.mul(code.resize(value, wide), code.resize(factor, wide))
        scaled = code.ashr(code.add(product, half), bits)
        moved = code.add(scaled, then.zero_point)
        return lanes.narrow(code.minimum(code.maximum(moved, then.low), then.high), then.width)


@dataclass(frozen=True)
class Lanes:
    """So many results at once, a vector or one number, of as many outputs."""

    code: Code
    wide: int

    def of(self, element: Attribute) -> Attribute:
        """The type of so many numbers."""
        return vector(element, self.wide) if self.wide > 1 else element

    def spread(self, value: SSAValue) -> SSAValue:
        """A number in every lane."""
        return self.code.splat(value, self.wide) if self.wide > 1 else value

    def load(self, base: SSAValue, n: SSAValue, element: Attribute) -> SSAValue:
        """The numbers from `n` on."""
        return self.code.load(self.code.at(base, n, element), self.of(element))

    def parameter(
        self, base: SSAValue, n: SSAValue, element: Attribute, spread: Spread
    ) -> SSAValue:
        """The parameters of the outputs from `n`."""
        if spread == "all":
            return self.spread(self.code.load(base, element))
        return self.load(base, n, element)

    def narrow(self, value: SSAValue, width: int) -> SSAValue:
        """The low bits of an integer."""
        kind = self.of(IntegerType(width))
        return value if value.type == kind else self.code.resize(value, kind)

    def integers(self, digits: Sequence[SSAValue]) -> SSAValue:
        """Digits in base 256 joined, modulo 2^32."""
        total = digits[0]
        for d, digit in enumerate(digits[1:], start=1):
            total = self.code.add(total, self.code.shl(digit, 8 * d))
        return total

    def floats(self, digits: Sequence[SSAValue], scale: SSAValue) -> SSAValue:
        """Digits in base `DIGIT_BASE`, the first the highest, joined and times the row's scale."""
        code = self.code
        joined = code.to_float(digits[-1])
        for value in reversed(digits[:-1]):
            lower = code.fmul(joined, 1 / DIGIT_BASE)
            joined = code.fadd(code.to_float(value), lower)
        return code.fmul(joined, scale)

    def key(self, value: SSAValue) -> SSAValue:
        """Floats as integers in the same order; the least one for NaN."""
        code, kind = self.code, self.of(i32)
        # Adding 0 turns -0 into 0.
        bits = code.bits(code.fadd(value, 0.0), kind)
        ordered = code.xor(bits, code.and_(code.ashr(bits, 31), _MAGNITUDE_BITS))
        magnitude = code.and_(bits, _MAGNITUDE_BITS)
        # All ones for a NaN, whose magnitude is above that of infinity.
        nan = code.ashr(code.sub(_INFINITE, magnitude), 31)
        numbers = code.and_(ordered, code.xor(nan, -1))
        return code.or_(numbers, code.and_(nan, -(1 << 31)))
