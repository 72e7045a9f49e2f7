"""Samples that judge what became of a program, apart from those that calibrate it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..dialects.interpret import run_module
from ..dialects.parameters import Array
from ..dialects.shapes import AnyTensor, is_float
from ..ir.errors import InputError, OptionError
from ..ir.interpreter import entry_function
from ..ir.samples import check_labels
from ..passes.calibration.observation import bind_samples
from ..passes.convert_ann_to_snn.sensitivity import divergence

HELD_OUT = 4
"""One sample in so many, of the last ones, is measured and does not calibrate."""

MOST_MEASURED = 1000
"""The most samples that are measured."""

BATCH = 128
"""Samples run at a time."""


MEASURES = ("classes", "signal")
"""How results are judged: by the class that the first of them gives the highest score, or by how
much of the signal of all of them is kept."""


class HeldOut:
    """The last fourth of some samples, with what the float program makes of them.

    Args:
        program: the float program.
        samples: by the names of the arguments, [count, …].
        labels: the class of each sample; without, those of the float program count as right.
        function: the function to judge.
        measure: one of `MEASURES`; by default `classes` where there are labels or the first result
            is [samples, two classes or more], else `signal`.

    Attributes:
        entry: the function in the program.
        samples: those that calibrate, by name.
        batches: those that judge.
        results: of the float program, for each batch.
        count: how many samples judge.
        measure: one of `MEASURES`.
        share: what the share is called that `judged` tells: `accuracy`, `agreement` or `R²`.

    Raises:
        InputError: samples or labels that do not fit, fewer than 8 samples, or a result that is
            not [samples, classes] where classes judge.
        OptionError: no such measure, or labels with the measure `signal`.
    """

    def __init__(
        self,
        program: ModuleOp,
        samples: Mapping[str, Array],
        labels: Array | None = None,
        function: str = "forward",
        measure: str | None = None,
    ) -> None:
        if measure not in (None, *MEASURES):
            raise OptionError(f"expected a measure of {' or '.join(MEASURES)}, got '{measure}'")
        if labels is not None and measure == "signal":
            raise OptionError("labels are classes: leave them out, or measure classes")
        self.function = function
        count = min((len(array) if array.ndim else 0 for array in samples.values()), default=0)
        if count < 2 * HELD_OUT:
            raise InputError(f"expected {2 * HELD_OUT} samples or more to measure on, got {count}")
        cut = count - min(count // HELD_OUT, MOST_MEASURED)
        self.entry = entry_function(program, function)
        parts = [
            {k: v[part] for k, v in samples.items()} for part in (slice(cut), slice(cut, None))
        ]
        self.samples = parts[0]
        self.batches = bind_samples(self.entry, parts[1], size=BATCH)
        self.results = [run_module(program, batch, function) for batch in self.batches]
        self.count = count - cut
        first = self.results[0][0]
        if measure is None:
            scores = first.ndim == 2 and first.shape[1] > 1
            measure = "classes" if labels is not None or scores else "signal"
        self.measure = measure
        if measure == "signal":
            self.share = "R²"
            self._spreads = self._spread()
            return
        if first.ndim != 2:
            raise InputError(
                f"classes are measured on a result [samples, classes], got one of {first.ndim} axes"
            )
        self.share = "agreement" if labels is None else "accuracy"
        self._right = np.concatenate([results[0] for results in self.results]).argmax(axis=1)
        if labels is not None:
            check_labels(labels, count, first.shape[1])
            self._right = labels[cut : cut + len(self._right)]

    def judged(
        self, run: Callable[[Sequence[Array]], Sequence[Array]], batches: int | None = None
    ) -> tuple[float, float]:
        """What a program that `run` runs is worth.

        Args:
            run: gives the results of a batch.
            batches: look at the first so many batches only.

        Returns:
            of `classes`, the share of right ones, and the divergence of the first result from that
            of the float program in nats a sample (`search.divergence`). Of `signal`, R² = 1 - e but
            no less than 0, and e, the mean over the results of Σ(y - found)² / Σ(y - ȳ)² with y of
            the float program and ȳ its mean over the samples. Of a result of integers e is the
            share of other ones; elements of y that are not finite do not count.
        """
        right, seen, lost = 0, 0, 0.0
        for batch, wanted in list(zip(self.batches, self.results, strict=True))[:batches]:
            found = run(batch)
            size = len(wanted[0])
            if self.measure == "signal":
                lost += self._error(wanted, found)
            else:
                right += int((found[0].argmax(1) == self._right[seen : seen + size]).sum())
                lost += divergence(wanted[0], found[0])
            seen += size
        lost /= seen
        return (max(1 - lost, 0.0) if self.measure == "signal" else right / seen), lost

    def _spread(self) -> list[float | None]:
        """The variance of each result, summed over its elements; `None` for integers."""
        spreads: list[float | None] = []
        for index, type in enumerate(self.entry.function_type.outputs):
            for results in self.results:
                if not results[index].ndim or len(results[index]) != len(results[0]):
                    raise InputError(f"result {index} has no values for each sample; leave it out")
            if not is_float(cast(AnyTensor, type)):
                spreads.append(None)
                continue
            values = np.concatenate([results[index] for results in self.results]).astype(np.float64)
            values = np.where(np.isfinite(values), values, 0)
            about = values - values.mean(axis=0)
            spreads.append(next((s for s in (_power(about), _power(values)) if s), 1.0))
        return spreads

    def _error(self, wanted: Sequence[Array], found: Sequence[Array]) -> float:
        """The mean over the results of the errors of a batch, summed over its samples."""
        errors: list[float] = []
        for y, z, spread in zip(wanted, found, self._spreads, strict=True):
            if spread is None:
                errors.append(float((y != z).mean()) * len(y))
                continue
            finite = np.isfinite(y)
            with np.errstate(invalid="ignore"):
                away = np.where(finite, y.astype(np.float64) - z.astype(np.float64), 0)
            errors.append(float(np.nan_to_num((away**2).sum(), nan=np.inf)) / spread)
        return sum(errors) / len(errors)


def _power(values: Array) -> float:
    """Σ x² a sample."""
    return float((values**2).sum()) / len(values)
