"""What an instruction set offers to kernels on bit planes, one line of a table each.

A scheme gives the width of a register, how many steps of a sum one lookup takes in, the lookup, and
a full adder. A new instruction set is a new line here. Not here: loops and
layouts (`bitplanes` and the files beside it).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from ..llvm.types import vector
from .code import Code, lanes
from .recipes import InstructionSet, line_named

Lookup = Callable[[Code, SSAValue, SSAValue], SSAValue]

_PARITY, _MAJORITY = 0x96, 0xE8
"""Tables of `vpternlogd`: the sum and the carry of three bits."""


def permute_512(code: Code, table: SSAValue, places: SSAValue) -> SSAValue:
    """`vpermb` of AVX-512 VBMI: a table of 64 bytes for all."""
    name = "llvm.x86.avx512.permvar.qi.512"
    return code.intrinsic(name, [table, places], table.type)


def shuffle_512(code: Code, table: SSAValue, places: SSAValue) -> SSAValue:
    """`vpshufb` of AVX-512 BW: tables of 16 bytes."""
    return code.intrinsic("llvm.x86.avx512.pshuf.b.512", [table, places], table.type)


def shuffle_256(code: Code, table: SSAValue, places: SSAValue) -> SSAValue:
    """`vpshufb` of AVX2: tables of 16 bytes."""
    return code.intrinsic("llvm.x86.avx2.pshuf.b", [table, places], table.type)


def none(code: Code, table: SSAValue, places: SSAValue) -> SSAValue:
    """No instruction: the products are made by logic, and nothing is looked up."""
    del code, table
    return places


@dataclass(frozen=True)
class Scheme(InstructionSet):
    """One instruction set.

    Attributes:
        width: bytes of a register.
        group: steps of a sum that one lookup takes in; 1 where there is none.
        lookup: bytes of a table at the places that the low bits of other bytes name.
        ternary_logic: whether any function of three bits is one instruction (`vpternlogd`).
    """

    width: int
    group: int
    lookup: Lookup
    ternary_logic: bool

    @property
    def entries(self) -> int:
        """Bytes of a table: 3^group of them are used."""
        return {1: 0, 2: 16, 3: 32}[self.group]

    def add(self, code: Code, a: SSAValue, b: SSAValue, c: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The sum and the carry of three bits, in every place."""
        if self.ternary_logic:
            return _ternary(code, c, a, b, _PARITY), _ternary(code, a, b, c, _MAJORITY)
        either = code.xor(a, b)
        return code.xor(either, c), code.or_(code.and_(a, b), code.and_(either, c))


def _ternary(code: Code, a: SSAValue, b: SSAValue, c: SSAValue, table: int) -> SSAValue:
    width = lanes(a.type)
    words = vector(i32, width // 4)
    operands = [code.bits(value, words) for value in (a, b, c)]
    name = f"llvm.x86.avx512.pternlog.d.{8 * width}"
    result = code.intrinsic(name, [*operands, code.constant(table, i32)], words)
    return code.bits(result, vector(i8, width))


_AVX2 = frozenset({"avx", "avx2"})
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512vl", "avx512dq"}

SCHEMES: tuple[Scheme, ...] = (
    Scheme("avx512vbmi", _AVX512 | {"avx512vbmi"}, 64, 3, permute_512, True),
    Scheme("avx512bw", _AVX512, 64, 2, shuffle_512, True),
    Scheme("avx2", _AVX2, 32, 2, shuffle_256, False),
    Scheme("generic", frozenset(), 16, 1, none, False),
)
"""Best first; the last runs everywhere."""


def best_scheme(features: Collection[str], most_width: int = 64) -> Scheme:
    """The first scheme that a processor with these features can run.

    `most_width` keeps to the registers of a SIMD recipe (`Recipe.width`).
    """
    known = set(features)
    return next(s for s in SCHEMES if s.features <= known and s.width <= most_width)


def scheme_named(name: str, features: Collection[str]) -> Scheme:
    """The scheme of that name, see `line_named`."""
    return line_named(SCHEMES, name, features, "scheme", "scheme of bit planes")
