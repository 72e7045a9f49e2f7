"""The reference semantics of the `tensor` dialect, on NumPy: what its ops say, and stored values.

Each op computes what its docstring says; clarity comes before speed.
"""

from __future__ import annotations

from xdsl.ir import Operation

from ...ir.arrays import Array
from ..meaning import Rule, rules_of
from ..parameters import constant_value
from . import OPERATIONS, storage


def stored(op: Operation) -> Array:
    """The values of a constant or parameter op, of either dialect."""
    values = constant_value(op)
    assert values is not None
    return values


RULES: dict[type[Operation], Rule] = {
    **rules_of(OPERATIONS),
    storage.ParameterOp: stored,
    storage.ConstantOp: stored,
}
