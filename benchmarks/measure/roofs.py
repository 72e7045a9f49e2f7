"""Limits of this machine, measured with code of our own: reading memory, products of bytes."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int64, c_void_p
from functools import cache
from time import perf_counter

import numpy as np
from xdsl.dialects.builtin import ModuleOp, i8, i32, i64

from triton_dsl.lowering.to_native.kernels.code import POINTER, Code
from triton_dsl.lowering.to_native.kernels.recipes import best_recipe
from triton_dsl.lowering.to_native.llvm.types import vector
from triton_dsl.lowering.to_native.object_code import compile_object
from triton_dsl.runtime.native.columns import aligned
from triton_dsl.runtime.native.jit import Library
from triton_dsl.runtime.native.processor import host_features

_STREAMS = 8
_ACCUMULATORS = 12
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
    values = multiply.load(source, bytes_)
    start = [multiply.constant(i, sums) for i in range(_ACCUMULATORS)]
    with multiply.loop(0, count, 1, start) as turn:
        turn.values = [recipe.dot(multiply, total, values, values) for total in turn.values]
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
    """Products of bytes, with their additions, that one thread does in a second."""
    source, target = np.ones(64, np.uint8), np.zeros(4096, np.uint8)
    multiply = _library().function("multiply", [c_void_p, c_int64, c_void_p])
    count = 1_000_000
    seconds = _fastest(lambda: multiply(source.ctypes.data, count, target.ctypes.data))
    return count * _ACCUMULATORS * best_recipe(host_features()).width / seconds
