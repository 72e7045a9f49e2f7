"""What values an activation takes: ranges seen on sample inputs, and the integer grids for them.

`observe` runs the reference interpreter on sample batches and gives the range of each value asked
for; `Grid` turns a range into scale, zero point and bounds of `tensor.quantize`. Which values are
worth quantising is the business of a pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ..ir.errors import OptionError, PassError
from ..ir.locations import location_text
from ..ir.samples import Array, batches
from .elements import numpy_dtype
from .interpret import run_module
from .shapes import DYNAMIC, Shape
from .spike.types import dense_type, is_train

OBSERVERS = ("minmax", "percentile", "mse")

BINS = 2048
"""Histogram resolution of the observers `percentile` and `mse`."""

NAME = "tensor.name"
"""The argument attribute that holds a name of the source program."""


@dataclass(frozen=True)
class Range:
    """The smallest and the largest real value that must be representable."""

    low: float
    high: float


@dataclass(frozen=True)
class Quantization:
    """x ≈ scale·(q - zero_point) with low ≤ q ≤ high; the scale is an f32."""

    scale: float
    zero_point: int
    low: int
    high: int

    def restored(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """`values` quantised and dequantised, in f64."""
        levels = np.rint(values / self.scale) + self.zero_point
        return (np.clip(levels, self.low, self.high) - self.zero_point) * self.scale


@dataclass(frozen=True)
class Grid:
    """The family of integer grids that activations are put on.

    - `symmetric`: the zero point is 0 and the levels are -(2^(bits-1) - 1) … 2^(bits-1) - 1.
    - `symmetric` but not `signed`: a range without negative numbers gets all 2^bits levels from 0
      up. At 8 bits these are stored in an i8 as -128 … 127, with the zero point -128.
    - neither: all levels -2^(bits-1) … 2^(bits-1) - 1, the zero point where 0 falls.
    """

    bits: int = 8
    symmetric: bool = True
    signed: bool = True

    def quantization(self, range: Range) -> Quantization:
        """The grid that just covers `range` and 0; an empty range gets the scale 1."""
        half, levels = 1 << self.bits - 1, 1 << self.bits
        low, high = min(range.low, 0.0), max(range.high, 0.0)
        if self.symmetric and (self.signed or low < 0):
            return Quantization(_scale(max(-low, high), half - 1), 0, 1 - half, half - 1)
        if self.symmetric:
            zero = -half if self.bits == 8 else 0
            return Quantization(_scale(high, levels - 1), zero, zero, zero + levels - 1)
        scale = _scale(high - low, levels - 1)
        zero = int(np.clip(np.rint(-half - low / scale), -half, half - 1))
        return Quantization(scale, zero, -half, half - 1)


def _scale(size: float, steps: int) -> float:
    scale = float(np.float32(size / steps))
    return scale if scale > 0 and np.isfinite(scale) else 1.0


def observe(
    module: ModuleOp,
    function: FuncOp,
    values: Mapping[str, SSAValue],
    samples: Iterable[Sequence[Array]],
    *,
    observer: str = "minmax",
    percentile: float = 99.9,
    grid: Grid | None = None,
) -> dict[str, Range]:
    """The range of each of `values` over the batches `samples`.

    Args:
        module: the program.
        function: the function of `module` to run.
        values: float values inside `function`, by names of the caller's choice.
        samples: batches, each with one array an argument of `function`.
        observer: `minmax` takes the extremes. `percentile` leaves out what lies beyond the
            percentiles `100 - percentile` and `percentile`. `mse` shrinks the extremes, in 5 %
            steps of the range's size, to where the mean squared error of `grid` is least.
        percentile: for the observer of that name; above 50, up to 100.
        grid: for the observer `mse`.

    Raises:
        OptionError: an unknown observer, or a percentile out of range.
        PassError: there are no samples, or a value becomes infinite or NaN.
    """
    if observer not in OBSERVERS:
        raise OptionError(f"expected observer one of {', '.join(OBSERVERS)}, got '{observer}'")
    if not 50 < percentile <= 100:
        raise OptionError(f"expected a percentile above 50 and up to 100, got {percentile}")
    watching = returning(module, function, list(values.values()))
    kept = samples if observer == "minmax" else list(samples)
    extremes: dict[str, Range] = {}
    for batch in kept:
        results = run_module(watching, batch, function.sym_name.data)
        for (name, value), result in zip(values.items(), results, strict=True):
            seen = _extremes(name, value, result)
            last = extremes.get(name, seen)
            extremes[name] = Range(min(last.low, seen.low), max(last.high, seen.high))
    if values and not extremes:
        raise PassError("calibration needs at least one sample")
    if observer == "minmax":
        return extremes
    counts = {name: np.zeros(BINS, dtype=np.int64) for name in values}
    for batch in kept:
        results = run_module(watching, batch, function.sym_name.data)
        for name, result in zip(values, results, strict=True):
            bounds = extremes[name].low, extremes[name].high
            counts[name] += np.histogram(result.astype(np.float64), BINS, bounds)[0]
    if observer == "percentile":
        return {n: _percentile_range(extremes[n], c, percentile) for n, c in counts.items()}
    return {n: _mse_range(extremes[n], c, grid or Grid()) for n, c in counts.items()}


def returning(module: ModuleOp, function: FuncOp, values: list[SSAValue]) -> ModuleOp:
    """A copy of `module` whose `function` returns `values` instead of its own results."""
    values_map: dict[SSAValue, SSAValue] = {}
    copy = module.clone(values_map)
    index = list(module.walk()).index(function)
    clone = list(copy.walk())[index]
    assert isinstance(clone, FuncOp)
    watched = [values_map[value] for value in values]
    end = clone.body.block.last_op
    assert isinstance(end, ReturnOp)
    clone.body.block.erase_op(end)
    _erase_unneeded(clone, watched)
    clone.body.block.add_op(ReturnOp(*watched))
    clone.function_type = FunctionType.from_lists(
        list(clone.function_type.inputs), [value.type for value in watched]
    )
    clone.res_attrs = None
    return copy


def _erase_unneeded(function: FuncOp, values: list[SSAValue]) -> None:
    needed: set[Operation] = {v.owner for v in values if isinstance(v.owner, Operation)}
    for op in reversed(list(function.body.block.ops)):
        if op in needed:
            needed.update(v.owner for v in op.operands if isinstance(v.owner, Operation))
        elif not any(result.first_use for result in op.results):
            function.body.block.erase_op(op)


def _extremes(name: str, value: SSAValue, array: Array) -> Range:
    if array.size == 0:
        raise PassError(f"calibration saw no elements of the activation '{name}'")
    low, high = float(array.min()), float(array.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        place = location_text(value.owner) if isinstance(value.owner, Operation) else "argument"
        raise PassError(
            f"{place}: error: the activation '{name}' becomes NaN or infinite on the samples"
        )
    return Range(low, high)


def _percentile_range(extremes: Range, counts: NDArray[np.int64], percentile: float) -> Range:
    edges = np.linspace(extremes.low, extremes.high, BINS + 1)
    below = np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
    low = float(np.interp(1 - percentile / 100, below, edges))
    high = float(np.interp(percentile / 100, below, edges))
    return Range(max(low, extremes.low), min(high, extremes.high))


def _mse_range(extremes: Range, counts: NDArray[np.int64], grid: Grid) -> Range:
    edges = np.linspace(extremes.low, extremes.high, BINS + 1)
    centres = (edges[:-1] + edges[1:]) / 2
    best, least = extremes, np.inf
    for share in np.arange(1.0, 0.0, -0.05).tolist():
        candidate = Range(extremes.low * share, extremes.high * share)
        restored = grid.quantization(candidate).restored(centres)
        error = float(np.sum(counts * (restored - centres) ** 2))
        if error < least:
            best, least = candidate, error
    return best


def bind_samples(
    function: FuncOp, arrays: Mapping[str, Array], *, size: int, limit: int | None = None
) -> list[tuple[Array, ...]]:
    """Batches for the arguments of `function` from named arrays of samples.

    The first axis counts the samples; in the batches for a spike train it comes after time. An
    argument whose batch is static gets batches of that many, and a remainder is left out. A single
    array goes to a single argument whatever its
    name.

    Args:
        function: the function that will take the batches.
        arrays: the samples, by argument name.
        size: the number of samples in a batch, unless an argument says.
        limit: use the first so many samples.

    Raises:
        OptionError: an array is missing or does not fit.
    """
    arguments = list(function.body.block.args)
    names = _argument_names(function)
    if len(names) == len(arrays) == 1:
        arrays = {names[0]: next(iter(arrays.values()))}
    missing = [name for name in names if name not in arrays]
    if missing or not names:
        raise OptionError(
            f"calibration data has no array '{missing[0] if missing else ''}': the model takes "
            f"{', '.join(names) or 'no input'}, the file has {', '.join(sorted(arrays)) or 'none'}"
        )
    bound: list[Array] = []
    for name, argument in zip(names, arguments, strict=True):
        type, array = dense_type(argument), arrays[name]
        shape = _samples_first(argument)
        fits = len(shape) == array.ndim > 0 and all(
            want in (DYNAMIC, have) for want, have in zip(shape[1:], array.shape[1:], strict=True)
        )
        if not fits:
            shown = "x".join(["N", *("?" if d == DYNAMIC else str(d) for d in shape[1:])])
            raise OptionError(
                f"calibration data '{name}': expected samples of shape {shown}, "
                f"got {list(array.shape)}"
            )
        bound.append(array.astype(numpy_dtype(type.element_type))[:limit])
        size = size if shape[0] == DYNAMIC else shape[0]
    if len({len(array) for array in bound}) != 1:
        raise OptionError("calibration data: the inputs have different numbers of samples")
    static = any(_samples_first(argument)[0] != DYNAMIC for argument in arguments)
    found = [
        tuple(np.swapaxes(a, 0, _batch_axis(v)) for a, v in zip(b, arguments, strict=True))
        for b in batches(bound, size)
        if not static or len(b[0]) == size
    ]
    if not found:
        needed = f"{size} or more" if static else "at least one"
        raise OptionError(f"calibration data holds {len(bound[0])} samples, expected {needed}")
    return found


def _batch_axis(argument: SSAValue) -> int:
    """The axis of the samples: a spike train has time first."""
    return int(is_train(argument) and dense_type(argument).get_num_dims() > 1)


def _samples_first(argument: SSAValue) -> Shape:
    """The shape of an argument with the axis of the samples in front."""
    shape, axis = dense_type(argument).get_shape(), _batch_axis(argument)
    return (shape[1], shape[0], *shape[2:]) if axis else shape


def _argument_names(function: FuncOp) -> list[str]:
    count = len(function.body.block.args)
    given: Sequence[Any] = function.arg_attrs.data if function.arg_attrs else [None] * count
    names: list[str] = []
    for index, argument in enumerate(function.body.block.args):
        attributes: Any = given[index]
        name: object = None if attributes is None else attributes.data.get(NAME)
        named = name.data if isinstance(name, StringAttr) else argument.name_hint
        names.append(named or f"arg{index}")
    return names
