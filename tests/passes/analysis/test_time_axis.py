"""Runs are known by who takes them at the end, through what works on each step before."""

import numpy as np
import pytest

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module, triton_context
from triton_dsl.dialects.spike.types import dense_type
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.passes.analysis.time_axis import has_time_first
from triton_dsl.passes.infer_shapes import InferShapesPass

RUNS = {
    "a product": "lif(x @ w)",
    "a product, a function, a product": "lif(relu(x @ w) @ v)",
    "a sum with a product": "lif((x + x * 0.5) @ w)",
    "another shape": "lif(reshape(x, [T, N, 3, 1]))",
}
OTHERS = {
    "samples that an encoder gives steps": "lif(encode(x @ w, timesteps=8))",
    "no spikes": "x @ w",
}


def program(body: str, argument: str = "Tensor[T, N, 3]") -> str:
    return f"""layer Net {{
    param w: Tensor[3, 4]
    param v: Tensor[4, 4]
    fn forward(x: {argument}) {{ return {body} }}
}}"""


@pytest.mark.parametrize("name", RUNS)
def test_steps_and_batch_of_what_layers_take_first(name: str) -> None:
    module = import_tri(program(RUNS[name]))
    InferShapesPass(batch=2, timesteps=8).apply(triton_context(), module)
    (argument,) = entry_function(module, "forward").args
    assert has_time_first(argument)
    assert dense_type(argument).get_shape() == (8, 2, 3)


@pytest.mark.parametrize("name", OTHERS)
def test_what_has_no_time(name: str) -> None:
    (argument,) = entry_function(import_tri(program(OTHERS[name], "Tensor[N, 3]")), "forward").args
    assert not has_time_first(argument)


def test_a_run_inside_a_recurrence_and_a_weight_beside_it() -> None:
    module = parse_module("""
func.func @forward(%x: tensor<8x2x4xf32>, %y: tensor<8x2x4xf32>, %w: tensor<4x4xf32>)
    -> !spike.train<8x2x4> {
  %s = spike.recurrent %x, %y, %w
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<4x4xf32>) -> !spike.train<8x2x4> {
  ^bb0(%a: tensor<8x2x4xf32>, %b: tensor<8x2x4xf32>, %u: tensor<4x4xf32>,
       %back: !spike.train<8x2x4>):
    %i = spike.linear %back, %u : !spike.train<8x2x4>, tensor<4x4xf32> -> tensor<8x2x4xf32>
    %j = tensor.add %a, %i : (tensor<8x2x4xf32>, tensor<8x2x4xf32>) -> tensor<8x2x4xf32>
    %k = tensor.add %b, %j : (tensor<8x2x4xf32>, tensor<8x2x4xf32>) -> tensor<8x2x4xf32>
    %t = spike.lif %k {beta = 0.5 : f64} : (tensor<8x2x4xf32>) -> !spike.train<8x2x4>
    spike.yield %t : !spike.train<8x2x4>
  }
  func.return %s : !spike.train<8x2x4>
}
""")
    args = entry_function(module, "forward").args
    assert [has_time_first(argument) for argument in args] == [True, True, False]


def test_many_branches_are_walked_once() -> None:
    """Residual blocks double the ways to the end with each block."""
    lines = "".join(f"        let x{n + 1} = relu(x{n}) + x{n}\n" for n in range(200))
    source = f"""layer Net {{
    fn forward(x0: Tensor[T, N, 3]) -> SpikeTensor[T, N, 3] {{
{lines}        return lif(x200)
    }}
}}"""
    assert has_time_first(entry_function(import_tri(source), "forward").args[0])


def test_an_engine_with_known_steps_takes_currents_of_a_layer() -> None:
    """LiteRT needs to know the steps; the program leaves them open."""
    rng = np.random.default_rng(0)
    weights = {n: rng.integers(-2, 3, (s, 4)).astype(np.float32) for n, s in (("w", 3), ("v", 4))}
    module = import_tri(program("lif(relu(x @ w) @ v)"), weights=weights)
    x = rng.integers(-1, 2, (5, 2, 3)).astype(np.float32)
    _, (spikes,), _ = run_target(module, "tflite", [x])
    assert 0 < np.asarray(spikes).sum() < spikes.size
    np.testing.assert_array_equal(spikes, run_module(module, [x])[0])
