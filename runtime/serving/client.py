"""A client of the Open Inference Protocol that asks again, and asks others, where one fails.

An inference changes nothing, so that it may be asked for twice. Not here: what a request is
(`protocol`).
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ...ir.arrays import Array
from ...ir.errors import BackendError, OptionError, refuse
from ...ir.extras import needed
from .protocol import HEADER, NAMES, read_tensor, write_tensor

_NONSENSE = (ValueError, KeyError, TypeError, AttributeError)
"""What an answer leads to that was cut off, or is another's."""
_AGAIN = frozenset((0, 200, 429, 499, 500, 502, 503, 504))
"""What another try, or another server, may not have: no answer, one cut off, or trouble."""


@dataclass(frozen=True)
class Retries:
    """When to ask again; all in seconds.

    Attributes:
        deadline: for a request, with all its tries.
        pause: the longest first pause; each next one is twice as long. How long one is, chance
            says, so that clients do not come back together.
        longest: of the pauses.
        timeout: for one try.
    """

    deadline: float = 30.0
    pause: float = 0.05
    longest: float = 2.0
    timeout: float = 10.0


class Client(AbstractContextManager["Client"]):
    """Asks one of several servers, and the others where it does not answer.

    Args:
        servers: addresses such as `http://127.0.0.1:8080`, the first choice first.
        retries: when to ask again.
        options: of `httpx.Client`, such as `verify`, `cert` and `headers`.

    Raises:
        BackendError: httpx is missing.
    """

    def __init__(
        self, servers: str | Sequence[str], retries: Retries | None = None, **options: Any
    ) -> None:
        self._httpx = needed("httpx", "httpx", "operations")
        self.servers = [servers] if isinstance(servers, str) else [*servers]
        refuse(not self.servers, "a client needs a server")
        self.retries = retries or Retries()
        self._client: Any = self._httpx.Client(timeout=self.retries.timeout, **options)
        self._next = 0

    def close(self) -> None:
        """End the connections; so does the end of a `with` block."""
        self._client.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def infer(self, model: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The results of a model, for its inputs, all by name.

        Raises:
            OptionError: the request does not fit the model.
            BackendError: no server answered before the deadline; it says why the last did not.
        """
        request = _request(inputs)
        end, pause = time.monotonic() + self.retries.deadline, self.retries.pause
        while True:
            problem = "no time was left"
            # Where one server does not answer, the next is asked at once, and after a pause all.
            for _ in self.servers:
                if (left := end - time.monotonic()) <= 0:
                    break
                server = self.servers[self._next % len(self.servers)]
                status = 0
                try:
                    timeout, url = (
                        min(left, self.retries.timeout),
                        f"{server}/v2/models/{model}/infer",
                    )
                    response = self._client.post(url, timeout=timeout, **request)
                    status = response.status_code
                    if status == 200:
                        return _results(response)
                    problem = f"{server}: {status} {_said(response)}"
                except (self._httpx.HTTPError, *_NONSENSE) as error:
                    problem = f"{server}: {str(error) or type(error).__name__}"
                if status not in _AGAIN:
                    raise OptionError(problem)
                self._next += 1
            wait = random.uniform(0, pause)
            if wait >= end - time.monotonic():
                deadline = self.retries.deadline
                raise BackendError(f"no answer of '{model}' in {deadline:g} s; {problem}")
            time.sleep(wait)
            pause = min(2 * pause, self.retries.longest)


def _request(inputs: Mapping[str, Array]) -> dict[str, Any]:
    blobs: list[bytes] = []
    for name, array in inputs.items():
        refuse(array.dtype not in NAMES, f"input '{name}': no request holds {array.dtype}")
    tensors = [write_tensor(name, array, blobs) for name, array in inputs.items()]
    text = json.dumps({"inputs": tensors, "parameters": {"binary_data_output": True}}).encode()
    return {"content": b"".join([text, *blobs]), "headers": {HEADER: str(len(text))}}


def _results(response: Any) -> dict[str, Array]:
    """The results of an answer; one of `_NONSENSE` for what is none."""
    content, header = response.content, response.headers.get(HEADER)
    length = len(content) if header is None else int(header)
    rest, results = content[length:], dict[str, Array]()
    for entry in json.loads(content[:length])["outputs"]:
        name, results[name], rest = read_tensor(entry, rest)
    return results


def _said(response: Any) -> str:
    try:
        return str(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return str(response.text)[:200]
