"""What synthesis does to a netlist before it covers it: resets of registers, dead bits, small sums.

Not here: covering with look-up tables (`mapping`).
"""

from __future__ import annotations

from .families import Family
from .netlist import AND, FALSE, LEAF, MUX, TRUE, XOR, Chain, Netlist, Register


def infer_controls(netlist: Netlist, family: Family) -> None:
    """Give registers a reset or an enable where a selection before them does the same.

    A register that takes a constant under a condition takes it as a reset: Yosys' `opt_dff`.
    """
    for register in netlist.registers:
        seen: set[int] = set()  # a selection that changes nothing is the value it selects
        while register.data not in seen:
            seen.add(register.data)
            if not _feedback(netlist, register) and not _reset(netlist, register):
                break
        if register.reset == FALSE or register.enable == TRUE:
            continue
        if register.gated and not family.gated_reset:
            # Yosys makes this for each register by itself, and shares it with no other one.
            netlist.group = register.group
            register.reset = netlist.table([register.reset, register.enable])
        elif not register.gated and family.gated_reset:
            register.enable = netlist.either(register.reset, register.enable)


def _feedback(netlist: Netlist, register: Register) -> bool:
    """Take one selection between the register's own value and another as an enable."""
    data = register.data
    if netlist.kinds[data >> 1] != MUX or register.reset != FALSE:
        return False
    condition, yes, no = netlist.inputs[data >> 1]
    own = 2 * register.output ^ data & 1
    if own not in (yes, no):
        return False
    other = no if own == yes else yes
    register.enable = netlist.both(register.enable, condition ^ (own == yes))
    register.data = other ^ data & 1
    return True


def _reset(netlist: Netlist, register: Register) -> bool:
    """Take one selection between a constant and another value as a reset."""
    selection = netlist.selections.get(register.data)
    if selection is None:
        return False
    condition, constant, other = selection
    if register.reset != FALSE and (
        constant != register.reset_value or (register.enable != TRUE and not register.gated)
    ):
        return False
    register.gated = register.enable != TRUE
    register.reset = netlist.either(register.reset, condition)
    register.reset_value = constant
    register.data = other
    return True


def remove_dead(netlist: Netlist) -> None:
    """Leave out registers, chains and blocks that no output depends on, and dead top bits."""
    registers = {register.output: register for register in netlist.registers}
    chains: dict[int, tuple[Chain, int]] = {}
    for chain in netlist.chains:
        chains |= {node: (chain, i + 1) for i, node in enumerate(chain.outputs) if node >= 0}
        if chain.top >= 0:
            chains[chain.top] = (chain, len(chain.first))
    blocks = {node: block for block in netlist.blocks for node in block.outputs}
    seen = bytearray(len(netlist.kinds))
    lengths: dict[int, int] = {}
    live_blocks: set[int] = set()
    stack = [literal >> 1 for literal in netlist.outputs]
    while stack:
        node = stack.pop()
        if seen[node]:
            continue
        seen[node] = 1
        if netlist.kinds[node] != LEAF:
            stack += [literal >> 1 for literal in netlist.inputs[node]]
        elif node in registers:
            r = registers[node]
            stack += [r.data >> 1, r.enable >> 1, r.reset >> 1]
        elif node in chains:
            chain, length = chains[node]
            length = len(chain.first) if chain.placed else length
            begun = lengths.get(id(chain), 0)
            if length > begun:
                lengths[id(chain)] = length
                stack += [x >> 1 for x in chain.first[begun:length]]
                stack += [x >> 1 for x in chain.second[begun:length]]
                stack.append(chain.carry >> 1)
        elif node in blocks and id(blocks[node]) not in live_blocks:
            live_blocks.add(id(blocks[node]))
            stack += [literal >> 1 for literal in blocks[node].inputs]
    netlist.registers = [r for r in netlist.registers if seen[r.output]]
    netlist.blocks = [block for block in netlist.blocks if id(block) in live_blocks]
    netlist.chains = [_trimmed(c, lengths[id(c)], seen) for c in netlist.chains if id(c) in lengths]


def _trimmed(chain: Chain, length: int, seen: bytearray) -> Chain:
    outputs = [node if node >= 0 and seen[node] else -1 for node in chain.outputs[:length]]
    top = chain.top if chain.top >= 0 and seen[chain.top] else -1
    return Chain(
        chain.first[:length],
        chain.second[:length],
        chain.carry,
        outputs,
        top,
        chain.group,
        chain.placed,
    )


def dissolve_small(netlist: Netlist, family: Family) -> None:
    """Make the chains that are too short to be worth a carry chain ordinary gates."""
    wide: list[Chain] = []
    for chain in netlist.chains:
        if chain.placed or len(chain.first) >= family.least_adder:
            wide.append(chain)
        else:
            _dissolve(netlist, family, chain)
    netlist.chains = wide


def _dissolve(netlist: Netlist, family: Family, chain: Chain) -> None:
    netlist.group = chain.group
    carry = chain.carry
    for first, second, output in zip(chain.first, chain.second, chain.outputs, strict=True):
        exclusive = netlist.differ(first, second) if family.own_adder else first
        if output >= 0:
            _become(netlist, output, netlist.differ(exclusive, carry))
        carry = netlist.choose(exclusive, carry, second)
    if chain.top >= 0:
        _become(netlist, chain.top, carry)


def _become(netlist: Netlist, node: int, literal: int) -> None:
    """Make a leaf the gate that gives `literal`."""
    kind, inputs = netlist.kinds[literal >> 1], netlist.inputs[literal >> 1]
    if kind == LEAF:
        kind, inputs = XOR, (literal, FALSE)
    elif literal & 1 and kind == XOR:
        inputs = (inputs[0] ^ 1, inputs[1])
    elif literal & 1 and kind == AND:
        kind, inputs = MUX, (inputs[0], inputs[1] ^ 1, TRUE)
    elif literal & 1:
        inputs = (inputs[0], inputs[1] ^ 1, inputs[2] ^ 1)
    netlist.kinds[node], netlist.inputs[node] = kind, inputs
    netlist.groups[node] = netlist.group
