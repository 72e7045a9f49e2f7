"""Spiking self-attention: products of spikes and a neuron in the place of the softmax."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f32,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
)

from ...ir.definition import irdl_op_definition
from ..inference import fail
from ..shapes import DYNAMIC, Shape, compatible, integer, merge_dim
from .neuron import check_choice
from .types import SpikeOp, TrainType, time_first

KINDS = ("ssa", "sdsa")


@irdl_op_definition
class AttentionOp(SpikeOp):
    """Attention on trains Q [T, N, L, D], K and V [T, N, S, D] without softmax; a train like Q.

    `ssa` (Zhou et al. 2023, Spikformer): for each of `heads` slices of D, x = scale·(Q Kᵀ V) is the
    current of a neuron at each place. `sdsa` (Yao et al. 2023, spike-driven transformer):
    x = scale·Σ_L K⊗V, one current a channel, whose spikes mask Q. The neuron: v ← v + (x - v)/τ,
    computed as β·v + x/τ with β = 1 - 1/τ; s = [v ≥ θ]; then `reset` (`to_value` is to 0). Sums are
    exact integers, the rest is f32. `scale` is by default 0.125 for `ssa` and 1 for `sdsa`, τ 2,
    θ 0.5, as in the authors' code. The state v is [N, L, D] for `ssa`, [N, 1, D] for `sdsa`.

        %o = spike.attention %q, %k, %v {kind = "ssa", heads = 8 : i64}
             : (!spike.train<4x?x64x256>, !spike.train<4x?x64x256>, !spike.train<4x?x64x256>)
             -> !spike.train<4x?x64x256>
    """

    name = "spike.attention"

    query = operand_def(TrainType)
    key = operand_def(TrainType)
    value = operand_def(TrainType)
    initial = opt_operand_def(TensorType)
    kind = prop_def(StringAttr, default_value=StringAttr("ssa"))
    heads = prop_def(IntegerAttr[IntegerType], default_value=integer(1))
    scale = opt_prop_def(FloatAttr[Float64Type])
    tau = opt_prop_def(FloatAttr[Float64Type])
    threshold = opt_prop_def(FloatAttr[Float64Type])
    compare = prop_def(StringAttr, default_value=StringAttr("ge"))
    reset = prop_def(StringAttr, default_value=StringAttr("to_value"))
    output = result_def(TrainType)
    final = opt_result_def(TensorType)

    def infer(self) -> Sequence[Attribute]:
        kind, heads = self.kind.data, self.heads.value.data
        if kind not in KINDS:
            fail(f"expects kind one of {', '.join(KINDS)}, got '{kind}'")
        check_choice("compare", self.compare.data)
        check_choice("reset", self.reset.data)
        if not self.numbers()[1] >= 1:
            fail(f"expects tau of at least 1 step, got {self.numbers()[1]}")
        q, k, v = (time_first(o).get_shape() for o in (self.query, self.key, self.value))
        if not len(q) == len(k) == len(v) == 4:
            fail("expects trains of rank 4, [T, N, tokens, channels]")
        steps = merge_dim(merge_dim(q[0], k[0], "steps"), v[0], "steps")
        batch = merge_dim(merge_dim(q[1], k[1], "batches"), v[1], "batches")
        merge_dim(k[2], v[2], "tokens of key and value")
        channels = merge_dim(merge_dim(q[3], k[3], "channels"), v[3], "channels")
        if kind == "sdsa":
            merge_dim(q[2], k[2], "tokens")
        if heads < 1 or (channels != DYNAMIC and channels % heads):
            fail(f"expects heads that divide {channels} channels, got {heads}")
        shape = (steps, batch, q[2], channels)
        state = TensorType(f32, self.state_shape(shape))
        if self.initial is not None and not compatible(self.initial.type, state):
            fail(f"expects the initial state as {state}, got {self.initial.type}")
        return [TrainType(shape), *([state] if self.final is not None else [])]

    def state_shape(self, query: Shape) -> Shape:
        """The shape of the neurons' potentials."""
        return (query[1], 1 if self.kind.data == "sdsa" else query[2], query[3])

    def numbers(self) -> tuple[float, float, float]:
        """scale, τ and θ, given or by default."""
        default = 0.125 if self.kind.data == "ssa" else 1.0
        pairs = ((self.scale, default), (self.tau, 2.0), (self.threshold, 0.5))
        scale, tau, threshold = (d if a is None else a.value.data for a, d in pairs)
        return scale, tau, threshold
