"""The table of rules: which function writes the nodes of which op."""

from __future__ import annotations

from xdsl.ir import Operation

from ...dialects import spike
from . import (
    activation,
    elementwise,
    linear,
    normalization,
    quantization,
    reduction,
    shape,
    spiking_attention,
    spiking_coding,
    spiking_feedback,
    spiking_neurons,
    spiking_synapses,
    ternary,
)
from .emitter import Emitter, Inexpressible, Rule

RULES: dict[type[Operation], Rule] = {
    **elementwise.RULES,
    **activation.RULES,
    **linear.RULES,
    **shape.RULES,
    **reduction.RULES,
    **normalization.RULES,
    **quantization.RULES,
    **ternary.RULES,
    **spiking_neurons.RULES,
    **spiking_synapses.RULES,
    **spiking_coding.RULES,
    **spiking_attention.RULES,
}


def write(emitter: Emitter, op: Operation) -> None:
    """Write the nodes of one op.

    Raises:
        Inexpressible: there are none for it, or not for its element types.
    """
    emitter.start(op)
    if isinstance(op, spike.RecurrentOp):
        spiking_feedback.recurrent(emitter, op, write)
        return
    rule = RULES.get(type(op))
    if rule is None:
        raise Inexpressible("the op has no form in ONNX")
    rule(emitter, op)
