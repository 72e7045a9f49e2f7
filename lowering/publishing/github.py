"""Models as assets of releases on GitHub: `publish_to_github`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Any

from ...ir.errors import IntegrityError, refuse
from ...ir.extras import needed
from ...ir.seal import check_file
from ...ir.store import file_sha256
from .sending import asked, token_of

_API = "https://api.github.com"
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
    refuse(not path.is_file(), f"'{path}' is no file; a model of several goes as a package")
    is_named = _REPO.fullmatch(repo) and _TAG.fullmatch(tag) and ".." not in tag
    refuse(not is_named, f"expected owner/name and a tag, got '{repo}' and '{tag}'")
    check_file(path)
    digest = f"sha256:{file_sha256(path)}"
    secret = token_of(token, "GITHUB_TOKEN", "GitHub")
    headers = {
        "Authorization": f"Bearer {secret}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    made = {"tag_name": tag, "name": release_name or tag, "body": description}
    base = os.environ.get("GITHUB_API_URL", _API).rstrip("/")

    def publish() -> str:
        with httpx.Client(base_url=f"{base}/repos/{repo}", headers=headers, timeout=60) as client:
            return _published(client, path, digest, made, replace)

    return asked(publish, "GitHub", "GITHUB_TOKEN", repo, secret, attempts)


def _published(client: Any, path: Path, digest: str, made: dict[str, str], replace: bool) -> str:
    """See `publish_to_github`; done in part and again, it comes out the same."""
    tag = made["tag_name"]
    release = _ask(client, "GET", f"/releases/tags/{tag}", missing_ok=True)
    if release is None:
        release = _ask(client, "POST", "/releases", json=made)
    for asset in _assets(client, release):
        if asset["name"] != path.name:
            continue
        if asset.get("state") == "uploaded":
            if asset.get("digest") == digest:
                return str(asset["browser_download_url"])
            said = f"release '{tag}' has another '{path.name}' already; "
            refuse(not replace, f"{said}choose another tag, or replace it")
        _ask(client, "DELETE", f"/releases/assets/{int(asset['id'])}")
    kind, size = "application/octet-stream", str(path.stat().st_size)
    headers = {"Content-Length": size, "Content-Type": kind}
    address = str(release["upload_url"]).split("{")[0]
    with path.open("rb") as file:
        named, content = {"name": path.name}, iter(partial(file.read, _CHUNK), b"")
        asset = _ask(client, "POST", address, params=named, content=content, headers=headers)
    if asset.get("digest") not in (None, digest):
        _ask(client, "DELETE", f"/releases/assets/{int(asset['id'])}")
        raise IntegrityError(f"'{path}' was changed while it was sent; publish it again")
    return str(asset["browser_download_url"])


def _assets(client: Any, release: Any) -> Iterator[Any]:
    address = f"/releases/{int(release['id'])}/assets"
    pages = (_ask(client, "GET", address, params={"per_page": 100, "page": n}) for n in count(1))
    return chain.from_iterable(takewhile(bool, pages))


def _ask(client: Any, method: str, address: str, *, missing_ok: bool = False, **more: Any) -> Any:
    response = client.request(method, address, **more)
    if response.status_code == 404 and missing_ok:
        return None
    if not response.is_success:
        said = f"{response.status_code} {response.reason_phrase}: {response.text[:300]}"
        error = needed("httpx", "httpx", "hub").HTTPStatusError
        raise error(f"{method} {address}: {said}", request=response.request, response=response)
    return response.json() if response.content else None
