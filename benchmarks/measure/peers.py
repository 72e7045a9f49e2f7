"""Other engines on stacks of ternary linear layers with ReLU between, float32 in and out.

Each takes the matrices as trits [outs, ins] and an input [rows, ins], keeps weights of its own, and
gives a function without arguments that computes once. Engines that are not installed are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .rounds import Run

Trits = NDArray[np.int8]
Floats = NDArray[np.float32]
Make = Callable[[Sequence[Trits], Floats, int], Run]


def torch_float(layers: Sequence[Trits], x: Floats, threads: int) -> Run:
    """PyTorch's linear in float32."""
    import torch

    torch.set_num_threads(threads)
    weights = [torch.from_numpy(trits.astype(np.float32)) for trits in layers]
    given = torch.from_numpy(x)

    def run() -> NDArray[Any]:
        with torch.inference_mode():
            value = torch.nn.functional.linear(given, weights[0])
            for weight in weights[1:]:
                value = torch.nn.functional.linear(value.relu_(), weight)
            return value.numpy()

    return run


def _session(nodes: list[Any], constants: list[Any], ins: int, outs: int, x: Floats, threads: int):
    import onnxruntime as installed
    from onnx import TensorProto, helper

    ort: Any = installed
    given = helper.make_tensor_value_info("h0", TensorProto.FLOAT, [len(x), ins])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [len(x), outs])
    graph = helper.make_graph(nodes, "stack", [given], [result], constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return lambda: session.run(None, {"h0": x})[0]


def _stack(
    layers: Sequence[Trits], product: Callable[[str, int, Trits], tuple[Any, list[Any]]]
) -> tuple[list[Any], list[Any]]:
    from onnx import helper

    nodes: list[Any] = []
    constants: list[Any] = []
    for i, trits in enumerate(layers):
        node, values = product(f"h{i}", i, trits)
        last = i + 1 == len(layers)
        node.output.append("y" if last else f"z{i}")
        nodes.append(node)
        constants += values
        if not last:
            nodes.append(helper.make_node("Relu", [f"z{i}"], [f"h{i + 1}"]))
    return nodes, constants


def ort_float(layers: Sequence[Trits], x: Floats, threads: int) -> Run:
    """ONNX Runtime's MatMul in float32."""
    from onnx import helper, numpy_helper

    def product(given: str, i: int, trits: Trits) -> tuple[Any, list[Any]]:
        weight = np.ascontiguousarray(trits.T.astype(np.float32))
        node = helper.make_node("MatMul", [given, f"w{i}"], [])
        return node, [numpy_helper.from_array(weight, f"w{i}")]

    nodes, constants = _stack(layers, product)
    return _session(nodes, constants, layers[0].shape[1], layers[-1].shape[0], x, threads)


def ort_2bit(layers: Sequence[Trits], x: Floats, threads: int) -> Run:
    """ONNX Runtime's MatMulNBits: 2-bit weights in blocks of 128, activations rounded to int8."""
    from onnx import helper, numpy_helper

    def product(given: str, i: int, trits: Trits) -> tuple[Any, list[Any]]:
        outs, ins = trits.shape
        blocks = -(-ins // 128)
        codes = np.full((outs, blocks * 128), 2, np.uint8)
        codes[:, :ins] = trits + 2
        fields = codes.reshape(outs, blocks, 32, 4) << np.array([0, 2, 4, 6], np.uint8)
        constants = [
            numpy_helper.from_array(np.bitwise_or.reduce(fields, axis=-1), f"w{i}"),
            numpy_helper.from_array(np.ones((outs, blocks), np.float32), f"s{i}"),
        ]
        node = helper.make_node(
            "MatMulNBits",
            [given, f"w{i}", f"s{i}"],
            [],
            domain="com.microsoft",
            K=ins,
            N=outs,
            bits=2,
            block_size=128,
            accuracy_level=4,
        )
        return node, constants

    nodes, constants = _stack(layers, product)
    return _session(nodes, constants, layers[0].shape[1], layers[-1].shape[0], x, threads)


def _litert(kind: str) -> Make:
    def make(layers: Sequence[Trits], x: Floats, threads: int) -> Run:
        return litert(layers, x, threads, kind)

    return make


def litert(layers: Sequence[Trits], x: Floats, threads: int, kind: str) -> Run:
    """LiteRT's fully connected layers: weights of 4 or 8 bits or floats.

    Integer weights make LiteRT round activations to int8 in each call. The input is in its place
    already: to copy it would count against LiteRT.
    """
    import ai_edge_litert.schema_py_generated as generated  # pyright: ignore[reportMissingImports]
    import flatbuffers  # pyright: ignore[reportMissingImports]
    from ai_edge_litert.interpreter import Interpreter  # pyright: ignore[reportMissingImports]

    schema: Any = generated
    model = schema.ModelT()
    model.version = 3
    model.buffers = [schema.BufferT()]

    def tensor(name: str, shape: list[int], element: int, data: NDArray[Any] | None = None) -> Any:
        result = schema.TensorT()
        result.name, result.shape, result.type, result.buffer = name, shape, element, 0
        if data is not None:
            result.buffer = len(model.buffers)
            model.buffers.append(schema.BufferT())
            model.buffers[-1].data = data.view(np.uint8).reshape(-1)
        return result

    def weights(name: str, trits: Trits) -> Any:
        shape = list(trits.shape)
        if kind == "fp32":
            return tensor(name, shape, schema.TensorType.FLOAT32, trits.astype(np.float32))
        data, element = trits, schema.TensorType.INT8
        if kind == "int4":
            flat = np.zeros(-(-trits.size // 2) * 2, np.uint8)
            flat[: trits.size] = trits.reshape(-1) & 15
            data, element = flat[::2] | flat[1::2] << 4, schema.TensorType.INT4
        result = tensor(name, shape, element, np.ascontiguousarray(data))
        result.quantization = schema.QuantizationParametersT()
        result.quantization.scale = np.ones(len(trits), np.float32)
        result.quantization.zeroPoint = np.zeros(len(trits), np.int64)
        return result

    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FULLY_CONNECTED
    code.version = 10
    model.operatorCodes = [code]
    graph = schema.SubGraphT()
    float32 = schema.TensorType.FLOAT32
    graph.tensors = [tensor("x", list(x.shape), float32)]
    graph.operators = []
    current = 0
    for i, trits in enumerate(layers):
        graph.tensors.append(weights(f"w{i}", trits))
        graph.tensors.append(tensor(f"h{i}", [len(x), len(trits)], float32))
        operator = schema.OperatorT()
        operator.inputs = [current, len(graph.tensors) - 2, -1]
        operator.outputs = [len(graph.tensors) - 1]
        operator.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
        operator.builtinOptions = schema.FullyConnectedOptionsT()
        if i + 1 < len(layers):
            operator.builtinOptions.fusedActivationFunction = schema.ActivationFunctionType.RELU
        graph.operators.append(operator)
        current = len(graph.tensors) - 1
    graph.inputs, graph.outputs = [0], [current]
    model.subgraphs = [graph]
    builder: Any = flatbuffers.Builder(sum(trits.size for trits in layers))
    builder.Finish(model.Pack(builder), b"TFL3")
    interpreter: Any = Interpreter(model_content=bytes(builder.Output()), num_threads=threads)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    result = interpreter.tensor(current)

    def run() -> NDArray[Any]:
        interpreter.invoke()
        return result()

    return run


_PEERS: dict[str, tuple[str, Make]] = {
    "torch fp32": ("torch", torch_float),
    "ORT fp32": ("onnxruntime", ort_float),
    "ORT 2-bit": ("onnxruntime", ort_2bit),
    "LiteRT fp32": ("ai_edge_litert", _litert("fp32")),
    "LiteRT int8": ("ai_edge_litert", _litert("int8")),
    "LiteRT int4": ("ai_edge_litert", _litert("int4")),
}


def installed_peers() -> dict[str, Make]:
    """Every engine that is installed, by name."""
    return {name: make for name, (module, make) in _PEERS.items() if find_spec(module)}


def runs_of(
    peers: Mapping[str, Make], layers: Sequence[Trits], x: Floats, threads: int
) -> dict[str, Run]:
    """Each engine with weights of its own."""
    return {name: make(layers, x, threads) for name, make in peers.items()}
