"""What the callable layer refuses, and which kernels it asks for."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.to_native.callables import kernel_provider
from triton_dsl.runtime.native.abi.linear import Kind, Layout
from triton_dsl.runtime.native.jit import Library
from triton_dsl.runtime.native.packed import PackedWeights
from triton_dsl.runtime.native.ternary_linear import TernaryLinear

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


@pytest.mark.parametrize("layout", ["panels", "stored", "rows"])
@pytest.mark.parametrize(("dtype", "kind"), [(np.int8, "i8"), (np.float32, "f32")])
def test_asks_once_for_a_kernel(layout: Layout, dtype: type, kind: str) -> None:
    linear, provider = layer(ins=512, layout=layout)
    for rows in (1, 8, 1, 8):
        assert np.allclose(linear(np.ones((rows, 512), dtype)), 512)
    assert provider.asked == [(layout, kind)]
    held = (
        3 * 512 // 4 if layout == "stored" else 3 * 512 // 4 + linear.weights.layout(layout).nbytes
    )
    assert linear.weights.bytes_held == held


def test_three_digits_have_kernels_of_their_own() -> None:
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


def test_takes_activations_and_weights_that_cannot_be_written() -> None:
    packed = pack_trits(np.ones((3, 256), np.int8))
    packed.flags.writeable = False
    linear = TernaryLinear(PackedWeights(packed, 3, 256), Recording(), layout="stored")
    x = np.ones((2, 256), np.float32)
    x.flags.writeable = False
    assert np.array_equal(linear(x), np.full((2, 3), 256))


THREADS = """
import sys
import numpy as np
if sys.argv[1] == "torch":
    import torch
from triton_dsl.lowering.to_native.callables import native_linear
random = np.random.default_rng(0)
trits, x = random.integers(-1, 2, (700, 1500)), random.standard_normal((9, 1500), np.float32)
results = [native_linear(trits, threads=threads)(x) for threads in (1, 2, 5)]
assert all(np.array_equal(result, results[0]) for result in results)
assert np.abs(results[0] - x @ trits.T).max() < 2
"""


@pytest.mark.parametrize("library", ["torch", "none"])
def test_every_number_of_threads_gives_the_same(library: str) -> None:
    if library == "torch":
        pytest.importorskip("torch")
    command = [sys.executable, "-W", "ignore", "-c", THREADS, library]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
