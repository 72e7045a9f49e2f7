"""The ternary perceptron of `examples/mnist.py`: trained once, kept in a file, made integer.

Not here: its circuit (`benchmarks/fpga.py`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.ir.store import read_arrays, save_arrays
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.runtime.engines import run_onnx

Array = NDArray[Any]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def integer_perceptron(mnist: Path, folder: Path) -> ModuleOp:
    """The integer program; trained as the example does where `folder` has no weights yet."""
    sys.path.insert(0, str(EXAMPLES))
    classification, example = map(import_module, ("classification", "mnist"))
    folder.mkdir(parents=True, exist_ok=True)
    weights = folder / "perceptron.safetensors"
    data = example.load_data(example.check_data(mnist))
    if not weights.exists():
        with Progress(console=Console(stderr=True)) as progress:
            state = classification.train(
                example.SOURCE, "TernaryMLP", data, example.SCHEDULE, progress
            )
        save_arrays(weights, state)
    ternary = classification.deploy(example.SOURCE, "TernaryMLP", read_arrays(weights))
    return classification.quantize(ternary, data.train_images[:1024], folder)


def by_onnx_runtime(module: ModuleOp, images: Array) -> Array:
    """What ONNX Runtime computes from images float32 [N, 1, 28, 28]."""
    content = next(iter(compile_to_target(module, "onnx").files.values()))
    return run_onnx(content, [images])[0]
