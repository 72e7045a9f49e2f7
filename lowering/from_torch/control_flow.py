"""Bodies of control flow in an exported graph, written out where they are called.

Operators only compute, so `torch.cond` may compute both branches and choose between the results;
a `scan` or `map` over a known number of steps is unrolled, and so is a `while_loop` whose end hangs
on counters alone. Not here: loops whose end depends on values, which `unwritten` names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from .calls import fake_tensor, is_tensor, operator_name, schema_of
from .sizes import is_free, is_node, size_of

Result: TypeAlias = "Node | float"
"""What a body gives: the result of a node, or a number."""

KnownValues: TypeAlias = "dict[Node, Tensor | float | None]"
"""What nodes give by constants alone; `None` where that is not known."""

LONGEST = 4096
"""Loops are unrolled over at most this many steps."""

_MOST_NODES, _MOST_VALUES = 100_000, 1 << 16
"""Nodes of a graph to which no more turns of a loop are added; elements of what counters may be."""


def write_out_bodies(program: ExportedProgram) -> None:
    """Write out what branches and scans do; what stays is refused later as an operator."""
    lifted = program.graph_signature.inputs_to_lifted_tensor_constants
    known: KnownValues = {
        node: cast("Tensor", program.constants[lifted[node.name]])
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in lifted
    }
    _write_out(program.graph_module, known)


def _write_out(module: GraphModule, known: KnownValues) -> None:
    for node in list(module.graph.nodes):
        name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
        write = _WRITERS.get(name) if _is_higher_order(node) else None
        with module.graph.inserting_before(node):
            results = write and write(module, node, known)
        if not results:
            continue
        for user in list(node.users):
            _replace(user, results[user.args[1]])
            module.graph.erase_node(user)
        bodies = [source for source in node.all_input_nodes if source.op == "get_attr"]
        for unused in (node, *bodies):
            if not unused.users:
                module.graph.erase_node(unused)


def _replace(node: Node, result: Result) -> None:
    if is_node(result):
        node.replace_all_uses_with(result)
        return
    for user in list(node.users):
        parts = map_arg((user.args, user.kwargs), lambda n: result if n is node else n)
        user.args, user.kwargs = cast("tuple[Any, Any]", parts)


def _is_higher_order(node: Node) -> bool:
    return isinstance(node.target, HigherOrderOperator)


def _branches(module: GraphModule, node: Node, _: KnownValues) -> list[Node] | None:
    """The results of `cond(choice, then, otherwise, operands)`."""
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


def _steps(module: GraphModule, node: Node, _: KnownValues) -> list[Node] | None:
    """The results of `scan(body, states, runs, others)`: last states, then all steps of outputs."""
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


def _turns(module: GraphModule, node: Node, known: KnownValues) -> list[Result] | None:
    """The last states of `while_loop(condition, body, states, others)`."""
    condition, body, states, others = cast(
        "tuple[Node, Node, Sequence[Result], Sequence[Result]]", node.args
    )
    before = node.prev
    for _ in range(LONGEST + 1):
        last = node.prev
        (goes_on,) = _copied(module, condition, [*states, *others])
        value = _value(goes_on, known)
        _erase_after(last, node)
        if value is None or len(module.graph.nodes) > _MOST_NODES:
            break
        if not value:
            return [*states]
        states = _copied(module, body, [*states, *others])
    _erase_after(before, node)
    return None


def _erase_after(last: Node, end: Node) -> None:
    while end.prev is not last:
        end.graph.erase_node(end.prev)


def _value(result: Result, known: KnownValues) -> Tensor | float | None:
    """What constants alone make a result."""
    if not is_node(result):
        return result
    if result not in known:
        known[result] = None
        name, schema = operator_name(result), schema_of(result)
        sources = result.all_input_nodes[name in _OF_TYPE :]
        values = [_value(source, known) for source in sources]
        large = is_tensor(result) and fake_tensor(result).numel() > _MOST_VALUES
        changes = large or schema is None or (schema.is_mutable and name != "aten::detach_")
        if not changes and None not in values and not any(map(_is_changed, sources)):
            empty = (
                []
                if sources == result.all_input_nodes
                else [torch.empty(0, dtype=fake_tensor(result).dtype)]
            )
            given = dict(zip(result.all_input_nodes, [*empty, *values], strict=True))
            args, kwargs = map_arg((result.args, result.kwargs), given.__getitem__)
            with torch.no_grad():
                known[result] = cast("Any", result.target)(*args, **kwargs)
    return known[result]


_OF_TYPE = {"aten::new_full", "aten::new_ones", "aten::new_zeros"}
"""Operators that ask the first tensor for its type alone."""


def _is_changed(node: Node) -> bool:
    """Whether an operator changes it in place."""
    schemas = [(operator_name(user), schema_of(user)) for user in node.users]
    return any(
        schema is not None and schema.is_mutable and name != "aten::detach_"
        for name, schema in schemas
    )


def _copied(module: GraphModule, body: Node, operands: Sequence[Result]) -> list[Any]:
    """The nodes of a body for operands, at the place of insertion; its results.

    What is computed of numbers is a number.
    """
    inner = cast("GraphModule", getattr(module, str(body.target)))
    _write_out(inner, {})
    known: dict[Node, Result] = {}
    arguments = iter(operands)
    for node in inner.graph.nodes:
        if node.op == "placeholder":
            known[node] = next(arguments)
        elif node.op == "output":
            given = cast("Node | Sequence[Node]", node.args[0])
            results = [given] if is_node(given) else given
            return [known.get(result, result) for result in results]
        else:
            if node.op == "get_attr":  # of a body that stays
                setattr(module, str(node.target), getattr(inner, str(node.target)))
            made = module.graph.node_copy(node, known.__getitem__)
            known[node] = made
            if made.op == "call_function" and schema_of(made) is None and not made.all_input_nodes:
                known[node] = cast("Any", made.target)(*made.args, **made.kwargs)
                module.graph.erase_node(made)
    raise AssertionError("a body ends with its output")


def _mapped(module: GraphModule, node: Node, known: KnownValues) -> list[Node] | None:
    """The results of `map(body, runs, others)`: a scan without states."""
    body, runs, others = node.args
    node.args = (body, [], runs, others)
    results = _steps(module, node, known)
    if results is None:
        node.args = (body, runs, others)
    return results


_WRITERS: dict[str, Any] = {
    "cond": _branches,
    "map_impl": _mapped,
    "scan": _steps,
    "while_loop": _turns,
}

_FREE = "it takes a free number of steps; fix that size, as with dynamic={}"

STAYS = {
    "cond": "its condition is about sizes that are free; fix them, as with dynamic={}",
    "map_impl": _FREE,
    "scan": _FREE,
    "while_loop": "when it ends depends on values, or is too far away; loop in Python, a fixed "
    "number of times",
}
"""Operators with bodies that stay where they cannot be written out, and why."""


def unwritten(program: ExportedProgram) -> Iterator[tuple[Node, str]]:
    """The operators of `STAYS` that a program still has, and why."""
    for node in program.graph.nodes:
        name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
        if name in STAYS and _is_higher_order(node):
            yield node, STAYS[name]
