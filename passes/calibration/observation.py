"""Running a program on samples to see what values its activations take.

`observe` gives the range of each value asked for; `read_batches`, `bind_samples` and `loaded` turn
files, arrays and data loaders into batches of arguments. Samples are run batch by batch and not
kept. Which values are worth a range is the business of a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ...dialects.elements import numpy_dtype
from ...dialects.interpret import run_module
from ...dialects.shapes import DYNAMIC, Shape
from ...dialects.spike.types import dense_type
from ...ir.errors import InputError, OptionError, PassError, expect_one_of
from ...ir.locations import location_text
from ...ir.progress import tracked
from ...ir.samples import Array, batches, read_samples
from ...ir.value_names import argument_names
from ..analysis.time_axis import has_time_first
from .grids import Grid
from .observers import OBSERVERS, Histogram, range_of
from .ranges import Range


def check_observer(observer: str, percentile: float) -> None:
    """Refuse an unknown observer, or a percentile out of range.

    Raises:
        OptionError: says which.
    """
    expect_one_of("expected observer", observer, OBSERVERS)
    if not 50 < percentile <= 100:
        raise OptionError(f"expected a percentile above 50 and up to 100, got {percentile}")


def observe(
    module: ModuleOp,
    function: FuncOp,
    values: Mapping[str, SSAValue],
    samples: Iterable[Sequence[Array]],
    *,
    observer: str = "minmax",
    percentile: float = 99.9,
    grids: Callable[[str], Grid] = lambda _: Grid(),
    progress: bool = False,
) -> dict[str, Range]:
    """The range of each of `values` over the batches `samples`.

    Args:
        module: the program.
        function: the function of `module` to run.
        values: float values inside `function`, by names of the caller's choice.
        samples: batches, each with one array an argument of `function`; gone over once.
        observer: `minmax` takes the extremes. `percentile` leaves out what lies beyond the
            percentiles `100 - percentile` and `percentile`. `mse` shrinks the extremes, in steps of
            1 % of the range's size, to where the mean squared error of its grid is least. `entropy`
            cuts off at the magnitude where its grid loses least information (see `observers`).
        percentile: for the observer of that name; above 50, up to 100.
        grids: for the observers `mse` and `entropy`: that of each name.
        progress: show a bar on stderr when it is a terminal.

    Raises:
        OptionError: an unknown observer, or a percentile out of range.
        PassError: there are no samples, or a value becomes infinite or NaN.
    """
    check_observer(observer, percentile)
    if not values:
        return {}
    seen = {value: Histogram() for value in values.values()}
    run_batches(module, function, samples, seen, progress=progress)
    for name, value in values.items():
        _check_seen(name, value, seen[value])
    return {
        name: range_of(seen[value], observer, percentile=percentile, grid=grids(name))
        for name, value in values.items()
    }


def run_batches(
    module: ModuleOp,
    function: FuncOp,
    samples: Iterable[Sequence[Array]],
    histograms: Mapping[SSAValue, Histogram],
    *,
    progress: bool = False,
) -> int:
    """Run `function` on batches and add what its values become to their histograms.

    Returns:
        how many samples there were, counted along the first axis of the first argument.

    Raises:
        PassError: there are no samples.
    """

    def take(values: Iterable[SSAValue], arrays: Iterable[Any]) -> None:
        for value, array in zip(values, arrays, strict=True):
            if value in histograms:
                histograms[value].add(array)

    count, runs = 0, 0
    name, arguments = function.sym_name.data, function.body.block.args
    axis = _batch_axis(arguments[0]) if arguments else 0
    for batch in tracked(samples, "Calibrating", shown=progress):
        runs += 1
        count += batch[0].shape[axis] if batch and batch[0].ndim > axis else 1
        take(arguments, batch)
        run_module(module, batch, name, lambda op, _, results: take(op.results, results))
    if not runs:
        raise PassError("calibration needs at least one sample")
    return count


def _check_seen(name: str, value: SSAValue, histogram: Histogram) -> None:
    if not histogram.finite:
        place = location_text(value.owner) if isinstance(value.owner, Operation) else "argument"
        raise PassError(
            f"{place}: error: the activation '{name}' becomes NaN or infinite on the samples"
        )
    if histogram.low > histogram.high:
        raise PassError(f"calibration saw no elements of the activation '{name}'")


def read_batches(
    function: FuncOp, path: str, *, size: int, limit: int | None = None
) -> list[tuple[Array, ...]]:
    """Batches for the arguments of `function` from a file of samples, as `bind_samples` makes them.

    A pass that was given a file reads it whether it needs samples or not, so that a wrong one never
    goes unnoticed.

    Raises:
        OptionError: the file cannot be read, or an array is missing or does not fit.
    """
    return bind_samples(function, read_samples(Path(path)), size=size, limit=limit)


def bind_samples(
    function: FuncOp, arrays: Mapping[str, Array], *, size: int, limit: int | None = None
) -> list[tuple[Array, ...]]:
    """Batches for the arguments of `function` from named arrays of samples.

    The first axis counts the samples; in the batches for a spike train, or currents of neurons, it
    comes after time. An argument whose batch is static gets batches of that many, and a remainder
    is left out. A single array goes to a single argument whatever its name.

    Args:
        function: the function that will take the batches.
        arrays: the samples, by argument name.
        size: the number of samples in a batch, unless an argument says.
        limit: use the first so many samples.

    Raises:
        OptionError: an array is missing or does not fit.
    """
    arguments = list(function.body.block.args)
    names = argument_names(function)
    if len(names) == len(arrays) == 1:
        arrays = {names[0]: next(iter(arrays.values()))}
    missing = [name for name in names if name not in arrays]
    if missing or not names:
        raise InputError(
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
            raise InputError(
                f"calibration data '{name}': expected samples of shape {shown}, "
                f"got {list(array.shape)}"
            )
        bound.append(array.astype(numpy_dtype(type.element_type))[:limit])
        size = size if shape[0] == DYNAMIC else shape[0]
    if len({len(array) for array in bound}) != 1:
        raise InputError("calibration data: the inputs have different numbers of samples")
    static = any(_samples_first(argument)[0] != DYNAMIC for argument in arguments)
    candidates = [
        tuple(np.swapaxes(a, 0, _batch_axis(v)) for a, v in zip(b, arguments, strict=True))
        for b in batches(bound, size)
        if not static or len(b[0]) == size
    ]
    if not candidates:
        needed = f"{size} or more" if static else "at least one"
        raise InputError(f"calibration data holds {len(bound[0])} samples, expected {needed}")
    return candidates


Batch = ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike]
"""What a data loader gives at once: an array or a PyTorch tensor, several, or some by name."""


def loaded(function: FuncOp, loader: Iterable[Batch]) -> Batches:
    """What a data loader gives, as batches for the arguments of `function`.

    A batch of the loader is an array or a PyTorch tensor, a sequence of them that starts with the
    inputs of the program (labels behind them are left out), or a mapping by argument names. The
    samples are on the first axis. Where an argument's batch is static, batches are cut to its size
    and what is left of each is not used.

    Args:
        function: the function that will take the batches.
        loader: batches, such as a `torch.utils.data.DataLoader`; gone over whenever the result is.
    """
    return Batches(function, loader)


class Batches:
    """Batches for a function, from a loader; as long as the loader where that is known."""

    def __init__(self, function: FuncOp, loader: Iterable[Batch]) -> None:
        self.function = function
        self.loader = loader

    def __len__(self) -> int:
        return len(cast("Sequence[Any]", self.loader))

    def __iter__(self) -> Iterator[tuple[Array, ...]]:
        names = argument_names(self.function)
        for batch in self.loader:
            arrays = _named(names, batch)
            size = max((len(array) for array in arrays.values() if array.ndim), default=1)
            yield from bind_samples(self.function, arrays, size=max(size, 1))


def _named(names: Sequence[str], batch: Batch) -> dict[str, Array]:
    """The inputs of one batch of a loader, by name."""
    if isinstance(batch, Mapping):
        by_name = cast("Mapping[str, Any]", batch)
        return {str(name): _array(value) for name, value in by_name.items()}
    if not isinstance(batch, tuple | list):
        return {names[0] if names else "": _array(batch)}
    parts = cast("Sequence[Any]", batch)
    if len(parts) < len(names):
        raise InputError(
            f"calibration data: the model takes {len(names)} inputs ({', '.join(names)}), "
            f"a batch of the loader holds {len(parts)}"
        )
    return {name: _array(part) for name, part in zip(names, parts, strict=False)}


def _array(value: Any) -> Array:
    """A PyTorch tensor, or anything NumPy takes, as an array."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def _batch_axis(argument: SSAValue) -> int:
    """The axis of the samples: a run has time first."""
    return int(has_time_first(argument) and dense_type(argument).get_num_dims() > 1)


def _samples_first(argument: SSAValue) -> Shape:
    """The shape of an argument with the axis of the samples in front."""
    shape, axis = dense_type(argument).get_shape(), _batch_axis(argument)
    return (shape[1], shape[0], *shape[2:]) if axis else shape
