"""Enables and resets of registers as Yosys' `opt_dff` and `dfflegalize` make them.

Not here: what becomes part of a register's table after covering (`controls`).
"""

from __future__ import annotations

from collections import Counter

from .netlist import FALSE, TRUE, Netlist


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
