"""From the steps of a neuron in an exported graph to one operator over all steps.

A loop over time leaves one `triton_dsl_library::step` for each step, chained by the state. Here
they become one `run` on the inputs of all steps, and so do the operators between neurons, where an
operator treats steps as it treats a batch: time first. What cannot be done for all steps at once is
stacked. Not here: the operators themselves (`library_neurons`).
"""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ...ir.errors import LoweringError
from .library_neurons import STEP, operators
from .torch_operators import ELEMENTWISE

_LIKE_ELEMENTWISE = frozenset({
    "aten::alias", "aten::clone", "aten::contiguous", "aten::detach", "aten::detach_",
    "aten::dropout", "aten::to", "aten::_to_copy",
})  # fmt: skip

_BY_SAMPLE = frozenset({
    "aten::adaptive_avg_pool1d", "aten::adaptive_avg_pool2d", "aten::adaptive_max_pool2d",
    "aten::avg_pool1d", "aten::avg_pool2d", "aten::batch_norm", "aten::conv1d", "aten::conv2d",
    "aten::group_norm", "aten::max_pool1d", "aten::max_pool2d",
})  # fmt: skip
"""Operators that treat each sample of the first axis of their first operand by itself."""

_RESHAPES = frozenset({"aten::reshape", "aten::view"})


def roll_steps(program: Any) -> None:
    """Join the steps of each neuron of an exported program; nothing where there are none.

    Raises:
        LoweringError: a neuron's state is changed between steps, or its spikes feed back to it.
    """
    nodes = [node for node in program.graph.nodes if _name(node) == STEP]
    if nodes:
        _Roller(program, nodes).run()


class _Roller:
    """Joins the chains of one graph.

    Attributes:
        chains: the steps of each neuron in order, by its place.
        times: the step that a node is, by its chain's place.
        runs: the operator over all steps, where it is made.
    """

    def __init__(self, program: Any, steps: Sequence[Any]) -> None:
        self.program, self.graph = program, program.graph
        self.chains: dict[str, list[Any]] = {}
        self.times: dict[Any, tuple[str, int]] = {}
        for node in steps:
            chain = self.chains.setdefault(_settings(node)["place"], [])
            self.times[node] = (_settings(node)["place"], len(chain))
            chain.append(node)
        self.runs: dict[str, Any] = {}
        self.parts: dict[tuple[str, int], Any] = {}
        self.active: list[str] = []
        self.joined: dict[tuple[Any, ...], Any] = {}
        self.end = next(node for node in self.graph.nodes if node.op == "output")

    def run(self) -> None:
        """All chains, then what is stacked, then the reads of single steps."""
        for place in self.chains:
            self._roll(place)
        for node in list(self.graph.nodes):
            if _name(node) == "aten::stack" and node.users and not _axis(node, 1):
                made = self._joined(list(node.args[0]))
                if made is not None:
                    self._replace(node, self._spread(made, len(node.args[0])))
        while reads := self._reached()[1]:
            for part in reads:
                place, time = self.times[part.args[0]]
                whole = self._part(place, part.args[1])
                self._replace(part, self._new("select.int", (whole, 0, time), part))
        self._erase(self._reached()[0])
        self._sort()
        self.program.graph_module.recompile()

    # Chains.

    def _roll(self, place: str) -> Any:
        if place in self.runs:
            return self.runs[place]
        chain = self.chains[place]
        self.active.append(place)
        for before, step in pairwise(chain):
            if not _continues(before, step):
                raise LoweringError(f"the state of '{place}' is changed between its steps")
        first = chain[0]
        x = self._over_time([step.args[0] for step in chain])
        made = self._new(operators().run.default, (x, *first.args[1:]), first)
        self.runs[place] = made
        self.active.pop()
        return made

    def _part(self, place: str, index: int) -> Any:
        """The spikes (0) or a state of all steps."""
        settings = _settings(self.chains[place][0])
        if index and not settings["shown"]:
            raise LoweringError(
                f"the potential of '{place}' is read after a step, and the IR has it after the "
                "last one alone; read its spikes, or leave its reset out (reset_mechanism='none')"
            )
        if (place, index) not in self.parts:
            run = self._roll(place)
            self.parts[place, index] = self._new(operator.getitem, (run, index), run)
        return self.parts[place, index]

    # The same for all steps.

    def _over_time(self, nodes: list[Any]) -> Any:
        made = self._joined(nodes)
        if made is None:
            return self._new("stack.default", (nodes, 0), nodes[0])
        return self._spread(made, len(nodes))

    def _spread(self, made: tuple[bool, Any], steps: int) -> Any:
        varies, node = made
        if varies:
            return node
        first = self._new("unsqueeze.default", (node, 0), node)
        sizes = [steps, *(-1 for _ in node.meta["val"].shape)]
        return self._new("expand.default", (first, sizes), node)

    def _joined(self, nodes: list[Any]) -> tuple[bool, Any] | None:
        """One node for `nodes`, one a step: whether it has the axis of time, and the node.

        `None` where they are not the same operator on such nodes.
        """
        if all(node is nodes[0] for node in nodes):
            return False, nodes[0]
        key = tuple(nodes)
        if key not in self.joined:
            self.joined[key] = self._join(nodes)
        return self.joined[key]

    def _join(self, nodes: list[Any]) -> tuple[bool, Any] | None:
        for rule in (self._join_steps, self._join_slices, self._join_operators):
            made = rule(nodes)
            if made is not None:
                return made
        return None

    def _join_steps(self, nodes: list[Any]) -> tuple[bool, Any] | None:
        """Results of a neuron at all steps, in order."""
        if any(n.target is not operator.getitem or n.args[0] not in self.times for n in nodes):
            return None
        index = nodes[0].args[1]
        place = self.times[nodes[0].args[0]][0]
        wanted = [(place, time) for time in range(len(self.chains[place]))]
        found = [self.times[node.args[0]] for node in nodes]
        if found != wanted or any(node.args[1] != index for node in nodes):
            return None
        if place in self.active:
            raise LoweringError(_feeds_back(place))
        return True, self._part(place, index)

    def _join_slices(self, nodes: list[Any]) -> tuple[bool, Any] | None:
        """All steps of one tensor, in order."""
        places = [_slice(node) for node in nodes]
        if places[0] is None:
            return None
        source, axis, _ = places[0]
        if places != [(source, axis, time) for time in range(len(nodes))]:
            return None
        shape = source.meta["val"].shape
        if not isinstance(shape[axis], int) or shape[axis] != len(nodes):
            return None
        if axis == 0:
            return True, source
        order = [axis, *(i for i in range(len(shape)) if i != axis)]
        return True, self._new("permute.default", (source, order), nodes[0])

    def _join_operators(self, nodes: list[Any]) -> tuple[bool, Any] | None:
        first = nodes[0]
        name = _name(first)
        alike = all(
            node.target == first.target
            and len(node.args) == len(first.args)
            and node.kwargs == first.kwargs
            for node in nodes
        )
        if not alike or not name.startswith("aten::"):
            return None
        arguments: list[Any] = []
        varying: list[int] = []
        for index, given in enumerate(zip(*(node.args for node in nodes), strict=True)):
            if all(hasattr(value, "meta") for value in given):
                made = self._joined(list(given))
                if made is None:
                    return None
                varies, value = made
                varying += [index] if varies else []
                arguments.append(value)
            elif all(value == given[0] for value in given):
                arguments.append(given[0])
            else:
                return None
        if not varying:
            return False, first
        made = self._applied(name, first, arguments, varying, len(nodes))
        return None if made is None else (True, made)

    def _applied(
        self, name: str, first: Any, arguments: list[Any], varying: list[int], steps: int
    ) -> Any:
        """The operator on arguments of which `varying` have the axis of time."""
        if name in ELEMENTWISE | _LIKE_ELEMENTWISE:
            rank = len(first.meta["val"].shape)
            full = all(len(arguments[i].meta["val"].shape) == rank + 1 for i in varying)
            return self._new(first.target, tuple(arguments), first, first.kwargs) if full else None
        if varying != [0]:
            return None
        if name == "aten::linear":
            return self._new(first.target, tuple(arguments), first, first.kwargs)
        if name in _RESHAPES:
            sizes = [steps, *arguments[1]]
            return self._new("reshape.default", (arguments[0], sizes), first)
        if name == "aten::flatten":
            start, end = [*first.args[1:], *(0, -1)[len(first.args) - 1 :]]
            places = [axis + 1 if axis >= 0 else axis for axis in (start, end)]
            return self._new("flatten.using_ints", (arguments[0], *places), first)
        if name not in _BY_SAMPLE:
            return None
        fold = self._new("flatten.using_ints", (arguments[0], 0, 1), first)
        done = self._new(first.target, (fold, *arguments[1:]), first, first.kwargs)
        return self._new("unflatten.int", (done, 0, [steps, -1]), first)

    # The graph.

    def _new(self, target: Any, args: tuple[Any, ...], like: Any, kwargs: Any = None) -> Any:
        """A node at the end of the graph, with the place of `like`."""
        import torch
        from torch.fx.node import map_arg

        if isinstance(target, str):
            name, overload = target.split(".")
            target = getattr(getattr(torch.ops.aten, name), overload)
        with self.graph.inserting_before(self.end):
            node = self.graph.call_function(target, args, dict(kwargs or {}))
        node.meta = {
            key: value for key, value in like.meta.items()
            if key in ("nn_module_stack", "stack_trace")
        }  # fmt: skip
        with torch.no_grad():
            real = map_arg(node.args, _value), map_arg(node.kwargs, _value)
            node.meta["val"] = target(*real[0], **real[1])
        return node

    def _replace(self, old: Any, new: Any) -> None:
        self.program.graph_signature.replace_all_uses(old.name, new.name)
        old.replace_all_uses_with(new)

    def _reached(self) -> tuple[set[Any], list[Any]]:
        """The nodes behind the results, and among them results of steps, which end the search."""
        found: set[Any] = set()
        reads: list[Any] = []
        stack = [self.end]
        while stack:
            node = stack.pop()
            if node in found:
                continue
            found.add(node)
            if node.target is operator.getitem and node.args[0] in self.times:
                reads.append(node)
            else:
                stack += node.all_input_nodes
        return found, reads

    def _erase(self, kept: set[Any]) -> None:
        dropped = [n for n in self.graph.nodes if n.op == "call_function" and n not in kept]
        for node in dropped:
            node.args, node.kwargs = (), {}
        for node in dropped:
            self.graph.erase_node(node)

    def _sort(self) -> None:
        """Put every node behind those that it takes."""
        done: set[Any] = set()
        waiting: set[Any] = set()
        order: list[Any] = []
        for root in list(self.graph.nodes):
            stack = [root]
            while stack:
                node = stack[-1]
                missing = [value for value in node.all_input_nodes if value not in done]
                if node in done or not missing:
                    stack.pop()
                    if node not in done:
                        done.add(node)
                        order.append(node)
                    continue
                if node in waiting:
                    raise LoweringError(_feeds_back(", ".join(self.chains)))
                waiting.add(node)
                stack += missing
        for before, node in pairwise(order):
            before.append(node)


def _feeds_back(place: str) -> str:
    return (
        f"spikes feed back to '{place}' within the loop over time; write the recurrence as "
        "spike.recurrent, or leave it out"
    )


def _name(node: Any) -> str:
    target = node.target
    return target.name().split(".")[0] if hasattr(target, "_schema") else str(target)


def _settings(node: Any) -> dict[str, Any]:
    return json.loads(node.args[3])


def _value(node: Any) -> Any:
    return node.meta["val"]


def _axis(node: Any, place: int) -> int:
    return node.args[place] if len(node.args) > place else node.kwargs.get("dim", 0)


def _continues(before: Any, step: Any) -> bool:
    """Whether a step takes all states that the one before gave."""
    initial = step.args[1]
    return len(initial) == _settings(step)["states"] and all(
        state.target is operator.getitem and state.args == (before, index + 1)
        for index, state in enumerate(initial)
    )


def _slice(node: Any) -> tuple[Any, int, int] | None:
    """The tensor, axis and index of which a node is a part."""
    if _name(node) == "aten::select":
        source, axis, index = node.args
    elif node.target is operator.getitem and _name(node.args[0]) == "aten::unbind":
        source, index = node.args[0].args[0], node.args[1]
        axis = _axis(node.args[0], 1)
    else:
        return None
    if not isinstance(index, int):
        return None
    return source, axis % len(source.meta["val"].shape), index
