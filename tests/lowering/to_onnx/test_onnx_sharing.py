"""Equal weights stand in an ONNX file once, also where one is read as another's transpose."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_onnx.graph import Element, Graph, Node
from triton_dsl.lowering.to_onnx.sharing import share_weights


class Tied(nn.Module):
    """Tokens to tokens; the table is the weight of the last layer."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(classes, 32), nn.Linear(32, classes)
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32)
        self.head.weight = self.table.weight
        with torch.no_grad():
            self.second.weight.copy_(self.first.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.second(self.first(self.table(tokens)).relu()))


@pytest.mark.parametrize("classes", [100, 32])
def test_a_table_and_the_layer_tied_to_it_are_one(classes: int, tmp_path: Any) -> None:
    torch.manual_seed(0)
    model, tokens = Tied(classes).eval(), torch.randint(0, classes, (3, 7))
    artifact = compile_to_target(from_torch(model, tokens), "onnx")
    (data,) = artifact.files.values()
    graph = onnx.load_from_string(data).graph
    large = [tuple(value.dims) for value in graph.initializer if len(value.dims) == 2]
    assert sorted(large) == sorted([(classes, 32), (32, 32)])
    assert Counter(node.op_type for node in graph.node)["Transpose"] == 1
    (tmp_path / "tied.onnx").write_bytes(data)
    again = compile_to_target(from_onnx(tmp_path / "tied.onnx"), "onnx")
    for file in (data, *again.files.values()):
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        (got,) = session.run(None, {session.get_inputs()[0].name: tokens.numpy()})
        with torch.no_grad():
            np.testing.assert_allclose(np.asarray(got), model(tokens).numpy(), 1e-4, 1e-5)


def shared(weights: dict[str, np.ndarray[Any, Any]], readers: list[Node]) -> Graph:
    """A graph of these after `share_weights`."""
    graph = Graph(21, nodes=readers)
    for name, array in weights.items():
        graph.add_initializer(name, array)
    share_weights(graph)
    return graph


def test_only_what_is_the_same_is_shared() -> None:
    first = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    other, zero = first.T.copy(), first.copy()
    other[-1, -1], zero[0, 0] = 0.0, -0.0
    first[0, 0] = 0.0
    weights = {"a": first, "b": other, "c": zero, "d": first.astype(np.float64), "e": first[:8]}
    readers = [Node("MatMul", ["x", name], [f"y_{name}"], {}) for name in weights]
    graph = shared(weights, readers)
    assert set(graph.initializers) == set(weights)
    assert len(graph.nodes) == len(weights)


def test_a_transpose_is_shared_with_products_alone() -> None:
    table = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    weights = {"turned": table.T.copy(), "rows": table, "same": table.copy()}

    def gathers(*names: str) -> list[Node]:
        return [Node("Gather", [name, "i"], [f"picked_{name}"], {}) for name in names]

    last = Node("MatMul", ["x", "turned"], ["y"], {})
    graph = shared(weights, [*gathers("rows", "same"), last])
    assert list(graph.initializers) == ["rows"]
    assert graph.nodes[0] == Node("Transpose", ["rows"], ["turned"], {"perm": [1, 0]})
    assert graph.elements["turned"] is Element.FLOAT
    graph = shared(weights, gathers(*weights))
    assert list(graph.initializers) == ["turned", "rows"]
