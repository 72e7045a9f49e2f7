"""Ranges that calibration found, recorded in the program: the attributes `tensor.range`.

A range says which real values must be representable when an activation is put on a grid of
integers. It stands beside the value it is about:

- on an op, `tensor.range = array<f64: low, high>`: two numbers for each result with float
  elements, in order;
- on an argument of a function, among its attributes: the same two numbers;
- on the function, how the ranges were found:
  `tensor.calibration = {observer = "minmax", bits = 8 : i64, samples = 512 : i64}`.

A program with ranges computes what it did without them. Not here: how ranges are found
(`calibration`, `observers`), and what is done with them (passes and targets).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.utils.hints import isa

from ...dialects.shapes import integer, is_float

RANGE = "tensor.range"
"""The attribute of ops and arguments that holds ranges."""

CALIBRATION = "tensor.calibration"
"""The attribute of functions that says how the ranges were found."""


@dataclass(frozen=True)
class Range:
    """The smallest and the largest real value that must be representable."""

    low: float
    high: float


@dataclass(frozen=True)
class Calibration:
    """How the ranges of a function were found.

    Attributes:
        observer: the name of the observer.
        bits: of the grid that an observer was to be best for.
        samples: how many samples were seen.
    """

    observer: str
    bits: int
    samples: int


def is_activation(value: SSAValue) -> bool:
    """Whether `value` is a tensor of floats, which can have a range."""
    return isa(value.type, TensorType) and is_float(value.type)


def recorded_range(value: SSAValue) -> Range | None:
    """The range recorded for a value; `None` where there is none."""
    if not is_activation(value):
        return None
    if isinstance(value, BlockArgument):
        return _argument_range(value)
    owner = cast(Operation, value.owner)
    numbers = _numbers(owner.attributes.get(RANGE))
    floats = [result for result in owner.results if is_activation(result)]
    if len(numbers) != 2 * len(floats):
        return None
    index = next(i for i, result in enumerate(floats) if result is value)
    return _range(numbers[2 * index : 2 * index + 2])


def _argument_range(argument: BlockArgument) -> Range | None:
    function = argument.block.parent_op()
    if not isinstance(function, FuncOp) or function.arg_attrs is None:
        return None
    if function.body.blocks.first is not argument.block:
        return None
    return _range(_numbers(function.arg_attrs.data[argument.index].data.get(RANGE)))


def _numbers(attribute: Attribute | None) -> Sequence[float]:
    if isinstance(attribute, DenseArrayBase) and attribute.elt_type == f64:
        return [float(number) for number in attribute.get_values()]
    return ()


def _range(numbers: Sequence[float]) -> Range | None:
    return Range(*numbers) if len(numbers) == 2 else None


def record_ranges(
    function: FuncOp, ranges: Mapping[SSAValue, Range], calibration: Calibration
) -> None:
    """Record ranges in a function, in the place of those it had.

    Args:
        function: where the values are: its arguments, and results of the ops of its body.
        ranges: by value; an op is left out unless all its results with float elements have one.
        calibration: how they were found.
    """
    clear_ranges(function)
    owners = dict.fromkeys(v.owner for v in ranges if isinstance(v.owner, Operation))
    for owner in owners:
        result_ranges = [ranges.get(result) for result in owner.results if is_activation(result)]
        known = [range for range in result_ranges if range is not None]
        if len(known) == len(result_ranges):
            numbers = [number for range in known for number in (range.low, range.high)]
            owner.attributes[RANGE] = DenseArrayBase.from_list(f64, numbers)
    _record_arguments(function, ranges)
    function.attributes[CALIBRATION] = DictionaryAttr(
        {
            "observer": StringAttr(calibration.observer),
            "bits": integer(calibration.bits),
            "samples": integer(calibration.samples),
        }
    )


def _record_arguments(function: FuncOp, ranges: Mapping[SSAValue, Range]) -> None:
    arguments = function.body.block.args
    if not any(argument in ranges for argument in arguments):
        return
    entries = _argument_attributes(function)
    for argument, attributes in zip(arguments, entries, strict=True):
        if argument in ranges:
            extent = ranges[argument]
            attributes[RANGE] = DenseArrayBase.from_list(f64, [extent.low, extent.high])
    function.arg_attrs = ArrayAttr([DictionaryAttr(attributes) for attributes in entries])


def _argument_attributes(function: FuncOp) -> list[dict[str, Attribute]]:
    if function.arg_attrs is None:
        return [{} for _ in function.body.block.args]
    return [dict(attributes.data) for attributes in function.arg_attrs]


def recorded_calibration(function: FuncOp) -> Calibration | None:
    """How the ranges of a function were found; `None` where it has none."""
    attribute = function.attributes.get(CALIBRATION)
    if not isinstance(attribute, DictionaryAttr):
        return None
    observer, bits, samples = (attribute.data.get(n) for n in ("observer", "bits", "samples"))
    if not isinstance(observer, StringAttr):
        return None
    if not isinstance(bits, IntegerAttr) or not isinstance(samples, IntegerAttr):
        return None
    return Calibration(observer.data, bits.value.data, samples.value.data)


def clear_ranges(root: FuncOp | ModuleOp) -> None:
    """Remove all ranges of a function, or of all functions of a module."""
    for op in root.walk():
        op.attributes.pop(RANGE, None)
        op.attributes.pop(CALIBRATION, None)
        if isinstance(op, FuncOp) and op.arg_attrs is not None:
            entries = _argument_attributes(op)
            if any(RANGE in attributes for attributes in entries):
                others = [{k: v for k, v in a.items() if k != RANGE} for a in entries]
                op.arg_attrs = ArrayAttr([DictionaryAttr(a) for a in others])
