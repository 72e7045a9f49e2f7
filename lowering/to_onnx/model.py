"""From a finished graph to a checked `ModelProto` and its bytes; the one file that needs `onnx`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.errors import BackendError, LoweringError
from ...ir.extras import install
from . import byte_functions
from .graph import (
    DOMAIN,
    FOREIGN_DOMAIN,
    Array,
    AttributeValue,
    Graph,
    Node,
    Port,
    element_of_array,
)
from .onnx_writer import TRITS, TRITS_OF_BYTES
from .threefry import threefry_nodes

if TYPE_CHECKING:
    import onnx

IR_VERSIONS = {
    13: 7,
    14: 7,
    15: 8,
    16: 8,
    17: 8,
    18: 8,
    19: 9,
    20: 9,
    21: 10,
    22: 10,
    23: 11,
    24: 12,
    25: 13,
}
"""The IR version that came with each opset; the opsets this target writes."""

FILE_LIMIT = 1 << 31
"""Protocol buffers hold less than this many bytes in one message."""

FUNCTIONS = ("ternary.unpack", "ternary.matmul", "spike.threefry", *byte_functions.TEXTS)
"""The model-local functions, each behind those it calls."""

_LARGE = 1 << 20
_SMALLEST_MOVED = 1024
_CHECK_WHOLE = 1 << 22
_PAGE = 4096


@dataclass(frozen=True)
class ModelInfo:
    """What a model says of itself; no timestamps, so that equal input gives equal bytes."""

    name: str
    doc: str
    version: str
    metadata: Mapping[str, str]


def require_onnx() -> Any:
    """The `onnx` package.

    Raises:
        BackendError: it is not installed.
    """
    try:
        import onnx
    except ImportError:
        raise BackendError(f"the target 'onnx' needs the onnx package: {install('onnx')}") from None
    return onnx


def serialize(graph: Graph, info: ModelInfo, *, external: bool) -> tuple[bytes, dict[str, bytes]]:
    """The bytes of the model, and by name the file beside it that holds large values.

    That file is named by its content: models in one folder do not take each other's weights.

    Args:
        external: whether there is such a file; otherwise everything stands in the model.

    Raises:
        LoweringError: the model does not pass the checks of `onnx`.
    """
    places = _places(graph) if external else {}
    blob = _joined(graph, places)
    file = f"{info.name}-{sha256(blob).hexdigest()[:12]}.data"
    model = _model(graph, info, _Beside(file, places))
    large = external or _total(graph) > _CHECK_WHOLE
    check(_without_large_values(graph, info) if large else model)
    data = model.SerializeToString(deterministic=True)
    return data, {file: blob} if places else {}


def needs_external_data(graph: Graph, limit: int = FILE_LIMIT) -> bool:
    """Whether the values are too large for one file; structure is counted generously."""
    return _total(graph) + 512 * len(graph.nodes) + (1 << 20) >= limit


def _places(graph: Graph) -> dict[str, int]:
    """Where each value that is moved out starts, on whole pages."""
    places: dict[str, int] = {}
    end = 0
    for name, array in graph.initializers.items():
        if array.nbytes >= _SMALLEST_MOVED:
            places[name] = end + -end % _PAGE
            end = places[name] + array.nbytes
    return places


def _joined(graph: Graph, places: Mapping[str, int]) -> bytes:
    """The file beside the model; values are copied once."""
    parts: list[bytes | memoryview] = []
    end = 0
    for name, start in places.items():
        array = np.ascontiguousarray(graph.initializers[name])
        parts += [b"\0" * (start - end), array.reshape(-1).view(np.uint8).data]
        end = start + array.nbytes
    return b"".join(parts)


def check(model: onnx.ModelProto) -> None:
    """Run `onnx.checker` with strict shape inference.

    Raises:
        LoweringError: the model is not valid; a defect of this target.
    """
    onnx = require_onnx()
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        reason = " ".join(str(error).split())
        raise LoweringError(f"the ONNX model does not pass onnx.checker: {reason}") from None


def _total(graph: Graph) -> int:
    return sum(array.nbytes for array in graph.initializers.values())


def _without_large_values(graph: Graph, info: ModelInfo) -> onnx.ModelProto:
    """The model with large initialisers as inputs: the same graph to check, without the bytes."""
    small = {n: a for n, a in graph.initializers.items() if a.nbytes < _LARGE}
    ports = [
        Port(name, graph.elements[name], array.shape)
        for name, array in graph.initializers.items()
        if array.nbytes >= _LARGE
    ]
    stripped = Graph(
        graph.opset,
        nodes=graph.nodes,
        initializers=small,
        inputs=[*graph.inputs, *ports],
        outputs=graph.outputs,
        elements=graph.elements,
    )
    return _model(stripped, info)


@dataclass(frozen=True)
class _Beside:
    """The file beside a model, and where in it values start, by name."""

    file: str
    places: Mapping[str, int]


def _model(graph: Graph, info: ModelInfo, beside: _Beside | None = None) -> onnx.ModelProto:
    helper = require_onnx().helper
    proto = _graph(graph, info.name)
    opsets = [helper.make_opsetid("", graph.opset)]
    if graph.functions:
        opsets.append(helper.make_opsetid(DOMAIN, 1))
    if any(node.domain == FOREIGN_DOMAIN for node in graph.all_nodes()):
        opsets.append(helper.make_opsetid(FOREIGN_DOMAIN, 1))
    model = helper.make_model(
        proto,
        opset_imports=opsets,
        ir_version=IR_VERSIONS[graph.opset],
        functions=[_function(name, graph.opset) for name in FUNCTIONS if name in graph.functions],
        producer_name="triton-dsl",
        producer_version=info.version,
        doc_string=info.doc,
    )
    helper.set_model_props(model, dict(sorted(info.metadata.items())))
    # Where they stay: messages are copied into those that hold them, and may have gigabytes.
    for name, array in graph.initializers.items():
        _fill(model.graph.initializer.add(), name, array, beside)
    return model


def _graph(graph: Graph, name: str) -> onnx.GraphProto:
    """A graph without its initialisers."""
    return require_onnx().helper.make_graph(
        [_node(node) for node in graph.nodes],
        name,
        [_port(port) for port in graph.inputs],
        [_port(port) for port in graph.outputs],
    )


def _port(port: Port) -> onnx.ValueInfoProto:
    shape = None if port.shape is None else list(port.shape)
    return require_onnx().helper.make_tensor_value_info(port.name, int(port.element), shape)


def _fill(tensor: Any, name: str, array: Array, beside: _Beside | None = None) -> None:
    """Put a name and values into an `onnx.TensorProto`."""
    tensor.name, tensor.data_type = name, int(element_of_array(array))
    tensor.dims.extend(array.shape)
    if beside is None or name not in beside.places:
        tensor.raw_data = np.ascontiguousarray(array).tobytes()
        return
    tensor.data_location = tensor.EXTERNAL
    place = {"offset": beside.places[name], "length": array.nbytes}
    for key, value in {"location": beside.file, **place}.items():
        tensor.external_data.add(key=key, value=str(value))


def _node(node: Node) -> onnx.NodeProto:
    helper = require_onnx().helper
    proto: onnx.NodeProto = helper.make_node(
        node.op_type, node.inputs, node.outputs, name=node.outputs[0], domain=node.domain
    )
    for name in sorted(node.attributes):
        proto.attribute.append(_attribute(name, node.attributes[name]))
    if node.body is not None:
        body = _graph(node.body, f"{node.outputs[0]}.body")
        proto.attribute.append(helper.make_attribute("body", body))
    return proto


def _attribute(name: str, value: AttributeValue) -> onnx.AttributeProto:
    from onnx import AttributeProto, helper

    if isinstance(value, int | float | str):
        return helper.make_attribute(name, value)
    return helper.make_attribute(name, list(value), attr_type=AttributeProto.INTS)


def _function(name: str, opset: int) -> onnx.FunctionProto:
    """A model-local function.

    `ternary.unpack(packed){shape, to}`: trits, four to a byte, as numbers of type `to`, by a table
    of the bytes: ONNX Runtime keeps all that it computes on the way until the file is loaded.
    `ternary.matmul(x, packed){shape, to}`: the product of x with such a matrix.
    `spike.threefry(t, j){key}`: random words, see `threefry`.
    """
    from onnx import AttributeProto, TensorProto, helper

    if name in byte_functions.TEXTS:
        return byte_functions.function(name, opset)
    make = helper.make_node
    ints, integer = AttributeProto.INTS, AttributeProto.INT
    attributes = ["shape", "to"]

    def from_attribute(
        op_type: str, inputs: Sequence[str], out: str, name: str, of: str
    ) -> onnx.NodeProto:
        node = make(op_type, inputs, [out])
        kind = integer if of == "to" else ints
        node.attribute.append(AttributeProto(name=name, ref_attr_name=of, type=kind))
        return node

    if name == "spike.threefry":
        nodes, attributes = threefry_nodes(require_onnx()), ["key"]
        inputs, outputs = ["t", "j"], ["words"]
    elif name == "ternary.matmul":
        call = make("ternary.unpack", ["packed"], ["weight"], domain=DOMAIN)
        for attribute in attributes:
            kind = integer if attribute == "to" else ints
            call.attribute.append(
                AttributeProto(name=attribute, ref_attr_name=attribute, type=kind)
            )
        nodes = [call, make("MatMul", ["x", "weight"], ["y"])]
        inputs, outputs = ["x", "packed"], ["y"]
    else:
        table = TensorProto()
        _fill(table, TRITS, TRITS_OF_BYTES)
        nodes = [
            make("Constant", [], ["table"], value=table),
            from_attribute("Constant", [], "dims", "value_ints", "shape"),
            make("Cast", ["packed"], ["places"], to=TensorProto.INT32),
            make("Gather", ["table", "places"], ["quads"]),
            make("Reshape", ["quads", "dims"], ["numbers"]),
            from_attribute("Cast", ["numbers"], "trits", "to", "to"),
        ]
        inputs, outputs = ["packed"], ["trits"]
    opsets = [helper.make_opsetid("", opset)]
    if name == "ternary.matmul":
        opsets.append(helper.make_opsetid(DOMAIN, 1))
    return helper.make_function(DOMAIN, name, inputs, outputs, nodes, opsets, attributes)
