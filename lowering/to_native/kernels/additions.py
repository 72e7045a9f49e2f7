"""Sums of bytes by trits whose weights are code: an addition or a subtraction for each but zeros.

A register holds numbers of 16 bits at neighbouring places; each output of a group has one, and so
has each input for the moment. Zeros cost nothing, terms of two and four inputs are shared, and
weights are not read. It is the addition graph of a circuit (`to_verilog`), as straight code for
registers.

Sums are exact modulo 2¹⁶, so that inputs are in parts in which no sum leaves 16 bits. The code of a
group for a part goes over all places before the next, so that it stays in the nearest cache. Not
here: what is shared (`shared_sums`), and for which products (`program.additions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import i64

from ....ir.arrays import Array
from .code import POINTER, Code
from .recipes import Recipe
from .shared_sums import FOURS, TWOS, instructions_of

_RATE = {64: 1.95, 32: 3.3}
"""By the bytes of a register, instructions in a cycle on a Zen 4, which adds four of 32 bytes."""
_STORED = 4
"""Instructions for a register of sums that is stored, and read by what follows."""
_NEAR, _FAR = 128 << 10, 7
"""Bytes of code that stay in a near cache from one image to the next, and bytes a cycle that come
from beyond it."""
_BYTES = 7
"""Of an instruction."""
_MOST_TRITS = 6500
"""That are not 0, of a piece of code: about 28 kB."""
_MOST_INPUTS = 512
"""Of a piece, among which common terms are looked for."""
_MOST_SUM = (1 << 15) - 1
_ASKED = 3
"""Pieces of code of which instructions are counted, for all."""
_BYTE = 0, 255
"""What an input holds, where nothing else is known."""
_LINE, _AHEAD = 64, 4096
"""Bytes of a line of a cache, and how far ahead of it code is asked for."""


class Additions(NamedTuple):
    """`<name>(x, sums, first, end)`: the pieces of code from one on, of one image.

    Inputs and sums are int16, these [parts, outs, pitch], those of `vectors` registers of places
    that follow `x`.

    Attributes:
        trits: int8 [outs, taps].
        outs: outputs.
        taps: by how many numbers each input is from the first.
        parts: the tap that each part ends before.
        vectors: registers of places.
    """

    trits: bytes
    outs: int
    taps: tuple[int, ...]
    parts: tuple[int, ...]
    vectors: int

    @property
    def values(self) -> Array:
        """The trits."""
        return np.frombuffer(self.trits, np.int8).reshape(self.outs, -1)


def can_add(recipe: Recipe) -> bool:
    """Whether there is code for an instruction set: x86 from AVX2 on, but for matrix units."""
    return "avx2" in recipe.features and not recipe.matrices


def parts_of(recipe: Recipe, trits: Array, held: tuple[int, int]) -> tuple[int, ...]:
    """Where parts end in which sums of inputs that hold this much stay inside 16 bits, and code in
    the nearest cache."""
    below, above = max(-held[0], 0), max(held[1], 0)
    groups = [group.start for group in _groups(recipe, len(trits))]
    ends: list[int] = []
    plus = minus = np.zeros(len(trits), np.int64)
    for tap, column in enumerate(trits.T):
        plus, minus = plus + (column > 0), minus + (column < 0)
        each = np.add.reduceat(plus + minus, groups)
        largest = np.maximum(plus * above + minus * below, plus * below + minus * above)
        wide = tap - (ends[-1] if ends else 0) >= _MOST_INPUTS
        if largest.max() > _MOST_SUM or each.max() > _MOST_TRITS or wide:
            ends.append(tap)
            plus, minus = (column > 0).astype(np.int64), (column < 0).astype(np.int64)
    return (*ends, trits.shape[1])


def cost_of(recipe: Recipe, count: int, outs: int, vectors: int) -> float:
    """About how many cycles the sums of an image take, with what stores and reads them.

    Args:
        recipe: the instruction set.
        count: instructions, of `count_of`.
        outs: outputs.
        vectors: registers of places.
    """
    code = code_of(count)
    cycles = vectors * (count / _RATE[recipe.width] + outs * _STORED)
    return cycles + (code / _FAR if code > _NEAR else 0)


def code_of(count: int) -> int:
    """About how many bytes so many instructions are."""
    return count * _BYTES


def count_of(recipe: Recipe, trits: Array) -> int:
    """About how many instructions there are for a register of places, but for those that store
    sums. `trits` are [outs, taps]; some pieces of code stand for all."""
    parts = pairwise((0, *parts_of(recipe, trits, _BYTE)))
    pieces = [
        trits[group.start : group.stop, start:end]
        for start, end in parts
        for group in _groups(recipe, len(trits))
    ]
    asked = pieces[:: -(-len(pieces) // _ASKED)]
    count = sum(1 for p in asked for _ in instructions_of(p, _registers(recipe) - len(p)))
    known = sum(int(np.count_nonzero(piece)) for piece in asked)
    return round(count * np.count_nonzero(trits) / known) if known else count


def pieces_of(recipe: Recipe, variant: Additions) -> int:
    """How many pieces of code there are."""
    return len(variant.parts) * len(_groups(recipe, variant.outs))


def _groups(recipe: Recipe, outs: int) -> list[range]:
    """Groups of outputs, as even as can be, of which all sums are in registers."""
    most = _registers(recipe) - (FOURS if recipe.width == 64 else TWOS)
    count = -(-outs // most)
    ends = [outs * n // count for n in range(count + 1)]
    return [range(a, b) for a, b in pairwise(ends)]


def _registers(recipe: Recipe) -> int:
    return 32 if recipe.width == 64 else 16


def write_additions(
    recipe: Recipe, variants: Sequence[tuple[Additions, str]]
) -> Iterator[llvm.FuncOp]:
    """The functions of variants, of the names beside them, that one program calls in turn."""
    all_codes = [[*_codes(recipe, variant)] for variant, _ in variants]
    far = code_of(sum(len(lines) for codes in all_codes for lines in codes)) > _NEAR
    for (variant, name), codes in zip(variants, all_codes, strict=True):
        yield _function(recipe, variant, name, [[*_fetched(c)] for c in codes] if far else codes)


def _codes(recipe: Recipe, variant: Additions) -> Iterator[list[str]]:
    """The instructions of each piece of code."""
    for piece in product(range(len(variant.parts)), _groups(recipe, variant.outs)):
        yield [*_Piece(recipe, variant, *piece).lines()]


def _function(
    recipe: Recipe, variant: Additions, name: str, codes: Sequence[Sequence[str]]
) -> llvm.FuncOp:
    code = Code(name, [POINTER, POINTER, i64, i64, i64, i64])
    x, sums, first, end, start, stop = code.arguments
    touched = [f"~{{xmm{n}}}" for n in range(_registers(recipe))]
    with code.each(first, end) as piece:
        for number in code.cases(piece, range(len(codes))):
            with code.each(start, stop) as vector:
                places = code.mul(vector, recipe.width)
                addresses = [code.at(x, places), code.at(sums, places)]
                constraints = ",".join(["r", "r", *touched, "~{memory}"])
                text = "\n".join(codes[number])
                code.append(
                    llvm.InlineAsmOp(text, constraints, addresses, [], has_side_effects=True)
                )
    return code.finish(linkage="internal")


def _fetched(lines: Sequence[str]) -> Iterator[str]:
    """Instructions that also ask for those to come: no processor sees far into so long a row."""
    each = _LINE // _BYTES
    for first in range(0, len(lines), each):
        yield f"prefetcht1 {_AHEAD}(%rip)"
        yield from lines[first : first + each]


class _Piece:
    """The instructions for one register of places of some outputs, and one part of the inputs."""

    def __init__(self, recipe: Recipe, variant: Additions, part: int, outs: range) -> None:
        self._variant, self._part, self._outs = variant, part, outs
        self._wide = recipe.width == 64
        self._moving = "vmovdqu64" if self._wide else "vmovdqu"
        self._registers = _registers(recipe)
        self._pitch = variant.vectors * recipe.width

    def lines(self) -> Iterator[str]:
        """All of them; `$0` is the address of the inputs, `$1` that of the sums."""
        variant, outs = self._variant, self._outs
        start, end = (0, *variant.parts)[self._part : self._part + 2]
        trits = variant.values[outs.start : outs.stop, start:end]
        for name, to, a, b in instructions_of(trits, self._registers - len(outs)):
            to, x, y = map(self._name, (to, a, b))
            match name:
                case "clear":
                    yield f"{'vpxord' if self._wide else 'vpxor'} {to}, {to}, {to}"
                case "load":
                    yield f"{self._moving} {variant.taps[start + a] * 2}($0), {to}"
                case "add" | "sub":
                    yield f"vp{name}w {y}, {x}, {to}"
        for number, out in enumerate(outs):
            place = (self._part * variant.outs + out) * self._pitch
            yield f"{self._moving} {self._name(number)}, {place}($1)"

    def _name(self, register: int) -> str:
        return f"%{'zmm' if self._wide else 'ymm'}{register}"
