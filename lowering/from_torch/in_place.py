"""Operators that change a tensor, read without taking the graph apart.

One whose tensor nobody else reads becomes the operator that gives a new one; one that writes to a
part of a tensor becomes a new tensor with that part, which is read from there on; one that writes
to a constant is computed while the graph is read. Not here: the others, which PyTorch replaces
(`exporting`).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from .calls import (
    fake_tensor,
    is_composite,
    is_tensor,
    nodes_of,
    operator_name,
    overload_name,
    schema_of,
)
from .sizes import is_free, is_node, sizes_of
from .standard_layers import FRESH


def becomes_functional(node: Node) -> bool:
    """Whether an operator that changes its first operand was put in the form that does not."""
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


def becomes_scattered(program: ExportedProgram, node: Node) -> bool:
    """Whether what changes a part of a tensor was put as a new tensor that later nodes read."""
    functional, changed = _functional(node), node.args[0] if node.args else None
    if functional is None or not is_tensor(changed) or not _writes_first(node):
        return False
    chain: list[Node] = []
    base = changed
    while operator_name(base) in _SCATTERS and is_tensor(source := base.args[0]):
        chain.append(base)
        base = source
    place = {other: index for index, other in enumerate(nodes_of(program))}
    late = [user for user in base.users if place[user] > place[node]]
    is_own = base.op == "call_function" and not _may_share(base)
    if not is_own or not _ends(base, node, place) or (chain and not _read_at_once(node, place)):
        if not _is_last_name(changed, node, place):
            return False
        chain, late = [], [user for user in changed.users if place[user] > place[node]]
        base = changed
    node.target, result = functional, node
    node.meta["val"] = fake_tensor(changed)
    for view in chain:
        parent, *rest = view.args
        assert is_node(parent)
        with program.graph.inserting_after(result):
            target = getattr(torch.ops.aten, _SCATTERS[operator_name(view)])
            operands = (parent, result) if rest else (result,)
            result = program.graph.call_function(target.default, (*operands, *rest), view.kwargs)
        result.meta = {**node.meta, "val": fake_tensor(parent)}
    for user in late:
        user.replace_input_with(base, result)
    return True


_OTHER_TYPES = ("copy", "fill", "index_add", "index_copy", "index_put", "masked_fill")
"""Operators that give the type of the first operand, whatever those of masks and indices."""

_SCATTERS = {"aten::select": "select_scatter", "aten::slice": "slice_scatter"}
"""Views, and the operators that write to the place of one."""


def _functional(node: Node) -> OpOverload | None:
    """The operator that gives what `node` writes, of the same type."""
    schema = schema_of(node)
    name = operator_name(node).removeprefix("aten::").removesuffix("_")
    packet = getattr(torch.ops.aten, name, None)
    if schema is None or packet is None or any(map(is_node, node.kwargs.values())):
        return None
    types = {fake_tensor(value).dtype for value in node.args if is_tensor(value)}
    if len(types) > 1 and name not in _OTHER_TYPES:
        return None
    return getattr(packet, schema.overload_name or "default", None)


def _ends(node: Node, writer: Node, place: Mapping[Node, int]) -> bool:
    """Whether nobody reads the memory of `node` under another name behind `writer`."""
    for user in node.users:
        if user is writer or place[user] > place[writer] or not _may_share(user):
            continue
        if any(place[later] > place[writer] for later in user.users):
            return False
        if not _ends(user, writer, place):
            return False
    return True


def _is_last_name(node: Node, writer: Node, place: Mapping[Node, int]) -> bool:
    """Whether the memory of `node` is made here, and read as `node` alone behind `writer`."""
    made = node
    while _may_share(made):
        sources = [s for s in made.all_input_nodes if not _is_number(s)]
        if made.op != "call_function" or len(sources) != 1:
            return False
        (made,) = sources
    names = [made]
    for name in names:
        before = (user for user in name.users if place[user] < place[writer])
        names += [user for user in before if _may_share(user) and user not in names]
    readers = {user for name in names if name is not node for user in name.users}
    return all(place[user] <= place[writer] for user in readers)


def _is_number(node: Node) -> bool:
    return isinstance(node.meta.get("val"), bool | int | float | torch.SymInt)


def _read_at_once(node: Node, place: Mapping[Node, int]) -> bool:
    """Whether what a writer gives is read, if at all, before anything is written again."""
    last = max((place[user] for user in node.users), default=0)
    for other, index in place.items():
        schema = schema_of(other)
        is_writer = schema is not None and schema.is_mutable
        if place[node] < index < last and is_writer:
            return False
        if other in node.users and _may_share(other) and not (is_writer and other.args[0] != node):
            return False
    return True


def _may_share(node: Node) -> bool:
    """Whether a result may lie in the memory of an operand."""
    if node.target is operator.getitem and is_node(source := node.args[0]):
        return _may_share(source)
    schema = schema_of(node)
    if _is_number(node):
        return False
    if node.op != "call_function" or schema is None:
        return node.op != "output"
    if overload_name(node) in FRESH or operator_name(node) == "aten::clone":
        return False
    if operator_name(node) in ("aten::to", "aten::type_as"):
        source = node.args[0]
        return not is_tensor(source) or fake_tensor(source).dtype == fake_tensor(node).dtype
    if any(value.alias_info is not None for value in schema.returns):
        return True
    return is_composite(node)


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
        if is_copy or (name in _MADE and not any(map(is_free, sizes_of(fake_tensor(node).shape)))):
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


def is_written(node: Node) -> bool:
    """Whether a known tensor is written to after it is made."""
    return _MARK in node.meta


_MARK = "triton_dsl_written"


def _writes_first(node: Node) -> bool:
    """Whether an operator changes its first operand and nothing else, and not at random."""
    schema = schema_of(node)
    assert schema is not None
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return False
    written = [
        argument.alias_info is not None and argument.alias_info.is_write
        for argument in schema.arguments
    ]
    return written[:1] == [True] and sum(written) == 1
