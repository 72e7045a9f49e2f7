"""Servers that models are sent to: asked again where a connection breaks, tokens never told."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from ...ir.errors import BackendError, TritonError, first_line

Result = TypeVar("Result")


@dataclass(frozen=True)
class Service:
    """What takes models, by its name in messages and the variable that holds its token."""

    name: str
    variable: str

    def token(self, given: str | None) -> str:
        """A token that was given, or that of the environment.

        Raises:
            BackendError: there is none, or none that can be sent.
        """
        found = given or os.environ.get(self.variable)
        if not found:
            raise BackendError(f"{self.name} needs a token: set the variable {self.variable}")
        if not all("!" <= character <= "~" for character in found):
            raise BackendError(f"the token for {self.name} has spaces, or letters no token has")
        return found

    def asked(self, action: Callable[[], Result], place: str, secret: str, tries: int) -> Result:
        """The result of an action that is tried again, ever later, while its errors may pass.

        Done in part and again, it must come out the same. The first wait is of a second, each
        further one twice as long. `place` is what is asked for, in messages.

        Raises:
            BackendError: the token is refused, there is no such place, or no connection; without
                the token.
        """
        for attempt in count(1):
            try:
                return action()
            except TritonError:
                raise
            except Exception as error:  # of libraries, and of those below them
                causes = _causes(error)
                answers: list[Any] = [getattr(each, "response", None) for each in causes]
                status = next((int(each.status_code) for each in answers if each is not None), 0)
                passes = status >= 500 or status == 429 or (not status and _is_broken(causes))
                if not passes or attempt >= tries:
                    raise BackendError(self._said(causes[-1], place, secret, status)) from None
            time.sleep(min(2 ** (attempt - 1), 30))
        raise AssertionError

    def _said(self, cause: BaseException, place: str, secret: str, status: int) -> str:
        if status in (401, 403):
            refused = f"{self.name} refuses the token for '{place}' (status {status})"
            return f"{refused}; see {self.variable}, and what it may do"
        if status == 404:
            return f"{self.name} has no '{place}', or not for this token"
        text = first_line(cause).replace(secret or "\0", "***")
        return f"{self.name} and '{place}': {text}"


def _causes(error: BaseException | None) -> list[BaseException]:
    """An error and what led to it: libraries tell of failed uploads by errors of their own."""
    return [] if error is None else [error, *_causes(error.__cause__)]


def _is_broken(causes: list[BaseException]) -> bool:
    """Whether a connection broke."""
    kinds = (kind for cause in causes for kind in type(cause).__mro__)
    return any(kind is OSError or "httpx" in kind.__module__ for kind in kinds)
