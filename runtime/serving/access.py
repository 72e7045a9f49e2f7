"""What stands before a server: who asks, whether they may, whether too often; a line in the log.

Health is open to everybody who can connect, all else to users of the policy. Whoever shows nothing
valid gets the status 401, whoever lacks a role 403, whoever asks too often 429. Not here: encrypted
connections (`connections`), and what the users may (`policy`).
"""

from __future__ import annotations

import json
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from .audit import AuditLog
from .policy import Policy, User

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

PEER = "triton_peer"
"""Where the state of a request says the common name of the client's certificate."""
USER, MODEL = "triton_user", "triton_model"
"""Where it says who asks, for answers that depend on that, and there the name of the model of a
request that names it in its body: whoever reads the body asks `allowed`."""

_MODEL = re.compile(r"/v2/models/([^/]+)(/versions/1)?(/ready|/infer)?")
_TEXTS = re.compile(r"/v1/models(?:/([^/]+))?|/v1/(?:chat/)?completions")
_OPEN = ("/v2/health/live", "/v2/health/ready")
_STRANGERS = (5.0, 20.0)
"""Requests in a second and at once of an address that shows nothing valid."""

_MOST_BUCKETS = 10_000


class Buckets:
    """How many requests each may make: tokens that come again with time.

    Args:
        clock: seconds, from whenever.
    """

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
    """An ASGI application that lets through to another what its policy allows.

    Args:
        app: the other.
        policy: who may do what.
        audit: where each request is noted; one that cannot be is not answered.
        clock: seconds, for rates.
    """

    def __init__(
        self,
        app: Application,
        policy: Policy,
        audit: AuditLog | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._policy = policy
        self._audit = audit
        self._buckets = Buckets(clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        action, model = asked(scope["method"], scope["path"])
        user, status, text, wait = self._decide(scope, action, model)
        facts = {
            "user": user.name if user else None,
            "client": str((scope.get("client") or ("",))[0]),
            "action": action,
            "model": model,
        }

        state = scope.setdefault("state", {})
        state[USER] = user

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start" and self._audit is not None:
                facts["model"] = state.get(MODEL, model)
                self._audit.add(**facts, status=message["status"])
            await send(message)

        try:
            if status:
                await _refuse(noted, status, text, wait)
            else:
                await self._app(scope, receive, noted)
        except OSError as error:  # of the log
            await _refuse(send, 503, f"the audit log cannot be written: {error.strerror or error}")

    def _decide(self, scope: Scope, action: str, model: str) -> tuple[User | None, int, str, float]:
        """Who asks, and if they may not, the status, the reason, and seconds to wait."""
        if action == "health":
            return None, 0, "", 0.0
        peer = scope.get("state", {}).get(PEER)
        token, is_token = _token(scope)
        user = self._policy.user(peer, token) if is_token else None
        if user is None:
            client = f"from {(scope.get('client') or ('',))[0]}"
            if wait := self._buckets.wait(client, *_STRANGERS):
                return None, 429, "too many requests that show nothing valid", wait
            return None, 401, "a valid token or certificate is needed", 0.0
        if wait := self._buckets.wait(f"user {user.name}", *user.rate):
            return user, 429, f"'{user.name}' asks too often", wait
        allowed = {
            "server": lambda: True,
            "metrics": lambda: user.may_read_metrics,
            "none": lambda: False,
            "write": lambda: True,
        }.get(action, lambda: user.may(action, model))
        if not allowed():
            what = f"{action} '{model}'" if model else action
            return user, 403, f"'{user.name}' may not {what}", 0.0
        return user, 0, "", 0.0


def asked(method: str, path: str) -> tuple[str, str]:
    """What a request is for, and the model, if its address tells.

    It is for `health`, `server`, `metrics`, `none`, an action on a model, or to `write`: then the
    body tells the model, which the user has to be allowed to `run`.
    """
    if path in _OPEN and method in ("GET", "HEAD"):
        return "health", ""
    if path in ("/v2", "/metrics") and method in ("GET", "HEAD"):
        return {"/v2": "server", "/metrics": "metrics"}[path], ""
    written = _TEXTS.fullmatch(path)
    if written is not None:
        if path.endswith("completions"):
            return ("write" if method == "POST" else "none"), ""
        reads = method in ("GET", "HEAD")
        return ("read" if written[1] else "server") if reads else "none", written[1] or ""
    found = _MODEL.fullmatch(path)
    if found is None:
        return "none", ""
    if found[3] == "/infer":
        return ("run" if method == "POST" else "none"), found[1]
    if method in ("GET", "HEAD"):
        return "read", found[1]
    deploys = method in ("PUT", "DELETE") and not found[2] and not found[3]
    return ("deploy" if deploys else "none"), found[1]


def allowed(scope: Scope, action: str, model: str) -> bool:
    """Whether who asks may do something with a model; a server without a policy asks nobody."""
    state = scope.get("state", {})
    return USER not in state or state[USER].may(action, model)


def _token(scope: Scope) -> tuple[str | None, bool]:
    """The token that a request shows, and whether what it shows is one, or nothing."""
    shown = [value for name, value in scope["headers"] if name == b"authorization"]
    if not shown:
        return None, True
    kind, _, token = shown[0].decode("latin-1").partition(" ")
    return token.strip(), len(shown) == 1 and kind.lower() == "bearer" and bool(token.strip())


async def _refuse(send: Send, status: int, text: str, wait: float = 0.0) -> None:
    body = json.dumps({"error": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    # What of the request's body was not read is not to be taken for the next request.
    headers.append((b"connection", b"close"))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if wait:
        headers.append((b"retry-after", b"%d" % -(-wait // 1)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
