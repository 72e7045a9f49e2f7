"""A compiled program on parts of its batch, as a function in parts (`abi.parallel`).

Each part calls the program on rows of its own, in workspace of its own. Not here: which programs
can be taken apart so (`abi.interface.Interface.row_wise`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_char_p, c_int64
from functools import cache
from struct import Struct
from typing import Any

from .jit import assembled

_NAME = "batch_part"
_WORDS = 3
"""Of an argument, before those of the program: its address, the batch, the number of pieces."""


@cache
def batch_part(count: int) -> Callable[..., None]:
    """The function for programs of so many pointers, workspace apart.

    Its argument is what `part_argument` gives; its things are pieces of the batch.

    Raises:
        BackendError: llvmlite is missing.
    """
    return assembled(_text(count)).function(_NAME, [c_char_p, *[c_int64] * 4])


def part_argument(
    forward: int,
    batch: int,
    pieces: int,
    pointers: Sequence[int],
    strides: Sequence[int],
    workspace: tuple[int, int],
) -> bytes:
    """What a function of `batch_part` takes.

    Args:
        forward: address of the program.
        batch: rows.
        pieces: that they are shared out in.
        pointers: to inputs, outputs and constants.
        strides: bytes of a row of each; 0 where all rows share it.
        workspace: its address, and the bytes of each member.
    """
    pairs = [word for pair in zip(pointers, strides, strict=True) for word in pair]
    return _packer(len(pairs))(forward, batch, pieces, *pairs, *workspace)


@cache
def _packer(words: int) -> Callable[..., bytes]:
    return Struct(f"{_WORDS + words + 2}q").pack


def _text(count: int) -> str:
    """The module in LLVM's language."""
    from llvmlite import ir

    word: Any = ir.IntType(64)
    kind = ir.FunctionType(ir.VoidType(), [word.as_pointer(), *[word] * 4])
    function: Any = ir.Function(ir.Module(_NAME), kind, _NAME)
    builder: Any = ir.IRBuilder(function.append_basic_block())
    words, _, first, end, member = function.args

    def load(place: int) -> Any:
        return builder.load(builder.gep(words, [word(place)]))

    batch, pieces = load(1), load(2)
    start, stop = (builder.udiv(builder.mul(batch, bound), pieces) for bound in (first, end))
    scales = [start] * count + [member]
    places = [
        builder.add(load(_WORDS + 2 * n), builder.mul(scale, load(_WORDS + 2 * n + 1)))
        for n, scale in enumerate(scales)
    ]
    # An address is handed over as a number is.
    called = ir.FunctionType(ir.VoidType(), [word] * (count + 2)).as_pointer()
    builder.call(builder.inttoptr(load(0), called), [*places, builder.sub(stop, start)])
    builder.ret_void()
    return str(function.module)
