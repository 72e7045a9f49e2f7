"""Asking a service again after a broken connection, and messages without secrets."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from ...ir.errors import BackendError, TritonError, first_line


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


def asked(
    action: Callable[[], str], service: str, variable: str, repo: str, secret: str, attempts: int
) -> str:
    """The result of an action that asks a service, tried again, ever later, where that may help.

    Done in part and again, it must come out the same. The first wait is of a second, each further
    one twice as long.

    Raises:
        BackendError: it fails at last; says why, without the secret.
    """
    attempt = 0
    while True:
        try:
            return action()
        except TritonError:
            raise
        except Exception as error:  # of httpx, and of libraries that tell of it by their own
            causes: list[BaseException] = [error]
            while cause := causes[-1].__cause__:
                causes.append(cause)
            answers: list[Any] = [getattr(each, "response", None) for each in causes]
            status = next((each.status_code for each in answers if each is not None), None)
            # The Hub's library has an httpx of its own.
            names = {kind.__name__ for each in causes for kind in type(each).__mro__}
            is_broken = status is None and not names.isdisjoint(("OSError", "RequestError"))
            may_pass = is_broken or status == 429 or (status or 0) >= 500
            attempt += 1
            if not may_pass or attempt >= attempts:
                said = f"{service} and '{repo}': {first_line(causes[-1])}"
                if status in (401, 403):
                    said = f"{service} refuses the token for '{repo}' (status {status}); "
                    said += f"see {variable}, and what it may do"
                elif status == 404:
                    said = f"{service} has no '{repo}', or not for this token"
                raise BackendError(said.replace(secret or "\0", "***")) from None
        time.sleep(min(2 ** (attempt - 1), 30))
