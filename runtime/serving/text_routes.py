"""The addresses of OpenAI's form: models, completions, chats, whole or as events."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ...ir.errors import OptionError
from ...ir.settings import Settings
from ..language_model import LanguageModel
from .access import MODEL, allowed
from .bodies import read_plain_body, web
from .openai import Answer, read_text_request
from .protocol import status_of
from .writing import Piece, ServedText

_CODES = {403: "not_allowed", 404: "model_not_found", 429: "rate_limit"}
"""What clients look for, by status."""


def add_text_routes(
    app: Any, models: Sequence[ServedText], note: Callable[[str, int, float], None]
) -> None:
    """Add the addresses to an application.

    Args:
        app: of FastAPI.
        models: by different names.
        note: is told the model, status and seconds of each request, until its answer begins.
    """
    texts = _Texts(models, note)
    app.get("/v1/models/{name}")(texts.one)
    # Plain routes: see `server`.
    app.add_route("/v1/models", texts.listed)
    for address, chat in (("completions", False), ("chat/completions", True)):
        app.add_route(f"/v1/{address}", partial(texts.answered, chat=chat), methods=["POST"])


def _refused(status: int, message: str) -> Any:
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": message, "type": kind, "param": None, "code": _CODES.get(status)}
    return web().responses.JSONResponse({"error": error}, status)


def _absent(name: object, shown: Iterable[str]) -> str:
    return f"there is no language model {name!r}; there are {sorted(shown)}"


class _Texts:
    """The language models, and what the addresses answer."""

    def __init__(
        self, models: Sequence[ServedText], note: Callable[[str, int, float], None]
    ) -> None:
        self._models = {model.name: model for model in models}
        self._note = note
        self._created = int(time.time())

    def _shown(self, request: Any) -> list[str]:
        return [name for name in self._models if allowed(request.scope, "read", name)]

    def _entry(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "triton-dsl"}

    async def listed(self, request: Any) -> Any:
        """The models that who asks may see."""
        data = [*map(self._entry, self._shown(request))]
        return web().responses.JSONResponse({"object": "list", "data": data})

    async def one(self, name: str) -> Any:
        """One model."""
        known = name in self._models
        return self._entry(name) if known else _refused(404, _absent(name, self._models))

    async def answered(self, request: Any, *, chat: bool) -> Any:
        """What a model writes, or why it does not."""
        start, state = time.perf_counter(), request.scope.setdefault("state", {})
        try:
            response = await self._written(request, state, chat)
        except Exception as error:  # whatever an engine raises
            response = _refused(*status_of(error))
        self._note(state.get(MODEL, ""), response.status_code, time.perf_counter() - start)
        return response

    async def _written(self, request: Any, state: dict[str, Any], chat: bool) -> Any:
        given = Settings.of_json(await read_plain_body(request), "the request", OptionError)
        text, model = self._asked_for(given, request, state)
        asked = read_text_request(given, model, chat=chat)
        answer = Answer(asked, text.name, model.tokenizer)
        pieces = text.pieces(asked)
        # What is wrong with the prompt comes before the answer has a status.
        first = await anext(pieces)
        if asked.stream:
            events = _events(answer, first, pieces)
            return web().responses.StreamingResponse(events, media_type="text/event-stream")
        answer.take(first)
        async for piece in pieces:
            answer.take(piece)
            if await request.is_disconnected():
                await pieces.aclose()
                raise web().HTTPException(499, "the client has gone")
        return web().responses.JSONResponse(answer.whole())

    def _asked_for(
        self, given: Settings, request: Any, state: dict[str, Any]
    ) -> tuple[ServedText, LanguageModel]:
        """The model that a request names, where it may be run and can be."""
        # It need not be named where there is one alone.
        only = next(iter(self._models)) if len(self._models) == 1 else None
        name = given.values.get("model", only)
        if not isinstance(name, str) or name not in self._models:
            raise web().HTTPException(404, _absent(name, self._shown(request)))
        state[MODEL], text = name, self._models[name]
        if not allowed(request.scope, "run", name):
            raise web().HTTPException(403, f"you may not run '{name}'")
        if text.model is None:
            still = f"cannot be loaded: {text.problem}" if text.problem else "is still loading"
            raise web().HTTPException(503, f"model '{name}' {still}")
        return text, text.model


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
