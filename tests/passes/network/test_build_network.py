"""`build-network` keeps what a program computes, and undoes `lower-network`.

Weights and thresholds are multiples of 1/8 in a small range, so that all sums are exact: spikes and
currents must be equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from triton_dsl.dialects import spike, tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import dense_constant
from triton_dsl.dialects.registry import triton_context, verify_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.dialects.spike.types import TrainType
from triton_dsl.ir.errors import PassError, UnsupportedError
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.passes.analysis.time_axis import has_time_first
from triton_dsl.passes.convert_ann_to_snn import ConvertAnnToSnnPass
from triton_dsl.passes.network.build_network import BuildNetworkPass
from triton_dsl.passes.network.lower_network import LowerNetworkPass
from triton_dsl.runtime import pack_trits

Array = NDArray[Any]
Body = Callable[..., SSAValue]
STEPS = 12


def program(body: Body, *types: Any) -> ModuleOp:
    """A module whose `@forward` is `body(add, *arguments)`."""
    block = Block(arg_types=types)

    def add(op: Operation) -> SSAValue:
        block.add_op(op)
        return op.results[0]

    block.add_op(ReturnOp(body(add, *block.args)))
    assert block.last_op is not None
    result = block.last_op.operands[0].type
    module = ModuleOp([FuncOp("forward", (list(types), [result]), Region(block))])
    verify_module(module)
    return module


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def eighths(rng: np.random.Generator, *shape: int) -> Array:
    return (rng.integers(-8, 9, shape) / 8).astype(np.float32)


def built(module: ModuleOp, **options: Any) -> ModuleOp:
    made = module.clone()
    BuildNetworkPass(**options).apply(triton_context(), made)
    verify_module(made)
    return made


def networks(module: ModuleOp) -> list[spike.NetworkOp]:
    return [op for op in module.body.block.ops if isinstance(op, spike.NetworkOp)]


def check(module: ModuleOp, *inputs: Array) -> ModuleOp:
    """Build the network, run both; then take the network apart again and run that."""
    made = built(module)
    assert len(networks(made)) == 1
    wanted = run_module(module, inputs)
    for got, want in zip(run_module(made, inputs), wanted, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    lowered = made.clone()
    LowerNetworkPass().apply(triton_context(), lowered)
    for got, want in zip(run_module(lowered, inputs), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    return made


@settings(max_examples=40)
@given(
    st.integers(0, 2**16),
    st.sampled_from(["subtract", "to_value", "none"]),
    st.sampled_from(["gt", "ge"]),
    st.sampled_from([None, 0.5]),
    st.booleans(),
    st.booleans(),
)
def test_neurons(
    seed: int, reset: str, compare: str, beta: float | None, each: bool, start: bool
) -> None:
    """Two layers with every reset, comparison, leak, thresholds for each neuron, and a start."""
    rng = np.random.default_rng(seed)
    begins = start and reset != "to_value" and beta is None
    levels = np.abs(eighths(rng, 3)) + np.float32(0.25)

    def body(add: Any, x: SSAValue) -> SSAValue:
        for size in (4, 3):
            weight = add(dense_constant(eighths(rng, size, 3), f32))
            current = add(spike.LinearOp(x, weight, bias=add(dense_constant(eighths(rng, 3), f32))))
            options: dict[str, Any] = {"gain": 0.5, "compare": compare, "reset": reset}
            options["threshold"] = add(dense_constant(levels, f32)) if each else 0.75
            if begins:
                first = np.broadcast_to(np.float32(0.25), (2, 3))
                options["initial"] = [add(dense_constant(first, f32))]
            if beta is None:
                x = add(spike.IntegrateFireOp(current, **options))
            else:
                x = add(spike.LifOp(current, beta, v_leak=0.125, **options))
        return x

    x = rng.random((STEPS, 2, 4)) < 0.5
    check(program(body, TrainType((STEPS, 2, 4))), x)


@settings(max_examples=30)
@given(st.integers(0, 2**16), st.sampled_from([(1, 1), (2, 2), (3, 3)]), st.sampled_from([0, 1]))
def test_max_pools(seed: int, kernel: tuple[int, int], pad: int) -> None:
    """The max pool of `convert-ann-to-snn`, with pads and windows that overlap."""
    rng = np.random.default_rng(seed)
    pads = [pad] * 4 if kernel != (1, 1) else [0] * 4
    strides = [int(n) for n in rng.integers(1, 3, 2)]

    def body(add: Any, x: SSAValue) -> SSAValue:
        y = add(tensor.ReluOp(x))
        y = add(tensor.MaxPoolOp(y, kernel, strides, pads))
        return add(tensor.ConvOp(y, add(dense_constant(eighths(rng, 3, 2, 1, 1), f32))))

    module = program(body, TensorType(f32, (2, 2, 5, 6)))
    ConvertAnnToSnnPass(timesteps=8, threshold=1.0).apply(triton_context(), module)
    made = check(module, eighths(rng, 2, 2, 5, 6))
    assert not any(isinstance(op, tensor.MaxPoolOp) for op in made.walk())


def test_products_before_the_first_spikes_are_part_of_it(rng: np.random.Generator) -> None:
    """Convolution, mean, sum and product of currents, delays, feedback-free shortcuts."""

    def body(add: Any, image: SSAValue) -> SSAValue:
        kernel = add(dense_constant(eighths(rng, 3, 2, 3, 3), f32))
        y = add(tensor.ConvOp(image, kernel, padding=(1, 1, 1, 1)))
        x = add(spike.IntegrateFireOp(add(spike.EncodeOp(y, "direct", timesteps=STEPS))))
        pooled = add(spike.AvgPoolOp(x, [2, 2], [2, 2], [0] * 4))
        by = add(dense_constant(np.array([0.5, 1, 2], np.float32).reshape(3, 1, 1), f32))
        late = add(spike.DelayOp(pooled, 2))
        both = add(tensor.SubOp(add(tensor.AddOp(add(tensor.MulOp(pooled, by)), late)), pooled))
        x = add(spike.IntegrateFireOp(both, threshold=0.5))
        bits = add(tensor.ReshapeToOp(add(spike.ToTensorOp(x, f32)), [-2, -3, 12]))
        flat = add(spike.FromTensorOp(bits))
        out = add(spike.LinearOp(flat, add(dense_constant(eighths(rng, 12, 3), f32))))
        return add(spike.DecodeOp(add(spike.LeakyIntegratorOp(out, 1.0)), "membrane", "last"))

    module = program(body, TensorType(f32, (2, 2, 4, 4)))
    made = check(module, eighths(rng, 2, 2, 4, 4))
    (source,) = (op for op in made.walk() if isinstance(op, spike.InputOp))
    assert source.shape.get_values() == (2, 4, 4) and not source.spikes()
    rest = {op.name for op in made.walk() if not isinstance(op.parent_op(), spike.NetworkOp)}
    assert not rest & {"tensor.conv", "spike.linear", "spike.integrate_fire"}


def converted(rng: np.random.Generator) -> ModuleOp:
    """Two layers and a softmax, as a spiking program."""

    def body(add: Any, x: SSAValue) -> SSAValue:
        y = add(tensor.LinearOp(x, add(dense_constant(eighths(rng, 4, 5), f32))))
        y = add(
            tensor.LinearOp(add(tensor.ReluOp(y)), add(dense_constant(eighths(rng, 5, 3), f32)))
        )
        return add(tensor.SoftmaxOp(y, 1))

    module = program(body, TensorType(f32, (DYNAMIC, 4)))
    return module


def test_the_network_alone(rng: np.random.Generator) -> None:
    module = converted(rng)
    ConvertAnnToSnnPass(timesteps=8, threshold=1.0).apply(triton_context(), module)
    made = built(module, expose=True)
    x = eighths(rng, 6, 4)
    (want,) = run_module(module, [x])
    (currents,) = run_module(made, [np.broadcast_to(x, (8, *x.shape))])
    logits = currents.mean(axis=0)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, want, atol=1e-6)
    (function,) = (op for op in made.walk() if isinstance(op, FuncOp))
    remark = str(function.attributes["spike.remark"])
    assert "before the network: spike.encode" in remark
    assert "after the network: spike.decode, tensor.softmax" in remark
    assert [op.name for op in function.body.block.ops] == ["spike.simulate", "func.return"]


def test_programs_without_neurons_are_refused(rng: np.random.Generator) -> None:
    with pytest.raises(PassError, match="has no spiking neurons; run convert-ann-to-snn"):
        built(converted(rng))


def test_what_is_no_part_is_named_and_the_program_stays() -> None:
    def body(add: Any, x: SSAValue) -> SSAValue:
        first = add(spike.IntegrateFireOp(x))
        joined = add(tensor.ConcatenateOp([add(spike.ToTensorOp(first, f32)), x], 2))
        return add(spike.IntegrateFireOp(joined))

    module = program(body, TensorType(f32, (STEPS, 2, 4)))
    before = str(module)
    with pytest.raises(UnsupportedError, match=r"tensor\.concatenate at .*no part of a network"):
        BuildNetworkPass().apply(triton_context(), module)
    assert str(module) == before


def test_ops_before_a_network_alone_are_refused() -> None:
    def body(add: Any, x: SSAValue) -> SSAValue:
        steps = add(spike.EncodeOp(add(tensor.SigmoidOp(x)), "direct", timesteps=STEPS))
        return add(spike.IntegrateFireOp(steps))

    module = program(body, TensorType(f32, (2, 4)))
    check(module, np.zeros((2, 4), np.float32))
    with pytest.raises(UnsupportedError, match=r"tensor\.sigmoid at .*nothing may come before"):
        built(module, expose=True)


@pytest.mark.parametrize("expose", [False, True])
def test_trains_of_the_language_enter_and_leave(expose: bool) -> None:
    """They are tensors of truth values at the edges of a program; exposed they are trains."""
    w = np.array([[1, -1, 0], [1, 1, 1], [0, 1, -1], [-1, 0, 1]])
    source = """layer Net {
    param w: TernaryTensor[4, 3]
    fn forward(s: SpikeTensor[T, N, 4]) -> SpikeTensor[T, N, 3] {
        return integrate_fire(s @ w, threshold=1.5, reset="to_value", compare=">")
    }
}"""
    module = import_tri(source, weights={"w": pack_trits(w)})
    BuildNetworkPass(expose=expose).apply(triton_context(), module)
    verify_module(module)
    x = np.random.default_rng(0).random((40, 2, 4)) < 0.5
    v, expected = np.zeros((2, 3)), list[Any]()
    for spikes in x:
        v = v + spikes @ w
        expected.append(v > 1.5)
        v[expected[-1]] = 0
    np.testing.assert_array_equal(run_module(module, [x])[0], np.stack(expected))
    if expose:
        (data,) = compile_to_target(module, "nir").files.values()
        assert data


def test_many_branches_are_walked_once() -> None:
    """Residual blocks double the ways to the end with each block."""
    blocks = "".join(f"        let x{n + 1} = relu(x{n}) + x{n}\n" for n in range(60))
    source = (
        f"layer Net {{\n    fn forward(x0: Tensor[N, 3]) {{\n{blocks}        return x60\n    }}\n}}"
    )
    module = import_tri(source)
    assert not has_time_first(entry_function(module, "forward").args[0])
