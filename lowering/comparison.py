"""What self-checks of targets share: inputs to try, and how far results are from the interpreter.

A target that runs what it wrote in a real engine compares here. Not here: the engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from ..dialects import spike, tensor, ternary
from ..dialects.elements import numpy_dtype
from ..dialects.shapes import DYNAMIC, AnyTensor, Shape, is_float
from ..dialects.spike.types import dense_type
from ..dialects.traits import HasSteps, has
from ..ir.arrays import Array
from ..passes.calibration.observation import read_batches

TOLERANCE = 1e-3
"""Of float programs, relative to the largest value of an output."""

HALF_TOLERANCE = 3e-2
"""The same for programs that compute in 16 bits."""

COARSE_TOLERANCE = 0.25
"""For narrower arithmetic, relative to the root of the mean square of an output, and so of the
difference: it finds what is wrong, not what is rounded."""

CHECKED = 32
"""Samples of a calibration that a file is checked with."""

BATCH, LENGTH = 2, 16
"""What stands for a free first axis, and for other free axes."""


def disagreement(
    expected: Sequence[Array], actual: Sequence[Array], module: ModuleOp, *, coarse: bool
) -> str | None:
    """The first way in which results are not those of `module`; `None` where they are.

    Args:
        expected: the interpreter's results.
        actual: those of an engine, in the same order of axes.
        module: the program, which says how exact results can be.
        coarse: whether the engine rounds more than the program's types do.
    """
    stepping = has_steps(module)
    strict = not coarse and not stepping
    for index, (want, got) in enumerate(zip(expected, actual, strict=True)):
        if got.shape != want.shape or got.dtype != want.dtype:
            return (
                f"output {index} is {got.dtype}{list(got.shape)}, "
                f"and {want.dtype}{list(want.shape)} by definition"
            )
        if not strict:
            off = 0.0 if want.dtype.kind in "iub" else mean_difference(want, got)
            if off > COARSE_TOLERANCE:
                return f"output {index} differs from the interpreter by {off:.2g} of its mean size"
            continue
        limit = TOLERANCE
        if want.dtype.kind in "iub":
            limit = 0.0
        elif want.dtype.itemsize == 2 or has_halves(module):
            limit = HALF_TOLERANCE
        off = difference(want, got)
        if off > limit:
            return f"output {index} differs from the interpreter by {off:.2g} of its largest value"
    return None


def difference(want: Array, got: Array) -> float:
    """The largest difference over the largest value, or over 1e-6 where that is less."""
    if not want.size:
        return 0.0
    wide, other = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(wide)
    if not np.array_equal(wide[~finite], other[~finite], equal_nan=True):
        return float("inf")
    most = max(float(np.abs(wide[finite]).max(initial=0.0)), 1e-6)
    off = np.abs(wide[finite] - other[finite])
    return float("inf") if np.isnan(off).any() else float(off.max(initial=0.0)) / most


def mean_difference(want: Array, got: Array) -> float:
    """The root of the mean square of the difference over that of `want`, both finite."""
    wide, other = want.astype(np.float64), got.astype(np.float64)
    if difference(want, got) in (0.0, float("inf")):
        return difference(want, got)
    finite = np.isfinite(wide)
    size = float(np.sqrt(np.mean(wide[finite] ** 2)))
    return float(np.sqrt(np.mean((wide[finite] - other[finite]) ** 2))) / max(size, 1e-6)


def calibration_inputs(function: FuncOp, path: str | None) -> Sequence[Array] | None:
    """The first samples of a calibration, in the order of the arguments; `None` without a path."""
    if path is None:
        return None
    return read_batches(function, path, size=CHECKED)[0]


def sample_inputs(module: ModuleOp, function: FuncOp) -> list[Array]:
    """Typical numbers for each argument: two samples, 16 for other sizes that are free.

    Integers are small, and 0 or 1 where rows of a table are picked.
    """
    random = np.random.default_rng(0)
    picks = any(isinstance(op, tensor.GatherRowsOp) for op in module.walk())
    return [_sample(argument, random, picks) for argument in function.args]


def _sample(argument: SSAValue, random: np.random.Generator, picks: bool) -> Array:
    type = dense_type(argument)
    shape = _filled(type.get_shape())
    dtype = numpy_dtype(type.element_type)
    if is_float(type):
        return random.standard_normal(shape).astype(dtype)
    if dtype == np.bool_:
        return np.asarray(random.random(shape) < 0.5)
    trits = isinstance(type.element_type, ternary.TritType)
    low, high = (-1, 1) if trits else (0, 1) if picks else (-8, 8)
    return random.integers(max(low, np.iinfo(dtype).min), high + 1, shape).astype(dtype)


def _filled(shape: Shape) -> list[int]:
    return [
        (LENGTH if axis else BATCH) if size == DYNAMIC else size for axis, size in enumerate(shape)
    ]


def products(function: FuncOp) -> int:
    """About how many multiplications the function's products take on `sample_inputs`."""
    return sum(map(_products, function.body.block.ops))


def _products(op: Operation) -> int:
    """Elements of the result times the terms of each: what the weight has beside its channels."""
    if not op.results or not isa(op.results[0].type, AnyTensor | spike.TrainType):
        return 0
    result = prod(_filled(dense_type(op.results[0]).get_shape()))
    match op:
        case tensor.ConvOp() | ternary.ConvOp() | spike.ConvOp():
            return result * prod(_filled(dense_type(op.operands[1]).get_shape()[1:]))
        case (
            tensor.MatmulOp()
            | tensor.LinearOp()
            | ternary.MatmulOp()
            | ternary.LinearOp()
            | spike.LinearOp()
        ):
            return result * _filled((0, *dense_type(op.operands[0]).get_shape()))[-1]
        case tensor.ScaledDotProductAttentionOp():
            return 2 * result * prod(_filled((0, *dense_type(op.key).get_shape()))[-2:-1])
        case _:
            return 0


def has_halves(module: ModuleOp) -> bool:
    """Whether floats of 16 bits are computed."""
    return any(isinstance(t, Float16Type | BFloat16Type) for t in computed_types(module))


def computed_types(module: ModuleOp) -> set[Attribute]:
    """The element types of all values."""
    return {
        result.type.element_type
        for op in module.walk()
        for result in op.results
        if isa(result.type, AnyTensor)
    }


def has_steps(module: ModuleOp) -> bool:
    """Whether floats are rounded or compared: there a last bit decides over a whole step."""
    return any(has(op, HasSteps) and is_float(dense_type(op.operands[0])) for op in module.walk())
