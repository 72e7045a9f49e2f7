"""`spike.integer_lif`: the leaky neuron whose decay is a fixed-point product, all in integers.

Floats leak in `neurons`; `spike.integrate_fire` there is defined on integers as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Attribute
from xdsl.irdl import (
    prop_def,
)

from ...ir.neurons.fixed_threshold import INTEGER_LIF
from ..inference import Value, fail, tensor_type
from .neuron import MOST_SHIFT, FiringOp, Parameter, neuron_definition


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
        type = tensor_type(self.input)
        if all(element != type.element_type for element in MOST_SHIFT):
            fail(f"expects a current of i8, i16 or i32, got {type}")
        return super().infer()
