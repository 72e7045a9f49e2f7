"""Seeded random values: inputs of a function, and parameters that a module has no values for.

Ordinary values are what a network meets. Edge values are what it seldom meets: the ends of integer
types, zeros of both signs and large floats; special values are NaN, infinities and the ends of
floats. Not here: which of them a program can take (`tools.draws`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, i1
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from ..dialects.elements import numpy_dtype
from ..dialects.inference import tensor_type
from ..dialects.parameters import attach_store, parameters
from ..dialects.spike.types import TrainType
from ..dialects.tensor.storage import STORE_ATTRIBUTE, StoreAttr
from ..dialects.ternary.types import TritType
from ..ir.arrays import Array
from ..ir.errors import TritonError
from ..ir.store import ParameterStore
from ..ir.trits import pack_trits

Make = Callable[[Attribute, Sequence[int], np.random.Generator], Array]
"""Values of an element type and a shape."""

EDGE_SHARE = 8
"""One float in so many is 0, one is -0 and one is large; with special values one is one of them."""

LARGEST_FACTOR = 1 << 10
"""Large floats are normal ones times 1 to this."""


def random_inputs(
    type: FunctionType, rng: np.random.Generator, sizes: Sequence[int], make: int | Make
) -> list[Array]:
    """One random array an argument; a dynamic dimension at position i has size `sizes[i]`.

    Args:
        type: of the function.
        rng: what draws.
        sizes: of dynamic dimensions; the last one stands for those behind it.
        make: gives values of an element type and a shape; a number stands for `random_array` with
            that bound.

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
        if isinstance(make, int):
            inputs.append(random_array(argument.element_type, shape, rng, make))
        else:
            inputs.append(make(argument.element_type, shape, rng))
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


def edge_array(
    element: Attribute, shape: Sequence[int], rng: np.random.Generator, *, divisor: bool = False
) -> Array:
    """Values at the ends of a type.

    Of integers, trits and booleans the first samples along axis 0 are all the least value, all the
    largest, all 0, all -1 and all 1; half of the other elements are one of these, the rest any
    value of the type. With fewer than eight samples the same holds for the first elements. Of
    floats see `EDGE_SHARE`; the others are normal.

    Args:
        element: the type.
        shape: of the array.
        rng: what draws.
        divisor: whether 0 and -1 are left out: integers are not divided by 0, nor the least by -1.
    """
    trits = isinstance(element, TritType)
    dtype = np.dtype(np.int8) if trits else numpy_dtype(element)
    if dtype.kind not in "iub":
        return _edge_floats(dtype, shape, rng)
    low, high = (-1, 1) if trits else (0, 1) if dtype.kind == "b" else _ends(dtype)
    ends = dict.fromkeys(v for v in (low, high, 0, -1, 1) if low <= v <= high)
    picked = np.array([v for v in ends if not (divisor and v in (0, -1))], dtype)
    wide = np.int64 if low < 0 else np.uint64
    values = rng.integers(low, high, shape, dtype=wide, endpoint=True).astype(dtype)
    if divisor:
        values[np.isin(values, np.array([v for v in (0, -1) if v >= low], dtype))] = 1
    chosen = picked[rng.integers(0, len(picked), shape)]
    values = np.asarray(np.where(rng.random(shape) < 0.5, chosen, values))
    rows = values if values.ndim and len(values) >= 8 else values.reshape(-1)
    for index, end in enumerate(picked[: len(rows)]):
        rows[index] = end
    return values


def special_array(element: Attribute, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """`edge_array`, and one float in `EDGE_SHARE` is NaN, infinite, the largest or the least."""
    values = edge_array(element, shape, rng)
    if values.dtype.kind in "iub":
        return values
    from ml_dtypes import finfo

    info = cast(Any, finfo)(values.dtype)
    ends = np.array([np.nan, np.inf, info.max, info.smallest_subnormal], values.dtype)
    ends = np.concatenate([ends, -ends])
    chosen = ends[rng.integers(0, len(ends), shape)]
    return np.where(rng.integers(0, EDGE_SHARE, shape) == 0, chosen, values)


def _ends(dtype: np.dtype[Any]) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _edge_floats(dtype: np.dtype[Any], shape: Sequence[int], rng: np.random.Generator) -> Array:
    values = rng.standard_normal(shape)
    kind = rng.integers(0, EDGE_SHARE, shape)
    # Half precision ends at 65,504: products of larger values say nothing.
    largest = 16 if dtype == np.float16 else LARGEST_FACTOR
    large = values * largest ** rng.random(shape)
    values = np.where(kind == 0, large, values)
    return np.where(kind == 1, 0.0, np.where(kind == 2, -0.0, values)).astype(dtype)


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
