"""The reducer finds what matters of sequences and of modules, and every step is a valid module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module, verify_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.tools.reduction import Runnable, plainer, smaller_modules, smallest


def shorter(items: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for index in range(len(items)):
        yield items[:index] + items[index + 1 :]


@given(st.lists(st.integers(0, 9), max_size=12), st.sets(st.integers(0, 9), max_size=3))
def test_a_sequence_keeps_what_fails(items: list[int], needed: set[int]) -> None:
    whole = tuple([*items, *needed])
    left = smallest(whole, shorter, lambda c: needed <= set(c))
    assert sorted(left) == sorted(needed)


def test_the_number_of_tries_is_bounded() -> None:
    tried: list[int] = []

    def fails(number: int) -> bool:
        tried.append(number)
        return True

    assert smallest(0, lambda n: [n + 1], fails, tries=5) == 5
    assert tried == [1, 2, 3, 4, 5]


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.operands and op.name != "func.return"]


NETWORK = """
func.func @forward(%x: tensor<?x6xf32>, %y: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x6xf32>) {
  %w = ternary.parameter "w" : tensor<6x4x!ternary.trit>
  %b = tensor.parameter "b" : tensor<4xf32>
  %a = tensor.relu %x : (tensor<?x6xf32>) -> tensor<?x6xf32>
  %c = ternary.linear %a, %w bias(%b : tensor<4xf32>) {activation = "relu"}
       : tensor<?x6xf32>, tensor<6x4x!ternary.trit> -> tensor<?x4xf32>
  %d = tensor.add %c, %y : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %e = tensor.sigmoid %d : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %e, %a : tensor<?x4xf32>, tensor<?x6xf32>
}
"""


def network() -> Runnable:
    module = parse_module(NETWORK)
    rng = np.random.default_rng(0)
    values: dict[str, Any] = {
        "w": pack_trits(rng.integers(-1, 2, (6, 4)).astype(np.int8)),
        "b": rng.standard_normal(4).astype(np.float32),
    }
    attach_store(module, ParameterStore.of(values))
    inputs = [rng.standard_normal((2, n)).astype(np.float32) for n in (6, 4)]
    return Runnable(module, tuple(inputs))


def test_a_module_is_reduced_to_the_op_that_fails() -> None:
    def fails(candidate: Runnable) -> bool:
        run_module(candidate.module, candidate.inputs)
        return "ternary.linear" in names(candidate.module)

    left = smallest(network(), smaller_modules, fails)
    assert names(left.module) == ["ternary.linear"]
    (op,) = [op for op in left.module.walk() if op.name == "ternary.linear"]
    assert len(op.operands) == 2  # the bias went
    assert left.inputs[0].shape == (1, 1)  # one feature of one sample is enough
    assert not left.inputs[0].any()


def test_every_smaller_module_is_valid_and_runs() -> None:
    whole = network()
    count = 0
    for candidate in smaller_modules(whole):
        verify_module(candidate.module)
        results = run_module(candidate.module, candidate.inputs)
        assert results
        count += 1
    assert count > 20
    assert names(whole.module) == names(network().module)  # the original stays


def test_plainer_numbers_end() -> None:
    array = np.array([1.23456, -7.5], np.float32)
    seen = 0
    while (following := next(plainer(array), None)) is not None:
        array = following
        seen += 1
    assert seen < 5
    np.testing.assert_array_equal(array, [0, 0])
