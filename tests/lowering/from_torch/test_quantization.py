"""Quantised modules of PyTorch become integers with a scale, as models of ONNX in pairs do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.ao.quantization as ao
import torch.ao.quantization.fx._decomposed  # pyright: ignore[reportUnusedImport]
from torch import Tensor, nn

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import LoweringError, UnsupportedError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.from_torch.pt2_file import from_pt2
from triton_dsl.lowering.targets import compile_to_target

from .conftest import Function

GENERATOR = torch.Generator().manual_seed(5)
DECOMPOSED: Any = torch.ops.quantized_decomposed
LEVELS = (-128, 127, torch.int8)


def randn(*sizes: int) -> Tensor:
    """Numbers that no other test changes."""
    return torch.randn(*sizes, generator=GENERATOR)


X = randn(3, 4, 6)
SCALES, ZEROS = torch.tensor([0.01, 0.02, 0.03, 0.4]), torch.tensor([0, 3, -5, 7])
SCALE, ZERO = torch.tensor([0.03]), torch.tensor([5], dtype=torch.int32)


def fake(scale: Any, zero: Any, low: int, high: int) -> Callable[[Tensor], Tensor]:
    """Fake quantisation with one scale."""
    return lambda x: torch.fake_quantize_per_tensor_affine(x, scale, zero, low, high)


FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "unsigned": fake(0.03, 100, 0, 255),
    "signed, narrow": fake(0.03, 0, -127, 127),
    "four bits": fake(0.3, 7, 0, 15),
    "seven bits": fake(0.02, 60, 0, 127),
    "sixteen bits": fake(3e-4, 0, -(2**15), 2**15 - 1),
    "more than sixteen bits": fake(1e-3, 9, 0, 2**16 - 1),
    "a scale that is a tensor": fake(SCALE, ZERO, 0, 127),
    "half precision": lambda x: fake(0.03, 0, -128, 127)(x.half()),
    "channels": lambda x: torch.fake_quantize_per_channel_affine(
        x, SCALES, ZEROS.int(), 1, -128, 127
    ),
    "channels without a sign": lambda x: torch.fake_quantize_per_channel_affine(
        x, SCALES, ZEROS.int() + 128, 1, 0, 255
    ),
    "levels": lambda x: DECOMPOSED.quantize_per_tensor(x, 0.03, 4, *LEVELS),
    "unsigned levels": lambda x: DECOMPOSED.quantize_per_tensor(x, 0.03, 4, 0, 255, torch.uint8),
    "a pair": lambda x: DECOMPOSED.dequantize_per_tensor(
        DECOMPOSED.quantize_per_tensor(x, 0.03, 4, 0, 127, torch.uint8), 0.03, 4, 0, 127,
        torch.uint8,
    ),
    "a pair for channels": lambda x: DECOMPOSED.dequantize_per_channel(
        DECOMPOSED.quantize_per_channel(x, SCALES, ZEROS, 1, *LEVELS), SCALES, ZEROS, 1, *LEVELS
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_those_of_pytorch(name: str) -> None:
    module = from_torch(Function(FUNCTIONS[name]), (X,))
    for x in (X, randn(2, 4, 6) * 9):
        (found,) = run_module(module, [x.numpy()])
        wanted = FUNCTIONS[name](x).numpy()
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["choose_qparams", "choose_qparams_symmetric"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_a_range_that_is_found_when_the_program_runs(kind: str, dtype: torch.dtype) -> None:
    low, high = (-128, 127) if dtype is torch.int8 else (0, 255)

    def dynamic(x: Tensor) -> tuple[Tensor, ...]:
        scale, zero = getattr(DECOMPOSED, kind).tensor(x, low, high, 1e-5, dtype)
        levels = DECOMPOSED.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
        return scale, zero, levels

    module = from_torch(Function(dynamic), (X,))
    for x in (X, randn(5, 4, 6), torch.zeros(3, 4, 6), X.abs() + 3):
        found = run_module(module, [x.numpy()])
        for one, other in zip(found, dynamic(x), strict=True):
            assert one.dtype == other.numpy().dtype
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-6)


@pytest.mark.parametrize("kind", ["", "_asymmetric"])
@pytest.mark.parametrize("shape", [(3, 4, 6), (3, 6), (2, 1, 6)])
def test_a_range_for_each_token(kind: str, shape: tuple[int, ...]) -> None:
    def dynamic(x: Tensor) -> tuple[Tensor, ...]:
        scale, zero = getattr(DECOMPOSED, f"choose_qparams_per_token{kind}")(x, torch.int8)
        levels = DECOMPOSED.quantize_per_token(x, scale, zero, *LEVELS)
        return levels, DECOMPOSED.dequantize_per_token(levels, scale, zero, *LEVELS, torch.float32)

    x = randn(*shape)
    module = from_torch(Function(dynamic), (x,))
    for values in (x, randn(5, *shape[1:]) * 9, torch.zeros(shape), x.abs() + 3):
        found = run_module(module, [values.numpy()])
        for one, other in zip(found, dynamic(values), strict=True):
            assert one.dtype == other.numpy().dtype
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-6, atol=1e-6)


def trained(*, settled: bool = True) -> nn.Module:
    """A small network after training with fake quantisation."""
    torch.manual_seed(2)
    layers = (nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 5, 3))
    net = nn.Sequential(ao.QuantStub(), *layers, ao.DeQuantStub()).train()
    setattr(net, "qconfig", ao.get_default_qat_qconfig("qnnpack"))  # noqa: B010
    fused = ao.fuse_modules_qat(net, [["1", "2"]])
    prepare: Callable[..., nn.Module] = getattr(ao, "prepare_qat")  # noqa: B009
    prepare(fused, inplace=True)
    for _ in range(3):
        fused(torch.randn(4, 3, 8, 8))
    if settled:
        fused.apply(ao.disable_observer)
    return fused.eval()


@pytest.mark.filterwarnings("ignore")
def test_a_network_trained_with_fake_quantisation_keeps_integers() -> None:
    net = trained()
    module = from_torch(net, torch.zeros(1, 3, 8, 8))
    assert all(f": tensor<{sizes}x3x3xi8>" in str(module) for sizes in ("8x3", "5x8"))
    x = torch.rand(3, 3, 8, 8, generator=GENERATOR)
    with torch.no_grad():
        wanted = net(x).numpy()
    (found,) = run_module(module, [x.numpy()])
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    settled: Any = net.get_submodule("3.activation_post_process")
    step = 1.01 * settled.scale.item()  # the runtime rounds in its own way at halves
    _, (found,), _ = run_target(module, "onnx", [x.numpy()])
    np.testing.assert_allclose(found, wanted, atol=step)
    (file,) = compile_to_target(module, "onnx").files.values()
    kinds = [node.op_type for node in onnx.load_from_string(file).graph.node]
    assert (kinds.count("QuantizeLinear"), kinds.count("DequantizeLinear")) == (3, 5)


@pytest.mark.filterwarnings("ignore")
def test_a_module_that_observes_is_refused() -> None:
    with pytest.raises(LoweringError, match=r"'0.activation_post_process' changes its scale by .*"
                       r"model.apply\(torch.ao.quantization.disable_observer\)"):  # fmt: skip
        from_torch(trained(settled=False), torch.zeros(1, 3, 8, 8))


@pytest.mark.filterwarnings("ignore")
def test_packed_weights_are_refused() -> None:
    pack: Callable[[nn.Module], nn.Module] = getattr(ao, "convert")  # noqa: B009
    with pytest.raises(LoweringError, match="give the model before 'convert'"):
        from_torch(pack(trained()), torch.zeros(1, 3, 8, 8))


class Affine(nn.Module):
    """A linear layer between pairs, with a weight of int8 and a scale for each output."""

    def __init__(self, settle: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.settle = settle
        self.register_buffer("weight", torch.randint(-127, 128, (8, 64), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(8) / 100)
        self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        weight = DECOMPOSED.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, *LEVELS)
        return nn.functional.linear(self.settle(x), weight)


def pair(x: Tensor) -> Tensor:
    """x through int8 with a known scale."""
    levels = DECOMPOSED.quantize_per_tensor(x, 0.03, 4, *LEVELS)
    return DECOMPOSED.dequantize_per_tensor(levels, 0.03, 4, *LEVELS)


def ranged(x: Tensor) -> Tensor:
    """x through int8 with the scale of its range."""
    scale, zero = DECOMPOSED.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
    levels = DECOMPOSED.quantize_per_tensor.tensor(x, scale, zero, *LEVELS)
    return DECOMPOSED.dequantize_per_tensor.tensor(levels, scale, zero, *LEVELS)


@pytest.mark.parametrize(("settle", "pairs"), [(pair, 2), (ranged, 0), (torch.relu, 0)])
def test_weights_of_int8(settle: Callable[[Tensor], Tensor], pairs: int) -> None:
    """ONNX Runtime would quantise activations by itself in front of a weight in half a pair."""
    net = Affine(settle)
    x = randn(5, 64)
    module = from_torch(net, x)
    is_kept = "tensor<64x8xi8>" in str(module)
    assert is_kept == (settle is not torch.relu)
    for target in ("onnx", "pytorch", "tflite", "native"):
        _, (found,), _ = run_target(module, target, [x.numpy()])
        np.testing.assert_allclose(found, net(x).numpy(), atol=1e-5)
    (file,) = compile_to_target(module, "onnx").files.values()
    kinds = [node.op_type for node in onnx.load_from_string(file).graph.node]
    assert kinds.count("DequantizeLinear") == pairs


def test_a_graph_of_torch_export_comes_in() -> None:
    net = Affine(pair)
    x = randn(5, 64)
    graph = torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("N")},)).module()
    module = from_torch(graph, x)
    np.testing.assert_allclose(run_module(module, [x.numpy()])[0], net(x).numpy(), atol=1e-5)


def test_a_file_of_torch_export_comes_in(tmp_path: Path) -> None:
    net, x, path = Affine(pair), randn(5, 64), tmp_path / "net.pt2"
    torch.export.save(torch.export.export(net, (x,)), path)
    module = from_pt2(path)
    assert "tensor<64x8xi8>" in str(module)
    np.testing.assert_allclose(run_module(module, [x.numpy()])[0], net(x).numpy(), atol=1e-5)


def test_products_of_integers() -> None:
    weight = torch.randint(-128, 128, (16, 8), dtype=torch.int8)
    module = from_torch(
        Function(lambda x: torch.ops.aten._int_mm(x, weight)), torch.ones(20, 16).char()
    )
    x = torch.randint(-128, 128, (20, 16), dtype=torch.int8)
    (found,) = run_module(module, [x.numpy()])
    np.testing.assert_array_equal(found, x.numpy().astype(np.int32) @ weight.numpy().astype(int))


@pytest.fixture(scope="module")
def torchao() -> Any:
    """The operators of torchao, which need not be installed for their meaning."""
    if not hasattr(torch.ops.torchao, "quantize_affine"):
        library = torch.library.Library("torchao", "FRAGMENT")
        rest = "Tensor? zero_point, ScalarType {}, Scalar? quant_min=None, Scalar? quant_max=None"
        start = "(Tensor input, SymInt[] block_size, Tensor scale, "
        library.define(f"quantize_affine{start}{rest.format('output_dtype')}) -> Tensor")
        library.define(
            f"dequantize_affine{start}{rest.format('input_dtype')}, "
            "ScalarType output_dtype=float32) -> Tensor"
        )

        def quantized(x: Tensor, _blocks: Any, _scale: Any, _zero: Any, kind: torch.dtype,
                      *_bounds: Any) -> Tensor:  # fmt: skip
            return torch.empty_like(x, dtype=kind)

        def restored(x: Tensor, *_rest: Any) -> Tensor:
            return torch.empty_like(x, dtype=torch.float32)

        library.impl("quantize_affine", quantized, "Meta")
        library.impl("dequantize_affine", restored, "Meta")
        yield torch.ops.torchao
        library._destroy()  # pyright: ignore[reportPrivateUsage]
    else:
        yield torch.ops.torchao


@pytest.mark.parametrize(
    ("blocks", "shape", "axis"),
    [((3, 8), (), None), ((1, 8), (3,), 0), ((3, 1), (1, 8), 1), ((1, 4), (3, 2), 1)],
)
def test_blocks_of_torchao(
    torchao: Any, blocks: tuple[int, ...], shape: tuple[int, ...], axis: int | None
) -> None:
    scale = torch.rand(shape, generator=GENERATOR) / 10 + 0.01
    zero = torch.full(shape, 3, dtype=torch.int32)

    def both(x: Tensor) -> Tensor:
        levels = torchao.quantize_affine(x, blocks, scale, zero, torch.int8, -100, 100)
        return torchao.dequantize_affine(levels, blocks, scale, zero, torch.int8, -100, 100)

    x = randn(3, 8) * 3
    (found,) = run_module(from_torch(Function(both), (x,), dynamic={}), [x.numpy()])
    wide = scale.reshape([n // b for n, b in zip(x.shape, blocks, strict=True)])
    for place, block in enumerate(blocks):
        wide = wide.repeat_interleave(block, place)
    levels = (torch.round(x / wide) + 3).clamp(-100, 100)
    np.testing.assert_allclose(found, ((levels - 3) * wide).numpy(), rtol=1e-6)


def test_blocks_along_two_axes_are_refused(torchao: Any) -> None:
    scale = torch.ones(2, 2)

    def levels(x: Tensor) -> Tensor:
        return torchao.quantize_affine(x, (2, 4), scale, None, torch.int8)

    with pytest.raises(UnsupportedError, match="take one axis"):
        from_torch(Function(levels), (randn(4, 8),), dynamic={})
