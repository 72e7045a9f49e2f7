"""The table of rules: which function writes the operators of which op."""

from __future__ import annotations

from xdsl.dialects.builtin import f64
from xdsl.ir import Attribute, Operation

from ...dialects import spike
from ...dialects.spike.types import dense_type
from ...dialects.traits import Elementwise
from ...ir.errors import LoweringError
from ..emission import no_form
from ..operator_names import TFLITE
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
from .graph import element_type
from .kernels import compute_type
from .tflite_writer import Inexpressible, Rule, Writer

_FILES = (
    elementwise, activation, linear, shape, reduction, normalization, quantization, ternary,
    spiking,
)  # fmt: skip

RULES: dict[type[Operation], Rule] = {
    kind: rule for file in _FILES for kind, rule in file.RULES.items()
}


def takes(kind: type[Operation], element: Attribute) -> bool:
    """Whether an op has a form for elements of a type: a rule, and a kernel of one operator.

    No arithmetic is done in float64: there the op itself is to be refused, not its parts.
    """
    if element == f64 and kind.get_trait(Elementwise) is not None:
        return True
    if kind not in RULES:
        return False
    operator = {**TFLITE, **elementwise.BINARY}.get(kind)
    try:
        return operator is None or compute_type(operator, element_type(element)) is not None
    except LoweringError:  # LiteRT has no tensors of such elements
        return False


def write(writer: Writer, op: Operation) -> None:
    """Write the operators of one op.

    Raises:
        Inexpressible: there are none for it, or not for its element types.
    """
    writer.start(op)
    if isinstance(op, spike.ScanOp):
        spiking.scan(writer, op, write)
        return
    rule = RULES.get(type(op))
    if rule is None:
        if any(dense_type(value).element_type == f64 for value in op.operands):
            raise Inexpressible("LiteRT has no arithmetic on FLOAT64; convert to float32")
        raise Inexpressible(no_form(op, "TFLite"))
    rule(writer, op)
