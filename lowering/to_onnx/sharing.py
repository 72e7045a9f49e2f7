"""Weights of a finished graph that are equal, or each other's transpose, stored once.

An embedding that is tied to the layer behind is one matrix in PyTorch; here its table is [out, in]
and the product's weight [in, out]. The product reads the transposed table, which engines compute
once, when they load the file.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .graph import Array, Graph, Node

SMALLEST = 1024
"""Weights of fewer elements stay: nothing is gained."""

_SEEN = 64
"""Elements that are compared before all are."""


def share_weights(graph: Graph) -> None:
    """Store equal float matrices once, and those that MatMul reads as the transpose of another."""
    readers = _readers(graph)
    names: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for name in _matrices(graph, readers):
        array = graph.initializers[name]
        kind, shape = array.dtype.name, array.shape
        equal = _first(graph, names.get((kind, shape), []), array)
        turned = None
        if equal is None and all(node.op_type == "MatMul" for node in readers[name]):
            turned = _first(graph, names.get((kind, shape[::-1]), []), array.T)
        if equal is not None:
            for node in graph.nodes:
                node.rename(name, equal)
        elif turned is not None:
            element = graph.elements[name]
            graph.nodes.insert(0, Node("Transpose", [turned], [name], {"perm": [1, 0]}))
            graph.elements[name] = element
        else:
            names.setdefault((kind, shape), []).append(name)
            continue
        del graph.initializers[name]


def _readers(graph: Graph) -> dict[str, list[Node]]:
    readers: dict[str, list[Node]] = {}
    for node in graph.all_nodes():
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    return readers


def _matrices(graph: Graph, readers: dict[str, list[Node]]) -> Iterator[str]:
    """Large matrices that nodes read; first those that others than MatMul read."""

    def is_turned(name: str) -> bool:
        return all(node.op_type == "MatMul" for node in readers[name])

    names = [
        name
        for name, array in graph.initializers.items()
        if array.ndim == 2
        and array.size >= SMALLEST
        and name in readers
        and graph.elements[name].is_float
    ]
    yield from sorted(names, key=is_turned)


def _first(graph: Graph, names: list[str], array: Array) -> str | None:
    """The first of the stored values that is `array`, bit for bit."""
    for name in names:
        stored = graph.initializers[name]
        if _same(stored[:1, :_SEEN], array[:1, :_SEEN]) and _same(stored, array):
            return name
    return None


def _same(stored: Array, array: Array) -> bool:
    bits = f"u{stored.itemsize}"
    left, right = (np.ascontiguousarray(values).view(bits) for values in (stored, array))
    return np.array_equal(left, right)
