"""The pass `balance-thresholds`: thresholds for the neurons that activations will become."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ..dialects.inference import tensor_type
from ..dialects.parameters import Array, dense
from ..ir.errors import OptionError, PassError, expect_from, expect_one_of
from ..ir.interpreter import entry_function
from .calibration.observation import read_batches
from .convert_ann_to_snn.attention import THRESHOLDS, attentions
from .convert_ann_to_snn.channels import channel_axis
from .convert_ann_to_snn.neurons import HALF, activations, annotate, bound_of
from .convert_ann_to_snn.trial import Trial

METHODS = ("max", "percentile", "mse", "qcfs")
GRANULARITIES = ("layer", "channel")

BINS = 2048
"""Resolution of the histograms of positive activations."""

CANDIDATES = 120
"""How many thresholds up to the greatest activation are tried."""


@dataclass(frozen=True)
class ThresholdCalibrator:
    """Finds thresholds from what activations are on sample inputs.

    - `max`: the greatest activation (Diehl et al. 2015).
    - `percentile`: a percentile of the positive activations (Rueckauer et al. 2017).
    - `mse`: the least squared error of what the neuron says in `timesteps` steps of the constant
      current a: θ/T·clamp(⌊a·T/θ + initial⌋, 0, T), T = `timesteps`.
    - `qcfs`: the same with `initial` = ½ and `levels` instead of T (Bu et al. 2022, eq. 7).

    Attributes:
        method: one of the above.
        per: `layer` for one threshold an activation, `channel` for one a channel, which errs less
            and spikes more.
        timesteps: the steps that the converted program will run.
        percentile: of the method of that name.
        initial: the potential of a neuron before the first step, as a share of its threshold.
        levels: of the method `qcfs`; `timesteps` by default.
    """

    method: str = "qcfs"
    per: str = "layer"
    timesteps: int = 32
    percentile: float = 99.9
    initial: float = HALF
    levels: int | None = None

    def __post_init__(self) -> None:
        expect_one_of("expected method", self.method, METHODS)
        expect_one_of("expected per", self.per, GRANULARITIES)
        expect_from("expected timesteps", self.timesteps, 1)
        expect_from("expected levels", self.levels, 1)
        if not 0 < self.percentile <= 100:
            raise OptionError(f"expected a percentile up to 100, got {self.percentile}")
        if not 0 <= self.initial < 1:
            raise OptionError(f"expected initial from 0 to below 1, got {self.initial}")

    def calibrate(
        self, program: ModuleOp, samples: Iterable[Sequence[Array]], *, function: str = "forward"
    ) -> list[Array]:
        """The threshold of each activation of a float program, in program order, in f64.

        One number, or one a channel: an array that broadcasts to the activation's shape
        without its first axis. Labels are not needed.

        Args:
            program: the float program, with weights.
            samples: batches, each with one array an argument of the function.
            function: the function's name.

        Raises:
            PassError: there are no samples, or an activation is not finite on them.
        """
        entry = entry_function(program, function)
        layers = list(activations(entry))
        if not layers:
            return []
        trial = Trial(entry.body.block, list(samples))
        return [self.threshold(trial, op.results[0], bound_of(op)) for op in layers]

    def threshold(self, trial: Trial, value: SSAValue, bound: float | None = None) -> Array:
        """The threshold of what is positive in a value, as `calibrate` gives it.

        Args:
            trial: the values on samples.
            value: a value of the float program.
            bound: the most that it can be.

        Raises:
            PassError: it is not finite on the samples.
        """
        rank = tensor_type(value).get_num_dims()
        axis = channel_axis(value) if self.per == "channel" and rank > 1 else None
        array = np.concatenate(
            [trial.value(value, number) for number in trial.batches({value}, value)]
        )
        groups = array.reshape(1, -1)
        if axis is not None:
            groups = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
        if not np.isfinite(groups).all():
            raise PassError("an activation becomes NaN or infinite on the samples")
        highest = groups.max(axis=1, initial=0).astype(np.float64)
        counts = np.zeros((len(groups), BINS), np.int64)
        for row, group, top in zip(counts, groups, highest.tolist(), strict=True):
            positive = group[group > 0]
            if positive.size:
                places = (positive * np.float64(BINS / top)).astype(np.int64)
                row += np.bincount(np.minimum(places, BINS - 1), minlength=BINS)
        limits = self.thresholds(highest, counts, bound)
        return limits.reshape(
            () if axis is None else [-1 if a == axis else 1 for a in range(1, rank)]
        )

    def annotate(
        self, program: ModuleOp, thresholds: Sequence[Array], *, function: str = "forward"
    ) -> None:
        """Note thresholds, as `calibrate` gave them, and the initial potential on a program.

        Raises:
            PassError: there are more or fewer activations than thresholds.
        """
        layers = list(activations(entry_function(program, function)))
        if len(layers) != len(thresholds):
            raise PassError(
                f"expected a threshold for each of {len(layers)} activations, got {len(thresholds)}"
            )
        initial = HALF if self.method == "qcfs" else self.initial
        for op, threshold in zip(layers, thresholds, strict=True):
            annotate(op, threshold, initial)

    def thresholds(
        self,
        highest: NDArray[np.float64],
        counts: NDArray[np.int64],
        bound: float | None,
    ) -> NDArray[np.float64]:
        """One threshold a group.

        Args:
            highest: the greatest activation of each group; 0 where none is positive.
            counts: the histogram of the positive ones, [groups, BINS].
            bound: the most that an activation can be.
        """
        estimates = [self._threshold(h, c) for h, c in zip(highest.tolist(), counts, strict=True)]
        fallback = max(estimates) if max(estimates) > 0 else 1.0
        chosen = np.array([value if value > 0 else fallback for value in estimates])
        return chosen if bound is None else np.minimum(chosen, bound)

    def _threshold(self, highest: float, counts: NDArray[np.int64]) -> float:
        if highest <= 0 or self.method == "max":
            return highest
        centres = (np.arange(BINS) + 0.5) * (highest / BINS)
        if self.method == "percentile":
            below = np.cumsum(counts) / counts.sum()
            edges = np.arange(1, BINS + 1) * (highest / BINS)
            return float(np.interp(self.percentile / 100, below, edges))
        steps, initial = self.timesteps, self.initial
        if self.method == "qcfs":
            steps, initial = self.levels or self.timesteps, HALF
        candidates = highest * np.arange(1, CANDIDATES + 1) / CANDIDATES
        said = np.floor(centres * steps / candidates[:, None] + initial)
        said = np.clip(said, 0, steps) * (candidates[:, None] / steps)
        errors = ((said - centres) ** 2) @ counts
        return float(candidates[errors.argmin()])


@dataclass(frozen=True)
class BalanceThresholdsPass(ModulePass):
    """Note on each activation the threshold of the neurons that `convert-ann-to-snn` makes of it.

    Runs the float program on sample inputs with the reference interpreter. A neuron with the
    threshold θ says at most θ, in steps of θ/T; the pass weighs what is cut off against how coarse
    the steps are. The program computes what it did before. What is noted holds: without it,
    `convert-ann-to-snn` finds thresholds by simulation if it has samples.

        %h = tensor.relu %z : (tensor<?x256xf32>) -> tensor<?x256xf32>
        // becomes
        %h = tensor.relu %z {spike.threshold = dense<5.5> : tensor<f64>, spike.initial = 0.5 : f64}
             : (tensor<?x256xf32>) -> tensor<?x256xf32>

    Attention gets thresholds for query, key and value: a percentile of what is positive.
    """

    name = "balance-thresholds"

    data: str | None = None
    """A `.npz`, `.safetensors` or `.npy` file of sample inputs: one array an argument of the
    function, under its name; the first axis counts the samples."""

    method: str = "qcfs"
    """`qcfs` or `mse` (least squared error at T steps), `percentile`, or `max`."""

    per: str = "layer"
    """One threshold a `layer` or a `channel`."""

    timesteps: int = 32
    """T: the steps that the converted program will run."""

    percentile: int | float = 99.9
    """For `method=percentile`."""

    initial: str = "half"
    """The potential before the first step as a share of the threshold: `half`, `zero`, or a
    number."""

    levels: int | None = None
    """For `method=qcfs`: the levels of the activation; `timesteps` by default."""

    samples: int | None = None
    """Use the first so many samples; all by default."""

    batch: int = 128
    """Samples run at a time."""

    function: str = "forward"
    """The function to look at."""

    def __post_init__(self) -> None:
        expect_from(f"{self.name} expects samples", self.samples, 1)
        expect_from(f"{self.name} expects batch", self.batch, 1)
        self.calibrator()

    def calibrator(self) -> ThresholdCalibrator:
        """The calibrator that the options ask for.

        Raises:
            OptionError: an option has a wrong value.
        """
        named: Mapping[str, float] = {"half": HALF, "zero": 0.0}
        try:
            initial = named[self.initial] if self.initial in named else float(self.initial)
            return ThresholdCalibrator(
                self.method,
                self.per,
                self.timesteps,
                float(self.percentile),
                initial,
                self.levels,
            )
        except ValueError as error:
            reason = (
                str(error)
                if isinstance(error, OptionError)
                else (f"expected initial half, zero or a number, got '{self.initial}'")
            )
            raise OptionError(f"{self.name}: {reason}") from None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = entry_function(op, self.function)
        samples: Sequence[Sequence[Array]] = ()
        if self.data is not None:
            samples = read_batches(function, self.data, size=self.batch, limit=self.samples)
        attention = attentions(function.body.block.ops)
        if not attention and not any(True for _ in activations(function)):
            return
        if not samples:
            raise PassError(
                f"{self.name} needs sample inputs to calibrate with: give a file, as in "
                f"'{self.name}{{data=\"samples.npz\"}}', that holds one array an input of "
                f"the model (.npz, .safetensors, or .npy for a single input)"
            )
        balance(op, samples, self.calibrator(), function=self.function)


def balance(
    module: ModuleOp,
    samples: Iterable[Sequence[Array]],
    calibrator: ThresholdCalibrator,
    *,
    function: str = "forward",
) -> None:
    """Note thresholds on the activations and attentions of a float program.

    Args:
        module: the program, with weights.
        samples: batches, each with one array an argument of the function.
        calibrator: what to look for.
        function: the function's name.

    Raises:
        PassError: there are no samples, or an activation is not finite on them.
    """
    batches, entry = list(samples), entry_function(module, function)
    thresholds = calibrator.calibrate(module, batches, function=function)
    calibrator.annotate(module, thresholds, function=function)
    found = attentions(entry.body.block.ops)
    trial = Trial(entry.body.block, batches) if found else None
    for attention in found:
        assert trial is not None
        values = (attention.query, attention.key, attention.value)
        limits = [float(replace(calibrator, per="layer").threshold(trial, v)) for v in values]
        attention.op.attributes[THRESHOLDS] = dense(np.array(limits), f64)
