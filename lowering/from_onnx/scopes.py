"""The names that nodes see, and the graphs that stand in attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..problems import ProblemError, refuse
from .calls import AttributeValue, Value

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

DEEPEST = 32
"""Functions and graphs in attributes are nested at most this deep."""


class Reader(Protocol):
    """What reads the nodes of a scope; see `importer`."""

    def initializers(self, graph: GraphProto, scope: Scope) -> None:
        """Values that a graph brings along."""

    def nodes(self, nodes: Iterable[NodeProto], scope: Scope) -> None:
        """The nodes of a graph or function, in order."""


@dataclass
class Scope:
    """The names that nodes of one graph or function see.

    Attributes:
        values: by name: an SSA value, a list of values, or `None` for an absent one.
        opsets: the version of each domain.
        attributes: those of the call of the function whose body this is.
        depth: how deep graphs and functions are nested.
        path: the name of the node that the body belongs to, empty for the model.
    """

    reader: Reader
    opsets: Mapping[str, int]
    outer: Scope | None = None
    values: dict[str, Value | Failed] = field(default_factory=dict[str, "Value | Failed"])
    attributes: Mapping[str, AttributeValue] | None = None
    depth: int = 0
    path: str = ""

    def find(self, name: str) -> Value | Failed:
        """The value of that name.

        Raises:
            ProblemError: there is none.
        """
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise ProblemError(f"it takes '{name}', which nothing before it gives")

    def run(self, graph: GraphProto, inputs: Sequence[Value]) -> list[Value]:
        """The outputs of a graph in an attribute for values of its inputs."""
        inner = Scope(self.reader, self.opsets, self, {}, self.attributes, self.depth + 1,
                      self.path)  # fmt: skip
        inner.check_depth()
        if len(inputs) != len(graph.input):
            raise ProblemError(f"its graph takes {len(graph.input)} inputs, not {len(inputs)}")
        for info, value in zip(graph.input, inputs, strict=True):
            inner.values[info.name] = value
        self.reader.initializers(graph, inner)
        self.reader.nodes(graph.node, inner)
        return [inner.result(output.name) for output in graph.output]

    def result(self, name: str) -> Value:
        """A result of this body.

        Raises:
            FailedError: it comes from a refused node.
        """
        value = self.find(name) if name else None
        if isinstance(value, Failed):
            raise FailedError
        return value

    def check_depth(self) -> None:
        """Refuse functions that call themselves."""
        refuse(self.depth > DEEPEST, f"functions or graphs are nested more than {DEEPEST} deep")


class Failed:
    """Stands for a value that a refused node would have given."""


FAILED = Failed()


class FailedError(Exception):
    """A body holds refused nodes, which are noted already."""
