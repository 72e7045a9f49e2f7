"""The inputs of the operator `UNIDIRECTIONAL_SEQUENCE_LSTM` by number."""

from __future__ import annotations

INPUT, FORGET, CELL, OUTPUT = range(4)
"""The gates, in the order of their weights."""

WEIGHTS, RECURRENT, BIASES, NORMS = 1, 5, 12, 20
"""The first of four, one a gate."""

PEEPHOLES = {INPUT: 9, FORGET: 10, OUTPUT: 11}
"""By gate; new values have none."""

PROJECTION, PROJECTION_BIAS, HIDDEN, MEMORY = 16, 17, 18, 19
"""The last two are kept from run to run."""
