"""Networks that were converted from floats, small ones, for the tests and the recording of Lava."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.conversion import convert_to_snn
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.runtime.random_values import fill_parameters

PROGRAM = """
layer Perceptron {
    let fc = Linear(36, 20)
    let middle = Linear(20, 12)
    let head = Linear(12, 5)

    fn forward(x: Tensor[N, 36]) -> Tensor[N, 5] {
        return head(relu(middle(relu(fc(x)))))
    }
}

layer Images {
    let conv = Conv2d(1, 4, 3, padding=1)
    let conv2 = Conv2d(4, 6, 3, padding=1)
    let fc = Linear(24, 12)
    let head = Linear(12, 5)

    fn forward(x: Tensor[N, 1, 8, 8]) -> Tensor[N, 5] {
        let a = avg_pool2d(relu(conv(x)), 2)
        let b = avg_pool2d(relu(conv2(a)), 2)
        return head(relu(fc(flatten(b))))
    }
}
"""

SHAPES = {"Perceptron": (36,), "Images": (1, 8, 8)}


def samples(name: str, count: int = 60) -> Any:
    """Inputs from 0 to 1."""
    return np.random.default_rng(0).random((count, *SHAPES[name]), np.float32)


def converted(
    name: str, timesteps: int = 6, *, pools: str = "before", reset: str = "subtract"
) -> ModuleOp:
    """A spiking program of some steps."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.tri"
        path.write_text(PROGRAM)
        program = fill_parameters(import_tri(path, layer=name), 3)
    return convert_to_snn(program, samples(name), timesteps, pools=pools, reset=reset)
