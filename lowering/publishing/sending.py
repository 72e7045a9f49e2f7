"""Sending again after a broken connection, and messages without secrets."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from ...ir.errors import BackendError, first_line

Result = TypeVar("Result")


def token_of(token: str | None, variable: str, service: str) -> str:
    """A token that was given, or that of the environment.

    Raises:
        BackendError: there is none, or none that can be sent.
    """
    found = token or os.environ.get(variable)
    if not found:
        raise BackendError(f"{service} needs a token: set the variable {variable}")
    if not all("!" <= character <= "~" for character in found):
        raise BackendError(f"the token for {service} has spaces, or letters that no token has")
    return found


def without(secret: str, error: BaseException) -> str:
    """What an error says, without the secret."""
    return first_line(error).replace(secret or "\0", "***")


def persistently(
    action: Callable[[], Result], passes: Callable[[Exception], bool], attempts: int
) -> Result:
    """The result of an action that is tried again, ever later, while its errors may pass.

    Done in part and again, it must come out the same. The first wait is of a second, each further
    one twice as long.
    """
    for attempt in range(1, attempts):
        try:
            return action()
        except Exception as error:
            if not passes(error):
                raise
            time.sleep(min(2 ** (attempt - 1), 30))
    return action()
