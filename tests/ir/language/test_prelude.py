"""The standard layers: they check, and their shapes and parameter names are PyTorch's."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triton_dsl.ir.language import TritonParser, TypeChecker
from triton_dsl.ir.language.elaborated import Elaborated
from triton_dsl.ir.language.loader import prelude

NAMES = [
    "Linear",
    "TernaryLinear",
    "Conv2d",
    "TernaryConv2d",
    "DepthwiseConv2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "LayerNorm",
    "RMSNorm",
    "Embedding",
    "MultiHeadAttention",
    "TransformerBlock",
    "BitLinear",
    "TokenEmbedding",
    "RotaryEmbedding",
    "CausalAttention",
    "GatedMLP",
    "BlockNorm",
    "DecoderBlock",
    "LIF",
    "CubaLIF",
    "TemporalBatchNorm",
    "SpikingLinear",
    "SpikingConv2d",
    "SpikingSelfAttention",
    "SpikingMLP",
    "SpikeFormerBlock",
]


def elaborate(layer: str, argument: str, call: str = "inner(x)") -> Elaborated:
    """A layer that holds `layer` as `inner`."""
    source = f"""
layer Outer {{
    let inner = {layer}
    fn forward(x: {argument}) {{ return {call} }}
}}"""
    return TypeChecker().check(TritonParser().parse(source)).elaborate()


def result(layer: str, argument: str) -> str:
    """The type of the layer's result."""
    return str(elaborate(layer, argument).outputs[0].type)


def parameters(graph: Elaborated) -> dict[str, tuple[int | None, ...]]:
    """Shapes of the parameters by path below `inner`."""
    return {p.path.removeprefix("inner."): p.type.static_shape() for p in graph.parameters}


def test_every_standard_layer_is_there_and_checks() -> None:
    module = prelude()
    assert [layer.name for layer in module.program.layers] == NAMES
    assert TypeChecker().check(module.program).warnings == ()


@pytest.mark.parametrize(
    ("layer", "argument", "expected"),
    [
        ("Linear(4, 3)", "Tensor[N, 4]", "Tensor[N, 3]"),
        ("Linear(4, 3, bias=false)", "Tensor[4]", "Tensor[3]"),
        ("Linear(4, 3)", "Tensor[N, T, 4]", "Tensor[N, T, 3]"),
        ("TernaryLinear(4, 3, with_scale=true)", "Tensor[N, 4]", "Tensor[N, 3]"),
        (
            "TernaryConv2d(3, 8, 3, with_scale=true)",
            "Tensor[N, 3, H, W]",
            "Tensor[N, 8, H - 2, W - 2]",
        ),
        (
            "Conv2d(4, 8, 3, stride=2, padding=1, groups=2)",
            "Tensor[1, 4, 9, 9]",
            "Tensor[1, 8, 5, 5]",
        ),
        ("DepthwiseConv2d(4, 3, multiplier=2)", "Tensor[N, 4, 8, 8]", "Tensor[N, 8, 6, 6]"),
        ("BatchNorm1d(4)", "Tensor[N, 4]", "Tensor[N, 4]"),
        ("BatchNorm1d(4, affine=false)", "Tensor[N, 4, L]", "Tensor[N, 4, L]"),
        ("BatchNorm2d(4)", "Tensor[N, 4, H, W]", "Tensor[N, 4, H, W]"),
        ("LayerNorm(4, bias=false)", "Tensor[N, T, 4]", "Tensor[N, T, 4]"),
        ("RMSNorm(4)", "Tensor[N, 4]", "Tensor[N, 4]"),
        ("Embedding(100, 8)", "Tensor<int64>[N, T]", "Tensor[N, T, 8]"),
        ("MultiHeadAttention(16, 4)", "Tensor[N, T, 16]", "Tensor[N, T, 16]"),
        ("MultiHeadAttention(16, 4, bias=false)", "Tensor[2, 5, 16]", "Tensor[2, 5, 16]"),
        ("TransformerBlock(16, 4)", "Tensor[N, T, 16]", "Tensor[N, T, 16]"),
        ("TransformerBlock(16, 4, norm_first=false)", "Tensor[N, T, 16]", "Tensor[N, T, 16]"),
        ("BitLinear(8, 4)", "Tensor[N, T, 8]", "Tensor[N, T, 4]"),
        ('BitLinear(8, 4, bias=true, kind="dense")', "Tensor[N, 8]", "Tensor[N, 4]"),
        ("GatedMLP(8, 24, sub_norm=true)", "Tensor[N, T, 8]", "Tensor[N, T, 8]"),
        ("LIF()", "Tensor[T, N, 4]", "SpikeTensor[T, N, 4]"),
        ("CubaLIF(tau_mem=4.0)", "Tensor[T, N, 4]", "SpikeTensor[T, N, 4]"),
        ("TemporalBatchNorm(4)", "Tensor[T, N, 4, H, W]", "Tensor[T, N, 4, H, W]"),
        ("TemporalBatchNorm(4, axis=3)", "Tensor[T, N, L, 4]", "Tensor[T, N, L, 4]"),
        ("SpikingLinear(4, 3)", "SpikeTensor[T, N, 4]", "SpikeTensor[T, N, 3]"),
        (
            "SpikingConv2d(3, 8, 3, padding=1)",
            "SpikeTensor[T, N, 3, 8, 8]",
            "SpikeTensor[T, N, 8, 8, 8]",
        ),
        ("SpikingSelfAttention(16, 4)", "SpikeTensor[T, N, L, 16]", "SpikeTensor[T, N, L, 16]"),
        ("SpikingMLP(4, 8, 3)", "SpikeTensor[T, N, 4]", "SpikeTensor[T, N, 3]"),
        ("SpikeFormerBlock(16, 4)", "Tensor[T, N, L, 16]", "Tensor[T, N, L, 16]"),
    ],
)
def test_results(layer: str, argument: str, expected: str) -> None:
    assert result(layer, argument) == expected


def module_cases() -> list[tuple[str, str, Callable[[Any], Any]]]:
    """Our layer, its argument's type, and the same layer of torch."""
    return [
        ("Linear(4, 3)", "Tensor[N, 4]", lambda nn: nn.Linear(4, 3)),
        (
            "Conv2d(4, 8, 3, groups=2)",
            "Tensor[N, 4, 8, 8]",
            lambda nn: nn.Conv2d(4, 8, 3, groups=2),
        ),
        (
            "Conv2d(4, 8, 3, bias=false)",
            "Tensor[N, 4, 8, 8]",
            lambda nn: nn.Conv2d(4, 8, 3, bias=False),
        ),
        ("BatchNorm1d(4)", "Tensor[N, 4]", lambda nn: nn.BatchNorm1d(4)),
        ("BatchNorm2d(4)", "Tensor[N, 4, 8, 8]", lambda nn: nn.BatchNorm2d(4)),
        ("LayerNorm(4)", "Tensor[N, 4]", lambda nn: nn.LayerNorm(4)),
        ("RMSNorm(4)", "Tensor[N, 4]", lambda nn: nn.RMSNorm(4)),
        ("Embedding(9, 4)", "Tensor<int64>[N]", lambda nn: nn.Embedding(9, 4)),
        ("MultiHeadAttention(8, 2)", "Tensor[N, T, 8]", lambda nn: nn.MultiheadAttention(8, 2)),
        (
            "TransformerBlock(8, 2, hidden=20)",
            "Tensor[N, T, 8]",
            lambda nn: nn.TransformerEncoderLayer(8, 2, 20),
        ),
    ]


@pytest.mark.parametrize(("layer", "argument", "module"), module_cases())
def test_parameters_are_those_of_torch(
    layer: str, argument: str, module: Callable[[Any], Any]
) -> None:
    torch = pytest.importorskip("torch")
    expected = {
        key: tuple(value.shape)
        for key, value in module(torch.nn).state_dict().items()
        if not key.endswith("num_batches_tracked")
    }
    found = parameters(elaborate(layer, argument))
    assert found.keys() == expected.keys()
    for key, shape in found.items():
        is_linear = len(shape) == 2 and "Embedding" not in layer
        assert shape == (expected[key][::-1] if is_linear else expected[key])


def test_the_reference_shows_every_layer() -> None:
    root = Path(__file__).parents[3]
    source = (root / "ir" / "language" / "prelude.tri").read_text(encoding="utf-8")
    reference = (root / "docs" / "language.md").read_text(encoding="utf-8")
    layers = re.findall(r"^layer (\w+)\((.*?)\) \{", source, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in layers] == NAMES
    for name, arguments in layers:
        written = [re.sub(r": \w+", "", a.strip(), count=1) for a in arguments.split(",")]
        shown = ", ".join(argument.replace(" = ", "=") for argument in written)
        assert f"| `{name}({shown})` | " in reference


def test_buffers_are_not_learned() -> None:
    graph = elaborate("BatchNorm2d(4)", "Tensor[N, 4, 8, 8]")
    assert {p.path for p in graph.parameters if p.is_buffer} == {
        "inner.running_mean",
        "inner.running_var",
    }


def test_members_of_standard_layers_are_usable() -> None:
    graph = elaborate("SpikingLinear(4, 3)", "SpikeTensor[T, N, 4]", "inner.current(x) * 2.0")
    assert str(graph.outputs[0].type) == "Tensor[T, N, 3]"


def test_values_stand_at_the_users_source() -> None:
    graph = elaborate("TransformerBlock(16, 4)", "Tensor[N, T, 16]")
    assert {operation.span.file for operation in graph.operations()} == {"<string>"}
    assert {p.span.line for p in graph.parameters} == {3}
