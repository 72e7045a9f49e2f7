"""The table of rules: which function writes the nodes of which op."""

from __future__ import annotations

from xdsl.ir import Attribute, Operation

from ...dialects import spike, tensor
from ...dialects.traits import SelectsElements
from ..emission import no_form
from . import (
    activation,
    elementwise,
    linear,
    normalization,
    quantization,
    reduction,
    shape,
    spiking,
    ternary,
)
from .byte_levels import JOINED, on_bytes, on_levels
from .graph import Element, element_type
from .kernels import compute_type
from .onnx_writer import Inexpressible, Rule, Writer

_FILES = (
    elementwise, activation, linear, shape, reduction, normalization, quantization, ternary,
    spiking,
)  # fmt: skip

RULES: dict[type[Operation], Rule] = {
    kind: rule for file in _FILES for kind, rule in file.RULES.items()
}


_SINCE = {
    "Gelu": 20,
    "HardSwish": 14,
    "Mish": 18,
    **dict.fromkeys(elementwise.OF_BITS.values(), 18),
}
"""The first opset with an operator, where that is after the least one."""


def takes(kind: type[Operation], element: Attribute, opset: int) -> bool:
    """Whether an op has a form for elements of a type: a rule, and a kernel of one operator."""
    if kind not in RULES:
        return False
    type = element_type(element)
    if kind in (tensor.BatchNormOp, tensor.LayerNormOp) and type is Element.DOUBLE:
        return False  # the operator's ε is float32
    if kind is tensor.LayerNormOp:
        return opset >= 17
    if kind is tensor.ScatterElementsOp:  # since when it adds
        return opset >= 16 and compute_type("ScatterElements", type) is not None
    if kind not in elementwise.UNARY and kind not in elementwise.BINARY:
        return True
    operator = elementwise.operator_of(kind, type)
    return compute_type(operator, type) is not None and opset >= _SINCE.get(operator, 0)


def write(writer: Writer, op: Operation) -> None:
    """Write the nodes of one op.

    Raises:
        Inexpressible: there are none for it, or not for its element types.
    """
    writer.start(op)
    if isinstance(op, spike.ScanOp):
        spiking.scan(writer, op, write)
        return
    rule = RULES.get(type(op))
    if rule is None:
        raise Inexpressible(no_form(op, "ONNX"))
    rule(writer, op)
    if op.has_trait(SelectsElements):
        on_levels(writer, op, rule)
    if isinstance(op, JOINED):
        on_bytes(writer, op, rule)
