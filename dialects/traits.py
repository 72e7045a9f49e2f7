"""What is true of every op of a class, whatever its operands: passes ask for it by these names.

Each is asked with `has(op, …)`, and one that derives from another implies it. A new op says here
what it is, and every pass that goes by that takes it; of an op without a trait nothing is known.
Not here: what depends on an op's operands or properties, and rules that a pass has for one op.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeGuard

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Operation
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import OpTrait


def has(op: object, trait: type[OpTrait]) -> TypeGuard[Operation]:
    """Whether `op` is an op of a class with `trait`; of unregistered ops nothing is known."""
    return isinstance(op, Operation) and op.get_trait(trait) is not None


# What an element of a result depends on.


class Elementwise(OpTrait):
    """Each element depends on the elements at its place of the operands, which broadcast (NumPy).

    There is one result, in the shape of the operands broadcast. MLIR's trait of this name.
    """


class TakesSamples(OpTrait):
    """Each position of the first axis of the first operand gives the same one of the result.

    The other operands are the same for all of them.
    """


@dataclass(frozen=True)
class WorksAlong(OpTrait):
    """Positions of all axes but those that a property names are taken one by one.

    Attributes:
        name: of the property: an integer, or an array of them; negative ones count from the end.
    """

    name: str

    def axes(self, op: Operation) -> list[int]:
        """The axes that `op` works along."""
        value: Any = getattr(op, self.name)
        return list(value.get_values()) if isinstance(value, DenseArrayBase) else [value.value.data]


class ChannelsFirst(OpTrait):
    """The first operand and the result are [N, C, …] whatever their rank."""


class TakesSteps(OpTrait):
    """Each step of the first operand, a run [T, …], gives the same step of the first result."""


# What an element of a result is.


class Increasing(OpTrait):
    """No element of the result falls where elements of operands rise, and integers never wrap."""


class Affine(OpTrait):
    """Each element is a·x + b of the first operand's, where other operands are known numbers."""


class Homogeneous(OpTrait):
    """f(λ·x) = λ·f(x) for all operands x at once and λ > 0."""


class BitExact(OpTrait):
    """Every engine gives the same bits for the same operands: floats are not rounded on the way."""


class SelectsElements(Homogeneous, BitExact):
    """Every element of a result is one of an operand: by its place, or as the largest or smallest.

    So the op commutes with every function of the elements that never falls.
    """


class MovesElements(SelectsElements):
    """Every element of a result is one of an operand, by its place alone."""


class Idempotent(OpTrait):
    """f(f(x)) = f(x), as MLIR's trait of this name."""


class Involution(OpTrait):
    """f(f(x)) = x, as MLIR's trait of this name."""


# How floats are computed.


class Rounds(OpTrait):
    """Floats are rounded, after an approximation that may differ between engines."""


class AddsUp(Rounds):
    """Each element is a sum of many, whose order is the engine's own."""


class HasSteps(OpTrait):
    """Floats are rounded to a coarser grid or compared: a last bit decides over a whole step."""


# Patterns.


class CanonicalizableOp(HasCanonicalizationPatternsInterface, ABC):
    """An op whose patterns stand in `canonicalization_patterns`, in the file of its dialect."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        dialect = cls.name.partition(".")[0]
        patterns = import_module(f"{__package__}.canonicalization_patterns.{dialect}")
        return patterns.patterns_of(cls)
