"""Sums of bytes by trits whose weights are code: an addition or a subtraction for each but zeros.

A register holds numbers of 16 bits at neighbouring places; each output of a group has one, and so
has each input for the moment. Of two inputs a and b, a + b and a - b are made first where an output
takes them, so that it takes both by one addition: of trits of which half are 0 a weight costs 0.42
instructions in the whole. Zeros cost nothing, and weights are not read. It is the addition graph of
a circuit (`to_verilog`) with common terms of two inputs, as straight code for registers.

Sums are exact modulo 2¹⁶, so that inputs are in parts in which no sum leaves 16 bits. Not here: for
which products (`program.additions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
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
_PAIR = 4
"""Registers of two inputs, their sum and their difference."""
_LINE, _AHEAD = 64, 4096
"""Bytes of a line of a cache, and how far ahead of it code is asked for."""


class Additions(NamedTuple):
    """`<name>(x, sums, first, end)`: the groups of outputs from one on, of one image.

    Sums are int16 [parts, outs, pitch], those of `vectors` registers of places that follow `x`.

    Attributes:
        trits: int8 [outs, taps].
        outs: outputs.
        taps: by how many bytes each input is from the first.
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


def parts_of(trits: Array, span: int) -> tuple[int, ...]:
    """Where parts end in which sums of inputs from 0 to `span` stay inside 16 bits."""
    most = ((1 << 15) - 1) // max(span, 1)
    ends: list[int] = []
    plus = minus = np.zeros(len(trits), np.int64)
    for tap, column in enumerate(trits.T):
        plus, minus = plus + (column > 0), minus + (column < 0)
        if max(plus.max(), minus.max()) > most:
            ends.append(tap)
            plus, minus = (column > 0).astype(np.int64), (column < 0).astype(np.int64)
    return (*ends, trits.shape[1])


def cost_of(recipe: Recipe, trits: Array, vectors: int = 1) -> tuple[float, float]:
    """About how many cycles the sums of an image take, with what stores and reads them; and bytes
    of code. `trits` are [outs, taps]."""
    outs, taps = trits.shape
    share = np.count_nonzero(trits) / trits.size
    count = taps * (outs * (1 - (1 - share) ** 2) / 2 + groups_of(recipe, outs) * 2)
    code = count * _BYTES
    cycles = vectors * (count / _RATE[recipe.width] + outs * _STORED)
    return cycles + (code / _FAR if code > _NEAR else 0), code


def groups_of(recipe: Recipe, outs: int) -> int:
    """How many groups of outputs there are, each of which reads all inputs."""
    return len(_groups(recipe, outs))


def _groups(recipe: Recipe, outs: int) -> list[range]:
    """Groups of outputs, as even as can be, of which all sums are in registers."""
    most = _registers(recipe) - _PAIR
    count = -(-outs // most)
    ends = [outs * n // count for n in range(count + 1)]
    return [range(a, b) for a, b in pairwise(ends)]


def _registers(recipe: Recipe) -> int:
    return 32 if recipe.width == 64 else 16


def write_additions(recipe: Recipe, variant: Additions, name: str) -> llvm.FuncOp:
    """The function of a variant."""
    code = Code(name, [POINTER, POINTER, i64, i64])
    x, sums, first, end = code.arguments
    groups, far = _groups(recipe, variant.outs), cost_of(recipe, variant.values)[1] > _NEAR
    touched = [f"~{{xmm{n}}}" for n in range(_registers(recipe))]
    with code.each(first, end) as group:
        for number in code.cases(group, range(len(groups))):
            lines = list(_Group(recipe, variant, groups[number]).lines())
            text = "\n".join(_fetched(lines) if far else lines)
            with code.each(0, variant.vectors) as vector:
                places = code.mul(vector, recipe.width // 2)
                addresses = [code.at(x, places), code.at(sums, code.mul(places, 2))]
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


class _Group:
    """The instructions for one register of places of some outputs.

    Registers hold the sums first, then two inputs.
    """

    def __init__(self, recipe: Recipe, variant: Additions, outs: range) -> None:
        self._variant, self._outs = variant, outs
        self._wide = recipe.width == 64
        self._pitch = variant.vectors * recipe.width
        self._first = _registers(recipe) - _PAIR
        self._begun: set[int] = set()

    def lines(self) -> Iterator[str]:
        """All of them; `$0` is the address of the inputs, `$1` that of the sums."""
        trits, start = self._variant.values[self._outs.start : self._outs.stop], 0
        for part, end in enumerate(self._variant.parts):
            taps = [tap for tap in range(start, end) if trits[:, tap].any()]
            self._begun.clear()
            for pair in zip(taps[::2], taps[1::2], strict=False):
                yield from self._pair(pair, trits)
            if len(taps) % 2:
                yield self._load(taps[-1], self._first)
                yield from self._add(trits[:, taps[-1]], self._first)
            yield from self._store(part)
            start = end

    def _pair(self, pair: Sequence[int], trits: Array) -> Iterator[str]:
        """Two inputs, each alone or both at once."""
        first = self._first
        a, b = (trits[:, tap] for tap in pair)
        for number, tap in enumerate(pair):
            yield self._load(tap, first + number)
        alike, unlike = a * b > 0, a * b < 0
        for both, name, register in (alike, "vpaddw", first + 2), (unlike, "vpsubw", first + 3):
            if both.any():
                yield self._op(name, first, first + 1, register)
                yield from self._add(np.where(both, a, 0), register)
        yield from self._add(np.where(b == 0, a, 0), first)
        yield from self._add(np.where(a == 0, b, 0), first + 1)

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

    def _store(self, part: int) -> Iterator[str]:
        for out in range(len(self._outs)):
            if out not in self._begun:
                yield self._clear(out)
            place = (part * self._variant.outs + self._outs.start + out) * self._pitch
            yield f"{'vmovdqu64' if self._wide else 'vmovdqu'} {self._name(out)}, {place}($1)"

    def _load(self, tap: int, register: int) -> str:
        return f"vpmovzxbw {self._variant.taps[tap]}($0), {self._name(register)}"

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
