"""The front of a conversion: what accuracy costs how many steps, spikes and additions.

Programs are converted at several steps and prices, and measured on samples that did not calibrate
them. Not here: one conversion (`conversion`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..dialects.interpret import run_module
from ..dialects.parameters import Array
from ..dialects.registry import verify_module
from ..ir.errors import OptionError
from ..ir.interpreter import entry_function
from ..passes.calibration.observation import bind_samples
from ..passes.convert_ann_to_snn import ConvertAnnToSnnPass, LayerConverter, convert
from ..passes.convert_ann_to_snn.search import divergence
from ..runtime.spiking.activity import record

PRICES = (0.001, 0.004, 0.016)
"""The prices of spikes that are tried where none is given."""

HELD_OUT = 4
"""One sample in so many, of the last ones, is measured and does not calibrate."""

MOST_MEASURED = 1000
"""The most samples that are measured."""

ROUNDS = 6
"""How often the price is halved towards a bound, between the least and the greatest one."""

LEAST, GREATEST = 1e-4, 10.0
"""Prices between which is searched."""

BATCH = 128
"""Samples run at a time."""


@dataclass(frozen=True, eq=False)
class Conversion:
    """One converted program and what it does.

    Attributes:
        timesteps: T.
        signed: whether spikes are signed, and their worth halves.
        price: of a spike, as for `convert-ann-to-snn`.
        accuracy: the share of samples with the right class, or with that of the float program.
        divergence: of its results from those of the float program, in nats a sample.
        spikes: of all neurons, a sample.
        additions: of all synapses behind neurons, a sample.
        module: the program.
    """

    timesteps: int
    signed: bool
    price: float
    accuracy: float
    divergence: float
    spikes: float
    additions: float
    module: ModuleOp = field(repr=False)

    def beats(self, other: Conversion) -> bool:
        """Whether it is as good in accuracy, steps and spikes, and better in one."""
        mine = (-self.accuracy, self.timesteps, self.spikes)
        theirs = (-other.accuracy, other.timesteps, other.spikes)
        return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))


class Front:
    """Conversions of one program, measured on the same samples.

    Args:
        program: the float program, its layers fused.
        samples: by the names of the arguments, [count, …].
        labels: the class of each sample; without, those of the float program count as right.
        converter: the rules; those of the pass by default.
        function: the function that is converted.

    Raises:
        OptionError: samples or labels that do not fit, fewer than 8 samples, or a result that is
            not [samples, classes].
    """

    def __init__(
        self,
        program: ModuleOp,
        samples: Mapping[str, Array],
        labels: Array | None = None,
        *,
        converter: LayerConverter | None = None,
        function: str = "forward",
    ) -> None:
        self.program, self.converter, self.function = program, converter, function
        count = min((len(array) for array in samples.values()), default=0)
        if count < 2 * HELD_OUT:
            raise OptionError(f"expected {2 * HELD_OUT} samples or more to measure on, got {count}")
        cut = count - min(count // HELD_OUT, MOST_MEASURED)
        entry = entry_function(program, function)
        parts = [
            {k: v[part] for k, v in samples.items()} for part in (slice(cut), slice(cut, None))
        ]
        self.calibration, self.measured = (bind_samples(entry, a, size=BATCH) for a in parts)
        results = [run_module(program, batch, function)[0] for batch in self.measured]
        if results[0].ndim != 2:
            raise OptionError(
                "accuracy is measured on a result [samples, classes], "
                f"got one of {results[0].ndim} axes"
            )
        self.results = results
        self.right = np.concatenate(results).argmax(axis=1)
        if labels is not None:
            if labels.dtype.kind not in "iu" or labels.shape != (count,):
                raise OptionError(
                    f"expected {count} labels as whole numbers, "
                    f"got {labels.dtype}{list(labels.shape)}"
                )
            self.right = labels[cut : cut + len(self.right)]
        self.conversions: list[Conversion] = []

    def add(self, options: ConvertAnnToSnnPass) -> Conversion:
        """Convert with some options, and measure."""
        module = self.program.clone()
        convert(module, options, self.calibration, self.converter)
        verify_module(module)
        right, spikes, additions, first, lost = 0, 0, 0, 0, 0.0
        for batch, wanted in zip(self.measured, self.results, strict=True):
            run = record(module, batch, self.function, potentials=False)
            answers = run.outputs[0].argmax(1)
            right += int((answers == self.right[first : first + len(answers)]).sum())
            first += len(answers)
            lost += divergence(wanted, run.outputs[0])
            spikes, additions = spikes + run.spikes, additions + run.additions
        conversion = Conversion(
            options.timesteps,
            options.signed,
            float(options.price),
            right / first,
            lost / first,
            spikes / first,
            additions / first,
            module,
        )
        self.conversions.append(conversion)
        return conversion

    def explore(
        self,
        options: ConvertAnnToSnnPass,
        *,
        prices: Sequence[float] = PRICES,
        budget: float | None = None,
        accuracy: float | None = None,
    ) -> None:
        """Add conversions at some prices, or at those around the one that just meets a bound.

        Args:
            options: all but the price.
            prices: the prices where there is no bound.
            budget: the most spikes a sample.
            accuracy: the least accuracy.

        Raises:
            OptionError: both bounds, or one out of range.
        """
        if budget is not None and accuracy is not None:
            raise OptionError("budget and accuracy exclude each other: give one of them")
        if not (budget or 0.0) >= 0 or not 0 <= (accuracy or 0.0) <= 1:
            raise OptionError("expected a budget of at least 0, or an accuracy from 0 to 1")
        if budget is None and accuracy is None:
            for price in prices:
                self.add(replace(options, price=price))
            return
        low, high = log(LEAST), log(GREATEST)
        for _ in range(ROUNDS):
            middle = (low + high) / 2
            tried = self.add(replace(options, price=exp(middle)))
            if budget is not None:
                higher = tried.spikes > budget
            else:
                higher = tried.accuracy >= (accuracy or 0.0)
            low, high = (middle, high) if higher else (low, middle)

    def best(self, *others: Conversion) -> list[Conversion]:
        """The conversions that no other one beats, and others: fewest steps and spikes first."""
        front = [c for c in self.conversions if not any(d.beats(c) for d in self.conversions)]
        return sorted({*front, *others}, key=lambda c: (c.timesteps, c.spikes, c.divergence))

    def chosen(self, *, budget: float | None = None, accuracy: float | None = None) -> Conversion:
        """The conversion within a budget of spikes that is nearest to the float program, or that of
        an accuracy with the fewest spikes; without a bound the most accurate.

        Raises:
            OptionError: there is none.
        """
        fits = [
            c
            for c in self.conversions
            if c.spikes <= (c.spikes if budget is None else budget)
            and c.accuracy >= (accuracy or 0.0)
        ]
        if not fits:
            nearest = max(self.conversions, key=lambda c: c.accuracy)
            least = min(c.spikes for c in self.conversions)
            raise OptionError(
                f"no conversion fits: the most accurate one has {nearest.accuracy:.4f} at "
                f"{nearest.spikes:.0f} spikes, the fewest spikes are {least:.0f}; "
                "try other timesteps"
            )
        if accuracy is not None:
            return min(fits, key=lambda c: c.spikes)
        # Classes of some samples tell small differences less well than their results.
        return min(fits, key=lambda c: (-c.accuracy if budget is None else 0, c.divergence))
