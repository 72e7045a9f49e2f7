"""Sums of bytes by trits whose weights are code: an addition or a subtraction for each but zeros.

A register holds numbers of 16 bits at neighbouring places; each output of a group has one, and so
has each input for the moment. Of two inputs a and b, a + b and a - b are made first where an output
takes them, so that it takes both by one addition; pairs are inputs that the same outputs leave out.
Of trits of which half are 0 a weight costs 0.36 instructions in the whole. Zeros cost nothing, and
weights are not read. It is the addition graph of a circuit (`to_verilog`) with common terms of two
inputs, as straight code for registers.

Sums are exact modulo 2¹⁶, so that inputs are in parts in which no sum leaves 16 bits. The code of a
group for a part goes over all places before the next, so that it stays in the nearest cache. Not
here: for which products (`program.additions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import i64

from ....ir.arrays import Array
from .code import POINTER, Code
from .recipes import Recipe

_RATE = {64: 1.7, 32: 3.3}
"""By the bytes of a register, additions in a cycle on a Zen 4, which has four of 32 bytes."""
_STORED = 4
"""Instructions for a register of sums that is stored, and read by what follows."""
_NEAR, _FAR = 256 << 10, 6
"""Bytes of code that stay in a near cache, and bytes a cycle that come from beyond it."""
_BYTES = 7
"""Of an instruction."""
_MOST_TRITS = 6500
"""That are not 0, of a piece of code: about 28 kB."""
_MOST_SUM = (1 << 15) - 1
_BYTE = 0, 255
"""What an input holds, where nothing else is known."""
_GONE = -1
"""In the place of how many outputs leave two inputs out: one of them is taken."""
_PAIR = 3
"""Registers of two inputs, and of their sum or difference."""
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
        if largest.max() > _MOST_SUM or each.max() > _MOST_TRITS:
            ends.append(tap)
            plus, minus = (column > 0).astype(np.int64), (column < 0).astype(np.int64)
    return (*ends, trits.shape[1])


def cost_of(recipe: Recipe, trits: Array, vectors: int = 1) -> tuple[float, float]:
    """About how many cycles the sums of an image take, with what stores and reads them; and bytes
    of code. `trits` are [outs, taps]."""
    outs, count = (
        len(trits),
        _count(recipe, len(trits), np.ascontiguousarray(trits, np.int8).tobytes()),
    )
    code = count * _BYTES
    cycles = vectors * (count / _RATE[recipe.width] + outs * _STORED)
    return cycles + (code / _FAR if code > _NEAR else 0), code


@lru_cache(maxsize=64)
def _count(recipe: Recipe, outs: int, trits: bytes) -> int:
    """Instructions for an image, but for those that store sums."""
    values = np.frombuffer(trits, np.int8).reshape(outs, -1)
    ends = (0, *parts_of(recipe, values, _BYTE))
    return sum(
        term.instructions
        for group in _groups(recipe, outs)
        for start, end in pairwise(ends)
        for term in _terms(values[group.start : group.stop, start:end])
    )


def pieces_of(recipe: Recipe, variant: Additions) -> int:
    """How many pieces of code there are."""
    return len(variant.parts) * len(_groups(recipe, variant.outs))


def _groups(recipe: Recipe, outs: int) -> list[range]:
    """Groups of outputs, as even as can be, of which all sums are in registers."""
    most = _registers(recipe) - _PAIR
    count = -(-outs // most)
    ends = [outs * n // count for n in range(count + 1)]
    return [range(a, b) for a, b in pairwise(ends)]


def _registers(recipe: Recipe) -> int:
    return 32 if recipe.width == 64 else 16


class _Term(NamedTuple):
    """One or two inputs, and what outputs take of them.

    Attributes:
        inputs: their numbers.
        alone: for each of them, trits [outs] of outputs that take no other.
        sum, difference: trits [outs] of those that take both; signs are those of the first.
    """

    inputs: tuple[int, ...]
    alone: tuple[Array, ...]
    sum: Array
    difference: Array

    @property
    def instructions(self) -> int:
        """That load, add and subtract."""
        taken = (*self.alone, self.sum, self.difference)
        made = int(self.sum.any()) + int(self.difference.any())
        return len(self.inputs) + made + sum(int(np.count_nonzero(trits)) for trits in taken)


def _terms(trits: Array) -> Iterator[_Term]:
    """All inputs of trits [outs, inputs] that are taken, by twos that most outputs leave out."""
    void = (trits == 0).T.astype(np.float32)
    shared = void @ void.T
    shared[:, void.all(axis=1)] = _GONE
    for a in map(int, np.argsort(-void.sum(axis=1), kind="stable")):
        if shared[a, a] == _GONE:
            continue
        shared[:, a] = _GONE
        first, b = trits[:, a], int(np.argmax(shared[a]))
        if shared[a, b] == _GONE:
            nothing = np.zeros_like(first)
            yield _Term((a,), (first,), nothing, nothing)
            continue
        shared[:, b] = _GONE
        second = trits[:, b]
        alone = np.where(second == 0, first, 0), np.where(first == 0, second, 0)
        both = np.where(first * second > 0, first, 0), np.where(first * second < 0, first, 0)
        yield _Term((a, b), alone, *both)


def write_additions(recipe: Recipe, variant: Additions, name: str) -> llvm.FuncOp:
    """The function of a variant."""
    code = Code(name, [POINTER, POINTER, i64, i64])
    x, sums, first, end = code.arguments
    pieces = [*product(range(len(variant.parts)), _groups(recipe, variant.outs))]
    far = cost_of(recipe, variant.values)[1] > _NEAR
    touched = [f"~{{xmm{n}}}" for n in range(_registers(recipe))]
    with code.each(first, end) as piece:
        for number in code.cases(piece, range(len(pieces))):
            lines = list(_Piece(recipe, variant, *pieces[number]).lines())
            text = "\n".join(_fetched(lines) if far else lines)
            with code.each(0, variant.vectors) as vector:
                places = code.mul(vector, recipe.width)
                addresses = [code.at(x, places), code.at(sums, places)]
                constraints = ",".join(["r", "r", *touched, "~{memory}"])
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
    """The instructions for one register of places of some outputs, and one part of the inputs.

    Registers hold the sums first, then two inputs.
    """

    def __init__(self, recipe: Recipe, variant: Additions, part: int, outs: range) -> None:
        self._variant, self._part, self._outs = variant, part, outs
        self._wide = recipe.width == 64
        self._moving = "vmovdqu64" if self._wide else "vmovdqu"
        self._pitch = variant.vectors * recipe.width
        self._first = _registers(recipe) - _PAIR
        self._begun: set[int] = set()

    def lines(self) -> Iterator[str]:
        """All of them; `$0` is the address of the inputs, `$1` that of the sums."""
        variant, outs = self._variant, self._outs
        start, end = (0, *variant.parts)[self._part : self._part + 2]
        for term in _terms(variant.values[outs.start : outs.stop, start:end]):
            yield from self._term(start, term)
        for out in range(len(outs)):
            if out not in self._begun:
                yield self._clear(out)
            place = (self._part * variant.outs + outs.start + out) * self._pitch
            yield f"{self._moving} {self._name(out)}, {place}($1)"

    def _term(self, start: int, term: _Term) -> Iterator[str]:
        first, both = self._first, self._first + 2
        for number, tap in enumerate(term.inputs):
            yield self._load(start + tap, first + number)
        for name, taken in ("vpaddw", term.sum), ("vpsubw", term.difference):
            if taken.any():
                yield self._op(name, first, first + 1, both)
                yield from self._add(taken, both)
        for number, taken in enumerate(term.alone):
            yield from self._add(taken, first + number)

    def _add(self, trits: Array, register: int) -> Iterator[str]:
        """One register to or from each sum that has it."""
        for out in map(int, np.flatnonzero(trits)):
            if out not in self._begun and trits[out] > 0:
                yield self._move(register, out)
            elif out not in self._begun:
                yield self._clear(out)
                yield self._op("vpsubw", out, register, out)
            else:
                yield self._op("vpaddw" if trits[out] > 0 else "vpsubw", out, register, out)
            self._begun.add(out)

    def _load(self, tap: int, register: int) -> str:
        return f"{self._moving} {self._variant.taps[tap] * 2}($0), {self._name(register)}"

    def _op(self, name: str, a: int, b: int, to: int) -> str:
        """a + b, or a - b."""
        return f"{name} {self._name(b)}, {self._name(a)}, {self._name(to)}"

    def _move(self, a: int, to: int) -> str:
        name = "vmovdqa64" if self._wide else "vmovdqa"
        return f"{name} {self._name(a)}, {self._name(to)}"

    def _clear(self, register: int) -> str:
        name = self._name(register)
        return f"{'vpxord' if self._wide else 'vpxor'} {name}, {name}, {name}"

    def _name(self, register: int) -> str:
        return f"%{'zmm' if self._wide else 'ymm'}{register}"
