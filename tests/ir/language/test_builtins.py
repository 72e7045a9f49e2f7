"""Built-in functions: result types against PyTorch's on meta tensors, arguments, refusals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from triton_dsl.ir.errors import CompilationError
from triton_dsl.ir.language import TritonParser, TypeChecker
from triton_dsl.ir.language import builtins as table
from triton_dsl.ir.language.builtins import BUILTINS, GROUPS
from triton_dsl.ir.language.elaborated import Elaborated, Operation
from triton_dsl.ir.language.rules_neurons import NEURONS

SPECIFIED = [
    "ternarize",
    "sign",
    "pack",
    "unpack",
    "ternary_matmul",
    "random_ternary",
    "abs",
    "exp",
    "log",
    "sqrt",
    "cos",
    "sin",
    "maximum",
    "minimum",
    "where",
    "clamp",
    "round",
    "floor",
    "relu",
    "relu6",
    "leaky_relu",
    "gelu",
    "silu",
    "sigmoid",
    "tanh",
    "hard_swish",
    "softmax",
    "log_softmax",
    "hard_tanh",
    "matmul",
    "linear",
    "conv1d",
    "conv2d",
    "depthwise_conv2d",
    "einsum",
    "reshape",
    "flatten",
    "transpose",
    "permute",
    "concat",
    "split",
    "stack",
    "slice",
    "pad",
    "squeeze",
    "unsqueeze",
    "expand",
    "gather",
    "positions",
    "max_pool2d",
    "avg_pool2d",
    "global_avg_pool2d",
    "sum",
    "mean",
    "max",
    "min",
    "argmax",
    "batch_norm",
    "layer_norm",
    "rms_norm",
    "quantize",
    "dequantize",
    "encode",
    "decode",
    "lif",
    "integrate_fire",
    "cuba_lif",
    "adaptive_lif",
    "leaky_integrator",
    "sigma_delta",
    "temporal_batch_norm",
    "spiking_attention",
    "delay",
]


def elaborate(body: str, *arguments: str) -> Elaborated:
    """A layer whose forward returns `body`; arguments are types, called a, b, c."""
    listed = ", ".join(f"{name}: {kind}" for name, kind in zip("abcdef", arguments, strict=False))
    source = f"layer L {{ fn forward({listed}) {{ return {body} }} }}"
    return TypeChecker().check(TritonParser().parse(source)).elaborate()


def result(body: str, *arguments: str) -> str:
    """The type of `body`."""
    return str(elaborate(body, *arguments).outputs[0].type)


def refusal(body: str, *arguments: str) -> str:
    """The error of `body`."""
    with pytest.raises(CompilationError) as caught:
        elaborate(body, *arguments)
    return str(caught.value)


def operation(body: str, *arguments: str) -> Operation:
    """The operation of `body`."""
    value = elaborate(body, *arguments).outputs[0]
    assert isinstance(value, Operation)
    return value


def test_the_table_is_complete() -> None:
    assert set(SPECIFIED) <= BUILTINS.keys()
    assert {b.group for b in BUILTINS.values()} == set(GROUPS)
    assert all(b.doc.endswith(".") for b in BUILTINS.values())


def test_every_function_is_documented() -> None:
    text = table.__doc__ or ""
    rows = {word for line in text.splitlines() for word in line.split("|")[1:2]}
    documented = {name for row in rows for name in row.split()}
    assert "*neurons*" in documented
    documented |= {neuron.name for neuron in NEURONS}
    assert BUILTINS.keys() <= documented


IMAGE = "Tensor[2, 4, 9, 8]"

TORCH = [
    ("abs(a)", "torch.abs(a)", [(2, 3)]),
    ("maximum(a, b)", "torch.maximum(a, b)", [(2, 1), (3,)]),
    ("where(a > 0.0, a, b)", "torch.where(a > 0, a, b)", [(2, 1), (1, 3)]),
    ("a + b * 2", "a + b * 2", [(4, 1, 3), (2, 1)]),
    ("a @ b", "a @ b", [(5, 1, 2, 3), (4, 3, 6)]),
    ("a @ b", "a @ b", [(3,), (4, 3, 6)]),
    ("a @ b", "a @ b", [(2, 3), (3,)]),
    ("a @ b", "a @ b", [(3,), (3,)]),
    ("linear(a, b)", "F.linear(a, b.T)", [(2, 5, 3), (3, 4)]),
    (
        "conv1d(a, b, stride=2, padding=1)",
        "F.conv1d(a, b, stride=2, padding=1)",
        [(2, 4, 9), (6, 4, 3)],
    ),
    (
        "conv2d(a, b, c, stride=[2, 1], padding=[1, 0], dilation=2, groups=2)",
        "F.conv2d(a, b, c, (2, 1), (1, 0), 2, 2)",
        [(2, 4, 9, 8), (6, 2, 3, 2), (6,)],
    ),
    ("depthwise_conv2d(a, b)", "F.conv2d(a, b, groups=4)", [(2, 4, 9, 8), (8, 1, 3, 3)]),
    ('einsum("bij,bjk->ikb", a, b)', 'torch.einsum("bij,bjk->ikb", a, b)', [(2, 3, 4), (2, 4, 5)]),
    ("reshape(a, [3, -1])", "a.reshape(3, -1)", [(2, 3, 4)]),
    ("flatten(a)", "torch.flatten(a, 1)", [(2, 3, 4)]),
    ("flatten(a, start=0, end=1)", "torch.flatten(a, 0, 1)", [(2, 3, 4)]),
    ("transpose(a)", "a.transpose(-2, -1)", [(2, 3, 4)]),
    ("permute(a, [2, 0, -2])", "a.permute(2, 0, -2)", [(2, 3, 4)]),
    ("concat([a, b], axis=1)", "torch.cat([a, b], 1)", [(2, 3), (2, 5)]),
    ("stack(a, b, axis=-1)", "torch.stack([a, b], -1)", [(2, 3), (2, 3)]),
    ("split(a, 2, axis=1)[1]", "a.chunk(2, 1)[1]", [(2, 6)]),
    ("split(a, [2, 4], axis=1)[1]", "a.split([2, 4], 1)[1]", [(2, 6)]),
    ("slice(a, 1, 1, 6, 2)", "a[:, 1:6:2]", [(2, 7)]),
    ("a[-1, 1:, ::3]", "a[-1, 1:, ::3]", [(2, 5, 7)]),
    ("a[0:1, -3:-1]", "a[0:1, -3:-1]", [(2, 5, 7)]),
    ("pad(a, [1, 2, 3, 4])", "F.pad(a, [1, 2, 3, 4])", [(2, 5, 7)]),
    ("squeeze(a, 1)", "a.squeeze(1)", [(2, 1, 7)]),
    ("unsqueeze(a, -1)", "a.unsqueeze(-1)", [(2, 7)]),
    ("expand(a, [4, -1, 3])", "a.expand(4, -1, 3)", [(2, 1)]),
    ("max_pool2d(a, 3, 2, 1)", "F.max_pool2d(a, 3, 2, 1)", [(2, 4, 9, 8)]),
    ("avg_pool2d(a, [2, 3])", "F.avg_pool2d(a, (2, 3))", [(2, 4, 9, 8)]),
    ("global_avg_pool2d(a)", "F.adaptive_avg_pool2d(a, 1)", [(2, 4, 9, 8)]),
    ("sum(a)", "a.sum()", [(2, 3)]),
    ("mean(a, axis=[0, -1], keepdims=true)", "a.mean([0, -1], True)", [(2, 3, 4)]),
    ("max(a, 1)", "a.amax(1)", [(2, 3, 4)]),
    ("argmax(a, 1)", "a.argmax(1)", [(2, 3, 4)]),
    ("softmax(a)", "a.softmax(-1)", [(2, 3)]),
    ("layer_norm(a, b, c)", "F.layer_norm(a, (3,), b, c)", [(2, 3), (3,), (3,)]),
    ("rms_norm(a, b)", "F.rms_norm(a, (3,), b)", [(2, 3), (3,)]),
    ("batch_norm(a, b, c)", "F.batch_norm(a, b, c)", [(2, 3), (3,), (3,)]),
]


@pytest.mark.parametrize(("body", "reference", "shapes"), TORCH)
def test_shapes_are_those_of_torch(
    body: str, reference: str, shapes: list[tuple[int, ...]]
) -> None:
    torch = pytest.importorskip("torch")
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    for name, shape in zip("abc", shapes, strict=False):
        names[name] = torch.zeros(shape)
    expected = eval(reference, names)
    found = elaborate(body, *(f"Tensor[{', '.join(map(str, s))}]" for s in shapes)).outputs[0].type
    assert found.static_shape() == tuple(expected.shape)
    assert f"torch.{found.element}" == str(expected.dtype)


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [
        (
            "conv2d(a, b, padding=1)",
            ["Tensor[N, 3, H, W]", "Tensor[8, 3, 3, 3]"],
            "Tensor[N, 8, H, W]",
        ),
        (
            "conv2d(a, b, stride=2)",
            ["Tensor[N, 3, H, W]", "Tensor[8, 3, 3, 3]"],
            "Tensor[N, 8, (H - 3)//2 + 1, (W - 3)//2 + 1]",
        ),
        ("reshape(a, [N, -1])", ["Tensor[N, C, H, W]"], "Tensor[N, C*H*W]"),
        ("reshape(a, [-1, 4])", ["Tensor[N]"], "Tensor[N/4, 4]"),
        ("concat(a, a, axis=1)", ["Tensor[N, C]"], "Tensor[N, 2*C]"),
        ("split(a, 2, axis=1)[0]", ["Tensor[N, C]"], "Tensor[N, C/2]"),
        ("a[1:, -2:]", ["Tensor[N, C]"], "Tensor[N - 1, 2]"),
        ("a + b", ["Tensor[?, 3]", "Tensor[N, 3]"], "Tensor[?, 3]"),
        ("a @ b", ["TernaryTensor[2, 3]", "TernaryTensor[3, 4]"], "Tensor<int32>[2, 4]"),
        ("a @ b", ["Tensor<int8>[2, 3]", "TernaryTensor[3, 4]"], "Tensor<int32>[2, 4]"),
        ("a @ b", ["Tensor<float16>[2, 3]", "TernaryTensor[3, 4]"], "Tensor<float16>[2, 4]"),
        ("a @ b", ["SpikeTensor[T, N, 3]", "TernaryTensor[3, 4]"], "Tensor[T, N, 4]"),
        ("a + b", ["Tensor<int8>[3]", "Tensor[3]"], "Tensor[3]"),
        ("a / a", ["Tensor<int8>[3]"], "Tensor[3]"),
        ("a * 0.5", ["TernaryTensor[3]"], "Tensor[3]"),
        ("-a", ["TernaryTensor[3]"], "TernaryTensor[3]"),
        ("ternarize(a, threshold=0.5)", ["Tensor[3]"], "TernaryTensor[3]"),
        ('ternarize(a, scale="channel")', ["Tensor[3, 4]"], "Tensor[3, 4]"),
        ("sign(a)", ["Tensor[3]"], "TernaryTensor[3]"),
        ("pack(a)", ["TernaryTensor[784, 10]"], "Tensor<int8>[1960]"),
        ("unpack(a, [3, 3])", ["Tensor<int8>[3]"], "TernaryTensor[3, 3]"),
        ("random_ternary([2, 3], seed=1)", ["Tensor[1]"], "TernaryTensor[2, 3]"),
        ("quantize(a, 8, 0.1)", ["Tensor[3]"], "Tensor<int8>[3]"),
        ("quantize(a, 12, b, axis=1)", ["Tensor[N, 3]", "Tensor[3]"], "Tensor<int16>[N, 3]"),
        ("dequantize(a, 0.1, 3)", ["Tensor<int8>[3]"], "Tensor[3]"),
        ("gather(a, b)", ["Tensor[10, 4]", "Tensor<int64>[N, T]"], "Tensor[N, T, 4]"),
        ("encode(a, 8)", ["Tensor[N, 4]"], "SpikeTensor[8, N, 4]"),
        ('encode(a, 8, scheme="delta")', ["Tensor[8, 4]"], "SpikeTensor[8, 4]"),
        ('decode(leaky_integrator(a, 2.0), "membrane")', ["Tensor[T, N]"], "Tensor[N]"),
        ("integrate_fire(a, 1.0)", ["Tensor[T, N]"], "SpikeTensor[T, N]"),
        ("delay(a, 2)", ["SpikeTensor[T, N]"], "SpikeTensor[T, N]"),
        ("flatten(a, start=2)", ["SpikeTensor[T, N, 3, 4]"], "SpikeTensor[T, N, 12]"),
        ("max_pool2d(a, 2)", ["SpikeTensor[T, N, 3, 8, 8]"], "SpikeTensor[T, N, 3, 4, 4]"),
        ("a > 0.0 && a < 1.0", ["Tensor[3]"], "Tensor<bool>[3]"),
        ('cast(a, dtype="int8")', ["Tensor[3]"], "Tensor<int8>[3]"),
        ("where(a == 1, 1.0, 0.0)", ["Tensor<int64>[3]"], "Tensor[3]"),
        ("a * sqrt(4) * exp(0)", ["Tensor[3]"], "Tensor[3]"),
    ],
)
def test_results(body: str, arguments: list[str], expected: str) -> None:
    assert result(body, *arguments) == expected


@pytest.mark.parametrize(
    ("body", "arguments", "message"),
    [
        (
            "a @ b",
            ["Tensor[N, 3]", "Tensor[4, 5]"],
            "equal inner dimensions: Tensor[N, 3] @ Tensor[4, 5]",
        ),
        ("a + b", ["Tensor[N]", "Tensor[M]"], "sizes N and M differ"),
        ("relu(a)", ["SpikeTensor[T, N]"], "decode(…)"),
        ("a + 1.0", ["SpikeTensor[T, N]"], "decode(…)"),
        ("a[0]", ["SpikeTensor[T, N]"], "time axis"),
        ("softmax(a, axis=2)", ["Tensor[N, 3]"], "axis 2 is out of range"),
        ("softmax(a, axes=1)", ["Tensor[N, 3]"], "did you mean 'axis'?"),
        ("softmax(a, 1, 2)", ["Tensor[N, 3]"], "takes 2 arguments, found 3"),
        ("softmax(a, axis=a)", ["Tensor[N, 3]"], "needs int, found Tensor[N, 3]"),
        ("softmax(axis=1)", ["Tensor[N, 3]"], "needs 'x'"),
        ("softmax(a, 1, axis=1)", ["Tensor[N, 3]"], "given twice"),
        ("softmax(axis=1, a)", ["Tensor[N, 3]"], "positional argument follows"),
        ('gelu(a, "tan")', ["Tensor[N]"], 'must be one of "none", "tanh", found "tan"'),
        ("reshape(a, [5, -1])", ["Tensor[2, 3]"], "do not fill"),
        ("reshape(a, [5])", ["Tensor[2, 3]"], "has 6 elements but [5] has 5"),
        ("reshape(a, 6)", ["Tensor[2, 3]"], "write [a, b]"),
        ("conv2d(a, b)", ["Tensor[N, 3, 8, 8]", "Tensor[4, 5, 3, 3]"], "has 3 channels"),
        ("conv2d(a, b)", ["Tensor[N, 3, 2, 2]", "Tensor[4, 3, 3, 3]"], "does not fit"),
        ("conv2d(a, b, stride=0)", ["Tensor[N, 3, 8, 8]", "Tensor[4, 3, 3, 3]"], "at least 1"),
        ("split(a, 4)", ["Tensor[6]"], "does not split"),
        ("pack(a)", ["TernaryTensor[N, 8]"], "known while compiling, found the size 8*N"),
        ("unpack(a, [N, 4])", ["Tensor<int8>[N]"], "known while compiling, found the size 4*N"),
        ("clamp(a, 0.5, 2.0)", ["Tensor<int8>[3]"], "'min' 0.5 does not fit Tensor<int8>[3]"),
        ("hard_tanh(a, -1.0, 1.5)", ["TernaryTensor[3]"], "'max' 1.5 does not fit"),
        ("pad(a, [1, 1], 0.5)", ["Tensor<int8>[3]"], "'value' 0.5 does not fit"),
        ("pad(a, [1, 1], 300.0)", ["Tensor<int8>[3]"], "'value' 300.0 does not fit"),
        ("a[7]", ["Tensor[6]"], "index 7 is out of range"),
        ("a[4:2]", ["Tensor[6]"], "empty"),
        ("a[0, 0]", ["Tensor[6]"], "which has 1 axes"),
        ("a + 300", ["Tensor<int8>[6]"], "300 does not fit int8"),
        ("a && a", ["Tensor[6]"], "needs two bools"),
        ("!a", ["Tensor[6]"], "needs a bool"),
        ("ternary_matmul(a, a)", ["Tensor[3, 3]"], "ternarize(…)"),
        ("quantize(a, 64, 0.1)", ["Tensor[3]"], "between 2 and 32"),
        ("encode(a, 0)", ["Tensor[3]"], "at least 1"),
        ("encode(a, 2, seed=-1)", ["Tensor[3]"], "'seed' must be from 0 to 2^63 - 1, found -1"),
        ('ternarize(a, mode="stochastic", seed=-1)', ["Tensor[3]"], "'seed' must be from 0"),
        ("lif(a, tau=0.0)", ["Tensor[T, 3]"], "must be positive"),
        ("expand(a, [4])", ["Tensor[3]"], "cannot become 4"),
        ('einsum("ij,jk", a, a)', ["Tensor[3, 3]"], "cannot read the equation"),
        ("log(0)", ["Tensor[3]"], "no finite value"),
        ("a(1)", ["Tensor[3]"], "cannot call Tensor[3]"),
        ("[a, a] + a", ["Tensor[3]"], "needs tensors or numbers"),
    ],
)
def test_refusals(body: str, arguments: list[str], message: str) -> None:
    assert message in refusal(body, *arguments)


def test_attributes_are_complete() -> None:
    found = operation("conv2d(a, b, padding=1)", "Tensor[N, 3, 8, 8]", "Tensor[4, 3, 3, 3]")
    assert found.attributes == {
        "has_bias": False,
        "stride": (1, 1),
        "padding": (1, 1),
        "dilation": (1, 1),
        "groups": 1,
    }
    assert operation("softmax(a)", "Tensor[N, 3]").attributes == {"axis": 1}
    assert operation("max(a)", "Tensor[N, 3]").attributes == {"axes": (0, 1), "keepdims": False}
    assert operation("transpose(a)", "Tensor[N, 3]").attributes == {"axes": (1, 0)}
    assert operation("max_pool2d(a, 2)", IMAGE).attributes["stride"] == (2, 2)
    assert operation("a[-1]", "Tensor[N, 3]").attributes == {"axes": (0,)}
    assert operation("a[1:, :2]", "Tensor[N, 3]").attributes == {
        "starts": (1, 0),
        "stops": (None, 2),
        "steps": (1, 1),
    }


def test_absent_tensors_and_settings() -> None:
    found = operation("linear(a, b, false)", "Tensor[N, 3]", "Tensor[3, 4]")
    assert len(found.operands) == 2
    assert found.attributes == {"has_bias": False}
    scaled = operation("quantize(a, 8, b, axis=1)", "Tensor[N, 3]", "Tensor[3]")
    assert len(scaled.operands) == 2
    assert scaled.attributes["has_scale"] is True
    assert scaled.attributes["scale"] is None
    assert scaled.attributes["zero_point"] == 0


def test_mixed_elements_are_cast() -> None:
    found = operation("a + b", "Tensor<int8>[3]", "Tensor[3]")
    left = found.operands[0]
    assert isinstance(left, Operation)
    assert (left.function, left.attributes) == ("cast", {"dtype": "float32"})
    assert {operand.type.element for operand in found.operands} == {"float32"}


def test_the_reference_shows_every_signature() -> None:
    """Of a model of neurons the line of its op says as much."""
    folder = Path(__file__).parents[3] / "docs"
    text, ops = ((folder / name).read_text("utf-8") for name in ("language.md", "dialects.md"))
    missing = [
        b.signature
        for b in BUILTINS.values()
        if f"| `{b.signature}` | {b.doc} |" not in text
        and not (b in NEURONS and f"| `spike.{b.name}` |" in ops)
    ]
    assert missing == []


def test_the_examples_of_the_reference_are_valid() -> None:
    text = (Path(__file__).parents[3] / "docs" / "language.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```tri\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(examples) >= 6
    for example in examples:
        typed = TypeChecker().check(TritonParser().parse(example))
        if typed.entry() is not None:
            assert typed.elaborate().outputs
