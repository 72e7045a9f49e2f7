"""From the steps of a neuron in an exported graph to one operator over all steps.

A loop over time leaves one `triton_dsl_library::step` for each step, chained by the state. Here
they become one `run` on the inputs of all steps, and so do the operators between neurons, where an
operator treats steps as it treats a batch: time first. What cannot be done for all steps at once is
stacked. Not here: the operators themselves (`library_neurons`).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias, cast

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.node import Argument, Target, map_arg

from ...ir.errors import LoweringError
from .calls import Call, fake_tensor, nodes_of, operator_name
from .library_neurons import STEP, operators
from .sizes import is_free, is_node, sizes_of
from .torch_operators import ELEMENTWISE

Joined: TypeAlias = "tuple[bool, Node]"
"""Whether a node for all steps has the axis of time, and the node."""

_BY_SAMPLE = frozenset({
    "aten::adaptive_avg_pool1d", "aten::adaptive_avg_pool2d", "aten::adaptive_max_pool2d",
    "aten::avg_pool1d", "aten::avg_pool2d", "aten::batch_norm", "aten::conv1d", "aten::conv2d",
    "aten::group_norm", "aten::max_pool1d", "aten::max_pool2d",
})  # fmt: skip
"""Operators that treat each sample of the first axis of their first operand by itself."""

_RESHAPES = frozenset({"aten::reshape", "aten::view"})


def roll_steps(program: ExportedProgram) -> None:
    """Join the steps of each neuron of an exported program; nothing where there are none.

    Raises:
        LoweringError: a neuron's state is changed between steps, or its spikes feed back to it.
    """
    nodes = [node for node in nodes_of(program) if operator_name(node) == STEP]
    if nodes:
        _Roller(program, nodes).run()


class _Roller:
    """Joins the chains of one graph.

    Attributes:
        chains: the steps of each neuron in order, by its place.
        times: the step that a node is, by its chain's place.
        runs: the operator over all steps, where it is made.
    """

    def __init__(self, program: ExportedProgram, steps: Sequence[Node]) -> None:
        self.program, self.graph = program, program.graph
        self.chains: dict[str, list[Node]] = {}
        self.times: dict[Node, tuple[str, int]] = {}
        for node in steps:
            place: str = Call.of(node).settings["place"]
            chain = self.chains.setdefault(place, [])
            self.times[node] = (place, len(chain))
            chain.append(node)
        self.runs: dict[str, Node] = {}
        self.parts: dict[tuple[str, int], Node] = {}
        self.active: list[str] = []
        self.joined: dict[tuple[Node, ...], Joined | None] = {}
        self.end = next(node for node in nodes_of(program) if node.op == "output")

    def run(self) -> None:
        """All chains, then what is stacked, then the reads of single steps."""
        for place in self.chains:
            self._roll(place)
        for node in nodes_of(self.program):
            if operator_name(node) != "aten::stack" or not node.users:
                continue
            stack = Call.of(node)
            if not stack.integer("dim"):
                steps = stack.tensors("tensors")
                joined = self._joined(steps)
                if joined is not None:
                    self._replace(node, self._spread(joined, len(steps)))
        while reads := self._reached()[1]:
            for part in reads:
                step, index = _part(part)
                place, time = self.times[step]
                whole = self._part(place, index)
                self._replace(part, self._new("select.int", (whole, 0, time), part))
        self._erase(self._reached()[0])
        self._sort()
        self.program.graph_module.recompile()

    # Chains.

    def _roll(self, place: str) -> Node:
        if place in self.runs:
            return self.runs[place]
        chain = self.chains[place]
        self.active.append(place)
        for before, step in pairwise(chain):
            if not _continues(before, step):
                raise LoweringError(f"the state of '{place}' is changed between its steps")
        first = chain[0]
        x = self._over_time([Call.of(step)["x"] for step in chain])
        run = self._new(operators().run.default, (x, *first.args[1:]), first)
        self.runs[place] = run
        self.active.pop()
        return run

    def _part(self, place: str, index: int) -> Node:
        """The spikes (0) or a state of all steps."""
        if index and not Call.of(self.chains[place][0]).settings["shown"]:
            raise LoweringError(
                f"the potential of '{place}' is read after a step, and the IR has it after the "
                "last one alone; read its spikes, or leave its reset out (reset_mechanism='none')"
            )
        if (place, index) not in self.parts:
            run = self._roll(place)
            self.parts[place, index] = self._new(operator.getitem, (run, index), run)
        return self.parts[place, index]

    # The same for all steps.

    def _over_time(self, nodes: list[Node]) -> Node:
        joined = self._joined(nodes)
        if joined is None:
            return self._new("stack.default", (nodes, 0), nodes[0])
        return self._spread(joined, len(nodes))

    def _spread(self, joined: Joined, steps: int) -> Node:
        varies, node = joined
        if varies:
            return node
        first = self._new("unsqueeze.default", (node, 0), node)
        sizes = [steps, *(-1 for _ in fake_tensor(node).shape)]
        return self._new("expand.default", (first, sizes), node)

    def _joined(self, nodes: list[Node]) -> Joined | None:
        """One node for `nodes`, one a step; `None` where they are not the same operator on such."""
        if all(node is nodes[0] for node in nodes):
            return False, nodes[0]
        key = tuple(nodes)
        if key not in self.joined:
            rules = (self._join_steps, self._join_slices, self._join_operators)
            results = (rule(nodes) for rule in rules)
            self.joined[key] = next((result for result in results if result is not None), None)
        return self.joined[key]

    def _join_steps(self, nodes: list[Node]) -> Joined | None:
        """Results of a neuron at all steps, in order."""
        if any(n.target is not operator.getitem or n.args[0] not in self.times for n in nodes):
            return None
        parts = [_part(node) for node in nodes]
        step, index = parts[0]
        place = self.times[step][0]
        if parts != [(step, index) for step in self.chains[place]]:
            return None
        if place in self.active:
            raise LoweringError(_feeds_back(place))
        return True, self._part(place, index)

    def _join_slices(self, nodes: list[Node]) -> Joined | None:
        """All steps of one tensor, in order."""
        places = [_slice(node) for node in nodes]
        if places[0] is None:
            return None
        source, axis, _ = places[0]
        if places != [(source, axis, time) for time in range(len(nodes))]:
            return None
        sizes = sizes_of(fake_tensor(source).shape)
        if sizes[axis] != len(nodes):
            return None
        if axis == 0:
            return True, source
        order = [axis, *(i for i in range(len(sizes)) if i != axis)]
        return True, self._new("permute.default", (source, order), nodes[0])

    def _join_operators(self, nodes: list[Node]) -> Joined | None:
        first = nodes[0]
        name = operator_name(first)
        alike = all(
            node.target == first.target
            and len(node.args) == len(first.args)
            and node.kwargs == first.kwargs
            for node in nodes
        )
        if not alike or not name.startswith("aten::"):
            return None
        arguments: list[Argument] = []
        varying: dict[int, Node] = {}
        for index, values in enumerate(zip(*(node.args for node in nodes), strict=True)):
            tensors = list(filter(is_node, values))
            if len(tensors) == len(values):
                joined = self._joined(tensors)
                if joined is None:
                    return None
                varies, node = joined
                varying |= {index: node} if varies else {}
                arguments.append(node)
            elif all(value == values[0] for value in values):
                arguments.append(values[0])
            else:
                return None
        if not varying:
            return False, first
        node = self._applied(name, first, arguments, varying, len(nodes))
        return None if node is None else (True, node)

    def _applied(
        self,
        name: str,
        first: Node,
        arguments: Sequence[Argument],
        varying: Mapping[int, Node],
        steps: int,
    ) -> Node | None:
        """The operator on arguments of which `varying` have the axis of time."""
        if name in ELEMENTWISE:
            rank = fake_tensor(first).dim()
            full = all(fake_tensor(node).dim() == rank + 1 for node in varying.values())
            return self._new(first.target, arguments, first, first.kwargs) if full else None
        if set(varying) != {0}:
            return None
        x, call = varying[0], Call.of(first)
        if name == "aten::linear":
            return self._new(first.target, arguments, first, first.kwargs)
        if name in _RESHAPES:
            sizes = [steps, *cast("Sequence[Argument]", arguments[1])]
            return self._new("reshape.default", (x, sizes), first)
        if name == "aten::flatten":
            axes = [call.integer("start_dim"), call.integer("end_dim")]
            return self._new("flatten.using_ints", (x, *(a + (a >= 0) for a in axes)), first)
        if name not in _BY_SAMPLE:
            return None
        fold = self._new("flatten.using_ints", (x, 0, 1), first)
        rows = self._new(first.target, (fold, *arguments[1:]), first, first.kwargs)
        return self._new("unflatten.int", (rows, 0, [steps, -1]), first)

    # The graph.

    def _new(
        self,
        target: Target,
        args: Sequence[Argument],
        like: Node,
        kwargs: Mapping[str, Argument] | None = None,
    ) -> Node:
        """A node at the end of the graph, with the place of `like`; `target` may be of ATen."""
        function = target
        if isinstance(target, str):
            name, overload = target.split(".")
            function = getattr(getattr(torch.ops.aten, name), overload)
        assert callable(function)
        with self.graph.inserting_before(self.end):
            node = self.graph.call_function(function, tuple(args), dict(kwargs or {}))
        node.meta = {
            key: value for key, value in like.meta.items()
            if key in ("nn_module_stack", "stack_trace")
        }  # fmt: skip
        with torch.no_grad():
            fakes = map_arg(node.args, fake_tensor), map_arg(node.kwargs, fake_tensor)
            node.meta["val"] = function(*fakes[0], **fakes[1])
        return node

    def _replace(self, old: Node, new: Node) -> None:
        self.program.graph_signature.replace_all_uses(old.name, new.name)
        old.replace_all_uses_with(new)

    def _reached(self) -> tuple[set[Node], list[Node]]:
        """The nodes behind the results, and among them results of steps, which end the search."""
        reached: set[Node] = set()
        reads: list[Node] = []
        stack = [self.end]
        while stack:
            node = stack.pop()
            if node in reached:
                continue
            reached.add(node)
            if node.target is operator.getitem and node.args[0] in self.times:
                reads.append(node)
            else:
                stack += node.all_input_nodes
        return reached, reads

    def _erase(self, live: set[Node]) -> None:
        """Remove the calls that are not live."""
        dropped = [n for n in nodes_of(self.program) if n.op == "call_function" and n not in live]
        for node in dropped:
            node.args, node.kwargs = (), {}
        for node in dropped:
            self.graph.erase_node(node)

    def _sort(self) -> None:
        """Put every node behind those that it takes."""
        done: set[Node] = set()
        waiting: set[Node] = set()
        order: list[Node] = []
        for root in nodes_of(self.program):
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


def _part(node: Node) -> tuple[Node, int]:
    """The node of which one is a result, and which."""
    step, index = node.args
    return cast("Node", step), cast(int, index)


def _continues(before: Node, step: Node) -> bool:
    """Whether a step takes all states that the one before gave."""
    call = Call.of(step)
    initial = call.tensors("initial")
    return len(initial) == call.settings["states"] and all(
        state.target is operator.getitem and state.args == (before, index + 1)
        for index, state in enumerate(initial)
    )


def _slice(node: Node) -> tuple[Node, int, int] | None:
    """The tensor, axis and index of which a node is a part."""
    if operator_name(node) == "aten::select":
        call = Call.of(node)
        index = call.size("index")
    elif node.target is operator.getitem and operator_name(_part(node)[0]) == "aten::unbind":
        source, index = _part(node)
        call = Call.of(source)
    else:
        return None
    source = call["self"]
    if is_free(index):
        return None
    return source, call.axis(fake_tensor(source).dim()), index
