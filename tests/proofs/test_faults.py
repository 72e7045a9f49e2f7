"""The proofs catch planted faults: a rewrite made wrong has a counterexample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pytest import MonkeyPatch

from triton_dsl.dialects import spike, tensor, ternary
from triton_dsl.dialects.canonicalization_patterns import tensor as tensor_patterns
from triton_dsl.dialects.canonicalization_patterns.spike import MergeDelays
from triton_dsl.dialects.inference import replace_with
from triton_dsl.passes.analysis import channel_vectors
from triton_dsl.passes.requantize import (
    integer_builder as integer_emitter,
)
from triton_dsl.passes.requantize import (
    merge_rescaling,
    requantize_fusion,
)
from triton_dsl.passes.requantize.rescaling_fit import Fit
from triton_dsl.passes.skip_zeros import prunable
from triton_dsl.passes.skip_zeros.channel_paths import PathOp
from triton_dsl.passes.streamline import channel_grids, level_grids, level_results

from . import test_canonicalize as of_canonicalize
from . import test_fuse_linear as of_fuse_linear
from . import test_merge_rescaling as of_merge_rescaling
from . import test_requantize as of_requantize
from . import test_skip_zeros as of_skip_zeros
from . import test_streamline as of_streamline
from . import test_streamline_channels as of_channels
from .equivalence import CounterexampleError

Plant = Callable[[MonkeyPatch], None]
Proof = Callable[[], Any]


def neutral_zero_of_products(patch: MonkeyPatch) -> None:
    """x·0 becomes x."""
    patch.setitem(vars(tensor_patterns)["_RIGHT_NEUTRAL"], tensor.MulOp, 0)


def differences_from_the_left(patch: MonkeyPatch) -> None:
    """0 - x becomes x."""
    patch.setitem(vars(tensor_patterns)["_LEFT_NEUTRAL"], tensor.SubOp, 0)


def permutations_the_other_way(patch: MonkeyPatch) -> None:
    """q∘p in the place of p∘q."""

    def rewrite(self: Any, op: Any, rewriter: Any) -> None:
        if isinstance(op, tensor.PermuteOp) and isinstance(op.operand.owner, tensor.PermuteOp):
            inner = op.operand.owner
            first, second = inner.perm.get_values(), op.perm.get_values()
            made = tensor.PermuteOp(inner.operand, [second[a] for a in first])
            if made.result.type == op.result.type:
                replace_with(op, made, rewriter)

    patch.setattr(tensor_patterns.MergePermutes, "match_and_rewrite", rewrite)


def the_longer_delay(patch: MonkeyPatch) -> None:
    """Two delays become the longer one."""

    def rewrite(self: Any, op: Any, rewriter: Any) -> None:
        if isinstance(op, spike.DelayOp) and isinstance(op.input.owner, spike.DelayOp):
            inner = op.input.owner
            steps = max(op.steps.value.data, inner.steps.value.data)
            replace_with(op, spike.DelayOp(inner.input, steps), rewriter)

    patch.setattr(MergeDelays, "match_and_rewrite", rewrite)


def lost_sign(patch: MonkeyPatch) -> None:
    """A difference goes into the bias as a sum."""
    emit = channel_vectors.ChannelVectors.emit

    def kept(self: Any, op: Any) -> Any:
        return op.operand if isinstance(op, tensor.NegOp) else emit(self, op)

    patch.setattr(channel_vectors.ChannelVectors, "emit", kept)


def forgotten_constants(patch: MonkeyPatch) -> None:
    """A constant channel goes, and nothing into the bias."""
    patch.setattr(prunable.PrunableLayer, "_add_to_bias", lambda self, offset: None)


def spikes_for_numbers(patch: MonkeyPatch) -> None:
    """A constant is taken for what it is as spikes."""
    constant = PathOp.constant

    def unchanged(self: Any, values: Any) -> Any:
        if self.op.name.startswith("spike."):
            return values, np.ones(len(values), np.bool_)
        return constant(self, values)

    patch.setattr(PathOp, "constant", unchanged)


def other_fit(change: Callable[[Fit], Fit]) -> Plant:
    """A rescaling that is a little off."""

    def plant(patch: MonkeyPatch) -> None:
        fit = merge_rescaling.fit_rescaling

        def changed(*given: Any) -> Fit | None:
            found = fit(*given)
            return None if found is None else change(found)

        patch.setattr(merge_rescaling, "fit_rescaling", changed)

    return plant


def wrapping_chains(patch: MonkeyPatch) -> None:
    """A chain is taken for one that rises, although it wraps around."""
    patch.setattr(merge_rescaling.Chain, "wraps", lambda self, bound: False)


def multipliers(change: Callable[[Any, Any], tuple[Any, Any]]) -> Plant:
    """Multipliers and shifts that are off."""

    def plant(patch: MonkeyPatch) -> None:
        exact = integer_emitter.fixed_points
        patch.setattr(integer_emitter, "fixed_points", lambda factors: change(*exact(factors)))

    return plant


def larger_bias(patch: MonkeyPatch) -> None:
    """A sum goes into the product as a bias that is one larger."""
    constant = vars(requantize_fusion)["_constant"]

    def moved(module: Any, anchor: Any, product: Any, bias: Any) -> Any:
        return constant(module, anchor, product, bias + 1)

    patch.setattr(requantize_fusion, "_constant", moved)


def later_thresholds(patch: MonkeyPatch) -> None:
    """Each threshold is one higher."""
    constant = level_grids.LevelGrids.constant

    def moved(self: Any, key: str, values: Any, element: Any) -> Any:
        return constant(self, key, values + 1 if key == "thresholds" else values, element)

    patch.setattr(level_grids.LevelGrids, "constant", moved)


def signs_that_stay(patch: MonkeyPatch) -> None:
    """Channels that fall keep their weights."""
    patch.setattr(level_grids, "with_signs", lambda weight, channel, signs: weight)


def later_falls(patch: MonkeyPatch) -> None:
    """What rises and falls, falls one integer later."""
    made = vars(level_grids)["_places_of_turns"]

    def moved(*given: Any) -> Any:
        rises, falls = made(*given)
        return rises, falls + 1

    patch.setattr(level_grids, "_places_of_turns", moved)


def forgotten_factors(patch: MonkeyPatch) -> None:
    """Channels that are summed as if their steps were the same."""
    made = vars(channel_grids)["_common_steps"]

    def alike(*given: Any) -> Any:
        step, factors = made(*given)
        return step, np.ones_like(factors)

    patch.setattr(channel_grids, "_common_steps", alike)


def lost_offset(patch: MonkeyPatch) -> None:
    """Results without what was added."""
    made = vars(level_results)["_dequantize"]

    def without(grids: Any, root: Any, scale: Any, shift: Any, guard: int, axis: int) -> Any:
        return made(grids, root, scale, np.zeros_like(shift), guard, axis)

    patch.setattr(level_results, "_dequantize", without)


def of_pattern(test: Callable[[str], None], name: str) -> Proof:
    return lambda: test(f"canonicalize: {name}")


def chains() -> None:
    of_merge_rescaling.test_chains_of_all_steps()


def levels() -> None:
    of_merge_rescaling.test_two_roundings_of_large_accumulators(1359514674)


def element_steps() -> None:
    of_requantize.test_steps_on_elements("tensor.add", 6)


def counted_steps() -> None:
    of_streamline.test_steps_between_products_are_counted(0.03125, 0.5, 3.0)


def sums_of_channels() -> None:
    body = of_channels.sums_of_levels
    of_channels.test_activations_with_a_scale_for_each_channel(body, [1, 2])


FAULTS: list[tuple[Plant, Proof]] = [
    (
        neutral_zero_of_products,
        of_pattern(of_canonicalize.test_neutral_elements, "NeutralElement of tensor.mul"),
    ),
    (
        differences_from_the_left,
        of_pattern(of_canonicalize.test_neutral_elements, "NeutralElement of tensor.sub"),
    ),
    (permutations_the_other_way, of_canonicalize.test_two_permutations),
    (
        the_longer_delay,
        lambda: of_canonicalize.test_delays(
            "canonicalize: MergeDelays of spike.delay", of_canonicalize.TRAIN
        ),
    ),
    (lost_sign, lambda: of_fuse_linear.test_sums_go_into_the_bias(tensor.LinearOp)),
    (
        forgotten_constants,
        lambda: of_skip_zeros.test_channels_between_two_layers(of_skip_zeros.LINEAR),
    ),
    (spikes_for_numbers, lambda: of_skip_zeros.test_through_ops_on_elements("spike.to_tensor")),
    (wrapping_chains, chains),
    (other_fit(lambda fit: replace(fit, biases=tuple(b + 64 for b in fit.biases))), chains),
    (other_fit(lambda fit: replace(fit, high=fit.high - 1)), chains),
    (other_fit(lambda fit: replace(fit, zero_point=fit.zero_point + 1)), levels),
    (other_fit(lambda fit: replace(fit, multipliers=(fit.multipliers[0] + 99999,))), levels),
    (multipliers(lambda m, s: (m + np.sign(m) * (1 << 27), s)), element_steps),
    (multipliers(lambda m, s: (m, s - 1)), element_steps),
    (multipliers(lambda m, s: (-m, s)), element_steps),
    (
        larger_bias,
        lambda: of_requantize.test_a_sum_goes_into_the_product(ternary.ConvOp, True),
    ),
    (later_thresholds, counted_steps),
    (signs_that_stay, of_streamline.test_channels_that_fall_get_negated_weights),
    (later_falls, lambda: of_channels.test_activations_that_rise_and_fall(0.0625, 15.0)),
    (forgotten_factors, sums_of_channels),
    (lost_offset, of_streamline.test_results_with_a_factor_and_a_sum),
]


@pytest.mark.parametrize(("plant", "proof"), FAULTS)
def test_a_planted_fault_is_caught(plant: Plant, proof: Proof, monkeypatch: MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CounterexampleError):
        proof()
