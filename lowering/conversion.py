"""Float programs to spiking ones in one call: fusion, thresholds, conversion, corrections.

The passes that it runs can be run one by one with `triton-opt`: see docs/conversion.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ..dialects.parameters import Array
from ..dialects.registry import triton_context, verify_module
from ..ir.errors import OptionError
from ..ir.interpreter import entry_function
from ..passes.balance_thresholds import ThresholdCalibrator, balance
from ..passes.calibration.observation import bind_samples
from ..passes.convert_ann_to_snn import ConvertAnnToSnnPass, LayerConverter, convert
from ..passes.fold_constants import FoldConstantsPass
from ..passes.fuse_linear import FuseLinearPass
from ..runtime.spiking.activity import record
from .conversion_front import Front
from .models import Model, import_for


def convert_to_snn(
    program: Model,
    samples: Array | Sequence[Array] | Mapping[str, Array],
    timesteps: int = 32,
    *,
    calibrator: ThresholdCalibrator | None = None,
    converter: LayerConverter | None = None,
    correct: str = "weights",
    price: float = 0.04,
    pools: str = "auto",
    signed: bool = False,
    reset: str = "subtract",
    budget: float | None = None,
    accuracy: float | None = None,
    labels: Array | None = None,
    function: str = "forward",
) -> ModuleOp:
    """A spiking program for a float one, calibrated on samples without labels.

    Args:
        program: the float program, with weights, which stays as it is; or what it is imported from,
            see `models.import_model`.
        samples: inputs [count, …]: an array for the one argument, one for each, or by name.
        timesteps: T.
        calibrator: how thresholds follow from activations; by default they are found by simulation.
        converter: the rules; those of the pass by default.
        correct: `weights`, `bias` or `none`, as for `convert-ann-to-snn`.
        price: of a spike of every neuron at every step, as a share of the information in the
            result: the higher, the fewer spikes.
        pools: where neurons stand, as for `convert-ann-to-snn`.
        signed: whether neurons give signed spikes whose worth halves, as for `convert-ann-to-snn`.
        reset: what a spike leaves of a potential, as for `convert-ann-to-snn`.
        budget: the most spikes a sample; the price is searched that loses least with them.
        accuracy: instead, the least share of right classes; the price with the fewest spikes. Both
            are measured on the last fourth of the samples, 1000 at most, which calibrate nothing.
        labels: the classes of the samples; without them the float program is right.
        function: the function to convert.

    Raises:
        UnsupportedError: ops that cannot be converted, all of them.
        OptionError: the samples do not fit, or an option has a wrong value.
        PassError: an activation is not finite on the samples.
    """
    options = ConvertAnnToSnnPass(
        timesteps=timesteps,
        correct=correct,
        price=price,
        pools=pools,
        signed=signed,
        reset=reset,
        function=function,
    )
    result, arrays = prepared(program, samples, function)
    if budget is not None or accuracy is not None:
        if calibrator is not None:
            raise OptionError("budget and accuracy search thresholds: leave the calibrator out")
        front = Front(result, arrays, labels, converter=converter, function=function)
        front.explore(options, budget=budget, accuracy=accuracy)
        return front.chosen(budget=budget, accuracy=accuracy).module
    batches = bind_samples(entry_function(result, function), arrays, size=options.batch)
    if calibrator is not None:
        balance(result, batches, calibrator, function=function)
    convert(result, options, batches, converter)
    verify_module(result)
    return result


def prepared(
    program: Model,
    samples: Array | Sequence[Array] | Mapping[str, Array],
    function: str = "forward",
) -> tuple[ModuleOp, dict[str, Array]]:
    """A copy of a float program with its layers fused, and its samples by name."""
    named = isinstance(samples, Mapping)
    examples = samples if named else [samples] if isinstance(samples, np.ndarray) else samples
    result = import_for(program, examples).clone()
    before: tuple[ModulePass, ...] = (FoldConstantsPass(), FuseLinearPass(), FoldConstantsPass())
    for step in before:
        step.apply(triton_context(), result)
    return result, named_samples(samples, result, function)


def named_samples(
    samples: Array | Sequence[Array] | Mapping[str, Array], module: ModuleOp, function: str
) -> dict[str, Array]:
    """Samples by the names of the arguments; a single array is for a single argument.

    Raises:
        OptionError: the arguments need names.
    """
    count = len(entry_function(module, function).body.block.args)
    if isinstance(samples, Mapping):
        return dict(samples)
    if isinstance(samples, np.ndarray):
        samples = [samples]
    if count != 1 or len(samples) != 1:
        raise OptionError(
            f"the program takes {count} inputs: give samples by the names of its arguments"
        )
    return {"": samples[0]}


@dataclass(frozen=True)
class CountedRun:
    """What a spiking program gave for a batch.

    Attributes:
        results: the results of the function.
        spikes: for each population of neurons, the spikes of each sample [N].
    """

    results: tuple[Array, ...]
    spikes: tuple[NDArray[np.int64], ...]

    @property
    def total(self) -> NDArray[np.int64]:
        """The spikes of each sample, all populations together."""
        return np.sum(np.stack(self.spikes), axis=0)


def run_spiking(
    program: Model, inputs: Sequence[Array], *, function: str = "forward", batch: int = 250
) -> CountedRun:
    """Run a spiking program on the reference interpreter and count the spikes of its neurons.

    Args:
        program: the program, as `convert_to_snn` gives it, or what it is imported from.
        inputs: one array [N, …] an argument.
        function: the function to run.
        batch: samples run at a time.
    """
    program = import_for(program, inputs)
    parts: list[tuple[Array, ...]] = []
    spikes: list[list[NDArray[np.int64]]] = []
    for start in range(0, len(inputs[0]), batch):
        some = [array[start : start + batch] for array in inputs]
        activity = record(program, some, function, potentials=False)
        trains = [a.output for a in activity.layers if a.fires and not a.is_input]
        parts.append(activity.outputs)
        spikes.append(
            [np.count_nonzero(t.swapaxes(0, 1).reshape(t.shape[1], -1), axis=1) for t in trains]
        )
    return CountedRun(
        tuple(np.concatenate(column) for column in zip(*parts, strict=True)),
        tuple(np.concatenate(column) for column in zip(*spikes, strict=True)),
    )
