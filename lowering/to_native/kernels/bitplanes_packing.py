"""Matrices of int8 to the planes and codes that kernels on bit planes read.

The layouts are stated in `abi.bitplanes`. Values at the edges, where a load would leave the
matrix, go through zeroed copies on the stack. Not here: the products.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i16, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.bitplanes import OCTET, PLANES, STEP_GROUPS, Operand
from ....runtime.native.abi.linear import PANEL
from ..llvm.types import vector
from .bitplanes_schemes import Scheme
from .code import POINTER, Code, lanes

_BLOCK = 64
"""Values of a row that are packed together."""


def steps_of(code: Code, scheme: Scheme, ins: SSAValue) -> SSAValue:
    """Steps of a sum over `ins` products."""
    size = STEP_GROUPS * scheme.group
    return code.udiv(code.add(ins, size - 1), size)


def stride_of(code: Code, scheme: Scheme, steps: SSAValue) -> SSAValue:
    """Bytes of a plane of an octet."""
    padded = code.mul(steps, STEP_GROUPS * scheme.group)
    return code.and_(code.add(padded, 63), -64)


def write_pack_rows(scheme: Scheme, operand: Operand, name: str) -> llvm.FuncOp:
    """`pack_rows(x, planes, rows, ins, first, end)`, two pointers and four int64.

    int8 A [rows, ins] to the octets from `first` to `end`, as `abi.bitplanes` lays them out.
    """
    code = Code(name, [POINTER] * 2 + [i64] * 4)
    x, planes, rows, ins, first, end = code.arguments
    stride = stride_of(code, scheme, steps_of(code, scheme, ins))
    size = code.mul(stride, PLANES[operand])
    full = code.and_(ins, -_BLOCK)
    rest = code.sub(ins, full)
    edge = code.stack(OCTET * _BLOCK)
    edges = [code.at(edge, i * _BLOCK) for i in range(OCTET)]
    last = code.sub(rows, 1)
    with code.each(first, end) as o:
        top = code.shl(o, 3)
        # Rows past the last one repeat it; nobody reads what they give.
        numbers = [code.minimum(code.add(top, i), last) for i in range(OCTET)]
        lines = [code.at(x, code.mul(number, ins)) for number in numbers]
        target = code.at(planes, code.mul(o, size))
        with code.each(0, full, _BLOCK) as k:
            sources = [code.at(line, k) for line in lines]
            _pack_block(code, scheme, operand, sources, code.at(target, k), stride)
        code.clear(edge, OCTET * _BLOCK)
        with code.when(code.icmp("sgt", rest, 0)):
            for line, place in zip(lines, edges, strict=True):
                code.copy(place, code.at(line, full), rest)
        with code.each(full, stride, _BLOCK) as k:
            _pack_block(code, scheme, operand, edges, code.at(target, k), stride)
            code.clear(edge, OCTET * _BLOCK)
    return code.finish()


def _pack_block(
    code: Code,
    scheme: Scheme,
    operand: Operand,
    sources: Sequence[SSAValue],
    target: SSAValue,
    stride: SSAValue,
) -> None:
    """64 values of 8 rows to 64 bytes of each plane."""
    kind = vector(i8, scheme.width)
    one = code.constant(1, kind)
    for offset in range(0, _BLOCK, scheme.width):
        first = second = code.constant(0, kind)
        for source in reversed(sources):
            value = code.load(code.at(source, offset), kind)
            # Of -1, 0 and 1, the lowest bit says "not zero" and the next one "negative".
            low, next_ = value, _shifted_right(code, value)
            if operand == "bits":
                low = code.and_(low, code.xor(next_, one))
            first = code.or_(code.add(first, first), code.and_(low, one))
            second = code.or_(code.add(second, second), code.and_(next_, one))
        code.store(first, code.at(target, offset))
        if operand == "trits":
            code.store(second, code.at(code.at(target, stride), offset))


def _shifted_right(code: Code, value: SSAValue) -> SSAValue:
    """Bytes shifted by one bit; the highest bit is left undefined: x86 shifts no bytes."""
    pairs = code.bits(value, vector(i16, lanes(value.type) // 2))
    return code.bits(code.lshr(pairs, 1), value.type)


def write_pack_columns(scheme: Scheme, name: str) -> llvm.FuncOp:
    """`pack_columns`, see `abi.bitplanes`."""
    group = scheme.group
    line = PANEL * (2 if group == 1 else 1)
    code = Code(name, [POINTER] * 2 + [i64] * 4)
    x, codes, ins, outs, first, end = code.arguments
    groups = code.mul(steps_of(code, scheme, ins), STEP_GROUPS)
    size = code.mul(groups, line)
    edge = code.stack(group * PANEL)
    edges = [code.at(edge, t * PANEL) for t in range(group)]
    whole_groups = code.udiv(ins, group)
    with code.each(first, end) as p:
        column = code.shl(p, 6)
        columns = code.minimum(code.sub(outs, column), PANEL)
        full = code.icmp("eq", columns, PANEL)
        target = code.at(codes, code.mul(p, size))
        start = code.at(x, column)
        safe = code.select(full, whole_groups, 0)
        with code.each(0, safe) as g:
            row = code.at(start, code.mul(code.mul(g, group), outs))
            sources = [code.at(row, code.mul(outs, t)) for t in range(group)]
            _encode(code, scheme, sources, code.at(target, code.mul(g, line)))
        with code.each(safe, groups) as g:
            code.clear(edge, group * PANEL)
            for t, place in enumerate(edges):
                k = code.add(code.mul(g, group), t)
                with code.when(code.icmp("slt", k, ins)):
                    code.copy(place, code.at(start, code.mul(k, outs)), columns)
            _encode(code, scheme, edges, code.at(target, code.mul(g, line)))
    return code.finish()


def _encode(code: Code, scheme: Scheme, sources: Sequence[SSAValue], target: SSAValue) -> None:
    """One group of 64 columns."""
    kind = vector(i8, scheme.width)
    one = code.constant(1, kind)
    for offset in range(0, PANEL, scheme.width):
        values = [code.load(code.at(source, offset), kind) for source in sources]
        if scheme.group == 1:
            nothing = code.constant(0, kind)
            for n, bits in enumerate((values[0], _shifted_right(code, values[0]))):
                mask = code.sub(nothing, code.and_(bits, one))
                code.store(mask, code.at(target, n * PANEL + offset))
            continue
        total = code.add(values[-1], one)
        for value in reversed(values[:-1]):
            total = code.add(code.add(total, code.add(total, total)), code.add(value, one))
        code.store(total, code.at(target, offset))
