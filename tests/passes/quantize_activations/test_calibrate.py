"""Ranges recorded in programs: over loaders, through passes, in the text, for quantisation."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, f64

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError, PassError
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.passes.calibration.grids import Grid
from triton_dsl.passes.calibration.ranges import (
    RANGE,
    Calibration,
    Range,
    clear_ranges,
    record_ranges,
    recorded_calibration,
    recorded_range,
)
from triton_dsl.passes.quantize_activations.calibrate import CalibratePass, calibrate
from triton_dsl.passes.quantize_activations.quantize_activations import (
    QuantizeActivationsPass,
    quantize,
    recorded_ranges,
)
from triton_dsl.passes.quantize_activations.quantize_activations import (
    calibrate as calibrate_inputs,
)

Apply = Callable[[ModuleOp, str], str]
Filled = Callable[..., ModuleOp]
Array = NDArray[Any]

TWO = """
func.func @forward(%x: tensor<?x3xf32> {tensor.name = "left"}, %y: tensor<?x3xf32>
    {tensor.name = "right"}) -> tensor<?x3xf32> {
  %c = tensor.constant dense<2.0> : tensor<f32>
  %0 = tensor.mul %x, %c : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %1 = tensor.sub %0, %y : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  func.return %1 : tensor<?x3xf32>
}
"""

MLP = """
func.func @forward(%x: tensor<?x20xf32>) -> tensor<?x5xf32> {
  %w1 = ternary.parameter "fc1.weight" : tensor<20x70x!ternary.trit>
  %s1 = tensor.parameter "fc1.scale" : tensor<70xf32>
  %h = ternary.linear %x, %w1 scale(%s1 : tensor<70xf32>)
      : tensor<?x20xf32>, tensor<20x70x!ternary.trit> -> tensor<?x70xf32>
  %r = tensor.relu %h : (tensor<?x70xf32>) -> tensor<?x70xf32>
  %w2 = ternary.parameter "fc2.weight" : tensor<70x5x!ternary.trit>
  %s2 = tensor.parameter "fc2.scale" : tensor<f32>
  %y = ternary.linear %r, %w2 scale(%s2 : tensor<f32>)
      : tensor<?x70xf32>, tensor<70x5x!ternary.trit> -> tensor<?x5xf32>
  func.return %y : tensor<?x5xf32>
}
"""


def inputs(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def ranges_of(module: ModuleOp) -> list[Range | None]:
    """Of arguments, then of the results of ops, in order."""
    block = entry_function(module, "forward").body.block
    values = (*block.args, *(result for op in block.ops for result in op.results))
    return [recorded_range(value) for value in values]


def extremes(array: Array) -> Range:
    return Range(float(array.min()), float(array.max()))


@pytest.fixture
def pair() -> tuple[ModuleOp, Array, Array]:
    """A program of two inputs, and its inputs."""
    return parse_module(TWO), inputs(50, 3), inputs(50, 3, seed=1)


def batch_forms(x: Array, y: Array) -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    data = torch.utils.data
    tensors = (torch.from_numpy(x), torch.from_numpy(y), torch.zeros(len(x)))

    def generator() -> Iterator[tuple[Array, Array]]:
        yield x[:20], y[:20]
        yield x[20:], y[20:]

    return {
        "loader": data.DataLoader(data.TensorDataset(*tensors), batch_size=7),
        "names": [{"right": y, "left": x, "label": np.zeros(50)}],
        "generator": generator(),
        "doubles": [[x.astype(np.float64), y.astype(np.float64)]],
    }


@pytest.mark.parametrize("form", ["loader", "names", "generator", "doubles"])
def test_any_iterable_of_batches(pair: tuple[ModuleOp, Array, Array], form: str) -> None:
    module, x, y = pair
    found = calibrate(module, batch_forms(x, y)[form], progress=False)
    doubled = x * np.float32(2)
    expected = [extremes(x), extremes(y), extremes(doubled), extremes(doubled - y)]
    assert list(found.values()) == expected
    assert ranges_of(module) == [*expected[:2], None, *expected[2:]], "constants have none"
    assert recorded_calibration(entry_function(module, "forward")) == Calibration("minmax", 8, 50)


def test_static_batches_are_cut() -> None:
    module = parse_module(TWO.replace("?x3", "4x3"))
    x, y = inputs(10, 3), inputs(10, 3, seed=1)
    calibrate(module, [(x, y)], progress=False)
    assert ranges_of(module)[:2] == [extremes(x[:8]), extremes(y[:8])]


@pytest.mark.parametrize("observer", ["minmax", "percentile", "entropy", "mse"])
def test_the_record_is_part_of_the_text(pair: tuple[ModuleOp, Array, Array], observer: str) -> None:
    module, x, y = pair
    results = run_module(module, [x, y])
    calibrate(module, [(x, y)], observer=observer, grid=Grid(4), progress=False)
    again = parse_module(str(module))
    assert ranges_of(again) == ranges_of(module)
    assert str(again) == str(module)
    np.testing.assert_array_equal(run_module(again, [x, y])[0], results[0])
    found = recorded_calibration(entry_function(again, "forward"))
    assert found == Calibration(observer, 4, 50)
    clear_ranges(again)
    assert str(again) == str(parse_module(TWO))


def test_by_pipeline(tmp_path: Path, apply_passes: Apply) -> None:
    module, again = parse_module(TWO), parse_module(TWO)
    x, y = inputs(90, 3), inputs(90, 3, seed=1)
    np.savez(tmp_path / "samples.npz", left=x, right=y)
    apply_passes(
        module, f'calibrate{{data="{tmp_path / "samples.npz"}" samples=60 batch=7 observer=mse}}'
    )
    calibrate(again, [(x[:60], y[:60])], observer="mse", progress=False)
    assert str(module) == str(again)


def test_infinite_activations_have_no_range() -> None:
    text = TWO.replace("tensor.sub", "tensor.div")
    module = parse_module(text)
    calibrate(module, [(np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32))], progress=False)
    assert ranges_of(module) == [Range(1, 1), Range(0, 0), None, Range(2, 2), None]


def test_passes_keep_the_ranges_of_results(filled: Filled, apply_passes: Apply) -> None:
    module = filled(MLP)
    calibrate(module, [(inputs(80, 20),)], progress=False)
    before = [found for found in ranges_of(module) if found is not None]
    apply_passes(module, "fuse-linear")
    x, _, relu, y = before
    assert [found for found in ranges_of(module) if found is not None] == [x, relu, y]


def test_another_network_has_no_record(filled: Filled, apply_passes: Apply) -> None:
    module = filled(
        """
        func.func @forward(%x: tensor<?x9xf32>) -> tensor<?x9xf32> {
          %w = tensor.parameter "w" : tensor<9x9xf32>
          %0 = tensor.matmul %x, %w : (tensor<?x9xf32>, tensor<9x9xf32>) -> tensor<?x9xf32>
          func.return %0 : tensor<?x9xf32>
        }
        """
    )
    calibrate(module, [(inputs(8, 9),)], progress=False)
    assert "tensor.range" not in apply_passes(module, "ternarize")


@pytest.mark.parametrize("observer", ["minmax", "percentile", "entropy", "mse"])
def test_quantisation_takes_the_record(filled: Filled, apply_passes: Apply, observer: str) -> None:
    """The same program as when `quantize-activations` looks at the samples itself."""
    options = QuantizeActivationsPass(observer=observer, bits=4)
    module, own, x = filled(MLP), filled(MLP), inputs(200, 20)
    calibrate(
        module, [(x[:70],), (x[70:],)], observer=observer, grid=options.grid(""), progress=False
    )
    ranges = recorded_ranges(module, options)
    assert ranges == calibrate_inputs(own, [(x,)], options)
    quantize(own, ranges, options)
    apply_passes(module, "quantize-activations{bits=4}")
    clear_ranges(module)
    assert str(module) == str(own)


def test_a_value_without_range_is_told(filled: Filled, apply_passes: Apply) -> None:
    module = filled(MLP)
    with pytest.raises(PassError, match=r"give a file, as in .*; or run 'calibrate' before"):
        apply_passes(module, "quantize-activations")
    calibrate(module, [(inputs(8, 20),)], progress=False)
    for op in module.walk():
        if op.name == "tensor.relu":
            del op.attributes[RANGE]
    with pytest.raises(PassError, match=r"recorded for the input of fc2\.weight"):
        apply_passes(module, "quantize-activations")


def test_malformed_records_are_none() -> None:
    module = parse_module(TWO)
    op = next(op for op in module.walk() if op.name == "tensor.mul")
    for numbers in ([], [1.0], [1.0, 2.0, 3.0, 4.0]):
        op.attributes[RANGE] = DenseArrayBase.from_list(f64, numbers)
        assert recorded_range(op.results[0]) is None
    function = entry_function(module, "forward")
    assert recorded_calibration(function) is None
    record_ranges(function, {op.results[0]: Range(-1, 2)}, Calibration("minmax", 8, 1))
    assert recorded_range(op.results[0]) == Range(-1, 2)


def test_what_is_refused(pair: tuple[ModuleOp, Array, Array]) -> None:
    module, x, y = pair
    with pytest.raises(PassError, match="at least one sample"):
        calibrate(module, [], progress=False)
    with pytest.raises(OptionError, match=r"takes 2 inputs \(left, right\), a batch .* holds 1"):
        calibrate(module, [(x,)], progress=False)
    with pytest.raises(OptionError, match="no array 'right'"):
        calibrate(module, [{"left": x}], progress=False)
    with pytest.raises(OptionError, match="expected observer one of minmax"):
        calibrate(module, [(x, y)], observer="mean")


@pytest.mark.parametrize(
    "wrong", [{"bits": 1}, {"bits": 17}, {"samples": 0}, {"batch": 0}, {"percentile": 50}], ids=str
)
def test_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="expect"):
        CalibratePass(**wrong)
