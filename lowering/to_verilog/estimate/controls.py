"""Enables and resets of registers that become part of the look-up table before the register.

Yosys' `xilinx_dffopt`: of a register whose table nobody else reads, where table, enable, reset and
the register's own value are one function of what a table takes. Not here: which selections are
resets at all (`elaborate`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from .families import Family
from .mapping import Cut
from .netlist import FALSE, LEAF, TRUE, Netlist, Register


def resets_inverted(netlist: Netlist, register: Register) -> bool:
    """Whether the reset is an input, or what a register gives, inverted."""
    reset = register.reset
    return reset > TRUE and bool(reset & 1) and netlist.kinds[reset >> 1] == LEAF


def merged_controls(
    netlist: Netlist, tables: Mapping[int, Cut], used: Counter[int], family: Family
) -> tuple[set[int], set[int]]:
    """The outputs of registers whose resets are merged, and tables that nothing else needs.

    Args:
        netlist: covered.
        tables: what covers it.
        used: how often each node is read.
        family: of other families nothing is merged.
    """
    resets: set[int] = set()
    left = Counter[int]()
    for register in netlist.registers if family.merges_controls else ():
        data, enable, reset = register.data >> 1, register.enable, register.reset
        # abc gives each register an inverter of its own.
        inverter = netlist.kinds[data] == LEAF and register.data & 1
        pins = frozenset((data,)) if inverter else tables.get(data, frozenset())
        if not pins or data in netlist.whole or (used[data] > 1 and not inverter):
            continue
        if enable != TRUE:
            pins = pins | tables.get(enable >> 1, {enable >> 1}) | {register.output}
        if len(pins) > family.inputs:
            continue
        pins = pins | tables.get(reset >> 1, {reset >> 1})
        taken = reset >> 1 in tables or resets_inverted(netlist, register)
        if reset != FALSE and taken and len(pins) <= family.inputs:
            resets.add(register.output)
            left[reset >> 1] += 1
        elif enable >> 1 not in tables:
            continue
        left[enable >> 1] += 1
    return resets, {node for node, count in left.items() if count == used[node]}
