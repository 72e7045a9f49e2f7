"""Canonicalisation keeps every bit, for any weights, gains and spikes."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, f64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.rewriter import InsertPoint
from xdsl.transforms.canonicalize import CanonicalizePass

from triton_dsl.dialects import spike, tensor, ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import dense_constant

Array = NDArray[Any]

SCALES = st.one_of(
    st.sampled_from([1.0, 2.0, 0.5, -4.0, 2.0**-30, 2.0**90, 0.7, 0.1, -3.0]),
    st.floats(-1e3, 1e3, width=32),
)


@settings(max_examples=60)
@given(st.data())
def test_gains_and_scales_move_without_a_trace(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    element, dtype = data.draw(st.sampled_from([(f32, np.float32), (f64, np.float64)]))
    size = data.draw(st.sampled_from([1.0, 1e-35, 1e30]))
    weight = (rng.standard_normal((6, 3)) * size).astype(dtype)
    constant = data.draw(st.booleans())
    function = FuncOp("forward", ([spike.train(9, 2, 6), TensorType(element, [6, 3])], []))
    s, w = function.args
    builder = Builder(InsertPoint.at_end(function.body.block))

    def scalar(value: float) -> Any:
        return builder.insert(dense_constant(np.asarray(value, dtype), element)).result

    matrix = builder.insert(dense_constant(weight, element)).result if constant else w
    exact = data.draw(st.booleans())
    if exact:
        trits = rng.integers(-1, 2, 18).tolist()
        matrix = builder.insert(ternary.ConstantOp(trits, (6, 3))).result
    options: dict[str, Any] = {}
    if exact or data.draw(st.booleans()):
        options["scale"] = scalar(data.draw(SCALES))
    if data.draw(st.booleans()):
        bias = (rng.standard_normal(3) * size).astype(dtype)
        options["bias"] = builder.insert(dense_constant(bias, element)).result
    current: Any = builder.insert(spike.LinearOp(s, matrix, **options)).result
    if data.draw(st.booleans()):
        current = builder.insert(tensor.MulOp(scalar(data.draw(SCALES)), current)).result
    gain = data.draw(st.none() | SCALES)
    kind: Any = data.draw(st.sampled_from([spike.LifOp, spike.LeakyIntegratorOp]))
    neuron = builder.insert(kind(current, 0.9, gain=gain))
    builder.insert(ReturnOp(neuron.output))
    function.update_function_type()
    module = ModuleOp([function])

    spikes = rng.random((9, 2, 6)) < 0.5
    before = run_module(module, [spikes, weight])
    CanonicalizePass().apply(Context(), module)
    module.verify()
    np.testing.assert_array_equal(run_module(module, [spikes, weight])[0], before[0])
