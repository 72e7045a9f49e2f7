"""Servers on this machine that speak as the Hugging Face Hub and GitHub do, and fail when asked to.

The Hub's part is what `huggingface_hub` asks for: repositories, trees, uploads by the LFS protocol
in one or several parts, commits as lines of JSON, downloads. GitHub's is its REST API for releases.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_secret-of-the-test"


class Broken(Exception):
    """The connection is to break now."""


class Service:
    """What answers; `asked` holds each method and path, `breaks` how often a path breaks off."""

    def __init__(self) -> None:
        self.address = ""
        self.asked: list[str] = []
        self.breaks: dict[str, int] = {}

    def answer(
        self, method: str, path: str, query: dict[str, str], body: bytes
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, content and headers."""
        raise NotImplementedError


@contextmanager
def running(service: Service) -> Generator[Service]:
    """A server of a service on a free port, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            parts = urlsplit(self.path)
            path, query = unquote(parts.path), parse_qs(parts.query)
            service.asked.append(f"{self.command} {path}")
            fragment = next((text for text in service.breaks if text in self.path), None)
            if fragment is not None and service.breaks[fragment] > 0:
                service.breaks[fragment] -= 1
                self.body(limit=1000)
                self.close_connection = True
                self.connection.shutdown(2)
                return
            body = self.body()
            if self.headers.get("Authorization", "") != f"Bearer {TOKEN}":
                status, content, headers = 401, {"error": "Invalid credentials"}, {}
                if path.startswith(("/put/",)):  # signed addresses of the storage need no token
                    status, content, headers = self.reply(path, query, body)
            else:
                status, content, headers = self.reply(path, query, body)
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def reply(
            self, path: str, query: dict[str, list[str]], body: bytes
        ) -> tuple[int, Any, dict[str, str]]:
            return service.answer(self.command, path, {k: v[0] for k, v in query.items()}, body)

        def body(self, limit: int | None = None) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                data = b""
                while size := int(self.rfile.readline(), 16):
                    data += self.rfile.read(size)
                    self.rfile.readline()
                    if limit is not None and len(data) >= limit:
                        return data
                self.rfile.readline()
                return data
            size = int(self.headers.get("Content-Length") or 0)
            return self.rfile.read(size if limit is None else min(size, limit))

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do_PATCH = answer

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            del request, client_address  # connections that broke off, on purpose

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def oid_of(data: bytes) -> str:
    """Git's name of a file."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub(Service):
    """A Hub whose files of some kinds go by LFS, in parts of `part` bytes where they are longer."""

    def __init__(self, part: int = 2000) -> None:
        super().__init__()
        self.part = part
        self.repos: dict[str, dict[str, bytes]] = {}
        self.commits: dict[str, list[str]] = {}
        self.private: set[str] = set()
        self.storage: dict[str, bytes] = {}
        self.parts: dict[tuple[str, int], bytes] = {}

    def answer(
        self, method: str, path: str, query: dict[str, str], body: bytes
    ) -> tuple[int, Any, dict[str, str]]:
        words = path.strip("/").split("/")
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}, {}
        if words[0] == "put":
            return self._store(words, body)
        if words[0] == "verify":
            asked = json.loads(body)
            return (200 if asked["oid"] in self.storage else 404), {}, {}
        if words[:2] == ["api", "models"]:
            return self._model("/".join(words[2:4]), words[4:], body)
        repo = "/".join(words[:2]).removesuffix(".git")
        if repo not in self.repos:
            return 404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"}
        if words[2:] == ["info", "lfs", "objects", "batch"]:
            return 200, self._batch(json.loads(body)), {}
        if words[2] == "resolve":
            return self._file(repo, "/".join(words[4:]))
        return 404, {"error": path}, {}

    def _create(self, asked: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        name = f"{asked['organization']}/{asked['name']}" if "organization" in asked else ""
        if asked.get("private") or asked.get("visibility") == "private":
            self.private.add(name)
        status = 409 if name in self.repos else 200
        self.repos.setdefault(name, {})
        self.commits.setdefault(name, ["0" * 40])
        return status, {"url": f"{self.address}/{name}", "name": name}, {}

    def _model(self, repo: str, rest: list[str], body: bytes) -> tuple[int, Any, dict[str, str]]:
        if repo not in self.repos:
            return 404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"}
        files = self.repos[repo]
        if rest[:1] == ["tree"]:
            listed = [
                {"type": "file", "path": name, "size": len(data), "oid": oid_of(data)}
                for name, data in sorted(files.items())
            ]
            return 200, listed, {}
        if rest[:1] == ["preupload"]:
            return 200, {"files": [self._mode(files, f) for f in json.loads(body)["files"]]}, {}
        if rest[:1] == ["commit"]:
            return self._commit(repo, body)
        siblings = [{"rfilename": name} for name in sorted(files)]
        sha = self.commits[repo][-1]
        if rest[:1] == ["revision"] and rest[1] not in ("main", *self.commits[repo]):
            return 404, {"error": "no revision"}, {"X-Error-Code": "RevisionNotFound"}
        return 200, {"id": repo, "sha": sha, "siblings": siblings}, {}

    def _mode(self, files: dict[str, bytes], asked: dict[str, Any]) -> dict[str, Any]:
        path = asked["path"]
        binary = path.endswith((".onnx", ".safetensors", ".py"))
        oid = oid_of(files[path]) if path in files else None
        mode = "lfs" if binary else "regular"
        return {"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid}

    def _batch(self, asked: dict[str, Any]) -> dict[str, Any]:
        objects: list[dict[str, Any]] = []
        for wanted in asked["objects"]:
            oid, size = wanted["oid"], wanted["size"]
            entry: dict[str, Any] = {"oid": oid, "size": size}
            if oid not in self.storage:
                header: dict[str, str] = {}
                href = f"{self.address}/put/{oid}/0"
                if size > self.part:
                    count = -(-size // self.part)
                    header = {"chunk_size": str(self.part)}
                    for number in range(1, count + 1):
                        header[str(number)] = f"{self.address}/put/{oid}/{number}"
                    href = f"{self.address}/put/{oid}/complete"
                upload = {"href": href, "header": header}
                verify = {"href": f"{self.address}/verify", "header": {}}
                entry["actions"] = {"upload": upload, "verify": verify}
            objects.append(entry)
        return {"transfer": "multipart", "objects": objects}

    def _store(self, words: list[str], body: bytes) -> tuple[int, Any, dict[str, str]]:
        _, oid, number = words
        if number == "complete":
            stated = [part["partNumber"] for part in json.loads(body)["parts"]]
            data = b"".join(self.parts[oid, index] for index in stated)
        elif number == "0":
            data = body
        else:
            self.parts[oid, int(number)] = body
            return 200, {}, {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}
        if hashlib.sha256(data).hexdigest() != oid:
            return 400, {"error": "another SHA-256"}, {}
        self.storage[oid] = data
        return 200, {}, {}

    def _commit(self, repo: str, body: bytes) -> tuple[int, Any, dict[str, str]]:
        files = dict(self.repos[repo])
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            match entry["key"]:
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.storage[value["oid"]]
                case "deletedFile":
                    files.pop(value["path"])
                case _:
                    pass
        self.repos[repo] = files
        sha = hashlib.sha1(body).hexdigest()
        self.commits[repo].append(sha)
        address = f"{self.address}/{repo}/commit/{sha}"
        return 200, {"success": True, "commitOid": sha, "commitUrl": address}, {}

    def _file(self, repo: str, path: str) -> tuple[int, Any, dict[str, str]]:
        data = self.repos[repo].get(path)
        if data is None:
            return 404, {"error": "no file"}, {"X-Error-Code": "EntryNotFound"}
        headers = {"ETag": f'"{oid_of(data)}"', "X-Repo-Commit": self.commits[repo][-1]}
        return 200, data, headers


class GitHub(Service):
    """One repository's releases; `status` is answered in place of an upload while it is not 0."""

    def __init__(self, on_upload: Callable[[GitHub], int] = lambda _: 0) -> None:
        super().__init__()
        self.releases: dict[int, dict[str, Any]] = {}
        self.assets: dict[int, tuple[int, dict[str, Any], bytes]] = {}
        self.on_upload = on_upload

    def answer(
        self, method: str, path: str, query: dict[str, str], body: bytes
    ) -> tuple[int, Any, dict[str, str]]:
        words = path.strip("/").split("/")[3:]
        match method, words:
            case "GET", ["releases", "tags", *tag]:
                found = [r for r in self.releases.values() if r["tag_name"] == "/".join(tag)]
                return (200, found[0], {}) if found else (404, {"message": "Not Found"}, {})
            case "POST", ["releases"]:
                return 201, self.release(**json.loads(body)), {}
            case "GET", ["releases", number, "assets"]:
                listed = [a for r, a, _ in self.assets.values() if r == int(number)]
                first = (int(query["page"]) - 1) * int(query["per_page"])
                return 200, listed[first : first + int(query["per_page"])], {}
            case "DELETE", ["releases", "assets", number]:
                del self.assets[int(number)]
                return 204, b"", {}
            case "POST", ["releases", number, "assets"]:
                status = self.on_upload(self)
                if status:
                    return status, {"message": "trouble"}, {}
                return self._upload(int(number), query["name"], body)
            case _:
                return 404, {"message": path}, {}

    def release(self, **entries: Any) -> dict[str, Any]:
        """A new release."""
        number = len(self.releases) + 1
        upload = f"{self.address}/repos/o/r/releases/{number}/assets{{?name,label}}"
        self.releases[number] = {"id": number, "upload_url": upload, **entries}
        return self.releases[number]

    def asset(self, release: int, name: str, data: bytes, state: str = "uploaded") -> int:
        """A new asset; its number."""
        number = max(self.assets, default=0) + 1
        facts = {
            "id": number, "name": name, "state": state, "size": len(data),
            "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "browser_download_url": f"{self.address}/o/r/releases/download/{release}/{name}",
        }  # fmt: skip
        self.assets[number] = (release, facts, data)
        return number

    def _upload(self, release: int, name: str, body: bytes) -> tuple[int, Any, dict[str, str]]:
        if any(r == release and a["name"] == name for r, a, _ in self.assets.values()):
            return 422, {"errors": [{"code": "already_exists"}]}, {}
        return 201, self.assets[self.asset(release, name, body)][1], {}
