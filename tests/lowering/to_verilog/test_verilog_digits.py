"""A trained network for handwritten digits becomes a circuit that answers as the interpreter does.

Its weights become trits and its activations 4 bits without training. Skipped without the data.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import triton_context
from triton_dsl.ir.instrument import run_passes
from triton_dsl.ir.pipeline import parse_pipeline
from triton_dsl.ir.store import read_arrays
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.passes.quantize_activations import QuantizeActivationsPass, calibrate, quantize
from triton_dsl.passes.universe import everything
from triton_dsl.tools.ternarization import ternarize_module
from triton_dsl.tools.verilog import run_verilog

torch = pytest.importorskip("torch")
nn: Any = torch.nn

Array = NDArray[Any]
RequireTool = Callable[[str, str], str]
SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


def shared(*parts: str) -> Path:
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"'{path}' is absent: the shared data are not on this machine")
    return path


def digits(name: str) -> Array:
    data = gzip.decompress(shared("mnist", f"{name}-images-idx3-ubyte.gz").read_bytes())
    return (np.frombuffer(data, np.uint8)[16:].reshape(-1, 1, 28, 28) / 255).astype(np.float32)


def labels(name: str) -> Array:
    data = gzip.decompress(shared("mnist", f"{name}-labels-idx1-ubyte.gz").read_bytes())
    return np.frombuffer(data, np.uint8)[8:]


def integer_network(samples: Array) -> ModuleOp:
    """Conv 1-16, Conv 16-32, Linear 1568-128, Linear 128-10: trits, and activations of 4 bits."""
    from triton_dsl.lowering.from_torch import from_torch

    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(1568, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    weights = read_arrays(shared("models", "ann", "mnist_cnn.safetensors"))
    net.load_state_dict({key: torch.tensor(array) for key, array in weights.items()})
    ternary = ternarize_module(net.eval(), torch.tensor(samples).split(64), progress=False)
    module = from_torch(ternary, (torch.zeros(2, 1, 28, 28),))
    run(module, "fold-constants,fuse-linear,fold-constants,canonicalize")
    options = QuantizeActivationsPass(bits=4, signed=False, observer="mse")
    quantize(module, calibrate(module, [[samples]], options), options)
    run(module, "requantize,canonicalize,cse,dce")
    return module


def run(module: ModuleOp, pipeline: str) -> None:
    run_passes(triton_context(), module, parse_pipeline(pipeline, everything().all_passes), [])


@pytest.mark.slow
def test_a_trained_network_in_a_small_circuit(require_tool: RequireTool) -> None:
    require_tool("verilator", "apt-get install verilator")
    module = integer_network(digits("train")[:256])
    options = {
        "fold": "auto",
        "target_fps": 20_000.0,
        "device": "xczu3eg",
        "time_budget": 0.2,
        "vectors": 2,
    }
    artifact = compile_to_target(module, "verilog", options)
    report = json.loads(artifact.text("report.json"))
    assert report["initiation_interval"] <= 5000
    assert report["estimate"]["luts"] < 12_000

    x, y = digits("t10k")[:6], labels("t10k")[:6]
    (expected,) = run_module(module, [x])
    _, (actual,) = run_verilog(artifact, [x], "verilator")
    assert np.array_equal(actual, expected)
    assert np.array_equal(actual.argmax(1), y)
