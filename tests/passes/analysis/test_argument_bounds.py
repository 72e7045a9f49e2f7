"""Bounds noted on arguments: read as written, and followed by those who look for ranges."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.ir.printing import module_text
from triton_dsl.passes.adder_graph import InputRange
from triton_dsl.passes.adder_graph.optimize_adder_graph import input_range
from triton_dsl.passes.analysis.argument_bounds import ArgumentBounds, note_bounds, noted_bounds

TEXT = """func.func @forward(%a: tensor<?x3xi8>, %x: tensor<?x2x2xi8>) -> tensor<?x4xi8> {
  %y = tensor.flatten %x {start = 1 : i64, end = 2 : i64} : (tensor<?x2x2xi8>) -> tensor<?x4xi8>
  func.return %y : tensor<?x4xi8>
}"""

ENDS = st.lists(st.integers(-(2**31), 2**31), min_size=4, max_size=4)


@given(low=ENDS, high=ENDS, text=st.booleans())
def test_bounds_are_read_as_they_were_noted(low: list[int], high: list[int], text: bool) -> None:
    module = parse_module(TEXT)
    given_range = InputRange(-5, 9)
    bounds = ArgumentBounds(given_range, np.array(low), np.array(high))
    note_bounds(entry_function(module, "forward"), 1, bounds)
    if text:
        module = parse_module(module_text(module))
    function = entry_function(module, "forward")
    found = noted_bounds(function.args[1])
    assert found is not None and found.range == given_range
    assert found.pairs == tuple(zip(low, high, strict=True))
    assert noted_bounds(function.args[0]) is None
    first = function.body.block.first_op
    assert first is not None and noted_bounds(first.results[0]) is None


def test_ranges_follow_notes_through_moves() -> None:
    module = parse_module(TEXT)
    function = entry_function(module, "forward")
    moved = function.body.block.ops.first
    assert moved is not None
    (value,) = moved.results
    assert input_range(value) == InputRange(-128, 127)
    bounds = ArgumentBounds(InputRange(0, 6), np.zeros(4, np.int64), np.full(4, 5))
    note_bounds(function, 1, bounds)
    assert input_range(value) == InputRange(0, 6)
    assert input_range(function.args[0]) == InputRange(-128, 127)
