"""`spike.integer_lif` against Python's integers, wrapped around by hand."""

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
    data=st.data(),
)
def test_one_step_after_the_other(
    bits: int, shift: int, gain: int, threshold: int, compare: str, reset: str, data: st.DataObject
) -> None:
    decay = data.draw(st.integers(0, 2**shift))
    most = 2 ** (bits - 1) - 1
    currents = data.draw(st.lists(st.integers(-most - 1, most), min_size=1, max_size=12))
    initial = data.draw(st.integers(-most - 1, most))
    element = TYPES[bits]
    block = Block(arg_types=[TensorType(element, [-(2**63), 1]), TensorType(element, [1])])
    op = spike.IntegerLifOp(
        block.args[0], decay, shift, gain=gain, threshold=threshold, compare=compare,
        reset=reset, v_reset=-5 if reset == "to_value" else None, initial=[block.args[1]],
        final=True,
    )  # fmt: skip
    x = np.array(currents).reshape(-1, 1).astype(numpy_dtype(element))
    found = evaluate(op, [x, np.array([initial]).astype(x.dtype)])
    v, spikes = initial, list[bool]()
    for current in currents:
        v = wrapped(v * decay // 2**shift + gain * current, bits)
        spikes.append(v > threshold if compare == "gt" else v >= threshold)
        if spikes[-1] and reset != "none":
            v = wrapped(v - threshold, bits) if reset == "subtract" else -5
    assert found[0][:, 0].tolist() == spikes and found[1].tolist() == [v]


def test_without_a_leak_it_integrates() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 30, (20, 3, 4)).astype(np.int32)
    block = Block(arg_types=[TensorType(i32, x.shape)])
    leaky = spike.IntegerLifOp(block.args[0], 16, 4, threshold=25)
    plain = spike.IntegrateFireOp(block.args[0], threshold=25)
    assert np.array_equal(evaluate(leaky, [x])[0], evaluate(plain, [x])[0])


def test_what_is_no_decay_is_refused() -> None:
    block = Block(arg_types=[TensorType(i32, [3, 2]), TensorType(f32, [3, 2])])
    with pytest.raises(VerifyException, match=r"expects a decay of at most 2\^3, got 9"):
        spike.IntegerLifOp(block.args[0], 9, 3)
    with pytest.raises(VerifyException, match="expects a shift from 0 to 15"):
        spike.IntegerLifOp(block.args[0], 1, 16)
    with pytest.raises(VerifyException, match="expects a current of i8, i16 or i32"):
        spike.IntegerLifOp(block.args[1], 1, 1)
