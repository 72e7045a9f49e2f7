"""Keeps LiteRT from writing over tensors that are still read.

LiteRT's planner of memory lets a view share the memory of its operand, and arithmetic write over an
operand that nobody else reads. It asks for other readers of that operand and of the tensor that has
the memory first, but not of those between: in `b = a - 1; c = reshape(b) + 1; b < c`, where nobody
else reads `a`, the sum is written over `b` (`ArenaPlanner::IdentifyInPlaceTensors`, LiteRT 2.3).
XNNPACK has a planner of its own, and takes floats alone. Not here: the order of operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...dialects.shapes import DYNAMIC
from .graph import Graph, Operator, Tensor

_VIEWS = frozenset({"BITCAST", "EXPAND_DIMS", "RESHAPE", "SQUEEZE"})
"""Operators whose result may have the memory of their operand."""

_OVERWRITE = {"ADD": 2, "DIV": 2, "DYNAMIC_UPDATE_SLICE": 1, "MUL": 2, "SOFTMAX": 1, "SUB": 2}
"""Operators that may write over one of so many first operands."""


def part_shared(graph: Graph) -> None:
    """Copy what an operator would write over while others read it."""
    uses = graph.uses()
    source: dict[Tensor, Tensor] = {}
    operators: list[Operator] = []
    for op in graph.operators:
        shared = _shared(graph, op, uses)
        if shared is not None and op.kind in _OVERWRITE:
            chain = [*_chain(shared, source)]
            if any(uses[tensor] > 1 for tensor in chain[1:-1]):
                copied = Tensor(shared.name, shared.element, shared.shape, None,
                                shared.quantization)  # fmt: skip
                # The greater of a tensor and itself is a copy for all types and ranks.
                operators.append(Operator("MAXIMUM", [shared, shared], [copied]))
                uses[copied] = 1
                op.inputs = [copied if tensor is shared else tensor for tensor in op.inputs]
                shared = copied
            elif uses[chain[-1]] > 1:
                shared = None
        if shared is not None:
            source[op.outputs[0]] = shared
        operators.append(op)
    graph.operators = operators


def _shared(graph: Graph, op: Operator, uses: Mapping[Tensor, int]) -> Tensor | None:
    """The operand whose memory the first result of an operator may have."""
    result = op.outputs[0]
    if result in graph.outputs:
        return None
    count = 1 if op.kind in _VIEWS else _OVERWRITE.get(op.kind, 0)
    for tensor in op.inputs[:count]:
        if tensor is None or tensor.data is not None or tensor in graph.inputs:
            continue
        if op.kind in _VIEWS or (uses[tensor] == 1 and _may_fit(tensor, result)):
            return tensor
    return None


def _may_fit(operand: Tensor, result: Tensor) -> bool:
    """Whether both may have as many elements of one size."""
    pairs = zip(operand.shape[::-1], result.shape[::-1], strict=False)
    extra = result.shape[: max(result.rank - operand.rank, 0)]
    sizes = [*pairs, *((1, size) for size in extra)]
    same = operand.element.bits == result.element.bits
    return same and all(DYNAMIC in pair or pair[0] == pair[1] for pair in sizes)


def _chain(tensor: Tensor, source: Mapping[Tensor, Tensor]) -> Iterator[Tensor]:
    """A tensor and those before it in its memory, the first one last."""
    yield tensor
    while tensor in source:
        tensor = source[tensor]
        yield tensor
