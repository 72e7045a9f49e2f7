"""Limits of this machine, measured with code of our own: reading memory, products of bytes."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int64, c_void_p
from functools import cache
from itertools import product
from time import process_time
from typing import NamedTuple

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, f32, f64, i8, i16, i32, i64
from xdsl.ir import Attribute, SSAValue

from ...runtime.native.columns import aligned
from ...runtime.native.jit import Library
from ...runtime.native.processor import host_features
from .kernels.code import POINTER, Code, lanes
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
    bytes_, across = vector(i8, recipe.width), _STREAMS * recipe.width
    read = Code("read", [POINTER, i64, POINTER, i64])
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

    return Library(
        compile_object(ModuleOp([read.finish(), *map(_products, ("bytes", *_ELEMENTS))]))
    )


class _Chains(NamedTuple):
    """Products added to so many sums side by side: types of factors and sums."""

    many: int
    factors: Attribute
    sums: Attribute


def _chains(unit: str) -> _Chains:
    recipe = best_recipe(host_features())
    if unit == "bytes":
        narrow = i32 if recipe.pairs is None else i16
        sums = vector(narrow, recipe.width * 8 // bits_of(narrow))
        return _Chains(recipe.chains, vector(i8, recipe.width), sums)
    kind = vector(_ELEMENTS[unit], recipe.width * 8 // bits_of(_ELEMENTS[unit]))
    return _Chains(_CHAINS, kind, kind)


def _added(code: Code, unit: str, total: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
    """A sum with products added."""
    recipe = best_recipe(host_features())
    if unit == "bytes" and recipe.pairs is None:
        return recipe.dot(code, total, x, y)
    if unit in ("f32", "f64"):
        return code.fmuladd(x, y, total)
    pairs = recipe.pairs if unit == "bytes" else None
    return code.add(total, code.mul(x, y) if pairs is None else pairs(code, x, y))


def _products(unit: str) -> llvm.FuncOp:
    """`<unit>(values, count, target)`: sums of products in registers, side by side."""
    chains, width = _chains(unit), best_recipe(host_features()).width
    code = Code(unit, [POINTER, i64, POINTER])
    source, count, target = code.arguments
    start = [code.load(code.at(source, i * width), chains.sums) for i in range(chains.many)]
    with code.loop(0, count, 1, start) as turn:
        # Operands that change from turn to turn, or LLVM takes the products out of the loop.
        here = code.at(source, code.shl(code.and_(turn.index, 7), 6))
        places = range(_CODES + chains.many // _CODES)
        loads = [code.load(code.at(here, i * width), chains.factors) for i in places]
        operands = product(loads[:_CODES], loads[_CODES:])
        both = zip(turn.values, operands, strict=True)
        turn.values = [_added(code, unit, total, x, y) for total, (x, y) in both]
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


def rate(unit: str) -> float:
    """Products, each added to a sum, that one thread does in a second.

    Args:
        unit: of `bytes`, whose sums have 16 bits where kernels add them so, or of `f32`, `f64`,
            `i32` or `i64`: fused where the processor can.
    """
    source, target = aligned(4096), np.zeros(4096, np.uint8)
    source[:] = 1
    run, count = _library().function(unit, [c_void_p, c_int64, c_void_p]), 200_000
    seconds = _fastest(lambda: run(source.ctypes.data, count, target.ctypes.data))
    chains = _chains(unit)
    return count * chains.many * lanes(chains.factors) / seconds
