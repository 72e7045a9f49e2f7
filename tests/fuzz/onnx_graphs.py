"""Random ONNX graphs, from the operators of the standard.

A node is kept if ONNX's reference can run it on the values at hand, so that no shape is computed
here. What the graph must compute says `onnx_oracle`, what nodes there are `onnx_rules`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.tools.reduction import plainer

from . import cases, onnx_oracle
from .cases import Case, Expected, Undetermined, checks_of

Array = NDArray[Any]
Rule = Callable[["Writer"], "NodeProto | None"]

WIDEST = 2000
LARGEST = 1e6


def kind_of(array: Array) -> int:
    """The element type of an array in ONNX."""
    return helper.np_dtype_to_tensor_dtype(array.dtype)


@dataclass(frozen=True)
class Graph(Case):
    """A graph with its constants and inputs.

    Attributes:
        nodes: in order.
        constants: initialisers by name.
        arguments: inputs by name.
        results: names of outputs, with their element type and rank.
        opset: version of the operators.
        free: whether the sizes of the first axes are named and not stated.
    """

    KIND: ClassVar[str] = "onnx"
    nodes: tuple[NodeProto, ...]
    constants: tuple[tuple[str, Array], ...]
    arguments: tuple[tuple[str, Array], ...]
    results: tuple[tuple[str, int, int], ...]
    opset: int
    free: bool

    def model(self) -> onnx.ModelProto:
        """The file."""

        def dims(name: str, array: Array) -> list[Any]:
            shape: list[Any] = list(array.shape)
            if self.free and shape:
                shape[0] = f"{name}_0"
            return shape

        inputs = [
            helper.make_tensor_value_info(name, kind_of(a), dims(name, a))
            for name, a in self.arguments
        ]
        outputs = [
            helper.make_tensor_value_info(name, kind, [None] * rank)
            for name, kind, rank in self.results
        ]
        constants = [numpy_helper.from_array(a, name) for name, a in self.constants]
        graph = helper.make_graph(list(self.nodes), "fuzz", inputs, outputs, constants)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9
        )

    def inputs(self) -> list[Array]:
        return [array for _, array in self.arguments]

    def module(self) -> ModuleOp:
        return from_onnx(self.model())

    def expected(self) -> Expected:
        return onnx_oracle.bounded(
            self.model(),
            self.opset,
            dict(self.constants),
            dict(self.arguments),
            [name for name, _, _ in self.results],
            self.seed,
        )

    def size(self) -> int:
        return len(self.nodes)

    def building(self) -> tuple[list[str], list[str]]:
        model = self.model()
        constants = ", ".join(f"{n!r}: {cases.array_source(a)}" for n, a in self.constants)
        lines = [
            "nodes = [",
            *(f"    {_node_source(node)}," for node in self.nodes),
            "]",
            f"constants = {{{constants}}}",
            "inputs = [",
            *(
                f"    helper.make_tensor_value_info({v.name!r}, {v.type.tensor_type.elem_type}, "
                f"{_dims(v)}),"
                for v in model.graph.input
            ),
            "]",
            "outputs = [",
            *(
                f"    helper.make_tensor_value_info({n!r}, {k}, {[None] * r}),"
                for n, k, r in self.results
            ),
            "]",
            "initialisers = [numpy_helper.from_array(a, n) for n, a in constants.items()]",
            "graph = helper.make_graph(nodes, 'fuzz', inputs, outputs, initialisers)",
            f"opsets = [helper.make_opsetid('', {self.opset})]",
            "module = from_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=9))",
        ]
        return [
            "from onnx import helper, numpy_helper",
            "from triton_dsl.lowering.from_onnx import from_onnx",
        ], lines

    def values(self) -> dict[str, Array]:
        """Every value, by the reference."""
        given = {**dict(self.constants), **dict(self.arguments)}
        return onnx_oracle.Evaluator(self.opset).run(self.nodes, given)

    def reductions(self) -> Iterator[Self]:
        if len(self.results) > 1:
            for result in self.results:
                yield self.cut((result,))
        values = self.values()
        produced = [name for node in self.nodes for name in node.output if name in values]
        for name in produced:
            if name not in {n for n, _, _ in self.results}:
                yield self.cut(((name, kind_of(values[name]), values[name].ndim),))
        for index, node in enumerate(self.nodes):
            for name in node.input:
                if name and values[name].dtype == values[node.output[0]].dtype:
                    yield self.without(index, name)
        for index, node in enumerate(self.nodes):
            if not set(node.output) & {n for n, _, _ in self.results}:
                made = tuple((n, values[n]) for n in node.output if n in values)
                rest = (*self.nodes[:index], *self.nodes[index + 1 :])
                yield replace(self, nodes=rest, arguments=(*self.arguments, *made)).cut(
                    self.results
                )
        if self.free:
            yield replace(self, free=False)
        for check in self.checks:
            passes = check.pipeline.split(",")
            for index in range(len(passes) if len(passes) > 1 else 0):
                shorter = ",".join((*passes[:index], *passes[index + 1 :]))
                yield self.only(replace(check, pipeline=shorter))
        for index, node in enumerate(self.nodes):
            for number in range(len(node.attribute)):
                changed = NodeProto()
                changed.CopyFrom(node)
                del changed.attribute[number]
                yield replace(self, nodes=(*self.nodes[:index], changed, *self.nodes[index + 1 :]))
        for group in ("arguments", "constants"):
            entries: tuple[tuple[str, Array], ...] = getattr(self, group)
            for index, (name, array) in enumerate(entries):
                if group == "constants" and array.dtype.kind in "iu":
                    continue  # shapes and axes
                for plain in plainer(array):
                    changed_entries = (*entries[:index], (name, plain), *entries[index + 1 :])
                    yield replace(self, **{group: changed_entries})

    def cut(self, results: tuple[tuple[str, int, int], ...]) -> Self:
        """The graph that returns these, without what they do not need."""
        needed = {name for name, _, _ in results}
        kept: list[NodeProto] = []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                kept.insert(0, node)
                needed |= set(node.input)
        return replace(
            self,
            nodes=tuple(kept),
            results=results,
            constants=tuple(c for c in self.constants if c[0] in needed),
            arguments=tuple(a for a in self.arguments if a[0] in needed) or self.arguments[:1],
        )

    def without(self, index: int, name: str) -> Self:
        """The graph with `name` in the place of the first output of a node."""
        old = self.nodes[index].output[0]
        rest: list[NodeProto] = []
        for number, node in enumerate(self.nodes):
            if number != index:
                changed = NodeProto()
                changed.CopyFrom(node)
                for position, used in enumerate(changed.input):
                    if used == old:
                        changed.input[position] = name
                rest.append(changed)
        results = tuple((name if n == old else n, k, r) for n, k, r in self.results)
        produced = {n for node in rest for n in node.output}
        if not all(n in produced for n, _, _ in results):
            return self  # an input would be an output: no smaller graph
        return replace(self, nodes=tuple(rest)).cut(results)


def _drops_ones(node: NodeProto) -> bool:
    """Whether the rank of a result depends on which sizes are 1."""
    return node.op_type == "Squeeze" and len(node.input) == 1


def _dims(info: onnx.ValueInfoProto) -> list[Any]:
    return [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim]


def _node_source(node: NodeProto) -> str:
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    shown = "".join(
        f", {name}={(value.decode() if isinstance(value, bytes) else value)!r}"
        for name, value in attributes.items()
    )
    return f"helper.make_node({node.op_type!r}, {list(node.input)}, {list(node.output)}{shown})"


class Writer:
    """Writes one random graph."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.opset = self.random.choice([13, 14, 17, 18, 19, 20, 21])
        self.evaluator = onnx_oracle.Evaluator(self.opset)
        self.constants: list[tuple[str, Array]] = []
        self.nodes: list[NodeProto] = []
        self.arguments: list[tuple[str, Array]] = []
        names = ["float32"] * 9 + ["float64", "float16", "int8", "uint8", "int32", "int64", "int64"]
        for index in range(self.random.choice([1, 1, 2])):
            name = self.random.choice([*names, "bool"])
            rank = self.random.choice([0, 1, 2, 2, 3, 3, 4, 4, 5])
            shape = [self.random.choice([1, 2, 3, 4, 5]) for _ in range(rank)]
            self.arguments.append((f"x{index}", self.array(shape, name)))
        self.values: dict[str, Array] = dict(self.arguments)

    def array(self, shape: Sequence[int], name: str) -> Array:
        """Random numbers, often multiples of one half."""
        if name == "bool":
            return np.asarray(self.numbers.random(shape) < 0.5)
        if name.startswith("uint"):
            return np.asarray(self.numbers.integers(0, 12, shape)).astype(name)
        if name.startswith("int"):
            return np.asarray(self.numbers.integers(-9, 10, shape)).astype(name)
        numbers = self.numbers.standard_normal(shape)
        if self.numbers.random() < 0.4:
            numbers = np.round(numbers * 2) / 2
        return np.asarray(numbers).astype(name)

    def graph(self, seed: int, steps: int, rules: Sequence[Rule]) -> Graph:
        """A graph of about so many nodes."""
        made: list[str] = []
        for _ in range(30 * steps):
            if len(self.nodes) >= steps:
                break
            before = len(self.constants)
            try:
                node = self.random.choice(rules)(self)
                results = None if node is None else self.evaluator.node(node, self._inputs(node))
            except (Undetermined, ValueError, IndexError):
                node, results = None, None
            if node is None or results is None or not all(map(_is_plain, results)):
                del self.constants[before:]
                continue
            self.nodes.append(node)
            for name, result in zip(node.output, results, strict=False):
                self.values[name] = result
                made.append(name)
        chosen = made[-1:] or ["x0"]
        if len(made) > 1 and self.random.random() < 0.25:
            chosen.append(self.random.choice(made[:-1]))
        results = tuple((n, kind_of(self.values[n]), self.values[n].ndim) for n in chosen)
        whole = Graph(
            seed,
            checks_of(self.random),
            tuple(self.nodes),
            tuple(self.constants),
            tuple(self.arguments),
            results,
            self.opset,
            self.random.random() < 0.25 and not any(map(_drops_ones, self.nodes)),
        )
        return whole.cut(results)

    def _inputs(self, node: NodeProto) -> list[Array | None]:
        known = {**dict(self.constants), **self.values}
        return [known[n] if n else None for n in node.input]

    def node(
        self, kind: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any
    ) -> NodeProto:
        """A node that is not in the graph yet."""
        at = len(self.nodes)
        names = [f"v{at}" if i == 0 else f"v{at}_{i}" for i in range(outputs)]
        return helper.make_node(kind, list(inputs), names, **attributes)

    def constant(self, array: Array) -> str:
        """A new initialiser."""
        name = f"c{len(self.constants)}"
        self.constants.append((name, np.ascontiguousarray(array).reshape(np.shape(array))))
        return name

    def ints(self, values: Sequence[int]) -> str:
        """A new initialiser of sizes or axes."""
        return self.constant(np.array(values, np.int64))

    def pick(self, kinds: str = "fiub", *ranks: int) -> str:
        """A value of such element kinds (as NumPy names them) and ranks, sooner a late one.

        Raises:
            IndexError: there is none.
        """
        fitting = [
            n
            for n, a in self.values.items()
            if a.dtype.kind in kinds and (not ranks or a.ndim in ranks) and a.size
        ]
        if not fitting:
            raise IndexError
        return fitting[-1] if self.random.random() < 0.65 else self.random.choice(fitting)

    def like(self, name: str) -> str:
        """A value of the same type and shape; it may be the same one."""
        a = self.values[name]
        same = [n for n, b in self.values.items() if (b.dtype, b.shape) == (a.dtype, a.shape)]
        return self.random.choice(same)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a value."""
        return self.values[name].shape

    def axis(self, rank: int) -> int:
        """An axis, counted from either end."""
        return self.random.randrange(-rank, rank)

    def maybe(self, share: float = 0.5) -> bool:
        """True so often."""
        return self.random.random() < share


def _is_plain(result: Array) -> bool:
    if result.size > WIDEST or result.dtype.kind not in "fiub":
        return False
    if result.dtype.kind != "f" or not result.size:
        return True
    return bool(np.isfinite(result).all()) and float(np.abs(result).max()) <= LARGEST
