"""Sizes of exported tensors: numbers, and sympy expressions of the free sizes.

Not here: how a graph's nodes are read (`builder`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...dialects.shapes import DYNAMIC

Size = Any
"""An `int`, or a sympy expression of free sizes."""

Sizes = tuple[Size, ...]


class ProblemError(Exception):
    """Why one operation of the graph has no meaning in the IR; gathered, never shown alone."""


def size_of(value: Any) -> Size:
    """A size as the graph states it: `int`, `SymInt`, or a node that stands for one."""
    if hasattr(value, "meta"):
        value = value.meta["val"]
    if isinstance(value, int):
        return int(value)
    expression = value.node.expr
    return int(expression) if expression.is_number else expression


def sizes_of(values: Sequence[Any]) -> Sizes:
    """Several sizes, see `size_of`."""
    return tuple(size_of(value) for value in values)


def is_free(size: Size) -> bool:
    """Whether a size is known only when the program runs."""
    return not isinstance(size, int)


def ir_shape(sizes: Sizes) -> list[int]:
    """Sizes as the shape of a type; free ones become dynamic."""
    return [DYNAMIC if is_free(size) else size for size in sizes]


def static(sizes: Sequence[Size], what: str = "sizes") -> list[int]:
    """Sizes that must be numbers.

    Raises:
        ProblemError: one is free.
    """
    if any(is_free(size) for size in sizes):
        raise ProblemError(f"its {what} {show(sizes)} must be fixed; export them with fixed sizes")
    return [int(size) for size in sizes]


def show(sizes: Sequence[Size]) -> str:
    """Sizes for a message."""
    return f"[{', '.join(str(size) for size in sizes)}]"


def reshape_target(given: Sizes, wanted: Sizes) -> list[int]:
    """The `shape` of `tensor.reshape_to` that takes `given` to `wanted`.

    Raises:
        ProblemError: two free sizes come out that did not go in.
    """
    target: list[int] = []
    for size in wanted:
        if not is_free(size):
            target.append(size)
            continue
        axes = [axis for axis, other in enumerate(given) if is_free(other) and other == size]
        target.append(-2 - axes[0] if axes else -1)
    if target.count(-1) > 1:
        raise ProblemError(
            f"a reshape of {show(given)} to {show(wanted)} makes two free sizes of others; "
            "fix one of them"
        )
    return target


def named(size: Size, names: Mapping[Any, str]) -> str:
    """A size in terms of the names of free sizes."""
    if not is_free(size):
        return str(size)
    import sympy

    shown = size.subs({symbol: sympy.Symbol(name) for symbol, name in names.items()})
    return str(shown).replace(" ", "")
