"""Pictures: real files, and the numbers behind them against those of the interpreter."""

from __future__ import annotations

import io
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from triton_dsl.ir.errors import OptionError
from triton_dsl.ir.extras import install
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.runtime.spiking.activity import Activity, record
from triton_dsl.runtime.spiking.spike_tensor import SpikeTensor

pytest.importorskip("matplotlib", reason=install("pictures"))

from matplotlib import image, rc_context

from triton_dsl.tools.pictures.accuracy import accuracy, accuracy_by_step
from triton_dsl.tools.pictures.figure import picture_bytes
from triton_dsl.tools.pictures.raster import raster, raster_points
from triton_dsl.tools.pictures.rates import BINS, neuron_rates, rates
from triton_dsl.tools.pictures.traces import traces

Array = NDArray[Any]
SVG = "{http://www.w3.org/2000/svg}"

SOURCE = """
layer Net {
    let fc1 = SpikingLinear(6, 9)
    let fc2 = SpikingLinear(9, 4, threshold=0.5)

    fn forward(x: Tensor[N, 6]) -> Tensor[N, 4] {
        return decode(fc2(fc1(encode(x, timesteps=10, scheme="regular"))))
    }
}
"""


@pytest.fixture(scope="module")
def run() -> Activity:
    rng = np.random.default_rng(1)
    weights = {
        f"{name}.{part}": rng.standard_normal(shape).astype(np.float32)
        for name, sizes in (("fc1", (6, 9)), ("fc2", (9, 4)))
        for part, shape in (("weight", sizes), ("bias", sizes[1:]))
    }
    return record(import_tri(SOURCE, weights=weights), [rng.random((3, 6)).astype(np.float32)])


def groups(figure: Any) -> dict[str, ET.Element]:
    """The elements with an id of a figure as SVG."""
    root = ET.fromstring(picture_bytes(figure, ".svg"))
    return {e.attrib["id"]: e for e in root.iter() if "id" in e.attrib}


@pytest.mark.parametrize("sample", [0, 2])
def test_a_raster_has_a_mark_for_each_spike(run: Activity, sample: int) -> None:
    figure = raster(run, sample=sample)
    found = groups(figure)
    for axis, layer in zip(figure.axes, run.layers, strict=True):
        train = layer.output[:, sample].reshape(layer.steps, -1)
        marks = list(found[f"spikes.{layer.name}"].iter(f"{SVG}use"))
        assert len(marks) == train.sum() > 0
        steps, rows = axis.lines[0].get_data()
        drawn = np.zeros_like(train)
        drawn[np.asarray(steps, int), np.asarray(rows, int)] = True
        np.testing.assert_array_equal(drawn, train)


def test_large_layers_are_thinned_out() -> None:
    train = np.random.default_rng(2).random((6, 2, 30, 10)) < 0.5
    steps, rows = raster_points(train, 1, 50)
    assert set(rows) <= set(range(0, 300, 6))
    kept = train[:, 1].reshape(6, 300)[:, ::6]
    np.testing.assert_array_equal(np.stack([steps, rows // 6]), np.nonzero(kept))


def test_traces_are_the_potentials(run: Activity) -> None:
    figure = traces(run, sample=1, neurons=3)
    layers = [layer for layer in run.layers if layer.potential is not None]
    assert [layer.name for layer in layers] == ["fc1", "fc2"]
    for axis, layer in zip(figure.axes, layers, strict=True):
        assert layer.potential is not None
        *lines, threshold = axis.lines
        counts = layer.output[:, 1].sum(axis=0)
        drawn = [int(str(line.get_label()).split()[1]) for line in lines]
        assert len(drawn) == 3
        assert min(counts[drawn]) >= max(np.delete(counts, drawn))
        for neuron, line in zip(drawn, lines, strict=True):
            np.testing.assert_array_equal(line.get_ydata(), layer.potential[:, 1, neuron])
        assert set(np.asarray(threshold.get_ydata(), float)) == {layer.threshold}
    assert sum(name.startswith("trace.") for name in groups(figure)) == 6


def test_rates_are_counted_over_samples_and_steps(run: Activity) -> None:
    figure = rates(run)
    for axis, layer in zip(figure.axes, run.layers, strict=True):
        expected = layer.output.mean(axis=(0, 1)).reshape(-1)
        np.testing.assert_allclose(neuron_rates(layer.output), expected)
        bars = [patch.get_height() for patch in axis.patches]  # pyright: ignore
        np.testing.assert_array_equal(bars, np.histogram(expected, BINS, (0, 1))[0])
    names = groups(figure)
    assert sum(name.startswith("rate.fc1.") for name in names) == BINS


def test_accuracy_after_each_step() -> None:
    rng = np.random.default_rng(3)
    answers, labels = rng.random((7, 20, 4)), rng.integers(0, 4, 20)
    shares = accuracy_by_step(answers, labels)
    by_hand = [
        sum(int(np.argmax(answers[t, n])) == labels[n] for n in range(20)) / 20 for t in range(7)
    ]
    np.testing.assert_allclose(shares, by_hand)
    figure = accuracy(shares)
    (line,) = figure.axes[0].lines
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 8))
    np.testing.assert_array_equal(line.get_ydata(), shares)
    assert len(list(groups(figure)["accuracy"].iter(f"{SVG}use"))) == 7


@pytest.mark.parametrize(
    ("answers", "labels", "message"),
    [
        ((5, 3, 4), np.zeros(2, int), "expected 3 labels"),
        ((5, 3, 4), np.zeros(3), "whole numbers"),
        ((5, 3, 4), np.array([0, 4, 1]), "labels from 0 to 3, got 0 to 4"),
        ((5, 3, 4), np.array([0, -1, 1]), "labels from 0 to 3, got -1 to 1"),
        ((5, 3), np.zeros(3, int), "needs an output"),
    ],
)
def test_labels_that_do_not_fit(answers: tuple[int, ...], labels: Array, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        accuracy_by_step(np.zeros(answers), labels)


def test_arrays_tensors_and_spike_tensors_are_drawn_alike() -> None:
    train = np.random.default_rng(4).random((8, 2, 5)) < 0.3
    expected = picture_bytes(raster(train), ".svg")
    tensor = torch.from_numpy(train.astype(np.float32)).requires_grad_()
    recorded = SpikeTensor.from_train(torch.from_numpy(train))
    for given in (tensor, recorded, recorded.to_sparse(), {"spikes": train}):
        assert picture_bytes(raster(given), ".svg") == expected
    several = raster({"in": train, "out": tensor})
    assert [axis.get_title(loc="left").split(":")[0] for axis in several.axes] == ["in", "out"]


def test_potentials_of_arrays() -> None:
    potential = np.random.default_rng(5).standard_normal((8, 2, 5)) * np.arange(5)
    (axis,) = traces({"readout": potential}, neurons=2).axes
    kept = sorted(np.argsort(-np.ptp(potential[:, 0], axis=0))[:2])
    for line, neuron in zip(axis.lines, kept, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), potential[:, 0, neuron])


def test_time_in_milliseconds() -> None:
    train = np.ones((4, 1, 2), bool)
    (axis,) = raster(train, dt=0.005).axes
    assert axis.get_xlabel() == "time in ms"
    steps = np.asarray(axis.lines[0].get_xdata(), float)
    np.testing.assert_allclose(np.unique(steps), [0, 5, 10, 15])


def test_files_are_real_and_the_same_each_time(run: Activity) -> None:
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        first = picture_bytes(raster(run), suffix)
        with rc_context({"font.size": 20, "lines.linewidth": 9, "savefig.dpi": 30}):
            again = picture_bytes(raster(run), suffix)
        assert first.startswith(start) and first == again
        assert not any(word in first for word in (b"CreationDate", b"dc:date", b"Matplotlib v"))
    pixels = image.imread(io.BytesIO(picture_bytes(raster(run), ".png")))
    assert pixels.shape[:2] == (round((0.8 + 1.5 * 3) * 120), 8 * 120)
    assert len(np.unique(pixels)) > 2


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: raster({}), "no spikes to draw"),
        (lambda: rates({}), "no spikes to draw"),
        (lambda: traces({}), "no potentials to draw"),
        (lambda: raster(np.zeros((3, 2, 2)), sample=2), "sample 2 is not among the 2"),
        (lambda: raster(np.zeros((3, 2, 2)), neurons=0), "at least 1 neuron"),
        (lambda: raster(np.zeros(3)), r"expected numbers \[T, N, …\]"),
        (lambda: raster(np.array([["a"]])), r"expected numbers \[T, N, …\]"),
    ],
)
def test_what_cannot_be_drawn(draw: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        draw()


def test_without_matplotlib() -> None:
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import numpy as np\n"
        "from triton_dsl.ir.errors import BackendError\n"
        "from triton_dsl.tools.pictures.raster import raster\n"
        "try: raster(np.zeros((3, 2, 2)))\n"
        "except BackendError as error: print(error)\n"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert shown.stdout == f"pictures need matplotlib: {install('pictures')}\n"
