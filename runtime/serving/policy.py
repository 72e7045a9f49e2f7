"""Who may do what with a server: users, what they show, roles, rates; read from a file.

    [roles.client]
    run = ["digits-*"]              # models, by name or pattern
    read = ["*"]                    # what they take and give
    requests_per_second = 50

    [roles.operator]
    deploy = ["*"]                  # put models there, and remove them
    metrics = true

    [users.camera]
    roles = ["client"]
    certificate = "camera.example"  # the common name of its client certificate

    [users.alice]
    roles = ["client", "operator"]
    token_sha256 = "…"              # printf %s TOKEN | sha256sum

A user who has a certificate and a token here must show both. Not here: requests (`access`).
"""

from __future__ import annotations

import hmac
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

from ...ir.errors import OptionError

ACTIONS = ("read", "run", "deploy")
_ROLE = {*ACTIONS, "metrics", "requests_per_second", "burst"}
_USER = {"roles", "certificate", "token_sha256"}
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Role:
    """What those may who have it.

    Attributes:
        models: patterns of names, by action.
        metrics: whether they may read the figures.
        rate: requests in a second, in the long run.
        burst: requests at once.
    """

    models: Mapping[str, tuple[str, ...]]
    metrics: bool
    rate: float
    burst: float


@dataclass(frozen=True)
class User:
    """Somebody, and what shows that it is them.

    Attributes:
        name: in the log.
        roles: that they have.
        certificate: the common name of their certificate, if they need one.
        token_sha256: the hash of their token, if they need one.
    """

    name: str
    roles: tuple[Role, ...]
    certificate: str | None
    token_sha256: str | None

    def may(self, action: str, model: str) -> bool:
        """Whether a role of theirs allows an action on a model."""
        patterns = (p for role in self.roles for p in role.models.get(action, ()))
        return any(fnmatchcase(model, pattern) for pattern in patterns)

    @property
    def may_read_metrics(self) -> bool:
        """Whether a role of theirs allows to read the figures."""
        return any(role.metrics for role in self.roles)

    @property
    def rate(self) -> tuple[float, float]:
        """The highest rate of their roles, with its burst."""
        return max(((role.rate, role.burst) for role in self.roles), default=(0.0, 0.0))


@dataclass(frozen=True)
class Policy:
    """The users of a server."""

    users: tuple[User, ...]

    @property
    def has_tokens(self) -> bool:
        """Whether anybody shows a token."""
        return any(user.token_sha256 for user in self.users)

    @property
    def has_certificates(self) -> bool:
        """Whether anybody shows a certificate."""
        return any(user.certificate for user in self.users)

    def user(self, certificate: str | None, token: str | None) -> User | None:
        """Who shows these, all that they need to and no other; `None` for a stranger."""
        import hashlib  # it loads OpenSSL

        digest = hashlib.sha256((token or "").encode()).hexdigest()
        found: User | None = None
        for user in self.users:
            right_token = hmac.compare_digest(user.token_sha256 or "", digest)
            fits = right_token if user.token_sha256 else token is None
            if user.certificate is not None:
                fits = fits and certificate == user.certificate
            if fits and found is None:
                found = user
        return found


def read_policy(path: Path) -> Policy:
    """The policy in a TOML file.

    Raises:
        OptionError: it cannot be read, or holds anything that is not known here.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"policy '{path}' cannot be read: {error}") from None

    def wrong(what: str) -> OptionError:
        return OptionError(f"policy '{path}': {what}")

    def table(where: str, value: Any, known: set[str]) -> dict[str, Any]:
        if not isinstance(value, dict) or not value.keys() <= known:
            names = ", ".join(sorted(known))
            raise wrong(f"{where} is a table of {names}")
        return cast("dict[str, Any]", value)

    def texts(where: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(x, str) for x in cast("Any", value)):
            raise wrong(f"{where} is a list of text")
        return tuple(cast("list[str]", value))

    def number(where: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise wrong(f"{where} is a number above 0")
        return float(value)

    table("the file", data, {"roles", "users"})
    for part in ("roles", "users"):
        if not isinstance(data.get(part, {}), dict):
            raise wrong(f"'{part}' is a table of tables")
    roles: dict[str, Role] = {}
    for name, value in cast("dict[str, Any]", data.get("roles", {})).items():
        given = table(f"[roles.{name}]", value, _ROLE)
        models = {a: texts(f"'{a}' of role '{name}'", given[a]) for a in ACTIONS if a in given}
        rate = number("requests_per_second", given.get("requests_per_second", 100))
        burst = number("burst", given.get("burst", max(rate, 1.0)))
        roles[name] = Role(models, given.get("metrics") is True, rate, max(burst, 1.0))
    users: list[User] = []
    for name, value in cast("dict[str, Any]", data.get("users", {})).items():
        given = table(f"[users.{name}]", value, _USER)
        names = texts(f"'roles' of user '{name}'", given.get("roles", []))
        if missing := sorted(set(names) - roles.keys()):
            raise wrong(f"user '{name}' has roles that are not there: {', '.join(missing)}")
        certificate, token = given.get("certificate"), given.get("token_sha256")
        if certificate is None and token is None:
            raise wrong(f"user '{name}' needs a certificate or a token_sha256")
        if not isinstance(certificate, str | None) or certificate == "":
            raise wrong(f"'certificate' of user '{name}' is a common name")
        if token is not None and not (isinstance(token, str) and _SHA256.fullmatch(token)):
            raise wrong(
                f"'token_sha256' of user '{name}' is 64 hexadecimal digits, in small letters"
            )
        users.append(User(name, tuple(roles[n] for n in names), certificate, token))
    shown = [(user.certificate, user.token_sha256) for user in users]
    if len(set(shown)) != len(shown):
        raise wrong("two users show the same certificate and token")
    return Policy(tuple(users))
