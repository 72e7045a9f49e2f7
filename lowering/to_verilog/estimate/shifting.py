"""Registers that follow registers: which of them become shift registers in look-up tables.

Yosys' `xilinx_srl`: registers of one clock and one enable, without a reset, each read by the next
one alone. Not here: families without shift registers in look-up tables keep them all.
"""

from __future__ import annotations

from collections import Counter

from .netlist import FALSE, Netlist, Register

_LEAST = 3
"""Shorter sequences stay registers."""


def shift_registers(netlist: Netlist, used: Counter[int]) -> list[list[Register]]:
    """The sequences of registers that become shift registers.

    Args:
        netlist: has the registers.
        used: how often each node is read, by registers and everything else.
    """
    plain = {r.output: r for r in netlist.registers if r.reset == FALSE and not r.apart}
    follower: dict[int, Register] = {}
    begins: list[Register] = []
    for register in plain.values():
        before = plain.get(register.data >> 1)
        if before is not None and _goes_on(before, register, used):
            follower[before.output] = register
        else:
            begins.append(register)
    sequences: list[list[Register]] = []
    for register in begins:
        sequence = [register]
        while (after := follower.get(sequence[-1].output)) is not None:
            sequence.append(after)
        if len(sequence) >= _LEAST:
            sequences.append(sequence)
    return sequences


def _goes_on(before: Register, register: Register, used: Counter[int]) -> bool:
    return (
        register.data & 1 == 0
        and used[before.output] == 1
        and before.enable == register.enable
        and before.clock == register.clock
    )


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
