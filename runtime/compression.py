"""What quantisation-aware training and pruning can be asked for, checked without PyTorch.

Not here: what does it (`fake_quantize`, `pruning`).
"""

from __future__ import annotations

import re
from typing import Any

from ..ir.errors import OptionError, check_choice, refuse

METHODS = ("magnitude", "sensitivity")
_MOST = 64
"""Weights in a group of a pattern at most."""


def check_bits(name: str, bits: Any) -> int:
    """A number of bits from 2 to 8.

    Raises:
        OptionError: anything else.
    """
    if type(bits) is not int or not 2 <= bits <= 8:
        raise OptionError(f"{name}: expected a whole number from 2 to 8, got {bits!r}")
    return bits


def parse_pattern(pattern: Any) -> tuple[int, int] | None:
    """N and M of a pattern `N:M`: of each M weights in a row of inputs N at most are not zero.

    Raises:
        OptionError: another text, or not 1 ≤ N < M ≤ 64.
    """
    if pattern is None:
        return None
    found = re.fullmatch(r"([0-9]{1,2}):([0-9]{1,2})", pattern) if type(pattern) is str else None
    kept, size = map(int, found.groups()) if found else (0, 0)
    if not 1 <= kept < size <= _MOST:
        raise OptionError(
            f"pruning_pattern: expected N:M with 1 <= N < M <= {_MOST}, as 2:4, got {pattern!r}"
        )
    return kept, size


def final_sparsity(sparsity: Any, pattern: Any, method: Any) -> float:
    """The part of the weights that become zero: `sparsity`, or 1 - N/M of a pattern.

    Raises:
        OptionError: a value that is not allowed, or both a sparsity and a pattern.
    """
    number = isinstance(sparsity, int | float) and not isinstance(sparsity, bool)
    if not number or not 0 <= sparsity < 1:
        raise OptionError(f"sparsity: expected a number from 0, below 1, got {sparsity!r}")
    check_choice("pruning", method, METHODS)
    groups = parse_pattern(pattern)
    if groups is None:
        return float(sparsity)
    refuse(sparsity, "pruning_pattern says how many weights are kept; leave out sparsity")
    return 1 - groups[0] / groups[1]


def sparsity_at(final: float, done: float) -> float:
    """The sparsity when a part `done` of the pruning is over (Zhu & Gupta 2018, eq. 1)."""
    return final * (1 - (1 - min(max(done, 0.0), 1.0)) ** 3)
