"""Bodies of control flow in an exported graph, written out where they are called.

Operators only compute, so `torch.cond` may compute both branches and choose between the results;
a `scan` or `map` over a known number of steps is unrolled. Not here: loops whose end depends on
values, which `unwritten` names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from .calls import fake_tensor, is_tensor
from .sizes import is_free, size_of

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node

LONGEST = 4096
"""A scan is unrolled over at most this many steps."""


def write_out_bodies(program: ExportedProgram) -> None:
    """Write out what branches and scans do; what stays is refused later as an operator."""
    _write_out(program.graph_module)


def _write_out(module: GraphModule) -> None:
    for node in list(module.graph.nodes):
        name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
        write = _WRITERS.get(name) if _is_higher_order(node) else None
        with module.graph.inserting_before(node):
            results = write and write(module, node)
        if not results:
            continue
        for user in list(node.users):
            user.replace_all_uses_with(results[user.args[1]])
            module.graph.erase_node(user)
        bodies = [source for source in node.all_input_nodes if source.op == "get_attr"]
        for unused in (node, *bodies):
            if not unused.users:
                module.graph.erase_node(unused)


def _is_higher_order(node: Node) -> bool:
    from torch._ops import HigherOrderOperator

    return isinstance(node.target, HigherOrderOperator)


def _branches(module: GraphModule, node: Node) -> list[Node] | None:
    """The results of `cond(choice, then, otherwise, operands)`."""
    import torch

    choice, then, otherwise, operands = cast("tuple[Node, Node, Node, Sequence[Node]]", node.args)
    if not is_tensor(choice):  # a statement about sizes
        return None
    chosen: list[Node] = []
    both = (_copied(module, body, operands) for body in (then, otherwise))
    for one, other in zip(*both, strict=True):
        made = module.graph.call_function(torch.ops.aten.where.self, (choice, one, other))
        made.meta = {**node.meta, "val": fake_tensor(one)}
        chosen.append(made)
    return chosen


def _steps(module: GraphModule, node: Node) -> list[Node] | None:
    """The results of `scan(body, states, runs, others)`: last states, then all steps of outputs."""
    import torch

    body, states, runs, others = cast(
        "tuple[Node, Sequence[Node], Sequence[Node], Sequence[Node]]", node.args
    )
    count = size_of(fake_tensor(runs[0]).shape[0])
    if is_free(count) or not 1 <= count <= LONGEST:
        return None
    aten, graph = torch.ops.aten, module.graph
    rows: list[Sequence[Node]] = []
    for turn in range(count):
        parts: list[Node] = []
        for run in runs:
            part = graph.call_function(aten.select.int, (run, 0, turn))
            part.meta = {**node.meta, "val": fake_tensor(run)[turn]}
            parts.append(part)
        results = _copied(module, body, [*states, *parts, *others])
        states, outputs = results[: len(states)], results[len(states) :]
        rows.append(outputs)
    stacked: list[Node] = []
    for values in zip(*rows, strict=True):
        made = graph.call_function(aten.stack.default, (list(values), 0))
        made.meta = {**node.meta, "val": torch.stack([fake_tensor(value) for value in values])}
        stacked.append(made)
    return [*states, *stacked]


def _copied(module: GraphModule, body: Node, operands: Sequence[Node]) -> list[Node]:
    """The nodes of a body for operands, at the place of insertion; its results."""
    inner = cast("GraphModule", getattr(module, str(body.target)))
    _write_out(inner)
    known: dict[Node, Node] = {}
    arguments = iter(operands)
    for node in inner.graph.nodes:
        if node.op == "placeholder":
            known[node] = next(arguments)
        elif node.op == "output":
            return [known[result] for result in cast("Sequence[Node]", node.args[0])]
        else:
            if node.op == "get_attr":  # of a body that stays
                setattr(module, str(node.target), getattr(inner, str(node.target)))
            known[node] = module.graph.node_copy(node, known.__getitem__)
    raise AssertionError("a body ends with its output")


def _mapped(module: GraphModule, node: Node) -> list[Node] | None:
    """The results of `map(body, runs, others)`: a scan without states."""
    body, runs, others = node.args
    node.args = (body, [], runs, others)
    results = _steps(module, node)
    if results is None:
        node.args = (body, runs, others)
    return results


_WRITERS: dict[str, Any] = {"cond": _branches, "map_impl": _mapped, "scan": _steps}

_FREE = "it takes a free number of steps; fix that size, as with dynamic={}"

STAYS = {
    "cond": "its condition is about sizes that are free; fix them, as with dynamic={}",
    "map_impl": _FREE,
    "scan": _FREE,
    "while_loop": "when it ends depends on values; loop in Python, a fixed number of times",
}
"""Operators with bodies that stay where they cannot be written out, and why."""


def unwritten(program: ExportedProgram) -> Iterator[tuple[Node, str]]:
    """The operators of `STAYS` that a program still has, and why."""
    for node in program.graph.nodes:
        name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
        if name in STAYS and _is_higher_order(node):
            yield node, STAYS[name]
