"""The elaborated program: one layer with every sub-layer, function, loop and `if` expanded.

A flat graph of values in which identity is sharing: an `Operation` that two others use is one
object. Nodes point to their operands only. Every value's type is a `TensorType` (rank 0 for a
scalar); every compile-time argument is evaluated. `builtins` says which operands and attributes
each function has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .nodes import Span
from .types import TensorType

ConstantData = bool | int | float | tuple["ConstantData", ...]


@dataclass(frozen=True, eq=False)
class Value:
    """A run-time value; `span` is the innermost place in the user's own source."""

    type: TensorType
    span: Span = field(repr=False)


@dataclass(frozen=True, eq=False)
class InputValue(Value):
    """An argument of `forward`."""

    name: str


@dataclass(frozen=True, eq=False)
class ParameterValue(Value):
    """A `param` or `buffer`; `path` is dotted, as in PyTorch's `state_dict`."""

    path: str
    is_buffer: bool


@dataclass(frozen=True, eq=False)
class ConstantValue(Value):
    """A constant: a number (rank 0) or nested tuples with the shape of `type`."""

    value: ConstantData


@dataclass(frozen=True, eq=False)
class Operation(Value):
    """A call of the built-in `function`.

    `type` is the type of its first result; where a function has several, `result_types` lists all
    and `Projection`s take them apart.
    """

    function: str
    operands: tuple[Value, ...] = field(repr=False)
    attributes: Mapping[str, Any]
    result_types: tuple[TensorType, ...] = ()


@dataclass(frozen=True, eq=False)
class Projection(Value):
    """Result number `index` of a function with several results."""

    source: Operation = field(repr=False)
    index: int


@dataclass(frozen=True, eq=False)
class Elaborated:
    """One layer, expanded.

    Attributes:
        name: the layer's name.
        inputs: arguments of `forward`, in order.
        outputs: results of `forward` (one, unless it returns a list).
        parameters: every `param` and `buffer` of the layer and its sub-layers in declaration
            order, used or not.
        dimensions: symbolic dimension names, in the order in which the signature binds them.
        span: the layer's declaration.
    """

    name: str
    inputs: tuple[InputValue, ...]
    outputs: tuple[Value, ...]
    parameters: tuple[ParameterValue, ...]
    dimensions: tuple[str, ...]
    span: Span

    def operations(self) -> Iterator[Operation]:
        """Every operation the outputs depend on, operands before users."""
        seen: set[int] = set()
        stack: list[tuple[Value, bool]] = [(value, False) for value in reversed(self.outputs)]
        while stack:
            value, ready = stack.pop()
            if ready:
                assert isinstance(value, Operation)
                yield value
                continue
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, Projection):
                stack.append((value.source, False))
            elif isinstance(value, Operation):
                stack.append((value, True))
                stack.extend((operand, False) for operand in reversed(value.operands))
