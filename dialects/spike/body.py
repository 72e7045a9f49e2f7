"""Ops with a body of spikes, and the op that ends it: for `recurrent`, `scan` and `layer`."""

from __future__ import annotations

from abc import ABC

from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, OpTrait
from xdsl.utils.exceptions import VerifyException

from ...ir.definition import irdl_op_definition
from ..inference import Value
from .synapses import SIGNAL
from .types import SpikeOp


class BodyOp(SpikeOp, ABC):
    """An op whose meaning is that of its body, which ends in `spike.yield`."""

    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove())


class _EndsBody(OpTrait):
    """The parent is a `BodyOp`: `HasParent` for a class that is no op of its own."""

    def verify(self, op: Operation) -> None:
        parent = op.parent_op()
        if parent is not None and not isinstance(parent, BodyOp):
            raise VerifyException(
                f"'{op.name}' ends the body of an op such as 'spike.recurrent', "
                f"not that of '{parent.name}'"
            )


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends the body of `spike.recurrent`, `spike.scan` or `spike.layer` with its results.

    spike.yield %s : !spike.train<32x?x4>
    """

    name = "spike.yield"

    values = var_operand_def(SIGNAL)

    traits = traits_def(IsTerminator(), _EndsBody())
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, *values: Value) -> None:
        super().__init__(operands=[values])
