"""Kernels on bit planes over whole matrices: which tiles are made when, and counters to int32.

For each block of panels and each few octets, counters stand in scratch memory; the tables of a
chunk of steps are made, and then all panels of the block go through them. Not here: the inner loop
(`bitplanes_tile`), the tables (`bitplanes_tables`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i16, i32, i64
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
from ..llvm.types import vector
from .bitplanes_packing import steps_of, stride_of
from .bitplanes_schemes import Scheme
from .bitplanes_tile import COUNTER_BYTES
from .code import POINTER, Code, lanes

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
    code = Code(names("multiply"), [POINTER] * 5 + [i64] * 6)
    outs, first, end = code.arguments[8:]
    panels = code.lshr(code.add(outs, PANEL - 1), 6)
    product = _Product(code, scheme, operand, together, code.arguments, panels)
    with code.each(0, product.steps, most_steps(scheme)) as s0:
        s1 = code.minimum(code.add(s0, most_steps(scheme)), product.steps)
        with code.each(0, panels, BLOCK_PANELS) as p0:
            p1 = code.minimum(code.add(p0, BLOCK_PANELS), panels)
            with code.each(first, end, BLOCK_OCTETS) as o0:
                o1 = code.minimum(code.add(o0, BLOCK_OCTETS), end)
                product.block((s0, s1), (p0, p1), (o0, o1))
    return code.finish()


def write_product(scheme: Scheme, operand: Operand) -> llvm.FuncOp:
    """`product`, see `abi.bitplanes`: packs a few octets, and multiplies them while they are
    in the cache."""
    names = Names(operand)
    code = Code(names("product"), [POINTER] * 5 + [i64] * 6)
    x, codes, base, y, scratch, factor, rows, ins, outs, first, end = code.arguments
    stride = stride_of(code, scheme, steps_of(code, scheme, ins))
    planes = code.mul(stride, PIECE_OCTETS * PLANES[operand])
    rest = code.at(code.at(scratch, planes), 64)
    with code.each(first, end, PIECE_OCTETS) as o:
        count = code.minimum(code.sub(end, o), PIECE_OCTETS)
        top = code.shl(o, 3)
        left = code.sub(rows, top)
        source = code.at(x, code.mul(top, ins))
        code.call(names("pack_rows"), source, scratch, left, ins, 0, count)
        target = code.at(y, code.mul(top, outs), i32)
        operands = (scratch, codes, base, target, rest)
        code.call(names("multiply"), *operands, factor, left, ins, outs, 0, count)
    return code.finish()


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
        self._octet_bytes = code.mul(self._stride, PLANES[operand])
        self._line = STEP_GROUPS * PANEL * (2 if scheme.group == 1 else 1)
        self._panel_stride = code.mul(self.steps, self._line)
        self._tables = scratch
        self._chunk_bytes = CHUNK_STEPS * STEP_GROUPS * TABLE_BYTES
        self._counters = code.at(scratch, BLOCK_OCTETS * self._chunk_bytes)

    def block(self, steps: Range, panels: Range, octets: Range) -> None:
        """All steps of a segment for some panels and octets, then their results."""
        code = self._code
        count = code.sub(panels[1], panels[0])
        across = code.mul(count, COUNTER_BYTES)
        size = code.mul(code.sub(octets[1], octets[0]), across)
        code.clear(self._counters, size)
        with code.each(*steps, CHUNK_STEPS) as c:
            n = code.minimum(code.sub(steps[1], c), CHUNK_STEPS)
            if self._scheme.entries:
                self._make_tables(c, n, octets)
            with code.each(*panels, self._together) as p:
                left = code.minimum(code.sub(panels[1], p), self._together)
                codes = code.at(self._codes, code.mul(p, self._panel_stride))
                codes = code.at(codes, code.mul(c, self._line))
                place = code.mul(code.sub(p, panels[0]), COUNTER_BYTES)
                for size in code.cases(left, range(1, self._together + 1)):
                    self._tiles(size, (c, n), octets, codes, place, across)
        self._finish(steps, panels, octets, across)

    def _make_tables(self, c: SSAValue, n: SSAValue, octets: Range) -> None:
        code = self._code
        groups = code.mul(n, STEP_GROUPS)
        with code.each(*octets) as o:
            code.call(
                self._names("tables"), self._row(o, c), self._stride, self._at(o, octets), groups
            )

    def _row(self, octet: SSAValue, step: SSAValue) -> SSAValue:
        """The planes of an octet from a step on."""
        code = self._code
        start = code.at(self._planes, code.mul(octet, self._octet_bytes))
        return code.at(start, code.mul(step, STEP_GROUPS * self._scheme.group))

    def _at(self, octet: SSAValue, octets: Range) -> SSAValue:
        """The tables of an octet."""
        code = self._code
        number = code.sub(octet, octets[0])
        return code.at(self._tables, code.mul(number, self._chunk_bytes))

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
        with code.each(*octets) as o:
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

    def _finish(self, steps: Range, panels: Range, octets: Range, across: SSAValue) -> None:
        code = self._code
        first = code.select(code.icmp("eq", steps[0], 0), 1, 0)
        with code.each(*octets) as o:
            top = code.shl(o, 3)
            rows = code.minimum(code.sub(self._rows, top), OCTET)
            line = code.at(self._y, code.mul(top, self._outs), i32)
            counters = code.at(self._counters, code.mul(code.sub(o, octets[0]), across))
            with code.each(*panels) as p:
                column = code.shl(p, 6)
                columns = code.minimum(code.sub(self._outs, column), PANEL)
                number = code.sub(p, panels[0])
                code.call(
                    self._names("finish"),
                    code.at(counters, code.mul(number, COUNTER_BYTES)),
                    code.at(self._base, column, i32),
                    code.at(line, column, i32),
                    self._factor,
                    rows,
                    self._outs,
                    columns,
                    first,
                )


def write_finish(scheme: Scheme, name: str) -> llvm.FuncOp:
    """`finish(counters, base, y, factor, rows, outs, columns, first)`, three pointers, five int64.

    y = factor · count + base for one octet and panel, or plus what stands in y already if `first`
    is 0.
    """
    width, count = scheme.width, scheme.width // 4
    sums = vector(i32, count)
    code = Code(name, [POINTER] * 3 + [i64] * 5)
    counters, base, y, factor, rows, outs, columns, first = code.arguments
    numbers = code.stack(OCTET * _ROW)
    for offset in range(0, PANEL, width):
        for half in range(2):
            planes = [
                code.load(code.at(counters, (8 * half + j) * PANEL + offset), vector(i8, width))
                for j in range(8)
            ]
            for m, number in enumerate(_transposed(code, planes)):
                code.store(number, code.at(numbers, m * _ROW + half * PANEL + offset))
    factors = code.splat(code.resize(factor, i32), count)
    partly = code.icmp("slt", columns, PANEL)
    edge = code.stack(4 * PANEL)
    is_first = code.icmp("eq", first, 1)
    size = code.shl(columns, 2)
    with code.each(0, rows) as m:
        source = code.at(numbers, code.mul(m, _ROW))
        line = code.at(y, code.mul(m, outs), i32)
        with code.when(partly):
            code.copy(edge, line, size)
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
        with code.when(partly):
            code.copy(line, edge, size)
    return code.finish()


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
