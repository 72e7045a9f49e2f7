"""What an op computes, on NumPy: the form of its rule, and methods made of NumPy's functions.

An op that is defined on its operands alone has a method `compute`: the interpreter's rule of the op
is that method. `dialects.interpret` widens f16 and bf16 to f32 before and rounds to the result's
type after, and silences floating-point warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xdsl.ir import Operation

from ..ir.arrays import Array

Rule = Callable[..., Array | tuple[Array, ...]]
"""`rule(op, *operands)`: one array, or a tuple of them for several results."""


def mapped(function: Callable[..., Array]) -> Callable[..., Array]:
    """A method `compute` that applies `function` to the operands alone."""

    def compute(self: Operation, *operands: Array) -> Array:
        return function(*operands)

    return compute


def rules_of(kinds: Iterable[type[Operation]]) -> dict[type[Operation], Rule]:
    """The method `compute` of each of `kinds` that has one."""
    rules = {kind: getattr(kind, "compute", None) for kind in kinds}
    return {kind: rule for kind, rule in rules.items() if rule is not None}
