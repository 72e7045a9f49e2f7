"""From `.tri` layers to PyTorch source, as the seed's example does it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from triton_dsl.ir.errors import CompilationError
from triton_dsl.ir.language.checker import TypeChecker, TypedProgram
from triton_dsl.ir.language.parser import TritonParser
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.to_pytorch.codegen import PyTorchCodeGenerator
from triton_dsl.lowering.to_pytorch.load import load_module

torch = pytest.importorskip("torch")

CLASSIFIER = """
layer LinearClassifier {
    param weights: TernaryTensor[784, 10]
    param bias: Tensor[10]

    fn forward(x: Tensor[N, 784]) -> Tensor[N, 10] {
        return x @ weights + bias
    }
}
"""

NETWORK = """
layer Block(channels: int) {
    let conv = TernaryConv2d(channels, channels, 3, padding=1, bias=false)
    let bn = BatchNorm2d(channels)

    fn forward(x: Tensor[N, channels, H, W]) -> Tensor[N, channels, H, W] {
        return relu(bn(conv(x)) + x)
    }
}

layer Net {
    let stem = Conv2d(1, 8, 3, padding=1)
    let block = Block(8)
    let fc = TernaryLinear(8, 10)

    fn forward(image: Tensor[N, 1, 8, 8]) -> Tensor[N, 10] {
        let h = block(relu(stem(image)))
        return fc(flatten(global_avg_pool2d(h)))
    }
}
"""


def checked(source: str) -> TypedProgram:
    return TypeChecker().check(TritonParser().parse(source))


def test_the_example_of_the_seed(check_style: Callable[[str], None]) -> None:
    typed = checked(CLASSIFIER)
    source = PyTorchCodeGenerator().generate_module(typed.layers[0])
    check_style(source)
    body = source[source.index("    def __init__") : source.index("    def _load")]
    assert (
        body
        == """\
    def __init__(self) -> None:
        super().__init__()
        # Ternary parameters are stored packed, four trits to a byte.
        self.register_buffer("weights", torch.zeros(1960, dtype=torch.uint8))
        self.bias = nn.Parameter(torch.zeros(10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # line 7
        return multiply_ternary(x, self.weights, (784, 10)) + self.bias

"""
    )
    trits = np.random.default_rng(1).integers(-1, 2, (784, 10))
    weights = {"weights": pack_trits(trits), "bias": np.arange(10, dtype=np.float32)}
    x = torch.arange(784, dtype=torch.float32)[None]
    result = load_module(source, weights)(x)
    expected = np.arange(784) @ trits + np.arange(10)
    np.testing.assert_allclose(result[0].detach().numpy(), expected, rtol=1e-6, atol=1e-3)


def test_a_layer_that_uses_others_of_its_file(check_style: Callable[[str], None]) -> None:
    typed = checked(NETWORK)
    source = PyTorchCodeGenerator().generate_module(typed.layers[1])
    check_style(source)
    model = load_module(source)
    assert set(model.state_dict()) == {
        "stem.weight",
        "stem.bias",
        "block.conv.weight",
        "block.bn.weight",
        "block.bn.bias",
        "block.bn.running_mean",
        "block.bn.running_var",
        "fc.weight",
        "fc.bias",
    }
    assert model(torch.zeros(2, 1, 8, 8)).shape == (2, 10)


def test_a_trainable_layer_has_float_latents() -> None:
    typed = checked(NETWORK)
    generator = PyTorchCodeGenerator(trainable=True, class_name="Trained")
    source = generator.generate_module(typed.layers[1])
    assert "class Trained(nn.Module):" in source
    model = load_module(source)
    assert dict(model.named_parameters())["fc.weight"].shape == (8, 10)
    model.train()(torch.randn(4, 1, 8, 8)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_generics_and_an_explicit_program() -> None:
    typed = checked(NETWORK)
    source = PyTorchCodeGenerator().generate_module(typed.layers[0], typed, {"channels": 4})
    assert "class Block(nn.Module):" in source
    assert load_module(source)(torch.ones(1, 4, 5, 6)).shape == (1, 4, 5, 6)


def test_a_layer_alone_is_checked_alone() -> None:
    layer = TritonParser().parse(CLASSIFIER).layers[0]
    assert "torch.zeros(1960" in PyTorchCodeGenerator().generate_module(layer)
    dependent = TritonParser().parse(NETWORK).layers[1]
    with pytest.raises(CompilationError, match="Block"):
        PyTorchCodeGenerator().generate_module(dependent)
