"""The results of a program with few-bit activations as integers with a scale.

Not here: the grids of activations (`level_grids`).
"""

from __future__ import annotations

from math import floor, log2

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...dialects.shapes import is_float
from ...dialects.ternary.types import is_trit
from ..analysis.compile_time import literal_value
from .level_functions import LEVELS, NoFunctionError, affine, channels_on
from .level_grids import LevelGrids, channel_of

_GUARD_BITS = 16
"""Results that are sums with a real offset are formed on a grid finer by so many bits at most."""

_WHOLE = 1e-6
"""So far, in steps, an offset may be from a grid that holds it."""

_MOST = 2**31 - 1


def integer_result(grids: LevelGrids, value: SSAValue) -> SSAValue:
    """What is returned in the place of `value`.

    Raises:
        NoFunctionError: it depends on floats that have no integer form.
    """
    function = grids.functions.get(value)
    if function is not None and function.bounds is None and is_float(tensor_type(value)):
        grids.enter(value, grids.grid(value))
        function = grids.functions[value]
    if function is None or function.bounds is None or function.root is value:
        raise NoFunctionError("a result has no integer form")
    if not is_float(tensor_type(value)):
        return _whole(grids, value)
    fitted = affine(function)
    root = grids.wide(function.root)
    if fitted is None and isinstance(value.owner, tensor.ReluOp):
        return _rectified(grids, value.owner)
    if fitted is None:
        grid = grids.grid(value)
        root = grids.wide(grid.root)
        fitted = np.array([grid.scale]), np.array([grid.offset])
    scale, offset = fitted
    if np.ptp(scale) <= 1e-5 * abs(scale[0]):
        scale = scale[:1]
    most = max(abs(bound) for bound in function.bounds) + np.abs(offset / scale).max()
    guard = min(_GUARD_BITS, floor(log2(_MOST / (most + 1))))
    if guard < 0:
        raise NoFunctionError("a result is too large")
    factor = _refinement(offset / scale, 1 << guard)
    shift = np.rint(offset * factor / scale)
    axis = channel_of(function) if fitted[1].size > 1 else 1
    return _dequantize(grids, root, scale / factor, shift.astype(np.int32), factor, axis)


def _whole(grids: LevelGrids, value: SSAValue) -> SSAValue:
    """Integers that floats were quantised to, of the integers that these stand for."""
    element = tensor_type(value).element_type
    if is_trit(tensor_type(value)):
        raise NoFunctionError("a result of trits has no integer form; convert it to int8")
    grid = grids.entered.get(value) or grids.grid(value)
    numbers = [round(grid.scale), round(grid.offset)]
    if numbers != [grid.scale, grid.offset]:
        raise NoFunctionError("a result holds integers and stands for others")
    root = grids.wide(grid.root)
    for op, number, none in zip((tensor.MulOp, tensor.AddOp), numbers, (1, 0), strict=True):
        if number != none:
            known = grids.constant("result.step", np.array(number, np.int32), i32)
            root = grids.add(op(root, known))
    return grids.add(tensor.ConvertOp(root, element))


def _rectified(grids: LevelGrids, op: tensor.ReluOp) -> SSAValue:
    """The larger of integers and 0, where they stand for more numbers than an activation has."""
    real = integer_result(grids, op.operand).owner
    assert isinstance(real, tensor.DequantizeOp)
    scale = literal_value(real.scale)
    if scale is None or (scale <= 0).any():
        raise NoFunctionError("a result has a negative scale before its relu")
    whole = grids.add(tensor.ReluOp(real.input))
    return grids.add(
        tensor.DequantizeOp(whole, real.scale, real.zero_point, axis=real.axis.value.data)
    )


def _refinement(offsets: Array, finest: int) -> int:
    """How many times finer a grid holds all offsets, given in steps; or `finest`.

    Levels of integers, -2 and 1 for one, have offsets that are fractions of at most `LEVELS`.
    """
    if np.abs(offsets - np.rint(offsets)).max() < 1e-4:
        return 1
    factors = np.arange(2, min(LEVELS, finest) + 1)
    finer = factors[:, None] * offsets.reshape(1, -1)
    close = (np.abs(finer - np.rint(finer)) <= _WHOLE * factors[:, None]).all(axis=1)
    return int(factors[close.argmax()]) if close.any() else finest


def _dequantize(
    grids: LevelGrids, root: SSAValue, scale: Array, shift: Array, factor: int, axis: int
) -> SSAValue:
    if factor > 1:
        finer = grids.constant("result.guard", np.array(factor, np.int32), i32)
        root = grids.add(tensor.MulOp(root, finer))
    step = scale.astype(np.float32)
    if shift.any():
        vector = channels_on(root, axis, shift)[0] if shift.size > 1 else shift.reshape(())
        root = grids.add(tensor.AddOp(root, grids.constant("result.offset", vector, i32)))
    known = grids.constant("result.scale", step if step.size > 1 else step.reshape(()), f32)
    zero = grids.constant("result.zero_point", np.zeros((), np.int32), i32)
    return grids.add(tensor.DequantizeOp(root, known, zero, axis=axis))
