"""Kernels on bit planes over whole matrices: which tiles are made when, and counters to int32.

For each block of panels and each few octets, counters stand in scratch memory; the tables of a
chunk of steps are made, and then all panels of the block go through them. Not here: the inner loop
(`bitplanes_tile`), the tables (`bitplanes_tables`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i1, i8, i16, i32, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.bitplanes import (
    BLOCK_OCTETS,
    BLOCK_PANELS,
    CHUNK_STEPS,
    COUNT_BITS,
    OCTET,
    PIECE_OCTETS,
    PLANES,
    STEP_GROUPS,
    TABLE_BYTES,
    Operand,
)
from ....runtime.native.abi.linear import PANEL
from .bitplanes_packing import steps_of, stride_of
from .bitplanes_schemes import Scheme
from .bitplanes_tile import COUNTER_BYTES
from .code import POINTER, Code, function, lanes, vector

FINISH_ARGUMENTS = ("counters", "base", "y", "factor", "rows", "outs", "columns", "first")
"""`finish`: three pointers, five int64: y = factor · count + base for one octet and panel, or plus
what stands in y already if `first` is 0."""

_ROW = 2 * PANEL
"""Bytes of a row of counters as numbers of 16 bits, low bytes before high ones."""


@dataclass(frozen=True)
class Names:
    """The names of the functions of a module."""

    operand: Operand

    def __call__(self, what: str) -> str:
        return f"bitplanes_{self.operand}_{what}"


def most_steps(scheme: Scheme) -> int:
    """Steps of a sum whose counters cannot run over: a product adds two at most."""
    return ((1 << COUNT_BITS) - 1) // (2 * STEP_GROUPS * scheme.group)


def write_multiply(scheme: Scheme, operand: Operand, together: int) -> llvm.FuncOp:
    """`multiply`, with the arguments of `product` (`abi.bitplanes`), but A in planes.

    It needs `multiply_scratch` bytes and calls tiles of up to `together` panels.
    """
    names = Names(operand)

    def body(code: Code, arguments: Sequence[SSAValue]) -> None:
        outs, first, end = arguments[8:]
        panels = code.lshr(code.add(outs, code.constant(PANEL - 1)), 6)
        product = _Product(code, scheme, operand, together, arguments, panels)

        def segment(s0: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            s1 = code.minimum(code.add(s0, code.constant(most_steps(scheme))), product.steps)

            def panel_block(p0: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
                p1 = code.minimum(code.add(p0, code.constant(BLOCK_PANELS)), panels)

                def octet_block(o0: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
                    o1 = code.minimum(code.add(o0, code.constant(BLOCK_OCTETS)), end)
                    product.block((s0, s1), (p0, p1), (o0, o1))
                    return []

                code.loop(first, end, BLOCK_OCTETS, octet_block)
                return []

            code.loop(code.constant(0), panels, BLOCK_PANELS, panel_block)
            return []

        code.loop(code.constant(0), product.steps, most_steps(scheme), segment)

    return function(names("multiply"), [POINTER] * 5 + [i64] * 6, body)


def write_product(scheme: Scheme, operand: Operand) -> llvm.FuncOp:
    """`product`, see `abi.bitplanes`: packs a few octets, and multiplies them while they are
    in the cache."""
    names = Names(operand)

    def body(code: Code, arguments: Sequence[SSAValue]) -> None:
        x, codes, base, y, scratch, factor, rows, ins, outs, first, end = arguments
        stride = stride_of(code, scheme, steps_of(code, scheme, ins))
        planes = code.mul(stride, code.constant(PIECE_OCTETS * PLANES[operand]))
        rest = code.at(code.at(scratch, planes), 64)

        def piece(o: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            nothing = code.constant(0)
            count = code.minimum(code.sub(end, o), code.constant(PIECE_OCTETS))
            top = code.shl(o, 3)
            left = code.sub(rows, top)
            source = code.at(x, code.mul(top, ins))
            code.call(names("pack_rows"), source, scratch, left, ins, nothing, count)
            target = code.at(y, code.mul(top, outs), i32)
            operands = (scratch, codes, base, target, rest)
            code.call(names("multiply"), *operands, factor, left, ins, outs, nothing, count)
            return []

        code.loop(first, end, PIECE_OCTETS, piece)

    return function(names("product"), [POINTER] * 5 + [i64] * 6, body)


Range = tuple[SSAValue, SSAValue]


class _Product:
    """Writes the code for one block of the result."""

    def __init__(
        self,
        code: Code,
        scheme: Scheme,
        operand: Operand,
        together: int,
        arguments: Sequence[SSAValue],
        panels: SSAValue,
    ) -> None:
        self._code = code
        self._scheme = scheme
        self._operand: Operand = operand
        self._names = Names(operand)
        self._together = together
        self._planes, self._codes, self._base, self._y, scratch = arguments[:5]
        self._factor, self._rows, ins, self._outs = arguments[5:9]
        self._panels = panels
        self.steps = steps_of(code, scheme, ins)
        self._stride = stride_of(code, scheme, self.steps)
        self._octet_bytes = code.mul(self._stride, code.constant(PLANES[operand]))
        self._line = STEP_GROUPS * PANEL * (2 if scheme.group == 1 else 1)
        self._panel_stride = code.mul(self.steps, code.constant(self._line))
        self._tables = scratch
        self._chunk_bytes = CHUNK_STEPS * STEP_GROUPS * TABLE_BYTES
        self._counters = code.at(scratch, BLOCK_OCTETS * self._chunk_bytes)

    def block(self, steps: Range, panels: Range, octets: Range) -> None:
        """All steps of a segment for some panels and octets, then their results."""
        code = self._code
        count = code.sub(panels[1], panels[0])
        across = code.mul(count, code.constant(COUNTER_BYTES))
        size = code.mul(code.sub(octets[1], octets[0]), across)
        nothing = code.constant(0, i8)
        code.effect("llvm.memset.p0.i64", self._counters, nothing, size, code.constant(0, i1))

        def chunk(c: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            n = code.minimum(code.sub(steps[1], c), code.constant(CHUNK_STEPS))
            if self._scheme.entries:
                self._make_tables(c, n, octets)

            def pair(p: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
                left = code.minimum(code.sub(panels[1], p), code.constant(self._together))
                codes = code.at(self._codes, code.mul(p, self._panel_stride))
                codes = code.at(codes, code.mul(c, code.constant(self._line)))
                place = code.mul(code.sub(p, panels[0]), code.constant(COUNTER_BYTES))
                for size in range(1, self._together + 1):
                    this = code.compare("eq", left, code.constant(size))
                    code.when(
                        this,
                        lambda size=size: self._tiles(size, (c, n), octets, codes, place, across),
                    )
                return []

            code.loop(*panels, self._together, pair)
            return []

        code.loop(*steps, CHUNK_STEPS, chunk)
        self._finish(steps, panels, octets, across)

    def _make_tables(self, c: SSAValue, n: SSAValue, octets: Range) -> None:
        code = self._code
        groups = code.mul(n, code.constant(STEP_GROUPS))

        def octet(o: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            code.call(
                self._names("tables"), self._row(o, c), self._stride, self._at(o, octets), groups
            )
            return []

        code.loop(*octets, 1, octet)

    def _row(self, octet: SSAValue, step: SSAValue) -> SSAValue:
        """The planes of an octet from a step on."""
        code = self._code
        start = code.at(self._planes, code.mul(octet, self._octet_bytes))
        return code.at(start, code.mul(step, code.constant(STEP_GROUPS * self._scheme.group)))

    def _at(self, octet: SSAValue, octets: Range) -> SSAValue:
        """The tables of an octet."""
        code = self._code
        number = code.sub(octet, octets[0])
        return code.at(self._tables, code.mul(number, code.constant(self._chunk_bytes)))

    def _tiles(
        self,
        size: int,
        chunk: tuple[SSAValue, SSAValue],
        octets: Range,
        codes: SSAValue,
        place: SSAValue,
        across: SSAValue,
    ) -> None:
        code = self._code
        step, count = chunk

        def octet(o: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            row = self._at(o, octets) if self._scheme.entries else self._row(o, step)
            counters = code.at(self._counters, code.mul(code.sub(o, octets[0]), across))
            code.call(
                self._names(f"tile_{size}"),
                row,
                self._stride,
                codes,
                self._panel_stride,
                code.at(counters, place),
                count,
            )
            return []

        code.loop(*octets, 1, octet)

    def _finish(self, steps: Range, panels: Range, octets: Range, across: SSAValue) -> None:
        code = self._code
        is_first = code.compare("eq", steps[0], code.constant(0))
        first = code.select(is_first, code.constant(1), code.constant(0))

        def octet(o: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            top = code.shl(o, 3)
            rows = code.minimum(code.sub(self._rows, top), code.constant(OCTET))
            line = code.at(self._y, code.mul(top, self._outs), i32)
            counters = code.at(self._counters, code.mul(code.sub(o, octets[0]), across))

            def panel(p: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
                column = code.shl(p, 6)
                columns = code.minimum(code.sub(self._outs, column), code.constant(PANEL))
                number = code.sub(p, panels[0])
                code.call(
                    self._names("finish"),
                    code.at(counters, code.mul(number, code.constant(COUNTER_BYTES))),
                    code.at(self._base, column, i32),
                    code.at(line, column, i32),
                    self._factor,
                    rows,
                    self._outs,
                    columns,
                    first,
                )
                return []

            code.loop(*panels, 1, panel)
            return []

        code.loop(*octets, 1, octet)


def write_finish(scheme: Scheme, name: str) -> llvm.FuncOp:
    """`finish`, see `FINISH_ARGUMENTS`."""
    width, count = scheme.width, scheme.width // 4
    sums = vector(i32, count)

    def body(code: Code, arguments: Sequence[SSAValue]) -> None:
        counters, base, y, factor, rows, outs, columns, first = arguments
        numbers = code.stack(OCTET * _ROW)
        for offset in range(0, PANEL, width):
            for half in range(2):
                planes = [
                    code.load(code.at(counters, (8 * half + j) * PANEL + offset), vector(i8, width))
                    for j in range(8)
                ]
                for m, number in enumerate(_transposed(code, planes)):
                    code.store(number, code.at(numbers, m * _ROW + half * PANEL + offset))
        factors = code.splat(code.narrow(factor, i32), count)
        partly = code.compare("slt", columns, code.constant(PANEL))
        edge = code.stack(4 * PANEL)
        is_first = code.compare("eq", first, code.constant(1))
        size = code.shl(columns, 2)

        def row(m: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            source = code.at(numbers, code.mul(m, code.constant(_ROW)))
            line = code.at(y, code.mul(m, outs), i32)
            code.when(partly, lambda: code.copy(edge, line, size))
            target = code.select(partly, edge, line)
            start = code.select(is_first, base, target)
            for at in range(0, PANEL, count):
                low, high = (
                    code.load(code.at(source, half * PANEL + at), vector(i8, count))
                    for half in range(2)
                )
                total = code.mul(_widened(code, low, high), factors)
                prior = code.load(code.at(start, at, i32), sums)
                code.store(code.add(prior, total), code.at(target, at, i32))
            code.when(partly, lambda: code.copy(line, edge, size))
            return []

        code.loop(code.constant(0), rows, 1, row)

    return function(name, [POINTER] * 3 + [i64] * 5, body)


def _widened(code: Code, low: SSAValue, high: SSAValue) -> SSAValue:
    """int32 from its two lower bytes."""
    count = lanes(low.type)
    pairs = code.shuffle(low, high, [i // 2 + i % 2 * count for i in range(2 * count)])
    nothing = code.constant(0, pairs.type)
    places = [(i // 4 * 2 + i % 4) if i % 4 < 2 else 2 * count for i in range(4 * count)]
    return code.bits(code.shuffle(pairs, nothing, places), vector(i32, count))


def _transposed(code: Code, planes: Sequence[SSAValue]) -> list[SSAValue]:
    """8 vectors whose bytes hold bit i of vector j as bit j of vector i."""
    rows = list(planes)
    kind = rows[0].type
    pairs = vector(i16, lanes(kind) // 2)

    def shift(value: SSAValue, by: int) -> SSAValue:
        # Stray bits from the neighbouring byte fall under the mask.
        words = code.bits(value, pairs)
        return code.bits(code.lshr(words, by) if by > 0 else code.shl(words, -by), kind)

    for distance, mask in ((4, 0x0F), (2, 0x33), (1, 0x55)):
        masks = code.constant(mask, kind)
        for i in range(8):
            if i & distance:
                continue
            a, b = rows[i], rows[i + distance]
            swapped = code.and_(code.xor(shift(a, distance), b), masks)
            rows[i] = code.xor(a, shift(swapped, -distance))
            rows[i + distance] = code.xor(b, swapped)
    return rows
