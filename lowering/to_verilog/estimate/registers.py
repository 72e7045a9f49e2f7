"""Registers as Yosys makes them: resets and enables, shift registers, what joins their tables.

`opt_dff` and `dfflegalize` find resets; `xilinx_srl` makes look-up tables of registers of one clock
and one enable, without a reset, each read by the next one alone; `xilinx_dffopt` lets enable and
reset become part of a table that nobody else reads, where table, enable, reset and the register's
own value are one function of what a table takes. Not here: what is counted (`estimate`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from .families import Family
from .mapping import Cut
from .netlist import FALSE, LEAF, TRUE, Netlist, Register

_LEAST = 3
"""Shorter sequences of registers are no shift registers."""


def infer_resets(netlist: Netlist, uses: Counter[int], *, gated: bool) -> None:
    """Let selections of a constant that one register alone reads be its reset.

    Where something else reads all that a register takes, its enable stays a selection too.

    Args:
        netlist: without what is dead.
        uses: how often each node is read.
        gated: whether the family's resets can wait for an enable; else a gate joins the two.
    """
    for register in netlist.registers:
        held = netlist.known_choice(register.enable, register.data, 2 * register.output)
        if held is not None and uses[held >> 1]:
            register.data, register.enable = held, TRUE
            uses[held >> 1] += 1
        waits = register.enable != TRUE
        if waits and register.reset != FALSE:
            if gated:
                register.enable = netlist.either(register.enable, register.reset)
            continue
        bit, begin, reset = register.data, register.begin, register.reset
        while uses[bit >> 1] == 1 and (selection := netlist.selections.get(bit)) is not None:
            condition, constant, other = selection
            if reset != FALSE and constant != begin:
                break
            bit, begin, reset = other, constant, netlist.either(reset, condition)
        if waits and not gated and reset != FALSE:
            reset = netlist.both(reset, register.enable)
            register.joined = True
        register.data, register.begin, register.reset = bit, begin, reset


def shift_registers(netlist: Netlist, used: Sequence[int]) -> list[list[Register]]:
    """The sequences of registers that become shift registers.

    Args:
        netlist: has the registers.
        used: how often each node is read, by registers and everything else.
    """
    plain = {r.output: r for r in netlist.registers if r.reset == FALSE and not r.apart}
    follower: dict[int, Register] = {}
    begins: list[Register] = []
    for register in plain.values():
        before = None if register.data & 1 else plain.get(register.data >> 1)
        alike = before and (before.enable, before.clock) == (register.enable, register.clock)
        if before is not None and alike and used[before.output] == 1:
            follower[before.output] = register
        else:
            begins.append(register)
    sequences = [[register] for register in begins]
    for sequence in sequences:
        while (after := follower.get(sequence[-1].output)) is not None:
            sequence.append(after)
    return [sequence for sequence in sequences if len(sequence) >= _LEAST]


def shift_size(length: int) -> tuple[int, int]:
    """Look-up tables and registers of a shift register: tables hold up to 32 bits each.

    One bit more than fits goes into a register (Yosys' `xilinx/cells_map.v`).
    """
    tables, rest = divmod(length, 32)
    if rest == 1:
        return tables, 1
    if rest == 17:
        return tables + 1, 1
    return tables + (rest > 0), 0


def resets_inverted(netlist: Netlist, register: Register, family: Family) -> bool:
    """Whether the register has an inverter of its own for an input, or what a register gives.

    `ice40_opt` makes one of them all, behind `dfflegalize`; the other families have none such.
    """
    reset = register.reset
    alone = not family.gated_reset and reset > TRUE and reset & 1
    return bool(alone) and netlist.kinds[reset >> 1] == LEAF


def merged_controls(
    netlist: Netlist, tables: Mapping[int, Cut], used: Sequence[int], family: Family
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
        taken = reset >> 1 in tables or resets_inverted(netlist, register, family)
        if reset != FALSE and taken and len(pins) <= family.inputs:
            resets.add(register.output)
            left[reset >> 1] += 1
        elif enable >> 1 not in tables:
            continue
        left[enable >> 1] += 1
    return resets, {node for node, count in left.items() if count == used[node]}
