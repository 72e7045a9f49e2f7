"""What stands before a server: who asks, whether they may, whether too often; a line in the log.

Health is open to everybody who can connect, all else to users of the policy. Whoever shows nothing
valid gets the status 401, whoever lacks a role 403, whoever asks too often 429. Not here: encrypted
connections (`connections`), and what the users may (`policy`).
"""

from __future__ import annotations

import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ...ir.extras import needed
from .audit import AuditLog
from .policy import Policy

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PEER = "triton_peer"
"""Where the state of a request says the common name of the client's certificate."""
MAY, MODEL = "triton_may", "triton_model"
"""Where it says what who asks may, for answers that depend on that, and the name of the model of a
request that names it in its body: whoever reads the body asks `allowed`."""

_ADDRESSES = {
    r"/v2/health/(?:live|ready)": {"GET": "health"},
    r"/v2|/v1/models": {"GET": "server"},
    r"/metrics": {"GET": "metrics"},
    r"/v1/models/(?P<model>[^/]+)": {"GET": "read"},
    r"/v1/(?:chat/)?completions": {"POST": "write"},
    r"/v2/models/(?P<model>[^/]+)": {"GET": "read", "PUT": "deploy", "DELETE": "deploy"},
    r"/v2/models/(?P<model>[^/]+)(?:/versions/1)?(?:/ready)?": {"GET": "read"},
    r"/v2/models/(?P<model>[^/]+)(?:/versions/1)?/infer": {"POST": "run"},
}
"""What requests are for, by address and method; the first that fits counts."""
_STRANGERS = (5.0, 20.0)
"""Requests in a second and at once of an address that shows nothing valid."""

_MOST_BUCKETS = 10_000


class Buckets:
    """How many requests each may make: tokens that come again with time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, key: str, rate: float, burst: float) -> float:
        """Take a token; 0, or the seconds until there is one again."""
        now = self._clock()
        left, since = self._left.pop(key, (burst, now))
        left = min(burst, left + (now - since) * rate)
        taken = left >= 1
        self._left[key] = (left - 1 if taken else left, now)
        if len(self._left) > _MOST_BUCKETS:
            self._left.popitem(last=False)
        return 0.0 if taken else (1 - left) / rate


class Guard:
    """An ASGI application that lets through to another what a policy allows.

    Each request is noted in the log, if there is one; what cannot be noted is not answered.
    """

    def __init__(self, app: ASGIApp, policy: Policy, audit: AuditLog | None = None) -> None:
        self._app, self._policy, self._audit = app, policy, audit
        # Strangers, who can come from any number of addresses, push no user out.
        self._strangers, self._users = Buckets(), Buckets()
        self._responses = needed("starlette.responses", "starlette", "serve")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        action, model = asked(scope["method"], scope["path"])
        client = str((scope.get("client") or ("",))[0])
        user, answer = self._decide(scope, client, action, model)
        state = scope.setdefault("state", {})
        state[MAY] = partial(self._policy.may, user)

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start" and self._audit is not None:
                facts = {"user": user, "client": client, "model": state.get(MODEL, model)}
                self._audit.add(**facts, action=action, status=message["status"])
            await send(message)

        try:
            await answer(scope, receive, noted)
        except OSError as error:  # of the log
            text = f"the audit log cannot be written: {error.strerror or error}"
            await self._refusal(503, text)(scope, receive, send)

    def _decide(
        self, scope: Scope, client: str, action: str, model: str
    ) -> tuple[str | None, ASGIApp]:
        """Who asks, and what answers."""
        if action == "health":
            return None, self._app
        shown = _token(scope)
        user = None if shown == "" else self._policy.user(scope.get("state", {}).get(PEER), shown)
        if user is None:
            if wait := self._strangers.wait(client, *_STRANGERS):
                return None, self._refusal(429, "too many requests that show nothing valid", wait)
            return None, self._refusal(401, "a valid token or certificate is needed")
        if wait := self._users.wait(user, *self._policy.rate(user)):
            return user, self._refusal(429, f"'{user}' asks too often", wait)
        if action not in ("server", "write") and not self._policy.may(user, action, model):
            what = f"{action} '{model}'" if model else action
            return user, self._refusal(403, f"'{user}' may not {what}")
        return user, self._app

    def _refusal(self, status: int, text: str, wait: float = 0.0) -> ASGIApp:
        # What of the request's body was not read is not to be taken for the next request.
        headers = {"connection": "close"}
        if status == 401:
            headers["www-authenticate"] = "Bearer"
        if wait:
            headers["retry-after"] = str(math.ceil(wait))
        return self._responses.JSONResponse({"error": text}, status, headers)


def asked(method: str, path: str) -> tuple[str, str]:
    """What a request is for, and the model, if its address tells.

    It is for `health`, `server`, `metrics`, `none`, an action on a model, or to `write`: then the
    body tells the model, which the user has to be allowed to `run`.
    """
    for address, actions in _ADDRESSES.items():
        if found := re.fullmatch(address, path):
            named = found.groupdict().get("model", "")
            return actions.get("GET" if method == "HEAD" else method, "none"), named
    return "none", ""


def allowed(scope: Scope, action: str, model: str) -> bool:
    """Whether who asks may do something with a model; a server without a policy asks nobody."""
    state = scope.get("state", {})
    return MAY not in state or state[MAY](action, model)


def _token(scope: Scope) -> str | None:
    """The token that a request shows; an empty one where what it shows is none."""
    shown = [value for name, value in scope["headers"] if name == b"authorization"]
    if not shown:
        return None
    kind, _, token = shown[0].decode("latin-1").partition(" ")
    return token.strip() if len(shown) == 1 and kind.lower() == "bearer" else ""
