"""The addresses of OpenAI's form: models, completions, chats, whole or as events."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ...ir.errors import OptionError
from ...ir.settings import Settings
from .access import MODEL, allowed
from .openai import Answer, read_text_request
from .protocol import status_of
from .writing import Piece, ServedText

_CODES = {403: "not_allowed", 404: "model_not_found", 429: "rate_limit"}
"""What clients look for, by status."""


def add_text_routes(
    app: Any,
    models: Sequence[ServedText],
    body_of: Callable[[Any], Awaitable[bytes]],
    note: Callable[[str, int, float], None],
) -> None:
    """Add the addresses to an application.

    Args:
        app: of FastAPI.
        models: by different names.
        body_of: reads the body of a request; raises `HTTPException`.
        note: is told the model, status and seconds of each request, until its answer begins.
    """
    import fastapi
    from starlette.responses import JSONResponse, StreamingResponse

    served = {model.name: model for model in models}
    created = int(time.time())

    def entry(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": created, "owned_by": "triton-dsl"}

    def absent(name: object, shown: Iterable[str]) -> str:
        return f"there is no language model {name!r}; there are {sorted(shown)}"

    def refused(status: int, message: str) -> Any:
        kind = "invalid_request_error" if status < 500 else "server_error"
        code = _CODES.get(status)
        error = {"message": message, "type": kind, "param": None, "code": code}
        return JSONResponse({"error": error}, status)

    def shown(request: Any) -> list[str]:
        return [name for name in served if allowed(request.scope, "read", name)]

    async def listed(request: Any) -> Any:
        return JSONResponse({"object": "list", "data": [*map(entry, shown(request))]})

    @app.get("/v1/models/{name}")
    async def one(name: str) -> Any:
        return entry(name) if name in served else refused(404, absent(name, served))

    async def answered(request: Any, *, chat: bool) -> Any:
        start, state = time.perf_counter(), request.scope.setdefault("state", {})
        try:
            response = await written(request, state, chat)
        except Exception as error:  # whatever an engine raises
            response = refused(*status_of(error))
        note(state.get(MODEL, ""), response.status_code, time.perf_counter() - start)
        return response

    async def written(request: Any, state: dict[str, Any], chat: bool) -> Any:
        given = Settings.of_json(await body_of(request), "the request", OptionError)
        # It need not be named where there is one alone.
        name = given.values.get("model", next(iter(served)) if len(served) == 1 else None)
        if not isinstance(name, str) or name not in served:
            raise fastapi.HTTPException(404, absent(name, shown(request)))
        state[MODEL], text = name, served[name]
        if not allowed(request.scope, "run", name):
            raise fastapi.HTTPException(403, f"you may not run '{name}'")
        if text.model is None:
            still = f"cannot be loaded: {text.problem}" if text.problem else "is still loading"
            raise fastapi.HTTPException(503, f"model '{name}' {still}")
        asked = read_text_request(given, text.model, chat=chat)
        answer = Answer(asked, name, text.model.tokenizer)
        pieces = text.pieces(asked)
        # What is wrong with the prompt comes before the answer has a status.
        first = await anext(pieces)
        if asked.stream:
            events = _events(answer, first, pieces)
            return StreamingResponse(events, media_type="text/event-stream")
        answer.take(first)
        async for piece in pieces:
            answer.take(piece)
            if await request.is_disconnected():
                await pieces.aclose()
                raise fastapi.HTTPException(499, "the client has gone")
        return JSONResponse(answer.whole())

    # Plain routes: see `server`.
    app.add_route("/v1/models", listed)
    for address, chat in (("completions", False), ("chat/completions", True)):
        app.add_route(f"/v1/{address}", partial(answered, chat=chat), methods=["POST"])


async def _events(
    answer: Answer, first: Piece, pieces: AsyncGenerator[Piece]
) -> AsyncIterator[bytes]:
    yield answer.begin() + answer.take(first)
    try:
        async for piece in pieces:
            yield answer.take(piece)
    except Exception as error:  # the status is sent already: it is told as clients look for it
        message = {"message": str(error) or type(error).__name__, "type": "server_error"}
        yield f"data: {json.dumps({'error': message})}\n\n".encode()
        return
    finally:
        await pieces.aclose()
    yield answer.end()
