"""The addresses of OpenAI's form: models, completions, chats, whole or as events."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...ir.errors import OptionError
from ..language_model import LanguageModel
from .access import MODEL, allowed
from .batching import Busy
from .openai import Answer, read_text_request
from .protocol import read_object
from .writing import Piece, TextRequest, Writer


@dataclass
class ServedText:
    """A language model under its name.

    Attributes:
        name: in requests.
        loader: of the model.
        texts: that are written at once.
        writer: of the model; `None` before it is ready.
        problem: why it could not be loaded.
    """

    name: str
    loader: Callable[[], LanguageModel]
    texts: int = 4
    writer: Writer | None = None
    problem: str | None = None

    async def load(self, waiting: int) -> None:
        """Load the model, in a thread."""
        try:
            model = await asyncio.to_thread(self.loader)
        except Exception as error:  # whatever it is, other models are to answer
            self.problem = str(error) or type(error).__name__
        else:
            self.writer = Writer(model, self.texts, waiting)

    async def close(self) -> None:
        """Answer what waits, and stop."""
        if self.writer is not None:
            await self.writer.close()


class _Refused(Exception):
    """A status, a message and a code."""


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

    def refused(status: int, message: str, code: str | None = None) -> Any:
        kind = "invalid_request_error" if status < 500 else "server_error"
        error = {"message": message, "type": kind, "param": None, "code": code}
        return JSONResponse({"error": error}, status)

    async def listed(request: Any) -> Any:
        shown = (name for name in served if allowed(request.scope, "read", name))
        return JSONResponse({"object": "list", "data": [entry(name) for name in shown]})

    @app.get("/v1/models/{name}")
    async def one(name: str) -> Any:
        return entry(name) if name in served else refused(404, _absent(name, served), _ABSENT)

    async def answered(request: Any, *, chat: bool) -> Any:
        start, name = time.perf_counter(), ""
        try:
            fields = read_object(await body_of(request))
            shown = {n: m for n, m in served.items() if allowed(request.scope, "read", n)}
            name = _name(fields, served, shown)
            request.scope.setdefault("state", {})[MODEL] = name
            if not allowed(request.scope, "run", name):
                raise _Refused(403, f"you may not run '{name}'", "not_allowed")
            response = await written(request, fields, served[name], chat)
        except _Refused as error:
            response = refused(*error.args)
        except fastapi.HTTPException as error:
            response = refused(error.status_code, str(error.detail))
        except OptionError as error:
            response = refused(400, str(error))
        except Busy:
            response = refused(429, "too many requests wait; ask again later", "rate_limit")
        except Exception as error:  # whatever an engine raises
            response = refused(500, str(error) or type(error).__name__)
        note(name, response.status_code, time.perf_counter() - start)
        return response

    async def written(
        request: Any, fields: Mapping[str, Any], model: ServedText, chat: bool
    ) -> Any:
        writer = model.writer
        if writer is None:
            still = f"cannot be loaded: {model.problem}" if model.problem else "is still loading"
            raise _Refused(503, f"model '{model.name}' {still}")
        asked = read_text_request(fields, writer.model, chat=chat)
        answer = Answer(asked, model.name, writer.model.tokenizer, int(time.time()))
        pieces = writer.pieces(asked)
        # What is wrong with the prompt comes before the answer has a status.
        first = await anext(pieces)
        if asked.stream:
            events = _events(answer, asked, first, pieces)
            return StreamingResponse(events, media_type="text/event-stream")
        answer.take(first)
        async for piece in pieces:
            answer.take(piece)
            if await request.is_disconnected():
                await pieces.aclose()
                raise _Refused(499, "the client has gone")
        return JSONResponse(answer.whole())

    # Plain routes: see `server`.
    app.add_route("/v1/models", listed)
    for address, chat in (("completions", False), ("chat/completions", True)):
        app.add_route(f"/v1/{address}", partial(answered, chat=chat), methods=["POST"])


async def _events(
    answer: Answer, asked: TextRequest, first: Piece, pieces: AsyncGenerator[Piece]
) -> AsyncIterator[bytes]:
    for event in (*answer.begin(), *answer.take(first)):
        yield event
    try:
        async for piece in pieces:
            for event in answer.take(piece):
                yield event
    except Exception as error:  # the status is sent already: it is told as clients look for it
        message = {"message": str(error) or type(error).__name__, "type": "server_error"}
        yield f"data: {json.dumps({'error': message})}\n\n".encode()
        return
    finally:
        await pieces.aclose()
    for event in answer.end():
        yield event


_ABSENT = "model_not_found"


def _absent(name: object, served: Mapping[str, ServedText]) -> str:
    return f"there is no language model {name!r}; there are {sorted(served)}"


def _name(
    fields: Mapping[str, Any], served: Mapping[str, ServedText], shown: Mapping[str, ServedText]
) -> str:
    """The model that is asked; it need not be named where there is one alone."""
    name = fields.get("model", next(iter(served)) if len(served) == 1 else None)
    if not isinstance(name, str) or name not in served:
        raise _Refused(404, _absent(name, shown), _ABSENT)
    return name
