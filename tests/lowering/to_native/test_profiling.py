"""Steps of a native program: what they do against formulas, their times against the whole call."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.to_native import roofs
from triton_dsl.lowering.to_native.callables import traced_program
from triton_dsl.lowering.to_native.profiling import profile_program
from triton_dsl.lowering.to_native.program import trace
from triton_dsl.lowering.to_native.target import NativeOptions

pytest.importorskip("llvmlite")

if platform.machine().lower() not in trace.COUNTERS:
    pytest.skip("no counter to time steps with", allow_module_level=True)

INS, HIDDEN, OUTS, BATCH = 96, 130, 33, 5
NETWORK = f"""
func.func @forward(%x: tensor<?x{INS}xf32>) -> tensor<?x{OUTS}xf32> {{
  %w = ternary.parameter "w" : tensor<{INS}x{HIDDEN}x!ternary.trit>
  %v = tensor.parameter "v" : tensor<{HIDDEN}x{OUTS}xf32>
  %h = ternary.matmul %x, %w : tensor<?x{INS}xf32>, tensor<{INS}x{HIDDEN}x!ternary.trit>
       -> tensor<?x{HIDDEN}xf32> loc("hidden"("net.tri":3:5))
  %y = tensor.matmul %h, %v : (tensor<?x{HIDDEN}xf32>, tensor<{HIDDEN}x{OUTS}xf32>)
       -> tensor<?x{OUTS}xf32> loc("folder/net.tri":4:1)
  func.return %y : tensor<?x{OUTS}xf32>
}}
"""


def network() -> Any:
    rng = np.random.default_rng(0)
    module = parse_module(NETWORK)
    trits = rng.integers(-1, 2, (INS, HIDDEN)).astype(np.int8)
    head = rng.normal(size=(HIDDEN, OUTS)).astype(np.float32)
    arrays: dict[str, Any] = {"w": pack_trits(trits), "v": head}
    attach_store(module, ParameterStore.of(arrays))
    return module, {"trits": trits, "v": head}, rng.normal(size=(BATCH, INS)).astype(np.float32)


@pytest.mark.parametrize(("precision", "digits"), [("float32", 3), ("dynamic-int8", 1)])
def test_operations_and_bytes_are_those_of_the_formulas(precision: str, digits: int) -> None:
    module, _, x = network()
    options = {"precision": precision}
    profile = profile_program(module, [x], options, seconds=0.02)
    assert profile.free == {"batch": BATCH}
    hidden, outputs = profile.ops()
    assert (hidden.facts.where, outputs.facts.where) == ("hidden", "net.tri:4:1")
    assert hidden.facts.unit == "bytes" and outputs.facts.unit == "f32"
    assert hidden.facts.operations == 2 * BATCH * INS * HIDDEN * digits
    assert outputs.facts.operations == 2 * BATCH * HIDDEN * OUTS
    panels = -(-HIDDEN // 64) * 64 * INS // 4
    assert hidden.facts.bytes == 4 * BATCH * (INS + HIDDEN) + panels
    plain = 4 * (BATCH * (HIDDEN + OUTS) + HIDDEN * OUTS)
    # Weights of loops stand in whole vectors.
    assert plain <= outputs.facts.bytes <= plain + 4 * HIDDEN * 64
    assert profile.footprint >= panels + 4 * HIDDEN * OUTS


def test_times_of_steps_make_up_the_call() -> None:
    module, _, x = network()
    profile = profile_program(module, [np.tile(x, (40, 1))], seconds=0.1)
    total = sum(step.seconds for step in profile.steps)
    assert all(step.seconds >= 0 for step in profile.steps)
    assert 0.2 * profile.seconds < total < 1.1 * profile.seconds
    for step in profile.ops():
        assert step.compute is not None
        assert step.bound >= max(step.compute, step.memory) > 0
        assert step.limit == ("compute" if step.compute > step.memory else "memory")
        assert step.seconds > step.bound / 8  # the bound is measured at another time


def test_a_traced_program_gives_the_results_of_another() -> None:
    module, weights, x = network()
    program, _ = traced_program(module, NativeOptions(), BATCH)
    trits, head = (weights[key].astype(np.float64) for key in ("trits", "v"))
    expected = x.astype(np.float64) @ trits @ head
    assert np.abs(program(x) - expected).max() < 1e-5 * np.abs(expected).max()


def test_a_machine_without_a_counter_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    module, _, x = network()
    with pytest.raises(OptionError, match=r"steps can be timed on .*, and not on 'riscv64'"):
        profile_program(module, [x])


def test_rates_follow_the_width_of_numbers() -> None:
    rates = {element: roofs.rate(element) for element in ("f32", "f64", "i32")}
    assert 0.3 < rates["f64"] / rates["f32"] < 0.7
    assert rates["i32"] < 2 * rates["f32"]
    assert roofs.rate("bytes") > rates["f32"] / 4
    near, far = roofs.read_bandwidth(1 << 14, 1000), roofs.read_bandwidth(1 << 26)
    assert near > far


INTEGERS = """
func.func @forward(%x: tensor<?x6x9x10xi8>) -> tensor<?x16x7x8xi32> {
  %w = tensor.parameter "w" : tensor<16x6x3x3xi32>
  %i = tensor.convert %x : (tensor<?x6x9x10xi8>) -> tensor<?x6x9x10xi32>
  %y = tensor.conv %i, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>, groups = 1 : i64}
       : (tensor<?x6x9x10xi32>, tensor<16x6x3x3xi32>) -> tensor<?x16x7x8xi32>
  func.return %y : tensor<?x16x7x8xi32>
}
"""


def test_sums_of_small_integers_count_their_products() -> None:
    rng = np.random.default_rng(0)
    module = parse_module(INTEGERS)
    weights = rng.integers(-128, 128, (16, 6, 3, 3)).astype(np.int32)
    attach_store(module, ParameterStore.of({"w": weights}))
    x = rng.integers(-128, 128, (2, 6, 9, 10)).astype(np.int8)
    steps = profile_program(module, [x], seconds=0.02).steps
    products = 2 * 16 * 7 * 8 * 6 * 3 * 3
    operations = max(step.facts.operations or 0 for step in steps)
    # Groups of products are filled up with zeros.
    assert 2 * products <= operations <= 4 * products
