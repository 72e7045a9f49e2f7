"""Activations to padded int8 rows, with their sums and their scales: the first half of a kernel.

A row is handled in pieces: of a register of bytes where the order stays (`natural`), of 256 values
where value 4j + p goes to 64p + j (`planar`, see `abi.linear`). The last piece, if not full,
goes through a zeroed copy on the stack, so that nothing past the row is read. Not here: the
products (`gemv`, `panel`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerType, f32, i8, i16, i32, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import BLOCK, Activations, Kind, Order
from ..llvm.types import vector
from .code import POINTER, Code
from .float_digits import MAGNITUDE_BITS, float_digits, float_scale
from .recipes import Recipe
from .scratch import Scratch

_MAXIMA = 4
"""Greatest magnitudes that are followed side by side."""


_ELEMENTS: dict[Activations, IntegerType] = {"i8": i8, "u8": i8, "i16": i16, "i32": i32}
_LOWER_DIGITS = 0x808080
"""The lower three digits of an int32 are bytes lowered by 128; this, added before, carries."""


def prepare_name(kind: Kind, order: Order) -> str:
    """The name of the function that prepares activations of a kind in an order."""
    return f"prepare_{kind.activations}_{order}"


def write_prepare(recipe: Recipe, kind: Kind, order: Order, name: str) -> llvm.FuncOp:
    """The function `name`, see `PREPARE_ARGUMENTS`."""
    code = Code(name, [POINTER] * 2 + [i64] * 4)
    x, memory, rows, ins, first, end = code.arguments
    scratch = Scratch(code, memory, rows, ins, kind.digits)
    writer = _Writer(code, recipe, kind, order, scratch, ins)
    with code.each(first, end) as index:
        writer.row(x, index)
    return code.finish()


class _Writer:
    """Writes the code for one row."""

    def __init__(
        self, code: Code, recipe: Recipe, kind: Kind, order: Order, scratch: Scratch, ins: SSAValue
    ) -> None:
        self._code = code
        self._recipe = recipe
        self._kind = kind
        self._order = order
        self._scratch = scratch
        self._ins = ins
        self._element = f32 if kind.floating else _ELEMENTS[kind.activations]
        self._size = kind.bytes
        self._piece = BLOCK if order == "planar" else recipe.width
        self._last = code.stack(self._piece * self._size)
        self._full = code.and_(ins, -self._piece)
        self._rest = code.sub(ins, self._full)

    def row(self, x: SSAValue, index: SSAValue) -> None:
        """Prepare row `index` of `x`."""
        code, kind = self._code, self._kind
        source = code.at(x, code.mul(index, self._ins), self._element)
        with code.when(code.icmp("sgt", self._rest, 0)):
            self._fill_with_nothing()
            tail = code.at(source, self._full, self._element)
            code.copy(self._last, tail, code.mul(self._rest, self._size))
        factor = self._scale(source, index) if kind.floating else None
        first = code.mul(index, kind.digits)
        total = vector(i32, self._recipe.lanes)
        zeros = [code.constant(0, total)] * kind.digits

        targets = [self._scratch.row(code.add(first, d)) for d in range(kind.digits)]
        with code.loop(0, self._ins, self._piece, zeros) as piece:
            i = piece.index
            digits = self._read(self._place(source, i), factor)
            piece.values = [
                self._put(digit, code.at(target, i), total)
                for digit, target, total in zip(digits, targets, piece.values, strict=True)
            ]
        for d, parts in enumerate(piece.values):
            code.store(code.reduced("add", parts), self._scratch.sum(code.add(first, d)))

    def _place(self, source: SSAValue, i: SSAValue) -> SSAValue:
        """Where the piece from value `i` can be read whole."""
        code = self._code
        is_whole = code.icmp("slt", i, self._full)
        return code.select(is_whole, code.at(source, i, self._element), self._last)

    def _fill_with_nothing(self) -> None:
        """Fill the copy of the last block with what has digits of 0."""
        code, size = self._code, self._piece * self._size
        if not self._kind.offset:
            code.clear(self._last, size)
            return
        width = self._recipe.width
        filling = code.constant(self._kind.offset, vector(self._element, width // self._size))
        for i in range(0, size, width):
            code.store(filling, code.at(self._last, i))

    def _scale(self, source: SSAValue, index: SSAValue) -> SSAValue:
        """Store the scale of a row; give its inverse, or 0 for a row that counts as zero."""
        code = self._code
        wide = vector(i32, self._recipe.lanes)
        mask = code.constant(MAGNITUDE_BITS, wide)
        step = self._recipe.lanes
        start = [code.constant(0, wide)] * _MAXIMA
        with code.loop(0, self._ins, self._piece, start) as piece:
            here = self._place(source, piece.index)
            result = list(piece.values)
            for j in range(0, self._piece, step):
                values = code.load(code.at(here, j, f32), wide)
                k = j // step % _MAXIMA
                result[k] = code.maximum(result[k], code.and_(values, mask))
            piece.values = result
        maxima = piece.values
        while len(maxima) > 1:
            maxima = [code.maximum(a, b) for a, b in zip(maxima[::2], maxima[1::2], strict=True)]
        bits = code.reduced("smax", maxima[0])
        scale, inverse = float_scale(code, bits, self._kind.digits)
        code.store(scale, self._scratch.scale(index))
        return inverse

    def _read(self, at: SSAValue, factor: SSAValue | None) -> list[list[SSAValue]]:
        """A block of 256 values as vectors of int8 in their order, one list for each digit."""
        if factor is None:
            return self._read_integers(at)
        code = self._code
        count = self._recipe.lanes
        factors = code.splat(factor, count)
        quarters: list[list[SSAValue]] = [[] for _ in range(self._kind.digits)]
        for i in range(0, self._piece, count):
            loaded = code.load(code.at(at, i, f32), vector(f32, count))
            scaled = code.fmul(loaded, factors)
            for d, digit in enumerate(float_digits(code, scaled, self._kind.digits)):
                quarters[d].append(code.resize(digit, vector(i8, count)))
        return [[code.joined(q[i : i + 4]) for i in range(0, len(q), 4)] for q in quarters]

    def _read_integers(self, at: SSAValue) -> list[list[SSAValue]]:
        """The same for integers, whose lowest digits come first."""
        code, width, size = self._code, self._recipe.width, self._size
        part = vector(self._element, width // size)
        digits: list[list[SSAValue]] = [[] for _ in range(self._kind.digits)]
        for i in range(0, self._piece * size, width):
            value = code.load(code.at(at, i), part)
            if size == 4:
                carry = code.constant(_LOWER_DIGITS, part)
                value = code.xor(code.add(value, carry), carry)
            elif self._kind.offset:
                value = code.xor(value, self._kind.offset)
            for d, digit in enumerate(digits):
                byte = code.lshr(value, 8 * d) if d else value
                kind = vector(i8, width // size)
                digit.append(byte if size == 1 else code.resize(byte, kind))
        return [
            [code.joined(digit[i : i + size]) for i in range(0, len(digit), size)]
            for digit in digits
        ]

    def _put(self, values: list[SSAValue], place: SSAValue, total: SSAValue) -> SSAValue:
        """Store a block in the order asked for; give the running sum of its values."""
        code, width = self._code, self._recipe.width
        ones = code.constant(1, vector(i8, width))
        for vector_of_values in values:
            total = self._recipe.dot(code, total, ones, vector_of_values)
        if self._order == "planar":
            values = _planes(code, values, width)
        for i, vector_of_values in enumerate(values):
            code.store(vector_of_values, code.at(place, i * width))
        return total


def _planes(code: Code, values: Sequence[SSAValue], width: int) -> list[SSAValue]:
    """Every fourth value together: the first quarter of the result holds values 0, 4, 8, …"""
    result: list[SSAValue] = []
    for plane in range(4):
        for group in range(0, len(values), 4):
            a, b = (code.joined(values[at : at + 2]) for at in (group, group + 2))
            result.append(code.shuffle(a, b, range(plane, 4 * width, 4)))
    return result
