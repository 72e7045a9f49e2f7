"""Nodes that are written into an exported graph, with the types that they have.

Not here: what is rewritten, and why (`chosen_rows`).
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from .calls import Call, fake_tensor, schema_of
from .sizes import is_node, sizes_of


class Rewriting:
    """Writes nodes into a graph.

    Args:
        graph: an exported one.
        mode: PyTorch's mode of its tensors without values.

    Attributes:
        at: the node that new ones have their place in the source from.
    """

    at: Node

    def __init__(self, graph: Graph, mode: Any) -> None:
        self.graph, self.mode = graph, mode
        self.newer: dict[Node, Node] = {}

    def make(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """A new node in front of `at`; operands that were replaced are those of now."""
        args, kwargs = map_arg((args, kwargs), self.newest)
        node = self.graph.call_function(target, args, kwargs)
        node.meta = {**self.at.meta}
        self.again(node)
        return node

    def again(self, node: Node) -> None:
        """Give a node the type that it has with its operands of now."""
        args, kwargs = map_arg((node.args, node.kwargs), lambda part: part.meta["val"])
        node.meta.pop("unbacked_bindings", None)  # it makes no new size
        with self.mode, torch.no_grad():
            node.meta["val"] = cast("Any", node.target)(*cast("Any", args), **cast("Any", kwargs))

    def set(self, call: Call, **arguments: Node) -> None:
        """Give a call other operands."""
        node, schema = call.node, schema_of(call.node)
        assert schema is not None
        names = [argument.name for argument in schema.arguments]
        given = list(node.args)
        for name, value in arguments.items():
            given[names.index(name)] = self.newest(value)
        node.args = tuple(given)
        self.again(node)

    def replace(self, node: Node, result: Node) -> None:
        """Let what reads `node` read `result`."""
        self.newer[node] = result = self.newest(result)
        node.replace_all_uses_with(result)

    def newest(self, node: Node) -> Node:
        """What stands in the place of a node by now."""
        while node in self.newer:
            node = self.newer[node]
        return node

    def sizes(self, node: Node) -> list[int | Node]:
        """The sizes of a tensor as arguments."""
        node = self.newest(node)
        return [
            size if isinstance(size, int) else self.make(torch.ops.aten.sym_size.int, node, axis)
            for axis, size in enumerate(sizes_of(fake_tensor(node).shape))
        ]

    def places(self, size: int | Node) -> Node:
        """Whole numbers below a size."""
        return self.make(
            torch.ops.aten.arange.default, size, device=torch.device("cpu"), pin_memory=False
        )

    def flat(self, mask: Node) -> Node:
        """Which rows are chosen, along one axis."""
        mask = self.newest(mask)
        if fake_tensor(mask).dtype != torch.bool:
            mask = self.make(torch.ops.aten.ne.Scalar, mask, 0)
        is_flat = fake_tensor(mask).dim() == 1
        return mask if is_flat else self.make(torch.ops.aten.reshape.default, mask, [-1])

    def index_of_each(self, mask: Node) -> list[Node]:
        """For each axis of a mask the places of all its elements."""
        sizes = self.sizes(mask)
        (whole,) = self.sizes(self.flat(mask))
        places, indices = self.places(whole), list[Node]()
        for size in reversed(sizes[1:]):
            indices.insert(0, self.make(torch.ops.aten.remainder.Scalar, places, size))
            places = self.make(torch.ops.aten.floor_divide.Scalar, places, size)
        return [places, *indices]

    def spread(self, mask: Node, behind: int) -> Node:
        """A mask with axes of one element behind its own."""
        mask = self.newest(mask)
        for _ in range(behind):
            mask = self.make(torch.ops.aten.unsqueeze.default, mask, -1)
        return mask

    def with_room(self, out: Node, axis: int) -> Node:
        """A tensor with a row behind its last for what goes nowhere."""
        sizes = self.sizes(out)
        sizes[axis] = 1
        row = self.make(torch.ops.aten.new_zeros.default, out, sizes)
        return self.make(torch.ops.aten.cat.default, [out, row], axis)


def are_equal(one: object, other: object) -> bool:
    """Whether two nodes are one, or the same operators of the same operands."""
    if not is_node(one) or not is_node(other):
        return not is_node(one) and not is_node(other) and one == other
    if one is other:
        return True
    schema = schema_of(one)
    return (
        one.op == other.op == "call_function"
        and one.target == other.target
        and schema is not None
        and not schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in getattr(one.target, "tags", ())
        and one.kwargs == other.kwargs
        and len(one.args) == len(other.args)
        and all(map(are_equal, one.args, other.args))
    )
