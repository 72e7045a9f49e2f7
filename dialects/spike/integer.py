"""`spike.integer_lif`: the leaky neuron whose decay is a fixed-point product, all in integers.

Floats leak in `neurons`; `spike.integrate_fire` there is defined on integers as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    i8,
    i16,
    i32,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    prop_def,
)

from ...ir.neurons.fixed_threshold import INTEGER_LIF
from ..inference import Value, fail, tensor_type
from .neuron import FiringOp, Parameter, neuron_definition

MOST_SHIFT = {i8: 6, i16: 14, i32: 15}
"""The most places that a decay is shifted by: the decay fits the type, its products an i64."""


@neuron_definition(INTEGER_LIF)
class IntegerLifOp(FiringOp):
    """Leaky integrate-and-fire on integers: v ← ⌊d·v / 2^shift⌋ + g·i; s = [v ≥ θ]; then reset.

    d is `decay`, from 0 to 2^`shift`, so that d / 2^shift is β of `spike.lif`; `shift` is at most
    15 (14 for i16, 6 for i8). g is `gain`, θ `threshold`; `compare` and `reset` as for `spike.lif`.
    Currents and states are i8, i16 or i32, parameters whole numbers. d·v is exact, and rounded
    down; the sum and the difference at the reset wrap around. With d = 2^shift it is
    `spike.integrate_fire`.

        %s = spike.integer_lif %i {decay = 7.0 : f64, shift = 3 : i64, threshold = 90.0 : f64}
             : (tensor<32x?x256xi32>) -> !spike.train<32x?x256>
    """

    shift = prop_def(IntegerAttr[IntegerType])

    def __init__(self, input: Value, decay: Parameter, shift: int, **others: Any) -> None:
        super().__init__(input, decay, shift=shift, **others)

    def infer(self) -> Sequence[Attribute]:
        type, shift = tensor_type(self.input), self.shift.value.data
        most = next((n for element, n in MOST_SHIFT.items() if element == type.element_type), None)
        if most is None:
            fail(f"expects a current of i8, i16 or i32, got {type}")
        if not 0 <= shift <= most:
            fail(f"expects a shift from 0 to {most} for {type}, got {shift}")
        decay = self.parameter("decay")
        if isinstance(decay, float) and decay > 2**shift:
            fail(f"expects a decay of at most 2^{shift}, got {decay:g}")
        return super().infer()
