"""Native ternary kernels beside other engines: one linear layer, float32 in and out.

    python benchmarks/kernels.py [--shapes 784x256,4096x4096] [--rows 1,8,32] [--rounds 31]
                                 [--threads 1] [--cold] [--json]

All engines hold the same trits and take turns in one process; a figure is the median of the rounds
in microseconds, and beside it stands how many times as long as ours it took. `hot` repeats calls on
the same weights; for `cold`, each call comes after 256 MB of other memory were read and a layer of
other weights was run, so that the weights come from memory and the code does not.

A ratio is left out when either side's median is over 1.3 times its fastest round: the machine was
busy with something else. Engines that are not installed are left out. Each result is checked
against float64 first. LiteRT's time is without its copy of the input.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_dsl.ir.errors import TritonError
from triton_dsl.tools.native import ternary_linear

UNSTEADY = 1.3
EVICTION = 256 << 20
ROUND_SECONDS = 0.002
OURS = "ours"

Floats = NDArray[np.float32]
Run = Callable[[], NDArray[Any]]


@dataclass
class Contender:
    """One engine on one problem, with the seconds that a call took in each round."""

    name: str
    run: Run
    twin: Run
    error: float
    seconds: list[float] = field(default_factory=list[float])

    @property
    def median(self) -> float:
        """Of all rounds, in microseconds."""
        return statistics.median(self.seconds) * 1e6

    @property
    def steady(self) -> bool:
        """Whether the rounds agree well enough for a ratio."""
        return statistics.median(self.seconds) <= UNSTEADY * min(self.seconds)


@dataclass(frozen=True)
class Figure:
    """A line of the table: microseconds, ratio to ours, and the error relative to the largest."""

    ins: int
    outs: int
    rows: int
    state: str
    engine: str
    median: float
    fastest: float
    ratio: float | None
    error: float


def torch_float(trits: NDArray[np.int8], x: Floats, threads: int) -> Run:
    """PyTorch's linear in float32."""
    import torch

    torch.set_num_threads(threads)
    weights, given = torch.from_numpy(trits.astype(np.float32)), torch.from_numpy(x)

    def run() -> NDArray[Any]:
        with torch.inference_mode():
            return torch.nn.functional.linear(given, weights).numpy()

    return run


def ort_session(model: Any, x: Floats, threads: int) -> Run:
    """An ONNX model in ONNX Runtime."""
    import onnxruntime as installed

    ort: Any = installed
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})[0]


def onnx_model(node: Any, constants: Sequence[Any], trits: NDArray[np.int8], rows: int) -> Any:
    """A model of one node."""
    from onnx import TensorProto, helper

    outs, ins = trits.shape
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, ins])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, outs])
    graph = helper.make_graph([node], "linear", [x], [y], list(constants))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def ort_float(trits: NDArray[np.int8], x: Floats, threads: int) -> Run:
    """ONNX Runtime's MatMul in float32."""
    from onnx import helper, numpy_helper

    weights = numpy_helper.from_array(np.ascontiguousarray(trits.T.astype(np.float32)), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return ort_session(onnx_model(node, [weights], trits, len(x)), x, threads)


def ort_2bit(trits: NDArray[np.int8], x: Floats, threads: int) -> Run:
    """ONNX Runtime's MatMulNBits: 2-bit weights in blocks of 128, activations rounded to int8."""
    from onnx import helper, numpy_helper

    outs, ins = trits.shape
    blocks = -(-ins // 128)
    codes = np.full((outs, blocks * 128), 2, np.uint8)
    codes[:, :ins] = trits + 2
    packed = np.bitwise_or.reduce(
        codes.reshape(outs, blocks, 32, 4) << np.array([0, 2, 4, 6], np.uint8), axis=-1
    )
    weights = numpy_helper.from_array(packed, "w")
    scales = numpy_helper.from_array(np.ones((outs, blocks), np.float32), "s")
    node = helper.make_node(
        "MatMulNBits",
        ["x", "w", "s"],
        ["y"],
        domain="com.microsoft",
        K=ins,
        N=outs,
        bits=2,
        block_size=128,
        accuracy_level=4,
    )
    return ort_session(onnx_model(node, [weights, scales], trits, len(x)), x, threads)


def litert_int4(trits: NDArray[np.int8], x: Floats, threads: int) -> Run:
    """LiteRT's fully connected layer: 4-bit weights, activations rounded to int8 in each call."""
    import ai_edge_litert.schema_py_generated as generated  # pyright: ignore[reportMissingImports]
    import flatbuffers
    from ai_edge_litert.interpreter import Interpreter  # pyright: ignore[reportMissingImports]

    schema: Any = generated
    outs, ins = trits.shape
    flat = np.zeros(-(-trits.size // 2) * 2, np.uint8)
    flat[: trits.size] = trits.reshape(-1) & 15
    model = schema.ModelT()
    model.version = 3
    model.buffers = [schema.BufferT(), schema.BufferT()]
    model.buffers[1].data = flat[::2] | flat[1::2] << 4

    def tensor(name: str, shape: list[int], kind: int, buffer: int) -> Any:
        result = schema.TensorT()
        result.name, result.shape, result.type, result.buffer = name, shape, kind, buffer
        return result

    weights = tensor("w", [outs, ins], schema.TensorType.INT4, 1)
    weights.quantization = schema.QuantizationParametersT()
    weights.quantization.scale = np.ones(outs, np.float32)
    weights.quantization.zeroPoint = np.zeros(outs, np.int64)
    operator = schema.OperatorT()
    operator.inputs, operator.outputs = [0, 1, -1], [2]
    operator.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
    operator.builtinOptions = schema.FullyConnectedOptionsT()
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FULLY_CONNECTED
    code.version = 10
    model.operatorCodes = [code]
    graph = schema.SubGraphT()
    graph.tensors = [
        tensor("x", [len(x), ins], schema.TensorType.FLOAT32, 0),
        weights,
        tensor("y", [len(x), outs], schema.TensorType.FLOAT32, 0),
    ]
    graph.inputs, graph.outputs, graph.operators = [0], [2], [operator]
    model.subgraphs = [graph]
    builder: Any = flatbuffers.Builder(trits.size)
    builder.Finish(model.Pack(builder), b"TFL3")
    interpreter: Any = Interpreter(model_content=bytes(builder.Output()), num_threads=threads)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    result = interpreter.tensor(2)

    def run() -> NDArray[Any]:
        # The input is in its place already; to copy it would count against LiteRT.
        interpreter.invoke()
        return result()

    return run


PEERS: dict[str, tuple[str, Callable[[NDArray[np.int8], Floats, int], Run]]] = {
    "torch fp32": ("torch", torch_float),
    "ORT fp32": ("onnxruntime", ort_float),
    "ORT 2-bit": ("onnxruntime", ort_2bit),
    "LiteRT int4": ("ai_edge_litert", litert_int4),
}


def engines(trits: NDArray[np.int8], x: Floats, threads: int) -> dict[str, Run]:
    """Every engine that is installed, with a copy of the weights of its own."""
    rounded = ternary_linear(trits, threads=threads)
    precise = ternary_linear(trits, threads=threads, precision="float32")
    runs: dict[str, Run] = {OURS: lambda: rounded(x), "ours float32": lambda: precise(x)}
    for name, (module, make) in PEERS.items():
        if find_spec(module) is not None:
            runs[name] = make(trits, x, threads)
    return runs


def contenders(ins: int, outs: int, rows: int, threads: int) -> list[Contender]:
    """Every engine that is installed, on one random problem, each checked."""
    rng = np.random.default_rng(0)
    trits = rng.integers(-1, 2, (outs, ins)).astype(np.int8)
    x = rng.standard_normal((rows, ins)).astype(np.float32)
    expected = x.astype(np.float64) @ trits.T.astype(np.float64)
    runs, twins = engines(trits, x, threads), engines(trits, x, threads)
    result: list[Contender] = []
    for name, run in runs.items():
        error = float(np.abs(run() - expected).max() / np.abs(expected).max())
        if error > 0.05:
            sys.exit(f"benchmarks/kernels.py: error: {name} is wrong by {error:.0%} of the largest")
        result.append(Contender(name, run, twins[name], error))
    return result


def measure(found: Sequence[Contender], rounds: int, *, cold: bool) -> None:
    """Let the engines take turns, `rounds` times."""
    other = np.ones(EVICTION // 8, np.int64) if cold else None
    calls: dict[str, int] = {}
    for contender in found:
        start = perf_counter()
        contender.run()
        once = perf_counter() - start
        calls[contender.name] = 1 if cold else max(1, int(ROUND_SECONDS / once))
    for _ in range(rounds):
        for contender in found:
            if other is None:
                # Another engine's turn may have put our weights out of the cache.
                contender.run()
            else:
                other.max()
                contender.twin()
            count, run = calls[contender.name], contender.run
            start = perf_counter()
            for _ in range(count):
                run()
            contender.seconds.append((perf_counter() - start) / count)


def figures(ins: int, outs: int, rows: int, arguments: argparse.Namespace) -> Iterator[Figure]:
    """All lines of one problem."""
    for state in ("hot", "cold") if arguments.cold else ("hot",):
        found = contenders(ins, outs, rows, arguments.threads)
        measure(found, arguments.rounds, cold=state == "cold")
        ours = found[0]
        for one in found:
            told = ours.steady and one.steady and one is not ours
            yield Figure(
                ins,
                outs,
                rows,
                state,
                one.name,
                one.median,
                min(one.seconds) * 1e6,
                one.median / ours.median if told else None,
                one.error,
            )


def arguments_of(line: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shapes", default="784x256,1024x1024,4096x4096", help="ins x outs")
    parser.add_argument("--rows", default="1,8,32", help="rows of activations")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cold", action="store_true", help="measure from memory too")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(line)


def main(line: Sequence[str] | None = None) -> None:
    """Measure and print."""
    arguments = arguments_of(line)
    shapes = [tuple(map(int, shape.split("x"))) for shape in arguments.shapes.split(",")]
    everything: list[Figure] = []
    for ins, outs in shapes:
        for rows in map(int, arguments.rows.split(",")):
            for figure in figures(ins, outs, rows, arguments):
                everything.append(figure)
                if not arguments.json:
                    times = "     -" if figure.ratio is None else f"{figure.ratio:6.2f}"
                    print(
                        f"{ins:>5} x {outs:<5} M {rows:<4}{figure.state:<5}{figure.engine:<14}"
                        f"{figure.median:>10.1f} µs {times}   error {figure.error:.1e}",
                        flush=True,
                    )
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    if arguments.json:
        lines = [asdict(figure) for figure in everything]
        print(json.dumps({"threads": arguments.threads, "load": load, "figures": lines}, indent=2))
    elif load is not None:
        print(f"{arguments.threads} thread(s) on {os.cpu_count()} processors, load {load:.1f}")


if __name__ == "__main__":
    try:
        main()
    except TritonError as problem:
        sys.exit(f"benchmarks/kernels.py: error: {problem}")
