"""SIMD recipes: what an instruction set offers to a ternary kernel, one line of a table each.

A recipe gives the width of a register, the sizes of the tiles that fit its registers, and two
instructions: the dot product of four bytes, and the recoding of stored trits. A new instruction set
is a new line here. Not here: loops and layouts (`gemv`, `panel`, `activations`).

Registers of bytes may come as bytes, or in fours as int32. Dot products take unsigned codes up to
2 · 64, those of `signed` recipes up to 2 · 16, and signed activations -128 … 127. They are exact: a
sum of two products stays inside int16 (128 · -128 · 2 = -32768), a sum of four inside int32.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from xdsl.dialects.builtin import IntegerType, i8, i16, i32
from xdsl.ir import SSAValue

from ....ir.errors import OptionError, refuse
from ..llvm.types import suffix, vector
from .code import Code, lanes

Dot = Callable[[Code, SSAValue, SSAValue, SSAValue], SSAValue]
Pairs = Callable[[Code, SSAValue, SSAValue], SSAValue]
Recode = Callable[[Code, SSAValue], SSAValue]
Line = TypeVar("Line", bound="InstructionSet")

FIELDS = (0x03, 0x0C, 0x30, -0x40)
"""Masks of the four fields of a byte, each the code of a trit."""
_ODD_BITS = 0x55


def vnni_512(code: Code, total: SSAValue, codes: SSAValue, values: SSAValue) -> SSAValue:
    """`vpdpbusd` of AVX-512 VNNI on 64 bytes."""
    return _vpdpbusd(code, total, codes, values, "512")


def vnni_256(code: Code, total: SSAValue, codes: SSAValue, values: SSAValue) -> SSAValue:
    """`vpdpbusd` of AVX-VNNI on 32 bytes."""
    return _vpdpbusd(code, total, codes, values, "256")


def _vpdpbusd(
    code: Code, total: SSAValue, codes: SSAValue, values: SSAValue, width: str
) -> SSAValue:
    arguments = [total, code.bits(codes, total.type), code.bits(values, total.type)]
    return code.intrinsic(f"llvm.x86.avx512.vpdpbusd.{width}", arguments, total.type)


def vnni_words_512(code: Code, total: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """`vpdpwssd` of AVX-512 VNNI on 32 numbers of 16 bits."""
    return _vpdpwssd(code, total, a, b, "512")


def vnni_words_256(code: Code, total: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """`vpdpwssd` of AVX-VNNI on 16 numbers of 16 bits."""
    return _vpdpwssd(code, total, a, b, "256")


def _vpdpwssd(code: Code, total: SSAValue, a: SSAValue, b: SSAValue, width: str) -> SSAValue:
    arguments = [total, code.bits(a, total.type), code.bits(b, total.type)]
    return code.intrinsic(f"llvm.x86.avx512.vpdpwssd.{width}", arguments, total.type)


def multiply_words_256(code: Code, total: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """`vpmaddwd` of AVX2 on 16 numbers of 16 bits."""
    words = [code.bits(register, vector(i16, 16)) for register in (a, b)]
    return code.add(total, code.intrinsic("llvm.x86.avx2.pmadd.wd", words, vector(i32, 8)))


def multiply_add_256(code: Code, total: SSAValue, codes: SSAValue, values: SSAValue) -> SSAValue:
    """`vpmaddubsw`, then `vpmaddwd` by ones, of AVX2. No sum reaches where the first saturates."""
    ones = code.constant(1, vector(i16, 16))
    pairs = pairs_256(code, codes, values)
    fours = code.intrinsic("llvm.x86.avx2.pmadd.wd", [pairs, ones], vector(i32, 8))
    return code.add(total, fours)


def pairs_256(code: Code, codes: SSAValue, values: SSAValue) -> SSAValue:
    """`vpmaddubsw` of AVX2: sums of two products, in 16 bits."""
    bytes_ = [code.bits(register, vector(i8, 32)) for register in (codes, values)]
    return code.intrinsic("llvm.x86.avx2.pmadd.ub.sw", bytes_, vector(i16, 16))


def pack_512(code: Code, a: SSAValue, b: SSAValue) -> SSAValue:
    """`vpackssdw` of AVX-512."""
    return code.intrinsic("llvm.x86.avx512.packssdw.512", [a, b], vector(i16, 32))


def pack_256(code: Code, a: SSAValue, b: SSAValue) -> SSAValue:
    """`vpackssdw` of AVX2."""
    return code.intrinsic("llvm.x86.avx2.packssdw", [a, b], vector(i16, 16))


def sdot_128(code: Code, total: SSAValue, codes: SSAValue, values: SSAValue) -> SSAValue:
    """`sdot` of ARM's dot products on 16 bytes."""
    bytes_ = [code.bits(register, vector(i8, 16)) for register in (codes, values)]
    return code.intrinsic("llvm.aarch64.neon.sdot.v4i32.v16i8", [total, *bytes_], total.type)


def smull_128(code: Code, total: SSAValue, codes: SSAValue, values: SSAValue) -> SSAValue:
    """`smull`, `smull2`, `addp` and `sadalp` of 64-bit ARM on 16 bytes.

    A sum of two products has 16 bits, which two of -128 · -128 alone do not fit.
    """
    pairs = _products_in_pairs(code, codes, values, i8, i16)
    fours = code.intrinsic("llvm.aarch64.neon.saddlp.v4i32.v8i16", [pairs], total.type)
    return code.add(total, fours)


def smull_words_128(code: Code, total: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """`smull`, `smull2` and `addp` of 64-bit ARM on 8 numbers of 16 bits."""
    return code.add(total, _products_in_pairs(code, a, b, i16, i32))


def _products_in_pairs(
    code: Code, a: SSAValue, b: SSAValue, narrow: IntegerType, wide: IntegerType
) -> SSAValue:
    """Sums of two neighbouring products of two registers, of twice the bits."""
    count = 64 // narrow.width.data
    halves = [range(count), range(count, 2 * count)]
    a, b = (code.bits(register, vector(narrow, 2 * count)) for register in (a, b))
    kind = vector(wide, count)
    both = [
        code.intrinsic(
            f"llvm.aarch64.neon.smull.{suffix(kind)}",
            [code.shuffle(a, a, half), code.shuffle(b, b, half)],
            kind,
        )
        for half in halves
    ]
    return code.intrinsic(f"llvm.aarch64.neon.addp.{suffix(kind)}", both, kind)


def multiply_128(code: Code, total: SSAValue, codes: SSAValue, values: SSAValue) -> SSAValue:
    """Shifts and 16-bit products that every instruction set has, on 16 bytes."""
    halves = vector(i16, 8)
    unsigned, signed = code.bits(codes, halves), code.bits(values, halves)
    even = code.mul(code.and_(unsigned, 255), code.ashr(code.shl(signed, 8), 8))
    odd = code.mul(code.lshr(unsigned, 8), code.ashr(signed, 8))
    pairs = code.bits(code.add(even, odd), total.type)
    low, high = code.ashr(code.shl(pairs, 16), 16), code.ashr(pairs, 16)
    return code.add(total, code.add(low, high))


def recode_affine(code: Code, stored: SSAValue) -> SSAValue:
    """Storage codes c to biased codes u with one `gf2p8affineqb`: u0 = ¬(c0 ⊕ c1), u1 = c0."""
    matrix = 0
    for field in range(0, 8, 2):
        # Byte 7 - i of the matrix holds the inputs of output bit i.
        matrix |= (3 << field) << (8 * (7 - field))
        matrix |= (1 << field) << (8 * (6 - field))
    width = lanes(stored.type)
    rows = code.constant_bytes(matrix.to_bytes(8, "little") * (width // 8))
    arguments = [stored, rows, code.constant(_ODD_BITS, i8)]
    return code.intrinsic(f"llvm.x86.vgf2p8affineqb.{8 * width}", arguments, stored.type)


def recode_bits(code: Code, stored: SSAValue) -> SSAValue:
    """The same with shifts and logic."""
    odd = code.constant(_ODD_BITS, stored.type)
    first = code.and_(stored, odd)
    second = code.and_(code.lshr(stored, 1), odd)
    return code.or_(code.shl(first, 1), code.xor(code.xor(first, second), odd))


@dataclass(frozen=True)
class InstructionSet:
    """A line of a table.

    Attributes:
        name: as in options and reports.
        features: what the processor must have, in LLVM's names.
    """

    name: str
    features: frozenset[str]


@dataclass(frozen=True)
class Recipe(InstructionSet):
    """One instruction set.

    Attributes:
        width: bytes of a register.
        dot: total + Σ of four products of unsigned codes and signed activations, in each int32.
        recode: storage codes to biased codes.
        gemv_rows: rows of weights that one pass of the GEMV holds, four sums each.
        tile_rows: most rows of activations in a tile of the GEMM.
        sums: most sums that a tile of the GEMM holds in registers.
        registers: of the processor, less those that `dot` takes for itself.
        matrices: whether AMX multiplies what has enough rows (`matrix_tile`).
        pairs: sums of two such products in each int16, where `dot` takes more than one
            multiplication (`narrow_tile`).
        words: total + Σ of two products of signed numbers of 16 bits, in each int32, if there is an
            instruction for it, or a few.
        factors: groups of factors of a sum that are loaded together, and spread one by one.
        slow_words: how many times as long as `dot` that takes.
        pack: two registers of int32 as one of numbers of 16 bits that hold them, half by half of
            128 bits, where there is an instruction for it.
        signed: whether `dot` multiplies signed by signed bytes.
        dots: whether there is an instruction for `dot`.
    """

    width: int
    dot: Dot
    recode: Recode
    gemv_rows: int
    tile_rows: int
    sums: int
    registers: int = 16
    matrices: bool = False
    pairs: Pairs | None = None
    words: Dot | None = None
    factors: int = 1
    slow_words: int = 1
    pack: Pairs | None = None
    signed: bool = False
    dots: bool = True

    @property
    def whole_bytes(self) -> bool:
        """Whether `dot` is exact for all bytes, codes up to 255 too, or all that have a sign."""
        return self.words is not None and self.pairs is None

    def field(self, code: Code, packed: SSAValue, number: int) -> SSAValue:
        """The codes of a field of each byte, which count 2^`field_shift`-fold.

        They are cut out by masks, without a shift, but for those that would be less than 0 so.
        """
        if not self.field_shift(number) and number:
            moved = code.lshr(code.bits(packed, vector(i8, self.width)), 2 * number)
            return code.bits(moved, packed.type)
        mask = FIELDS[number] & 0xFF
        return code.and_(packed, mask * (0x01010101 if lanes(packed.type) == self.lanes else 1))

    def field_shift(self, number: int) -> int:
        """By how many bits sums of a field are to be shifted back in the end."""
        return 0 if self.signed and FIELDS[number] < 0 else 2 * number

    def joined_fields(self, code: Code, sums: Sequence[SSAValue]) -> SSAValue:
        """The sum of what the four fields of bytes sum up to."""
        total = sums[0]
        for number in (1, 2, 3):
            total = code.add(total, self.field_sum(code, sums[number], number))
        return total

    def field_sum(self, code: Code, total: SSAValue, number: int) -> SSAValue:
        """What the products of a field sum up to, of which `total` is a multiple."""
        shift = self.field_shift(number)
        return code.ashr(total, shift) if shift else total

    @property
    def lanes(self) -> int:
        """int32 sums in a register."""
        return self.width // 4

    @property
    def chains(self) -> int:
        """Sums that must run beside each other to hide how long an addition takes."""
        return 1 << (self.sums.bit_length() - 1)


_AVX512 = "avx avx2 avx512f avx512bw avx512vl avx512dq avx512vnni"
_GFNI = f"{_AVX512} gfni avx512vbmi"
_AMX = f"{_GFNI} amx-tile amx-int8"
_NEON = "fp-armv8 neon"
"""Those of 64-bit ARM; on 32 bits instructions have other names."""


def _wide(name: str, features: str, recode: Recode, *, matrices: bool = False) -> Recipe:
    """A recipe of AVX-512 with VNNI."""
    words, pack = vnni_words_512, pack_512
    needed = frozenset(features.split())
    sizes = 4, 6, 24, 32
    return Recipe(name, needed, 64, vnni_512, recode, *sizes, matrices, words=words, pack=pack)


RECIPES: tuple[Recipe, ...] = (
    _wide("amx", _AMX, recode_affine, matrices=True),
    _wide("avx512vnni-gfni", _GFNI, recode_affine),
    _wide("avx512vnni", _AVX512, recode_bits),
    Recipe(
        "avxvnni",
        frozenset({"avx", "avx2", "avxvnni"}),
        32,
        vnni_256,
        recode_bits,
        2,
        4,
        8,
        words=vnni_words_256,
        pack=pack_256,
    ),
    Recipe(
        "avx2",
        frozenset({"avx", "avx2"}),
        32,
        multiply_add_256,
        recode_bits,
        2,
        4,
        8,
        pairs=pairs_256,
        words=multiply_words_256,
        pack=pack_256,
        dots=False,
    ),
    Recipe(
        "neon-dotprod",
        frozenset({*_NEON.split(), "dotprod"}),
        16,
        sdot_128,
        recode_bits,
        4,
        6,
        24,
        registers=32,
        words=smull_words_128,
        factors=4,
        slow_words=4,
        signed=True,
    ),
    Recipe(
        "neon",
        frozenset(_NEON.split()),
        16,
        smull_128,
        recode_bits,
        4,
        6,
        24,
        registers=28,
        words=smull_words_128,
        factors=4,
        signed=True,
        dots=False,
    ),
    Recipe("generic", frozenset(), 16, multiply_128, recode_bits, 1, 4, 4, dots=False),
)
"""Best first; the last runs everywhere."""


def line_named(
    table: Sequence[Line], name: str, features: Collection[str], what: str, kind: str
) -> Line:
    """The line of that name, for a processor with these features; `kind` is `what`, in full.

    Raises:
        OptionError: there is none, or the processor cannot run it.
    """
    found = next((line for line in table if line.name == name), None)
    if found is None:
        names = ", ".join(line.name for line in table)
        raise OptionError(f"no {kind} is named '{name}'; there are {names}")
    missing = ", ".join(sorted(found.features - set(features)))
    refuse(missing, f"this processor cannot run the {what} '{name}': it has no {missing}")
    return found


def best_recipe(features: Collection[str]) -> Recipe:
    """The first recipe that a processor with these features can run."""
    return next(recipe for recipe in RECIPES if recipe.features <= set(features))


def recipe_named(name: str, features: Collection[str]) -> Recipe:
    """The recipe of that name, see `line_named`."""
    return line_named(RECIPES, name, features, "recipe", "SIMD recipe")


def recipe_for(name: str | None, features: Collection[str]) -> Recipe:
    """The recipe of that name, or the best one without, for a processor with these features.

    Raises:
        OptionError: there is none of that name, or the processor cannot run it.
    """
    return best_recipe(features) if name is None else recipe_named(name, features)
