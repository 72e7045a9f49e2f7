"""Geometry of convolutions against PyTorch, and their weights taken apart again."""

import numpy as np
import pytest

from triton_dsl.runtime.native.abi.conv import ConvGeometry, conv_weights


def test_results_have_the_sizes_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    for kernel, stride, pad, dilation in [
        ((3, 2), (2, 3), (1, 0), (1, 2)),
        ((1, 5), (1, 2), (0, 3), (3, 1)),
    ]:
        g = ConvGeometry(4, 11, 13, 6, kernel, stride, pad, pad, dilation, 2)
        weights = torch.zeros(6, 2, *kernel)
        y = torch.nn.functional.conv2d(
            torch.zeros(1, 4, 11, 13), weights, None, stride, pad, dilation, 2
        )
        assert y.shape == (1, 6, g.out_height, g.out_width)
        assert g.places == g.out_height * g.out_width
        assert g.work == 6 * g.places * 2 * kernel[0] * kernel[1]


def test_a_signal_is_an_image_of_one_row() -> None:
    g = ConvGeometry.of((-1, 8, 30), (4, 2, 5), (2,), (1, 3), (2,), 4)
    assert (g.channels, g.height, g.width, g.outs, g.kernel) == (8, 1, 30, 4, (1, 5))
    assert (g.strides, g.before, g.after, g.dilation) == ((1, 2), (0, 1), (0, 3), (1, 2))
    assert (g.out_height, g.out_width) == (1, 13)
    image = ConvGeometry.of((2, 3, 7, 9), (4, 3, 2, 3), (1, 2), (1, 2, 3, 4), (1, 1), 1)
    assert (image.height, image.width, image.kernel) == (7, 9, (2, 3))
    assert (image.before, image.after) == ((1, 2), (3, 4))


def test_single_places_make_one_row() -> None:
    g = ConvGeometry(8, 7, 9, 4, (1, 1))
    assert (g.flat().height, g.flat().width, g.flat().places) == (1, 63, g.places)
    strided = ConvGeometry(8, 7, 9, 4, (1, 1), (2, 2))
    assert strided.flat() == strided


@pytest.mark.parametrize(
    "g",
    [
        ConvGeometry(3, 9, 9, 5, (2, 3)),
        ConvGeometry(8, 9, 9, 130, (1, 1)),
        ConvGeometry(10, 9, 9, 132, (3, 2), groups=2),
        ConvGeometry(1, 9, 9, 64, (5, 5)),
    ],
    ids=str,
)
def test_panels_hold_every_trit_once(g: ConvGeometry) -> None:
    trits = np.random.default_rng(1).integers(-1, 2, (g.outs, g.group_channels, *g.kernel))
    packed = conv_weights(g, trits)
    assert packed.size == g.groups * g.panel_bytes
    # Panel, step, row, value of the step; field p of a byte belongs to row 16p + r.
    lines = packed.reshape(g.groups, g.panels, -1, 16, 4)
    fields = np.stack([lines >> 2 * p & 3 for p in range(4)], axis=2)
    codes = fields.transpose(0, 1, 2, 4, 3, 5).reshape(g.groups, g.panels * 64, g.kernel[0], -1)
    used = g.kernel[1] * g.stored_channels
    assert not codes[:, g.group_outs :].any()
    assert not codes[..., used:].any()
    taps = codes[:, : g.group_outs, :, :used].reshape(
        g.groups, g.group_outs, *g.kernel, g.stored_channels
    )
    assert not taps[..., g.group_channels :].any()
    found = taps[..., : g.group_channels].transpose(0, 1, 4, 2, 3).reshape(trits.shape)
    assert np.array_equal(found.astype(int) - 1, trits)


def test_depthwise_weights_are_bytes() -> None:
    g = ConvGeometry(3, 9, 9, 6, (2, 3), groups=3)
    trits = np.random.default_rng(1).integers(-1, 2, (6, 1, 2, 3))
    assert np.array_equal(conv_weights(g, trits).view(np.int8), trits.reshape(-1))
