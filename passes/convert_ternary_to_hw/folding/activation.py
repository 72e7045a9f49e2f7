"""The function of a product's sums in hardware, on as many columns as there are at once.

A staircase is searched: its thresholds are in ROMs, one for each bit of the result, and what was
found so far is part of the next one's address. k bits take k comparisons instead of 2^k - 1.
Not here: which function it is (`channel_functions`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ..arithmetic import clamp, plain
from ..signals import Signal, Wire
from .channel_functions import Staircase
from .control import SteppedBody
from .product import FoldedProduct


def applied(
    body: SteppedBody, folded: FoldedProduct, sums: Sequence[Wire], group: Wire
) -> list[Signal]:
    """The function of the sums of a group of columns.

    Args:
        body: the stage.
        folded: the product with its function.
        sums: one wire a column of the group, from accumulators.
        group: the group's number, a cycle before `sums` come.
    """
    function = folded.product.function
    results: list[Signal] = []
    for column, wire in enumerate(sums):
        with body.circuit.element(column):
            if isinstance(function, Staircase):
                found = _searched(body, folded, wire, group, column)
                results.append(plain(body.circuit, found.plus(function.base)))
            else:
                name = body.circuit.name("bounded")
                bounded = clamp(body.circuit, Signal(wire), function.low, function.high, name)
                results.append(plain(body.circuit, bounded))
    return results


def _searched(
    body: SteppedBody, folded: FoldedProduct, wire: Wire, group: Wire, column: int
) -> Signal:
    """The number of thresholds that the sum of a column reaches."""
    circuit, product = body.circuit, folded.product
    assert isinstance(product.function, Staircase)
    places = product.function.steps.bit_length()
    rows = product.thresholds()
    columns: list[int] = folded.columns[:, column].tolist()
    mine = [rows[max(n, 0)] for n in columns]
    start = wire.cycle
    bits: list[Wire] = []
    for place in range(places):
        stride = 1 << (places - place)
        words = [row[i] for row in mine for i in range(stride // 2 - 1, len(row), stride)]
        groups = [circuit.at(group, start - 1 + place)] if len(mine) > 1 else []
        address = _address(body, groups, bits)
        name = circuit.name("threshold")
        threshold = body.rom(words, product.sum_width, address, name)
        bound = Wire(threshold, *product.sums, start + place)
        bits = [circuit.at(bit, start + place) for bit in bits]
        if not any(words):
            bits.append(Wire(circuit.constant(1, 1), 1, 1, start + place))
            continue
        bits.append(circuit.compared(circuit.at(wire, start + place), bound, "ge"))
    if not bits:
        return Signal.constant(0)
    value = circuit.gathered([bit.value for bit in reversed(bits)], bits)
    return Signal(Wire(value.value, 0, product.function.steps, value.cycle, value.level))


def _address(body: SteppedBody, group: Sequence[Wire], bits: Sequence[Wire]) -> SSAValue:
    """A group's number with the bits found so far below it."""
    parts = [*(wire.value for wire in reversed(bits)), *(wire.value for wire in group)]
    return body.joined(parts) if parts else body.constant(0, 1)
