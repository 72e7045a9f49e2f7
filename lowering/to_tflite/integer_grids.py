"""What the integer kernels of LiteRT need to know of a value, and how they are written.

Its grid (`calibration.stored_grids`), the fused activation that bounds stand for, and whether
LiteRT rescales by given scales as a program does. Not here: which ops become which kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from ...dialects.inference import tensor_type
from ...dialects.tensor.fixed_point import fixed_points
from ...ir.errors import TritonError
from ...passes.calibration.stored_grids import Grid, recorded_grid
from ...passes.requantize.integer_forms import takes_integers
from .graph import Array, Element, OptionValue, Quantization, Tensor, element_type
from .integer_patterns import Rescaled, is_byte
from .multipliers import multiplier_of
from .tflite_writer import Writer


@dataclass(frozen=True)
class Kernel:
    """One operator of the file for an op and those that lead to it.

    Attributes:
        operands: values that it takes.
        write: writes it, and binds the result of the op.
    """

    operands: Sequence[SSAValue]
    write: Callable[[Writer], None]


RANGES = {Element.INT8: (-128, 127), Element.UINT8: (0, 255)}
"""The bounds of the integers that have kernels."""

# Grids.


def grid_of(value: SSAValue) -> Grid | None:
    """The grid of a tensor of bytes, its own or that of what it was moved from."""
    while is_byte(value):
        if (grid := recorded_grid(value)) is not None:
            return grid
        owner = value.owner
        if not takes_integers(owner) or len(owner.operands) != 1:
            return None
        value = owner.operands[0]
    return None


def quantization_of(value: SSAValue) -> Quantization | None:
    """The same, as it stands in the file."""
    grid = grid_of(value)
    if grid is None:
        return None
    return Quantization(np.array([grid.scale], np.float32), grid.zero_point)


def element_of(value: SSAValue) -> Element:
    """The element type of a value."""
    return element_type(tensor_type(value).element_type)


def activation(bounds: tuple[int, int], grid: Grid, element: Element) -> int | None:
    """The number of the fused activation with these bounds; `None` for none."""
    low, high = RANGES[element]
    zero = grid.zero_point

    def level(value: float) -> int:
        steps = np.float32(value) / np.float32(grid.scale)
        return zero + int(np.floor(abs(steps) + 0.5) * np.sign(steps))

    forms = (
        (low, high),
        (max(low, zero), high),
        (max(low, level(-1)), min(high, level(1))),
        (max(low, zero), min(high, level(6))),
    )
    return next((number for number, form in enumerate(forms) if form == bounds), None)


# Multipliers.


def agrees(scaled: Rescaled, factors: Array, *, once: bool = False) -> bool:
    """Whether LiteRT rescales by real factors as the program does.

    Args:
        scaled: the rescaling of the program.
        factors: float64.
        once: whether the kernel rounds once, as FULLY_CONNECTED does.
    """
    factors = np.atleast_1d(factors)
    if once:
        if scaled.twice:
            return False
        try:
            multipliers, shifts = fixed_points(factors)
        except TritonError:
            return False
        exponents = 31 - np.asarray(shifts, np.int64)
    else:
        multipliers, exponents = multiplier_of(factors)
        if not scaled.twice and (exponents < 0).any():
            return False
    return is_same(scaled.multipliers, multipliers) and is_same(scaled.exponents, exponents)


def is_same(values: Array, others: Array) -> bool:
    size = max(values.size, others.size)
    return values.size in (1, size) and others.size in (1, size) and bool((values == others).all())


def node_for(
    e: Writer, kind: str, inputs: Sequence[Tensor | None], value: SSAValue,
    shape: Sequence[int], **options: OptionValue,
) -> Tensor:  # fmt: skip
    """One operator that gives `value`, on its grid."""
    with e.exactly():
        result = e.node(kind, inputs, element_of(value), tuple(shape), **options)
    result.quantization = quantization_of(value)
    return result
