"""Who may do what with a server: users, what they show, roles, rates; read from a file.

An example is in `docs/serving.md`. Who has a certificate and a token here must show both. Not here:
requests (`access`).
"""

from __future__ import annotations

import hmac
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ...ir.errors import InputError
from ...ir.extras import needed

_SHA256 = re.compile(r"[0-9a-f]{64}")
_KNOWN: Any = {"extra": "forbid", "strict": True}
"""What pydantic takes, which makes these classes of a file: their fields alone, of their types."""


@dataclass(frozen=True)
class Role:
    """What those may who have it.

    Attributes:
        read, run, deploy: models, by name or pattern.
        metrics: whether they may read the figures.
        requests_per_second: in the long run.
        burst: requests at once, at least one; by default those of a second.
    """

    read: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    deploy: tuple[str, ...] = ()
    metrics: bool = False
    requests_per_second: float = 100.0
    burst: float | None = None

    __pydantic_config__ = _KNOWN

    def __post_init__(self) -> None:
        for name in ("requests_per_second", "burst"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"'{name}' is a number above 0")


@dataclass(frozen=True)
class User:
    """Somebody, by name of their roles, and what shows that it is them.

    That is the common name of their certificate, the hash of their token, or both.
    """

    roles: tuple[str, ...] = ()
    certificate: str | None = None
    token_sha256: str | None = None

    __pydantic_config__ = _KNOWN

    def __post_init__(self) -> None:
        if not self.certificate and self.token_sha256 is None:
            raise ValueError("a user needs a certificate or a token_sha256")
        if self.token_sha256 is not None and not _SHA256.fullmatch(self.token_sha256):
            raise ValueError("'token_sha256' is 64 hexadecimal digits, in small letters")


@dataclass(frozen=True)
class Policy:
    """The roles and users of a server, by name."""

    roles: Mapping[str, Role] = field(default_factory=dict[str, Role])
    users: Mapping[str, User] = field(default_factory=dict[str, User])

    __pydantic_config__ = _KNOWN

    def __post_init__(self) -> None:
        for name, user in self.users.items():
            if missing := sorted(set(user.roles) - self.roles.keys()):
                raise ValueError(f"user '{name}' has roles that are not there: {missing}")
        shown = {(user.certificate, user.token_sha256) for user in self.users.values()}
        if len(shown) != len(self.users):
            raise ValueError("two users show the same certificate and token")

    def user(self, certificate: str | None, token: str | None) -> str | None:
        """Who shows these, all that they need to and no other; `None` for a stranger."""
        import hashlib  # it loads OpenSSL

        digest = hashlib.sha256((token or "").encode()).hexdigest()

        def fits(user: User) -> bool:
            is_right = hmac.compare_digest(user.token_sha256 or "", digest)
            shows = is_right if user.token_sha256 else token is None
            return shows and user.certificate in (None, certificate)

        # All are looked at, so that the time does not tell which.
        found = [name for name, user in self.users.items() if fits(user)]
        return found[0] if found else None

    def may(self, name: str | None, action: str, model: str = "") -> bool:
        """Whether a role of a user allows an action on a model, or to read `metrics`."""
        roles = () if name is None else self.users[name].roles
        held = [getattr(self.roles[role], action, ()) for role in roles]
        if action == "metrics":
            return any(held)
        return any(fnmatchcase(model, pattern) for patterns in held for pattern in patterns)

    def rate(self, name: str) -> tuple[float, float]:
        """Requests of a user in a second, and at once: the most that one of the roles allows."""
        held = [self.roles[role] for role in self.users[name].roles] or [Role()]
        rates = ((role.requests_per_second, role.burst) for role in held)
        return max((rate, max(burst or rate, 1.0)) for rate, burst in rates)


def read_policy(path: Path) -> Policy:
    """The policy in a TOML file.

    Raises:
        OptionError: it cannot be read, or holds anything that is not known here.
        BackendError: pydantic is missing.
    """
    pydantic = needed("pydantic", "pydantic", "serve")
    try:
        data = json.dumps(tomllib.loads(path.read_text(encoding="utf-8")), default=str)
        return pydantic.TypeAdapter(Policy).validate_json(data)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        said = first["msg"].replace("Unexpected keyword argument", "there is no such setting")
        told = (f"policy '{path}'", where, said.removeprefix("Value error, "))
        raise InputError(": ".join(filter(None, told))) from None
    except (OSError, ValueError) as error:
        raise InputError(f"policy '{path}' cannot be read: {error}") from None
