"""Encrypted connections of a server: TLS 1.3 and nothing older, certificates of clients."""

from __future__ import annotations

import ssl
from asyncio import BaseTransport
from pathlib import Path
from typing import Any, cast

from ...ir.errors import OptionError
from .access import PEER


def server_context(certificate: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """What a server's connections are encrypted by.

    Args:
        certificate: of the server with those that lead to its authority, as PEM.
        key: of the certificate, as PEM.
        client_ca: certificates of authorities, as PEM: clients must show a certificate of one.

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
        raise OptionError(f"certificates {files} cannot be used: {reason}") from None
    return context


def common_name(certificate: Any) -> str | None:
    """The one common name of a certificate, as `getpeercert` gives it."""
    subject = cast(
        "tuple[tuple[tuple[str, str], ...], ...]", (certificate or {}).get("subject", ())
    )
    names = [value for part in subject for kind, value in part if kind == "commonName"]
    return names[0] if len(names) == 1 else None


def protocol_with_peers() -> Any:
    """Uvicorn's HTTP protocol, which tells each request the name of the client's certificate."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    base: Any = AutoHTTPProtocol

    class WithPeers(base):
        def connection_made(self, transport: BaseTransport) -> None:
            super().connection_made(transport)
            name = common_name(transport.get_extra_info("peercert"))
            self.app_state = {**self.app_state, PEER: name}

    return WithPeers
