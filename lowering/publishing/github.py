"""Models as assets of releases on GitHub: `publish_to_github`."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ...ir.errors import BackendError, IntegrityError, OptionError
from ...ir.extras import needed
from ...ir.seal import check_file
from ...ir.store import file_sha256
from .sending import Service

_API = "https://api.github.com"
_GITHUB = Service("GitHub", "GITHUB_TOKEN")
_CHUNK = 1 << 20
_REPO = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_TAG = re.compile(r"[A-Za-z0-9_.+-]+(/[A-Za-z0-9_.+-]+)*")


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
        IntegrityError: the file is not what was written, or changes while it is sent.
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
    digest = f"sha256:{file_sha256(path)}"
    secret = _GITHUB.token(token)
    headers = {
        "Authorization": f"Bearer {secret}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    made = {"tag_name": tag, "name": release_name or tag, "body": description}
    base = os.environ.get("GITHUB_API_URL", _API).rstrip("/")

    def publish() -> str:
        with httpx.Client(headers=headers, timeout=60.0) as client:
            return _Repository(client, f"{base}/repos/{repo}").publish(path, digest, made, replace)

    return _GITHUB.asked(publish, repo, secret, attempts)


@dataclass(frozen=True)
class _Repository:
    """The releases of one repository: a client of httpx with the token, and its address."""

    client: Any
    address: str

    def publish(self, path: Path, digest: str, made: dict[str, str], replace: bool) -> str:
        """See `publish_to_github`; done in part and again, it comes out the same."""
        tag = made["tag_name"]
        release = self._ask("GET", f"{self.address}/releases/tags/{tag}", missing_ok=True)
        if release is None:
            release = self._ask("POST", f"{self.address}/releases", json=made)
        for asset in self._assets(release):
            if asset["name"] != path.name:
                continue
            if asset.get("state") == "uploaded":
                if asset.get("digest") == digest:
                    return str(asset["browser_download_url"])
                if not replace:
                    raise OptionError(
                        f"release '{tag}' has another '{path.name}' already; "
                        "choose another tag, or replace it"
                    )
            self._ask("DELETE", f"{self.address}/releases/assets/{int(asset['id'])}")
        headers = {"Content-Length": str(path.stat().st_size)}
        headers["Content-Type"] = "application/octet-stream"
        with path.open("rb") as file:
            asset = self._ask(
                "POST",
                str(release["upload_url"]).split("{")[0],
                params={"name": path.name},
                content=iter(partial(file.read, _CHUNK), b""),
                headers=headers,
            )
        if asset.get("digest") not in (None, digest):
            self._ask("DELETE", f"{self.address}/releases/assets/{int(asset['id'])}")
            raise IntegrityError(f"'{path}' was changed while it was sent; publish it again")
        return str(asset["browser_download_url"])

    def _assets(self, release: Any) -> Generator[Any]:
        page = 1
        address = f"{self.address}/releases/{int(release['id'])}/assets"
        while found := self._ask("GET", address, params={"per_page": 100, "page": page}):
            yield from found
            page += 1

    def _ask(self, method: str, address: str, *, missing_ok: bool = False, **more: Any) -> Any:
        response = self.client.request(method, address, **more)
        status = response.status_code
        if status == 404 and missing_ok:
            return None
        if status not in (401, 403, 404, 429) and 300 <= status < 500:
            raise BackendError(f"{method} {address}: status {status}: {response.text[:300]}")
        response.raise_for_status()
        return response.json() if response.content else None
