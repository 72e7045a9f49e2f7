"""Values out of a JSON object of a stranger: a configuration, a request.

Not here: what values mean.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from reprlib import repr
from typing import Any, NoReturn, Self, cast

from .errors import SourceError, TritonError

LARGEST = 1 << 24
"""No size of a model is larger."""


@dataclass(frozen=True)
class Settings:
    """An object; names that it has not, and those that are null, have their defaults.

    Attributes:
        values: of it.
        what: stands before each message.
        error: is raised.
    """

    values: Mapping[str, Any]
    what: str = ""
    error: type[TritonError] = SourceError

    @classmethod
    def of_json(cls, text: str | bytes, what: str, error: type[TritonError] = SourceError) -> Self:
        """The object that a text is.

        Raises:
            TritonError: it is none.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise error(f"{what} is no JSON: {problem}") from None
        if not isinstance(values, dict):
            raise error(f"{what} is no JSON object")
        return cls(cast("Mapping[str, Any]", values), f"{what}: ", error)

    def refuse(self, message: str) -> NoReturn:
        """Say what is wrong.

        Raises:
            TritonError: always.
        """
        raise self.error(f"{self.what}{message}")

    def _read(self, name: str, default: Any, fits: Callable[[Any], bool], expected: str) -> Any:
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if not fits(value):
            self.refuse(f"'{name}' is {repr(value)}, expected {expected}")
        return value

    def whole(
        self, name: str, default: int | None = None, low: int = 1, high: int = LARGEST
    ) -> int:
        """A whole number; one that has no default has to be there."""
        expected = f"a whole number from {low} to {high}"
        return self._read(name, default, lambda x: type(x) is int and low <= x <= high, expected)

    def number(
        self, name: str, default: float | None = None, bounds: tuple[float, float] | None = None
    ) -> float:
        """A finite number: above 0, or within bounds."""
        low, high = bounds or (math.nextafter(0, 1), math.nextafter(math.inf, 0))
        expected = f"a number from {low} to {high}" if bounds else "a number above 0"

        def fits(x: Any) -> bool:
            return type(x) in (int, float) and low <= x <= high

        return float(self._read(name, default, fits, expected))

    def flag(self, name: str) -> bool:
        """A truth value; false is the default."""
        return self._read(name, False, lambda x: isinstance(x, bool), "true or false")

    def part(self, name: str) -> Settings:
        """An object within; it is empty where nothing is said."""
        found = self._read(name, {}, lambda x: isinstance(x, dict), "an object")
        return replace(self, values=cast("Mapping[str, Any]", found))
