"""Products of trits by trits and of bits by trits: functions for one instruction set and operand.

Where both operands have two or three values, a product with 8-bit numbers does little with each
register. Here the sum of a few products (`group` steps) is looked up instead: for 8 rows of A at
once, bit j of their sums over every possible group of trits of B stands in a table of bytes, one
bit for each row, and one instruction looks the words of all columns of a register up. Full adders
on whole registers then count the words (`bitplanes_tile`). With tables of 27 bytes (AVX-512 VBMI)
and `vpternlogd`, 1536 products of trits take 3 lookups and 6 operations.

The functions take shapes at run time. Not here: the layouts (`abi.bitplanes`).
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp

from ....runtime.native.abi.bitplanes import VERSION, Operand
from ..source_digest import KERNELS, source_digest
from .bitplanes_packing import write_pack_columns, write_pack_rows
from .bitplanes_product import Names, write_finish, write_multiply, write_product
from .bitplanes_schemes import Scheme
from .bitplanes_tables import write_tables
from .bitplanes_tile import write_tile


def bitplane_functions(scheme: Scheme, operand: Operand) -> list[llvm.FuncOp]:
    """All that one product needs, for any module of the `llvm` dialect.

    `bitplanes_OPERAND_product` and `…_pack_columns` have the arguments that `abi.bitplanes`
    states, `…_pack_rows` and `…_multiply` those of `write_…`; these call the others. A program with
    constant trits needs `product` alone, on what `column_codes` and `column_bases` give.
    """
    names = Names(operand)
    together = panels_together(scheme)
    tables = [write_tables(scheme, operand, names("tables"))] if scheme.entries else []
    tiles = [
        write_tile(scheme, operand, count, names(f"tile_{count}"))
        for count in range(1, together + 1)
    ]
    return [
        *tables,
        *tiles,
        write_finish(scheme, names("finish")),
        write_pack_rows(scheme, operand, names("pack_rows")),
        write_pack_columns(scheme, names("pack_columns")),
        write_multiply(scheme, operand, together),
        write_product(scheme, operand),
    ]


def panels_together(scheme: Scheme) -> int:
    """Panels of a tile: with 32 wide registers, two share what they load of the tables."""
    return 2 if scheme.width == 64 else 1


def bitplane_module(scheme: Scheme, operand: Operand) -> ModuleOp:
    """A module with these functions."""
    return ModuleOp(list(bitplane_functions(scheme, operand)))


@cache
def bitplane_fingerprint(scheme: Scheme, operand: Operand) -> str:
    """SHA-256 of all that decides what `bitplane_module` gives."""
    digest = hashlib.sha256(source_digest(*KERNELS))
    digest.update(f"bitplanes {VERSION} {scheme.name} {operand} {version('xdsl')}".encode())
    return digest.hexdigest()
