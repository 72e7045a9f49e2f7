"""The table of rules: which function writes the operators of which op."""

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
    spiking,
    spiking_coding,
    spiking_feedback,
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
    **spiking.RULES,
    **spiking_coding.RULES,
}


def write(emitter: Emitter, op: Operation) -> None:
    """Write the operators of one op.

    Raises:
        Inexpressible: there are none for it, or not for its element types.
    """
    emitter.start(op)
    if isinstance(op, spike.ScanOp):
        spiking_feedback.scan(emitter, op, write)
        return
    rule = RULES.get(type(op))
    if rule is None:
        raise Inexpressible("the op has no form in TFLite")
    rule(emitter, op)
