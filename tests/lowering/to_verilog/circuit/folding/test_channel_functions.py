"""What follows a product, as one function a channel: the same numbers as the interpreter gives."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.ir import Operation

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.lowering.to_verilog.circuit.folding.channel_functions import (
    Bounded,
    ChannelFunction,
    Staircase,
    channel_function,
    following,
)

Array = NDArray[Any]
CHANNELS = 3

STEPS = {
    "bias": "%y = tensor.add %x, %b : (T, tensor<3xi32>) -> T",
    "less": "%y = tensor.sub %x, %b : (T, tensor<3xi32>) -> T",
    "from": "%y = tensor.sub %b, %x : (tensor<3xi32>, T) -> T",
    "relu": "%y = tensor.relu %x : (T) -> T",
    "clamp": "%y = tensor.clamp %x {min = -7.0 : f64, max = 11.0 : f64} : (T) -> T",
    "most": "%y = tensor.minimum %x, %s : (T, tensor<i32>) -> T",
    "least": "%y = tensor.maximum %x, %b : (T, tensor<3xi32>) -> T",
    "times": "%y = tensor.mul %x, %b : (T, tensor<3xi32>) -> T",
    "minus": "%y = tensor.neg %x : (T) -> T",
    "requantize": (
        "%y = tensor.requantize %x, %m, %h, %z {low = -5 : i64, high = 6 : i64} "
        ": (T, tensor<3xi32>, tensor<3xi32>, tensor<i32>) -> T"
    ),
    "thresholds": (
        "%y_ = tensor.multi_threshold %x, %t : (T, tensor<3x4xi32>) -> tensor<?x3xi8>\n"
        "%y = tensor.convert %y_ : (tensor<?x3xi8>) -> T"
    ),
    "bit": (
        '%y_ = tensor.compare %x, %b {predicate = "gt"} : (T, tensor<3xi32>) -> tensor<?x3xi1>\n'
        "%y = tensor.convert %y_ : (tensor<?x3xi1>) -> T"
    ),
}


def program(names: list[str]) -> str:
    lines: list[str] = []
    value = "x0"
    for index, name in enumerate(names):
        text = STEPS[name].replace("%x", f"%{value}").replace("%y", f"%x{index + 1}")
        lines.append(re.sub(r"\bT\b", "tensor<?x3xi32>", text))
        value = f"x{index + 1}"
    body = "\n".join(lines)
    return f"""func.func @forward(%x: tensor<?x3xi32>) -> tensor<?x3xi32> {{
  %b = tensor.constant dense<[3, -7, 0]> : tensor<3xi32>
  %s = tensor.constant dense<9> : tensor<i32>
  %m = tensor.constant dense<[5, -3, 0]> : tensor<3xi32>
  %h = tensor.constant dense<[3, 2, 4]> : tensor<3xi32>
  %z = tensor.constant dense<1> : tensor<i32>
  %t = tensor.constant dense<[[-9, -2, 3, 4], [5, 5, 5, 5], [-1, 0, 30, 60]]> : tensor<3x4xi32>
  %x0 = tensor.relu %x : (tensor<?x3xi32>) -> tensor<?x3xi32>
  {body}
  func.return %{value} : tensor<?x3xi32>
}}"""


def first_op(text: str) -> tuple[Any, Operation]:
    module = parse_module(text)
    ops = entry_function(module, "forward").body.walk()
    first = next(op for op in ops if op.name == "tensor.relu")
    return module, first


def by_function(function: ChannelFunction, x: Array) -> Array:
    if isinstance(function, Bounded):
        return np.clip(x + np.array(function.offsets), function.low, function.high)
    columns = [
        function.base + (sign * x[:, c, None] >= np.array(row, np.int64).reshape(1, -1)).sum(1)
        for c, (sign, row) in enumerate(zip(function.signs, function.thresholds, strict=True))
    ]
    return np.stack(columns, axis=1)


@settings(max_examples=60)
@given(names=st.lists(st.sampled_from(list(STEPS)), max_size=4), most=st.integers(1, 60))
def test_the_function_is_what_the_ops_compute(names: list[str], most: int) -> None:
    module, first = first_op(program(names))
    low, high = np.zeros(CHANNELS, np.int64), np.full(CHANNELS, most)
    ops = following(first.results[0])
    function, count = channel_function(ops, 1, low, high)
    x = np.tile(np.arange(most + 1, dtype=np.int32)[:, None], (1, CHANNELS))
    seen: list[Array] = [x]

    def watch(op: Operation, operands: Any, results: Any) -> None:
        del operands
        if op in ops[:count]:
            seen.append(np.asarray(results[0]))

    run_module(module, [x], observer=watch)
    expected = seen[-1].astype(np.int64)
    assert np.array_equal(by_function(function, x.astype(np.int64)), expected)
    bounds = function.bounds(low, high)
    assert bounds == list(zip(expected.min(0).tolist(), expected.max(0).tolist(), strict=True))


@pytest.mark.parametrize(
    ("names", "kind", "count"),
    [
        (["bias", "relu"], Bounded, 2),
        (["bias", "relu", "less"], Bounded, 2),
        (["bias", "relu", "clamp", "less"], Staircase, 4),
        (["bias", "requantize"], Staircase, 2),
        (["thresholds"], Staircase, 2),
        (["times"], Bounded, 0),
    ],
)
def test_the_longest_beginning_is_taken(names: list[str], kind: type[Any], count: int) -> None:
    _, first = first_op(program(names))
    ops = following(first.results[0])
    ends = np.full(CHANNELS, -1000), np.full(CHANNELS, 1000)
    function, taken = channel_function(ops, 1, *ends)
    assert isinstance(function, kind)
    assert taken == count


def test_what_could_wrap_around_is_not_taken() -> None:
    _, first = first_op(program(["bias"]))
    ends = np.full(CHANNELS, 0), np.full(CHANNELS, 2**31 - 1)
    assert channel_function(following(first.results[0]), 1, *ends)[1] == 0
