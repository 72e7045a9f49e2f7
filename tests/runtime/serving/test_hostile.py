"""What strangers may try at a server: heads without an end, addresses that mean another, a log."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from triton_dsl.ir.errors import BackendError, IntegrityError
from triton_dsl.runtime.serving import bodies, connections
from triton_dsl.runtime.serving.access import Guard
from triton_dsl.runtime.serving.audit import AuditLog, read_audit
from triton_dsl.runtime.serving.policy import read_policy
from triton_dsl.runtime.serving.server import application

from .test_access import BODY, TOKENS, bearer, models, policy, running

__all__ = ["policy"]
ASK = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n"


@contextmanager
def connected(port: int) -> Generator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as opened:
        yield opened


def rest(opened: socket.socket) -> bytes:
    """What comes until the server closes; nothing where it resets the connection."""
    found = b""
    try:
        while part := opened.recv(65536):
            found += part
    except ConnectionError:
        pass
    return found


@pytest.mark.parametrize("line", [b"X: ", b"GET /" + b"a" * 1000])
def test_a_head_without_an_end_is_not_kept(line: bytes) -> None:
    with running(application(models())) as port, connected(port) as opened:
        opened.sendall(ASK + line if line.startswith(b"X") else line)
        sent = 0
        with pytest.raises(ConnectionError):
            while sent < 64 << 20:
                sent += opened.send(bytes([97]) * 65536)
        assert sent < 8 << 20  # what the system holds between the two


def test_who_sends_slowly_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    with running(application(models())) as port:
        with connected(port) as silent, connected(port) as slow, connected(port) as second:
            slow.sendall(ASK)
            second.sendall(ASK + b"\r\n")  # a whole request, and a next one without an end
            assert b"200 OK" in second.recv(65536)
            second.sendall(ASK)
            assert rest(silent) == rest(slow) == rest(second) == b""
        # A body may take longer than a head.
        with connected(port) as patient:
            body = b'{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]}'
            patient.sendall(
                b"POST /v2/models/private/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body)
            )
            time.sleep(1)
            patient.sendall(body)
            assert b"200 OK" in rest(patient)
        monkeypatch.setattr(bodies, "PATIENCE", 0.3)
        with connected(port) as never:
            never.sendall(
                b"POST /v2/models/private/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                b"Content-Length: 9\r\n\r\n1"
            )
            assert b"408" in rest(never)


def test_lines_behind_a_body_are_counted() -> None:
    with running(application(models())) as port, connected(port) as opened:
        opened.sendall(
            b"POST /v2/models/private/infer HTTP/1.1\r\nHost: x\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
        )
        with pytest.raises(ConnectionError):
            for _ in range(64):
                opened.sendall(b"a: b\r\n" * 100)
                time.sleep(0.02)


@pytest.mark.parametrize(
    "line",
    [
        "POST /v2/models/private/infer", "POST /v2/models/%70rivate/infer",
        "POST /v2/models/private%2Finfer", "POST //v2/models/private/infer",
        "POST /v2//models/private/infer", "POST /V2/models/private/infer",
        "POST /v2/models/digits-small/../private/infer", "POST /v2/models/./private/infer",
        "POST /v2/models/digits-small%2F..%2Fprivate/infer", "POST /v2/models/private/infer/",
        "POST /v2/models/private%00/infer", "POST /v2/models/private/infer%0A",
        "POST /v2/models/private;digits-small/infer", "POST /v2/models/private/infer?/digits-x",
        "POST /v2/models/private/versions/1/infer", "POST /v2/models/private/versions/%31/infer",
        "POST http://digits-small/v2/models/private/infer", "PUT /v2/models/private/infer",
        "post /v2/models/private/infer", "POST /v2/models/digits-%2A/infer",
        "POST /v2/models/%EF%BD%90rivate/infer", "POST /v2/models/..%5Cprivate/infer",
    ],
)  # fmt: skip
def test_no_address_leads_past_the_policy(line: str, policy: Path) -> None:
    """A user who may run `digits-*` alone gets no answer of another model."""
    body = str(BODY).replace("'", '"').encode()
    guard = Guard(application(models()), read_policy(policy))
    with running(guard) as port, connected(port) as opened:
        opened.sendall(
            f"{line} HTTP/1.1\r\nHost: digits-small\r\nConnection: close\r\n"
            "X-HTTP-Method-Override: POST\r\nX-Original-URL: /v2/models/digits-small/infer\r\n"
            f"Authorization: Bearer {TOKENS['alice']}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        answer = rest(opened)
    assert answer.startswith(b"HTTP/1.1 4") and b"outputs" not in answer


def test_tokens_are_in_no_log(
    policy: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Nor in the traceback of an application that fails."""
    log = AuditLog(tmp_path / "log")

    async def fails(scope: object, receive: object, send: object) -> None:
        raise RuntimeError("out of order")

    with caplog.at_level(logging.DEBUG), running(Guard(fails, read_policy(policy), log)) as port:
        import httpx

        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as caller:
            answer = caller.get("/v2", headers=bearer("alice"))
            wrong = caller.get("/v2", headers={"Authorization": "Bearer wrong-secret"})
    said = capfd.readouterr()
    everything = answer.text + wrong.text + caplog.text + said.out + said.err
    everything += (tmp_path / "log").read_text()
    assert answer.status_code == 500 and wrong.status_code == 401
    assert not [t for t in (*TOKENS.values(), "wrong-secret") if t in everything]


def test_a_log_with_a_part_of_a_line_goes_on_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = AuditLog(tmp_path / "log"), os.write
    log.add(user="a")
    with monkeypatch.context() as patch, pytest.raises(OSError, match="a part of a line"):
        patch.setattr(os, "write", lambda file, data: write(file, data[:10]))
        log.add(user="b")
    log.add(user="c")
    assert read_audit(tmp_path / "log") == (2, log.last)
    with pytest.raises(BackendError, match="another server writes it"):
        AuditLog(tmp_path / "log")
    log.close()
    AuditLog(tmp_path / "log").close()
    (tmp_path / "log").write_text((tmp_path / "log").read_text()[:-1])
    with pytest.raises(IntegrityError, match="line 2 was changed"):
        AuditLog(tmp_path / "log")
