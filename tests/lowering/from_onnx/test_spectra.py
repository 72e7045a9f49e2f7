"""Spectra of signals, mel bands and determinants, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_onnx import from_onnx

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("one_sided", [0, 1])
def test_frames_of_a_signal(bench: Any, parts: int, windowed: bool, one_sided: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 50, parts))
    window = np.hanning(16) if windowed else np.ones(16)
    names = ["x", "step", "w" if windowed else "", "" if windowed else "length"]
    constants = {"step": np.array(7), "length": np.array(16), "w": window}
    constants = {name: constants[name] for name in names[1:] if name}
    node = helper.make_node("STFT", names, ["y"], onesided=one_sided)
    model = bench.model([node], {"x": (np.float64, ("N", *x.shape[1:]))}, ["y"], constants)
    (made,) = run_module(from_onnx(model), [x])
    signal = x[..., 0] + 1j * x[..., 1] if parts == 2 else x[..., 0]
    frames = np.stack([signal[:, s : s + 16] * window for s in range(0, 50 - 15, 7)], 1)
    expected = np.fft.fft(frames)[..., : 9 if one_sided else 16]
    expected = np.stack([expected.real, expected.imag], -1)
    np.testing.assert_allclose(made, expected, 1e-9, 1e-9)


def test_frames_longer_than_the_signal_are_refused(bench: Any) -> None:
    node = helper.make_node("STFT", ["x", "step", "", "length"], ["y"])
    constants = {"step": np.array(1), "length": np.array(60)}
    model = bench.model([node], {"x": (np.float32, (1, 50, 1))}, ["y"], constants)
    with pytest.raises(UnsupportedError, match="into frames of 60 every 1"):
        from_onnx(model)


@pytest.mark.parametrize(("bands", "length", "rate"), [(8, 16, 8192), (20, 512, 16000), (5, 8, 99)])
def test_mel_bands(bench: Any, bands: int, length: int, rate: int) -> None:
    """Against the triangles written out."""
    low, high = 10.0, rate / 2
    constants = {
        "n": np.array(bands), "l": np.array(length), "r": np.array(rate),
        "a": np.array(low, np.float32), "b": np.array(high, np.float32),
    }  # fmt: skip
    node = helper.make_node("MelWeightMatrix", [*constants], ["y"])
    (made,) = run_module(from_onnx(bench.model([node], {}, ["y"], constants)), [])
    ends = 2595 * np.log10(1 + np.array([low, high]) / 700)
    hertz = 700 * (
        10 ** ((ends[0] + np.arange(bands + 2) * (ends[1] - ends[0]) / (bands + 2)) / 2595) - 1
    )
    edges = np.floor((length + 1) * hertz / rate).astype(int)
    expected = np.zeros((length // 2 + 1, bands), np.float32)
    for band in range(bands):
        left, middle, right = edges[band : band + 3]
        expected[middle, band] = 1
        for j in range(left, middle):
            expected[j, band] = (j - left) / (middle - left)
        for j in range(middle, right):
            expected[j, band] = (right - j) / (right - middle)
    np.testing.assert_allclose(made, expected, 1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 4, 4), (2, 3, 7, 7)])
def test_determinants(bench: Any, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal(shape)
    model = bench.model([helper.make_node("Det", ["x"], ["y"])], {"x": (np.float64, shape)}, ["y"])
    (made,) = run_module(from_onnx(model), [x])
    np.testing.assert_allclose(made, np.linalg.det(x), 1e-10)


def test_determinants_of_singular_and_exchanged_rows(bench: Any) -> None:
    model = bench.model(
        [helper.make_node("Det", ["x"], ["y"])], {"x": (np.float32, ("n", 3, 3))}, ["y"]
    )
    x = np.array(
        [
            [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
            [[1, 2, 3], [2, 4, 6], [1, 0, 1]],
            [[0, 1, 0], [1, 0, 0], [0, 0, 1]],
            [[0, 1, 0], [0, 0, 1], [1, 0, 0]],
        ],
        np.float32,
    )
    (made,) = run_module(from_onnx(model), [x])
    np.testing.assert_array_equal(made, np.array([0, 0, -1, 1], np.float32))
