"""Networks as people ship them: PyTorch to TFLite, for any batch and precision.

Expected numbers are PyTorch's in float64: in float32 PyTorch is as far from them as LiteRT.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_tflite.engine import run_tflite

Array = np.ndarray[Any, Any]

# Transposes of each: that of the input, and of attention its operands together and its result.
TRANSPOSES = {"keyword": 0, "resnet18": 1, "mobilenet_v2": 1, "vit_tiny": 2 * 12 + 1}
LARGE = [pytest.param(n, marks=pytest.mark.slow) for n in ("resnet18", "mobilenet_v2", "vit_tiny")]


def imported(real_models: ModuleType, name: str) -> tuple[nn.Module, ModuleOp]:
    model = real_models.build(name)
    return model, from_torch(model, (real_models.inputs(name, 2),))


def by_torch(model: nn.Module, x: torch.Tensor) -> Array:
    with torch.no_grad():
        return deepcopy(model).double()(x.double()).numpy()


def file_of(program: ModuleOp, **options: Any) -> bytes:
    return next(iter(compile_to_target(program, "tflite", options).files.values()))


def off(got: Array, want: Array) -> float:
    return float(np.abs(got - want).max() / np.abs(want).max())


@pytest.mark.parametrize("name", ["keyword", *LARGE])
def test_floats_for_any_batch(name: str, real_models: ModuleType, bench: Any) -> None:
    model, program = imported(real_models, name)
    data = file_of(program)
    for batch in (1, 3):
        x = real_models.inputs(name, batch, seed=batch)
        (got,) = run_tflite(data, [x.numpy()])
        assert off(got, by_torch(model, x)) <= 1e-5
    kinds = Counter(bench.kinds(data))
    assert kinds["TRANSPOSE"] == TRANSPOSES[name]
    assert not kinds["RELU"] and not kinds["RELU6"], "activations are fused"
    if name == "vit_tiny":
        return
    data = file_of(program, layout="nhwc")
    x = real_models.inputs(name, 2)
    (got,) = run_tflite(data, [x.permute(0, 2, 3, 1).contiguous().numpy()])
    assert off(got, by_torch(model, x)) <= 1e-5
    assert "TRANSPOSE" not in bench.kinds(data)


@pytest.mark.parametrize("precision", ["int8", "int16", "dynamic-int8", "float16"])
@pytest.mark.parametrize("name", ["keyword", *LARGE])
def test_predictions_stay(
    name: str, precision: str, real_models: ModuleType, tmp_path: Path
) -> None:
    """Logits move little, and samples keep their class.

    But for MobileNetV2 and the transformer: without training they tell samples apart by less than
    weights of 8 bits move their logits.
    """
    samples = 8 if name != "keyword" else 64
    model, program = imported(real_models, name)
    x = real_models.inputs(name, samples, seed=5)
    np.savez(tmp_path / "samples.npz", x=x.numpy())
    options = {"precision": precision, "self_check": False}
    if precision.startswith("int"):
        options["calibration"] = str(tmp_path / "samples.npz")
    (got,) = run_tflite(file_of(program, **options), [x.numpy()])
    want = by_torch(model, x)
    moved = np.linalg.norm(got - want) / np.linalg.norm(want)
    if precision == "float16":
        rounded = deepcopy(model).half().float()
        by_rounding = np.linalg.norm(by_torch(rounded, x) - want) / np.linalg.norm(want)
        assert moved <= 1.1 * by_rounding
    else:
        assert moved < {"int8": 0.3, "int16": 0.2, "dynamic-int8": 0.25}[precision]
    if name in ("keyword", "resnet18"):
        assert (got.argmax(-1) == want.argmax(-1)).mean() >= 0.85


class Attending(nn.Module):
    """A convolution whose places attend to each other, and their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, 2, 1)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.conv(x).flatten(2).transpose(1, 2)
        mixed, _ = self.attention(tokens, tokens, tokens, need_weights=False)
        return (tokens + mixed).mean(1)


class Mixing(nn.Module):
    """Attention as vision transformers are written: one projection, cut into heads by a view."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 4, 4)
        self.joined, self.mixed = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.conv(x).flatten(2).transpose(1, 2)
        batch, length, width = tokens.shape
        apart = self.joined(tokens).reshape(batch, length, 3, 2, width // 2)
        q, k, v = apart.permute(2, 0, 3, 1, 4).unbind(0)
        weights = ((q * 0.5) @ k.transpose(-2, -1)).softmax(-1)
        rows = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return (tokens + self.mixed(rows)).mean(1)


class Tied(nn.Module):
    """Tokens to tokens; the table is the weight of the last layer, and another layer's twin."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(100, 32), nn.Linear(32, 100, bias=False)
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32)
        self.head.weight = self.table.weight
        with torch.no_grad():
            self.second.weight.copy_(self.first.weight)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.second(self.first(self.table(tokens)).relu()))


def test_tied_weights_are_stored_once() -> None:
    torch.manual_seed(0)
    model, tokens = Tied().eval(), torch.randint(0, 100, (3, 7))
    data = file_of(from_torch(model, (tokens,)))
    with torch.no_grad():
        want = deepcopy(model).double()(tokens).numpy()
    assert off(run_tflite(data, [tokens.numpy()])[0], want) <= 1e-5
    stored = 4 * (100 * 32 + 32 * 32 + 2 * 32)
    assert stored < len(data) < stored + 4 * 32 * 32


class Squeezing(nn.Module):
    """Squeeze-and-excitation (Hu et al. 2017) by 1x1 convolutions, and a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.squeeze, self.excite = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)
        self.last = nn.Conv2d(16, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.first(x))
        gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(h.mean((2, 3), keepdim=True)))))
        h = torch.cat([h * gate, h + self.second(h)], dim=1)
        return self.last(nn.functional.avg_pool2d(h, 2)).amax((2, 3))


@pytest.mark.parametrize(("kind", "transposes"), [(Attending, 3), (Mixing, 3), (Squeezing, 1)])
def test_images_stay_in_one_order(kind: type[nn.Module], transposes: int, bench: Any) -> None:
    torch.manual_seed(0)
    model = kind().eval()
    x = torch.randn(3, 3, 16, 16)
    program = from_torch(model, (x,))
    data = file_of(program)
    assert off(run_tflite(data, [x.numpy()])[0], by_torch(model, x)) <= 1e-5
    assert bench.kinds(data).count("TRANSPOSE") == transposes
    data = file_of(program, layout="nhwc")
    made = run_tflite(data, [x.permute(0, 2, 3, 1).contiguous().numpy()])
    assert off(made[0], by_torch(model, x)) <= 1e-5
    assert bench.kinds(data).count("TRANSPOSE") == transposes - 1


def test_large_programs_are_not_compared_with_the_interpreter(bench: Any) -> None:
    """The manifest says so; the file runs in LiteRT all the same."""
    wide = nn.Sequential(nn.Conv2d(16, 64, 3, padding=1), nn.AdaptiveAvgPool2d(1)).eval()
    for side, compared in ((32, True), (512, False)):
        program = from_torch(wide, (torch.zeros(2, 16, side, side),))
        artifact = compile_to_target(program, "tflite", {})
        assert artifact.manifest["compared"] is compared
