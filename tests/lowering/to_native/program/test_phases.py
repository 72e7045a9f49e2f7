"""One sample in several threads: whoever does which things of a phase, bits are those of one."""

from __future__ import annotations

from copy import deepcopy
from ctypes import CFUNCTYPE, c_int64, c_void_p
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.arrays import Array
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.stages import apply_passes
from triton_dsl.lowering.to_native import ternary_products
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.lowering.to_native.program import phases
from triton_dsl.runtime.native.addresses import address_of
from triton_dsl.runtime.native.memory import aligned
from triton_dsl.runtime.native.program import NativeProgram

pytest.importorskip("llvmlite")

NETWORKS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "tiles": (
        nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, 1)),
        (64, 61, 57),
    ),
    "loops": (
        nn.Sequential(
            nn.Conv2d(3, 18, 5, 2, 2),
            nn.Hardswish(),
            nn.Conv2d(18, 18, 3, groups=18, padding=1),
            nn.Conv2d(18, 37, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(37, 91),
            nn.Softmax(-1),
        ),
        (3, 30, 33),
    ),
    "lines": (nn.Sequential(nn.Linear(120, 85), nn.GELU(), nn.LayerNorm(85)), (37, 120)),
}


def share_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have short steps, of short programs too, in phases of their own."""
    monkeypatch.setattr(phases, "_WORTH", 0.0)
    monkeypatch.setattr(phases, "_WORTH_CALLING", 0.0)


def in_pieces(program: NativeProgram, x: Array) -> Array:
    """All phases by three members, who take things from the last to the first."""
    kind = CFUNCTYPE(None, c_void_p, *[c_int64] * 4)
    part = kind(program._phase)  # pyright: ignore[reportPrivateUsage]
    interface = program.interface
    y = np.full(interface.outputs[0].sizes(1), np.nan, np.float32)
    workspace = aligned(program._workspace_bytes(1) + 2 * interface.apart)  # pyright: ignore[reportPrivateUsage]
    workspace[:] = 255
    tensors = (x, y, program.constants, workspace)
    words = np.array([*map(address_of, tensors), 1, 0], np.int64)
    for number, things in enumerate(interface.phases):
        words[-1] = number
        bounds = [things * n // 3 for n in range(4)]
        for member in (2, 0, 1):
            if bounds[member] < bounds[member + 1]:
                part(address_of(words), 0, bounds[member], bounds[member + 1], member)
    return y


@pytest.mark.parametrize("name", NETWORKS)
def test_things_may_be_anybodys(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, shape = NETWORKS[name]
    torch.manual_seed(0)
    x = torch.randn(2, *shape)
    share_all(monkeypatch)
    source = from_torch(module.eval(), (x,))
    alone, program = (native_program(source, threads=n, cache_folder=tmp_path) for n in (1, 2))
    assert not alone.interface.phases
    assert sum(things > 1 for things in program.interface.phases) > 2
    assert (program.interface.apart > 0) == (name == "tiles")
    one = x[:1].numpy()
    with torch.no_grad():
        expected = deepcopy(module).double()(x.double()).numpy()
    found = alone(one)
    assert np.abs(found - expected[:1]).max() <= 2e-6 * np.abs(expected).max()
    np.testing.assert_array_equal(in_pieces(program, one), found)
    np.testing.assert_array_equal(program(one), found)
    np.testing.assert_array_equal(program.bind(one)(), found)
    np.testing.assert_array_equal(program(x.numpy()), alone(x.numpy()))


@pytest.mark.parametrize("trits", [False, True])
def test_integers_may_be_anybodys(
    trits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles of dot products, with outputs that are void in the last; additions by stretches."""
    share_all(monkeypatch)
    torch.manual_seed(1)
    layers = (nn.Conv2d(8, 20, 3), nn.ReLU(), nn.Conv2d(20, 37, 3, 2), nn.ReLU(), nn.Flatten())
    size = 30 if trits else 15
    flat = 37 * ((size - 3) // 2) ** 2
    module = nn.Sequential(*layers, nn.Linear(flat, 45)).eval()
    samples = torch.randn(4, 8, size, size)
    np.save(tmp_path / "samples.npy", samples.numpy())
    source = from_torch(module, (samples[:2],))
    weights = "" if trits else "weights=8"
    apply_passes(
        source,
        f"free-batch,fold-constants,fuse-linear,{'ternarize,' * trits}fold-constants,canonicalize,"
        f'quantize-activations{{data="{tmp_path}/samples.npy" bits=8 {weights} signed=false}},'
        "requantize,cse,dce",
    )
    program = native_program(source, threads=2, cache_folder=tmp_path)
    assert sum(things > 1 for things in program.interface.phases) > 2
    x = samples[:1].numpy()
    (expected,) = run_module(source, [x])
    np.testing.assert_array_equal(in_pieces(program, x), expected)
    np.testing.assert_array_equal(program(x), expected)


def test_panels_of_trits_may_be_anybodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products with trits, whose last panel is not full; sums are exact."""
    share_all(monkeypatch)
    rng = np.random.default_rng(2)
    text = """layer Net {
        let first = BitLinear(130, 200)
        let second = BitLinear(200, 77)
        fn forward(x: Tensor[N, 5, 130]) { return second(relu(first(x))) }
    }"""
    trits = {"first": rng.integers(-1, 2, (200, 130)), "second": rng.integers(-1, 2, (77, 200))}
    weights = {f"{key}.weight": pack_trits(value.T) for key, value in trits.items()}
    weights |= {f"{key}.weight_scale": np.ones(1, np.float32) for key in trits}
    source = import_tri(text, weights=weights)
    program = native_program(source, threads=2, cache_folder=tmp_path)
    assert {2, 4} <= set(program.interface.phases)
    x = rng.normal(size=(1, 5, 130)).astype(np.float32)
    y = x.astype(np.float64)
    for key, matrix in trits.items():
        y = np.maximum(y, 0) if key == "second" else y
        factor = 127 / np.abs(y).max(-1, keepdims=True)
        y = np.rint(y * factor) @ matrix.T / factor
    np.testing.assert_allclose(program(x), y, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(in_pieces(program, x), program(x))


def test_rows_of_products_may_be_anybodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products with trits as accurate as float32, of rows that each thread prepares for itself."""
    share_all(monkeypatch)
    # On no processor floats in their place, which have phases of their own.
    monkeypatch.setattr(ternary_products, "_FEW_ROWS", 1 << 30)
    torch.manual_seed(3)
    module = nn.Sequential(nn.Linear(130, 200), nn.ReLU(), nn.Linear(200, 77)).eval()
    several = torch.randn(3, 70, 130)
    source = from_torch(module, (several,))
    apply_passes(source, "ternarize,fuse-linear")
    alone, program = (native_program(source, threads=n, cache_folder=tmp_path) for n in (1, 2))
    assert program.interface.phases.count(5) == 2 and program.interface.apart > 0
    x = several[:1].numpy()
    (expected,) = run_module(source, [x])
    found = program(x)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(in_pieces(program, x), found)
    np.testing.assert_array_equal(alone(x), found)
    np.testing.assert_array_equal(program(several.numpy()), alone(several.numpy()))
