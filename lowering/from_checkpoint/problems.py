"""Numbers out of configurations of strangers, and what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NoReturn

from ...ir.errors import SourceError

LARGEST = 1 << 24
"""No size of a model is larger."""


def refuse(message: str) -> NoReturn:
    """Say why a file is no model that can be read.

    Raises:
        SourceError: always.
    """
    raise SourceError(message)


def number_of(
    config: Mapping[str, object], name: str, what: str, default: float | None = None
) -> float:
    """A finite positive number.

    Raises:
        SourceError: it is missing without a default, or something else.
    """
    value = config.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse(f"{what}: '{name}' is {value!r}, expected a number")
    if not (math.isfinite(value) and value > 0):
        refuse(f"{what}: '{name}' is {value}, expected a positive number")
    return float(value)


def count_of(config: Mapping[str, object], name: str, what: str, default: int | None = None) -> int:
    """A size: a whole number from 1 to `LARGEST`.

    Raises:
        SourceError: it is missing without a default, or something else.
    """
    value = config.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= LARGEST:
        refuse(f"{what}: '{name}' is {value!r}, expected a whole number from 1 to {LARGEST}")
    return value


def flag_of(config: Mapping[str, object], name: str, what: str) -> bool:
    """A truth value, false where it is not given.

    Raises:
        SourceError: it is something else.
    """
    value = config.get(name)
    if value is not None and not isinstance(value, bool):
        refuse(f"{what}: '{name}' is {value!r}, expected true or false")
    return bool(value)
