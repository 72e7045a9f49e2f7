"""What a ROM of a folded product is best made of."""

from __future__ import annotations

from ..memories import Style

LUTS_OF_A_BLOCK = 200
"""A block of 18 Kbit is worth so many LUTs: about their ratio in devices of several families."""


def rom_luts(depth: int, width: int) -> int:
    """LUTs of six inputs of a ROM without a block."""
    return 0 if depth < 2 else width * (-(-depth // 64) + (depth - 1) // 256)


def rom_blocks(depth: int, width: int) -> int:
    """Blocks of 18 Kbit of a ROM in blocks, 36 bits wide for 512 words."""
    return min(
        -(-width // bits) * -(-depth // words)
        for bits, words in ((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384))
    )


def rom_style(depth: int, width: int) -> Style:
    """The cheaper one."""
    return (
        "block"
        if rom_luts(depth, width) > LUTS_OF_A_BLOCK * rom_blocks(depth, width)
        else ("distributed")
    )
