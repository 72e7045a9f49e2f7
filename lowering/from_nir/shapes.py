"""What flows along the edges of a NIR graph: the shape that each node takes and gives.

Computed from the nodes' own fields and from their sources, kernels of any form and strided `same`
padding included. Padding is resolved to numbers here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ...ir.errors import SourceError
from .graph import Array, Graph, Node

Shape = tuple[int, ...]
SIZE_LIMIT = 1 << 31


@dataclass(frozen=True)
class Window:
    """Strides, padding (before each axis, then after each) and dilation of a window."""

    strides: Shape
    padding: Shape
    dilation: Shape


def infer_shapes(graph: Graph, where: str, notes: list[str]) -> dict[str, tuple[Shape, Shape]]:
    """For each node the shape it takes and the shape it gives.

    Numbers without axes, as in a LIF with scalar parameters, take the shape of what they meet, or
    [1]. An Input or Output that differs from all that it meets in axes of 1 alone takes their
    shape, which `notes` is told.

    Raises:
        SourceError: fields that do not fit each other, edges between different shapes, or shapes
            that nothing states.
    """
    sources = graph.sources()
    takes: dict[str, Shape] = {}
    gives: dict[str, Shape] = {}
    for name, node in graph.nodes.items():
        own = _own_input(node, f"{where}: node '{name}' ({node.kind})")
        if own:
            takes[name] = own
    _propagate(graph, sources, takes, gives, where)
    scalars = [name for name, node in graph.nodes.items() if name not in takes and _scalar(node)]
    takes.update(dict.fromkeys(scalars, (1,)))
    _propagate(graph, sources, takes, gives, where)
    unknown = sorted(set(graph.nodes) - set(gives))
    if unknown:
        raise SourceError(
            f"{where}: nothing states the shape at node '{unknown[0]}'; give its input_shape or "
            "the shape of an Input before it"
        )
    _agree_on_ones(graph, takes, gives, notes)
    for source, target in sorted(graph.edges):
        if gives[source] != takes[target]:
            raise SourceError(
                f"{where}: edge '{source}' -> '{target}' brings {list(gives[source])}, and "
                f"'{target}' takes {list(takes[target])}; give the nodes one shape, or put a "
                "Flatten between"
            )
    return {name: (takes[name], gives[name]) for name in graph.nodes}


def _propagate(
    graph: Graph,
    sources: dict[str, list[str]],
    takes: dict[str, Shape],
    gives: dict[str, Shape],
    where: str,
) -> None:
    """Carry shapes along the edges until nothing changes; Inputs take what follows them."""
    targets = graph.targets()
    pending = list(graph.nodes)
    while pending:
        name = pending.pop()
        node = graph.nodes[name]
        if name in gives:
            continue
        if name not in takes:
            near = [gives[s] for s in sources[name] if s in gives]
            if not near and node.kind == "Input":
                near = [takes[t] for t in targets[name] if t in takes]
            if not near:
                continue
            takes[name] = _without_batch(node, near[0])
        gives[name] = _output(node, takes[name], f"{where}: node '{name}' ({node.kind})")
        pending += targets[name]
        pending += [s for s in sources[name] if graph.nodes[s].kind == "Input"]


def _without_batch(node: Node, shape: Shape) -> Shape:
    """A shape with no more axes than a window takes: frameworks state a batch of 1 before them."""
    window = node.kind.endswith("Pool2d") or node.kind.startswith("Conv")
    axes = (2 if node.kind == "Conv1d" else 3) if window else len(shape)
    more = max(len(shape) - axes, 0)
    return shape[more:] if prod(shape[:more]) == 1 else shape


def _agree_on_ones(
    graph: Graph, takes: dict[str, Shape], gives: dict[str, Shape], notes: list[str]
) -> None:
    """Give Inputs and Outputs the one shape that they meet where axes of 1 are all the odds."""
    sources, targets = graph.sources(), graph.targets()
    for name, node in sorted(graph.nodes.items()):
        if node.kind not in ("Input", "Output"):
            continue
        met = {gives[s] for s in sources[name]} | {takes[t] for t in targets[name]}
        shape = min(met, default=takes[name])
        bare = [[size for size in sizes if size != 1] for sizes in (shape, takes[name])]
        if len(met) == 1 and shape != takes[name] and bare[0] == bare[1]:
            notes.append(
                f"{node.kind} '{name}' says {list(takes[name])} where its edges have "
                f"{list(shape)}, which is taken"
            )
            takes[name] = gives[name] = shape


def _scalar(node: Node) -> bool:
    values = node.values.values()
    return bool(values) and all(not isinstance(v, str) and v.size <= 1 for v in values)


def _own_input(node: Node, where: str) -> Shape | None:
    """The shape that a node's fields state for what it takes; `None` where they state none."""
    kind = node.kind
    if kind in ("Input", "Output", "Flatten"):
        name = "input_type" if kind == "Flatten" else "shape"
        stated = node.values.get(name)
        shape = None if stated is None else sizes(node, name, where)
    elif kind in ("Affine", "Linear"):
        weight = node.array("weight")
        if weight.ndim < 2:
            raise SourceError(
                f"{where}: expected a weight [out, in], or [more…, out, in], got "
                f"{list(weight.shape)}"
            )
        shape = (*weight.shape[:-2], weight.shape[-1])
    elif kind.startswith("Conv"):
        axes = 1 if kind == "Conv1d" else 2
        weight = node.array("weight")
        if weight.ndim != axes + 2:
            raise SourceError(f"{where}: expected {axes + 2} axes of weight, got {weight.ndim}")
        shape = None
        if "input_shape" in node.values:
            channels = weight.shape[1] * group_count(node, where)
            shape = (channels, *sizes(node, "input_shape", where))
            if len(shape) != axes + 1:
                raise SourceError(f"{where}: expected {axes} sizes as input_shape")
    elif kind.endswith("Pool2d"):
        shape = None
    else:
        arrays = [value for value in node.values.values() if not isinstance(value, str)]
        try:
            shape = np.broadcast_shapes(*[array.shape for array in arrays])
        except ValueError:
            shown = ", ".join(str(list(array.shape)) for array in arrays)
            raise SourceError(f"{where}: its parameters differ in shape: {shown}") from None
    if shape and (min(shape) < 1 or prod(shape) > SIZE_LIMIT):
        raise SourceError(f"{where}: expected sizes of at least 1 and not too large: {list(shape)}")
    return shape or None


def _output(node: Node, shape: Shape, where: str) -> Shape:
    """What a node gives for the shape that it takes."""
    kind = node.kind
    if kind in ("Affine", "Linear"):
        return node.array("weight").shape[:-1]
    if kind.startswith("Conv") or kind.endswith("Pool2d"):
        return _window_output(node, shape, where)
    if kind == "Flatten":
        start, end = flatten_axes(node, shape, where)
        return (*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :])
    return shape


def flatten_axes(node: Node, shape: Shape, where: str) -> tuple[int, int]:
    """The first and the last axis that a Flatten joins, counted from the front."""
    axes: list[int] = []
    for name in ("start_dim", "end_dim"):
        axis = scalar(node, name, where)
        if not -len(shape) <= axis < len(shape):
            raise SourceError(f"{where}: {name} is {axis}, and it takes {list(shape)}")
        axes.append(axis % len(shape))
    if axes[0] > axes[1]:
        raise SourceError(f"{where}: start_dim is behind end_dim for {list(shape)}")
    return axes[0], axes[1]


def kernel(node: Node, where: str) -> Shape:
    """The sizes of a window."""
    if node.kind.startswith("Conv"):
        return node.array("weight").shape[2:]
    return sizes(node, "kernel_size", where, 2)


def window(node: Node, shape: Shape, where: str) -> Window:
    """Strides, padding and dilation as numbers, for what the node takes."""
    size, axes = kernel(node, where), len(kernel(node, where))
    if len(shape) != axes + 1:
        raise SourceError(f"{where}: expected {axes + 1} axes, channels first, got {list(shape)}")
    strides = sizes(node, "stride", where, axes)
    pool = node.kind.endswith("Pool2d")
    dilation = (1,) * axes if pool else sizes(node, "dilation", where, axes)
    if min(*strides, *dilation, *size) < 1:
        raise SourceError(f"{where}: expected a kernel, stride and dilation of at least 1")
    stated = node.values["padding"]
    if not isinstance(stated, str):
        padding = sizes(node, "padding", where, axes)
        if min(padding) < 0:
            raise SourceError(f"{where}: expected a padding of at least 0, got {list(padding)}")
        return Window(strides, (*padding, *padding), dilation)
    return Window(
        strides, named_padding(stated, shape[1:], size, strides, dilation, where), dilation
    )


def named_padding(
    name: str, shape: Shape, size: Shape, strides: Shape, dilation: Shape, where: str
) -> Shape:
    """The padding `valid` or `same` as numbers, before each axis and then after each.

    `same` gives ⌈size/stride⌉ and puts an odd one behind, as torch does for stride 1.
    """
    if name == "valid":
        return (0,) * 2 * len(shape)
    if name != "same":
        raise SourceError(f"{where}: padding must be 'same', 'valid' or numbers, got '{name}'")
    total = [
        max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        for n, k, s, d in zip(shape, size, strides, dilation, strict=True)
    ]
    return (*[t // 2 for t in total], *[t - t // 2 for t in total])


def _window_output(node: Node, shape: Shape, where: str) -> Shape:
    size, place = kernel(node, where), window(node, shape, where)
    axes = len(size)
    channels = shape[0]
    if node.kind.startswith("Conv"):
        weight, groups = node.array("weight"), group_count(node, where)
        if weight.shape[0] % groups or weight.shape[1] * groups != channels:
            raise SourceError(
                f"{where}: weight {list(weight.shape)} in {groups} groups does not fit "
                f"{channels} channels"
            )
        channels = weight.shape[0]
    result = tuple(
        (shape[1 + a] + place.padding[a] + place.padding[axes + a] - reach) // place.strides[a] + 1
        for a in range(axes)
        for reach in [place.dilation[a] * (size[a] - 1) + 1]
    )
    if min(result) < 1:
        raise SourceError(f"{where}: its window {list(size)} is larger than {list(shape)}")
    return (channels, *result)


def group_count(node: Node, where: str) -> int:
    """The groups of a convolution."""
    groups = scalar(node, "groups", where)
    if groups < 1:
        raise SourceError(f"{where}: expected groups of at least 1, got {groups}")
    return groups


def scalar(node: Node, name: str, where: str) -> int:
    """A field that is one whole number."""
    numbers = sizes(node, name, where)
    if len(numbers) != 1:
        raise SourceError(f"{where}: expected one number as {name}, got {list(numbers)}")
    return numbers[0]


def sizes(node: Node, name: str, where: str, count: int | None = None) -> Shape:
    """A field of whole numbers; one number stands for `count` equal ones."""
    array: Array = node.array(name)
    values: list[float] = np.atleast_1d(array).astype(np.float64).reshape(-1).tolist()
    bad = array.ndim > 1 or len(values) > 64 or any(v != int(v) for v in _finite(values, where))
    if bad or any(abs(v) > SIZE_LIMIT for v in values):
        raise SourceError(f"{where}: expected whole numbers as {name}, got {array.tolist()}")
    numbers = tuple(int(v) for v in values)
    if count is not None and len(numbers) == 1:
        numbers *= count
    if count is not None and len(numbers) != count:
        raise SourceError(f"{where}: expected {count} numbers as {name}, got {list(numbers)}")
    return numbers


def _finite(values: Sequence[float], where: str) -> Sequence[float]:
    if any(v in (float("inf"), float("-inf")) for v in values):
        raise SourceError(f"{where}: a size is infinite")
    return values
