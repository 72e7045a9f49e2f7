"""The function of a product's sums in hardware, on as many columns as there are at once.

A staircase is searched: its thresholds are in ROMs, one for each bit of the result, and what was
found so far is part of the next one's address. k bits take k comparisons instead of 2^k - 1. Where
it takes less and steps are evenly spaced, the sum is divided by their distance, a bit of the result
after another, without restoring: each step adds or subtracts.
Not here: which function it is (`channel_functions`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from .....passes.adder_graph.graph import width_of
from .....passes.requantize.division import Division
from ..arithmetic import clamp, plain
from ..signals import Signal, Wire
from .channel_functions import Staircase
from .control import SteppedBody
from .costs import chosen_division
from .product import FoldedProduct


def applied(
    body: SteppedBody, folded: FoldedProduct, sums: Sequence[Wire], group: Wire
) -> list[Signal]:
    """The function of the sums of a group of columns.

    Args:
        folded: the product with its function.
        sums: one wire a column of the group, from accumulators.
        group: the group's number, a cycle before `sums` come.
    """
    function = folded.product.function
    results: list[Signal] = []
    for column, wire in enumerate(sums):
        with body.circuit.element(column):
            if isinstance(function, Staircase):
                known = chosen_division(body.circuit.pacing.areas, folded)
                if known is None:
                    count = _searched(body, folded, wire, group, column)
                else:
                    count = _divided(body, folded, known, wire, group, column)
                results.append(plain(body.circuit, count.plus(function.base)))
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
        level = body.level_of(threshold, 1)
        bound = Wire(threshold, *product.sums, start + place, level)
        bits = [circuit.at(bit, start + place) for bit in bits]
        if not any(words) and not product.loadable:
            bits.append(Wire(circuit.constant(1, 1), 1, 1, start + place))
            continue
        bits.append(circuit.compared(circuit.at(wire, start + place), bound, "ge"))
    if not bits:
        return Signal.constant(0)
    value = circuit.gathered([bit.value for bit in reversed(bits)], bits)
    return Signal(Wire(value.value, 0, product.function.steps, value.cycle, value.level))


def _divided(
    body: SteppedBody, folded: FoldedProduct, known: Division, wire: Wire, group: Wire, column: int
) -> Signal:
    """The sum of a column divided by the distance of its steps."""
    circuit = body.circuit
    places = known.most.bit_length()
    columns: list[int] = [max(n, 0) for n in folded.columns[:, column].tolist()]
    divisors = [known.divisors[n] for n in columns]
    starts = [known.offsets[n] - (known.divisors[n] << places - 1) for n in columns]
    size = max(divisors).bit_length()
    low, high = min(starts), max(starts)
    bits = width_of(min(low, -1), high)
    words = [d | (s % (1 << bits)) << size for d, s in zip(divisors, starts, strict=True)]
    groups = [circuit.at(group, wire.cycle - 1)] if len(columns) > 1 else []
    word = body.rom(words, size + bits, _address(body, groups, []), circuit.name("step") or "step")
    divisor = Wire(circuit.extract(word, 0, size), min(divisors), max(divisors), wire.cycle)
    start = Wire(circuit.extract(word, size, bits), min(low, -1), high, wire.cycle)
    rest = circuit.added(
        circuit.shifted(wire, known.fraction), start, 1, circuit.name("rest") or "rest"
    )
    quotient_bits = [_is_positive(body, rest)]
    for place in reversed(range(places - 1)):
        rest = _next_rest(body, rest, divisor, place)
        quotient_bits.append(_is_positive(body, rest))
    end = quotient_bits[-1].cycle
    value = circuit.gathered(
        [circuit.at(bit, end).value for bit in reversed(quotient_bits)],
        [circuit.at(bit, end) for bit in quotient_bits],
    )
    quotient = Signal(Wire(value.value, 0, (1 << places) - 1, value.cycle, value.level))
    return clamp(circuit, quotient, 0, known.most, circuit.name("count"))


def _is_positive(body: SteppedBody, rest: Wire) -> Wire:
    """Whether a rest is 0 or more."""
    if rest.low >= 0 or rest.high < 0:
        bit = body.constant(int(rest.low >= 0), 1)
    else:
        bit = body.inverse(body.extract(rest.value, rest.width - 1, 1))
    return Wire(bit, 0, 1, rest.cycle, rest.level)


def _next_rest(body: SteppedBody, rest: Wire, divisor: Wire, place: int) -> Wire:
    """The rest with the divisor at a place taken off, or added where the rest is negative."""
    circuit = body.circuit
    high = max((rest.high >> place) - divisor.low, divisor.high - 1)
    low = min((rest.low >> place) + divisor.low, -divisor.high)
    width = width_of(low, high)
    cost = circuit.pacing.cost("add", width)
    rest, divisor = circuit.together([rest, divisor], cost)
    upper = Wire(
        circuit.extract(rest.value, place, rest.width - place),
        rest.low >> place,
        rest.high >> place,
    )
    bit = _is_positive(body, rest).value
    other = circuit.either(circuit.bits(divisor, width), circuit.repeated(bit, width))
    total = body.add(body.joined([bit, circuit.bits(upper, width)]), body.joined([bit, other]))
    parts = [body.extract(total, 1, width)]
    if place:
        parts = [circuit.extract(rest.value, 0, place), *parts]
    ends = low << place, (high << place) + (1 << place) - 1
    return circuit.made(body.joined(parts), *ends, [rest, divisor], cost)


def _address(body: SteppedBody, group: Sequence[Wire], bits: Sequence[Wire]) -> SSAValue:
    """A group's number with the bits found so far below it."""
    parts = [*(wire.value for wire in reversed(bits)), *(wire.value for wire in group)]
    return body.joined(parts) if parts else body.constant(0, 1)
