"""Seeded random values: inputs of a function, and parameters that a module has no values for."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, i1
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from ..ir.errors import TritonError
from ..ir.store import ParameterStore
from ..ir.trits import pack_trits
from .elements import numpy_dtype
from .inference import tensor_type
from .parameters import attach_store, parameters
from .spike.types import TrainType
from .tensor.storage import STORE_ATTRIBUTE, StoreAttr
from .ternary.types import TritType

Array = NDArray[Any]


def random_inputs(
    type: FunctionType, rng: np.random.Generator, sizes: Sequence[int], bound: int
) -> list[Array]:
    """One random array an argument; a dynamic dimension at position i has size `sizes[i]`.

    Raises:
        TritonError: an argument that is neither a tensor nor a spike train.
    """
    inputs: list[Array] = []
    for argument in type.inputs:
        if isinstance(argument, TrainType):
            argument = TensorType(i1, argument.get_shape())
        if not isa(argument, TensorType):
            raise TritonError(f"no random values of type {argument}")
        shape = tuple(
            sizes[min(axis, len(sizes) - 1)] if dim < 0 else dim
            for axis, dim in enumerate(argument.get_shape())
        )
        inputs.append(random_array(argument.element_type, shape, rng, bound))
    return inputs


def random_array(
    element: Attribute, shape: Sequence[int], rng: np.random.Generator, bound: int = 16
) -> Array:
    """Random values: normal floats, any bytes, wider integers below `bound`, trits, booleans."""
    if isinstance(element, TritType):
        return rng.integers(-1, 2, shape).astype(np.int8)
    dtype = numpy_dtype(element)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu":
        if dtype.itemsize == 1:
            info = np.iinfo(dtype)
            return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)
        return rng.integers(0, bound, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def random_parameter(key: str, type: TensorType[Attribute], seed: int) -> Array:
    """The random value of a parameter, as its store holds it; the same for the same key and seed.

    Floats are normal with variance 1 / fan-in, so that deep networks keep their scale; entries that
    are variances by their name are positive.
    """
    rng = np.random.default_rng([seed, zlib.crc32(key.encode())])
    shape = type.get_shape()
    if isinstance(type.element_type, TritType):
        return pack_trits(rng.integers(-1, 2, shape).astype(np.int8))
    dtype = numpy_dtype(type.element_type)
    if dtype.kind in "iub":
        return random_array(type.element_type, shape, rng)
    if "var" in key.rsplit(".", 1)[-1]:
        return rng.uniform(0.5, 1.5, shape).astype(dtype)
    fan_in = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
    return (rng.standard_normal(shape) / np.sqrt(max(fan_in, 1))).astype(dtype)


def fill_parameters(module: ModuleOp, seed: int) -> ModuleOp:
    """A copy of the module whose every parameter has a value: its own, or a random one."""
    copy = module.clone()
    attribute = module.attributes.get(STORE_ATTRIBUTE)
    store = attribute.data if isinstance(attribute, StoreAttr) else ParameterStore.unsaved()
    known = set(store.names())
    arrays: dict[str, Array] = {}
    for op in parameters(copy):
        key = op.key.data
        if key in known:
            arrays[key] = store.read(key)
        else:
            arrays[key] = random_parameter(key, tensor_type(op.result), seed)
    attach_store(copy, ParameterStore.of(arrays))
    return copy
