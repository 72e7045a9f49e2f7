"""Operators of an exported graph that are refused whatever is done with them.

Taking operators apart costs more than exporting, and a graph is read only when that is done: a
refusal that is certain from the start should not wait for it. Not here: why one is refused
(`torch_operators`), and how operators are taken apart (`exporting`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import cast

import torch
from torch import FunctionSchema
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import _pytree as pytree

from ..problems import ProblemError
from .calls import Call, is_composite, nodes_of, operator_name, schema_of
from .exporting import is_statement
from .sizes import is_of_values, sizes_of, static


def hopeless(
    program: ExportedProgram,
    computed: Sequence[Node],
    has_rule: Callable[[Node], bool],
    refused: Collection[str],
    random: Collection[str],
) -> list[Node]:
    """What results hang on, has no rule, and stays as it is when operators are taken apart.

    Args:
        program: as it is exported.
        computed: its operators that depend on inputs; others are computed while it is read, but
            for those that are refused.
        has_rule: which operators have a rule.
        refused: operators that are never taken apart, by name without overload.
        random: those of them that no known input makes known.
    """
    drawn = [node for node in nodes_of(program) if operator_name(node) in random]
    idle = {node for node in drawn if "train" in (call := Call.of(node)) and not call.flag("train")}
    missing = [
        node
        for node in dict.fromkeys((*computed, *drawn))
        if not has_rule(node)
        and node not in idle
        and not cast("FunctionSchema", schema_of(node)).is_mutable
    ]
    if not missing:
        return []
    known = cast("Mapping[object, object]", torch.export.default_decompositions())
    needed = _needed(program)

    def is_certain(node: Node) -> bool:
        if operator_name(node) in refused:
            return True
        if is_composite(node):
            return any(not has_rule(part) and part.target not in known for part in _parts(node))
        return node.target not in known

    return [node for node in missing if node in needed and is_certain(node)]


def sized_by_values(program: ExportedProgram) -> Iterator[tuple[Node, str]]:
    """What has, or is cut at or into, sizes that hang on values, and why that has no form."""
    for node in nodes_of(program):
        if operator_name(node) == "aten::where" and len(node.args) == 1:
            yield node, "the size of its result depends on values; give 'where' two values"
        elif operator_name(node) in ("aten::slice", "aten::split_with_sizes"):
            is_slice = operator_name(node) == "aten::slice"
            sizes = [end for end in node.args[2:4] if end is not None] if is_slice else node.args[1]
            try:
                static(sizes_of(cast("Sequence[int]", sizes)), "bounds" if is_slice else "pieces")
            except ProblemError as problem:
                if is_of_values(str(problem)):
                    yield node, str(problem)


def _parts(node: Node) -> list[Node]:
    """The operators that a composite one calls, by itself; none where that cannot be told.

    Without those that change a tensor, which become others later, and those that hang on no
    tensor, which are computed while the graph is read.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    values = [value.meta.get("val") for value in node.all_input_nodes]
    places = {id(value): index for index, value in enumerate(node.all_input_nodes)}
    arguments = cast("list[object]", pytree.tree_leaves((node.args, node.kwargs)))
    _, layout = pytree.tree_flatten((node.args, node.kwargs))

    def call(*inputs: object) -> object:
        given = [inputs[places[id(value)]] if id(value) in places else value for value in arguments]
        args, kwargs = pytree.tree_unflatten(given, layout)
        return cast("OpOverload", node.target)(*args, **kwargs)

    try:
        graph = make_fx(call, tracing_mode="fake")(*map(example, values)).graph
    except Exception:
        return []
    graph.eliminate_dead_code()
    given: set[Node] = set()
    for part in graph.nodes:
        if part.op == "placeholder" or any(source in given for source in part.all_input_nodes):
            given.add(part)
    schemas = [(part, schema_of(part)) for part in graph.nodes if part in given]
    return [
        part
        for part, schema in schemas
        if schema is not None and not schema.is_mutable and not is_statement(part)
    ]


def example(value: object) -> object:
    """A value for the sizes of the example: a trace is not to fix a free size."""
    if isinstance(value, torch.SymInt):
        return cast("int", value.node.hint)
    if not isinstance(value, torch.Tensor):
        return value
    shape, strides = ([example(size) for size in sizes] for sizes in (value.shape, value.stride()))
    kind = value.dtype
    return torch.empty_strided(
        cast("list[int]", shape), cast("list[int]", strides), dtype=kind, device="meta"
    )


def _needed(program: ExportedProgram) -> set[Node]:
    """The nodes that a result hangs on, or that change a tensor."""
    needed: set[Node] = set()
    for node in reversed(nodes_of(program)):
        schema = schema_of(node)
        changes = schema is not None and schema.is_mutable
        if node.op == "output" or changes or any(user in needed for user in node.users):
            needed.add(node)
    return needed
