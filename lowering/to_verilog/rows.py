"""Rows of look-up tables before carry chains as Verilog: one module for all, and instances of it.

The module is plain Verilog, which every tool takes, and any of them finds the adder in. Where
`TRITON_CARRY8` (UltraScale+) or `TRITON_CARRY4` (7 series) is defined, it is AMD's primitives
instead, which synthesis leaves as they are. Not here: what a row is (`dialects.fabric`).
"""

from __future__ import annotations

from functools import lru_cache

from ...dialects.fabric import RowOp
from .templates import filled

MACROS = {"ultrascale+": "TRITON_CARRY8", "7-series": "TRITON_CARRY4"}
"""What scripts define for a family whose primitives are known."""


def row_module(name: str) -> str:
    """The module of all rows, called so; to stand behind a module that has some."""
    return filled("row.v", name=name)


def row_parameters(op: RowOp) -> str:
    """What makes an instance this row."""
    return f"{_sites(op.functions, *op.flags)}, .CHAIN({int(op.is_chained)})"


@lru_cache(maxsize=1 << 14)
def _sites(functions: tuple[int, ...], *flags: tuple[int, ...]) -> str:
    sites = len(functions)
    tables = sum(table << 64 * site for site, table in enumerate(functions))
    direct, linked = ("".join(map(str, reversed(each))) for each in flags)
    return (
        f".SITES({sites}), .TABLES({64 * sites}'h{tables:x}), .DIRECT({sites}'b{direct}), "
        f".LINKED({sites}'b{linked})"
    )
