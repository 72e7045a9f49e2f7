"""Models as assets of releases on GitHub: `publish_to_github`."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

from ...ir.errors import BackendError, OptionError
from ...ir.extras import needed
from ...ir.seal import check_file
from .sending import persistently, token_of, without

_API = "https://api.github.com"
_CHUNK = 1 << 20
_REPO = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_TAG = re.compile(r"[A-Za-z0-9_.+-]+(/[A-Za-z0-9_.+-]+)*")


class _Troubled(Exception):
    """The server has trouble of its own, which may pass."""


def publish_to_github(
    model_path: str | Path,
    repo: str,
    tag: str,
    release_name: str | None = None,
    description: str = "",
    token: str | None = None,
    *,
    replace: bool = False,
    attempts: int = 5,
) -> str:
    """Publish a file as an asset of a release, which is made if need be; the asset's address.

    A release that exists keeps its name and description. An asset that is there already with the
    same content is left alone, and what is left of one that broke off is sent again.

    Args:
        model_path: of the file; one that carries its SHA-256 must agree with it.
        repo: `owner/name`.
        tag: of the release.
        release_name: of a release that is made; by default the tag.
        description: of it.
        token: by default that in `GITHUB_TOKEN`.
        replace: whether an asset of the same name and other content may be replaced.
        attempts: at most, if connections break.

    Raises:
        OptionError: no such file, or an asset of other content is in the way.
        IntegrityError: the file is not what was written.
        BackendError: the token is refused, or GitHub (or what `GITHUB_API_URL` names) cannot be
            reached.
    """
    httpx = needed("httpx", "httpx", "hub")
    path = Path(model_path)
    if not path.is_file():
        raise OptionError(f"'{path}' is no file; a model of several goes as a package")
    if not _REPO.fullmatch(repo) or not _TAG.fullmatch(tag) or ".." in tag:
        raise OptionError(f"expected owner/name and a tag, got '{repo}' and '{tag}'")
    check_file(path)
    secret = token_of(token, "GITHUB_TOKEN", "GitHub")
    headers = {
        "Authorization": f"Bearer {secret}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    made = {"tag_name": tag, "name": release_name or tag, "body": description}
    base = os.environ.get("GITHUB_API_URL", _API).rstrip("/")
    try:
        with httpx.Client(headers=headers, timeout=60.0) as client:
            github = _GitHub(client, f"{base}/repos/{repo}")
            return persistently(
                lambda: github.publish(path, tag, made, replace),
                lambda error: isinstance(error, (httpx.TransportError, _Troubled)),
                attempts,
            )
    except (httpx.HTTPError, httpx.InvalidURL, _Troubled, ValueError, KeyError) as error:
        if isinstance(error, OptionError):
            raise
        raise BackendError(f"GitHub and '{repo}': {without(secret, error)}") from None


class _GitHub:
    """The releases of one repository.

    Args:
        client: of httpx, with the token.
        address: of the repository.
    """

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address

    def publish(self, path: Path, tag: str, made: dict[str, str], replace: bool) -> str:
        """See `publish_to_github`; done in part and again, it comes out the same."""
        release = self._ask("GET", f"{self._address}/releases/tags/{tag}", missing_ok=True)
        if release is None:
            release = self._ask("POST", f"{self._address}/releases", json=made)
        for asset in self._assets(release):
            if asset["name"] != path.name:
                continue
            if asset.get("state") == "uploaded":
                if asset.get("digest") == f"sha256:{_sha256(path)}":
                    return str(asset["browser_download_url"])
                if not replace:
                    raise OptionError(
                        f"release '{tag}' has another '{path.name}' already; "
                        "choose another tag, or replace it"
                    )
            self._ask("DELETE", f"{self._address}/releases/assets/{int(asset['id'])}")
        place = str(release["upload_url"]).split("{")[0]
        asset = self._ask(
            "POST",
            place,
            params={"name": path.name},
            content=_chunks(path),
            headers={
                "Content-Type": "application/octet-stream",
                "Content-Length": str(path.stat().st_size),
            },
        )
        return str(asset["browser_download_url"])

    def _assets(self, release: Any) -> Generator[Any]:
        page = 1
        address = f"{self._address}/releases/{int(release['id'])}/assets"
        while found := self._ask("GET", address, params={"per_page": 100, "page": page}):
            yield from found
            page += 1

    def _ask(self, method: str, address: str, *, missing_ok: bool = False, **more: Any) -> Any:
        response = self._client.request(method, address, **more)
        status = response.status_code
        if status in (401, 403):
            raise BackendError(
                f"GitHub refuses the token (status {status}); see GITHUB_TOKEN, and what it may do"
            )
        if status == 404 and missing_ok:
            return None
        if status >= 500 or status == 429:
            raise _Troubled(f"status {status}")
        if status >= 400:
            raise BackendError(f"{method} {address}: status {status}: {response.text[:300]}")
        return response.json() if response.content else None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _chunks(path: Path) -> Generator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
