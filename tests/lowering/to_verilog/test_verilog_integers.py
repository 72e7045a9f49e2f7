"""Networks with weights of several bits as circuits, from float models too.

What a circuit must give is what the interpreter computes from the integer program; that is compared
with the float program where there is one, and with LiteRT for a file of its own.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional as F
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError, UnsupportedError
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.models import import_model
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.simulation import run_verilog
from triton_dsl.passes.quantize_activations.integer_pipeline import integer_pipeline

Array = NDArray[Any]

NETWORK = """builtin.module @net {
func.func @forward(%x: tensor<2x1x6x6xf32> {tensor.name = "image"}) -> tensor<2x3xf32> {
  %w1 = tensor.parameter "conv.weight" : tensor<4x1x3x3xf32>
  %b1 = tensor.parameter "conv.bias" : tensor<4xf32>
  %c = tensor.conv %x, %w1, %b1 {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
       dilation = array<i64: 1, 1>}
       : (tensor<2x1x6x6xf32>, tensor<4x1x3x3xf32>, tensor<4xf32>) -> tensor<2x4x6x6xf32>
  %r = tensor.relu %c : (tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
  %wd = tensor.parameter "depth.weight" : tensor<4x1x2x2xf32>
  %d = tensor.conv %r, %wd {strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>, groups = 4 : i64}
       : (tensor<2x4x6x6xf32>, tensor<4x1x2x2xf32>) -> tensor<2x4x3x3xf32>
  %p = tensor.avg_pool %d {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>,
       padding = array<i64: 0, 0, 0, 0>, count_include_pad = false}
       : (tensor<2x4x3x3xf32>) -> tensor<2x4x1x1xf32>
  %f = tensor.reshape_to %p {shape = array<i64: 2, 4>}
       : (tensor<2x4x1x1xf32>) -> tensor<2x4xf32>
  %w2 = tensor.parameter "fc.weight" : tensor<4x3xf32>
  %b2 = tensor.parameter "fc.bias" : tensor<3xf32>
  %y = tensor.linear %f, %w2, %b2
       : (tensor<2x4xf32>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %s = tensor.softmax %y {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %s : tensor<2x3xf32>
}}"""


@pytest.fixture(scope="module")
def network(program: Any) -> ModuleOp:
    """Convolutions, one of them of each channel, a mean, a product, a softmax; a batch of two."""
    rng = np.random.default_rng(0)
    shapes = {
        "conv.weight": (4, 1, 3, 3), "conv.bias": (4,), "depth.weight": (4, 1, 2, 2),
        "fc.weight": (4, 3), "fc.bias": (3,),
    }  # fmt: skip
    return program(NETWORK, {key: rng.normal(size=shape) for key, shape in shapes.items()})


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Array]:
    """Images, and the file that they are in."""
    x = np.random.default_rng(1).uniform(0, 1, (40, 1, 6, 6)).astype(np.float32)
    path = tmp_path_factory.mktemp("samples") / "samples.npy"
    np.save(path, x)
    return path, x


def softmax(logits: Array) -> Array:
    """What is left to the receiver of logits [N, classes]."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return (powers / powers.sum(1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(
    "options", ["", 'folding="conv:pe=2,simd=5;depth:pe=2,simd=4;fc:pe=1,simd=2"']
)
def test_a_float_network_with_samples_becomes_a_circuit(
    iverilog: str, network: ModuleOp, samples: tuple[Path, Array], options: str
) -> None:
    path, x = samples
    integer = network.clone()
    run_stages(integer, [Stage("quantize", integer_pipeline(str(path)))])
    (logits,) = run_module(integer, [x[:6]])
    artifact = compile_to_target(network, f"verilog{{calibration={path} {options}}}")
    _, (found,) = run_verilog(artifact, [x[:6]])
    assert np.array_equal(found, softmax(logits))
    (floats,) = run_module(network, [x[:2]])
    assert np.abs(found[:2] - floats).max() < 0.05
    assert "Left to the receiver" in artifact.text("report.md")


def test_a_float_network_without_samples_is_told_what_helps(network: ModuleOp) -> None:
    with pytest.raises(UnsupportedError, match=r"tensor\.conv") as caught:
        compile_to_target(network, "verilog")
    hint = caught.value.hint
    assert "verilog{calibration=samples.npz}" in hint
    assert integer_pipeline("samples.npz") in hint


def test_options_of_the_quantisation_need_samples(network: ModuleOp) -> None:
    with pytest.raises(OptionError, match="'weight-bits' belongs to 'calibration'"):
        compile_to_target(network, "verilog{weight-bits=4}")


DENSE = """builtin.module @dense {
func.func @forward(%x: tensor<?x5xi8>) -> tensor<?x3xi32> {
  %w = tensor.parameter "fc.weight" : tensor<5x3xi32>
  %b = tensor.parameter "fc.bias" : tensor<3xi32>
  %c = tensor.convert %x : (tensor<?x5xi8>) -> tensor<?x5xi32>
  %y = tensor.linear %c, %w, %b
       : (tensor<?x5xi32>, tensor<5x3xi32>, tensor<3xi32>) -> tensor<?x3xi32>
  func.return %y : tensor<?x3xi32>
}}"""


@pytest.mark.parametrize("options", ["", '{folding="fc:pe=2,simd=3"}', "{lut-budget=300}"])
@pytest.mark.parametrize("most", [1, 127, 20_000])
def test_products_with_integers_are_exact(
    iverilog: str, program: Any, options: str, most: int
) -> None:
    rng = np.random.default_rng(most)
    weight = rng.integers(-most, most + 1, (5, 3))
    weight[:, 1] = weight[:, 1] * 2
    bias = rng.integers(-1000, 1000, 3)
    module = program(DENSE, {"fc.weight": weight, "fc.bias": bias})
    x = rng.integers(-128, 128, (30, 5)).astype(np.int8)
    x[0], x[1] = -128, 127
    if most > 127 and "lut-budget" in options:
        options = "{lut-budget=600}"
    _, (found,) = run_verilog(compile_to_target(module, f"verilog{options}"), [x])
    assert np.array_equal(found, x.astype(np.int64) @ weight + bias)


def integers_of(path: Path, data: Path) -> tuple[ModuleOp, ModuleOp]:
    """A float model with a free batch and without its last softmax, and its integer program."""
    module = import_model(path)
    floats = module.clone()
    run_stages(floats, [Stage("free", "free-batch{strict=true},expose-logits")])
    run_stages(module, [Stage("quantize", integer_pipeline(str(data)))])
    return floats, module


@pytest.mark.slow
def test_mnist_conv_from_the_zoo(shared_data: Any, tmp_path: Path, iverilog: str) -> None:
    path = shared_data.path("models", "onnx", "mnist-conv-opset8.onnx")
    np.save(tmp_path / "digits.npy", shared_data.digits("train")[:1000] * 255)
    _, integer = integers_of(path, tmp_path / "digits.npy")
    images, labels = shared_data.digits("t10k") * 255, shared_data.labels("t10k")
    right = 0
    for start in range(0, len(images), 500):
        (logits,) = run_module(integer, [images[start : start + 500]])
        right += int((logits.argmax(1) == labels[start : start + 500]).sum())
    assert right >= 9880
    spec = f"verilog{{calibration={tmp_path / 'digits.npy'} lut-budget=20000 vectors=2}}"
    artifact = compile_to_target(import_model(path), spec)
    (wanted,) = run_module(integer, [images[:4]])
    _, (found,) = run_verilog(artifact, [images[:4]])
    assert np.array_equal(found, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["three_layer_pytorch", "dense_big_keras"])
def test_dense_networks_from_files(
    shared_data: Any, tmp_path: Path, iverilog: str, name: str
) -> None:
    path = shared_data.path("models", "onnx", f"{name}.onnx")
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(500, 16)).astype(np.float32))
    floats, integer = integers_of(path, tmp_path / "x.npy")
    x = rng.normal(size=(2000, 16)).astype(np.float32)
    (exact,), (rounded,) = run_module(floats, [x]), run_module(integer, [x])
    assert (exact.argmax(1) == rounded.argmax(1)).mean() > 0.97
    spec = f"verilog{{calibration={tmp_path / 'x.npy'} lut-budget=15000 vectors=2}}"
    artifact = compile_to_target(import_model(path), spec)
    _, (found,) = run_verilog(artifact, [x[:20]])
    assert np.array_equal(found, softmax(rounded[:20]))


@pytest.mark.slow
def test_keyword_spotting_in_int8(shared_data: Any, require_tool: Any) -> None:
    pytest.importorskip("ai_edge_litert")
    require_tool("verilator", "apt-get install verilator")
    from triton_dsl.lowering.to_tflite.engine import run_tflite

    path = shared_data.path("models", "tflite", "kws_ref_model.tflite")
    rng = np.random.default_rng(3)
    x = np.clip(rng.normal(60, 40, (2, 49, 10, 1)), -128, 127).astype(np.int8)
    artifact = compile_to_target(import_model(path), "verilog{lut-budget=60000 vectors=2}")
    _, (found,) = run_verilog(artifact, [x], "verilator")
    (wanted,) = run_module(import_model(path), [x])
    assert np.array_equal(found, wanted)
    for sample, result in zip(x, found, strict=True):
        (theirs,) = run_tflite(path.read_bytes(), [sample[None]])
        assert theirs.argmax() == result.argmax()


class Moved(torch.nn.Module):
    """Elements in other places, the batch too, and poolings of the integers as floats."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        turned = torch.rot90(x, 1, (2, 3)).flip(1)
        picked = x[:, [1, 0, 0]].permute(2, 3, 0, 1) + 1
        pooled = F.max_pool2d((x + x).double(), 2).int() + 1
        return turned, picked, pooled, F.interpolate(x.float(), scale_factor=2.0).int()


@pytest.mark.parametrize("options", ["input-bits=4", "input-bits=4 stream-width=16 pipeline=2"])
def test_moves_and_poolings_without_a_layer(iverilog: str, options: str) -> None:
    x = torch.randint(-8, 8, (6, 2, 4, 4), generator=torch.Generator().manual_seed(1))
    module = from_torch(Moved(), (x.int(),))
    artifact = compile_to_target(module, f"verilog{{{options}}}")
    _, found = run_verilog(artifact, [x.int().numpy()])
    for result, expected in zip(found, Moved()(x.int()), strict=True):
        np.testing.assert_array_equal(result, expected.numpy())


class Mean(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.float().mean((2, 3))


def test_a_mean_of_integers_is_their_sum_and_a_scale(iverilog: str) -> None:
    x = torch.randint(-128, 128, (5, 3, 2, 4), generator=torch.Generator().manual_seed(2))
    module = from_torch(Mean(), (x.to(torch.int8),))
    _, (found,) = run_verilog(compile_to_target(module, "verilog"), [x.to(torch.int8).numpy()])
    np.testing.assert_array_equal(found, Mean()(x).numpy())


class Rows(torch.nn.Module):
    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x.float()).int() if self.step == 1 else x[:: self.step] + 1


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (1, "f32 does not hold every integer of i32: say with input-bits"),
        (2, "does not keep the vectors of the batch apart"),
    ],
)
def test_what_has_no_circuit_says_why(step: int, message: str) -> None:
    module = from_torch(Rows(step), (torch.zeros(4, 3, dtype=torch.int32),))
    with pytest.raises(UnsupportedError, match=message):
        compile_to_target(module, "verilog")
