"""Networks whose weights are called as stages, memories or words of Verilog are, simulated."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from fuzz.circuits import warnings_of
from fuzz.quantised_networks import (
    Block,
    Branches,
    Flatten,
    Network,
    Pool,
    Product,
    Quant,
    computed,
    onnx_model,
    samples_of,
)

from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.simulation import run_verilog

pytestmark = pytest.mark.usefixtures("iverilog")

ACT = Quant(2, scale=0.5)


def conv(id: int, name: str, *, act: Quant | None = ACT) -> Product:
    """Two channels from two of 2×2 positions, with a bias: its stages are several."""
    return Product(id, name, 2, (2, 2), (1, 1), (0,) * 4, (1, 1), norm="scale", act=act)


def network(blocks: Sequence[Block], name: str = "net") -> Network:
    return Network(0, (name, "x", "y"), (2, 5, 5), None, Quant(2, scale=0.5), tuple(blocks))


POOL = Pool((2, 2), (1, 1), (0,) * 4)
PLAIN = (conv(1, "weight"), POOL, conv(2, "weight_1"), conv(3, "weight_2", act=None))
DENSE = (*PLAIN[:3], conv(3, "weight_2"), Flatten(), Product(4, "weight_3", 3))
WAYS = Branches(((conv(2, "weight_1"),), (conv(3, "weight_2"),)), "add", act=ACT)
RESIDUAL = (conv(1, "weight"), WAYS, Flatten(), Product(4, "weight_3", 3))
ODD = ("module", "ram_4x4", "Weight", "weight")

CASES = {
    "stages and weights": (network(PLAIN), {}),
    "a layer behind them": (network(DENSE), {}),
    "folded": (network(RESIDUAL), {"lut_budget": 900}),
    "odd": (network([conv(i, name) for i, name in enumerate(ODD, 1)], "triton"), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_module_is_the_one_that_is_meant(name: str, tmp_path: Path) -> None:
    made, options = CASES[name]
    module = from_onnx(onnx_model(made))
    quick = {"time_budget": 0.01, "vectors": 4}
    artifact = compile_to_target(module, "verilog", {**quick, **options})
    assert warnings_of(artifact.files, tmp_path) is None
    x = samples_of(made, 4)
    _, (found,) = run_verilog(artifact, [x])
    np.testing.assert_allclose(found, computed(made, x)[0], rtol=1e-6)


def test_a_layer_called_as_its_function(tmp_path: Path) -> None:
    source = (
        "layer forward {\n param w: TernaryTensor[4, 3]\n"
        " fn forward(x: Tensor<int8>[N, 4]) { return x @ w }\n}"
    )
    w = np.random.default_rng(0).integers(-1, 2, (4, 3)).astype(np.int8)
    module = import_tri(source, weights={"w": w})
    artifact = compile_to_target(module, "verilog", {"vectors": 4})
    assert warnings_of(artifact.files, tmp_path) is None
    names = re.findall(r"^module (\w+)", "".join(map(bytes.decode, artifact.files.values())), re.M)
    assert len(set(names)) == len(names)
    x = np.random.default_rng(1).integers(-128, 128, (5, 4)).astype(np.int8)
    _, (found,) = run_verilog(artifact, [x])
    np.testing.assert_array_equal(found, x.astype(np.int64) @ w)
