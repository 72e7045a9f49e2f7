"""Operators that change a tensor, read without taking the graph apart.

One whose tensor nobody else reads becomes the operator that gives a new one; one that writes to a
constant is computed while the graph is read. Not here: the others, which PyTorch replaces
(`exporting`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .calls import fake_tensor, is_tensor, nodes_of, operator_name, overload_name, schema_of
from .sizes import is_free, is_node, sizes_of
from .standard_layers import FRESH

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node


def becomes_functional(node: Node) -> bool:
    """Whether an operator that changes its first operand was put in the form that does not."""
    import torch

    schema = schema_of(node)
    assert schema is not None
    name = schema.name.removeprefix("aten::")
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    functional = getattr(packet, schema.overload_name or "default", None)
    tensors = list(filter(is_node, node.args))
    if name == "detach_":  # changes what gradients see
        node.target = torch.ops.aten.detach.default
        return True
    if not name.endswith("_") or functional is None or not tensors or node.kwargs:
        return False
    changed = tensors[0]
    # What is written keeps the type of the tensor; a new one might not.
    types = {fake_tensor(value).dtype for value in (*tensors, node) if is_tensor(value)}
    if changed is not node.args[0] or len(changed.users) > 1 or len(types) > 1:
        return False
    if changed.op != "call_function" or overload_name(changed) not in FRESH:
        return False
    node.target = functional
    return True


_MADE = frozenset(f"aten::{name}" for name in (
    "full", "full_like", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "zeros",
    "zeros_like",
))  # fmt: skip
"""Operators that make a tensor of one value, whatever the values of their operands."""

_VIEWS = frozenset(f"aten::{name}" for name in (
    "narrow", "permute", "select", "slice", "squeeze", "transpose", "unsqueeze", "view",
))  # fmt: skip
"""Operators whose result is a part of the memory of their operand."""


def written_constants(program: ExportedProgram) -> set[Node]:
    """Operators that write known values to a tensor of one value or a copy, before anyone reads it.

    Run in order on views of that tensor, they write to its memory as in PyTorch; its node has a
    mark, `is_written`.
    """
    inputs = set(map(str, program.graph_signature.user_inputs))
    known: set[Node] = set()
    base: dict[Node, Node] = {}
    writers: dict[Node, Node] = {}
    nodes = nodes_of(program)
    for node in nodes:
        name = operator_name(node) if node.op == "call_function" else ""
        sources = node.all_input_nodes
        is_copy = name == "aten::clone" and known.issuperset(sources)
        if is_copy or (name in _MADE and not _is_free(node)):
            known.add(node)
            base[node] = node
        elif node.op == "placeholder" and node.name not in inputs:
            known.add(node)
        elif schema_of(node) is not None and sources and known.issuperset(sources):
            known.add(node)
            first = node.args[0] if node.args else None
            if not is_tensor(first) or first not in base:
                continue
            if name in _VIEWS:
                base[node] = base[first]
            elif _writes_first(node):
                base[node] = writers[node] = base[first]
    place = {node: index for index, node in enumerate(nodes)}
    last = {made: place[node] for node, made in writers.items()}
    early = {
        made
        for node, made in base.items()
        for user in node.users
        if user not in base and place[user] < last.get(made, -1)
    }
    for made in set(writers.values()) - early:
        made.meta[_MARK] = True
    return {node for node, made in writers.items() if made not in early}


def _is_free(node: Node) -> bool:
    return any(map(is_free, sizes_of(fake_tensor(node).shape)))


def is_written(node: Node) -> bool:
    """Whether a known tensor is written to after it is made."""
    return _MARK in node.meta


_MARK = "triton_dsl_written"


def _writes_first(node: Node) -> bool:
    """Whether an operator changes its first operand and nothing else, and not at random."""
    import torch

    schema = schema_of(node)
    assert schema is not None
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return False
    written = [
        argument.alias_info is not None and argument.alias_info.is_write
        for argument in schema.arguments
    ]
    return written[:1] == [True] and sum(written) == 1
