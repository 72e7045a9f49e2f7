"""The operator `ternary_conv2d` against PyTorch in float64, and under PyTorch's own checks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim
from torch.library import opcheck
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.operators import ternary_conv2d
from triton_dsl.runtime.packed import PackedTernaryConv2d
from triton_dsl.runtime.packing import pack

OP: Any = torch.ops.triton_dsl.ternary_conv2d.default
GENERATOR = torch.Generator().manual_seed(7)
WINDOWS: list[dict[str, Any]] = [
    {},
    {"stride": (2, 1), "padding": (1, 2)},
    {"padding": (1, 0, 2, 1), "dilation": (1, 2)},
    {"padding": (1, 1), "groups": 2},
    {"stride": (1, 2), "padding": (0, 2, 1, 0), "groups": 4},
]


def random_trits(*shape: int) -> torch.Tensor:
    return torch.randint(-1, 2, shape, generator=GENERATOR)


def random_floats(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=GENERATOR, dtype=dtype)


def convolved(x: torch.Tensor, trits: torch.Tensor, window: dict[str, Any]) -> torch.Tensor:
    """The convolution in float64."""
    top, left, *rest = window.get("padding", (0, 0))
    bottom, right = rest or (top, left)
    padded = functional.pad(x.double(), (left, right, top, bottom))
    options = {key: value for key, value in window.items() if key != "padding"}
    return functional.conv2d(padded, trits.double(), **options)


def random_weight(window: dict[str, Any], outs: int = 8) -> torch.Tensor:
    return random_trits(outs, 4 // window.get("groups", 1), 3, 2)


IMAGES = [
    *(((2, 4, 7, 9), is_whole) for is_whole in (False, True)),
    *((shape, True) for shape in ((1, 4, 5, 20), (0, 4, 7, 9), (4, 7, 9))),
]
"""Shapes, and whether a scale and a bias are given."""


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("shape", "is_whole"), IMAGES)
def test_convolutions_are_right(
    window: dict[str, Any], shape: tuple[int, ...], is_whole: bool
) -> None:
    trits, x = random_weight(window), random_floats(*shape)
    expected = convolved(x, trits, window)
    scale = random_floats(8) if is_whole else None
    bias = random_floats(8) if is_whole else None
    if scale is not None and bias is not None:
        expected = expected * scale.reshape(-1, 1, 1) + bias.reshape(-1, 1, 1)
    result = ternary_conv2d(x, pack(trits), trits.shape, scale, bias, **window)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", WINDOWS)
def test_bytes_are_exact(window: dict[str, Any]) -> None:
    trits = random_weight(window)
    x = torch.randint(-128, 128, (2, 4, 9, 8), generator=GENERATOR, dtype=torch.int8)
    result = ternary_conv2d(x, pack(trits), trits.shape, **window)
    assert result.dtype == torch.int32
    assert torch.equal(result.double(), convolved(x, trits, window))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_results_have_the_type_of_the_images(dtype: torch.dtype) -> None:
    trits, x = random_trits(4, 4, 3, 3), random_floats(2, 4, 6, 6).to(dtype)
    result = ternary_conv2d(x, pack(trits), trits.shape, torch.ones(4), torch.zeros(4))
    assert result.dtype == dtype
    torch.testing.assert_close(result, convolved(x, trits, {}).to(dtype))


def test_autocast_decides_the_type() -> None:
    trits, x = random_trits(4, 4, 3, 3), random_floats(2, 4, 6, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ternary_conv2d(x, pack(trits), trits.shape).dtype == torch.bfloat16


def test_memory_in_any_order_is_taken() -> None:
    trits, base = random_trits(4, 4, 3, 3), random_floats(4, 8, 9, 10)
    weight = pack(trits)
    last = base[:, :4].to(memory_format=torch.channels_last)
    assert not last.is_contiguous()
    imaginary = torch.complex(base, base)[:, :4].conj().imag
    assert imaginary.is_neg()
    views = (
        last,
        base[:, ::2],
        base[1:3, 4:, 1:, ::2],
        base[:1, :4].expand(3, 4, 9, 10),
        imaginary,
    )
    for x in views:
        result = ternary_conv2d(x, weight, trits.shape)
        assert result.is_contiguous()
        torch.testing.assert_close(result.double(), convolved(x, trits, {}), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", WINDOWS)
def test_gradients_are_right(window: dict[str, Any]) -> None:
    trits = random_weight(window, outs=4)
    weight = pack(trits)
    inputs = [random_floats(*shape, dtype=torch.float64) for shape in [(1, 4, 4, 4), (4,), (4,)]]
    for tensor in inputs:
        tensor.requires_grad_()

    def product(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return ternary_conv2d(x, weight, trits.shape, scale, bias, **window)

    assert torch.autograd.gradcheck(product, inputs)
    assert torch.autograd.gradgradcheck(product, inputs)


CHECKED = [
    *((window, True, True) for window in WINDOWS),
    *((WINDOWS[2], *given) for given in ((False, False), (False, True), (True, False))),
]
"""Every window, and everything else that may be given with one of them."""


@pytest.mark.parametrize(("window", "is_trained", "is_whole"), CHECKED)
def test_opcheck_is_clean(window: dict[str, Any], is_trained: bool, is_whole: bool) -> None:
    trits = random_weight(window)
    x = random_floats(2, 4, 6, 5).requires_grad_(is_trained)
    scale = random_floats(8).requires_grad_(is_trained) if is_whole else None
    bias = random_floats(8).requires_grad_(is_trained) if is_whole else None
    stride, dilation = window.get("stride", (1, 1)), window.get("dilation", (1, 1))
    padding = window.get("padding", (0, 0))
    padding = padding if len(padding) == 4 else (*padding, *padding)
    numbers = [list(stride), list(padding), list(dilation), window.get("groups", 1)]
    checks = opcheck(OP, (x, pack(trits), list(trits.shape), scale, bias, *numbers))
    assert set(checks.values()) == {"SUCCESS"}


def packed_layer() -> PackedTernaryConv2d:
    layer = PackedTernaryConv2d((6, 2, 3, 3), (2, 1), (1, 1), (1, 1), 2)
    return layer.fill(pack(random_trits(6, 2, 3, 3)), random_floats(6), random_floats(6))


def test_compiled_layers_agree() -> None:
    layer = packed_layer()
    compiled: Any = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for shape in [(2, 4, 8, 7), (3, 4, 8, 7), (1, 4, 6, 9)]:
        x = random_floats(*shape)
        torch.testing.assert_close(compiled(x), layer(x))


@pytest.mark.parametrize("strict", [False, True])
def test_exported_layers_take_images_of_any_size(strict: bool) -> None:
    layer = packed_layer()
    sizes = {0: Dim("batch"), 2: Dim("height", min=3, max=64), 3: Dim("width", min=3, max=64)}
    program = torch.export.export(
        layer, (random_floats(2, 4, 8, 7),), dynamic_shapes=(sizes,), strict=strict
    )
    assert any("ternary_conv2d" in str(node.target) for node in program.graph.nodes)
    module = program.module()
    for shape in [(2, 4, 8, 7), (5, 4, 3, 11)]:
        x = random_floats(*shape)
        torch.testing.assert_close(module(x), layer(x))


def test_operations_are_counted() -> None:
    trits, x = random_trits(6, 4, 3, 3), random_floats(2, 4, 8, 7)
    with FlopCounterMode(display=False) as counter:
        ternary_conv2d(x, pack(trits), trits.shape)
    assert counter.get_total_flops() == 2 * (2 * 6 * 6 * 5) * (4 * 3 * 3)


@settings(max_examples=12, deadline=None)
@given(
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(*[st.integers(0, 2)] * 4),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    groups=st.sampled_from([1, 2, 3]),
    channels=st.integers(1, 5),
    outs=st.integers(1, 5),
    batch=st.integers(0, 3),
    room=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    seed=st.integers(0, 2**31),
)
def test_any_convolution_is_exact(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, ...],
    dilation: tuple[int, int],
    groups: int,
    channels: int,
    outs: int,
    batch: int,
    room: tuple[int, int],
    seed: int,
) -> None:
    generator = torch.Generator().manual_seed(seed)
    least = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    sizes = [max(1, least[a] - padding[a] - padding[2 + a]) + room[a] for a in (0, 1)]
    x = torch.randint(-128, 128, (batch, groups * channels, *sizes), generator=generator)
    trits = torch.randint(-1, 2, (groups * outs, channels, *kernel), generator=generator)
    window: dict[str, Any] = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
    }
    expected = convolved(x, trits, window)
    # Small integers are exact as floats, too.
    for images in (x.to(torch.int8), (x.clamp(min=-127) / 2).float()):
        result = ternary_conv2d(images, pack(trits), trits.shape, **window)
        wanted = expected if images.dtype == torch.int8 else convolved(images, trits, window)
        assert torch.equal(result.double(), wanted)


SQUARE, WEIGHT = torch.ones(1, 2, 4, 4), torch.zeros(9, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("x", "weight", "options", "reason"),
    [
        (SQUARE[:, :1], WEIGHT, {}, r"floats or int8 \[N, 2, H, W\] and uint8\[9\]"),
        (SQUARE[0, 0], WEIGHT, {}, "floats or int8"),
        (SQUARE.int(), WEIGHT, {}, "floats or int8"),
        (SQUARE, WEIGHT[1:], {}, r"uint8\[8\]"),
        (SQUARE, WEIGHT.to(torch.int8), {}, r"torch.int8\[9\]"),
        (SQUARE, WEIGHT, {"scale": torch.ones(3)}, r"scale of shape \[2\], got \[3\]"),
        (SQUARE.to(torch.int8), WEIGHT, {"bias": torch.ones(2)}, "no bias with int8 images"),
        (SQUARE, WEIGHT, {"stride": (0, 1)}, "stride, padding and dilation"),
        (SQUARE, WEIGHT, {"padding": (1, 1, 1)}, "stride, padding and dilation"),
        (SQUARE, WEIGHT, {"groups": 3}, "with 3 groups"),
        (SQUARE, WEIGHT, {"stride": (1.5, 1)}, "stride, padding and dilation"),
        (SQUARE, WEIGHT, {"stride": (1.0, 1)}, "stride, padding and dilation"),
        (
            SQUARE[..., :2, :],
            WEIGHT,
            {},
            r"a window of 3x3 does not fit into images \[1, 2, 2, 4\]",
        ),
        (SQUARE, WEIGHT, {"dilation": (1, 2)}, "a window of 3x5 does not fit"),
        (SQUARE, WEIGHT, {"stride": [[1], [1]]}, r"whole numbers all, got .*\[\[1\], \[1\]\]"),
        (SQUARE.double(), WEIGHT, {"padding": 1}, "rows and columns"),
    ],
)
def test_what_does_not_go_together_is_refused(
    x: Any, weight: Any, options: dict[str, Any], reason: str
) -> None:
    ternary_conv2d(SQUARE, WEIGHT, (2, 2, 3, 3), stride=(1, 1))  # remembered as right
    with pytest.raises(OptionError, match=reason):
        ternary_conv2d(x, weight, (2, 2, 3, 3), **options)
