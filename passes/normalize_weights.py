"""The pass `normalize-weights`: activations up to about 1, by weights scaled layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import tensor
from ..dialects.inference import tensor_type
from ..dialects.parameters import Array, dense_constant
from ..dialects.traits import Homogeneous, has
from ..ir.errors import OptionError, PassError, expect_from
from ..ir.interpreter import entry_function
from .analysis.compile_time import compile_time_values, is_literal
from .analysis.layers import Layer, input_of, is_layer, is_ternary, options_of, rebuilt, weight_of
from .analysis.replacement import erase_unused_except, insert_before, unused_ops
from .balance_thresholds import ThresholdCalibrator
from .calibration.observation import read_batches
from .convert_ann_to_snn.neurons import activations, annotate, bound_of, drive_of
from .fold_constants import fold


@dataclass(frozen=True)
class NormalizeWeightsPass(ModulePass):
    """Scale weights and biases so that a percentile of each layer's activations is 1.

    λ-normalisation (Rueckauer et al. 2017, eq. 8): W ← W·λ[l-1]/λ[l], b ← b/λ[l], with λ[l] the
    percentile of the activations of layer l on samples. Where values of different scales meet, one
    of them is multiplied. The last layer gives what it did before, so the program computes the
    same, up to rounding. Thresholds of 1 are noted on the activations, for `convert-ann-to-snn`.

        // the greatest activation is 2
        %w = tensor.constant dense<[[1.0], [4.0]]> : tensor<2x1xf32>
        %v = tensor.constant dense<[[3.0]]> : tensor<1x1xf32>
        %z = tensor.matmul %x, %w : (tensor<?x2xf32>, tensor<2x1xf32>) -> tensor<?x1xf32>
        %h = tensor.relu %z : (tensor<?x1xf32>) -> tensor<?x1xf32>
        %y = tensor.matmul %h, %v : (tensor<?x1xf32>, tensor<1x1xf32>) -> tensor<?x1xf32>
        // becomes
        %w = tensor.constant dense<[[0.5], [2.0]]> : tensor<2x1xf32>
        %v = tensor.constant dense<[[6.0]]> : tensor<1x1xf32>
        …
        %h = tensor.relu %z {spike.threshold = dense<1.0> : tensor<f64>, …} : …

    Ternary layers keep their weights, and what enters them is scaled back.
    """

    name = "normalize-weights"

    data: str | None = None
    """A `.npz`, `.safetensors` or `.npy` file of sample inputs, as for `balance-thresholds`."""

    percentile: int | float = 99.9
    """Which percentile of the positive activations becomes 1; 100 is the greatest."""

    samples: int | None = None
    """Use the first so many samples; all by default."""

    batch: int = 128
    """Samples run at a time."""

    function: str = "forward"
    """The function to change."""

    def __post_init__(self) -> None:
        expect_from(f"{self.name} expects samples", self.samples, 1)
        expect_from(f"{self.name} expects batch", self.batch, 1)
        if not 0 < self.percentile <= 100:
            raise OptionError(f"{self.name} expects a percentile up to 100, got {self.percentile}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        entry = entry_function(op, self.function)
        samples: Sequence[Sequence[Array]] = ()
        if self.data is not None:
            samples = read_batches(entry, self.data, size=self.batch, limit=self.samples)
        if not any(True for _ in activations(entry)):
            return
        if not samples:
            raise PassError(
                f"{self.name} needs sample inputs to calibrate with: give a file, as in "
                f"'{self.name}{{data=\"samples.npz\"}}'"
            )
        normalize(op, samples, percentile=float(self.percentile), function=self.function)


def normalize(
    module: ModuleOp,
    samples: Iterable[Sequence[Array]],
    *,
    percentile: float = 99.9,
    function: str = "forward",
) -> list[float]:
    """Normalise a program in place; the λ of each activation, in program order.

    Args:
        module: the float program, with weights.
        samples: batches, each with one array an argument of the function.
        percentile: of the positive activations, up to 100.
        function: the function's name.

    Raises:
        PassError: there are no samples, or an activation is not finite on them.
    """
    calibrator = ThresholdCalibrator("percentile", percentile=percentile)
    scales = [float(value) for value in calibrator.calibrate(module, samples, function=function)]
    entry = entry_function(module, function)
    _Scaling(module, entry.body.block, dict(zip(activations(entry), scales, strict=True))).run()
    return scales


class _Scaling:
    """One run: `scales` holds by how much each value is now smaller than it was."""

    def __init__(self, module: ModuleOp, block: Block, lambdas: dict[Operation, float]) -> None:
        self.module = module
        self.block = block
        self.ops = list(block.ops)
        self.lambdas = lambdas
        self.known = compile_time_values(self.ops)
        self.scales: dict[SSAValue, float] = {}
        self.added: list[Operation] = []
        self.targets = self._targets()

    def run(self) -> None:
        unused = unused_ops(self.block)
        for op in self.ops:
            if is_literal(op) or all(value in self.known for value in op.operands):
                continue
            if is_layer(op) and not is_ternary(op) and weight_of(op) in self.known:
                self._layer(op)
            elif op in self.lambdas and not is_ternary(op):
                self._activation(op)
            elif has(op, Homogeneous):
                self._homogeneous(op)
            else:
                self._scaled_back(op)
        added = set(self.added)
        fold([op for op in self.block.ops if op in added or is_literal(op)])
        erase_unused_except(self.block, unused)

    def _targets(self) -> dict[SSAValue, float]:
        """The scale that each value should have: that of the activation that it ends in."""
        wanted: dict[SSAValue, float] = {}
        for op in reversed(self.ops):
            if op in self.lambdas and not is_ternary(op):
                wanted.setdefault(drive_of(op), self.lambdas[op])
            elif has(op, Homogeneous):
                scales = {wanted[result] for result in op.results if result in wanted}
                if len(scales) == 1:
                    for value in op.operands:
                        wanted.setdefault(value, next(iter(scales)))
        return wanted

    def _scale(self, value: SSAValue) -> float:
        return self.scales.get(value, 1.0)

    def _layer(self, op: Layer) -> None:
        target = self.targets.get(op.result, 1.0)
        before = self._scale(input_of(op))
        changes: dict[str, SSAValue] = {"weight": self._times(op, weight_of(op), before / target)}
        bias = options_of(op).get("bias")
        if bias is not None:
            changes["bias"] = self._times(op, bias, 1 / target)
        new_layer = rebuilt(op, **changes)
        insert_before(op, new_layer)
        for name, value in op.attributes.items():
            new_layer.attributes[name] = value
        new_layer.results[0].name_hint = op.result.name_hint
        op.result.replace_all_uses_with(new_layer.results[0])
        self.targets[new_layer.results[0]] = target
        self.scales[new_layer.results[0]] = target
        self.block.erase_op(op)

    def _activation(self, op: Operation) -> None:
        """min(max(x, 0), bound)/λ = min(max(x/λ, 0), bound/λ), whose threshold is 1."""
        drive, scale = drive_of(op), self.lambdas[op]
        index = list(op.operands).index(drive)
        op.operands[index] = self._rescaled(op, drive, scale)
        bound = bound_of(op)
        result = op.results[0]
        if bound is not None:
            clamp = tensor.ClampOp(op.operands[index], min=0.0, max=bound / scale)
            insert_before(op, clamp)
            clamp.result.name_hint = result.name_hint
            result.replace_all_uses_with(clamp.result)
            self.block.erase_op(op)
            op, result = clamp, clamp.result
        annotate(op, np.array(1.0), 0.5)
        self.scales[result] = scale

    def _homogeneous(self, op: Operation) -> None:
        changing = [value for value in op.operands if value not in self.known]
        scale = self.targets.get(op.results[0], self._scale(changing[0]))
        for index, value in enumerate(list(op.operands)):
            if value in self.known:
                op.operands[index] = self._times(op, value, 1 / scale)
            else:
                op.operands[index] = self._rescaled(op, value, scale)
        self.scales.update(dict.fromkeys(op.results, scale))

    def _scaled_back(self, op: Operation) -> None:
        for index, value in enumerate(list(op.operands)):
            op.operands[index] = self._rescaled(op, value, 1.0)

    def _rescaled(self, op: Operation, value: SSAValue, scale: float) -> SSAValue:
        """`value` on the scale `scale`, multiplied before `op` if it is on another."""
        return self._times(op, value, self._scale(value) / scale)

    def _times(self, op: Operation, value: SSAValue, factor: float) -> SSAValue:
        if factor == 1.0:
            return value
        number = dense_constant(np.array(factor), tensor_type(value).element_type)
        product = tensor.MulOp(value, number)
        for new in (number, product):
            insert_before(op, new)
            self.added.append(new)
        return product.result
