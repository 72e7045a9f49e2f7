"""From a parameter op to its values: the module's store, and typed reading and adding.

The one place that turns entries of a `ParameterStore` into arrays of the type the IR states, and
checks them: key, shape, element type, reserved trit codes, NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from ..ir.arrays import Array
from ..ir.errors import ParameterError
from ..ir.sparse_matrix import SparseMatrix, part_names
from ..ir.store import ParameterStore
from ..ir.trits import pack_trits, packed_size, unpack_trits
from . import tensor, ternary
from .elements import element_of, holds_nan, numpy_dtype
from .inference import tensor_type
from .shapes import AnyTensor
from .tensor.storage import STORE_ATTRIBUTE, StoreAttr

ParameterLike = tensor.ParameterOp | ternary.ParameterOp

ARGUMENT_ATTRIBUTE = "tensor.parameter"
"""The attribute of a function's argument that holds the key of the parameter it stands for."""


def module_of(op: Operation) -> ModuleOp:
    """The outermost module around `op`."""
    root = op
    while (parent := root.parent_op()) is not None:
        root = parent
    if not isinstance(root, ModuleOp):
        raise ParameterError(f"'{op.name}' stands in no module, so it has no parameter store")
    return root


def store_of(module: ModuleOp) -> ParameterStore:
    """The module's parameter store; an empty one is attached where there is none."""
    attribute = module.attributes.get(STORE_ATTRIBUTE)
    if attribute is None:
        attribute = module.attributes[STORE_ATTRIBUTE] = StoreAttr(ParameterStore.unsaved())
    if not isinstance(attribute, StoreAttr):
        raise ParameterError(f"'{STORE_ATTRIBUTE}' must be a #tensor.store, got {attribute}")
    return attribute.data


def attach_store(module: ModuleOp, store: ParameterStore) -> None:
    """Make `store` the module's parameter store."""
    module.attributes[STORE_ATTRIBUTE] = StoreAttr(store)


def parameters(module: ModuleOp) -> Iterator[ParameterLike]:
    """Every parameter op of the module, in order."""
    for op in module.walk():
        if isinstance(op, tensor.ParameterOp | ternary.ParameterOp):
            yield op


def parameter_keys(module: ModuleOp) -> set[str]:
    """The keys that the module names: by parameter ops, and by arguments that stand for one.

    A sparse matrix has a key for each of its parts.
    """
    keys = {op.key.data for op in parameters(module)}
    keys |= {part for key in keys for part in part_names(key)}
    for op in module.walk():
        attributes = op.properties.get("arg_attrs")
        if isinstance(attributes, ArrayAttr):
            for entry in cast("ArrayAttr[Attribute]", attributes):
                named = isinstance(entry, DictionaryAttr) and entry.data.get(ARGUMENT_ATTRIBUTE)
                if isinstance(named, StringAttr):
                    keys.add(named.data)
    return keys


def parameter_value(op: ParameterLike) -> Array:
    """The values of a parameter: of the IR's shape and dtype; trits as int8 in {-1, 0, 1}.

    Raises:
        ParameterError: the entry is missing, or its shape, dtype or values do not fit.
    """
    return read_parameter(store_of(module_of(op)), op.key.data, op.result.type)


def read_parameter(store: ParameterStore, key: str, type: Attribute) -> Array:
    """The entry `key` of `store` as `type` states it; see `parameter_value`."""
    assert isinstance(type, TensorType)
    type = cast(AnyTensor, type)
    shape = type.get_shape()
    sparse = SparseMatrix.read(store, key, shape)
    if sparse is not None:
        try:
            return sparse.dense()
        except ParameterError as error:
            raise ParameterError(f"parameter '{key}': {error}") from None
    array = store.read(key)
    if isinstance(type.element_type, ternary.TritType):
        if array.dtype != np.uint8 or array.shape != (packed_size(shape),):
            raise ParameterError(
                f"parameter '{key}': expected {packed_size(shape)} bytes of packed trits for "
                f"{type}, got {array.dtype}{list(array.shape)}"
            )
        try:
            return unpack_trits(array, shape)
        except ParameterError as error:
            raise ParameterError(f"parameter '{key}': {error}") from None
    dtype = numpy_dtype(type.element_type)
    if array.shape != shape or array.dtype != dtype:
        raise ParameterError(
            f"parameter '{key}': expected {dtype}{list(shape)}, got "
            f"{array.dtype}{list(array.shape)}"
        )
    if holds_nan(array):
        raise ParameterError(f"parameter '{key}' holds NaN")
    return array


def sparse_value(op: Operation) -> SparseMatrix | None:
    """The values of a parameter whose zeros are left out; `None` for any other op."""
    if not isinstance(op, tensor.ParameterOp | ternary.ParameterOp):
        return None
    module = module_of(op)
    if STORE_ATTRIBUTE not in module.attributes:
        return None
    return SparseMatrix.read(store_of(module), op.key.data, tensor_type(op.result).get_shape())


def add_parameter(module: ModuleOp, key: str, values: Array, *, buffer: bool = False) -> Operation:
    """Add float or integer `values` to the module's store; the op that names the new entry.

    The op is not inserted. A taken key gets a numbered suffix.
    """
    name = store_of(module).add(key, np.asarray(values, order="C"))
    return tensor.ParameterOp(
        name, TensorType(element_of(values.dtype), values.shape), buffer=buffer
    )


def add_trits(module: ModuleOp, key: str, trits: Array) -> ternary.ParameterOp:
    """Add values in {-1, 0, 1}, packed, to the module's store; the op that names the new entry."""
    name = store_of(module).add(key, pack_trits(trits))
    return ternary.ParameterOp(name, trits.shape)


def dense(values: Array, element: Attribute) -> DenseIntOrFPElementsAttr:
    """`values` as a dense attribute with elements of type `element`."""
    array = np.asarray(values, dtype=numpy_dtype(element), order="C")
    if array.dtype == np.bool_:
        array = array.astype(np.int8) * np.int8(-1)  # xDSL stores true as 0xFF
    type: Any = TensorType(element, array.shape)
    return DenseIntOrFPElementsAttr(type, BytesAttr(array.tobytes()))


def dense_constant(values: Array, element: Attribute) -> tensor.ConstantOp:
    """An inline constant; the caller sees to the size limit (`tensor.storage.INLINE_LIMIT`)."""
    return tensor.ConstantOp(dense(values, element))


def may_trap(divisor: SSAValue) -> bool:
    """Whether an integer divisor may be 0 or -1, by which processors cannot divide all integers."""
    owner = divisor.owner
    values = constant_value(owner) if isinstance(owner, Operation) else None
    return values is None or bool(np.isin(values, (0, -1)).any())


def constant_value(op: Operation) -> Array | None:
    """The values of a parameter or constant op; `None` for any other op."""
    if isinstance(op, tensor.ParameterOp | ternary.ParameterOp):
        return parameter_value(op)
    if isinstance(op, tensor.ConstantOp):
        type = tensor_type(op.result)
        dtype = numpy_dtype(type.element_type)
        if dtype == np.bool_:
            return np.array(op.value.get_values(), dtype=np.bool_).reshape(type.get_shape())
        return np.frombuffer(op.value.data.data, dtype=dtype).reshape(type.get_shape())
    if isinstance(op, ternary.ConstantOp):
        shape = tensor_type(op.result).get_shape()
        return np.array(op.value.get_values(), dtype=np.int8).reshape(shape)
    return None
