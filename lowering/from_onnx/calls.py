"""A node as rules see it, and the element types of the IR for those of NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute, BlockArgument
from xdsl.utils.exceptions import VerifyException

from ...dialects.elements import element_of
from ..from_torch.sizes import ProblemError


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
    inputs: list[Any]
    attributes: Mapping[str, Any]
    outputs: int = 1
    scope: Any = None

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default; a number with a fraction is a float32 in either case."""
        if isinstance(default, float):
            default = float(np.float32(default))
        return self.attributes.get(name, default)

    def has(self, index: int) -> bool:
        """Whether the input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def __getitem__(self, index: int) -> Any:
        """An input that must be there."""
        if not self.has(index):
            raise ProblemError(f"input {index} is missing")
        return self.inputs[index]

    def optional(self, index: int) -> Any:
        """An input, or `None` where the node leaves it out."""
        return self.inputs[index] if index < len(self.inputs) else None


_UNSIGNED = {"uint16": 16, "uint32": 32, "uint64": 64}


def element_type(dtype: np.dtype[Any]) -> Attribute:
    """The element type of a NumPy dtype.

    Raises:
        ProblemError: there is none.
    """
    name = np.dtype(dtype).name
    if name in _UNSIGNED:
        return IntegerType(_UNSIGNED[name], Signedness.UNSIGNED)
    try:
        return element_of(np.dtype(dtype))
    except VerifyException:
        shown = "text" if name == "object" else name
        raise ProblemError(f"elements of {shown} have no type in the IR") from None
