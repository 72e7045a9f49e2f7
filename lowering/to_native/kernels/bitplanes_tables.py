"""Products of a few trits, and the tables of them that kernels on bit planes look up.

A product is biased so that it is not negative: a·b + 1 for trits, a·b + [b < 0] for bits. The sum
over a group of steps then takes few bits: three for the trits of up to three steps (0 … 6), two for
the bits (0 … 3). Each bit is a word: one byte for a column, in it one bit for each of the 8 rows of
an octet. Not here: adding the words up (`bitplanes_tile`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.bitplanes import Operand
from ..llvm.types import vector
from .bitplanes_schemes import Scheme
from .code import POINTER, Code


def words_of(operand: Operand, group: int) -> int:
    """How many bits the biased sum of a group has; bit j is word j."""
    return (2 if operand == "trits" else 1) if group == 1 else (3 if operand == "trits" else 2)


def sum_words(
    code: Code,
    scheme: Scheme,
    operand: Operand,
    rows: Sequence[Sequence[SSAValue]],
    columns: Sequence[tuple[SSAValue, SSAValue]],
) -> list[SSAValue]:
    """The words of the biased sum of products over a group of steps.

    Args:
        code: where to write.
        scheme: the instruction set.
        operand: what the rows hold.
        rows: for each step, the planes of A.
        columns: for each step, the masks `b != 0` and `b < 0`.
    """
    ones = code.constant(-1, columns[0][0].type)
    if operand == "bits":
        pairs = zip(rows, columns, strict=True)
        hits = [code.and_(b, code.xor(a[0], sign)) for a, (b, sign) in pairs]
        return _count(code, scheme, hits)
    zeros: list[SSAValue] = []
    positives: list[SSAValue] = []
    for (a, a_sign), (b, b_sign) in zip(rows, columns, strict=True):
        both = code.and_(a, b)
        zeros.append(code.xor(both, ones))
        positives.append(code.and_(both, code.xor(code.xor(a_sign, b_sign), ones)))
    # Σ (a·b + 1) = zeros + 2 · positives.
    low = _count(code, scheme, zeros)
    high = _count(code, scheme, positives)
    if len(rows) == 1:
        return [*low, *high]
    # At most `group` hits in both together, so the sum of the twos has no third bit.
    carried = code.and_(low[1], high[0])
    return [low[0], code.xor(low[1], high[0]), code.or_(high[1], carried)]


def _count(code: Code, scheme: Scheme, words: Sequence[SSAValue]) -> list[SSAValue]:
    """How many of up to three words are set, bit by bit."""
    if len(words) == 1:
        return list(words)
    if len(words) == 2:
        return [code.xor(*words), code.and_(*words)]
    return list(scheme.add(code, *words))


def write_tables(scheme: Scheme, operand: Operand, name: str) -> llvm.FuncOp:
    """`tables(planes, stride, tables, groups)`: the tables of so many groups of an octet.

    As many groups as fit a register are made together: the tables of a word lie side by side, then
    follow those of the next word.
    """
    group, width, entries = scheme.group, scheme.width, scheme.entries
    together = width // entries
    columns = [_columns(step, scheme) for step in range(group)]
    code = Code(name, [POINTER, i64, POINTER, i64])
    planes, stride, tables, groups = code.arguments
    masks = [
        (code.constant_bytes(nonzero), code.constant_bytes(negative))
        for nonzero, negative in columns
    ]
    sources = [planes, code.at(planes, stride)][: 2 if operand == "trits" else 1]
    words = words_of(operand, group)
    assert together * group <= 8
    with code.each(0, groups, together) as first:
        at = code.mul(first, group)
        loaded = [code.load(code.at(source, at), vector(i8, 8)) for source in sources]
        rows = [
            [
                code.shuffle(values, values, [step + group * (i // entries) for i in range(width)])
                for values in loaded
            ]
            for step in range(group)
        ]
        target = code.at(tables, code.mul(first, words * entries))
        for j, word in enumerate(sum_words(code, scheme, operand, rows, masks)):
            code.store(word, code.at(target, j * width))
    return code.finish()


def table_place(scheme: Scheme, operand: Operand, group: int, word: int) -> int:
    """Where the table of a word of a group stands among those that `tables` wrote."""
    together = scheme.width // scheme.entries
    block = group // together * words_of(operand, scheme.group) * scheme.width
    return block + word * scheme.width + group % together * scheme.entries


def _columns(step: int, scheme: Scheme) -> tuple[bytes, bytes]:
    """The masks of step `step` of the trits that entry number i of a table stands for."""
    digits = [i % scheme.entries // 3**step % 3 for i in range(scheme.width)]
    return (
        bytes(255 if digit != 1 else 0 for digit in digits),
        bytes(255 if digit == 0 else 0 for digit in digits),
    )
