"""The front of a conversion: what accuracy costs how many steps, spikes and additions.

Programs are converted at several steps and prices, and measured on samples that did not calibrate
them. Not here: one conversion (`conversion`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log

from xdsl.dialects.builtin import ModuleOp

from ..dialects.parameters import Array
from ..dialects.registry import verify_module
from ..ir.errors import OptionError
from ..passes.calibration.observation import bind_samples
from ..passes.convert_ann_to_snn import ConvertAnnToSnnPass, LayerConverter, convert
from ..runtime.spiking.activity import record
from .held_out import HeldOut

PRICES = (0.01, 0.04, 0.16)
"""The prices of spikes that are tried where none is given."""

ROUNDS = 9
"""The most prices that are tried for a bound."""

LEAST, GREATEST = 4e-4, 40.0
"""Prices between which is searched."""

QUICK = 512
"""Samples that calibrate while a price is far from its bound."""

NEAR = 0.03
"""How near a budget is near enough, as a share of it."""

WIDTH = 0.05
"""How near logarithms of prices are that need not be told apart."""

STEP = 1.0
"""By how much the logarithm of the price changes at first."""


@dataclass(frozen=True, eq=False)
class Conversion:
    """One converted program and what it does.

    Attributes:
        timesteps: T.
        signed: whether spikes are signed, and their worth halves.
        price: of a spike, as for `convert-ann-to-snn`.
        accuracy: the share of samples with the right class, or with that of the float program;
            where results are no classes their R², see `HeldOut.judged`.
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
        OptionError: samples, labels or a result that `HeldOut` refuses.
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
        self.held = HeldOut(program, samples, labels, function)
        self.conversions: list[Conversion] = []

    def add(self, options: ConvertAnnToSnnPass, samples: int | None = None) -> Conversion:
        """Convert with some options, calibrated on the first so many samples, and measure."""
        module = self.program.clone()
        held = self.held
        batches = bind_samples(held.entry, held.samples, size=options.batch, limit=samples)
        convert(module, options, batches, self.converter)
        verify_module(module)
        spikes, additions = 0, 0

        def run(batch: Sequence[Array]) -> Sequence[Array]:
            nonlocal spikes, additions
            ran = record(module, batch, self.function, potentials=False)
            spikes, additions = spikes + ran.spikes, additions + ran.additions
            return ran.outputs

        accuracy, lost = held.judged(run)
        measured = held.count
        conversion = Conversion(
            options.timesteps,
            options.signed,
            float(options.price),
            accuracy,
            lost,
            spikes / measured,
            additions / measured,
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
        few = len(next(iter(self.held.samples.values()))) > QUICK
        price = log(min(max(options.price, LEAST), GREATEST))
        for samples in (QUICK, None) if few else (None,):

            def surplus(price: float, samples: int | None = samples) -> float:
                tried = self.add(replace(options, price=exp(price)), samples)
                if budget is None:
                    return tried.accuracy - (accuracy or 0.0)
                return log(max(tried.spikes, 1e-9) / max(budget, 1e-9)) + NEAR / 2

            price = _falling_root(surplus, price, 0.0 if budget is None else NEAR / 2)

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


def _falling_root(function: Callable[[float], float], start: float, near: float) -> float:
    """Where a function of the logarithm of a price falls to 0, give or take `near`.

    Steps that grow until both sides are known, then the Illinois method (Dowell and Jarratt 1971):
    the value at an end that stays is halved.
    """
    low, high = log(LEAST), log(GREATEST)
    ends: dict[bool, tuple[float, float]] = {}
    place, step, before = start, STEP, None
    for _ in range(ROUNDS):
        value = function(place)
        if abs(value) <= near:
            break
        above = value > 0
        ends[above] = place, value
        if len(ends) == 1:
            if place in (low, high) and before is not None:
                break
            place = min(max(place + (step if above else -step), low), high)
            step *= 2
        else:
            if before is above:
                other, kept = ends[not above]
                ends[not above] = other, kept / 2
            (left, most), (right, least) = ends[True], ends[False]
            if right - left < WIDTH:
                break
            place = left + (right - left) * most / (most - least)
        before = above
    return place
