"""Where the states of neurons lie: no narrower than they get, and no wider where it matters."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from triton_dsl.ir.neurons.arithmetic import Options
from triton_dsl.lowering.to_verilog.circuit.stages.neuron_rules import NeuronRule, state_ranges

BYTE = (-128, 127)


def rule(
    decay: int, reset: str, threshold: int, first: int, gain: int = 1, period: int | None = None
) -> NeuronRule:
    """A neuron with a decay of quarters, on i8; with a period it rests."""
    numbers = {"gain": gain, "threshold": threshold, "v_reset": -2}
    if period is None:
        model, numbers, states = "integer_lif", {"decay": decay, **numbers}, (first,)
    else:
        model, states = "refractory_lif", (first, 0)
        numbers = {"beta": decay, "period": period, "v_leak": 0, **numbers}
    return NeuronRule(model, Options("ge", reset, shift=2), tuple(numbers.items()), states, BYTE)


def run(neuron: NeuronRule, currents: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The states before each step and after the last one, without wrapping."""
    p, reset = dict(neuron.numbers), neuron.options.reset
    decay, period = p.get("decay", p.get("beta", 0)), p.get("period", 0)
    v, wait = neuron.first[0], 0
    found = [(v, wait)]
    for current in currents:
        if wait:
            wait -= 1
        else:
            v = decay * v // 4 + p["gain"] * current
            if v >= p["threshold"]:
                left = {"subtract": v - p["threshold"], "to_value": p["v_reset"], "none": v}
                v, wait = left[reset], period
        found.append((v, wait))
    return [states[: len(neuron.first)] for states in found]


NEURONS = st.builds(
    rule,
    st.integers(0, 4),
    st.sampled_from(["subtract", "to_value", "none"]),
    st.integers(1, 9),
    st.integers(-4, 4),
    st.integers(-2, 2),
    st.none() | st.integers(0, 3),
)


@given(neuron=NEURONS, low=st.integers(-4, 3), more=st.integers(0, 2), steps=st.integers(1, 5))
def test_every_state_is_within(neuron: NeuronRule, low: int, more: int, steps: int) -> None:
    ranges = state_ranges(neuron, (low, low + more), steps)
    for currents in product(range(low, low + more + 1), repeat=steps):
        *before, after = run(neuron, currents)
        for k, found in enumerate(ranges):
            values = [states[k] for states in before]
            assert found.held[0] <= min(values) and max(values) <= found.held[1]
            assert found.left[0] <= after[k] <= found.left[1]


def test_a_threshold_bounds_what_is_kept() -> None:
    """Currents of 0 to 3 and a threshold of 5: never more than 4 is left, in any frame."""
    (found,) = state_ranges(rule(4, "subtract", 5, 0), (0, 3), 10**6)
    assert found.held == found.left == (0, 4) and not found.wraps


def test_a_neuron_rests_no_longer_than_its_period() -> None:
    v, wait = state_ranges(rule(4, "subtract", 5, 0, period=3), (0, 3), 10**6)
    assert v.held == (0, 4) and wait.held == (0, 3) and not v.wraps


def test_a_leak_bounds_what_is_never_reset() -> None:
    (found,) = state_ranges(rule(3, "none", 5, 0), (0, 10), 10**6)
    assert found.held == (0, 37)


def test_what_may_leave_the_type_wraps() -> None:
    (found,) = state_ranges(rule(4, "none", 5, 0), (0, 10), 13)
    assert found.wraps and found.held == BYTE
    assert not state_ranges(rule(4, "none", 5, 0), (0, 10), 12)[0].wraps
