"""Ranges seen on samples, and the integer grids for them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from triton_dsl.dialects.registry import parse_module, triton_context
from triton_dsl.ir.errors import OptionError, PassError
from triton_dsl.ir.instrument import run_passes
from triton_dsl.ir.pipeline import parse_pipeline
from triton_dsl.passes.calibration.grids import Grid
from triton_dsl.passes.calibration.observation import bind_samples, observe
from triton_dsl.passes.calibration.ranges import Range
from triton_dsl.passes.ternarize.ternarize import TernarizePass
from triton_dsl.passes.universe import everything

TEXT = """
func.func @forward(%x: tensor<?x4xf32> {tensor.name = "image"}) -> tensor<?x4xf32> {
  %two = tensor.constant dense<2.0> : tensor<f32>
  %a = tensor.mul %x, %two : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %b = tensor.log %a : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %b : tensor<?x4xf32>
}
"""


def program(text: str = TEXT) -> tuple[ModuleOp, FuncOp, dict[str, SSAValue]]:
    module = parse_module(text)
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    values = {r.name_hint: r for op in function.body.block.ops for r in op.results if r.name_hint}
    return module, function, {"x": function.body.block.args[0], **values}


def observed(samples: Sequence[NDArray[Any]], names: str = "xa", **options: Any) -> list[Range]:
    module, function, values = program()
    before = str(module)
    chosen = {name: values[name] for name in names}
    ranges = observe(module, function, chosen, [(s,) for s in samples], **options)
    assert str(module) == before
    return [ranges[name] for name in names]


def test_extremes_over_all_batches() -> None:
    samples = [np.array([[1, 2, 3, 4]], np.float32), np.array([[-5, 0, 1, 0]] * 3, np.float32)]
    assert observed(samples) == [Range(-5, 4), Range(-10, 8)]


def test_percentiles_are_those_of_numpy() -> None:
    x = np.random.default_rng(0).normal(size=(5000, 4)).astype(np.float32)
    (found,) = observed([x[:3000], x[3000:]], "x", observer="percentile", percentile=99)
    low, high = np.percentile(x, [1, 99])
    width = float(x.max() - x.min()) / 2048
    assert found.low == pytest.approx(low, abs=width)
    assert found.high == pytest.approx(high, abs=width)


def test_all_percent_are_the_extremes() -> None:
    x = np.random.default_rng(1).normal(size=(100, 4)).astype(np.float32)
    assert observed([x], observer="percentile", percentile=100) == observed([x])


@pytest.mark.parametrize("bits", [3, 4, 8])
def test_least_squares_beats_the_extremes(bits: int) -> None:
    x = np.random.default_rng(2).standard_t(3, size=(4000, 4)).astype(np.float32)
    grid = Grid(bits)
    (best,) = observed([x], "x", observer="mse", grids=lambda _: grid)
    (extremes,) = observed([x], "x")
    wide = np.asarray(x, np.float64)

    def error(seen: Range) -> float:
        return float(np.mean((grid.quantization(seen).restored(wide) - wide) ** 2))

    shares = np.arange(1.0, 0.0, -0.05)
    candidates = [Range(extremes.low * s, extremes.high * s) for s in shares]
    assert error(best) <= 1.02 * min(map(error, candidates))
    if bits < 8:
        assert error(best) < error(extremes)


@pytest.mark.parametrize("observer", ["minmax", "percentile", "mse"])
def test_a_range_is_shown_as_plain_numbers(observer: str) -> None:
    x = np.random.default_rng(3).standard_t(3, size=(400, 4)).astype(np.float32)
    (found,) = observed([x], "x", observer=observer)
    assert (type(found.low), type(found.high)) == (float, float)


def test_a_constant_activation_has_a_range() -> None:
    zeros = np.zeros((2, 4), np.float32)
    for observer in ("minmax", "percentile", "mse"):
        (found,) = observed([zeros], "x", observer=observer)
        assert Grid().quantization(found).scale == 1.0


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(PassError, match="activation 'b' becomes NaN or infinite"):
        observed([np.zeros((1, 4), np.float32)], "b")


def test_samples_are_needed() -> None:
    with pytest.raises(PassError, match="at least one sample"):
        observed([])
    with pytest.raises(PassError, match="no elements"):
        observed([np.zeros((0, 4), np.float32)])


@given(
    st.integers(2, 8),
    st.booleans(),
    st.booleans(),
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20),
)
def test_grids_cover_their_range(
    bits: int, symmetric: bool, signed: bool, numbers: list[float]
) -> None:
    values = np.array(numbers)
    low, high = float(values.min()), float(values.max())
    found = Grid(bits, symmetric, signed).quantization(Range(low, high))
    assert -128 <= found.low <= found.zero_point <= found.high <= 127
    assert found.high - found.low < 2**bits
    # 0 is exact, and the rest is within half a step, up to the rounding of the scale.
    assert found.restored(np.zeros(1))[0] == 0
    steps = np.abs(found.restored(values) - values) / found.scale
    off_grid = 0.5 if symmetric else 1.0  # rounding of the zero point moves the ends
    assert steps.max() <= off_grid + 1e-4
    if low >= 0 and high > 1e-30 and not (symmetric and signed):
        assert found.high - found.low == 2**bits - 1


def test_names_and_batches() -> None:
    _, function, _ = program()
    x = np.arange(40, dtype=np.float64).reshape(10, 4)
    found = bind_samples(function, {"image": x, "label": x}, size=4, limit=7)
    assert [len(batch[0]) for batch in found] == [4, 3]
    assert found[0][0].dtype == np.float32
    assert len(bind_samples(function, {"": x}, size=64)) == 1


def test_a_static_batch_leaves_out_the_rest() -> None:
    _, function, _ = program(TEXT.replace("?x4", "3x4"))
    found = bind_samples(function, {"": np.zeros((10, 4))}, size=64)
    assert [len(batch[0]) for batch in found] == [3, 3, 3]
    with pytest.raises(OptionError, match="holds 2 samples, expected 3 or more"):
        bind_samples(function, {"": np.zeros((2, 4))}, size=64)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.zeros((1, 4)), "b": np.zeros((1, 4))}, "no array 'image': the model takes image"),
        ({"image": np.zeros((2, 5))}, r"expected samples of shape Nx4, got \[2, 5\]"),
        ({"image": np.zeros(4)}, r"expected samples of shape Nx4, got \[4\]"),
        ({"image": np.zeros((0, 4))}, "holds 0 samples"),
    ],
)
def test_data_that_does_not_fit(arrays: dict[str, NDArray[Any]], message: str) -> None:
    _, function, _ = program()
    with pytest.raises(OptionError, match=message):
        bind_samples(function, arrays, size=64)


@pytest.mark.parametrize(
    "name",
    [
        "calibrate", "quantize-activations", "normalize-weights", "balance-thresholds",
        "ternarize{method=gptq", "convert-ann-to-snn",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("file", "message"), [("none", "No such file"), ("wrong", "expected samples of shape Nx4")]
)
def test_a_file_of_samples_is_read_where_none_are_needed(
    tmp_path: Path, name: str, file: str, message: str
) -> None:
    module = parse_module("func.func @forward(%x: tensor<?x4xi8>) { func.return }")
    np.save(tmp_path / "wrong.npy", np.zeros((5, 3)))
    opening = name + (" " if "{" in name else "{")
    pipeline = f'{opening}data="{tmp_path / file}.npy"}}'
    with pytest.raises(OptionError, match=message):
        run_passes(triton_context(), module, parse_pipeline(pipeline, everything().all_passes))


def test_samples_for_what_looks_at_none_are_an_error() -> None:
    with pytest.raises(OptionError, match="'data' belongs to method=gptq"):
        TernarizePass(data="samples.npz")
