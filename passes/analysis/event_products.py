"""Which synapses native event-driven kernels take.

`convert-spike-to-tensor{products=event}` leaves those as they are, and `convert-ternary-to-llvm`
calls a kernel for them. Not here: the kernels (`to_native.kernels.events`), their calls
(`to_native.program.spiking`).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from xdsl.dialects.builtin import IntegerType, f32, f64, i8
from xdsl.ir import Attribute

from ...dialects import spike, tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import constant_value, sparse_value
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type, is_train
from ...dialects.ternary.types import is_trit
from .compile_time import defining_literal

RowKind = Literal["trit", "i8", "f32", "f64"]
"""How the weights of an event-driven product are held."""


def event_kind(op: spike.LinearOp) -> RowKind | None:
    """How event-driven kernels hold the weights of a synapse, if they take it."""
    weight, type = defining_literal(op.weight), tensor_type(op.weight)
    if not is_train(op.input) or weight is None or 0 in type.get_shape():
        return None
    if dense_type(op.input).get_shape()[-1] not in (type.get_shape()[0], DYNAMIC):
        return None
    tables = [value for value in (op.scale, op.bias) if value is not None]
    if any(defining_literal(value) is None for value in tables):
        return None
    if not is_native_number(tensor_type(op.result).element_type):
        return None
    if is_trit(type):
        return "trit"
    if type.element_type == i8:
        return "i8"
    kinds: dict[Attribute, RowKind] = {f32: "f32", f64: "f64"}
    kind = kinds.get(type.element_type)
    if kind is None or sparse_key(op) is not None:
        return kind
    values = constant_value(weight)
    # A weight that is not finite reaches the sums without a spike too, as 0·∞.
    return kind if values is not None and bool(np.isfinite(values).all()) else None


def sparse_key(op: spike.LinearOp) -> str | None:
    """The name of the weights of a synapse where these stand without their zeros."""
    weight = defining_literal(op.weight)
    if not isinstance(weight, tensor.ParameterOp | ternary.ParameterOp):
        return None
    return None if sparse_value(weight) is None else weight.key.data


def is_native_number(element: Attribute) -> bool:
    """Whether spiking kernels compute with such elements."""
    return element in (f32, f64) or isinstance(element, IntegerType)
