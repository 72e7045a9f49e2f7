"""Connections of a server: TLS 1.3 and nothing older, certificates of clients, heads that end.

Uvicorn waits for ever for the rest of a request's head, and keeps what comes of it. Not here: how
long bodies may be and take (`server`), who asks too often (`access`).
"""

from __future__ import annotations

import ssl
from asyncio import BaseTransport, TimerHandle
from pathlib import Path
from typing import Any

from ...ir.errors import InputError
from .access import PEER
from .bodies import MOST_BYTES

MOST_HEAD, MOST_HEADERS = 64 << 10, 256
"""Bytes and lines that a request may have beside its body."""
PATIENCE = 20.0
"""Seconds in which the head of a request has to come."""


def server_context(certificate: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """What a server's connections are encrypted by; all files are PEM.

    Args:
        certificate, key: of the server; the certificate with those that lead to its authority.
        client_ca: certificates of authorities: clients must show a certificate of one.

    Raises:
        OptionError: the files cannot be read, or do not go together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        # A key that asks for a password would wait at a terminal.
        context.load_cert_chain(certificate, key, password=lambda: "")
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:  # SSLError is an OSError
        files = ", ".join(f"'{path}'" for path in (certificate, key, client_ca) if path)
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise InputError(f"certificates {files} cannot be used: {reason}") from None
    return context


def bounded_protocol() -> Any:
    """Uvicorn's HTTP protocol with bounds, which tells requests the client's one common name."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    base: Any = AutoHTTPProtocol

    class Bounded(base):
        _late: TimerHandle | None = None
        _bytes = 0

        def connection_made(self, transport: BaseTransport) -> None:
            super().connection_made(transport)
            certificate: Any = transport.get_extra_info("peercert") or {"subject": ()}
            names = [v for part in certificate["subject"] for k, v in part if k == "commonName"]
            self.app_state = {**self.app_state, PEER: names[0] if len(names) == 1 else None}
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._wait(False)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            # The head of a next request: the time between two is Uvicorn's `timeout_keep_alive`.
            is_head = before is None or before.response_complete
            if is_head and self._late is None:
                self._wait()
            super().data_received(data)
            if self.cycle is not before:
                self._wait(False)
                self._bytes, is_head = 0, False
            self._bytes += len(data)
            most = MOST_HEAD if is_head else 2 * MOST_BYTES
            # Lines behind a body in pieces are headers, too.
            if self._bytes > most or len(self.headers or ()) > MOST_HEADERS:
                self.transport.abort()

        def _wait(self, on: bool = True) -> None:
            if self._late is not None:
                self._late.cancel()
            self._late = self.loop.call_later(PATIENCE, self.transport.abort) if on else None

    return Bounded
