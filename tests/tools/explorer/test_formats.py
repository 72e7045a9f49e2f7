"""Other forms of a record, read by the `onnx` package and by what their formats say."""

import json
import re
from typing import Any

import numpy as np
import onnx
import pytest

from triton_dsl import explore
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.tools.explorer.exploration import Exploration

PROGRAM = """
func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %half = tensor.constant dense<0.5> : tensor<4xf32>
  %y = tensor.mul %x, %half : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    loc("block/one/mul"("m.onnx":1:1))
  %z = tensor.relu %y {note = "a\\"b"} : (tensor<?x4xf32>) -> tensor<?x4xf32>
    loc("block/one/re\\"lu"("m.onnx":2:1))
  %s = tensor.add %z, %y : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    loc("block/add"("m.onnx":3:1))
  func.return %s : tensor<?x4xf32>
}
"""
EDGES = {("tensor.constant", "tensor.mul"), ("tensor.mul", "tensor.relu"),
         ("tensor.relu", "tensor.add"), ("tensor.mul", "tensor.add"),
         ("tensor.add", "func.return")}  # fmt: skip


@pytest.fixture(scope="module")
def explored() -> Exploration:
    return explore(parse_module(PROGRAM), [np.array([[1, -2, 0, 4]], np.float32)])


def test_dot(explored: Exploration) -> None:
    text = explored.content("dot").decode()
    string = r'"((?:[^"\\]|\\.)*)"'
    labels = dict(re.findall(rf"^ +(op\d+) \[label={string}\]$", text, re.MULTILINE))
    names = {key: label.partition("\\n")[0] for key, label in labels.items()}
    edges = re.findall(r"^  (op\d+) -> (op\d+) \[", text, re.MULTILINE)
    found = {(names[a], names[b]) for a, b in edges}
    assert found == EDGES | {("func.func", "tensor.mul")}
    assert 'label="block.one"' in text and text.count("{") == text.count("}")
    assert "range -1.0 … 2.0" in text and "zeros 25.0%" in text


def test_netron(explored: Exploration) -> None:
    model = onnx.load_from_string(explored.content("netron"))
    graph = model.graph
    made = {name: f"{n.domain}.{n.op_type}" for n in graph.node for name in n.output}
    found = {
        (made[name], f"{n.domain}.{n.op_type}")
        for n in graph.node
        for name in n.input
        if name in made
    }
    assert found == {edge for edge in EDGES if edge[1] != "func.return"}
    (entry,), (result,) = graph.input, graph.output
    assert made[result.name] == "tensor.add"
    sizes = [size.dim_value for size in entry.type.tensor_type.shape.dim]
    assert sizes == [0, 4] and entry.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    (relu,) = [node for node in graph.node if node.op_type == "relu"]
    assert relu.name == 'block/one/re"lu' and relu.attribute[0].s == b'a"b'


def test_model_explorer(explored: Exploration) -> None:
    """The fields of `graph_builder.Graph`, `GraphNode`, `IncomingEdge`, `KeyValue`."""
    (graph,) = json.loads(explored.content("model-explorer"))
    assert set(graph) == {"id", "nodes"}
    nodes: dict[str, Any] = {node["id"]: node for node in graph["nodes"]}
    found = {
        (nodes[edge["sourceNodeId"]]["label"], node["label"])
        for node in nodes.values()
        for edge in node["incomingEdges"]
    }
    assert found == EDGES | {("func.func", "tensor.mul")}
    (relu,) = [node for node in nodes.values() if node["label"] == "tensor.relu"]
    assert relu["namespace"] == "block/one"
    assert {"key": "note", "value": 'a"b'} in relu["attrs"]
    assert {"key": "range", "value": "0.0 … 2.0"} in relu["outputsMetadata"][0]["attrs"]


def test_json_is_the_record(explored: Exploration) -> None:
    assert json.loads(explored.content("json")) == explored.data


def test_a_notebook_gets_the_page(explored: Exploration) -> None:
    html = explored._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert html.startswith('<iframe srcdoc="') and 'sandbox="allow-scripts"' in html
    assert html.count("<") == 2


def test_another_form_is_refused(explored: Exploration) -> None:
    with pytest.raises(OptionError, match="no form 'netrn'; did you mean 'netron'"):
        explored.content("netrn")
