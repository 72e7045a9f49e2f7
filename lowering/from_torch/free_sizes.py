"""Which sizes of a module's inputs are free, and what they are called.

Free sizes get names, and an example batch of one is doubled: `torch.export` takes a size of one for
a constant. Not here: the export itself (`exporting`).
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeAlias, cast

import torch
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._pytree import PyTree

from ...ir.errors import OptionError
from .calls import fake_tensor, is_tensor, nodes_of
from .sizes import is_free, sizes_of

BATCH = "N"
"""The name of the free size that is found where nobody names any."""

DynamicSizes: TypeAlias = Mapping[str, Mapping[int, str]]
"""For an argument of `forward` the names of its free sizes, by axis."""


@dataclass(frozen=True)
class Axes:
    """The free axes of one tensor, and their names."""

    names: dict[int, str]


_BOUND = re.compile(r"^  \w+ = Dim\('\w+'(, (min|max)=\d+)+\)$")


def bounded(shapes: dict[str, PyTree], reason: str) -> dict[str, PyTree] | None:
    """Free sizes with the bounds that PyTorch asks for; none where it asks for anything else."""
    from torch.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes

    lines = reason.partition("Suggested fixes:\n")[2].splitlines()
    fixes = list(itertools.takewhile(lambda line: line.startswith("  "), lines))
    if not fixes or not all(map(_BOUND.match, fixes)):
        return None
    stated = "\n".join(["Suggested fixes:", *fixes])
    return cast("dict[str, PyTree]", refine_dynamic_shapes_from_suggested_fixes(stated, shapes))


_GUARD = re.compile(
    r"Not all values of (\w+) = (\S+) in the specified range .*?satisfy .* guard (.+)\.$"
)


def conditional(reason: str) -> list[str] | None:
    """What PyTorch wants of free sizes by their names; `None` where it wants anything else.

    That a size is not 1 is no condition: a free one is more.
    """
    complaints = [line for line in reason.splitlines() if line.startswith("  - ")]
    found = [match for line in complaints if (match := _GUARD.search(line))]
    if not found or len(found) < len(complaints):
        return None
    places = {match[2]: match[1] for match in found}
    named = [
        re.sub(r"L\[\S+?\]\.size\(\)\[\d+\]", lambda at: places.get(at[0], at[0]), match[3])
        for match in found
    ]
    return sorted({condition for condition in named if not condition.endswith("!= 1")})


def unbounded(dimensions: dict[str, PyTree]) -> dict[str, PyTree]:
    """Free sizes of which PyTorch finds out itself how they hang together."""

    def unnamed(leaf: object) -> object:
        return Dim.DYNAMIC if isinstance(leaf, Dim) else leaf

    return pytree.tree_map(unnamed, dimensions)


def dynamic_shapes(
    inputs: inspect.BoundArguments, dynamic: DynamicSizes | None
) -> dict[str, PyTree]:
    """For each argument a tree like its own, with `Axes` in the place of each tensor."""
    tensors = [
        leaf for leaf in pytree.tree_leaves(inputs.arguments) if isinstance(leaf, torch.Tensor)
    ]
    batch = next((leaf.shape[0] for leaf in tensors if leaf.dim()), None)
    _check_names(dynamic)
    unknown = sorted(set(dynamic or ()) - set(inputs.arguments))
    if unknown:
        known = ", ".join(inputs.arguments) or "none"
        raise OptionError(f"dynamic: 'forward' has no argument '{unknown[0]}'; given are {known}")

    def axes(name: str, leaf: object) -> Axes | None:
        if not isinstance(leaf, torch.Tensor):
            return None
        if dynamic is None:
            return Axes({0: BATCH}) if leaf.dim() and leaf.shape[0] == batch else None
        sizes = dynamic.get(name, {})
        wrong = [axis for axis in sizes if not -leaf.dim() <= axis < leaf.dim()]
        if wrong:
            raise OptionError(f"dynamic: '{name}' has no axis {wrong[0]}: it is {list(leaf.shape)}")
        return Axes({axis % leaf.dim(): size for axis, size in sizes.items()})

    return {
        name: pytree.tree_map(partial(axes, name), value)
        for name, value in inputs.arguments.items()
    }


def _check_names(dynamic: object) -> None:
    """Refuse what does not name free sizes by argument and axis."""

    def wrong(got: object) -> OptionError:
        return OptionError(
            "dynamic: names free sizes by argument of 'forward' and axis, as {'x': {0: 'N'}}; "
            f"got {got!r}"
        )

    if not isinstance(dynamic, Mapping | None):
        raise wrong(dynamic)
    for name, axes in cast("Mapping[object, object]", dynamic or {}).items():
        if not isinstance(name, str) or not isinstance(axes, Mapping):
            raise wrong({name: axes})
        for axis, size in cast("Mapping[object, object]", axes).items():
            is_name = isinstance(size, str) and size.isidentifier()
            if not isinstance(axis, int) or not is_name:
                raise wrong({name: {axis: size}})


def double(inputs: inspect.BoundArguments, shapes: dict[str, PyTree]) -> None:
    """Double the free axes of one element."""

    def doubled(leaf: object, axes: Axes | None) -> object:
        if not isinstance(leaf, torch.Tensor) or axes is None:
            return leaf
        single = [axis for axis in axes.names if leaf.shape[axis] == 1]
        for axis in single:
            leaf = torch.cat([leaf, leaf], axis)
        return leaf

    for name, value in inputs.arguments.items():
        inputs.arguments[name] = pytree.tree_map(doubled, value, shapes[name])


def dimensions_of(shapes: dict[str, PyTree]) -> dict[str, PyTree]:
    """The trees with what `torch.export` calls the free axes."""

    @cache
    def dimension(name: str) -> Dim:
        return Dim(name)

    def dimensions(axes: Axes | None) -> dict[int, Dim] | None:
        return axes and {axis: dimension(name) for axis, name in axes.names.items()}

    return pytree.tree_map(dimensions, shapes)


def free_axes(program: ExportedProgram) -> set[tuple[str, int]]:
    """The axes that are free in a graph, by placeholder."""
    return {
        (node.name, axis)
        for node in nodes_of(program)
        if node.op == "placeholder" and is_tensor(node)
        for axis, size in enumerate(sizes_of(fake_tensor(node).shape))
        if is_free(size)
    }


def named_axes(
    program: ExportedProgram, inputs: inspect.BoundArguments, shapes: dict[str, PyTree]
) -> dict[tuple[str, int], str]:
    """The names of free sizes by placeholder and axis."""
    ordered: list[Axes | None] = [
        axes
        for name, value in inputs.arguments.items()
        for axes in pytree.tree_structure(value).flatten_up_to(shapes[name])
    ]
    return {
        (str(placeholder), axis): name
        for placeholder, axes in zip(program.graph_signature.user_inputs, ordered, strict=True)
        if axes is not None
        for axis, name in axes.names.items()
    }
