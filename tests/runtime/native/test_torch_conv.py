"""Native convolutions behind PyTorch's operator: which kernels run, and that none is stale."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.to_native.conv_kernels import conv_provider
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES
from triton_dsl.runtime.native import torch_conv
from triton_dsl.runtime.native.processor import host_features
from triton_dsl.runtime.native.provider import CONV
from triton_dsl.runtime.native.torch_linear import is_unseen
from triton_dsl.runtime.operators import set_precision, ternary_conv2d, use_precision
from triton_dsl.runtime.packed import PackedTernaryConv2d
from triton_dsl.runtime.packing import pack

pytest.importorskip("llvmlite")

GENERATOR = torch.Generator().manual_seed(11)
NO_WINDOW: Any = ((1, 1), (0, 0, 0, 0), (1, 1), 1)
RUNNABLE = [recipe.name for recipe in RECIPES if recipe.features <= host_features()]
LAYERS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((70, 5, 3, 3), {"padding": (1, 1)}),
    ((6, 4, 3, 1), {"stride": (2, 1), "groups": 2, "dilation": (1, 2)}),
    ((20, 17, 1, 1), {}),
    ((8, 1, 3, 3), {"padding": (1, 0), "groups": 4}),
]


def random_trits(*shape: int) -> torch.Tensor:
    return torch.randint(-1, 2, shape, generator=GENERATOR)


def random_floats(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=GENERATOR)


def by_kernel(x: torch.Tensor, weight: torch.Tensor, trits: torch.Tensor) -> torch.Tensor | None:
    return torch_conv.convolve(x, weight, tuple(trits.shape), None, None, *NO_WINDOW)


def check(result: torch.Tensor | None, x: torch.Tensor, trits: torch.Tensor, **window: Any) -> None:
    """A result against the convolution in float64, as accurate as float32."""
    assert result is not None
    expected = functional.conv2d(x.double(), trits.double(), **window)
    bound = functional.conv2d(x.double().abs(), trits.double().abs(), **window).amax()
    assert (result.double() - expected).abs().amax() <= 1e-6 * bound.clamp(min=1)


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    kernels = CONV.get()
    yield
    set_precision("float32")
    CONV.set(kernels)


@pytest.mark.parametrize("recipe", RUNNABLE)
@pytest.mark.parametrize(("shape", "window"), LAYERS)
def test_every_recipe_convolves(
    recipe: str, shape: tuple[int, ...], window: dict[str, Any]
) -> None:
    CONV.set(conv_provider(recipe))
    trits = random_trits(*shape)
    weight = pack(trits)
    x = random_floats(2, shape[1] * window.get("groups", 1), 9, 10)
    check(ternary_conv2d(x, weight, shape, **window), x, trits, **window)
    whole = torch.randint(-128, 128, x.shape, generator=GENERATOR, dtype=torch.int8)
    result = ternary_conv2d(whole, weight, shape, **window)
    assert torch.equal(result.double(), functional.conv2d(whole.double(), trits.double(), **window))


def test_kernels_are_taken() -> None:
    trits, x = random_trits(7, 5, 3, 3), random_floats(2, 5, 8, 9)
    scale, bias = random_floats(7), random_floats(7)
    check(by_kernel(x, pack(trits), trits), x, trits)
    result = torch_conv.convolve(x, pack(trits), (7, 5, 3, 3), scale, bias, *NO_WINDOW)
    assert result is not None
    expected = functional.conv2d(x.double(), trits.double()) * scale.reshape(-1, 1, 1)
    expected = expected + bias.reshape(-1, 1, 1)
    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)
    wide = ternary_conv2d(x.bfloat16(), pack(trits), trits.shape)
    torch.testing.assert_close(
        wide, functional.conv2d(x.bfloat16().double(), trits.double()).bfloat16()
    )


def test_windows_far_apart_and_images_without_any() -> None:
    x, trits = random_floats(1, 1, 4, 200), random_trits(2, 1, 1, 3)
    result = ternary_conv2d(x, pack(trits), trits.shape, dilation=(1, 65))
    check(result, x, trits, dilation=(1, 65))
    none = torch_conv.convolve(x[..., :2], pack(trits), (2, 1, 1, 3), None, None, *NO_WINDOW)
    assert none is None
    with pytest.raises(OptionError, match="a window of 1x3 does not fit into images"):
        ternary_conv2d(x[..., :2], pack(trits), trits.shape)


def test_dynamic_int8_rounds_each_image() -> None:
    x = random_floats(3, 5, 8, 9) * torch.tensor([1.0, 30, 0]).reshape(3, 1, 1, 1)
    trits = random_trits(7, 5, 3, 3)
    images: NDArray[np.float32] = x.numpy()
    largest = np.abs(images).max(axis=(1, 2, 3), keepdims=True)
    unit = (largest / np.float32(127)).astype(np.float64)
    steps = np.rint(images / np.where(unit == 0, 1, unit)).astype(np.int64)
    total = np.zeros((3, 7, 6, 7), np.int64)
    for r in range(3):
        for c in range(3):
            window = steps[:, :, r : r + 6, c : c + 7]
            total += np.einsum("nchw,oc->nohw", window, trits[:, :, r, c].numpy())
    with use_precision("dynamic-int8"):
        result = ternary_conv2d(x, pack(trits), trits.shape)
    np.testing.assert_allclose(result.numpy(), total * unit, rtol=1e-5)
    # At the default they are not rounded.
    check(ternary_conv2d(x, pack(trits), trits.shape), x, trits)


def test_changed_weights_are_noticed() -> None:
    layer = PackedTernaryConv2d((7, 5, 3, 3), bias=False, scale=False)
    x = random_floats(1, 5, 8, 9)
    for replace in ("state", "attribute", "data", "in data", "numpy"):
        for _ in range(3):
            trits = random_trits(7, 5, 3, 3)
            if replace == "state":
                layer.load_state_dict({"weight": pack(trits)})
            elif replace == "data":
                layer.weight.data = pack(trits)
            elif replace == "in data":
                layer.weight.data.copy_(pack(trits))
            elif replace == "numpy":
                layer.weight.numpy()[:] = pack(trits).numpy()
            else:
                layer.weight = pack(trits)
            for _ in range(2):
                check(layer(x), x, trits)
    with torch.inference_mode():
        weight = pack(random_trits(7, 5, 3, 3))
        assert weight.is_inference()
        for _ in range(3):
            trits = random_trits(7, 5, 3, 3)
            weight.copy_(pack(trits))
            check(ternary_conv2d(x, weight, trits.shape), x, trits)


def test_bytes_have_many_shapes() -> None:
    flat, x = random_trits(72), random_floats(1, 4, 8, 9)
    weight = pack(flat)
    for _ in range(2):
        for shape, groups in [((2, 4, 3, 3), 1), ((4, 2, 3, 3), 2), ((8, 1, 3, 3), 4)]:
            result = ternary_conv2d(x, weight, shape, groups=groups)
            check(result, x, flat.reshape(shape), groups=groups)


def test_weights_are_forgotten() -> None:
    weight = pack(random_trits(2, 1, 3, 3))
    ternary_conv2d(random_floats(1, 1, 4, 4), weight, (2, 1, 3, 3))
    key = id(weight)
    held: Any = torch_conv
    assert key in held._HELD
    del weight
    gc.collect()
    assert key not in held._HELD


@pytest.mark.parametrize(("shape", "window"), LAYERS)
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_every_number_of_threads_gives_the_same(
    batch: int, shape: tuple[int, ...], window: dict[str, Any]
) -> None:
    before = torch.get_num_threads()
    outs, channels, *kernel = shape
    # So many outputs that threads are worth it.
    trits = random_trits(8 * outs, channels, *kernel)
    weight, x = pack(trits), random_floats(batch, channels * window.get("groups", 1), 60, 61)
    results: list[torch.Tensor] = []
    try:
        for threads in (1, 2, 3, 7):
            torch.set_num_threads(threads)
            results.append(ternary_conv2d(x, weight, trits.shape, **window))
    finally:
        torch.set_num_threads(before)
    check(results[0], x, trits, **window)
    assert all(torch.equal(result, results[0]) for result in results)


def test_threads_of_python_may_call_at_once() -> None:
    trits = [random_trits(64, 16, 3, 3) for _ in range(3)]
    weights, x = [pack(each) for each in trits], random_floats(2, 16, 30, 31)
    wrong: list[int] = []

    def work(i: int) -> None:
        torch.set_num_threads(2)
        for _ in range(5):
            try:
                check(ternary_conv2d(x, weights[i % 3], (64, 16, 3, 3)), x, trits[i % 3])
            except AssertionError:
                wrong.append(i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


@pytest.mark.parametrize("threads", [1, 2])
def test_weights_that_change_all_the_time_are_left_to_pytorch(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(torch_conv, "_MOST_PROGRAMS", 2)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    x = random_floats(1, 3, 5, 6 + threads)
    taken: list[bool] = []
    try:
        for _ in range(4):
            trits = random_trits(2, 3, 2, 2)
            weight = pack(trits)
            taken.append(by_kernel(x, weight, trits) is not None)
            check(ternary_conv2d(x, weight, trits.shape), x, trits)
    finally:
        torch.set_num_threads(before)
    assert taken == [True, True, False, False]


def test_what_looks_sees_the_operator() -> None:
    x, trits = random_floats(1, 5, 8, 9), random_trits(7, 5, 3, 3)
    weight, scale = pack(trits), random_floats(7)
    assert is_unseen(x, weight, None)
    ternary_conv2d(x, weight, trits.shape)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        assert not is_unseen(x, weight)
        ternary_conv2d(x, weight, trits.shape)
    assert "triton_dsl::ternary_conv2d" in {event.key for event in seen.key_averages()}
    traced = make_fx(lambda y: ternary_conv2d(y, weight, trits.shape))(x)
    assert any("ternary_conv2d" in str(node.target) for node in traced.graph.nodes)
    scale.requires_grad_()
    assert not is_unseen(x, weight, scale)
    assert ternary_conv2d(x, weight, trits.shape, scale).requires_grad
    with torch.no_grad():
        assert is_unseen(x, weight, scale)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ternary_conv2d(x, weight, trits.shape).dtype == torch.bfloat16
    with torch.autograd.forward_ad.dual_level():
        assert not is_unseen(x)
    assert not is_unseen(x.to("meta")) and not is_unseen(x.to_sparse())


WITHOUT = """
import torch
from triton_dsl.runtime.native.provider import CONV
from triton_dsl.runtime.native.torch_conv import convolve
from triton_dsl.runtime.operators import ternary_conv2d
from triton_dsl.runtime.packing import pack
CONV.set(None)
x, trits = torch.randint(-9, 9, (2, 3, 6, 7)), torch.randint(-1, 2, (5, 3, 3, 3))
window = ((1, 1), (0, 0, 0, 0), (1, 1), 1)
assert convolve(x.float(), pack(trits), trits.shape, None, None, *window) is None
expected = torch.nn.functional.conv2d(x, trits)
for dtype in (torch.float32, torch.bfloat16, torch.int8):
    for _ in range(2):
        result = ternary_conv2d(x.to(dtype), pack(trits), trits.shape)
        assert torch.equal(result.long(), expected)
"""
FORKED = """
import os, torch
from triton_dsl.runtime.operators import ternary_conv2d
from triton_dsl.runtime.packing import pack
torch.set_num_threads(2)
x, trits = torch.randn(1, 16, 20, 20), torch.randint(-1, 2, (64, 16, 3, 3))
weight = pack(trits)
before = ternary_conv2d(x, weight, trits.shape)
assert torch.equal(before, ternary_conv2d(x, weight, trits.shape))
child = os.fork()
if child == 0:
    same = torch.equal(before, ternary_conv2d(x, weight, trits.shape))
    os._exit(0 if same else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def run_script(text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_without_kernels_the_formula_is_taken() -> None:
    run_script(WITHOUT)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not fork, or not safely")
def test_a_forked_process_convolves() -> None:
    run_script(FORKED)
