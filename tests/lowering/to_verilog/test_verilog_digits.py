"""A trained network for handwritten digits becomes a circuit that answers as the interpreter does.

Its weights become trits and its activations 4 bits without training. Skipped without the data.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import triton_context
from triton_dsl.ir.instrument import run_passes
from triton_dsl.ir.pipeline import parse_pipeline
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.ternarization import ternarize_module
from triton_dsl.lowering.to_verilog.simulation import run_verilog
from triton_dsl.passes.quantize_activations.quantize_activations import (
    QuantizeActivationsPass,
    calibrate,
    quantize,
)
from triton_dsl.passes.universe import everything

pytestmark = pytest.mark.usefixtures("whole_searches")

torch = pytest.importorskip("torch")

Array = NDArray[Any]
RequireTool = Callable[[str, str], str]


def integer_network(net: Any, samples: Array) -> ModuleOp:
    """Conv 1-16, Conv 16-32, Linear 1568-128, Linear 128-10: trits, and activations of 4 bits."""
    from triton_dsl.lowering.from_torch import from_torch

    ternary = ternarize_module(net, torch.tensor(samples).split(64), progress=False)
    module = from_torch(ternary, (torch.zeros(2, 1, 28, 28),))
    run(module, "fold-constants,fuse-linear,fold-constants,canonicalize")
    options = QuantizeActivationsPass(bits=4, signed=False, observer="mse")
    quantize(module, calibrate(module, [[samples]], options), options)
    run(module, "requantize,canonicalize,cse,dce")
    return module


def run(module: ModuleOp, pipeline: str) -> None:
    run_passes(triton_context(), module, parse_pipeline(pipeline, everything().all_passes), [])


@pytest.mark.slow
def test_a_trained_network_in_a_small_circuit(require_tool: RequireTool, shared_data: Any) -> None:
    require_tool("verilator", "apt-get install verilator")
    module = integer_network(shared_data.network("cnn"), shared_data.digits("train")[:256])
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

    x, y = shared_data.digits("t10k")[:6], shared_data.labels("t10k")[:6]
    (expected,) = run_module(module, [x])
    _, (actual,) = run_verilog(artifact, [x], "verilator")
    assert np.array_equal(actual, expected)
    assert np.array_equal(actual.argmax(1), y)
