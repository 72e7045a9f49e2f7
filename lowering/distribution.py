"""Sweeps and evaluation on many machines, by Dask: the same functions, elsewhere.

The order of results is that of what was asked for, whichever machine answered. A machine that is
lost is no loss: what it had is done again by another. Not here: training on many machines, which
`torchrun` starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np

from ..ir.arrays import Array
from ..ir.errors import BackendError, refuse
from ..ir.extras import needed
from .engine import engine_of
from .models import import_model


@dataclass(frozen=True)
class Trial:
    """One setting of a sweep, and what came of it.

    Attributes:
        settings: arguments of the function by name.
        result: what it gave; `None` where it raised.
        problem: what it raised, as a text; `None` where it gave a result.
    """

    settings: Mapping[str, Any]
    result: Any = None
    problem: str | None = None


def sweep(
    function: Callable[..., Any],
    settings: Sequence[Mapping[str, Any]],
    *,
    scheduler: str | None = None,
    retries: int = 2,
) -> list[Trial]:
    """`function(**each)` for each of `settings`, in their order.

    Args:
        function: of a module that each machine can import.
        settings: its arguments.
        scheduler: the address of Dask's scheduler, as `tcp://10.0.0.1:8786`; `None` does all here.
        retries: how often Dask does again what a lost machine had.

    Raises:
        BackendError: Dask is missing, or its scheduler does not answer.
    """
    calls = [(function, dict(each)) for each in settings]
    return _spread(_tried, calls, scheduler, retries)


def count_right(
    file: str | Path,
    target: str,
    inputs: Array,
    labels: Array,
    *,
    weights: str | Path | None = None,
    rows: int = 256,
    scheduler: str | None = None,
    retries: int = 2,
) -> int:
    """How many rows of `inputs` the first result of a program puts into the class `labels` says.

    Args:
        file, weights: a program that each machine can read, as `triton run` takes it.
        target: what runs it there.
        inputs: [N, …], of the one input of `@forward`.
        labels: classes [N].
        rows: of a part of the data.
        scheduler, retries: as in `sweep`.

    Raises:
        OptionError: inputs and labels of different lengths.
        TritonError: the program cannot be read or compiled.
    """
    said = "expected as many inputs as labels, in parts from 1 row; got "
    is_wrong = len(inputs) != len(labels) or rows < 1
    refuse(is_wrong, f"{said}{len(inputs)} and {len(labels)} in parts of {rows}")
    count = partial(_right, str(file), target, weights and str(weights))
    starts = range(0, len(inputs), rows)
    parts = [(inputs[start : start + rows], labels[start : start + rows]) for start in starts]
    return sum(_spread(count, parts, scheduler, retries))


def _right(file: str, target: str, weights: str | None, inputs: Array, labels: Array) -> int:
    engine = engine_of(import_model(file, weights=weights), target)
    scores = np.asarray(engine.run([inputs])[0])
    return int((scores.argmax(1) == labels).sum())


def _tried(function: Callable[..., Any], settings: dict[str, Any]) -> Trial:
    try:
        return Trial(settings, function(**settings))
    except Exception as error:  # one setting that fails is a result of a sweep
        return Trial(settings, problem=str(error) or type(error).__name__)


def _spread(
    function: Callable[..., Any], calls: Sequence[Any], scheduler: str | None, retries: int
) -> list[Any]:
    if scheduler is None:
        return list(starmap(function, calls))
    dask = needed("distributed", "Dask (distributed)", "distributed")
    try:
        client = dask.Client(scheduler, set_as_default=False, timeout="10s")
    except (OSError, TimeoutError, ValueError) as error:
        raise BackendError(f"Dask's scheduler {scheduler!r} does not answer: {error}") from None
    with client:
        # A function of the same arguments may still be asked anew: it may draw random numbers.
        futures = [client.submit(function, *call, retries=retries, pure=False) for call in calls]
        try:
            return client.gather(futures)
        except dask.KilledWorker as error:
            raise BackendError(f"machines were lost more than {retries} times: {error}") from None
