"""The pass `ternarize`: float weights become trits and a scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, TypeGuard

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ...dialects import spike, tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array, dense_constant, parameters
from ...dialects.shapes import is_float
from ...dialects.spike.rebuild import rebuilt
from ...dialects.spike.types import is_train
from ...dialects.ternary.storage import RULES, SCALES
from ...dialects.traits import MovesElements, has
from ...ir.errors import OptionError, PassError, did_you_mean, expect_from, expect_one_of
from ...ir.interpreter import entry_function
from ..analysis.compile_time import is_literal
from ..analysis.layers import PlainLayer, Synapse, TernaryLayer, as_ternary, is_layer, options_of
from ..analysis.replacement import erase_unused, insert_before, replace
from ..calibration.observation import read_batches
from ..calibration.ranges import clear_ranges
from ..fold_constants import fold
from ..quantize_activations.calibrate import no_samples
from .compensated_layers import Plan, RoundedWeights, compensate
from .compensated_rounding import Compensation

FloatLayer: TypeAlias = PlainLayer | Synapse

METHODS = ("rule", "gptq")


@dataclass(frozen=True)
class TernarizePass(ModulePass):
    """Turn `tensor.linear`, `tensor.matmul` and `tensor.conv` with a float weight into ternary ops.

    `spike.linear` and `spike.conv` without a scale get trits and a scale too. A weight is a
    `tensor.parameter`, or a permuted, reshaped or sliced one. The result approximates the float
    program: retrain, or fine-tune, before or after. Recorded ranges of activations are dropped.

    With `method=gptq`, trits, scales and biases are chosen layer after layer so that the sums of
    the layer, on sample inputs and behind the layers that are ternary already, stay near the float
    ones (`compensated_rounding`). That takes no labels and no training.

        // ternarize{rule=twn scale=channel}
        %w = tensor.parameter "fc.weight" : tensor<784x10xf32>
        %y = tensor.linear %x, %w, %b
             : (tensor<?x784xf32>, tensor<784x10xf32>, tensor<10xf32>) -> tensor<?x10xf32>
        // becomes
        %w = ternary.parameter "fc.weight.trits" : tensor<784x10x!ternary.trit>
        %s = tensor.constant dense<…> : tensor<10xf32>
        %y = ternary.linear %x, %w scale(%s : tensor<10xf32>) bias(%b : tensor<10xf32>)
             : tensor<?x784xf32>, tensor<784x10x!ternary.trit> -> tensor<?x10xf32>

    Without weights the op `ternary.ternarize` stays between the float parameter and the product,
    and `fold-constants` evaluates it once they are there. The rules are those of that op.

    Raises:
        OptionError: an unknown rule or scale, a threshold that does not go with the rule, or a
            key to skip that no parameter has.
    """

    name = "ternarize"
    approximate: ClassVar[bool] = True
    """The result is another one; checks of passes report by how much, and go on from it."""

    threshold: float | int | None = None
    """Δ of the rule `fixed`: weights with |w| ≤ Δ become 0."""

    method: str = "rule"
    """`rule` rounds each weight by itself; `gptq` looks at the layer's inputs on `data`."""

    rule: str | None = None
    """`twn` (Δ = 0.7·mean|w|, the default), `absmean` (BitNet b1.58), `fixed` (by threshold)."""

    scale: str = "channel"
    """`none`, `tensor` (one factor) or `channel` (one an output channel; Δ too is taken there)."""

    keep_first: bool = False
    """Leave the first layer of each function in float."""

    keep_last: bool = False
    """Leave the last layer of each function in float."""

    skip: tuple[str, ...] = ()
    """Keys of parameters to leave in float; quote those with dots: skip="fc1.weight"."""

    data: str | None = None
    """For `method=gptq`: a `.npz`, `.safetensors` or `.npy` file of sample inputs: one array an
    argument of the function, under its name; the first axis counts the samples."""

    samples: int | None = None
    """For `method=gptq`: use the first so many samples; all by default."""

    batch: int = 64
    """For `method=gptq`: samples run at a time."""

    damping: int | float = 0.01
    """For `method=gptq`: what is added to the inputs' second moments, as a share of their mean."""

    sweeps: int = 20
    """For `method=gptq`: rounds of coordinate descent over all trits of a layer, at most."""

    correct_bias: bool = True
    """For `method=gptq`: keep the mean result of each channel, by a bias."""

    function: str = "forward"
    """For `method=gptq`: the function to run and to change."""

    def __post_init__(self) -> None:
        if self.rule is not None:
            expect_one_of("ternarize expects rule", self.rule, RULES)
        expect_one_of("ternarize expects scale", self.scale, SCALES)
        if self.rule == "fixed" and self.threshold is None:
            raise OptionError("ternarize expects a threshold with the rule 'fixed'")
        if self.rule not in (None, "fixed") and self.threshold is not None:
            raise OptionError(f"ternarize takes no threshold with the rule '{self.rule}'")
        expect_from("ternarize expects a threshold", self.threshold, 0)
        expect_one_of("ternarize expects method", self.method, METHODS)
        if self.method == "gptq":
            self._check_compensation()
        elif self.data is not None:
            raise OptionError("ternarize: the option 'data' belongs to method=gptq")

    def _check_compensation(self) -> None:
        if self.rule is not None or self.threshold is not None or self.scale != "channel":
            raise OptionError(
                "ternarize{method=gptq} finds trits and a scale a channel by itself: "
                "leave out 'rule', 'threshold' and 'scale'"
            )
        expect_from("ternarize expects samples", self.samples, 1)
        expect_from("ternarize expects batch", self.batch, 1)
        if not 0 < self.damping < np.inf:
            raise OptionError(f"ternarize expects a damping above 0, got {self.damping}")
        expect_from("ternarize expects sweeps", self.sweeps, 0)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.method == "rule":
            self.ternarize(self.chosen(op))
            clear_ranges(op)
            return
        chosen = self.chosen(op)
        if chosen and self.data is None:
            raise PassError(no_samples(self.name))
        if self.data is not None:
            function = entry_function(op, self.function)
            batches = read_batches(function, self.data, size=self.batch, limit=self.samples)
            self.compensate(op, batches)

    def compensate(
        self, module: ModuleOp, batches: Iterable[Sequence[Array]], *, progress: bool = True
    ) -> list[tuple[str, RoundedWeights]]:
        """Make the layers that the options choose ternary, by what their inputs are on samples.

        Returns:
            what each layer got, with the key of its weight, in order.

        Products that have no single matrix for a weight, and synapses of spike trains, are rounded
        by the rule `twn`.

        Args:
            module: the program, with weights.
            batches: samples, each with one array an argument of the function.
            progress: show a bar on stderr when it is a terminal.

        Raises:
            PassError: there are no samples, they lead to infinite values or NaN, or a layer stands
                in a region or another function.
        """
        function = entry_function(module, self.function)
        chosen = [layer for layer in self.chosen(module) if self._takes(layer)]
        layers = {op: _key(op) for op in chosen if _has_one_matrix(op)}
        sources = [op for layer in layers for op in (*_producers(_weight(layer)), *_bias(layer))]
        self.ternarize([layer for layer in chosen if layer not in layers])
        plan = Plan(layers, Compensation(self.damping, self.sweeps), self.correct_bias)
        rounded = compensate(module, function, plan, batches, progress=progress)
        erase_unused([*dict.fromkeys(sources)])
        clear_ranges(module)
        return rounded

    def chosen(self, op: ModuleOp) -> list[FloatLayer]:
        """The layers that the options ask for, in order."""
        self._check_skipped(op)
        chosen: list[FloatLayer] = []
        for layers in _layers_by_function(op):
            first, last = layers[0], layers[-1]
            for layer in layers:
                spared = (layer is first and self.keep_first) or (layer is last and self.keep_last)
                if isinstance(layer, FloatLayer) and not spared:
                    chosen.append(layer)
        return chosen

    def ternarize(self, layers: Sequence[FloatLayer]) -> None:
        """Make those of `layers` ternary that can be; layers that share a weight go on sharing."""
        ternarized: dict[tuple[SSAValue, int], ternary.TernarizeOp] = {}
        weights: list[Operation] = []
        for layer in layers:
            if self._takes(layer):
                weights += _producers(_weight(layer))
                self._ternarize(layer, ternarized)
        fold([*dict.fromkeys(weights), *ternarized.values()])
        erase_unused(weights)

    def _check_skipped(self, module: ModuleOp) -> None:
        keys = [op.key.data for op in parameters(module)] if self.skip else []
        for key in self.skip:
            if key not in keys:
                raise OptionError(
                    f"ternarize cannot skip '{key}': no parameter has that key"
                    f"{did_you_mean(key, keys)}"
                )

    def _takes(self, layer: FloatLayer) -> bool:
        weight = _weight(layer)
        parameter = _producers(weight)[:1]
        return (
            bool(parameter)
            and isinstance(parameter[0], tensor.ParameterOp)
            and parameter[0].key.data not in self.skip
            and is_float(tensor_type(weight))
            and not (isinstance(layer, Synapse) and layer.scale is not None)
            and not (isinstance(layer, tensor.MatmulOp) and tensor_type(weight).get_num_dims() < 2)
        )

    def _ternarize(
        self, layer: FloatLayer, ternarized: dict[tuple[SSAValue, int], ternary.TernarizeOp]
    ) -> None:
        weight = _weight(layer)
        axis = 0 if isinstance(layer, tensor.ConvOp | spike.ConvOp) else -1
        op = ternarized.get((weight, axis))
        if op is None:
            op = ternary.TernarizeOp(
                weight,
                rule=self.rule or ("twn" if self.threshold is None else "fixed"),
                threshold=None if self.threshold is None else float(self.threshold),
                scale=self.scale,
                axis=axis,
            )
            ternarized[weight, axis] = op
            op.trits.name_hint = weight.name_hint
            owner = weight.owner
            assert isinstance(owner, Operation) and owner.parent is not None
            owner.parent.insert_op_after(op, owner)
            op.location = owner.location
        if isinstance(layer, Synapse):
            replace(layer, _ternary_synapse(layer, op))
        else:
            bias = None if isinstance(layer, tensor.MatmulOp) else layer.bias
            replace(layer, as_ternary(layer, op.trits, op.scale, bias))


def _ternary_synapse(layer: Synapse, weight: ternary.TernarizeOp) -> Synapse:
    """A synapse with trits; without a scale of the rule it is 1, since currents stay floats."""
    scale = weight.scale
    if scale is None and is_train(layer.input):
        element = tensor_type(layer.result).element_type
        one = dense_constant(np.asarray(1.0), element)
        insert_before(layer, one)
        scale = one.result
    return rebuilt(layer, {"weight": [weight.trits], "scale": [] if scale is None else [scale]})


def _layers_by_function(module: ModuleOp) -> list[list[FloatLayer | TernaryLayer]]:
    """The products with weights of each region, in order; only regions that have some."""
    regions: dict[object, list[FloatLayer | TernaryLayer]] = {}
    for op in module.walk():
        if isinstance(op, FloatLayer | TernaryLayer) and (
            not isinstance(op, tensor.MatmulOp) or _producers(op.rhs)
        ):
            regions.setdefault(op.parent_region(), []).append(op)
    return list(regions.values())


def _weight(layer: FloatLayer) -> SSAValue:
    return layer.rhs if isinstance(layer, tensor.MatmulOp) else layer.weight


def _bias(layer: PlainLayer) -> list[Operation]:
    """The literal that a layer's bias is, if it is one."""
    bias = options_of(layer).get("bias")
    return [bias.owner] if bias is not None and is_literal(bias.owner) else []


def _has_one_matrix(layer: FloatLayer) -> TypeGuard[PlainLayer]:
    return isinstance(layer, PlainLayer) and is_layer(layer)


def _key(layer: FloatLayer) -> str:
    """The key of the parameter that a layer's weight comes from."""
    (parameter, *_) = _producers(_weight(layer))
    assert isinstance(parameter, tensor.ParameterOp)
    return parameter.key.data


def _producers(weight: SSAValue) -> list[Operation]:
    """The parameter that `weight` is and the shape changes after it; empty for anything else."""
    chain: list[Operation] = []
    owner = weight.owner
    while has(owner, MovesElements):
        if len(owner.operands) != 1:
            return []
        chain.append(owner)
        owner = owner.operands[0].owner
    if not isinstance(owner, tensor.ParameterOp):
        return []
    return [owner, *reversed(chain)]
