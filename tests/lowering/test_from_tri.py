"""From `.tri` to IR: ops, locations, names, and the same numbers as PyTorch's own functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from xdsl.dialects.builtin import FileLineColLoc

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import parameters
from triton_dsl.ir.errors import CompilationError, LoweringError
from triton_dsl.lowering.from_tri import import_tri

LINEAR_CLASSIFIER = """
layer LinearClassifier {
    param weights: TernaryTensor[784, 10]
    param bias: Tensor[10]
    
    fn forward(x: Tensor[N, 784]) -> Tensor[N, 10] {
        return x @ weights + bias
    }
}
"""  # noqa: W293


def test_the_linear_classifier_has_a_location_on_every_op() -> None:
    module = import_tri(LINEAR_CLASSIFIER)
    module.verify()
    for op in module.walk():
        assert isinstance(op.location, FileLineColLoc), op.name
    (product,) = [op for op in module.walk() if isinstance(op, ternary.MatmulOp)]
    assert isinstance(product.location, FileLineColLoc)
    assert (product.location.line.data, product.location.column.data) == (7, 16)


def test_parameter_keys_are_state_dict_keys() -> None:
    source = """
    layer Block(n: int) {
        let fc = Linear(n, n)
        let norm = BatchNorm1d(n)
        fn forward(x: Tensor[N, n]) -> Tensor[N, n] { return norm(fc(x)) }
    }
    layer Net {
        let blocks = [Block(4), Block(4)]
        fn forward(x: Tensor[N, 4]) -> Tensor[N, 4] {
            for block in blocks { x = block(x) }
            return x
        }
    }
    """

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)
            self.norm = torch.nn.BatchNorm1d(4)

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.ModuleList([Block(), Block()])

    expected = {k for k in Net().state_dict() if not k.endswith("num_batches_tracked")}
    keys = {op.key.data for op in parameters(import_tri(source, layer="Net"))}
    assert keys == expected


def evaluate(
    body: str, signature: str, arrays: list[Any], members: str = "", **weights: Any
) -> Any:
    """Run `fn forward(signature) { body }` in the interpreter."""
    source = f"layer L {{\n{members}\nfn forward({signature}) {{\n{body}\n}}\n}}"
    module = import_tri(source, weights=weights or None)
    module.verify()
    results = run_module(module, arrays)
    return results[0] if len(results) == 1 else results


RNG = np.random.default_rng(7)
X = RNG.standard_normal((2, 3, 6, 6)).astype(np.float32)
T = torch.from_numpy(X)
WEIGHT = RNG.standard_normal((4, 3, 3, 3)).astype(np.float32)
SIGNATURE = "x: Tensor[N, 3, 6, 6]"
M = RNG.standard_normal((5, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return relu(x) + sigmoid(x)", T.relu() + T.sigmoid()),
        ("return gelu(x)", F.gelu(T)),
        ('return gelu(x, approximate="tanh")', F.gelu(T, approximate="tanh")),
        ("return leaky_relu(x, 0.2)", F.leaky_relu(T, 0.2)),
        ("return softmax(x, axis=1)", T.softmax(1)),
        ("return log_softmax(x)", T.log_softmax(-1)),
        ("return hard_swish(x)", F.hardswish(T)),
        ("return silu(tanh(x))", F.silu(T.tanh())),
        ("return hard_tanh(x)", F.hardtanh(T)),
        ("return clamp(x, -0.5, 0.25)", T.clamp(-0.5, 0.25)),
        ("return where(x > 0, x, x * 2)", torch.where(T > 0, T, T * 2)),
        ("return maximum(x, -x) - minimum(x, 0)", T.abs() - T.clamp(max=0)),
        ("return max_pool2d(x, 2)", F.max_pool2d(T, 2)),
        ("return max_pool2d(x, 3, stride=2, padding=1)", F.max_pool2d(T, 3, 2, 1)),
        ("return avg_pool2d(x, 3, stride=2, padding=1)", F.avg_pool2d(T, 3, 2, 1)),
        ("return global_avg_pool2d(x)", T.mean((2, 3), keepdim=True)),
        ("return flatten(x)", T.flatten(1)),
        ("return reshape(x, [N, 18, 6])", T.reshape(2, 18, 6)),
        ("return permute(x, [0, 2, 3, 1])", T.permute(0, 2, 3, 1)),
        ("return transpose(x, 1, 2)", T.transpose(1, 2)),
        ("return concat([x, x], axis=1)", torch.cat([T, T], 1)),
        ("return stack([x, x], axis=1)", torch.stack([T, T], 1)),
        ("return x[:, 1:3, ::2, -1]", T[:, 1:3, ::2, -1]),
        ("return pad(x, [2, 1, 1, 0], 3.0)", F.pad(T, (2, 1, 1, 0), value=3.0)),
        ("return sum(x, axis=1)", T.sum(1)),
        ("return mean(x, axis=2, keepdims=true)", T.mean(2, keepdim=True)),
        ("return max(x, axis=1) - min(x, axis=1)", T.amax(1) - T.amin(1)),
        ("return argmax(x, axis=1)", T.argmax(1)),
        ("return layer_norm(x)", F.layer_norm(T, (6,))),
        ("return squeeze(unsqueeze(x, 1), 1)", T),
        ("return round(x * 3) + floor(x)", (T * 3).round() + T.floor()),
        ("return cos(x) * sin(x * 2)", T.cos() * (T * 2).sin()),
        (
            "return positions(x, axis=1) + unsqueeze(positions(x, axis=0), 1)",
            torch.arange(3) + torch.arange(2)[:, None],
        ),
        ("return exp(x) / sqrt(abs(x) + 1)", T.exp() / (T.abs() + 1).sqrt()),
    ],
)
def test_a_built_in_gives_what_torch_gives(body: str, expected: torch.Tensor) -> None:
    actual = evaluate(body, SIGNATURE, [X])
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-5, atol=1e-6)


def test_convolution_with_stride_padding_and_groups() -> None:
    members = "param w: Tensor[4, 3, 3, 3]\nparam b: Tensor[4]"
    bias = RNG.standard_normal(4).astype(np.float32)
    body = "return conv2d(x, w, b, stride=2, padding=1)"
    actual = evaluate(body, SIGNATURE, [X], members, w=WEIGHT, b=bias)
    expected = F.conv2d(T, torch.from_numpy(WEIGHT), torch.from_numpy(bias), 2, 1)
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-4, atol=1e-5)
    depthwise = RNG.standard_normal((6, 1, 3, 3)).astype(np.float32)
    body = "return depthwise_conv2d(x, w, padding=1)"
    actual = evaluate(body, SIGNATURE, [X], "param w: Tensor[6, 1, 3, 3]", w=depthwise)
    expected = F.conv2d(T, torch.from_numpy(depthwise), padding=1, groups=3)
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_numbers_have_no_axes() -> None:
    module = import_tri("layer A { fn forward(x: float32) { return x * 2.0 + 1.0 } }")
    (result,) = run_module(module, [np.array(3, np.float32)])
    assert result.shape == ()
    assert result == 7


@pytest.mark.parametrize(("axis", "size"), [(1, 4), (-1, 3)])
def test_scales_of_channels_share_one_zero_point(axis: int, size: int) -> None:
    source = f"""
    layer A {{
        buffer s: Tensor[{size}]
        fn forward(x: Tensor[N, 4, 3]) {{
            return quantize(x, bits=4, scale=s, zero_point=2, axis={axis})
        }}
    }}
    """
    scale = np.linspace(0.1, 0.4, size, dtype=np.float32)
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    (actual,) = run_module(import_tri(source, weights={"s": scale}), [x])
    laid = scale if axis == -1 else scale[:, None]
    np.testing.assert_array_equal(actual, np.clip(np.rint(x / laid) + 2, -8, 7))


def test_split_gives_every_piece() -> None:
    body = "let parts = split(x, [1, 2], axis=1)\nreturn concat([parts[1], parts[0]], axis=1)"
    np.testing.assert_array_equal(evaluate(body, SIGNATURE, [X]), X[:, [1, 2, 0]])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_split_into_equal_parts_of_a_free_size(axis: int) -> None:
    x = np.arange(72, dtype=np.float32).reshape(6, 3, 4).swapaxes(1, axis)
    sizes = ", ".join("C" if n == 3 else str(n) for n in x.shape)
    parts = evaluate(f"return concat(split(x, 3, axis={axis}), axis=0)", f"x: Tensor[{sizes}]", [x])
    np.testing.assert_array_equal(parts, np.concatenate(np.split(x, 3, axis)))


def test_split_into_other_parts_of_a_free_size_is_refused() -> None:
    message = r"4:8: error: cannot split into \[C - 1, 1\]: parts whose sizes are known at run time"
    with pytest.raises(LoweringError, match=message):
        evaluate("return split(x, [C - 1, 1])[0]", "x: Tensor[C, 4]", [X])


@pytest.mark.parametrize("function", ["round", "floor"])
@pytest.mark.parametrize("type", ["Tensor<int8>", "Tensor<int64>", "TernaryTensor"])
def test_integers_are_rounded_already(function: str, type: str) -> None:
    x = np.array([-1, 0, 1], np.int64 if "64" in type else np.int8)
    actual = evaluate(f"return {function}(x)", f"x: {type}[3]", [x])
    assert actual.dtype == x.dtype
    np.testing.assert_array_equal(actual, x)


def test_gather_along_any_axis() -> None:
    indices = np.array([[2, 0], [1, 1]])
    for axis in (0, 1):
        body = f"return gather(x, i, axis={axis})"
        actual = evaluate(body, "x: Tensor[5, 3], i: Tensor<int64>[2, 2]", [M, indices])
        np.testing.assert_array_equal(actual, np.take(M, indices, axis=axis))


def test_ternary_constants_and_products_are_exact() -> None:
    x = RNG.integers(-128, 128, (3, 6)).astype(np.int8)
    weight = RNG.integers(-1, 2, (6, 4))
    body = "return x @ w"
    actual = evaluate(body, "x: Tensor<int8>[N, 6]", [x], "param w: TernaryTensor[6, 4]", w=weight)
    assert actual.dtype == np.int32
    np.testing.assert_array_equal(actual, x.astype(np.int64) @ weight)


def test_random_ternary_is_seeded() -> None:
    body = "return x @ random_ternary([100, 2], seed=5)"
    x = np.eye(100, dtype=np.float32)
    first, second = (evaluate(body, "x: Tensor[N, 100]", [x]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert set(np.unique(first)) == {-1, 0, 1}


def test_trainable_keeps_float_latents_under_the_same_key() -> None:
    module = import_tri(LINEAR_CLASSIFIER, trainable=True)
    (latent,) = [op for op in parameters(module) if op.key.data == "weights"]
    assert isinstance(latent, tensor.ParameterOp)
    weights = RNG.standard_normal((784, 10)).astype(np.float32)
    bias = np.zeros(10, np.float32)
    module = import_tri(
        LINEAR_CLASSIFIER, trainable=True, weights={"weights": weights, "bias": bias}
    )
    x = RNG.standard_normal((2, 784)).astype(np.float32)
    delta = np.float64(0.7) * np.abs(weights).mean(dtype=np.float64)
    trits = np.where(np.abs(weights) <= delta, 0, np.sign(weights))
    np.testing.assert_allclose(run_module(module, [x])[0], x @ trits, rtol=1e-4, atol=1e-4)


def test_a_program_with_errors_gives_a_compilation_error() -> None:
    with pytest.raises(CompilationError) as caught:
        import_tri(LINEAR_CLASSIFIER.replace("784, 10]", "748, 10]", 1))
    assert (caught.value.line, caught.value.column) == (7, 16)
    assert "inner dimensions" in str(caught.value)


@pytest.mark.parametrize(
    ("element", "operand", "body"),
    [
        ("int8", "TernaryTensor[2, 3]", "x @ w + 1"),
        ("int32", "TernaryTensor[2, 3]", "linear(x, w) + 1"),
        ("int64", "TernaryTensor[2, 3]", "x @ w + 1"),
        ("int64", "TernaryTensor[2, 3]", "ternary_matmul(x, w) + 1"),
        ("int8", "Tensor<int8>[2, 3]", "x @ w + 1"),
        ("int16", "Tensor<int8>[2, 3]", "linear(x, w) + 1"),
        ("int64", "Tensor<int8>[2, 3]", "matmul(x, w) + 1"),
    ],
)
def test_sums_of_integers_have_the_type_that_the_checker_says(
    element: str, operand: str, body: str
) -> None:
    """At least `int32`; `int64` for that, so that nothing wraps around where it would fit."""
    sums = "int64" if element == "int64" else "int32"
    module = import_tri(
        f"""
        layer Sums {{
            param w: {operand}
            fn forward(x: Tensor<{element}>[N, 2]) -> Tensor<{sums}>[N, 3] {{ return {body} }}
        }}
        """,
        weights={"w": np.array([[1, -1, 0], [1, 1, 1]], np.int8)},
    )
    most = np.iinfo(element).max
    x = np.array([[most, most], [most, -most], [1 << 40 if sums == "int64" else 9, 1]], element)
    wide = x.astype(object) @ np.array([[1, -1, 0], [1, 1, 1]], object) + 1
    bits = np.iinfo(sums).bits
    (got,) = run_module(module, [x])
    assert got.dtype == sums
    np.testing.assert_array_equal(got.astype(object) % (1 << bits), wide % (1 << bits))


def test_trits_sum_with_integers_on_either_side() -> None:
    module = import_tri(
        """
        layer Left {
            param w: TernaryTensor[2, 2]
            fn forward(x: Tensor<int8>[2, 3]) -> Tensor<int32>[2, 3] { return w @ x }
        }
        """,
        weights={"w": np.array([[1, 1], [-1, 1]], np.int8)},
    )
    x = np.array([[127, -128, 5], [100, -100, 7]], np.int8)
    want = np.array([[1, 1], [-1, 1]]) @ x.astype(np.int32)
    np.testing.assert_array_equal(run_module(module, [x])[0], want)


def test_integers_of_64_bits_are_not_dequantised() -> None:
    """A difference of two of them need not fit 64 bits, and float32 holds 24."""
    source = """
    layer Wide {
        fn forward(x: Tensor<int64>[N]) -> Tensor[N] { return dequantize(x, scale=0.5) }
    }
    """
    with pytest.raises(CompilationError, match="at most 32 bits") as caught:
        import_tri(source)
    assert "3:" in str(caught.value)
