"""The application: addresses of the Open Inference Protocol, health, figures for Prometheus.

Those of language models are in `text_routes`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NoReturn

from ...ir.errors import TritonError, refuse
from ...ir.version import __version__
from .batching import Limits
from .bodies import read_body, read_plain_body, web
from .figures import Figures
from .models import Served
from .protocol import HEADER, Request, answer, describe, status_of
from .text_routes import add_text_routes
from .writing import ServedText

Deploy = Callable[[str, bytes], Served]
"""What makes a model, by a name, of what was put there."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def application(
    models: Sequence[Served],
    limits: Limits | None = None,
    deploy: Deploy | None = None,
    texts: Sequence[ServedText] = (),
) -> Any:
    """A FastAPI application that serves models; it loads them when it starts.

    Args:
        models: by different names.
        limits: how requests are gathered.
        deploy: makes models of what is put to `/v2/models/NAME`; without it nothing is taken there.
        texts: language models, whose addresses are those of OpenAI.

    Raises:
        BackendError: FastAPI or prometheus-client is missing.
    """
    fastapi = web()
    server = _Server(models, limits or Limits(), texts)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None]:
        task = asyncio.create_task(server.load_all())
        yield
        task.cancel()
        await server.close()

    app = fastapi.FastAPI(title="Triton DSL", version=__version__, lifespan=lifespan)

    @app.exception_handler(fastapi.HTTPException)
    async def told(_: Any, error: Any) -> Any:
        return _refused(error.status_code, str(error.detail))

    app.get("/v2")(server.describe)
    app.get("/v2/health/live")(server.live)
    app.get("/v2/health/ready")(server.ready)
    app.get("/metrics")(server.metrics)
    for version in ("", "/versions/1"):
        app.get(f"/v2/models/{{name}}{version}/ready")(server.model_ready)
        app.get(f"/v2/models/{{name}}{version}")(server.metadata)
        # A plain route: what FastAPI does to arguments and results takes half as long again.
        app.add_route(f"/v2/models/{{name}}{version}/infer", server.infer, methods=["POST"])
    if deploy is not None:
        app.add_route("/v2/models/{name}", partial(server.put, deploy), methods=["PUT"])
        app.delete("/v2/models/{name}")(server.remove)
    if texts:
        add_text_routes(app, texts, server.figures.note)
    return app


def _refused(status: int, text: str) -> Any:
    return web().responses.JSONResponse({"error": text}, status)


class _Server:
    """The models that are there, and what the addresses answer."""

    def __init__(
        self, models: Sequence[Served], limits: Limits, texts: Sequence[ServedText]
    ) -> None:
        self.figures = Figures()
        self._models = {model.name: model for model in models}
        self._limits = limits
        self._texts = texts
        self._changing = asyncio.Lock()

    async def load_all(self) -> None:
        """Every model in turn."""
        for model in [*self._models.values()]:
            await self._load(model)
        for text in self._texts:
            await text.load(self._limits.waiting)

    async def _load(self, model: Served) -> None:
        model.on_failure = partial(self.figures.note_failure, model.name)
        await model.load(self._limits, partial(self.figures.note_batch, model.name))

    async def close(self) -> None:
        """Every model, once its requests are answered."""
        for model in (*self._models.values(), *self._texts):
            await model.close()

    def _of_name(self, name: str) -> Served:
        model = self._models.get(name) or self._absent(name)
        if model.batcher is None:
            still = "is still loading" if model.pending else f"cannot be loaded: {model.problem}"
            raise web().HTTPException(503, f"model '{name}' {still}")
        return model

    def _absent(self, name: str) -> NoReturn:
        raise web().HTTPException(404, f"no model '{name}'; there are {sorted(self._models)}")

    async def describe(self) -> dict[str, Any]:
        """The server's name and version."""
        extensions = ["binary_tensor_data"]
        return {"name": "triton-dsl", "version": __version__, "extensions": extensions}

    async def live(self) -> dict[str, bool]:
        """Whether it answers at all."""
        return {"live": True}

    async def ready(self) -> Any:
        """Whether every model answers."""
        loaded = [model.batcher for model in self._models.values()]
        loaded += [text.model for text in self._texts]
        is_ready = all(each is not None for each in loaded)
        return web().responses.JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    async def model_ready(self, name: str) -> dict[str, Any]:
        """Whether one model answers."""
        return {"name": self._of_name(name).name, "ready": True}

    async def metadata(self, name: str) -> dict[str, Any]:
        """A model's inputs and results."""
        loaded = self._of_name(name).loaded
        assert loaded is not None
        return describe(name, loaded.platform, loaded.signature)

    async def metrics(self) -> Any:
        """Figures for Prometheus."""
        text, media_type = self.figures.text(self._models.values())
        return web().Response(text, media_type=media_type)

    async def infer(self, request: Any) -> Any:
        """A model's results for the inputs of a request."""
        start, name = time.perf_counter(), request.path_params["name"]
        try:
            response = await _respond(self._of_name(name), request)
        except web().HTTPException as error:
            response = _refused(error.status_code, str(error.detail))
            name = name if name in self._models else ""  # a figure for each name would grow
        self.figures.note(name, response.status_code, time.perf_counter() - start)
        return response

    async def put(self, deploy: Deploy, request: Any) -> Any:
        """Serve a model of what a request holds; one of its name answers until the new one can."""
        name = request.path_params["name"]
        if not _NAME.fullmatch(name):
            return _refused(400, "a model's name has letters, digits, '.', '-' and '_'")
        try:
            made = await asyncio.to_thread(deploy, name, await read_body(request, "package"))
        except TritonError as error:
            return _refused(400, str(error))
        async with self._changing:
            await self._load(made)
            if made.batcher is None:
                return _refused(400, f"model '{name}' cannot be loaded: {made.problem}")
            former, self._models[name] = self._models.get(name), made
        if former is not None:
            await former.close()
        return web().responses.JSONResponse({"name": name, "ready": True})

    async def remove(self, name: str) -> dict[str, Any]:
        """Serve a model no more."""
        async with self._changing:
            model = self._models.pop(name, None) or self._absent(name)
        await model.close()
        return {"name": name, "ready": False}


async def _respond(model: Served, request: Any) -> Any:
    body = await read_plain_body(request)
    try:
        header = request.headers.get(HEADER)
        # The model may have been replaced by its next form meanwhile.
        loaded, batcher = model.loaded, model.batcher
        if loaded is None or batcher is None:
            return _refused(503, f"model '{model.name}' is not there any more")
        asked = Request(body, None if header is None else _length(header), loaded.signature)
        results = await batcher.submit(asked.inputs, asked.samples)
    except Exception as error:  # whatever an engine raises
        return _refused(*status_of(error))
    content, length = answer(model.name, asked, loaded.signature, results)
    if length is None:
        return web().Response(content, media_type="application/json")
    headers = {HEADER: str(length)}
    return web().Response(content, headers=headers, media_type="application/octet-stream")


def _length(text: str) -> int:
    refuse(not text.isdecimal(), f"{HEADER} is no length: {text!r}")
    return int(text)
