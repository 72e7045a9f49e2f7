"""Values known before the program runs: which they are, what they are, and where new ones go.

A *literal* is a parameter or constant op. A *compile-time value* is a literal's result or what
pure ops make of compile-time values. Parameters without weights (a store that was never filled)
are compile-time values whose values are not known yet: passes treat them structurally and read
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, UnrealizedConversionCastOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from ...dialects import interpret, tensor, ternary
from ...dialects.inference import InferredOp, tensor_type
from ...dialects.parameters import (
    Array,
    add_parameter,
    add_trits,
    constant_value,
    dense_constant,
    module_of,
)
from ...dialects.shapes import DYNAMIC, AnyTensor
from ...dialects.tensor.storage import INLINE_LIMIT, STORE_ATTRIBUTE, StoreAttr
from ...ir.errors import ParameterError

ParameterOp = tensor.ParameterOp | ternary.ParameterOp
Literal = tensor.ParameterOp | ternary.ParameterOp | tensor.ConstantOp | ternary.ConstantOp


def is_literal(op: object) -> TypeGuard[Literal]:
    """Whether `op` is a parameter or a constant."""
    return isinstance(op, Literal)


def is_computation(op: Operation) -> TypeGuard[InferredOp]:
    """Whether `op` is pure, on static tensors, and the reference interpreter knows it."""
    return (
        isinstance(op, InferredOp)
        and type(op) in interpret.RULES
        and bool(op.operands)
        and op.has_trait(Pure)
        and all(_is_static(value) for value in (*op.operands, *op.results))
    )


def _is_static(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and DYNAMIC not in value.type.get_shape()


def has_value(op: Literal) -> bool:
    """Whether the values of `op` can be read: a parameter needs weights. Opens no file."""
    if not isinstance(op, tensor.ParameterOp | ternary.ParameterOp):
        return True
    attribute = module_of(op).attributes.get(STORE_ATTRIBUTE)
    if not isinstance(attribute, StoreAttr):
        return False
    return attribute.data.reference is not None or op.key.data in attribute.data


def literal_value(value: SSAValue) -> Array | None:
    """The values of a literal's result; `None` for any other value, or without weights."""
    owner = value.owner
    return constant_value(owner) if is_literal(owner) and has_value(owner) else None


def is_finite(value: SSAValue, *, inverse: bool = False) -> bool:
    """Whether a literal holds finite numbers, or reciprocals; `True` where none can be read.

    A factor that is not must stay behind a sum: within it, it would meet each 0 that is summed.
    """
    try:
        values = literal_value(value)
    except ParameterError:
        return True
    if values is None:
        return True
    with np.errstate(divide="ignore", over="ignore"):
        return bool(np.isfinite(1 / values if inverse else values).all())


def defining_literal(value: SSAValue) -> Literal | None:
    """The constant or parameter that gives a value, if one does, also through casts."""
    owner = value.owner
    while isinstance(owner, UnrealizedConversionCastOp):
        owner = owner.inputs[0].owner
    return owner if is_literal(owner) else None


def compile_time_values(ops: Iterable[Operation]) -> set[SSAValue]:
    """The results among those of `ops`, in program order, that are known before the program runs.

    Parameters count whether they have weights or not.
    """
    known: set[SSAValue] = set()
    for op in ops:
        if is_literal(op) or (is_computation(op) and all(v in known for v in op.operands)):
            known.update(op.results)
    return known


def evaluate(op: InferredOp, operands: Sequence[Array]) -> tuple[Array, ...]:
    """The results of `op` for other operand values, by the reference interpreter.

    The operands may have other shapes than the op's own; element types are those of the op.
    """
    if all(
        array.shape == tensor_type(value).get_shape()
        for value, array in zip(op.operands, operands, strict=True)
    ):
        return interpret.evaluate(op, operands)
    types = {
        value: TensorType(tensor_type(value).element_type, array.shape)
        for value, array in zip(op.operands, operands, strict=True)
    }
    block = Block(arg_types=types.values())
    return interpret.evaluate(op.on_operands(dict(zip(types, block.args, strict=True))), operands)


def derived_key(base: str, value: SSAValue) -> str:
    """A name for what `value` holds once it is stored: the key it comes from and what was done.

    `fc1.weight` ternarized becomes `fc1.weight.trits` and `fc1.weight.scale`; any other op adds its
    own name, as in `fc1.weight.permute`.
    """
    owner = value.owner
    if isinstance(owner, ternary.TernarizeOp):
        return f"{base}.{'trits' if value is owner.trits else 'scale'}"
    if isinstance(tensor_type(value).element_type, ternary.TritType):
        return f"{base}.trits"
    return f"{base}.{owner.name.rpartition('.')[2]}" if isinstance(owner, Operation) else base


def literal(
    module: ModuleOp,
    key: str,
    array: Array,
    type: AnyTensor,
    *,
    buffer: bool = False,
    keep_name: bool = False,
) -> Literal:
    """A literal op for `array`, not inserted: a constant if it is small or a splat, else a
    parameter under `key` (or `key.1`, … where that is taken by other values).

    Args:
        module: the module whose store takes the parameter.
        key: the name of the parameter.
        array: the values, of the dtype that `type` states.
        type: the type; its shape is that of `array`.
        buffer: whether a parameter is marked as not learned.
        keep_name: make it a parameter even if it is small.
    """
    if isinstance(type.element_type, ternary.TritType):
        if array.size > INLINE_LIMIT or keep_name:
            return add_trits(module, key, array)
        return ternary.ConstantOp(array.reshape(-1).tolist(), array.shape)
    if not keep_name and (array.size <= INLINE_LIMIT or _is_splat(array)):
        return dense_constant(array, type.element_type)
    op = add_parameter(module, key, array, buffer=buffer)
    assert isinstance(op, tensor.ParameterOp)
    return op


def _is_splat(array: Array) -> bool:
    data = np.ascontiguousarray(array).reshape(-1)
    if data.size < 2:
        return True
    bits = data.view(np.uint8).reshape(data.size, -1)
    return bool((bits == bits[0]).all())
