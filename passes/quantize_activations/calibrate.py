"""The pass `calibrate`: ranges of float activations on samples, recorded in the program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ...ir.errors import PassError, expect_from
from ...ir.interpreter import entry_function
from ..analysis.compile_time import compile_time_values
from ..calibration.grids import Grid
from ..calibration.observation import check_observer, loaded, read_batches, run_batches
from ..calibration.observers import Histogram, range_of
from ..calibration.ranges import Calibration, Range, is_activation, record_ranges


@dataclass(frozen=True)
class CalibratePass(ModulePass):
    """Run the program on sample inputs and record the range of every float activation.

    The reference interpreter runs batch by batch; of each activation a histogram is kept, in memory
    that does not grow with the samples. Values known at compile time get no range, and neither do
    activations that become infinite or NaN. The program computes what it did before.

        func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
          %y = tensor.relu %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
        // becomes
        func.func @forward(%x: tensor<?x4xf32> {tensor.range = array<f64: -2.5, 3.0>})
            -> tensor<?x4xf32> attributes {tensor.calibration =
                {observer = "minmax", bits = 8 : i64, samples = 512 : i64}} {
          %y = tensor.relu %x {tensor.range = array<f64: 0.0, 3.0>} : …

    Raises:
        OptionError: an option out of its bounds, or samples that do not fit the function.
        PassError: there are no samples.
    """

    name = "calibrate"

    data: str | None = None
    """A `.npz`, `.safetensors` or `.npy` file of sample inputs: one array an argument of the
    function, under its name; the first axis counts the samples."""

    samples: int | None = None
    """Use the first so many samples; all by default."""

    batch: int = 64
    """Samples run at a time."""

    observer: str = "minmax"
    """How a range follows from what was seen: `minmax`, `percentile` (leave out outliers),
    `entropy` (least information lost, as TensorRT) or `mse` (least squared error)."""

    percentile: int | float = 99.9
    """For `observer=percentile`: leave out what lies beyond this percentile and its mirror."""

    bits: int = 8
    """For `entropy` and `mse`: bits of the grid the range is for, 2 to 16."""

    symmetric: bool = True
    """For `entropy` and `mse`: the grid's zero point is 0."""

    signed: bool = True
    """For `entropy` and `mse`: with `symmetric`, activations that are never negative use half of
    the levels."""

    function: str = "forward"
    """The function to run."""

    def __post_init__(self) -> None:
        expect_from(f"{self.name} expects bits", self.bits, 2, 16)
        expect_from(f"{self.name} expects samples", self.samples, 1)
        expect_from(f"{self.name} expects batch", self.batch, 1)
        check_observer(self.observer, self.percentile)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.data is None:
            raise PassError(no_samples(self.name))
        function = entry_function(op, self.function)
        batches = read_batches(function, self.data, size=self.batch, limit=self.samples)
        _calibrate(op, batches, self)


def no_samples(name: str) -> str:
    """The message of a pass that was given no samples."""
    return (
        f"{name} needs sample inputs to calibrate with: give a file, as in "
        f"'{name}{{data=\"samples.npz\"}}', that holds one array an input of "
        f"the model (.npz, .safetensors, or .npy for a single input)"
    )


def calibrate(
    module: ModuleOp,
    loader: Iterable[Any],
    *,
    observer: str = "minmax",
    percentile: float = 99.9,
    grid: Grid | None = None,
    function: str = "forward",
    progress: bool = True,
) -> dict[SSAValue, Range]:
    """Record the range of every float activation of a function; the ranges, in program order.

    Args:
        module: the program, with weights; its function gets the attributes of `calibration.ranges`.
        loader: batches: arrays, PyTorch tensors, sequences of them with the inputs first (as a
            `torch.utils.data.DataLoader` gives, labels and all), or mappings by argument name. Gone
            over once.
        observer: `minmax`, `percentile`, `entropy` or `mse`.
        percentile: for the observer of that name.
        grid: for `entropy` and `mse`; 8 bits and symmetric by default.
        function: the function's name.
        progress: show a bar on stderr when it is a terminal.

    Raises:
        OptionError: an unknown observer, or samples that do not fit the function.
        PassError: there are no samples.
    """
    grid = grid or Grid()
    options = CalibratePass(
        observer=observer,
        percentile=percentile,
        bits=grid.bits,
        symmetric=grid.symmetric,
        signed=grid.signed,
        function=function,
    )
    batches = loaded(entry_function(module, function), loader)
    return _calibrate(module, batches, options, progress=progress)


def _calibrate(
    module: ModuleOp,
    batches: Iterable[Any],
    options: CalibratePass,
    *,
    progress: bool = True,
) -> dict[SSAValue, Range]:
    function = entry_function(module, options.function)
    histograms = {value: Histogram() for value in _activations(function)}
    count = run_batches(module, function, batches, histograms, progress=progress)
    grid = Grid(options.bits, options.symmetric, options.signed)
    ranges = {
        value: range_of(seen, options.observer, percentile=options.percentile, grid=grid)
        for value, seen in histograms.items()
        if seen.finite and seen.low <= seen.high
    }
    record_ranges(function, ranges, Calibration(options.observer, options.bits, count))
    return ranges


def _activations(function: FuncOp) -> Iterator[SSAValue]:
    """The float tensors of a function's body that are known only when it runs."""
    block = function.body.block
    known = compile_time_values(block.ops)
    for value in (*block.args, *(result for op in block.ops for result in op.results)):
        if is_activation(value) and value not in known:
            yield value
