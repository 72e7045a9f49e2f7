"""Exact products of trits by trits and of bits by trits, for this processor.

`native_matmul(a, b)` multiplies NumPy arrays; `pack_columns(b)` brings a matrix that is used again
into the layout of the kernels once. Not here: float or int8 operands (`to_native.callables`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...ir.arrays import Array
from ...ir.errors import OptionError
from ...runtime.native.abi.bitplanes import Operand, Values
from ...runtime.native.bitplanes import BitplaneKernels, PackedColumns, bitplane_matmul
from ...runtime.native.jit import Library
from ...runtime.native.processor import host_features
from .kernels.bitplanes import bitplane_fingerprint, bitplane_module
from .kernels.bitplanes_schemes import Scheme, best_scheme, scheme_named
from .object_code import compiled_library


def bitplane_kernels(
    scheme: str | None = None, *, cache_folder: Path | None = None
) -> BitplaneKernels:
    """Kernels on bit planes; each is compiled, or loaded from disk, when it is first called.

    Args:
        scheme: name of a line of `bitplanes_schemes.SCHEMES`; the best one when not given.
        cache_folder: where compiled kernels are kept; the user's cache folder when not given.

    Raises:
        OptionError: an unknown scheme, or one that this processor cannot run.
        BackendError: llvmlite is missing.
    """
    features = host_features()
    chosen = best_scheme(features) if scheme is None else scheme_named(scheme, features)
    return _kernels(chosen, cache_folder)


@cache
def _kernels(scheme: Scheme, cache_folder: Path | None) -> BitplaneKernels:
    @cache
    def provide(operand: Operand) -> Library:
        key = bitplane_fingerprint(scheme, operand)
        return compiled_library(
            key, lambda: bitplane_module(scheme, operand), cache_folder=cache_folder
        )

    return BitplaneKernels(scheme.group, provide)


def pack_columns(
    b: Array, shape: tuple[int, int] | None = None, *, scheme: str | None = None
) -> PackedColumns:
    """The right-hand matrix of a product, in the layout of the kernels.

    Args:
        b: trits [ins, outs], or packed trits (`ir.trits`) of `shape`.
        shape: ins and outs of packed trits.
        scheme: see `bitplane_kernels`.

    Raises:
        ParameterError: no matrix of trits.
        OptionError, BackendError: see `bitplane_kernels`.
    """
    kernels = bitplane_kernels(scheme)
    if shape is None:
        return PackedColumns(b, kernels)
    return PackedColumns.of_packed(b, *shape, kernels)


def native_matmul(
    a: ArrayLike,
    b: ArrayLike | PackedColumns,
    *,
    values: Values | None = None,
    threads: int = 1,
    scheme: str | None = None,
) -> NDArray[np.int32]:
    """The exact product a · b of trits, bits or signs with trits, as int32.

    Args:
        a: [..., ins], integers or bools; an array, or lists of numbers.
        b: trits [ins, outs], or what `pack_columns` gave.
        values: what `a` holds: `trits` {-1, 0, 1}, `bits` {0, 1}, `signs` {-1, 1}; by default bits
            for bools, else trits. Bits and signs take two thirds of the work.
        threads: most threads that the call uses.
        scheme: see `bitplane_kernels`; of packed columns, their own.

    Raises:
        ParameterError: other values, or operands that are no arrays of integers.
        OptionError: packed columns and a scheme; or see `bitplane_kernels`.
        BackendError: see `bitplane_kernels` and `bitplane_matmul`.
    """
    left = np.asarray(a)
    if isinstance(b, PackedColumns):
        if scheme is not None:
            raise OptionError("packed columns have a scheme already: leave `scheme` away")
        packed = b
    else:
        packed = pack_columns(np.asarray(b), scheme=scheme)
    if values is None:
        values = "bits" if left.dtype == np.bool_ else "trits"
    return bitplane_matmul(left, packed, values=values, threads=threads)
