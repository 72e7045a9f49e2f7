"""Limits of this machine, measured with code of our own: reading memory, products of bytes."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int64, c_void_p
from functools import cache
from itertools import product
from time import perf_counter

import numpy as np
from xdsl.dialects.builtin import ModuleOp, i8, i16, i32, i64

from triton_dsl.lowering.to_native.kernels.code import POINTER, Code
from triton_dsl.lowering.to_native.kernels.recipes import best_recipe
from triton_dsl.lowering.to_native.llvm.types import vector
from triton_dsl.lowering.to_native.object_code import compile_object
from triton_dsl.runtime.native.columns import aligned
from triton_dsl.runtime.native.jit import Library
from triton_dsl.runtime.native.processor import host_features

_STREAMS = 8
_CODES = 2
_TRIES = 9


@cache
def _library() -> Library:
    recipe = best_recipe(host_features())
    bytes_, sums = vector(i8, recipe.width), vector(i32, recipe.lanes)
    across = _STREAMS * recipe.width

    kinds = [POINTER, i64, POINTER]

    read = Code("read", kinds)
    source, size, target = read.arguments
    start = [read.constant(0, bytes_)] * _STREAMS
    with read.loop(0, size, across, start) as turn:
        here = read.at(source, turn.index)
        read.prefetch(read.at(here, 4096))
        loads = [read.load(read.at(here, i * recipe.width), bytes_) for i in range(_STREAMS)]
        turn.values = [read.xor(x, load) for x, load in zip(turn.values, loads, strict=True)]
    for i, total in enumerate(turn.values):
        read.store(total, read.at(target, i * recipe.width))

    multiply = Code("multiply", kinds)
    source, count, target = multiply.arguments
    # Operands that change from turn to turn, or LLVM takes the products out of the loop.
    pairs = recipe.pairs
    narrow = sums if pairs is None else vector(i16, recipe.width // 2)
    start = [multiply.constant(i, narrow) for i in range(recipe.chains)]
    with multiply.loop(0, count, 1, start) as turn:
        here = multiply.at(source, multiply.shl(multiply.and_(turn.index, 7), 6))
        loads = [
            multiply.load(multiply.at(here, i * recipe.width), bytes_)
            for i in range(_CODES + recipe.chains // _CODES)
        ]
        operands = product(loads[:_CODES], loads[_CODES:])
        turn.values = [
            recipe.dot(multiply, total, *both)
            if pairs is None
            else multiply.add(total, pairs(multiply, *both))
            for total, both in zip(turn.values, operands, strict=True)
        ]
    for i, total in enumerate(turn.values):
        multiply.store(total, multiply.at(target, i * recipe.width))

    return Library(compile_object(ModuleOp([read.finish(), multiply.finish()])))


def _fastest(run: Callable[[], None]) -> float:
    best = float("inf")
    for _ in range(_TRIES):
        start = perf_counter()
        run()
        best = min(best, perf_counter() - start)
    return best


def reader(size: int) -> Callable[[], None]:
    """Reads the same `size` bytes at each call, on one thread; they stand as weights do."""
    source, target = aligned(size), np.zeros(4096, np.uint8)
    source[:] = 1
    read = _library().function("read", [c_void_p, c_int64, c_void_p])
    return lambda: read(source.ctypes.data, size, target.ctypes.data)


def read_bandwidth(size: int, repeats: int = 1) -> float:
    """Bytes a second at which one thread reads `size` bytes that were read before."""
    read = reader(size)

    def run() -> None:
        for _ in range(repeats):
            read()

    run()
    return size * repeats / _fastest(run)


def dot_rate() -> float:
    """Products of bytes, with their additions, that one thread does in a second.

    Sums have 16 bits where kernels add them so.
    """
    source, target = aligned(4096), np.zeros(4096, np.uint8)
    source[:] = 1
    multiply = _library().function("multiply", [c_void_p, c_int64, c_void_p])
    count = 1_000_000
    seconds = _fastest(lambda: multiply(source.ctypes.data, count, target.ctypes.data))
    recipe = best_recipe(host_features())
    return count * recipe.chains * recipe.width / seconds
