"""A server that asks who is there: certificates, tokens, roles, rates, a log; who is refused."""

from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import trustme
import uvicorn

from triton_dsl import build_package
from triton_dsl.ir.errors import IntegrityError, OptionError
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.packages.archive import to_archive
from triton_dsl.lowering.packages.package import read_package
from triton_dsl.runtime.serving.access import Buckets, Guard, asked
from triton_dsl.runtime.serving.audit import AuditLog, read_audit
from triton_dsl.runtime.serving.connections import bounded_protocol, server_context
from triton_dsl.runtime.serving.models import Loaded, Served
from triton_dsl.runtime.serving.policy import read_policy
from triton_dsl.runtime.serving.server import application
from triton_dsl.runtime.serving.signature import FREE, Port, Signature
from triton_dsl.tools import cli
from triton_dsl.tools.commands.options.runs import Serve
from triton_dsl.tools.commands.serve import deployer

F32 = np.dtype(np.float32)
SIGNATURE = Signature([Port("x", F32, (FREE, 2), 0)], [Port("y", F32, (FREE, 2), 0)])
BODY = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}

POLICY = """
[roles.client]
run = ["digits-*"]
read = ["*"]
requests_per_second = 1000

[roles.slow]
run = ["*"]
requests_per_second = 0.01
burst = 3

[roles.operator]
deploy = ["digits-*"]
read = ["*"]
metrics = true

[users.camera]
roles = ["client"]
certificate = "camera.example"

[users.alice]
roles = ["client", "operator"]
token_sha256 = "{alice}"

[users.bob]
roles = ["slow"]
token_sha256 = "{bob}"

[users.both]
roles = ["client"]
certificate = "both.example"
token_sha256 = "{both}"
"""
TOKENS = {name: f"secret-of-{name}" for name in ("alice", "bob", "both")}


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS.get(name, name)}"}


class Authority:
    """Certificates of one authority, in files.

    Args:
        folder: for them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.root = folder / "root.pem"
        self.ca.cert_pem.write_to_path(str(self.root))

    def issue(self, name: str, common: str | None = None) -> tuple[str, str]:
        """A certificate and its key."""
        made = self.ca.issue_cert(name, common_name=common)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
        made.private_key_pem.write_to_path(str(key))
        return str(certificate), str(key)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    hashes = {n: hashlib.sha256(t.encode()).hexdigest() for n, t in TOKENS.items()}
    path.write_text(POLICY.format(**hashes))
    return path


def same(inputs: Sequence[Any]) -> list[Any]:
    return [inputs[0]]


def models() -> list[Served]:
    loaded = Loaded(same, SIGNATURE, "numpy")
    return [Served(name, [lambda: loaded]) for name in ("digits-small", "private")]


@contextmanager
def running(app: Any, context: ssl.SSLContext | None = None) -> Generator[int]:
    """The port of a server in a thread."""
    config = uvicorn.Config(app, port=0, log_level="critical", http=bounded_protocol())
    config.load()
    config.ssl = context
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def client(
    port: int, authority: Authority, certificate: tuple[str, str] | None = None
) -> httpx.Client:
    context = ssl.create_default_context(cafile=str(authority.root))
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return httpx.Client(base_url=f"https://localhost:{port}", verify=context, timeout=60)


def statuses(caller: httpx.Client, headers: dict[str, str] | None = None) -> dict[str, int]:
    """What a client gets for each kind of request."""
    infer = "/v2/models/{}/infer"
    return {
        "health": caller.get("/v2/health/live", headers=headers).status_code,
        "server": caller.get("/v2", headers=headers).status_code,
        "read": caller.get("/v2/models/private", headers=headers).status_code,
        "run": caller.post(infer.format("digits-small"), json=BODY, headers=headers).status_code,
        "run other": caller.post(infer.format("private"), json=BODY, headers=headers).status_code,
        "metrics": caller.get("/metrics", headers=headers).status_code,
        "docs": caller.get("/openapi.json", headers=headers).status_code,
    }


def test_certificates_and_tokens_say_who_may_what(
    authority: Authority, policy: Path, tmp_path: Path
) -> None:
    audit = AuditLog(tmp_path / "audit")
    app = Guard(application(models()), read_policy(policy), audit)
    server = authority.issue("localhost")
    camera = authority.issue("camera.example", "camera.example")
    both = authority.issue("both.example", "both.example")
    stranger = authority.issue("stranger.example", "stranger.example")
    context = server_context(Path(server[0]), Path(server[1]), authority.root)
    nobody = dict.fromkeys(("server", "read", "run", "run other", "metrics", "docs"), 401)
    with running(app, context) as port:
        with client(port, authority, camera) as caller:
            while caller.get("/v2/health/ready").status_code != 200:
                time.sleep(0.01)
            may = {"health": 200, "server": 200, "read": 200, "run": 200}
            assert statuses(caller) == {**may, "run other": 403, "metrics": 403, "docs": 403}
            assert statuses(caller, bearer("wrong")) == {"health": 200, **nobody}
            both_kinds = {"run other": 403, "metrics": 200, "docs": 403}
            assert statuses(caller, bearer("alice")) == {**may, **both_kinds}
        with client(port, authority, both) as caller:
            assert caller.get("/v2").status_code == 401
            assert caller.get("/v2", headers=bearer("both")).status_code == 200
        with client(port, authority, camera) as caller:
            assert caller.get("/v2", headers=bearer("both")).status_code == 401
        with client(port, authority, stranger) as caller:
            assert caller.get("/v2/health/ready").status_code == 200
            refused = caller.get("/v2")
            assert refused.status_code == 401 and refused.headers["www-authenticate"] == "Bearer"
            for value in ("Basic YTpi", "Bearer", TOKENS["alice"]):
                assert caller.get("/v2", headers={"Authorization": value}).status_code == 401
            answers = [caller.get("/v2") for _ in range(40)]
            assert {answer.status_code for answer in answers} == {401, 429}
    count, _ = read_audit(tmp_path / "audit")
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert count == len(lines) > 60
    ran = [line for line in lines if line["action"] == "run" and line["status"] == 200]
    assert {(line["user"], line["model"]) for line in ran} == {
        ("camera", "digits-small"), ("alice", "digits-small"),
    }  # fmt: skip
    assert not any(token in (tmp_path / "audit").read_text() for token in TOKENS.values())


def test_clients_without_the_right_certificate_do_not_connect(
    authority: Authority, tmp_path: Path
) -> None:
    server = authority.issue("localhost")
    context = server_context(Path(server[0]), Path(server[1]), authority.root)
    other = Authority(tmp_path)
    wrong = other.issue("camera.example", "camera.example")
    right = authority.issue("camera.example", "camera.example")
    with running(application(models()), context) as port:
        with client(port, authority, right) as caller:
            assert caller.get("/v2").status_code == 200
        for certificate in (None, wrong):
            with (
                client(port, authority, certificate) as caller,
                pytest.raises(httpx.TransportError),
            ):
                caller.get("/v2")
        with (
            client(port, other, right) as caller,
            pytest.raises(httpx.ConnectError, match="verify"),
        ):
            caller.get("/v2")
        with httpx.Client() as caller, pytest.raises(httpx.TransportError):
            caller.get(f"http://localhost:{port}/v2")
        older = ssl.create_default_context(cafile=str(authority.root))
        older.load_cert_chain(*right)
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        with httpx.Client(verify=older) as caller, pytest.raises(httpx.TransportError):
            caller.get(f"https://localhost:{port}/v2")
        # OpenSSL's own client: what each version comes to.
        said = {
            version: subprocess.run(
                ["openssl", "s_client", "-connect", f"localhost:{port}", version,
                 "-CAfile", str(authority.root), "-cert", right[0], "-key", right[1]],
                input=b"", capture_output=True, check=False,
            )
            for version in ("-tls1_2", "-tls1_3")
        }  # fmt: skip
    assert said["-tls1_3"].returncode == 0 and b"TLSv1.3, Cipher is TLS_" in said["-tls1_3"].stdout
    assert said["-tls1_2"].returncode != 0 and b"Cipher is (NONE)" in said["-tls1_2"].stdout


def test_who_asks_too_often_waits(policy: Path) -> None:
    with (
        running(Guard(application(models()), read_policy(policy))) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=bearer("bob")) as caller,
    ):
        answers = [caller.post("/v2/models/private/infer", json=BODY) for _ in range(5)]
        codes = [answer.status_code for answer in answers]
        assert codes[3:] == [429, 429] and 429 not in codes[:3]
        assert 90 <= int(answers[-1].headers["retry-after"]) <= 100
        other = caller.get("/v2", headers=bearer("alice"))
        assert other.status_code == 200


def test_who_has_no_role_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    digest = hashlib.sha256(TOKENS["bob"].encode()).hexdigest()
    path.write_text(f'[users.bob]\ntoken_sha256 = "{digest}"')
    with (
        running(Guard(application(models()), read_policy(path))) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=bearer("bob")) as caller,
    ):
        codes = statuses(caller)
        assert (codes.pop("health"), codes.pop("server")) == (200, 200)
        assert set(codes.values()) == {403}


def test_rates_are_those_of_token_buckets() -> None:
    now = 0.0
    buckets = Buckets(lambda: now)
    assert [buckets.wait("a", 2.0, 3.0) for _ in range(4)] == [0, 0, 0, 0.5]
    now = 0.25
    assert buckets.wait("a", 2.0, 3.0) == 0.25
    now = 0.5
    assert buckets.wait("a", 2.0, 3.0) == 0
    assert buckets.wait("b", 2.0, 3.0) == 0
    now = 1000.0
    assert [buckets.wait("a", 2.0, 3.0) for _ in range(4)] == [0, 0, 0, 0.5]
    for index in range(30_000):
        buckets.wait(f"stranger {index}", 1.0, 1.0)
    assert len(buckets._left) <= 10_000  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("GET", "/v2/health/live", ("health", "")),
        ("POST", "/v2/health/live", ("none", "")),
        ("GET", "/v2/models/m", ("read", "m")),
        ("GET", "/v2/models/m/versions/1/ready", ("read", "m")),
        ("POST", "/v2/models/m/versions/1/infer", ("run", "m")),
        ("GET", "/v2/models/m/infer", ("none", "m")),
        ("PUT", "/v2/models/m", ("deploy", "m")),
        ("DELETE", "/v2/models/m", ("deploy", "m")),
        ("PUT", "/v2/models/m/ready", ("none", "m")),
        ("GET", "/v2/models/m/../../metrics", ("none", "")),
        ("GET", "/docs", ("none", "")),
        ("GET", "/v2/models//infer", ("none", "")),
        ("PATCH", "/v2", ("none", "")),
    ],
)
def test_requests_are_for_what_their_address_says(
    method: str, path: str, wanted: tuple[str, str]
) -> None:
    assert asked(method, path) == wanted


def with_program(package: bytes, program: bytes) -> bytes:
    """A package whose program is other bytes, all hashes computed anew."""
    artifact = read_package(io.BytesIO(package), "it")
    facts = {name: value for name, value in artifact.manifest.items() if name != "files"}
    files = {**artifact.files, "program.mlir": program}
    return to_archive(Artifact(artifact.name, files).with_manifest(**facts))


def test_models_are_deployed_by_those_who_may(policy: Path, tmp_path: Path) -> None:
    def package(factor: int) -> bytes:
        (tmp_path / "m.tri").write_text(
            "layer L { fn forward(x: Tensor[N, 2]) -> Tensor[N, 2] { return x * F } }".replace(
                "F", f"{factor}.0"
            )
        )
        return to_archive(build_package(tmp_path / "m.tri"))

    app = application(models(), deploy=deployer(Serve([], target=["pytorch"])))
    with (
        running(Guard(app, read_policy(policy))) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as caller,
    ):

        def put(name: str, content: bytes, who: str = "alice") -> int:
            answer = caller.put(f"/v2/models/{name}", content=content, headers=bearer(who))
            return answer.status_code

        def run(name: str) -> Any:
            answer = caller.post(f"/v2/models/{name}/infer", json=BODY, headers=bearer("alice"))
            ok = answer.status_code == 200
            return answer.json()["outputs"][0]["data"] if ok else answer.status_code

        two = package(2)
        assert put("digits-new", two, "bob") == 403
        assert put("private", two) == 403
        assert put("digits-new", two[:-1]) == 400
        assert put("digits-new", with_program(two, b"\xff\xfe")) == 400
        assert run("digits-new") == 404
        assert put("digits-new", two) == 200
        assert run("digits-new") == [2, 4]
        assert put("digits-new", package(3)) == 200
        assert run("digits-new") == [3, 6]
        assert caller.delete("/v2/models/digits-new", headers=bearer("bob")).status_code == 403
        assert caller.delete("/v2/models/digits-new", headers=bearer("alice")).status_code == 200
        assert run("digits-new") == 404
        assert caller.delete("/v2/models/digits-new", headers=bearer("alice")).status_code == 404
    with (
        running(application(models())) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as caller,
    ):
        assert caller.put("/v2/models/digits-new", content=two).status_code == 405


def test_the_log_is_a_chain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "audit"
    log = AuditLog(path, lambda: 1.5)
    for index in range(5):
        log.add(user=f"u{index}", status=200)
    log.close()
    assert path.stat().st_mode & 0o077 == 0
    previous = "0" * 64
    for number, line in enumerate(path.read_text().splitlines()):
        text = f'{{"n":{number},"status":200,"time":1.5,"user":"u{number}"}}'
        previous = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
        assert json.loads(line)["sha256"] == previous
    assert read_audit(path) == (5, previous)
    again = AuditLog(path, lambda: 2.0)
    again.add(user="later")
    again.close()
    assert read_audit(path)[0] == 6
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    rng = np.random.default_rng(0)
    for bit in rng.integers(8 * len(whole), size=500).tolist():
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(IntegrityError, match="was changed"):
            read_audit(path)
    for wrong in (lines[1:], [lines[0], *lines[2:]], [lines[1], lines[0], *lines[2:]]):
        path.write_bytes(b"".join(wrong))
        with pytest.raises(IntegrityError):
            AuditLog(path)
    path.write_bytes(b"".join(lines[:3]))
    assert cli.main(["audit", str(path)]) == 0
    assert json.loads(lines[2])["sha256"] in capsys.readouterr().out
    assert cli.main(["audit", str(path), "--json"]) == 0
    told = {"requests": 3, "sha256": json.loads(lines[2])["sha256"]}
    assert json.loads(capsys.readouterr().out) == told
    path.write_bytes(whole[:-20])
    assert cli.main(["audit", str(path)]) == 1
    assert "line 6 was changed" in capsys.readouterr().err


def test_what_cannot_be_noted_is_not_answered(policy: Path, tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit")
    with (
        running(Guard(application(models()), read_policy(policy), audit)) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as caller,
    ):
        assert caller.get("/v2", headers=bearer("alice")).status_code == 200
        full = Path("/dev/full")
        if not full.exists():
            pytest.skip("no /dev/full here")
        audit.close()
        audit._file = os.open(full, os.O_WRONLY)  # pyright: ignore[reportPrivateUsage]
        answer = caller.get("/v2", headers=bearer("alice"))
        audit.close()
        assert answer.status_code == 503 and "audit log" in answer.json()["error"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[", "cannot be read"),
        ("[other]", "other: there is no such setting"),
        ("[roles.a]\nfly = ['*']", r"roles\.a\.fly: there is no such setting"),
        ("[roles.a]\nrun = '*'", r"roles\.a\.run: .*valid array"),
        ("[roles.a]\nrequests_per_second = 0", "above 0"),
        ("[users.a]\nroles = ['b']\ncertificate = 'c'", r"not there: \['b'\]"),
        ("[users.a]\nroles = []", "needs a certificate or a token"),
        ("[users.a]\ntoken_sha256 = 'secret'", "64 hexadecimal digits"),
        ("[users.a]\ncertificate = 'c'\n[users.b]\ncertificate = 'c'", "two users"),
        ("users = 3", "users: Input should be an object"),
        ("[roles.a]\nmetrics = 'yes'", r"roles\.a\.metrics: .*boolean"),
        ("[roles.a]\nburst = nan", "'burst' is a number above 0"),
    ],
)
def test_policies_that_are_none_are_told(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(OptionError, match=match):
        read_policy(path)


def test_certificates_that_are_none_are_told(authority: Authority, tmp_path: Path) -> None:
    certificate, key = map(Path, authority.issue("localhost"))
    _, another = map(Path, authority.issue("other"))
    for files in ((key, certificate), (certificate, another), (tmp_path / "none", key)):
        with pytest.raises(OptionError, match="cannot be used"):
            server_context(*files)


@pytest.mark.slow
def test_the_command_serves_over_tls_to_users_alone(
    authority: Authority, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "digits-a.tri").write_text(
        "layer L { fn forward(x: Tensor[N, 2]) -> Tensor[N, 2] { return x * 2.0 } }"
    )
    model = str(tmp_path / "digits-a.tri")
    refused = [
        (["--tls-cert", model], "go together"),
        (["--client-ca", model], "--tls-cert"),
        (["--audit", model], "--policy"),
        (["--deploy"], "--policy"),
        (["--policy", str(policy)], "certificates"),
        (["--policy", str(policy), "--host", "0.0.0.0"], "--tls-cert"),
    ]
    for words, told in refused:
        assert cli.main(["serve", model, "-t", "pytorch", *words]) == 2
        assert told in capsys.readouterr().err
    certificate, key = authority.issue("localhost")
    command = [
        sys.executable, "-m", "triton_dsl.tools.cli", "serve", model, "-t", "pytorch",
        "--port", "0", "--tls-cert", certificate, "--tls-key", key,
        "--client-ca", str(authority.root), "--policy", str(policy),
        "--audit", str(tmp_path / "log"),
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "https://127.0.0.1:" in line
        port = int(line.rsplit(":", 1)[1].removesuffix("/v2\n"))
        camera = authority.issue("camera.example", "camera.example")
        with client(port, authority, camera) as caller:
            while caller.get("/v2/health/ready").status_code != 200:
                assert process.poll() is None
                time.sleep(0.05)
            elsewhere = {"X-Forwarded-For": "10.0.0.1"}
            answer = caller.post("/v2/models/digits-a/infer", json=BODY, headers=elsewhere)
            assert answer.json()["outputs"][0]["data"] == [2, 4]
            assert caller.get("/metrics").status_code == 403
        with client(port, authority) as caller, pytest.raises(httpx.TransportError):
            caller.get("/v2")
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(b"GET /v2 HTTP/1.1\r\n\r\n")
            raw.settimeout(10)
            assert not raw.recv(1000).startswith(b"HTTP")
        process.terminate()
        _, told = process.communicate(timeout=60)
        assert "Traceback" not in told
    finally:
        process.kill()
    assert read_audit(tmp_path / "log")[0] >= 3
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {line["client"] for line in lines} == {"127.0.0.1"}
