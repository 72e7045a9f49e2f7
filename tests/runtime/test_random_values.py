"""Random inputs and parameters: seeded, of the right types."""

import numpy as np
from xdsl.dialects.builtin import FunctionType, TensorType, f32, i1, i8, i64

from triton_dsl.dialects.ternary import trit_tensor
from triton_dsl.ir.trits import unpack_trits
from triton_dsl.runtime.random_values import random_inputs, random_parameter


def test_random_inputs_share_dynamic_sizes() -> None:
    types = [TensorType(f32, [-1, 7]), TensorType(i64, [-1, -1]), TensorType(i1, []),
             TensorType(i8, [5]), trit_tensor(2, 2)]  # fmt: skip
    type = FunctionType.from_lists(types, [])
    one, two = (random_inputs(type, np.random.default_rng(1), (3, 4), 16) for _ in range(2))
    assert [a.shape for a in one] == [(3, 7), (3, 4), (), (5,), (2, 2)]
    assert [str(a.dtype) for a in one] == ["float32", "int64", "bool", "int8", "int8"]
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert set(np.unique(one[4])) <= {-1, 0, 1}


def test_random_parameters_follow_key_and_seed() -> None:
    type = TensorType(f32, [64, 256])
    first = random_parameter("a", type, 0)
    assert np.array_equal(first, random_parameter("a", type, 0))
    assert not np.array_equal(first, random_parameter("b", type, 0))
    assert not np.array_equal(first, random_parameter("a", type, 1))
    assert abs(float(first.std()) - 1 / 8) < 0.01
    assert random_parameter("bn.running_var", type, 0).min() > 0
    trits = unpack_trits(random_parameter("t", trit_tensor(3, 3), 0), (3, 3))
    assert set(np.unique(trits)) <= {-1, 0, 1}
