"""From NIR and back: every number and every edge of generated and of published graphs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import h5py
import nir as nir_package
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import store_of
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_nir import import_nir
from triton_dsl.lowering.from_nir.graph import flat_graph
from triton_dsl.lowering.targets import compile_to_target

nir: Any = nir_package
Array = NDArray[Any]
Shape = tuple[int, ...]


def exported(module: ModuleOp) -> bytes:
    (data,) = compile_to_target(module, "nir").files.values()
    return data


def read_back(data: bytes) -> tuple[Any, ModuleOp]:
    """What `nir` and what we read of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.nir"
        path.write_bytes(data)
        return nir.read(path, type_check=False), import_nir(path)


def same_bits(a: Any, b: Any) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    x, y = np.asarray(a), np.asarray(b)
    same = x.shape == y.shape and x.dtype == y.dtype
    return same and np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()


def assert_same_graph(found: Any, wanted: Any) -> None:
    assert sorted(found.edges) == sorted(wanted.edges)
    assert set(found.nodes) == set(wanted.nodes)
    for name, node in wanted.nodes.items():
        a, b = found.nodes[name].to_dict(), node.to_dict()
        assert a.keys() == b.keys()
        for key in b.keys() - {"metadata"}:
            assert same_bits(a[key], b[key]), (name, key, a[key], b[key])


def assert_same_module(found: ModuleOp, wanted: ModuleOp) -> None:
    found.sym_name = wanted.sym_name
    assert str(found) == str(wanted)
    a, b = store_of(found), store_of(wanted)
    assert a.names() == b.names()
    assert all(same_bits(a.read(name), b.read(name)) for name in b.names())


class Graphs:
    """Draws a graph node by node, with branches, sums and feedback."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.nodes: dict[str, Any] = {}
        self.shapes: dict[str, tuple[Shape, Shape]] = {}
        self.edges: set[tuple[str, str]] = set()
        self.random = np.random.default_rng(data.draw(st.integers(0, 1000)))

    def draw(self, values: Sequence[Any]) -> Any:
        return self.data.draw(st.sampled_from(values))

    def add(self, node: Any, taken: Shape, given: Shape) -> str:
        prefix = self.draw("zyxab.")
        name = f"{prefix}{len(self.nodes)}"
        self.nodes[name], self.shapes[name] = node, (taken, given)
        return name

    def numbers(self, shape: Shape, low: float = -1.0) -> Array:
        dtype = self.draw((np.float32, np.float64))
        uniform = self.draw((False, True))
        values = self.random.uniform(low, 2, shape) if not uniform else np.full(shape, 0.3)
        return values.astype(dtype)

    def step(self) -> None:
        source = self.draw(sorted(self.nodes))
        taken = self.shapes[source][1]
        node, given = self.node(taken)
        name = self.add(node, taken, given)
        self.edges.add((source, name))
        for other in sorted(self.nodes):
            fits = self.shapes[other][1] == taken and other not in (name, source)
            if fits and self.draw((False, False, True)):
                self.edges.add((other, name))

    def feedback(self) -> None:
        inner = [name for name, node in self.nodes.items() if not isinstance(node, nir.Input)]
        for source in sorted(inner):
            for target in sorted(inner):
                fits = self.shapes[source][1] == self.shapes[target][0]
                if fits and self.draw((False, False, False, True)):
                    self.edges.add((source, target))

    def node(self, shape: Shape) -> tuple[Any, Shape]:
        kinds = ["neuron", "Scale", "Delay", "Flatten"]
        kinds += ["Affine", "Linear"] * (len(shape) == 1)
        kinds += ["Conv1d"] * (len(shape) == 2) + ["Conv2d", "pool"] * (len(shape) == 3)
        kind = self.draw(kinds)
        if kind == "neuron":
            return self.neuron(shape), shape
        if kind == "Scale":
            return nir.Scale(self.numbers(shape)), shape
        if kind == "Delay":
            dtype, steps = self.draw((np.float32, np.float64)), self.random.integers(0, 4, shape)
            if self.draw((False, True)):
                steps = np.full(shape, 2)
            return nir.Delay((steps / 10000).astype(dtype)), shape
        if kind == "Flatten":
            start = self.draw(range(len(shape)))
            end = self.draw(range(start, len(shape)))
            given = (*shape[:start], int(np.prod(shape[start : end + 1])), *shape[end + 1 :])
            return nir.Flatten({"input": np.array(shape)}, start, end), given
        if kind in ("Affine", "Linear"):
            weight = self.numbers((self.draw((1, 3)), *shape))
            if kind == "Linear":
                return nir.Linear(weight), (len(weight),)
            return nir.Affine(weight, self.numbers((len(weight),))), (len(weight),)
        if kind == "pool":
            return self.pool(shape)
        return self.conv(shape)

    def neuron(self, shape: Shape) -> Any:
        kind = self.draw((nir.I, nir.LI, nir.IF, nir.LIF, nir.CubaLI, nir.CubaLIF, nir.Threshold))
        fields = [name for name in kind.__dataclass_fields__ if not name.endswith("_type")]
        values = {
            name: self.numbers(shape, 0.001 if name.startswith("tau") else -1.0)
            for name in fields
            if name != "metadata"
        }
        if "w_in" in values:  # nir computes it from the shape of another
            values["w_in"] = values["w_in"].astype(values["v_leak"].dtype)
            if "v_threshold" in values:
                values["w_in"] = values["w_in"].astype(values["v_threshold"].dtype)
        return kind(**values)

    def pool(self, shape: Shape) -> tuple[Any, Shape]:
        kind = self.draw((nir.SumPool2d, nir.AvgPool2d))
        size, pads = (1, min(2, shape[2])), (self.draw((0, 1)), 0)
        strides = (self.draw((1, 2)), self.draw((1, 2)))
        given = [
            (n + 2 * p - k) // s + 1
            for n, p, k, s in zip(shape[1:], pads, size, strides, strict=True)
        ]
        return kind(np.array(size), np.array(strides), np.array(pads)), (shape[0], *given)

    def conv(self, shape: Shape) -> tuple[Any, Shape]:
        axes = len(shape) - 1
        size = tuple(min(n, self.draw((1, 2, 3))) for n in shape[1:])
        strides = tuple(self.draw((1, 2)) for _ in size)
        groups = self.draw((1, shape[0]))
        channels = groups * self.draw((1, 2))
        padding: Any = self.draw(("same", "valid", (1,) * axes, (0,) * axes))
        if padding == "same":
            given = [-(-n // s) for n, s in zip(shape[1:], strides, strict=True)]
        else:
            pads = padding if isinstance(padding, tuple) else (0,) * axes
            given = [
                (n + 2 * p - k) // s + 1
                for n, p, k, s in zip(shape[1:], cast("Shape", pads), size, strides, strict=True)
            ]
        weight = self.numbers((channels, shape[0] // groups, *size))
        bias = self.numbers((channels,))
        if axes == 1:
            pad = padding[0] if isinstance(padding, tuple) else padding
            node = nir.Conv1d(None, weight, strides[0], pad, 1, groups, bias)
            node.input_shape = shape[1]
        else:
            node = nir.Conv2d(None, weight, strides, padding, (1, 1), groups, bias)
            node.input_shape = shape[1:]
        return node, (channels, *given)

    def graph(self) -> Any:
        for _ in range(self.draw((1, 2))):
            shape = self.draw(((3,), (2, 5), (2, 4, 3), (1,)))
            self.add(nir.Input(np.array(shape)), shape, shape)
        for _ in range(self.draw(range(1, 9))):
            self.step()
        if self.draw((False, True)):
            self.feedback()
        sources = {edge[0] for edge in self.edges}
        for name in sorted(set(self.nodes) - sources):
            given = self.shapes[name][1]
            self.edges.add((name, self.add(nir.Output(np.array(given)), given, given)))
        if not any(isinstance(node, nir.Output) for node in self.nodes.values()):
            given = self.shapes[name := min(self.nodes)][1]
            self.edges.add((name, self.add(nir.Output(np.array(given)), given, given)))
        return nir.NIRGraph(self.nodes, sorted(self.edges), type_check=False)


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_generated_graphs_come_back(data: st.DataObject) -> None:
    graph = Graphs(data).graph()
    module = import_nir(graph, dt=1e-4)
    found, again = read_back(exported(module))
    assert_same_graph(found, graph)
    assert_same_module(again, module)


def grouped(graph: Any, members: set[str]) -> Any:
    """A graph with some nodes in a subgraph, which has an Input or Output for each edge over it."""
    inner: dict[str, Any] = {name: graph.nodes[name] for name in members}
    outer = {name: node for name, node in graph.nodes.items() if name not in members}
    within: list[tuple[str, str]] = []
    around: list[tuple[str, str]] = []
    for number, (a, b) in enumerate(graph.edges):
        port = f"port{number}"
        if a in members and b in members:
            within.append((a, b))
        elif a in members:
            inner[port] = nir.Output(None)
            within.append((a, port))
            around.append((f"sub.{port}", b))
        elif b in members:
            inner[port] = nir.Input(None)
            within.append((port, b))
            around.append((a, f"sub.{port}"))
        else:
            around.append((a, b))
    outer["sub"] = nir.NIRGraph(inner, within, type_check=False)
    return nir.NIRGraph(outer, around, type_check=False)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_generated_graphs_in_subgraphs(data: st.DataObject) -> None:
    """Nodes in a subgraph in a subgraph have the edges that they had, and their names in front."""
    graph = Graphs(data).graph()
    ends = (nir.Input, nir.Output)
    inner = {name for name, node in graph.nodes.items() if not isinstance(node, ends)}
    members = {name for name in sorted(inner) if data.draw(st.booleans())} or inner
    nested = grouped(graph, members)
    deep = {name for name in sorted(members) if data.draw(st.booleans())}
    if deep:
        nested.nodes["sub"] = grouped(nested.nodes["sub"], deep)
    new = {name: f"sub.{name}" if name in members else name for name in graph.nodes}
    new |= {name: f"sub.sub.{name}" for name in deep}
    flat, notes = flat_graph(nested.to_dict(), "")
    assert sorted(flat.nodes) == sorted(new.values())
    assert sorted(flat.edges) == sorted((new[a], new[b]) for a, b in graph.edges)
    assert notes == []


@pytest.mark.parametrize(
    "name", ["braille_noDelay_bias_zero.nir", "lif_norse.nir", "two_lif_neurons.nir"]
)
def test_published_graphs_come_back(name: str, shared_data: Any) -> None:
    path = shared_data.path("models", "nir", name)
    module = import_nir(path)
    found, again = read_back(exported(module))
    assert_same_graph(found, nir.read(path))
    assert_same_module(again, module)


def test_the_same_network_gives_the_same_bytes() -> None:
    weight = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)
    graph = nir.NIRGraph.from_list(nir.Linear(weight), nir.Threshold(np.ones(40)))
    assert exported(import_nir(graph)) == exported(import_nir(graph))


def test_files_hold_no_times(tmp_path: Path) -> None:
    path = tmp_path / "graph.nir"
    graph = nir.NIRGraph.from_list(nir.Linear(np.ones((40, 30))), nir.Threshold(np.ones(40)))
    path.write_bytes(exported(import_nir(graph)))
    with h5py.File(path) as file:
        items: list[Any] = []
        file.visititems(lambda _, item: items.append(item))
        times = [h5py.h5g.get_objinfo(item.id).mtime for item in items]
    assert times and not any(times)


def test_the_files_timing_comes_back() -> None:
    graph = nir.NIRGraph.from_list(nir.Threshold(np.ones(2)))
    module = import_nir(graph, dt=2e-3, integration="exact")
    found, again = read_back(exported(module))
    assert found.metadata == {"dt": 2e-3, "integration": "exact"}
    assert_same_module(again, module)


def _ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


NODES: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...]]] = {
    "Affine": (nir.Affine(_ones(3, 2), _ones(3)), (2,), (3,)),
    "Affine of each row": (nir.Affine(_ones(4, 3, 2), _ones(4, 3)), (4, 2), (4, 3)),
    "Linear": (nir.Linear(_ones(3, 2)), (2,), (3,)),
    "Linear of each row": (nir.Linear(_ones(2, 4, 3, 2)), (2, 4, 2), (2, 4, 3)),
    "Scale": (nir.Scale(_ones(3, 2)), (3, 2), (3, 2)),
    "Conv1d": (nir.Conv1d(7, _ones(3, 2, 3), 1, 1, 1, 1, _ones(3)), (2, 7), (3, 7)),
    "Conv2d": (
        nir.Conv2d((6, 7), _ones(4, 1, 3, 3), (2, 1), (1, 1), (1, 1), 2, _ones(4)),
        (2, 6, 7),
        (4, 3, 7),
    ),
    "SumPool2d": (nir.SumPool2d(*np.array([[2, 2], [2, 2], [0, 0]])), (2, 6, 6), (2, 3, 3)),
    "AvgPool2d": (nir.AvgPool2d(*np.array([[2, 3], [2, 1], [1, 1]])), (2, 6, 6), (2, 4, 6)),
    "Flatten": (nir.Flatten({"input": np.array([2, 3, 4])}, 1, 2), (2, 3, 4), (2, 12)),
    "Delay": (nir.Delay(np.array([1e-4, 0.0, 3e-4])), (3,), (3,)),
    "Threshold": (nir.Threshold(_ones(3)), (3,), (3,)),
    "I": (nir.I(_ones(3)), (3,), (3,)),
    "LI": (nir.LI(_ones(3), _ones(3), _ones(3)), (3,), (3,)),
    "IF": (nir.IF(_ones(3), _ones(3), _ones(3)), (3,), (3,)),
    "LIF": (nir.LIF(*[_ones(3, 2)] * 5), (3, 2), (3, 2)),
    "CubaLI": (nir.CubaLI(*[_ones(3)] * 5), (3,), (3,)),
    "CubaLIF": (nir.CubaLIF(*[_ones(3)] * 7), (3,), (3,)),
}
"""A node of every kind, what it takes and what it gives."""


@pytest.mark.parametrize("name", NODES)
def test_each_kind_of_node_comes_back(name: str) -> None:
    node, taken, given = NODES[name]
    nodes = {"i": nir.Input(np.array(taken)), "n": node, "o": nir.Output(np.array(given))}
    graph = nir.NIRGraph(nodes, [("i", "n"), ("n", "o")], type_check=False)
    module = import_nir(graph)
    found, again = read_back(exported(module))
    assert_same_graph(found, graph)
    assert_same_module(again, module)


def test_every_kind_of_node_is_there() -> None:
    kinds = set(nir.ir.__all__) - {"NIRNode", "dict2NIRNode", "str2NIRNode"}
    assert kinds == {name.split()[0] for name in NODES} | {"Input", "Output", "NIRGraph"}


@pytest.mark.parametrize("target", ["interpreter", "pytorch", "onnx", "native"])
def test_matrices_of_each_row(target: str) -> None:
    """An Affine whose weight has more axes multiplies each row of its input by its own matrix."""
    rng = np.random.default_rng(0)
    weight, bias = (rng.standard_normal(s).astype(np.float32) for s in ((2, 4, 3, 5), (2, 4, 3)))
    graph = nir.NIRGraph.from_list(nir.Affine(weight, bias))
    x = rng.standard_normal((6, 2, 2, 4, 5)).astype(np.float32)
    module = import_nir(graph)
    run = run_module(module, [x]) if target == "interpreter" else run_target(module, target, [x])[1]
    wanted = np.einsum("rcoi,tnrci->tnrco", weight.astype(np.float64), x) + bias
    np.testing.assert_allclose(run[0], wanted, rtol=1e-5, atol=1e-5)
