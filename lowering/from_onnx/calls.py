"""A node as rules see it, and the element types of the IR for those of NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...dialects.elements import element_of
from ...ir.arrays import Array, Dtype
from ..problems import ProblemError

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto

    from .scopes import Scope

Value: TypeAlias = SSAValue | list[SSAValue] | None
"""What a name of a model stands for: a tensor, a sequence of them, or an absent optional value."""

Results: TypeAlias = Value | tuple[Value, ...]
"""The value of the first result of a node, or those of all."""

AttributeValue: TypeAlias = (
    "int | float | str | list[int] | list[float] | list[str] | Array | GraphProto | AttributeProto"
)
"""An attribute of a node; what has no form of its own stays the entry of the file."""

Default = TypeVar("Default", int, float, None)
Defaults = TypeVar("Defaults", list[int], None)


class UnknownValueError(ProblemError):
    """A value must be known before the program runs, and depends on arguments."""

    def __init__(self, what: str, arguments: Sequence[BlockArgument]) -> None:
        super().__init__(f"its {what} must be known before the program runs")
        self.arguments = list(arguments)


@dataclass(frozen=True)
class Call:
    """A node with what it takes.

    Attributes:
        op: the operator's type, such as `Conv`.
        domain: of the operator; empty for the standard's.
        opset: the version of that domain that the model uses.
        inputs: values; `None` for those left out; a sequence is a list of values.
        attributes: by name.
        outputs: how many results the node names.
        scope: the names around the node, for graphs in its attributes.
    """

    op: str
    domain: str
    opset: int
    inputs: Sequence[Value]
    attributes: Mapping[str, AttributeValue]
    outputs: int = 1
    scope: Scope | None = None

    # Attributes.

    def integer(self, name: str, default: Default) -> int | Default:
        """A whole number."""
        value = self.attributes.get(name)
        if value is not None and not isinstance(value, int):
            raise ProblemError(f"its attribute '{name}' is no integer")
        return default if value is None else value

    def flag(self, name: str, default: bool) -> bool:
        """A whole number that says whether something holds."""
        return bool(self.integer(name, int(default)))

    def number(self, name: str, default: Default) -> float | Default:
        """A number; one with a fraction is a float32, given or not."""
        value = self.attributes.get(name)
        if value is None:
            return float(np.float32(default)) if isinstance(default, float) else default
        if not isinstance(value, int | float):
            raise ProblemError(f"its attribute '{name}' is no number")
        return value

    def text(self, name: str, default: str) -> str:
        """A word."""
        return str(self.attributes.get(name, default))

    def integers(self, name: str, default: Defaults) -> list[int] | Defaults:
        """Whole numbers; one alone is a list of it."""
        value = self.attributes.get(name)
        if value is None:
            return default
        if isinstance(value, int):
            return [value]
        if not isinstance(value, list):
            raise ProblemError(f"its attribute '{name}' is no list of integers")
        return [int(number) for number in value]

    def numbers(self, name: str) -> list[float]:
        """Numbers; none where the attribute is missing."""
        value = self.attributes.get(name, [])
        if not isinstance(value, list) or any(isinstance(entry, str) for entry in value):
            raise ProblemError(f"its attribute '{name}' is no list of numbers")
        return [float(entry) for entry in value]

    def words(self, name: str) -> list[str]:
        """Words; none where the attribute is missing."""
        value = self.attributes.get(name, [])
        if not isinstance(value, list):
            raise ProblemError(f"its attribute '{name}' is no list of words")
        return [str(word) for word in value]

    def graph(self, name: str) -> GraphProto:
        """A graph."""
        from onnx import GraphProto

        value = self.attributes.get(name)
        if not isinstance(value, GraphProto):
            raise ProblemError(f"its graph '{name}' is missing")
        return value

    def run(self, graph: GraphProto, inputs: Sequence[Value]) -> list[Value]:
        """The outputs of a graph in an attribute for values of its inputs."""
        assert self.scope is not None
        return self.scope.run(graph, inputs)

    # Inputs.

    def has(self, index: int) -> bool:
        """Whether the input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> SSAValue | list[SSAValue]:
        """An input that must be there: a tensor or a sequence."""
        value = self.inputs[index] if self.has(index) else None
        if value is None:
            raise ProblemError(f"input {index} is missing")
        return value

    def __getitem__(self, index: int) -> SSAValue:
        """An input that must be there, and a tensor."""
        return tensor_of(self.value(index))

    def optional(self, index: int) -> SSAValue | None:
        """A tensor, or `None` where the node leaves it out."""
        return self[index] if self.has(index) else None

    def sequence(self, index: int = 0) -> list[SSAValue]:
        """An input that must be there, and a sequence."""
        value = self.value(index)
        if not isinstance(value, list):
            raise ProblemError("it takes a sequence and gets a tensor")
        return value

    def tensors(self, first: int = 0) -> list[SSAValue]:
        """All inputs from one on, which must be tensors."""
        return [self[index] for index in range(first, len(self.inputs))]


def tensor_of(value: Results) -> SSAValue:
    """A value that must be a tensor."""
    if not isinstance(value, SSAValue):
        what = "a sequence" if isinstance(value, list) else "no value"
        raise ProblemError(f"it takes a tensor and gets {what}")
    return value


_UNSIGNED = {"uint16": 16, "uint32": 32, "uint64": 64}


def element_type(dtype: Dtype) -> Attribute:
    """The element type of a NumPy dtype.

    Raises:
        ProblemError: there is none.
    """
    name = dtype.name
    if name in _UNSIGNED:
        return IntegerType(_UNSIGNED[name], Signedness.UNSIGNED)
    try:
        return element_of(dtype)
    except VerifyException:
        shown = "text" if name == "object" else name
        raise ProblemError(f"elements of {shown} have no type in the IR") from None
