"""What is true of every op of a class, whatever its operands: passes ask for it by these names.

Traits without rules of their own are xDSL's `OpTrait`s, asked with `has_trait`.
"""

from __future__ import annotations

from abc import ABC
from importlib import import_module

from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import OpTrait


class Idempotent(OpTrait):
    """f(f(x)) = f(x), as MLIR's trait of this name."""


class Involution(OpTrait):
    """f(f(x)) = x, as MLIR's trait of this name."""


class CanonicalizableOp(HasCanonicalizationPatternsInterface, ABC):
    """An op whose patterns stand in `canonicalization_patterns`, in the file of its dialect."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        dialect = cls.name.partition(".")[0]
        patterns = import_module(f"{__package__}.canonicalization_patterns.{dialect}")
        return patterns.patterns_of(cls)
