"""Other engines on one ternary convolution, float32 in and out.

Each takes trits [outs, channels / groups, k, k] and images [batch, channels, height, width], keeps
weights of its own, pads by k // 2, and gives a function without arguments that computes once. Ours
are PyTorch's operator on packed weights. Not here: matrices (`peers`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_dsl.runtime.native.abi.linear import Precision

from .peers import Floats, Trits
from .rounds import Run

Make = Callable[[Trits, Floats, int, int], Run]


def ours(precision: Precision) -> Make:
    """The operator `ternary_conv2d` at a precision."""

    def make(trits: Trits, x: Floats, groups: int, threads: int) -> Run:
        import torch

        from triton_dsl.runtime.operators import set_precision, ternary_conv2d
        from triton_dsl.runtime.packing import pack

        torch.set_num_threads(threads)
        weight, given = pack(torch.from_numpy(trits)), torch.from_numpy(x)
        pads = (trits.shape[2] // 2,) * 2

        def run() -> NDArray[Any]:
            set_precision(precision)
            with torch.no_grad():
                y = ternary_conv2d(given, weight, trits.shape, padding=pads, groups=groups)
            return y.numpy()

        return run

    return make


def _torch_float(trits: Trits, x: Floats, groups: int, threads: int) -> Run:
    import torch

    torch.set_num_threads(threads)
    weight, given = torch.from_numpy(trits.astype(np.float32)), torch.from_numpy(x)
    padding = trits.shape[2] // 2

    def run() -> NDArray[Any]:
        with torch.no_grad():
            y = torch.nn.functional.conv2d(given, weight, padding=padding, groups=groups)
        return y.numpy()

    return run


def _ort_float(trits: Trits, x: Floats, groups: int, threads: int) -> Run:
    import onnxruntime as installed
    from onnx import TensorProto, helper, numpy_helper

    ort: Any = installed
    outs, size = len(trits), trits.shape[2]
    sizes = [len(x), outs, *x.shape[2:]]
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=groups, pads=[size // 2] * 4)
    graph = helper.make_graph(
        [node],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(x.shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)],
        [numpy_helper.from_array(trits.astype(np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})[0]


_PEERS: dict[str, tuple[str, Make]] = {
    "torch fp32": ("torch", _torch_float),
    "ORT fp32": ("onnxruntime", _ort_float),
}


def conv_runs(
    precision: Precision, trits: Trits, x: Floats, groups: int, threads: int
) -> dict[str, Run]:
    """Ours, and each engine that is installed."""
    runs: dict[str, Run] = {"ours": ours(precision)(trits, x, groups, threads)}
    for name, (module, make) in _PEERS.items():
        if find_spec(module):
            runs[name] = make(trits, x, groups, threads)
    return runs


def expected_conv(trits: Trits, x: Floats, groups: int) -> NDArray[np.float64]:
    """The convolution in float64, tap by tap."""
    outs, size = len(trits), trits.shape[2]
    pad = size // 2
    images = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    images = images.reshape(len(x), groups, -1, *images.shape[2:])
    weights = trits.astype(np.float64).reshape(groups, outs // groups, -1, size, size)
    high, wide = x.shape[2:]
    total: NDArray[np.float64] = np.zeros((len(x), groups, outs // groups, high, wide))
    for r in range(size):
        for c in range(size):
            window = images[..., r : r + high, c : c + wide]
            total += np.einsum("ngchw,goc->ngohw", window, weights[..., r, c])
    return total.reshape(len(x), outs, high, wide)
