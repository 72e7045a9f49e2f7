"""Networks: what they compute against loops and against the ops of a layer, and their graphs."""

import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr, TensorType, f32, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation

from triton_dsl.dialects import spike, tensor, ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store, dense_constant
from triton_dsl.dialects.registry import parse_module, verify_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.dialects.spike.models import MODELS, discrete
from triton_dsl.dialects.spike.network import undelayed_cycle
from triton_dsl.dialects.spike.network_graph import execution_order
from triton_dsl.ir.errors import TritonError, VerifyError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.runtime.random_values import fill_parameters

Array = NDArray[Any]

RNG = np.random.default_rng(9)
DT = 1e-3


def constant(values: Any) -> tensor.ConstantOp:
    return dense_constant(np.asarray(values, np.float32), f32)


def program(
    ops: list[Operation], inputs: list[Any], dt: float = DT, integration: str = "euler"
) -> ModuleOp:
    """A module whose `forward` runs the network of `ops`."""
    network = spike.NetworkOp("net", dt, ops, integration)
    function = FuncOp("forward", (inputs, []))
    run = spike.SimulateOp(network, function.args)
    function.body.block.add_ops([run, ReturnOp(*run.outputs)])
    function.update_function_type()
    module = ModuleOp([network, function])
    verify_module(module)
    return module


def trains(*shape: int) -> spike.TrainType:
    return spike.train(DYNAMIC, DYNAMIC, *shape)


def currents(*shape: int) -> TensorType[Any]:
    return TensorType(f32, [DYNAMIC, DYNAMIC, *shape])


def test_a_recurrent_pair_with_delays() -> None:
    """Two populations with feedback, several delays and a bias, against a loop."""
    w = RNG.integers(-2, 4, (5, 3)) / 4
    trits = RNG.integers(-1, 2, (3, 3))
    back = RNG.integers(-2, 3, (2, 3)) / 4
    forth = RNG.integers(-1, 4, (3, 2)) / 4
    bias = [0.25, 0.0, -0.25]
    ops: list[Operation] = [
        weights := constant(w),
        inner := ternary.ConstantOp(trits.ravel().tolist(), (3, 3)),
        feed := constant(back),
        out := constant(forth),
        offset := constant(bias),
        gain := constant([0.5, 1.0, 2.0]),
        spike.InputOp("x", [5]),
        spike.PopulationOp("a", "integrate_fire", [3], {"r": 1000.0}, reset="subtract"),
        spike.PopulationOp("b", "integrate_fire", [2], {"r": 1000.0, "v_reset": -0.25}),
        spike.ProjectionOp("p", "x", "a", weights.result, bias=offset.result),
        spike.ProjectionOp("q", "a", "a", inner.result, scale=gain.result, delay=2),
        spike.ProjectionOp("r", "b", "a", feed.result, delay=1),
        spike.ProjectionOp("s", "a", "b", out.result),
        spike.ProbeOp("pa", "a"),
        spike.ProbeOp("vb", "b", "v"),
        spike.ProbeOp("pb", "b"),
    ]
    x = RNG.random((30, 2, 5)) < 0.3
    a, vb, b = run_module(program(ops, [trains(5)]), [x])
    va, v = np.zeros((2, 3)), np.zeros((2, 2))
    zero_a, zero_b = np.zeros((2, 3)), np.zeros((2, 2))
    for t in range(30):
        current = x[t] @ w + bias
        current += (a[t - 2] if t >= 2 else zero_a) @ trits * [0.5, 1.0, 2.0]
        current += (b[t - 1] if t >= 1 else zero_b) @ back
        va = va + current
        np.testing.assert_array_equal(a[t], va > 1)
        va = va - (va > 1)
        v = v + a[t] @ forth
        fired = v > 1
        v = np.where(fired, -0.25, v)
        np.testing.assert_array_equal(b[t], fired)
        np.testing.assert_array_equal(vb[t], v)
    assert a.any() and b.any() and not b.all()


PARAMETERS: dict[str, dict[str, float]] = {
    "lif": {"tau": 8e-3, "r": 3.0, "v_leak": 0.1, "v_threshold": 0.5, "v_reset": -0.1},
    "integrate_fire": {"r": 300.0, "v_threshold": 0.5},
    "cuba_lif": {"tau_syn": 4e-3, "tau_mem": 8e-3, "r": 3.0, "w_in": 2.0, "v_threshold": 0.5},
    "adaptive_lif": {"tau": 8e-3, "tau_adaptation": 4e-2, "kappa": 1.5, "r": 4.0},
    "leaky_integrator": {"tau": 8e-3, "r": 2.0},
    "cuba_integrator": {"tau_syn": 4e-3, "tau_mem": 8e-3, "r": 3.0, "v_leak": -0.1},
    "integrator": {"r": 100.0},
    "sigma_delta": {"bias": 0.1, "threshold": 0.2},
    "threshold": {"threshold": 0.3},
    "relay": {},
}


def euler(model: str, x: Array, p: dict[str, float]) -> Array:
    """The model's differential equations in Euler steps, in f64, as NIR writes them."""
    p = {name: spec.default or 0.0 for name, spec in MODELS[model].items()} | p
    v, i, a, sigma, last, residue = (np.zeros(x.shape[1:]) for _ in range(6))
    outputs: list[Array] = []
    threshold = p.get("v_threshold", 1.0)
    for current in x:
        if model in ("cuba_lif", "cuba_integrator"):
            i = i + DT / p["tau_syn"] * (-i + p["w_in"] * current)
            current = i
        if model in ("integrate_fire", "integrator"):
            v = v + DT * p["r"] * current
        elif "r" in p:
            tau = p.get("tau", p.get("tau_mem", 0.0))
            v = v + DT / tau * (p["v_leak"] - v + p["r"] * current)
        if model in ("leaky_integrator", "cuba_integrator", "integrator"):
            outputs.append(v)
        elif model == "threshold":
            outputs.append(current > p["threshold"])
        elif model == "relay":
            outputs.append(current)
        elif model == "sigma_delta":
            sigma = sigma + current
            change = np.maximum(sigma + p["bias"], 0) - last + residue
            sent = np.where(np.abs(change) >= p["threshold"], change, 0)
            last, residue = np.maximum(sigma + p["bias"], 0), change - sent
            outputs.append(sent)
        else:
            fired = v > threshold + (p["kappa"] * a if model == "adaptive_lif" else 0)
            v = np.where(fired, p["v_reset"], v)
            if model == "adaptive_lif":
                a = a + DT / p["tau_adaptation"] * (fired - a)
            outputs.append(fired)
    return np.array(outputs)


@pytest.mark.parametrize("model", sorted(MODELS))
def test_models_follow_their_differential_equations(model: str) -> None:
    x = (RNG.standard_normal((60, 2, 4)) * 0.5 + 0.3).astype(np.float32)
    ops: list[Operation] = [
        spike.InputOp("x", [4], "current"),
        spike.PopulationOp("n", model, [4], PARAMETERS[model]),
        spike.ProjectionOp("p", "x", "n", connection="one_to_one"),
        spike.ProbeOp("out", "n"),
    ]
    (result,) = run_module(program(ops, [currents(4)]), [x])
    expected = euler(model, x.astype(np.float64), PARAMETERS[model])
    if result.dtype == np.bool_:
        assert (result == expected).mean() > 0.99  # f32 against f64 at the threshold
        assert 0 < result.mean() < 1
    else:
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_weights_of_one_to_one_projections() -> None:
    ops: list[Operation] = [
        weights := constant([[2.0], [0.5]]),
        spike.InputOp("x", [2, 3]),
        spike.PopulationOp("n", "relay", [2, 3]),
        spike.ProjectionOp("p", "x", "n", weights.result, connection="one_to_one"),
        spike.ProbeOp("out", "n"),
    ]
    x = RNG.random((4, 2, 2, 3)) < 0.5
    (result,) = run_module(program(ops, [trains(2, 3)]), [x])
    np.testing.assert_array_equal(result, x * np.array([[2.0], [0.5]]))


@pytest.mark.parametrize("size", [(0, 3), (4, 0)])
def test_no_steps_and_no_samples(size: tuple[int, int]) -> None:
    ops: list[Operation] = [
        weights := constant(np.ones((6, 2))),
        spike.InputOp("x", [2, 3]),
        spike.PopulationOp("n", "lif", [2], {"tau": 0.02}),
        spike.ProjectionOp("p", "x", "n", weights.result),
        spike.ProbeOp("out", "n"),
    ]
    (result,) = run_module(program(ops, [trains(2, 3)]), [np.ones((*size, 2, 3), bool)])
    assert result.shape == (*size, 2)


def test_each_source_neuron_may_have_its_own_delay() -> None:
    extra = np.array([[0, 2], [1, 5]], np.int32)
    ops: list[Operation] = [
        delays := dense_constant(extra, i32),
        spike.InputOp("x", [2, 2]),
        spike.PopulationOp("n", "relay", [4]),
        spike.ProjectionOp("p", "x", "n", connection="one_to_one", delay=1, delays=delays.result),
        spike.ProbeOp("out", "n"),
    ]
    x = RNG.random((9, 3, 2, 2)) < 0.5
    (result,) = run_module(program(ops, [trains(2, 2)]), [x])
    for t, n, place in np.ndindex(9, 3, 4):
        source = t - 1 - int(extra.ravel()[place])
        expected = x[source, n].ravel()[place] if source >= 0 else 0
        assert result[t, n, place] == expected
    ops = [op.detach() or op for op in ops]
    ops[0] = dense_constant(-extra, i32)
    ops[3].operands[0] = ops[0].results[0]
    with pytest.raises(TritonError, match="@p expects delays of at least 0"):
        run_module(program(ops, [trains(2, 2)]), [x])


@pytest.mark.parametrize("compare", ["gt", "ge"])
def test_currents_at_the_threshold(compare: str) -> None:
    ops: list[Operation] = [
        spike.InputOp("x", [3], "current"),
        spike.PopulationOp("n", "threshold", [3], {"threshold": 0.5}, compare=compare),
        spike.ProjectionOp("p", "x", "n", connection="one_to_one"),
        spike.ProbeOp("out", "n"),
    ]
    x = np.array([0.25, 0.5, 0.75], np.float32).reshape(1, 1, 3)
    (result,) = run_module(program(ops, [currents(3)]), [x])
    assert result.ravel().tolist() == [False, compare == "ge", True]


def test_exact_decays() -> None:
    """A leaky integrator that is left alone follows e^(-t/τ)."""
    numbers = {"tau": np.asarray(5e-3), "r": np.asarray(2.0), "v_leak": np.asarray(0.0)}
    found = discrete("leaky_integrator", numbers, DT, "exact")
    assert found["beta"] == pytest.approx(np.exp(-0.2))
    assert found["gain"] == pytest.approx(2.0 * (1 - np.exp(-0.2)))


def test_a_population_is_the_op_of_its_model() -> None:
    """The same numbers give the same bits as `spike.linear` and `spike.lif`."""
    w = RNG.standard_normal((6, 4)).astype(np.float32)
    tau = np.array([4e-3, 5e-3, 8e-3, 2e-2], np.float32)
    ops: list[Operation] = [
        weights := constant(w),
        times := constant(tau),
        spike.InputOp("x", [6]),
        spike.PopulationOp(
            "n", "lif", [4], {"tau": times.result, "r": 4.0}, compare="ge", reset="subtract"
        ),
        spike.ProjectionOp("p", "x", "n", weights.result),
        spike.ProbeOp("out", "n"),
    ]
    module = program(ops, [trains(6)], integration="exact")
    function = FuncOp(
        "layer", ([trains(6), TensorType(f32, [6, 4]), *[TensorType(f32, [4])] * 2], [])
    )
    s, matrix, beta, gain = function.args
    current = spike.LinearOp(s, matrix)
    lif = spike.LifOp(current, beta, gain=gain)
    function.body.block.add_ops([current, lif, ReturnOp(lif.output)])
    function.update_function_type()
    module.body.block.add_op(function)
    x = RNG.random((40, 3, 6)) < 0.4
    decays = np.exp(-DT / tau.astype(np.float64))
    (network,) = run_module(module, [x])
    vectors = [decays.astype(np.float32), (4.0 * (1 - decays)).astype(np.float32)]
    (layer,) = run_module(module, [x, w, *vectors], "layer")
    np.testing.assert_array_equal(network, layer)
    assert network.any()


def test_convolutions_pools_and_matrices_between_populations() -> None:
    kernel = RNG.integers(-1, 2, (3, 2, 3, 3))
    matrix = RNG.integers(-1, 2, (12, 4))
    ops: list[Operation] = [
        weights := ternary.ConstantOp(kernel.ravel().tolist(), (3, 2, 3, 3)),
        dense := ternary.ConstantOp(matrix.ravel().tolist(), (12, 4)),
        spike.InputOp("x", [2, 4, 4]),
        spike.PopulationOp("a", "threshold", [3, 4, 4], {"threshold": 0.5}),
        spike.PopulationOp("m", "relay", [3, 2, 2]),
        spike.PopulationOp("t", "relay", [3, 2, 2]),
        spike.PopulationOp("o", "relay", [4]),
        spike.ProjectionOp("c", "x", "a", weights.result, connection="conv", padding=[1] * 4),
        spike.ProjectionOp("mean", "a", "m", connection="avg_pool", kernel=[2, 2]),
        spike.ProjectionOp("sum", "a", "t", connection="sum_pool", kernel=[2, 2]),
        spike.ProjectionOp("f", "t", "o", dense.result),
        spike.ProbeOp("pm", "m"),
        spike.ProbeOp("pt", "t"),
        spike.ProbeOp("po", "o"),
    ]
    x = RNG.random((3, 2, 2, 4, 4)) < 0.5
    mean, total, out = run_module(program(ops, [trains(2, 4, 4)]), [x])
    padded = np.pad(x.astype(int), [(0, 0)] * 3 + [(1, 1)] * 2)
    for t, n in np.ndindex(3, 2):
        fired = np.zeros((3, 4, 4), bool)
        for o, i, j in np.ndindex(3, 4, 4):
            fired[o, i, j] = (padded[t, n, :, i : i + 3, j : j + 3] * kernel[o]).sum() > 0.5
        pooled = fired.reshape(3, 2, 2, 2, 2).sum((2, 4))
        np.testing.assert_array_equal(total[t, n], pooled)
        np.testing.assert_array_equal(mean[t, n], pooled / 4)
        np.testing.assert_array_equal(out[t, n], pooled.ravel() @ matrix)


def random_network(data: st.DataObject) -> list[Operation]:
    """Populations in any order of the text, connected at random."""
    count = data.draw(st.integers(1, 6))
    names = data.draw(st.permutations([f"n{i}" for i in range(count)]))
    ops: list[Operation] = [spike.InputOp("x", [2], "current")]
    ops += [spike.PopulationOp(name, "relay", [2]) for name in names]
    edges = st.tuples(st.sampled_from(["x", *names]), st.sampled_from(names), st.integers(0, 2))
    for index, (source, target, delay) in enumerate(data.draw(st.lists(edges, max_size=12))):
        ops.append(
            spike.ProjectionOp(f"e{index}", source, target, connection="one_to_one", delay=delay)
        )
    return [*ops, *(spike.ProbeOp(f"p{name}", name) for name in names)]


@settings(max_examples=60)
@given(st.data())
def test_cycles_need_delays_and_the_order_respects_edges(data: st.DataObject) -> None:
    import networkx as nx

    network = spike.NetworkOp("net", DT, random_network(data))
    graph = spike.to_networkx(network)
    instant: Any = nx.MultiDiGraph()
    instant.add_nodes_from(graph)
    instant.add_edges_from((s, t) for s, t, d in graph.edges(data="delay") if d == 0)
    cycle = undelayed_cycle(network)
    assert bool(cycle) == (not nx.is_directed_acyclic_graph(instant))
    if cycle:
        for source, target in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            assert instant.has_edge(source, target)
        with pytest.raises(VerifyError, match="expects a delay of at least 1 in every cycle"):
            verify_module(ModuleOp([network]))
        return
    order = [op.sym_name.data for op in execution_order(network)]
    assert sorted(order) == sorted(n for n in graph if n != "x")
    for source, target in instant.edges():
        assert source == "x" or order.index(source) < order.index(target)

    # Relays add up: what arrives is the sum over all paths of what went in.
    module = program([op.detach() or op for op in list(network.body.block.ops)], [currents(2)])
    x = RNG.integers(0, 3, (4, 1, 2)).astype(np.float32)
    results = dict(zip([n for n in graph if n != "x"], run_module(module, [x]), strict=True))
    results["x"] = x
    for name in order:
        for t in range(4):
            expected = sum(
                results[source][t - delay]
                for source, _, delay in graph.in_edges(name, data="delay")
                if t >= delay
            )
            np.testing.assert_array_equal(results[name][t], expected + np.zeros((1, 2)))


def test_the_graph_of_networkx() -> None:
    ops: list[Operation] = [
        weights := constant(np.zeros((4, 2))),
        spike.InputOp("x", [2, 2]),
        spike.PopulationOp("n", "lif", [2], {"tau": 0.02}),
        spike.ProjectionOp("p", "x", "n", weights.result, delay=3),
        spike.ProjectionOp("q", "n", "n", connection="one_to_one", delay=1),
        spike.ProbeOp("v", "n", "v"),
    ]
    graph = spike.to_networkx(spike.NetworkOp("net", DT, ops))
    found = {name: (graph.nodes[name]["kind"], graph.nodes[name]["shape"]) for name in graph}
    assert found == {"x": ("input", (2, 2)), "n": ("lif", (2,))}
    assert list(graph.edges(keys=True, data="delay")) == [("x", "n", "p", 3), ("n", "n", "q", 1)]
    assert graph.edges["n", "n", "q"]["op"] is ops[4]
    assert graph.graph["probes"] == [("v", "n", "v")]
    assert (graph.name, graph.graph["dt"]) == ("net", DT)


def test_the_examples_of_the_docstrings() -> None:
    def example(kind: type[Operation], start: str) -> str:
        doc = inspect.getdoc(kind) or ""
        return doc[doc.index(start) :]

    network = example(spike.NetworkOp, "spike.network")
    parts = [
        example(spike.InputOp, "spike.input"),
        example(spike.PopulationOp, "spike.population"),
        example(spike.ProjectionOp, "spike.projection"),
        example(spike.ProbeOp, "spike.probe"),
    ]
    run = example(spike.SimulateOp, "%o = ")
    function = f"func.func @forward(%x: !spike.train<32x?x784>) {{\n{run}\nfunc.return\n}}"
    parse_module(f"{network}\n{function}")
    weight = '%w = ternary.parameter "fc.weight" : tensor<784x10x!ternary.trit>'
    module = parse_module(
        "spike.network @net dt = 1.0e-3 {\n" + "\n".join([weight, *parts]) + "\n}"
    )
    assert [op.name for op in module.walk()][3:] == [
        "spike.input", "spike.population", "spike.projection", "spike.probe"]  # fmt: skip


def test_weights_come_from_the_store() -> None:
    text = """
spike.network @net dt = 1.0e-3 {
  %w = tensor.parameter "fc.weight" : tensor<3x2xf32>
  spike.input @x {shape = array<i64: 3>}
  spike.population @n {model = "relay", shape = array<i64: 2>}
  spike.projection @p @x -> @n weights(%w : tensor<3x2xf32>)
  spike.probe @o @n
}
func.func @forward(%x: !spike.train<?x?x3>) -> tensor<?x?x2xf32> {
  %o = spike.simulate @net(%x) : (!spike.train<?x?x3>) -> tensor<?x?x2xf32>
  func.return %o : tensor<?x?x2xf32>
}"""
    module = parse_module(text)
    x = RNG.random((4, 2, 3)) < 0.5
    assert run_module(fill_parameters(module, 0), [x])[0].shape == (4, 2, 2)
    weight = RNG.standard_normal((3, 2)).astype(np.float32)
    attach_store(module, ParameterStore.of({"fc.weight": weight}))
    np.testing.assert_allclose(run_module(module, [x])[0], x @ weight, rtol=1e-6)


def test_float64_is_rounded_where_it_is_used() -> None:
    text = """
spike.network @net dt = 1.0e-3 {
  %w = tensor.parameter "w" : tensor<3x2xT>
  %s = tensor.parameter "s" : tensor<2xT>
  %b = tensor.parameter "b" : tensor<2xT>
  %tau = tensor.parameter "tau" : tensor<2xT>
  spike.input @x {shape = array<i64: 3>, signal = "current"}
  spike.population @n values(%tau : tensor<2xT>) {model = "leaky_integrator",
      shape = array<i64: 2>, each = ["tau"]}
  spike.projection @p @x -> @n weights(%w : tensor<3x2xT>) scale(%s : tensor<2xT>)
      bias(%b : tensor<2xT>)
  spike.probe @o @n
}
func.func @forward(%x: tensor<?x?x3xf32>) -> tensor<?x?x2xf32> {
  %o = spike.simulate @net(%x) : (tensor<?x?x3xf32>) -> tensor<?x?x2xf32>
  func.return %o : tensor<?x?x2xf32>
}"""
    values = {"w": (3, 2), "s": 2, "b": 2, "tau": 2}
    single = {key: RNG.uniform(0.1, 1, shape).astype(np.float32) for key, shape in values.items()}
    x = RNG.standard_normal((4, 2, 3)).astype(np.float32)
    results: list[Any] = []
    for element, dtype in (("f32", np.float32), ("f64", np.float64)):
        module = parse_module(text.replace("xT", f"x{element}"))
        store = {key: value.astype(dtype) for key, value in single.items()}
        attach_store(module, ParameterStore.of(store))
        results.append(run_module(module, [x])[0])
    assert results[0].any()
    np.testing.assert_array_equal(results[0], results[1])


def test_what_a_simulation_refuses() -> None:
    network = spike.NetworkOp("net", DT, [spike.InputOp("x", [3])])
    (wrong,) = Block(arg_types=[trains(4)]).args
    with pytest.raises(Exception, match="expects 1 inputs, got 0"):
        spike.SimulateOp(network, [])
    with pytest.raises(Exception, match=r"expects !spike\.train<\?x\?x3> for @x"):
        spike.SimulateOp(network, [wrong])
    with pytest.raises(Exception, match="expects a network with an input, @empty has none"):
        spike.SimulateOp(spike.NetworkOp("empty", DT), [])


def test_simulations_are_checked_in_their_module() -> None:
    module = program(
        [
            spike.InputOp("x", [2], "current"),
            spike.PopulationOp("n", "relay", [2]),
            spike.ProbeOp("o", "n"),
        ],
        [currents(2)],
    )
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    (run,) = (op for op in module.walk() if isinstance(op, spike.SimulateOp))
    function.attributes[spike.TIME_STEP] = spike.NetworkOp("other", 2e-3).dt
    with pytest.raises(VerifyError, match=r"in steps of 0\.001 s, the function states 0\.002 s"):
        verify_module(module)
    function.attributes.clear()
    run.network = SymbolRefAttr("gone")
    with pytest.raises(VerifyError, match=r"'spike\.simulate' finds no network @gone"):
        verify_module(module)


def test_time_constants_of_each_neuron_are_at_least_a_step() -> None:
    ops: list[Operation] = [
        times := constant([5e-3, 5e-4]),
        spike.InputOp("x", [2], "current"),
        spike.PopulationOp("n", "lif", [2], {"tau": times.result}),
        spike.ProjectionOp("p", "x", "n", connection="one_to_one"),
        spike.ProbeOp("o", "n"),
    ]
    with pytest.raises(TritonError, match=r"expects tau of at least 0\.001 s"):
        run_module(program(ops, [currents(2)]), [np.zeros((3, 1, 2), np.float32)])
