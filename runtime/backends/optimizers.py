"""Optimizers: the strategies of a level, each kept where it gains on the sample given."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from torch import nn

from ...ir.errors import TritonError, first_line
from . import strategies
from .options import OptimizationLevel, OptimizationResult
from .prepared import PreparedModel, Sample, checked, seconds
from .strategies import Failed, Inapplicable, Strategy

GAIN = 0.98
"""A strategy that is not needed stays where a call takes at most this share of the time before."""


class BaseOptimizer:
    """Makes models faster for inference on one kind of device.

    Args:
        device: where models run, or what tells it when a model comes.
        synchronize: waits until the device has finished.
        without: names of strategies to leave out.
    """

    STRATEGIES: ClassVar[tuple[Strategy, ...]] = ()

    def __init__(
        self,
        device: torch.device | Callable[[], torch.device],
        synchronize: Callable[[], None] = lambda: None,
        without: Sequence[str] = (),
    ) -> None:
        self._device = device
        self.synchronize = synchronize
        self.without = tuple(without)

    @property
    def device(self) -> torch.device:
        """Where models run.

        Raises:
            BackendError: there is no such device.
        """
        return self._device() if callable(self._device) else self._device

    def optimize(
        self,
        model: nn.Module,
        level: OptimizationLevel | str = OptimizationLevel.O2,
        sample_input: Sample | None = None,
    ) -> tuple[nn.Module, OptimizationResult]:
        """A copy of `model`, in evaluation mode, with what `level` allows.

        With a sample each strategy is measured and stays only where it gains, so that no level is
        slower than the one before; those that lose precision need one.

        Args:
            model: stays as it is.
            level: `O0` to `O3`, or a name of `OptimizationLevel.from_string`.
            sample_input: a tensor or the arguments of a call, on the device.

        Returns:
            The model and what was done.

        Raises:
            BackendError: an unknown level, no such device, or no module with weights.
        """
        level = OptimizationLevel.of(level)
        base = model.module if isinstance(model, PreparedModel) else checked(model)
        current = PreparedModel(copy.deepcopy(base), level, self.device.type).eval()
        current.requires_grad_(False)
        if sample_input is not None:
            try:
                seconds((current,), sample_input, self.synchronize)
            except Exception as error:  # whatever the model raises
                note = f"the model fails on the sample: {first_line(error)}"
                return current, OptimizationResult(False, current, level, [], [note])
        applied: list[str] = []
        notes: list[str] = []
        times: dict[str, float] = {}
        success = True
        for strategy in self._strategies(level):
            try:
                candidate = self._candidate(strategy, current, sample_input)
                if sample_input is not None:
                    before, after = seconds((current, candidate), sample_input, self.synchronize)
                    times |= {strategy.name: after, "before": times.get("before", before)}
                    if after > GAIN * before:
                        raise Inapplicable(f"{before / after:.2f} times as fast on the sample")
            except Inapplicable as reason:
                notes.append(f"{strategy.name}: {reason}")
                success = success and not isinstance(reason, Failed)
                continue
            current = candidate
            applied = [*(name for name in applied if name != strategy.replaces), strategy.name]
        metrics = {"seconds": times}
        return current, OptimizationResult(success, current, level, applied, notes, metrics)

    def optimize_legacy(
        self, model: nn.Module, level: OptimizationLevel | str = OptimizationLevel.O2
    ) -> nn.Module:
        """The model of `optimize` alone. Deprecated: take the first of what `optimize` gives."""
        message = "optimize_legacy gives the model alone; use optimize, which gives (model, result)"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.optimize(model, level)[0]

    def get_available_strategies(
        self, model: nn.Module | None = None, sample_input: Sample | None = None
    ) -> list[Strategy]:
        """The strategies of this device; with a model and a sample, those that apply, measured.

        Each is measured alone beside the model as it is; without a model nothing is known, and
        `speedup_estimate` is `None`.
        """
        if model is None or sample_input is None:
            return list(self._strategies(OptimizationLevel.O3))
        base = model.module if isinstance(model, PreparedModel) else model
        plain = PreparedModel(copy.deepcopy(base), OptimizationLevel.O0, self.device.type).eval()
        measured: list[Strategy] = []
        for strategy in self._strategies(OptimizationLevel.O3):
            try:
                candidate = self._candidate(strategy, plain, sample_input)
            except Inapplicable:
                continue
            before, after = seconds((plain, candidate), sample_input, self.synchronize)
            measured.append(replace(strategy, speedup_estimate=before / after))
        return measured

    def _strategies(self, level: OptimizationLevel) -> list[Strategy]:
        return [
            strategy
            for strategy in self.STRATEGIES
            if level in strategy.applicable_levels and strategy.name not in self.without
        ]

    def _candidate(
        self, strategy: Strategy, model: PreparedModel, sample: Sample | None
    ) -> PreparedModel:
        """What `strategy` makes of a copy of `model`.

        Raises:
            Inapplicable: it does nothing for the model, or needs a sample.
            Failed: what it gives does not run on the sample.
        """
        if strategy.needs_sample is not None and sample is None:
            raise Inapplicable(strategy.needs_sample)
        candidate = strategy.apply(copy.deepcopy(model))
        if sample is None:
            return candidate
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds((candidate,), sample, self.synchronize)
        except TritonError as error:
            raise Inapplicable(first_line(error)) from error
        except Exception as error:
            # What a compiled or quantised model raises depends on the library that runs it.
            raise Failed(f"fails on the sample: {error}".splitlines()[0]) from error
        if strategy is strategies.COMPILE and candidate.runs != "compiled":
            raise Failed("PyTorch cannot compile the model")
        return candidate


class CPUOptimizer(BaseOptimizer):
    """For processors: folded batch norms, native kernels for trits, int8, compiled programs."""

    STRATEGIES = (
        strategies.FUSION,
        strategies.TERNARY,
        strategies.INT8,
        strategies.CHANNELS_LAST,
        strategies.COMPILE,
        strategies.NATIVE,
    )


class NVIDIAOptimizer(BaseOptimizer):
    """For NVIDIA's GPUs: all strategies; FP8 where the GPU multiplies it."""

    STRATEGIES = strategies.FOR_GPUS


class AMDOptimizer(BaseOptimizer):
    """For AMD's GPUs through ROCm: all strategies; FP8 where the GPU multiplies it."""

    STRATEGIES = strategies.FOR_GPUS


class IntelOptimizer(BaseOptimizer):
    """For Intel's GPUs: all strategies but FP8."""

    STRATEGIES = tuple(each for each in strategies.FOR_GPUS if each is not strategies.FP8)


class TPUOptimizer(BaseOptimizer):
    """For TPUs: what XLA does not do by itself."""

    STRATEGIES = (strategies.FUSION, strategies.MIXED_PRECISION)
