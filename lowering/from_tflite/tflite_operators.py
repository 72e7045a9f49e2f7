"""The table of TFLite operators: rules, integer forms, and those that are refused, with reasons."""

from __future__ import annotations

from . import (
    rules_activation,
    rules_elementwise,
    rules_pads,
    rules_products,
    rules_reduction,
    rules_shape,
    rules_softmax,
    rules_state,
    rules_window,
)
from .rules_activation import through_floats
from .tflite_builder import Rule

_FILES = (
    rules_activation, rules_elementwise, rules_pads, rules_products, rules_reduction, rules_shape,
    rules_state, rules_window,
)  # fmt: skip

RULES: dict[str, Rule] = {name: rule for file in _FILES for name, rule in file.RULES.items()}
"""Operators on numbers as they are, by name."""

_AS_THEY_ARE = ("CAST", "ZEROS_LIKE")

INTEGER: dict[str, Rule] = {
    **rules_pads.RULES,
    **rules_products.RULES,
    **rules_shape.RULES,
    **rules_state.RULES,
    **{name: RULES[name] for name in _AS_THEY_ARE},
    **rules_activation.INTEGER,
    **rules_elementwise.INTEGER,
    **rules_reduction.INTEGER,
    **rules_window.INTEGER,
    "SOFTMAX": rules_softmax.RULE,
}
"""Operators on integers that stand for real numbers; those left out go through floats."""

ELEMENTWISE = frozenset(
    {*rules_activation.RULES, *rules_elementwise.RULES} - {"SOFTMAX", "LOG_SOFTMAX"}
)
"""Operators that compute each element by itself, in whatever order the axes are."""

_STATE = "it keeps values from run to run; pass them in and out"
_SUBGRAPH = "it runs another subgraph; convert the model without control flow"
_TABLE = "it looks up text or tables of a resource"
_RANDOM = "it draws random numbers; pass them as an input"
_VALUES = "the size of its result depends on values"
_COMPLEX = "the IR has no complex numbers"
_RECURRENT = "it is a recurrent cell of its own; convert the model with the cell unrolled"

REFUSED: dict[str, str] = {
    **dict.fromkeys(("ASSIGN_VARIABLE", "READ_VARIABLE", "VAR_HANDLE"), _STATE),
    **dict.fromkeys(("CALL", "CALL_ONCE", "IF", "WHILE", "STABLEHLO_COMPOSITE"), _SUBGRAPH),
    **dict.fromkeys(
        ("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_LOOKUP", "HASHTABLE_SIZE",
         "LSH_PROJECTION", "SKIP_GRAM"), _TABLE),
    **dict.fromkeys(("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"), _RANDOM),
    **dict.fromkeys(
        ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "UNIQUE", "WHERE"), _VALUES),
    **dict.fromkeys(("COMPLEX_ABS", "IMAG", "REAL", "RFFT2D"), _COMPLEX),
    **dict.fromkeys(
        ("BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "LSTM", "RNN",
         "UNIDIRECTIONAL_SEQUENCE_RNN"), _RECURRENT),
    "DENSIFY": "its weights are stored sparsely; convert the model with dense ones",
    "FAKE_QUANT": "it rounds for training; convert the model for inference",
}  # fmt: skip
"""Operators without a meaning, with the reason; those in neither table are not known."""


def rule_for(kind: str, *, integers: bool) -> Rule | None:
    """The rule of an operator; `None` where there is none.

    Args:
        kind: its name in the schema.
        integers: whether an input holds integers that stand for real numbers.
    """
    if integers and kind in INTEGER:
        return INTEGER[kind]
    rule = RULES.get(kind)
    return through_floats(rule) if integers and rule is not None else rule
