"""The pass `convert-ann-to-snn`: a float program as one of spiking neurons.

`converter` has the walk and `LayerConverter`; `neurons`, `synapses`, `shapes` and `attention` the
rules; `signals` what they build with; `correction` compares with the float program afterwards;
`validator` tells what will be converted. Thresholds come from `balance_thresholds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...dialects.parameters import Array
from ...ir.errors import OptionError, expect_from, expect_one_of
from ...ir.interpreter import entry_function
from ..calibration.observation import read_batches
from .converter import RULES, Converted, LayerConverter, Rule
from .correction import Correction
from .signals import Conversion, NotConvertible, Signal
from .signed import MOST_STEPS
from .trial import Trial
from .validator import ArchitectureValidator, Finding

CORRECTIONS = ("none", "bias", "weights")
POOLS = ("auto", "before", "first", "all")
RESETS = ("subtract", "to_value")

BATCH = 128
"""Samples run at a time, at most, and samples times steps."""

MOST_COPIES = 16
"""So many neurons may say a value at one step, half as many at two, and one from `FINE`, or from
twice that where spikes are signed: early ones that mislead later layers cost those most."""

FINE = 4
"""From so many steps on, a neuron says enough."""

LEAST_BATCH = 16
"""Samples run at a time, at least: fewer would wait for Python."""

__all__ = [
    "RULES",
    "ArchitectureValidator",
    "Conversion",
    "ConvertAnnToSnnPass",
    "Converted",
    "Finding",
    "LayerConverter",
    "NotConvertible",
    "Rule",
    "Signal",
    "convert",
]


@dataclass(frozen=True)
class ConvertAnnToSnnPass(ModulePass):
    """Turn a float program of `tensor` ops into a program of spiking neurons over T steps.

    `relu`, `relu6` and `clamp` from 0 become `spike.integrate_fire` with the threshold θ that
    `balance-thresholds` noted, which starts at θ/2 and subtracts θ when it fires. A spike is worth
    θ: that goes into the weights that read it. Products with constant weights, pools, sums,
    concatenations and what moves elements become the same at each step. What comes before the
    first neurons is computed once, and is a constant current at every step; results are the mean
    over time of the last currents. Ops after the last neurons are applied to that mean where they
    are not linear.

        %z = tensor.linear %x, %w, %b : (tensor<?x4xf32>, …) -> tensor<?x3xf32>
        %h = tensor.relu %z {spike.threshold = dense<2.0> : tensor<f64>} : …
        %y = tensor.linear %h, %v : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
        // becomes, with timesteps=4
        %z = tensor.linear %x, %w, %b : (tensor<?x4xf32>, …) -> tensor<?x3xf32>
        %i = spike.encode %z {scheme = "direct", timesteps = 4 : i64} : … -> tensor<4x?x3xf32>
        %v0 = tensor.clamp %z {min = 1.0 : f64, max = 1.0 : f64} : …
        %h = spike.integrate_fire %i initial(%v0 : tensor<?x3xf32>) {threshold = 2.0 : f64, …} : …
        %o = spike.linear %h, %v2 : !spike.train<4x?x3>, … -> tensor<4x?x2xf32>
        %y = spike.decode %o {scheme = "membrane", readout = "mean"} : … -> tensor<?x2xf32>

    Approximate: rates have T + 1 levels, and a neuron may fire before what would have inhibited it
    arrives. Softmax attention becomes `spike.attention`, which is another function: a remark on the
    function, `spike.remark`, says so. Max pooling spikes when the largest count of a window grows.

    Raises:
        UnsupportedError: all ops that cannot be converted; the module stays as it was.
    """

    name = "convert-ann-to-snn"
    approximate: ClassVar[bool] = True

    timesteps: int = 32
    """T: how many steps the program runs."""

    threshold: int | float | None = None
    """The threshold of activations on which none is noted."""

    data: str | None = None
    """Sample inputs for the corrections: a `.npz`, `.safetensors` or `.npy` file, as for
    `balance-thresholds`."""

    samples: int | None = 2000
    """Use the first so many samples."""

    correct: str = "weights"
    """With data: `weights` fits weights and biases of later layers to the spikes that reach them;
    `bias` shifts biases alone; `none`."""

    price: int | float = 0.04
    """With data: where no threshold is noted, the one that costs least is found by simulation. That
    is what a spike of every neuron at every step costs, as a share of the information in the
    result, of which coarse neurons lose some."""

    pools: str = "auto"
    """With data: neurons stand `before` pools, behind the `first`, whose window holds constants, or
    behind `all`; `auto`: behind `all`, but plain ones for T from 4 to 7 behind the `first`. With
    `before` a value has one neuron, and all steps count the same for the result,
    as targets of neurons and synapses need it; else several neurons may say a value in few steps,
    and steps count as much as fits best."""

    signed: bool = False
    """With data: neurons tell a value coarse to fine, by spikes of -1 and 1 whose worth halves at
    each step. They are made of `spike.integrate_fire` of one step; what they send are numbers."""

    reset: str = "subtract"
    """What a spike takes off the potential: `subtract` the threshold, or with `to_value` all of it,
    as on chips that know no other neurons. What is above the threshold is then lost, which
    thresholds and weights that are fitted with data make up for in part."""

    function: str = "forward"
    """The function to convert."""

    def __post_init__(self) -> None:
        expect_from(f"{self.name} expects timesteps", self.timesteps, 1)
        expect_from(f"{self.name} expects samples", self.samples, 1)
        if self.threshold is not None and not self.threshold > 0:
            raise OptionError(f"{self.name} expects a positive threshold, got {self.threshold}")
        if self.signed and not 1 < self.timesteps <= MOST_STEPS:
            raise OptionError(
                f"{self.name} expects timesteps from 2 to {MOST_STEPS} for signed spikes, "
                f"got {self.timesteps}"
            )
        if self.signed and self.reset != "subtract":
            raise OptionError(f"{self.name}: signed spikes are of neurons that subtract")
        if not 0 <= self.price < float("inf"):
            raise OptionError(f"{self.name} expects a price of at least 0, got {self.price}")
        expect_one_of(f"{self.name} expects correct", self.correct, CORRECTIONS)
        expect_one_of(f"{self.name} expects pools", self.pools, POOLS)
        expect_one_of(f"{self.name} expects reset", self.reset, RESETS)

    @property
    def batch(self) -> int:
        """How many samples are run at a time: all steps of them fit a cache."""
        return max(LEAST_BATCH, BATCH // self.timesteps)

    def standing(self) -> str:
        """Where neurons stand: `before`, `first` or `all`."""
        if self.pools != "auto":
            return self.pools
        return "first" if not self.signed and FINE <= self.timesteps < 2 * FINE else "all"

    @property
    def copies(self) -> int:
        """How many neurons may say a value."""
        fine = self.timesteps >= (2 * FINE if self.signed else FINE)
        return 1 if self.pools == "before" or fine else MOST_COPIES // self.timesteps

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        batches: Sequence[Sequence[Array]] | None = None
        if self.data is not None:
            entry = entry_function(op, self.function)
            batches = read_batches(entry, self.data, size=self.batch, limit=self.samples)
        convert(op, self, batches)


def convert(
    module: ModuleOp,
    options: ConvertAnnToSnnPass,
    batches: Sequence[Sequence[Array]] | None = None,
    converter: LayerConverter | None = None,
) -> Converted:
    """Convert a program in place, and correct it on sample inputs where there are some.

    Args:
        module: the float program, thresholds noted on its activations.
        options: those of the pass; `data` and `samples` are not read.
        batches: samples, each with one array an argument of the function.
        converter: the rules; those of the pass by default.

    Raises:
        UnsupportedError: ops that cannot be converted, all of them; the module is as it was.
        PassError: a noted threshold is malformed.
    """
    threshold = None if options.threshold is None else float(options.threshold)
    correction = None
    if batches is not None and options.correct != "none":
        trial = Trial(entry_function(module, options.function).body.block, batches)
        fit = options.correct == "weights"
        correction = Correction(
            trial,
            price=float(options.price) / options.timesteps,
            fit=fit,
            pools=options.standing(),
            signed=options.signed,
            weighs=options.pools != "before",
            copies=options.copies,
        )
    return (converter or LayerConverter()).convert(
        module,
        options.timesteps,
        threshold=threshold,
        correction=correction,
        reset=options.reset,
        function=options.function,
    )
