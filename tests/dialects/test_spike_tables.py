"""Bounds, random inputs, calibration, shape inference and semantic checks know spike trains."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, TensorType, f32, i8, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from triton_dsl.dialects import spike, tensor, ternary
from triton_dsl.dialects.interpret import check_inputs
from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import OptionError, PassError, TritonError
from triton_dsl.passes.analysis.magnitude import magnitude
from triton_dsl.passes.calibration.observation import bind_samples, observe
from triton_dsl.passes.infer_shapes import InferShapesPass
from triton_dsl.runtime.equivalence import SemanticsCheck
from triton_dsl.runtime.random_values import random_inputs

NETWORK = """
func.func @forward(%s: !spike.train<?x?x4>, %v: tensor<?x3xf32>) -> tensor<?x?x3xf32> {
  %w = tensor.constant dense<0.5> : tensor<4x3xf32>
  %r = tensor.constant dense<-0.25> : tensor<3x3xf32>
  %i = spike.linear %s, %w : !spike.train<?x?x4>, tensor<4x3xf32> -> tensor<?x?x3xf32>
  %y = spike.recurrent %i, %r, %v : (tensor<?x?x3xf32>, tensor<3x3xf32>, tensor<?x3xf32>)
      -> tensor<?x?x3xf32> {
  ^bb0(%a: tensor<?x?x3xf32>, %b: tensor<3x3xf32>, %c: tensor<?x3xf32>, %f: tensor<?x?x3xf32>):
    %m = spike.linear %f, %b : tensor<?x?x3xf32>, tensor<3x3xf32> -> tensor<?x?x3xf32>
    %n = tensor.add %a, %m
        : (tensor<?x?x3xf32>, tensor<?x?x3xf32>) -> tensor<?x?x3xf32>
    %t = spike.lif %n initial(%c : tensor<?x3xf32>) {beta = 0.5 : f64}
        : (tensor<?x?x3xf32>) -> !spike.train<?x?x3>
    %u = spike.to_tensor %t : (!spike.train<?x?x3>) -> tensor<?x?x3xf32>
    spike.yield %u : tensor<?x?x3xf32>
  }
  func.return %y : tensor<?x?x3xf32>
}
"""


def test_bounds_of_synapses() -> None:
    block = Block(arg_types=[spike.train(8, DYNAMIC, 6), TensorType(i8, [6, 4])])
    s, unknown = block.args
    rng = np.random.default_rng(0)
    trits = rng.integers(-1, 2, (6, 4))
    exact = spike.LinearOp(s, ternary.ConstantOp(trits.ravel().tolist(), (6, 4)))
    np.testing.assert_array_equal(magnitude(exact.result), np.abs(trits).sum(axis=0))
    loose = spike.LinearOp(s, unknown)
    np.testing.assert_array_equal(magnitude(loose.result), [6 * 128] * 4)
    assert magnitude(spike.ToTensorOp(s, i32).result) == 1
    assert magnitude(tensor.AddOp(loose, loose).result).max() == 2 * 6 * 128
    assert magnitude(s) == 1


def test_bounds_of_spiking_convolutions() -> None:
    weight_type = TensorType(ternary.trit, [4, 2, 3, 3])
    block = Block(arg_types=[spike.train(8, 1, 2, 5, 5), weight_type, TensorType(i32, [4])])
    s, weight, bias = block.args
    result = magnitude(spike.ConvOp(s, weight).result)
    assert result.shape == (4, 1, 1) and result.max() == 18
    assert magnitude(spike.ConvOp(s, weight, bias=bias).result) == 2.0**31


def test_random_trains_and_what_fits_an_argument() -> None:
    type = FunctionType.from_lists([spike.train(DYNAMIC, DYNAMIC, 9)], [])
    (spikes,) = random_inputs(type, np.random.default_rng(0), (3, 4), 16)
    assert spikes.shape == (3, 4, 9) and spikes.dtype == np.bool_
    assert 0 < spikes.mean() < 1
    function = FuncOp("f", ([spike.train(3, DYNAMIC, 9)], []))
    assert check_inputs(function, [spikes])[0] is spikes
    for wrong in (spikes.astype(np.int8), spikes[:2], spikes[0]):
        with pytest.raises(TritonError, match=r"expected !spike\.train<3x\?x9> as bool"):
            check_inputs(function, [wrong])


def test_shapes_reach_the_bodies_of_recurrent_ops() -> None:
    module = parse_module(NETWORK)
    InferShapesPass(batch=2).apply(Context(), module)
    module.verify()
    for op in module.walk():
        if op.name in ("spike.lif", "spike.recurrent"):
            assert op.results[0].type.get_shape() == (DYNAMIC, 2, 3)  # pyright: ignore
    text = NETWORK.replace("!spike.train<?x?x4>", "!spike.train<5x?x4>")
    module = parse_module(text)
    InferShapesPass().apply(Context(), module)
    (recurrent,) = (op for op in module.walk() if isinstance(op, spike.RecurrentOp))
    assert str(recurrent.output.type) == "tensor<5x?x3xf32>"
    assert str(recurrent.feedback().type) == "tensor<5x?x3xf32>"


def test_semantics_are_checked_on_random_trains() -> None:
    module = parse_module(NETWORK)
    check = SemanticsCheck()
    check.start(module)
    assert check.skipped == {}
    for wrong in (0.5, 0.75):
        broken = parse_module(NETWORK.replace("dense<0.5>", f"dense<{wrong}>"))
        step = InferShapesPass()
        check.before(module, [step])
        if wrong == 0.5:
            check.after(broken, [step])
            assert check.checked == ["infer-shapes"]
        else:
            with pytest.raises(PassError, match="'infer-shapes' changes the result"):
                check.after(broken, [step])


def test_calibration_on_trains() -> None:
    module = parse_module("""
func.func @forward(%s: !spike.train<5x?x4>) -> tensor<5x?x3xf32> {
  %w = tensor.constant dense<0.5> : tensor<4x3xf32>
  %i = spike.linear %s, %w : !spike.train<5x?x4>, tensor<4x3xf32> -> tensor<5x?x3xf32>
  %v = spike.leaky_integrator %i {beta = 0.5 : f64} : (tensor<5x?x3xf32>) -> tensor<5x?x3xf32>
  func.return %v : tensor<5x?x3xf32>
}""")
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    samples = np.zeros((7, 5, 4), np.bool_)
    samples[6, 2] = True
    found = bind_samples(function, {"s": samples}, size=3)
    assert [batch[0].shape for batch in found] == [(5, 3, 4), (5, 3, 4), (5, 1, 4)]
    np.testing.assert_array_equal(np.concatenate([b[0] for b in found], 1).swapaxes(0, 1), samples)
    current = next(op for op in module.walk() if isinstance(op, spike.LinearOp))
    ranges = observe(module, function, {"i": current.result}, found)
    assert (ranges["i"].low, ranges["i"].high) == (0.0, 2.0)
    with pytest.raises(OptionError, match="expected samples of shape"):
        bind_samples(function, {"s": samples[:, :4]}, size=3)


def test_floats_are_no_integers() -> None:
    (x,) = Block(arg_types=[TensorType(f32, [4, 2])]).args
    assert spike.EncodeOp(x, "delta", threshold=0.5).result.type == spike.train(4, 2)
