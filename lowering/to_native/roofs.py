"""Limits of this machine, measured with code of our own: reading memory, products of bytes."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int64, c_void_p
from functools import cache
from itertools import product
from time import process_time

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import AnyFloat, ModuleOp, f32, f64, i8, i16, i32, i64
from xdsl.ir import Attribute

from ...runtime.native.columns import aligned
from ...runtime.native.jit import Library
from ...runtime.native.processor import host_features
from .kernels.code import POINTER, Code
from .kernels.recipes import best_recipe
from .llvm.types import vector
from .llvm.types import width as bits_of
from .object_code import compile_object

_STREAMS = 8
_CODES = 2
_TRIES = 9
_CHAINS = 10
_ELEMENTS: dict[str, Attribute] = {"f32": f32, "f64": f64, "i32": i32, "i64": i64}


@cache
def _library() -> Library:
    recipe = best_recipe(host_features())
    bytes_, sums = vector(i8, recipe.width), vector(i32, recipe.lanes)
    across = _STREAMS * recipe.width

    kinds = [POINTER, i64, POINTER]

    read = Code("read", [*kinds, i64])
    source, size, target, repeats = read.arguments
    start = [read.constant(0, bytes_)] * _STREAMS
    with read.loop(0, repeats, 1, start) as again:
        with read.loop(0, size, across, again.values) as turn:
            here = read.at(source, turn.index)
            read.prefetch(read.at(here, 4096))
            loads = [read.load(read.at(here, i * recipe.width), bytes_) for i in range(_STREAMS)]
            # Sums that depend on the turn of the outer loop, or LLVM would read once.
            turn.values = [read.add(x, load) for x, load in zip(turn.values, loads, strict=True)]
        again.values = [read.xor(x, 1) for x in turn.values]
    for i, total in enumerate(again.values):
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

    sums_of = [_sums(kind, element) for kind, element in _ELEMENTS.items()]
    return Library(compile_object(ModuleOp([read.finish(), multiply.finish(), *sums_of])))


def _sums(name: str, element: Attribute) -> llvm.FuncOp:
    """`sums_<name>(values, count, target)`: a + x·y on registers, side by side."""
    width = best_recipe(host_features()).width
    code = Code(f"sums_{name}", [POINTER, i64, POINTER])
    source, count, target = code.arguments
    kind = vector(element, width * 8 // bits_of(element))
    start = [code.load(code.at(source, i * width), kind) for i in range(_CHAINS)]
    with code.loop(0, count, 1, start) as turn:
        here = code.at(source, code.shl(code.and_(turn.index, 7), 6))
        loads = [
            code.load(code.at(here, i * width), kind) for i in range(_CODES + _CHAINS // _CODES)
        ]
        turn.values = [
            code.overloaded("fmuladd", x, y, total)
            if isinstance(element, AnyFloat)
            else code.add(total, code.mul(x, y))
            for total, (x, y) in zip(
                turn.values, product(loads[:_CODES], loads[_CODES:]), strict=True
            )
        ]
    for i, total in enumerate(turn.values):
        code.store(total, code.at(target, i * width))
    return code.finish()


def _fastest(run: Callable[[], None]) -> float:
    """Seconds of processor time: a busy machine takes longer by the clock."""
    best = float("inf")
    for _ in range(_TRIES):
        start = process_time()
        run()
        best = min(best, process_time() - start)
    return best


def reader(size: int, repeats: int = 1) -> Callable[[], None]:
    """Reads the same `size` bytes at each call, on one thread; they stand as weights do."""
    source, target = aligned(size), np.zeros(4096, np.uint8)
    source[:] = 1
    read = _library().function("read", [c_void_p, c_int64, c_void_p, c_int64])
    return lambda: read(source.ctypes.data, size, target.ctypes.data, repeats)


def read_bandwidth(size: int, repeats: int = 1) -> float:
    """Bytes a second at which one thread reads `size` bytes that were read before."""
    run = reader(size, repeats)
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


def sum_rate(element: str) -> float:
    """Products of elements (`f32`, `f64`, `i32`, `i64`) added to a sum that one thread does in a
    second: fused where the processor can."""
    source, target = aligned(4096), np.zeros(4096, np.uint8)
    run = _library().function(f"sums_{element}", [c_void_p, c_int64, c_void_p])
    count = 100_000
    seconds = _fastest(lambda: run(source.ctypes.data, count, target.ctypes.data))
    lanes = best_recipe(host_features()).width * 8 // bits_of(_ELEMENTS[element])
    return count * _CHAINS * lanes / seconds
