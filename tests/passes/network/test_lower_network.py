"""`lower-network` gives the numbers of `spike.simulate`, for random networks and published ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import FloatAttr, ModuleOp, StringAttr, TensorType, f32, f64, i8, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation
from xdsl.passes import PassPipeline

from triton_dsl.dialects import spike, ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import dense_constant
from triton_dsl.dialects.registry import triton_context, verify_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.dialects.spike.models import MODELS
from triton_dsl.ir.errors import PassError
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.lowering.from_nir import import_nir
from triton_dsl.passes.expose_state import ExposeStatePass
from triton_dsl.passes.network.lower_network import LowerNetworkPass
from triton_dsl.passes.universe import everything

Array = NDArray[Any]

PARAMETERS: dict[str, dict[str, float]] = {
    "lif": {"tau": 8e-3, "r": 3.0, "v_leak": 0.1, "v_threshold": 0.5, "v_reset": -0.1},
    "integrate_fire": {"r": 600.0, "v_threshold": 0.5},
    "cuba_lif": {"tau_syn": 4e-3, "tau_mem": 8e-3, "r": 5.0, "w_in": 2.0, "v_threshold": 0.5},
    "adaptive_lif": {"tau": 8e-3, "tau_adaptation": 4e-2, "kappa": 1.5, "r": 6.0},
    "leaky_integrator": {"tau": 8e-3, "r": 2.0},
    "cuba_integrator": {"tau_syn": 4e-3, "tau_mem": 8e-3, "r": 3.0, "v_leak": -0.1},
    "integrator": {"r": 100.0},
    "sigma_delta": {"bias": 0.1, "threshold": 0.2},
    "threshold": {"threshold": 0.3},
    "relay": {},
}
WITH_V = [m for m in MODELS if m not in ("sigma_delta", "threshold", "relay")]


def program(ops: list[Operation], inputs: list[Any], integration: str = "euler") -> ModuleOp:
    """A module whose `forward` runs the network of `ops`."""
    network = spike.NetworkOp("net", 1e-3, ops, integration)
    function = FuncOp("forward", (inputs, []))
    run = spike.SimulateOp(network, function.args)
    function.body.block.add_ops([run, ReturnOp(*run.outputs)])
    function.update_function_type()
    module = ModuleOp([network, function])
    verify_module(module)
    return module


def lowered(module: ModuleOp) -> ModuleOp:
    """A lowered copy, verified, in which no network is left."""
    copy = module.clone()
    LowerNetworkPass().apply(triton_context(), copy)
    verify_module(copy)
    assert not any(isinstance(op, spike.SimulateOp | spike.NetworkOp) for op in copy.walk())
    return copy


def check_same(module: ModuleOp, inputs: list[Array]) -> tuple[Array, ...]:
    expected = run_module(module, inputs)
    found = run_module(lowered(module), inputs)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    return expected


def steps_of(*shape: int, current: bool = False) -> Any:
    full = [DYNAMIC, DYNAMIC, *shape]
    return TensorType(f32, full) if current else spike.train(*full)


def weights_of(draw: Any, rng: np.random.Generator, shape: tuple[int, ...]) -> Operation:
    kind = draw(st.sampled_from(["f32", "f64", "i8", "trits"]))
    values = rng.integers(-3, 6, shape)
    if kind == "trits":
        return ternary.ConstantOp(np.clip(values, -1, 1).ravel().tolist(), shape)
    if kind == "i8":
        return dense_constant(values, i8)
    return dense_constant(values / 8, f32 if kind == "f32" else f64)


@st.composite
def networks(draw: Any) -> tuple[list[Operation], int, bool]:
    """Populations of all models, connected at random; delays wherever it goes back."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, current = draw(st.integers(1, 5)), draw(st.booleans())
    signal = "current" if current else "spikes"
    ops: list[Operation] = [spike.InputOp("x", [4], signal)]
    shapes: dict[str, tuple[int, ...]] = {"x": (4,)}
    populations: list[Operation] = []
    for index in range(count):
        name, shape = f"n{index}", draw(st.sampled_from([(4,), (2, 2), (3,)]))
        model = draw(st.sampled_from(sorted(MODELS)))
        options: dict[str, Any] = {}
        if model in spike.population.SPIKING_MODELS:
            options["compare"] = draw(st.sampled_from(["gt", "ge"]))
        if model in spike.population.FIRING_MODELS:
            options["reset"] = draw(st.sampled_from(["to_value", "subtract", "none"]))
        parameters: dict[str, Any] = dict(PARAMETERS[model])
        if parameters and draw(st.booleans()):
            last = sorted(parameters)[-1]
            each = dense_constant(parameters[last] * (1 + rng.random(shape)), f32)
            ops.append(each)
            parameters[last] = each.result
        populations.append(spike.PopulationOp(name, model, shape, parameters, **options))
        shapes[name] = shape
    ops += draw(st.permutations(populations))
    names = list(shapes)
    for index in range(draw(st.integers(1, 8))):
        target = draw(st.sampled_from(names[1:]))
        source = draw(st.sampled_from(names))
        back = names.index(source) >= names.index(target)
        delay = draw(st.integers(int(back), 3))
        extra: dict[str, Any] = {}
        if draw(st.booleans()):
            ops.append(delays := dense_constant(rng.integers(0, 3, shapes[source]), i32))
            extra["delays"] = delays.result
        connection = "linear"
        sizes = (int(np.prod(shapes[source])), int(np.prod(shapes[target])))
        if sizes[0] == sizes[1] and draw(st.booleans()):
            connection = "one_to_one"
        channels = sizes[1] if connection == "linear" else shapes[source][0]
        if connection == "linear" or draw(st.booleans()):
            shape = sizes if connection == "linear" else shapes[source]
            ops.append(weights := weights_of(draw, rng, shape))
            extra["weights"] = weights.results[0]
        if draw(st.booleans()):
            ops.append(scale := dense_constant(rng.integers(1, 4, channels) / 4, f32))
            extra["scale"] = scale.result
        if draw(st.booleans()):
            ops.append(bias := dense_constant(rng.integers(-2, 4, channels) / 4, f64))
            extra["bias"] = bias.result
        ops.append(
            spike.ProjectionOp(
                f"e{index}", source, target, connection=connection, delay=delay, **extra
            )
        )
    for op in populations:
        assert isinstance(op, spike.PopulationOp)
        name = op.sym_name.data
        ops.append(spike.ProbeOp(f"p{name}", name))
        if op.model.data in WITH_V and draw(st.booleans()):
            ops.append(spike.ProbeOp(f"v{name}", name, "v"))
    return ops, draw(st.integers(1, 7)), current


@settings(max_examples=60)
@given(networks(), st.sampled_from(["euler", "exact"]), st.integers(0, 2**32))
def test_random_networks(
    drawn: tuple[list[Operation], int, bool], integration: str, seed: int
) -> None:
    ops, steps, current = drawn
    rng = np.random.default_rng(seed)
    x: Array = rng.random((steps, 2, 4)) < 0.6
    if current:
        x = (rng.integers(-4, 12, (steps, 2, 4)) / 8).astype(np.float32)
    module = program(ops, [steps_of(4, current=current)], integration)
    check_same(module, [x])


AFTER = [
    "canonicalize",
    "cse",
    "fold-constants",
    "fuse-spike{exact=true}",
    "hoist-synapses",
    "infer-shapes",
    "inline-spike-layers",
    "skip-silent",
]


@settings(max_examples=25)
@given(networks(), st.permutations(AFTER), st.integers(0, 2**32))
def test_passes_in_any_order_keep_what_a_lowered_network_computes(
    drawn: tuple[list[Operation], int, bool], order: list[str], seed: int
) -> None:
    ops, steps, current = drawn
    rng = np.random.default_rng(seed)
    x: Array = rng.random((steps, 2, 4)) < 0.6
    if current:
        x = (rng.integers(-4, 12, (steps, 2, 4)) / 8).astype(np.float32)
    module = program(ops, [steps_of(4, current=current)])
    expected = run_module(module, [x])
    module = lowered(module)
    for one in order:
        PassPipeline.parse_spec(everything().all_passes, one).apply(triton_context(), module)
        verify_module(module)
    for a, b in zip(run_module(module, [x]), expected, strict=True):
        np.testing.assert_array_equal(a, b)


@settings(max_examples=15)
@given(networks(), st.integers(1, 5))
def test_states_of_lowered_networks_resume(
    drawn: tuple[list[Operation], int, bool], cut: int
) -> None:
    ops, _, current = drawn
    x: Array = np.random.default_rng(cut).integers(0, 2, (6, 2, 4)).astype(bool)
    if current:
        x = x.astype(np.float32)
    module = lowered(program(ops, [steps_of(4, current=current)]))
    expected = run_module(module, [x])
    ExposeStatePass().apply(triton_context(), module)
    verify_module(module)
    types = list(entry_function(module, "forward").function_type.inputs)[1:]
    zeros = [
        np.zeros(
            [2 if n < 0 else n for n in t.get_shape()],
            np.bool_ if "i1" in str(t) else np.float32,
        )
        for t in types
        if isinstance(t, TensorType)
    ]
    first = run_module(module, [x[:cut], *zeros])
    second = run_module(module, [x[cut:], *first[len(expected) :]])
    for a, b, whole in zip(first, second, expected, strict=False):
        np.testing.assert_array_equal(np.concatenate([a, b]), whole)


@pytest.mark.parametrize("kind", ["f32", "i8", "trits"])
@pytest.mark.parametrize("current", [False, True])
def test_convolutions_and_pools(kind: str, current: bool) -> None:
    rng = np.random.default_rng(2)
    kernel = rng.integers(-1, 2, (4, 1, 3, 2))
    weights = {
        "f32": lambda: dense_constant(kernel / 4, f32),
        "i8": lambda: dense_constant(kernel, i8),
        "trits": lambda: ternary.ConstantOp(kernel.ravel().tolist(), kernel.shape),
    }[kind]()
    ops: list[Operation] = [
        weights,
        spike.InputOp("x", [2, 5, 4], "current" if current else "spikes"),
        spike.PopulationOp("c", "integrate_fire", [4, 3, 4], {"r": 2500.0}),
        spike.PopulationOp("wide", "relay", [4, 2, 2]),
        spike.PopulationOp("mean", "relay", [4, 2, 2]),
        spike.PopulationOp("total", "relay", [2, 3, 2]),
        spike.PopulationOp("out", "lif", [4, 2, 2], {"tau": 4e-3, "r": 9.0},
                             reset="subtract"),
        spike.ProjectionOp(
            "conv",
            "x",
            "c",
            weights.results[0],
            connection="conv",
            strides=[2, 1],
            padding=[1, 0, 1, 1],
            groups=2,
        ),
        spike.ProjectionOp("avg", "c", "mean", connection="avg_pool", kernel=[2, 2],
                           strides=[1, 2]),
        spike.ProjectionOp("far", "c", "wide", connection="avg_pool", kernel=[2, 2],
                           strides=[3, 3], padding=[1, 0, 1, 1]),
        spike.ProjectionOp("sum", "x", "total", connection="sum_pool", kernel=[2, 2],
                           padding=[0, 0, 1, 0]),
        spike.ProjectionOp("a", "mean", "out", connection="one_to_one"),
        spike.ProjectionOp("b", "wide", "out", connection="one_to_one", delay=1),
        *(spike.ProbeOp(f"p{name}", name) for name in ("c", "mean", "wide", "total", "out")),
        spike.ProbeOp("v", "out", "v"),
    ]  # fmt: skip
    x: Array = rng.random((5, 2, 2, 5, 4)) < 0.5
    if current:
        x = (x * rng.integers(1, 9, x.shape) / 8).astype(np.float32)
    results = check_same(program(ops, [steps_of(2, 5, 4, current=current)]), [x])
    assert [bool(result.any()) for result in results] == [True] * 6


def test_what_stands_alone_gets_nothing_and_what_goes_in_a_circle_needs_no_input() -> None:
    ops: list[Operation] = [
        bias := dense_constant(np.array([0.25, 0.5, 0.75, 1.0]), f32),
        spike.InputOp("x", [3], "current"),
        spike.PopulationOp("alone", "lif", [2, 2], {"tau": 4e-3, "v_leak": 2.0}),
        spike.PopulationOp("circle", "integrate_fire", [4], {"r": 1000.0}),
        spike.ProjectionOp(
            "self", "circle", "circle", connection="one_to_one", delay=1, bias=bias.result
        ),
        spike.ProbeOp("a", "alone"),
        spike.ProbeOp("v", "alone", "v"),
        spike.ProbeOp("c", "circle"),
    ]
    x = np.full((8, 2, 3), np.float32(3))
    results = check_same(program(ops, [steps_of(3, current=True)]), [x])
    assert results[0].any() and results[2].any()


def test_weights_stay_parameters() -> None:
    """Weights are not read: they may be absent."""
    from triton_dsl.dialects.registry import parse_module

    module = parse_module("""
spike.network @net dt = 1.0e-3 {
  %w = tensor.parameter "fc.weight" : tensor<3x2xf64>
  spike.input @x {shape = array<i64: 3>}
  spike.population @n {model = "lif", shape = array<i64: 2>, parameters = {tau = 2.0e-2 : f64}}
  spike.projection @p @x -> @n weights(%w : tensor<3x2xf64>)
  spike.probe @o @n
}
func.func @forward(%x: !spike.train<?x?x3>) -> !spike.train<?x?x2> {
  %o = spike.simulate @net(%x) : (!spike.train<?x?x3>) -> !spike.train<?x?x2>
  func.return %o : !spike.train<?x?x2>
}""")
    module = lowered(module)
    assert 'tensor.parameter "fc.weight" : tensor<3x2xf64>' in str(module)
    assert entry_function(module, "forward").attributes["spike.dt"] == FloatAttr(1e-3, f64)


def test_delays_below_zero_are_refused() -> None:
    ops: list[Operation] = [
        delays := dense_constant(np.array([-1, 0]), i32),
        spike.InputOp("x", [2]),
        spike.PopulationOp("n", "relay", [2]),
        spike.ProjectionOp("p", "x", "n", connection="one_to_one", delays=delays.result),
        spike.ProbeOp("o", "n"),
    ]
    with pytest.raises(PassError, match="@p expects delays of at least 0"):
        lowered(program(ops, [steps_of(2)]))


@pytest.mark.parametrize(
    "name", ["braille_noDelay_bias_zero.nir", "lif_norse.nir", "two_lif_neurons.nir"]
)
@pytest.mark.parametrize("watched", [False, True])
def test_published_networks(name: str, watched: bool, shared_data: Any) -> None:
    path = shared_data.path("models", "nir", name)
    module = import_nir(path)
    if watched:
        network = next(op for op in module.walk() if isinstance(op, spike.NetworkOp))
        run = next(op for op in module.walk() if isinstance(op, spike.SimulateOp))
        function = entry_function(module, "forward")
        probes = [op for op in network.walk() if isinstance(op, spike.ProbeOp)]
        for probe in probes:
            probe.variable = StringAttr("v")
        again = spike.SimulateOp(network, run.inputs)
        end = function.body.block.last_op
        assert end is not None
        function.body.block.insert_op_before(again, run)
        end.operands = list(again.outputs)
        function.body.block.erase_op(run)
        function.update_function_type()
    rng = np.random.default_rng(7)
    inputs: list[Array] = []
    for type in entry_function(module, "forward").function_type.inputs:
        places = type.get_shape()[2:]  # pyright: ignore[reportAttributeAccessIssue]
        x = rng.random((20, 2, *places)) < 0.4
        drive = 60 * rng.random(x.shape) ** 4
        inputs.append(x if isinstance(type, spike.TrainType) else (x * drive).astype(np.float32))
    results = check_same(module, inputs)
    # The second neuron of two never fires: its threshold is 20.
    assert results[0].any() or (name, watched) == ("two_lif_neurons.nir", False)
