"""A network with feedback among two populations, and one of sigma-delta neurons, for the tests.

python tests/lowering/to_loihi2/feedback.py    # with Lava: records what it gives
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore

RECORDED = Path(__file__).parents[2] / "lava_peer" / "recorded" / "feedback.npz"
STEPS = 60

PROGRAM = """
func.func @forward(%x: !spike.train<?x?x6>, %change: tensor<?x?x4xi32>)
    -> (!spike.train<?x?x4>, tensor<?x?x3xi32>, tensor<?x?x2xi32>) {
  %late = spike.delay %x {steps = 1 : i64} : (!spike.train<?x?x6>) -> !spike.train<?x?x6>
  %w = tensor.parameter "WX" : tensor<6x4xi8>
  %in = spike.linear %late, %w : !spike.train<?x?x6>, tensor<6x4xi8> -> tensor<?x?x4xi32>
  %all, %first, %other = spike.recurrent %in : (tensor<?x?x4xi32>)
      -> (tensor<?x?x7xi32>, !spike.train<?x?x4>, tensor<?x?x3xi32>) {
  ^bb0(%i: tensor<?x?x4xi32>, %fed: tensor<?x?x7xi32>):
    %1 = tensor.slice %fed {starts = array<i64: 0, 0, 0>, ends = array<i64: 9223372036854775807,
        9223372036854775807, 4>, steps = array<i64: 1, 1, 1>}
      : (tensor<?x?x7xi32>) -> tensor<?x?x4xi32>
    %2 = tensor.slice %fed {starts = array<i64: 0, 0, 4>, ends = array<i64: 9223372036854775807,
        9223372036854775807, 7>, steps = array<i64: 1, 1, 1>}
      : (tensor<?x?x7xi32>) -> tensor<?x?x3xi32>
    %t = tensor.convert %1 : (tensor<?x?x4xi32>) -> tensor<?x?x4xi1>
    %own = spike.from_tensor %t : (tensor<?x?x4xi1>) -> !spike.train<?x?x4>
    %r = tensor.parameter "WR" : tensor<4x4xi8>
    %back = spike.linear %own, %r : !spike.train<?x?x4>, tensor<4x4xi8> -> tensor<?x?x4xi32>
    %old = spike.delay %2 {steps = 2 : i64} : (tensor<?x?x3xi32>) -> tensor<?x?x3xi32>
    %b = tensor.parameter "WB" : tensor<3x4xi8>
    %far = spike.linear %old, %b : tensor<?x?x3xi32>, tensor<3x4xi8> -> tensor<?x?x4xi32>
    %sum = tensor.add %i, %back : (tensor<?x?x4xi32>, tensor<?x?x4xi32>) -> tensor<?x?x4xi32>
    %heard = tensor.add %sum, %far : (tensor<?x?x4xi32>, tensor<?x?x4xi32>) -> tensor<?x?x4xi32>
    %s = spike.loihi_lif %heard {du = 2000.0 : f64, dv = 300.0 : f64, threshold = 90.0 : f64}
      : (tensor<?x?x4xi32>) -> !spike.train<?x?x4>
    %d = spike.delay %s {steps = 1 : i64} : (!spike.train<?x?x4>) -> !spike.train<?x?x4>
    %u = tensor.parameter "WU" : tensor<4x3xi8>
    %up = spike.linear %d, %u : !spike.train<?x?x4>, tensor<4x3xi8> -> tensor<?x?x3xi32>
    %n = spike.loihi_ternary_lif %up {du = 3000.0 : f64, dv = 200.0 : f64, threshold = 70.0 : f64,
        threshold_low = -50.0 : f64} : (tensor<?x?x3xi32>) -> tensor<?x?x3xi32>
    %st = spike.to_tensor %s : (!spike.train<?x?x4>) -> tensor<?x?x4xi32>
    %y = tensor.concatenate %st, %n {axis = 2 : i64}
      : (tensor<?x?x4xi32>, tensor<?x?x3xi32>) -> tensor<?x?x7xi32>
    spike.yield %y, %s, %n : tensor<?x?x7xi32>, !spike.train<?x?x4>, tensor<?x?x3xi32>
  }
  %came = spike.delay %change {steps = 1 : i64} : (tensor<?x?x4xi32>) -> tensor<?x?x4xi32>
  %v = tensor.parameter "WV" : tensor<4x5xi8>
  %changed = spike.linear %came, %v : tensor<?x?x4xi32>, tensor<4x5xi8> -> tensor<?x?x5xi32>
  %m = spike.delay %other {steps = 1 : i64} : (tensor<?x?x3xi32>) -> tensor<?x?x3xi32>
  %p = tensor.parameter "WM" : tensor<3x5xi8>
  %signed = spike.linear %m, %p : tensor<?x?x3xi32>, tensor<3x5xi8> -> tensor<?x?x5xi32>
  %dense = tensor.add %changed, %signed
    : (tensor<?x?x5xi32>, tensor<?x?x5xi32>) -> tensor<?x?x5xi32>
  %c = tensor.constant dense<[-640, 0, 128, 1280, 64]> : tensor<5xi32>
  %hidden = spike.loihi_sigma_delta %dense bias(%c : tensor<5xi32>)
    {threshold = 1920.0 : f64, shift = 6 : i64} : (tensor<?x?x5xi32>) -> tensor<?x?x5xi32>
  %next = spike.delay %hidden {steps = 1 : i64} : (tensor<?x?x5xi32>) -> tensor<?x?x5xi32>
  %o = tensor.parameter "WO" : tensor<5x2xi8>
  %last = spike.linear %next, %o : tensor<?x?x5xi32>, tensor<5x2xi8> -> tensor<?x?x2xi32>
  %out = spike.loihi_sigma_delta %last {threshold = 900.0 : f64, activation = "none",
    cumulative = true, gain = 2.0 : f64} : (tensor<?x?x2xi32>) -> tensor<?x?x2xi32>
  func.return %first, %other, %out
    : !spike.train<?x?x4>, tensor<?x?x3xi32>, tensor<?x?x2xi32>
}
"""


def feedback(text: str = PROGRAM) -> ModuleOp:
    """Feedback of spikes and of signed ones, a step and three later; changes of changes."""
    rng = np.random.default_rng(8)
    sizes = {
        "WX": (6, 4),
        "WR": (4, 4),
        "WB": (3, 4),
        "WU": (4, 3),
        "WM": (3, 5),
        "WV": (4, 5),
        "WO": (5, 2),
    }
    weights = {name: rng.integers(-100, 128, size).astype(np.int8) for name, size in sizes.items()}
    module = parse_module(text)
    attach_store(module, ParameterStore.of(weights))
    return module


def inputs(samples: int = 2) -> list[Any]:
    """Random ones; changes are seldom."""
    rng = np.random.default_rng(9)
    spikes = rng.random((STEPS, samples, 6)) < 0.3
    changes = rng.integers(-60, 80, (STEPS, samples, 4)) * (rng.random((STEPS, samples, 4)) < 0.4)
    return [spikes, changes.astype(np.int32)]


if __name__ == "__main__":
    from triton_dsl.lowering.engine import run_target

    engine, results, _ = run_target(feedback(), "loihi2", inputs())
    assert engine.startswith("lava"), engine
    save: Any = np.savez_compressed
    save(RECORDED, **{f"y{n}": x for n, x in enumerate(results)})
