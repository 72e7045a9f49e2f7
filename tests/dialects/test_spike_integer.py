"""Neurons on integers against Python's, wrapped around by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType, f32, i8, i16, i32
from xdsl.ir import Block
from xdsl.utils.exceptions import VerifyException

from triton_dsl.dialects import spike
from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.interpret import evaluate

TYPES = {8: i8, 16: i16, 32: i32}


def wrapped(value: int, bits: int) -> int:
    """A number in two's complement of so many bits."""
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


@given(
    bits=st.sampled_from([8, 16, 32]),
    shift=st.integers(0, 6),
    gain=st.integers(-3, 3),
    threshold=st.integers(-20, 120),
    compare=st.sampled_from(["gt", "ge"]),
    reset=st.sampled_from(["subtract", "to_value", "none"]),
    period=st.none() | st.integers(0, 3),
    data=st.data(),
)
def test_one_step_after_the_other(
    bits: int,
    shift: int,
    gain: int,
    threshold: int,
    compare: str,
    reset: str,
    period: int | None,
    data: st.DataObject,
) -> None:
    decay = data.draw(st.integers(0, 2**shift))
    most = 2 ** (bits - 1) - 1
    currents = data.draw(st.lists(st.integers(-most - 1, most), min_size=1, max_size=12))
    initial = data.draw(st.integers(-most - 1, most))
    element = TYPES[bits]
    rest = data.draw(st.integers(0, 3))
    states = [initial] if period is None else [initial, rest]
    steps, state = TensorType(element, [-(2**63), 1]), TensorType(element, [1])
    block = Block(arg_types=[steps, *[state] * len(states)])
    common: dict[str, Any] = {
        "shift": shift, "gain": gain, "threshold": threshold, "compare": compare, "reset": reset,
        "v_reset": -5 if reset == "to_value" else None, "initial": block.args[1:], "final": True,
    }  # fmt: skip
    if period is None:
        op = spike.NEURONS["integer_lif"](block.args[0], decay=decay, **common)
    else:
        kind = spike.NEURONS["refractory_lif"]
        op = kind(block.args[0], beta=decay, period=period, **common)
    x = np.array(currents).reshape(-1, 1).astype(numpy_dtype(element))
    found = evaluate(op, [x, *(np.array([value]).astype(x.dtype) for value in states)])
    v, wait, spikes = initial, rest if period is not None else 0, list[bool]()
    for current in currents:
        if wait:
            wait -= 1
            spikes.append(False)
            continue
        v = wrapped(v * decay // 2**shift + gain * current, bits)
        spikes.append(v > threshold if compare == "gt" else v >= threshold)
        if spikes[-1]:
            left = {"subtract": wrapped(v - threshold, bits), "to_value": -5, "none": v}
            v, wait = left[reset], period or 0
    assert found[0][:, 0].tolist() == spikes and found[1].tolist() == [v]
    assert period is None or found[2].tolist() == [wait]


def test_without_a_leak_it_integrates() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 30, (20, 3, 4)).astype(np.int32)
    block = Block(arg_types=[TensorType(i32, x.shape)])
    leaky = spike.IntegerLifOp(block.args[0], 16, 4, threshold=25)
    plain = spike.IntegrateFireOp(block.args[0], threshold=25)
    assert np.array_equal(evaluate(leaky, [x])[0], evaluate(plain, [x])[0])


def test_what_is_no_decay_is_refused() -> None:
    block = Block(arg_types=[TensorType(i32, [3, 2]), TensorType(f32, [3, 2])])
    with pytest.raises(VerifyException, match=r"decay as a finite number from 0\.0 to 8\.0, got 9"):
        spike.IntegerLifOp(block.args[0], 9, 3)
    with pytest.raises(VerifyException, match="expects v_leak 0 with a shift"):
        spike.NEURONS["refractory_lif"](block.args[0], 2, 1, v_leak=1, shift=2)
    with pytest.raises(VerifyException, match=r"expects a shift from 0 to 0 for .*f32"):
        spike.NEURONS["refractory_lif"](block.args[1], 0.5, 1, shift=2)
    with pytest.raises(VerifyException, match="expects a shift from 0 to 15"):
        spike.IntegerLifOp(block.args[0], 1, 16)
    with pytest.raises(VerifyException, match="expects a current of i8, i16 or i32"):
        spike.IntegerLifOp(block.args[1], 1, 1)
