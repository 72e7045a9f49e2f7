"""Calls of PyTorch operators in an exported graph, with arguments that are read by type.

`call["x"]` is the tensor `x`, and each other kind of argument has a reader, which refuses what a
rule cannot take. Not here: what the nodes stand for (`torch_builder`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import torch
from torch import FunctionSchema, SymInt, Tensor
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.node import Argument
from typing_extensions import TypeIs

from ..problems import ProblemError
from .sizes import Size, Sizes, is_node, size_of, sizes_of, static

Operand: TypeAlias = "Node | float"
"""An operand of an element-wise operator: a tensor or a number."""


def schema_of(node: Node) -> FunctionSchema | None:
    """The schema of the operator that a node calls; none of Python functions and operators."""
    return getattr(node.target, "_schema", None)


def operator_name(node: Node) -> str:
    """The operator that a node calls without its overload, such as `aten::add`."""
    schema = schema_of(node)
    return str(node.target) if schema is None else schema.name


def is_composite(node: Node) -> bool:
    """Whether PyTorch has the operator of a node, one with a schema, as calls of others alone."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd  # pyright: ignore[reportPrivateUsage]
    return cast("OpOverload", node.target).has_kernel_for_dispatch_key(key)


def overload_name(node: Node) -> str:
    """The operator that a node calls with its overload, such as `aten::add.Tensor`."""
    schema = schema_of(node)
    name = operator_name(node)
    return name if schema is None or not schema.overload_name else f"{name}.{schema.overload_name}"


def nodes_of(program: ExportedProgram) -> list[Node]:
    """The nodes of an exported graph in order."""
    return list(program.graph.nodes)


def fake_tensor(node: Node) -> Tensor:
    """A tensor without values, of the type and sizes that a node has."""
    return node.meta["val"]


def is_tensor(argument: object) -> TypeIs[Node]:
    """Whether an argument is a node whose result is a tensor."""
    return is_node(argument) and hasattr(argument.meta.get("val"), "shape")


@dataclass(frozen=True)
class Call:
    """An operator of the graph with its arguments by name, defaults included."""

    node: Node
    name: str
    arguments: Mapping[str, Argument]

    @staticmethod
    def of(node: Node) -> Call:
        """The call of a node whose operator has a schema."""
        schema = schema_of(node)
        assert schema is not None
        arguments: dict[str, Argument] = {}
        for index, argument in enumerate(schema.arguments):
            if index < len(node.args):
                arguments[argument.name] = node.args[index]
            elif argument.name in node.kwargs:
                arguments[argument.name] = node.kwargs[argument.name]
            elif argument.has_default_value():
                arguments[argument.name] = argument.default_value
        return Call(node, schema.name, arguments)

    def using(self, **arguments: Argument) -> Call:
        """The same call with other or further arguments."""
        return replace(self, arguments={**self.arguments, **arguments})

    def __contains__(self, name: str) -> bool:
        """Whether the overload has an argument, and it is not `None`."""
        return self.arguments.get(name) is not None

    def __getitem__(self, name: str) -> Node:
        """A tensor."""
        value = self.arguments.get(name)
        if not is_node(value):
            raise ProblemError(f"its '{name}' is no tensor")
        return value

    def optional(self, name: str) -> Node | None:
        """A tensor that may be missing."""
        return None if self.arguments.get(name) is None else self[name]

    def tensors(self, name: str) -> list[Node]:
        """A list of tensors."""
        return [*cast("Sequence[Node]", self.arguments[name])]

    def operand(self, name: str) -> Operand:
        """A tensor or a number."""
        value = self.arguments.get(name)
        if is_node(value) or isinstance(value, int | float):
            return value
        raise ProblemError(f"its '{name}' is neither a tensor nor a number")

    def number(self, name: str, default: float | None = None) -> float:
        """A number."""
        value = self.arguments[name] if name in self else default
        if isinstance(value, int | float):
            return value
        raise ProblemError(f"its '{name}' must be a fixed number")

    def flag(self, name: str, default: bool = False) -> bool:
        """A truth value."""
        return bool(self.arguments[name]) if name in self else default

    def word(self, name: str, default: str = "") -> str:
        """A string."""
        return str(self.arguments[name]) if name in self else default

    def size(self, name: str, default: int | None = None) -> Size:
        """A size, which may be free."""
        value = self.arguments[name] if name in self else default
        if is_node(value) or isinstance(value, int) or hasattr(value, "node"):
            return size_of(cast("int | SymInt | Node", value))
        raise ProblemError(f"its '{name}' must be a whole number")

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number."""
        return static([self.size(name, default)], name)[0]

    def integers(self, name: str) -> list[int]:
        """A list of whole numbers; one stands for a list of itself, and none for an empty list."""
        value = self.arguments.get(name)
        listed = value if isinstance(value, Sequence) else [] if value is None else [value]
        return static(sizes_of(cast("Sequence[Node]", listed)), name)

    def window(self, name: str, axes: int) -> list[int]:
        """A property of a window as one number an axis."""
        values = self.integers(name)
        return values * axes if len(values) == 1 else values

    def axis(self, rank: int, name: str = "dim", default: int | None = None) -> int:
        """An axis of a tensor of this rank, counted from the first."""
        return self.integer(name, default) % max(rank, 1)

    @property
    def settings(self) -> dict[str, Any]:
        """What an operator of ours has as JSON: arguments of an op by name."""
        return json.loads(self.word("settings"))

    # The result.

    @property
    def values(self) -> Sequence[Tensor]:
        """The fake tensors of the results."""
        result: Tensor | Sequence[Tensor] = self.node.meta["val"]
        return result if isinstance(result, Sequence) else [result]

    @property
    def value(self) -> Tensor:
        """The fake tensor of the result, the first one of several."""
        return self.values[0]

    @property
    def sizes(self) -> Sizes:
        """The sizes of the result."""
        return sizes_of(self.value.shape)

    @property
    def rank(self) -> int:
        """The number of axes of the result."""
        return len(self.value.shape)
