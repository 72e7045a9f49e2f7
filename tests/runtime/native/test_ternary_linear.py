"""What the callable layer refuses, and how it chooses its kernels."""

from typing import Any

import numpy as np
import pytest

from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.ir.native_abi import Kind, Layout
from triton_dsl.runtime.native.jit import Library
from triton_dsl.runtime.native.packed import PackedWeights
from triton_dsl.runtime.native.ternary_linear import TernaryLinear
from triton_dsl.tools.native import kernel_provider

pytest.importorskip("llvmlite")


class Recording:
    """Provides real kernels and remembers which."""

    def __init__(self) -> None:
        self.asked: list[tuple[Layout, str]] = []

    def __call__(self, layout: Layout, kind: Kind) -> Library:
        self.asked.append((layout, kind.activations))
        return kernel_provider()(layout, kind)


def layer(outs: int = 3, ins: int = 4, **options: Any) -> tuple[TernaryLinear, Recording]:
    provider = Recording()
    weights = PackedWeights.of(np.ones((outs, ins), np.int8))
    return TernaryLinear(weights, provider, **options), provider


@pytest.mark.parametrize(
    ("rows", "ins", "dtype", "expected"),
    [
        (1, 4096, np.int8, ("stored", "i8")),
        (1, 4097, np.int8, ("rows", "i8")),
        (1, 200, np.int8, ("panels", "i8")),
        (8, 1024, np.int8, ("panels", "i8")),
        (1, 4096, np.float32, ("stored", "f32")),
        (8, 1025, np.float32, ("panels", "f32")),
    ],
)
def test_chooses_a_kernel_for_each_shape(
    rows: int, ins: int, dtype: type, expected: tuple[str, str]
) -> None:
    linear, provider = layer(ins=ins)
    x = np.ones((rows, ins), dtype)
    for _ in range(2):
        assert np.allclose(linear(x), ins)
    assert provider.asked == [expected]


def test_three_digits_are_three_rows() -> None:
    linear, provider = layer(ins=1024, precision="float32")
    assert np.array_equal(linear(np.ones((1, 1024), np.float32)), np.full((1, 3), 1024))
    assert provider.asked == [("panels", "f32x3")]


def test_nothing_is_compiled_for_nothing() -> None:
    linear, provider = layer()
    assert linear(np.ones((0, 4), np.float32)).shape == (0, 3)
    empty, _ = layer(outs=0)
    assert empty(np.ones((2, 4), np.float32)).shape == (2, 0)
    assert provider.asked == []


def test_no_inputs_give_the_bias() -> None:
    bias = np.array([1, 2, 3], np.float32)
    linear, _ = layer(ins=0, bias=bias)
    assert np.array_equal(linear(np.ones((2, 0), np.float32)), [bias, bias])
    assert np.array_equal(linear(np.ones((2, 0), np.int8)), np.zeros((2, 3)))


def test_refuses_wrong_activations() -> None:
    linear, _ = layer()
    with pytest.raises(BackendError, match=r"expected activations \[..., 4\], got \[2, 5\]"):
        linear(np.ones((2, 5), np.float32))
    with pytest.raises(BackendError, match="got float64"):
        linear(np.ones((2, 4)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "half"}, "precision is one of dynamic-int8, float32"),
        ({"threads": 0}, "at least 1"),
        ({"layout": "stored"}, "not a multiple of 256"),
        ({"scale": np.ones(2, np.float32)}, r"scale of shape \[3\], got \[2\]"),
        ({"bias": np.ones((3, 1), np.float32)}, r"bias of shape \[3\]"),
    ],
)
def test_refuses_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        layer(**options)
