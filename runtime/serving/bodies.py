"""What comes with a request: of a bounded length, in a bounded time."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from ...ir.extras import needed

web = partial(needed, "fastapi", "fastapi", "serve")
"""The module `fastapi`, which an extra brings."""

MOST_BYTES = 64 << 20
"""The longest body that a request may have."""
PATIENCE = 120.0
"""Seconds in which it has to come."""


async def read_body(request: Any, what: str = "request") -> bytes:
    """The body of a request of Starlette, in whatever coding.

    Raises:
        HTTPException: it is too long, takes too long, or the client has gone.
    """
    from starlette.requests import ClientDisconnect

    parts, total = list[bytes](), 0
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                parts.append(part)
                if (total := total + len(part)) > MOST_BYTES:
                    raise web().HTTPException(413, f"the {what} is longer than {MOST_BYTES} bytes")
    except TimeoutError:
        raise web().HTTPException(408, f"the {what} took too long to come") from None
    except ClientDisconnect:
        raise web().HTTPException(499, "the client has gone") from None
    return b"".join(parts)


async def read_plain_body(request: Any) -> bytes:
    """The body of a request that is not compressed.

    Raises:
        HTTPException: it is, or see `read_body`.
    """
    if (coding := request.headers.get("content-encoding", "identity")) != "identity":
        said = f"the body is to come as it is, not in the coding {coding!r}"
        raise web().HTTPException(415, said)
    return await read_body(request)
