"""Where the potentials of neurons lie: no narrower than they get, and no wider where it matters."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from triton_dsl.lowering.to_verilog.circuit.stages.neuron_rules import NeuronRule, potential

BYTE = (-128, 127)


def rule(decay: int, reset: str, threshold: int, first: int, gain: int = 1) -> NeuronRule:
    """A neuron with a decay of quarters, on i8."""
    return NeuronRule(decay, 2, gain, threshold, -2, threshold, reset, first, BYTE)


def run(neuron: NeuronRule, currents: tuple[int, ...]) -> list[int]:
    """The potentials before each step and after the last one, without wrapping."""
    v, found = neuron.first, [neuron.first]
    for current in currents:
        v = neuron.decay * v // 4 + neuron.gain * current
        if v >= neuron.limit and neuron.reset != "none":
            v = v - neuron.threshold if neuron.reset == "subtract" else neuron.v_reset
        found.append(v)
    return found


NEURONS = st.builds(
    rule,
    st.integers(0, 4),
    st.sampled_from(["subtract", "to_value", "none"]),
    st.integers(1, 9),
    st.integers(-4, 4),
    st.integers(-2, 2),
)


@given(neuron=NEURONS, low=st.integers(-4, 3), more=st.integers(0, 2), steps=st.integers(1, 5))
def test_every_potential_is_within(neuron: NeuronRule, low: int, more: int, steps: int) -> None:
    found = potential(neuron, (low, low + more), steps)
    for currents in product(range(low, low + more + 1), repeat=steps):
        *before, after = run(neuron, currents)
        assert found.held[0] <= min(before) and max(before) <= found.held[1]
        assert found.left[0] <= after <= found.left[1]


def test_a_threshold_bounds_what_is_kept() -> None:
    """Currents of 0 to 3 and a threshold of 5: never more than 4 is left, in any frame."""
    found = potential(rule(4, "subtract", 5, 0), (0, 3), 10**6)
    assert found.held == found.left == (0, 4) and not found.wraps


def test_a_leak_bounds_what_is_never_reset() -> None:
    assert potential(rule(3, "none", 5, 0), (0, 10), 10**6).held == (0, 37)


def test_what_may_leave_the_type_wraps() -> None:
    found = potential(rule(4, "none", 5, 0), (0, 10), 13)
    assert found.wraps and found.held == BYTE
    assert not potential(rule(4, "none", 5, 0), (0, 10), 12).wraps
