"""`streamline`: activations with a scale for each channel, and those that rise and fall.

As in `test_streamline`: every pair of int8, all finite f32, and scales that are powers of two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from triton_dsl.dialects import tensor, ternary

from .equivalence import prove
from .rewrites import proves
from .test_streamline import (
    QUANTISERS,
    Body,
    convolved,
    known,
    levels,
    on_floats,
    rows,
    same,
    shaped,
    streamlined,
    times,
    times_floats,
)  # fmt: skip


@proves(rows(["counted", "_reached"]), by="enumeration")
@pytest.mark.parametrize("scale", [0.0625, [0.0625, -0.125]], ids=str)
@pytest.mark.parametrize("most", [4.0, 15.0])
def test_activations_that_rise_and_fall(scale: Any, most: float) -> None:
    """Distances from a middle: the thresholds of rises less those of falls."""

    def body(insert: Any, x: SSAValue) -> SSAValue:
        hidden = levels(insert, times(insert, x), scale=scale, most=most)
        moved = insert(tensor.AddOp(hidden, known(insert, [-2.0, -3.0])))
        return times(insert, insert(tensor.AbsOp(moved)))

    after = same(body, [1, 2])
    assert any(isinstance(op, tensor.SubOp) for op in after.walk())


def scaled(insert: Any, x: SSAValue, scale: Any, bias: Any) -> SSAValue:
    """A factor and a summand for each channel."""
    factor = insert(tensor.MulOp(x, shaped(insert, scale, x)))
    return insert(tensor.AddOp(factor, shaped(insert, bias, x)))


def trits_on_sums(insert: Any, x: SSAValue) -> SSAValue:
    hidden = scaled(insert, convolved(insert, x, (1, 1)), [0.25, 0.5], [1.0, 0.5])
    trits = insert(ternary.ConstantOp([1, -1, 1, 1], (2, 1, 2, 1)))
    return insert(ternary.ConvOp(hidden, trits, padding=(1, 0, 0, 0), groups=2))


def weights_on_levels(insert: Any, x: SSAValue) -> SSAValue:
    hidden = levels(insert, convolved(insert, x, (1, 1)), scale=[0.125, -0.0625])
    hidden = scaled(insert, hidden, [0.0625, -32.0], [-0.5, 64.0])
    weight = known(insert, np.array([3, -1, 2, 7], np.float32).reshape(2, 1, 2, 1) / 8)
    return insert(tensor.ConvOp(hidden, weight, None, padding=(1, 0, 0, 0), groups=2))


def sums_of_arguments(insert: Any, x: SSAValue) -> SSAValue:
    return times_floats(insert, scaled(insert, x, [0.25, -0.5], [1.0, 0.125]), 0.5)


def sums_of_levels(insert: Any, x: SSAValue) -> SSAValue:
    """Of up to 16 in one channel, and fewer in the other."""
    hidden = levels(insert, times(insert, x), scale=[0.125, -0.015625], most=15.0)
    return times_floats(insert, scaled(insert, hidden, [0.25, 32.0], [-0.5, 0.125]), [0.25, 0.5])


@proves(rows(["by_channel", "_product_grid"]), by="enumeration")
@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (trits_on_sums, [1, 1, 2, 1]),
        (weights_on_levels, [1, 1, 2, 1]),
        (sums_of_arguments, [1, 2]),
        (sums_of_levels, [1, 2]),
    ],
)
def test_activations_with_a_scale_for_each_channel(body: Body, shape: Any) -> None:
    """Alone in depthwise convolutions that pad, and summed with a common step."""
    same(body, shape)


@proves(rows(["_quantised"]))
@pytest.mark.parametrize("name", QUANTISERS)
def test_quantised_arguments_with_a_scale_for_each_channel(name: str) -> None:
    """For all pairs of finite f32."""
    quantiser, _ = QUANTISERS[name]

    def body(insert: Any, x: SSAValue) -> SSAValue:
        hidden = scaled(insert, quantiser(insert, x), [0.5, 1.0], [1.0, -2.0])
        return times_floats(insert, hidden, 0.5)

    before = on_floats(body, [1, 2])
    prove(before, streamlined(before), signed_zeros=False)
