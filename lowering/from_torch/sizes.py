"""Sizes of exported tensors: numbers, and sympy expressions of the free sizes.

Not here: how arguments of operators are read (`calls`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias, cast

import sympy
from sympy import Symbol
from torch import SymInt
from torch.fx import Node
from typing_extensions import TypeIs

from ...dialects.shapes import DYNAMIC
from ..from_onnx.sizes import show
from ..problems import ProblemError


class FreeSize(Protocol):
    """A size that is known only when the program runs: an expression of sympy."""

    is_number: bool
    free_symbols: set[Symbol]

    def subs(self, names: Mapping[Symbol, Symbol], /) -> object:
        """With other symbols."""
        ...

    def __int__(self) -> int:
        """Of a number alone."""
        ...


Size: TypeAlias = int | FreeSize

Sizes: TypeAlias = tuple[Size, ...]


def is_node(argument: object) -> TypeIs[Node]:
    """Whether an argument of an operator is the result of another node."""
    return hasattr(argument, "meta")


def size_of(argument: int | SymInt | Node) -> Size:
    """A size as the graph states it; a node stands for one."""
    size: int | SymInt = argument.meta["val"] if is_node(argument) else argument
    if isinstance(size, int):
        return int(size)
    expression = cast(FreeSize, size.node.expr)
    return int(expression) if expression.is_number else expression


def sizes_of(values: Iterable[int | SymInt | Node]) -> Sizes:
    """Several sizes, see `size_of`."""
    return tuple(size_of(value) for value in values)


def is_free(size: Size) -> TypeIs[FreeSize]:
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
    numbers = [size for size in sizes if not is_free(size)]
    if len(numbers) < len(sizes):
        if any(map(depends_on_values, sizes)):
            raise ProblemError(f"its {what} {show(sizes)} {DATA_DEPENDENT[0]}")
        raise ProblemError(f"its {what} {show(sizes)} must be fixed; export them with fixed sizes")
    return numbers


DATA_DEPENDENT = ("depend on values", "depends on values")
"""What messages say of sizes that no example fixes."""


def is_of_values(reason: str) -> bool:
    """Whether a message says that sizes depend on values, which no other reading changes."""
    return any(words in reason for words in DATA_DEPENDENT)


def depends_on_values(size: Size) -> bool:
    """Whether a size hangs on what `item()` reads."""
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    return is_free(size) and any(
        symbol_is_type(symbol, SymT.UNBACKED_INT) for symbol in size.free_symbols
    )


def product(sizes: Sequence[Size]) -> Size:
    """How many elements there are along all axes."""
    return math.prod(cast("Sequence[int]", sizes))  # of expressions it is another one


def named(size: Size, names: Mapping[Symbol, str]) -> str:
    """A size in terms of the names of free sizes."""
    if not is_free(size):
        return str(size)
    shown = size.subs({symbol: sympy.Symbol(name) for symbol, name in names.items()})
    return str(shown).replace(" ", "")
