"""Tiles of AMX, the matrix unit of x86 servers: up to 48 rows of activations by one panel.

A panel (`abi.linear`) holds weights in the very order that AMX takes: 16 steps of 64 bytes, cut out
by a mask, are 64 values of 16 outputs, and 16 rows of prepared activations are what they meet. The
bytes that a mask leaves are stored on the stack and loaded as a tile some turns later, since a tile
is only loaded once all of it has left the store buffer. Two fields meet three tiles of activations
at a time. As in `panel`, sums of field p count 4^p-fold and are divided in the end.

A process has to ask Linux before it uses the unit, and may be refused. `write_permission` asks, in
every product of enough rows: that takes a fraction of a microsecond once it is granted. Not here:
who calls this (`panel`).
"""

from __future__ import annotations

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i32, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import PANEL
from ..llvm.types import vector
from .code import POINTER, Code, Index
from .recipes import Recipe

MATRIX_TILE = "matrix_tile"
MATRIX_ROWS = 48
"""Most digit rows of a tile; three are the least."""
_LEAST_ROWS = 8
"""Digit rows from which on AMX is quicker than vectors."""

_LINES = 16
"""Rows of a tile register; of weights, steps."""
_BYTES = 64
"""Of a row of a tile register."""
_TILE = _LINES * _BYTES
_AHEAD = 8192
"""How far ahead of its use weights are asked for, in bytes."""
_PARTS, _FIELDS = 3, 2
"""Tiles of activations and fields of weights that meet at once: a register of sums for each."""
_VALUES, _CODES = 6, 7
"""Tile registers of activations and of weights."""
_RING, _TURNS = 4, 2
"""Places for weights on the stack, a power of two, and turns from store to load."""

_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""The system call, what it is to do, and the state asked for: `arch/x86/include/uapi/asm/prctl.h`
and section "XSTATE component" of `Documentation/arch/x86/xstate.rst` in Linux."""


def write_permission(code: Code, rows: SSAValue) -> SSAValue:
    """Whether so many digit rows are to go through AMX, and Linux allows it."""
    answer = code.stack(8)
    code.store(code.constant(1), answer)
    with code.when(code.icmp("sge", rows, _LEAST_ROWS)):
        call = "={rax},{rax},{rdi},{rsi},~{rcx},~{r11},~{memory}"
        numbers = [code.constant(n) for n in (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)]
        asked = llvm.InlineAsmOp("syscall", call, numbers, [i64], has_side_effects=True)
        code.store(code.insert(asked), answer)
    return code.icmp("eq", code.load(answer, i64), 0)


def write_matrix_tile(recipe: Recipe) -> llvm.FuncOp:
    """`matrix_tile(weights, x, stride, raw, steps, rows)`: Σ u·x of digit rows by one panel.

    `weights`: `steps` of a panel. `x`: prepared activations, rows `stride` bytes apart and padded
    with zeros to a multiple of 64. `raw`: int32 results [rows, 64]. `rows`: 3 to `MATRIX_ROWS`.
    """
    code = Code(MATRIX_TILE, [POINTER, POINTER, i64, POINTER, i64, i64])
    tile = _Tile(code, recipe)
    for first in range(0, 4, _FIELDS):
        tile.multiply(first)
    code.effect("llvm.x86.tilerelease")
    tile.divide()
    return code.finish()


class _Tile:
    """Writes the parts of `matrix_tile`."""

    def __init__(self, code: Code, recipe: Recipe) -> None:
        self._code = code
        self._recipe = recipe
        self._fours = vector(i32, recipe.lanes)
        self._weights, self._x, self._stride, self._raw, self._steps, self._rows = code.arguments
        self._codes = code.stack(_RING * _FIELDS * _TILE)
        # Equal parts, of which the last may repeat rows of the one before.
        size = code.udiv(code.add(self._rows, _PARTS - 1), _PARTS)
        self._starts = [code.constant(0), size, code.sub(self._rows, size)]
        self._configure(size)

    def _configure(self, rows: SSAValue) -> None:
        """Tell AMX the sizes of its registers: `rows`, of weights all."""
        code = self._code
        memory = code.stack(64)
        content = bytearray(64)
        content[0] = 1
        content[16:32:2] = bytes([_BYTES] * 8)
        content[48 + _CODES] = _LINES
        code.store(code.constant_bytes(bytes(content)), memory)
        for register in range(_CODES):
            code.store(code.resize(rows, i8), code.at(memory, 48 + register))
        code.effect("llvm.x86.ldtilecfg", memory)

    def multiply(self, first: int) -> None:
        """Sum the products of `_FIELDS` fields from `first` on, and store the sums."""
        code = self._code
        for register in range(_PARTS * _FIELDS):
            code.effect("llvm.x86.tilezero", code.constant(register, i8))
        whole = code.lshr(self._steps, 4)
        last = code.maximum(code.sub(whole, 1), 0)
        with code.when(code.icmp("sgt", whole, 0)):
            for turn in range(_TURNS):
                self._unpack(first, code.minimum(turn, last))
        with code.each(0, whole) as block:
            self._unpack(first, code.minimum(code.add(block, _TURNS), last))
            self._meet(block)
        rest = code.sub(self._steps, code.shl(whole, 4))
        with code.when(code.icmp("sgt", rest, 0)):
            code.clear(self._place(whole), _FIELDS * _TILE)
            with code.each(0, code.shl(rest, 6), _BYTES) as i:
                self._mask(first, whole, i)
            self._meet(whole)
        for part, start in enumerate(self._starts):
            line = code.at(self._raw, code.mul(start, 4 * PANEL))
            for field in range(_FIELDS):
                place = code.at(line, (first + field) * _BYTES)
                register = code.constant(_FIELDS * part + field, i8)
                code.effect("llvm.x86.tilestored64", register, place, code.constant(4 * PANEL))

    def _place(self, block: SSAValue) -> SSAValue:
        """Where the weights of a block of 16 steps stand on the stack."""
        code = self._code
        return code.at(self._codes, code.mul(code.and_(block, _RING - 1), _FIELDS * _TILE))

    def _unpack(self, first: int, block: SSAValue) -> None:
        for i in range(0, _TILE, _BYTES):
            self._mask(first, block, i)

    def _mask(self, first: int, block: SSAValue, i: Index) -> None:
        code = self._code
        source = code.at(code.at(self._weights, code.mul(block, _TILE)), i)
        packed = code.load(source, self._fours)
        code.prefetch(code.at(source, _AHEAD))
        for field in range(_FIELDS):
            target = code.at(code.at(self._place(block), field * _TILE), i)
            code.store(self._recipe.field(code, packed, first + field), target)

    def _meet(self, block: SSAValue) -> None:
        """Products of the 64 values of a block with the weights on the stack."""
        code = self._code
        for field in range(_FIELDS):
            weights = code.at(self._place(block), field * _TILE)
            self._load(_CODES, weights, code.constant(_BYTES))
            for part, start in enumerate(self._starts):
                line = code.at(self._x, code.mul(start, self._stride))
                self._load(_VALUES, code.at(line, code.shl(block, 6)), self._stride)
                numbers = (_FIELDS * part + field, _VALUES, _CODES)
                code.effect("llvm.x86.tdpbsud", *(code.constant(n, i8) for n in numbers))

    def _load(self, register: int, place: SSAValue, stride: SSAValue) -> None:
        code = self._code
        code.effect("llvm.x86.tileloadd64", code.constant(register, i8), place, stride)

    def divide(self) -> None:
        """Divide the sums of field p by 4^p."""
        code = self._code
        with code.each(0, self._rows) as m:
            line = code.at(self._raw, code.mul(m, 4 * PANEL))
            for field in (1, 2, 3):
                place = code.at(line, field * _BYTES)
                sums = code.load(place, self._fours)
                code.store(code.ashr(sums, 2 * field), place)
