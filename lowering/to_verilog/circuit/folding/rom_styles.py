"""What a ROM of a folded product is best made of."""

from __future__ import annotations

from ...estimate.families import EIGHTEEN_KBIT, block_memories
from ..memories import Style

LUTS_OF_A_BLOCK = 200
"""A block of 18 Kbit is worth so many LUTs: about their ratio in devices of several families."""


def rom_luts(depth: int, width: int) -> int:
    """LUTs of six inputs of a ROM without a block."""
    return 0 if depth < 2 else width * (-(-depth // 64) + (depth - 1) // 256)


def rom_blocks(depth: int, width: int) -> int:
    """Blocks of 18 Kbit of a ROM in blocks."""
    return block_memories(depth, width, EIGHTEEN_KBIT)


def rom_style(depth: int, width: int) -> Style:
    """The cheaper one."""
    is_block = rom_luts(depth, width) > LUTS_OF_A_BLOCK * rom_blocks(depth, width)
    return "block" if is_block else "distributed"
