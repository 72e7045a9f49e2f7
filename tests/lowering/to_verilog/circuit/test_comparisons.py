"""Comparisons with constants: right for every number, one look-up table where they are narrow."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import comb

from triton_dsl.lowering.to_verilog.circuit.arithmetic import at_least, equal_to
from triton_dsl.lowering.to_verilog.circuit.pacing import Pacing
from triton_dsl.lowering.to_verilog.circuit.signals import Signal

Bench = Callable[..., Any]


@settings(deadline=None, max_examples=60)
@given(st.integers(-70, 70), st.integers(1, 80), st.data())
def test_every_number_is_compared_as_python_does(
    bench: Bench, low: int, span: int, data: st.DataObject
) -> None:
    """The bounds are those of the number, narrower than what its bits can hold."""
    high = low + span
    bound = data.draw(st.integers(low - 2, high + 2))
    under = bench([(low, high)], Pacing(0))
    x = Signal(under.wires[0])
    found = [
        at_least(under.circuit, x, bound),
        at_least(under.circuit, x.negated(), -bound),
        equal_to(under.circuit, x, bound),
    ]
    for value in range(low, high + 1):
        numbers = [under.number(signal, [value]) for signal in found]
        assert numbers == [value >= bound, value <= bound, value == bound]


@pytest.mark.parametrize(
    ("high", "bound", "carry_chain"),
    [(7, 5, False), (2047, 5, False), (4095, 5, True), (4095, 64, False)],
)
def test_only_many_bits_that_matter_take_a_carry_chain(
    bench: Bench, high: int, bound: int, carry_chain: bool
) -> None:
    under = bench([(0, high)], Pacing(1))
    at_least(under.circuit, Signal(under.wires[0]), bound)
    assert any(isinstance(op, comb.ICmpOp) for op in under.block.ops) == carry_chain
