"""Positions along a free axis are counted, not summed over all before each."""

import numpy as np
import pytest

from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.to_native.callables import native_program

POSITIONS = """layer Net {
    fn forward(x: Tensor[1, P, 5]) { return [positions(x, axis=1), sum(positions(x, axis=1) * 2)] }
}"""


@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_numbers_are_those_of_numpy(count: int) -> None:
    places, total = native_program(import_tri(POSITIONS))(np.zeros((1, count, 5), np.float32))
    np.testing.assert_array_equal(places, np.arange(count))
    assert total == count * (count - 1)
