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
from typing import Any

from ...ir.errors import TritonError, refuse
from ...ir.extras import needed
from ...ir.version import __version__
from .batching import Limits
from .models import Served
from .protocol import HEADER, Request, answer, describe, status_of
from .text_routes import add_text_routes
from .writing import ServedText

MOST_BYTES = 64 << 20
"""The longest body that a request may have."""
PATIENCE = 120.0
"""Seconds in which it has to come."""

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
    needed("fastapi", "fastapi", "serve")
    needed("prometheus_client", "prometheus_client", "serve")
    import fastapi
    import prometheus_client as prometheus
    from starlette.requests import ClientDisconnect

    limits = limits or Limits()
    served = {model.name: model for model in models}
    registry = prometheus.CollectorRegistry()
    prometheus.ProcessCollector(registry=registry)
    counter = partial(prometheus.Counter, registry=registry)
    histogram = partial(prometheus.Histogram, registry=registry, labelnames=["model"])
    gauge = partial(prometheus.Gauge, registry=registry)
    requests = counter("triton_requests", "Requests by their answer", ["model", "status"])
    latency = histogram("triton_request_seconds", "Time from request to answer")
    sizes = [2**power for power in range(11)]
    batches = histogram("triton_batch_samples", "Samples that went through at once", buckets=sizes)
    said = "Batches that another target answered"
    failures = counter("triton_target_failures", said, ["model", "target"])
    resting = gauge("triton_resting_targets", "Targets that rest after a failure", ["model"])
    answering = gauge("triton_ready", "1 where a model answers", ["model", "target"])
    waiting = gauge("triton_waiting_requests", "Requests that wait", ["model"])

    async def load(model: Served) -> None:
        model.on_failure = lambda platform: failures.labels(model.name, platform).inc()
        await model.load(limits, batches.labels(model.name).observe)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None]:
        async def load_all() -> None:
            for model in models:
                await load(model)
            for text in texts:
                await text.load(limits.waiting)

        task = asyncio.create_task(load_all())
        yield
        task.cancel()
        for model in (*served.values(), *texts):
            await model.close()

    app = fastapi.FastAPI(title="Triton DSL", version=__version__, lifespan=lifespan)

    def refused(status: int, text: str) -> Any:
        return fastapi.responses.JSONResponse({"error": text}, status)

    def ready(name: str) -> Served:
        model = served.get(name)
        if model is None:
            raise fastapi.HTTPException(404, f"no model '{name}'; there are {sorted(served)}")
        if model.batcher is None:
            still = "is still loading" if model.pending else f"cannot be loaded: {model.problem}"
            raise fastapi.HTTPException(503, f"model '{name}' {still}")
        return model

    @app.exception_handler(fastapi.HTTPException)
    async def told(_: Any, error: Any) -> Any:
        return refused(error.status_code, str(error.detail))

    @app.get("/v2")
    async def server() -> dict[str, Any]:
        extensions = ["binary_tensor_data"]
        return {"name": "triton-dsl", "version": __version__, "extensions": extensions}

    @app.get("/v2/health/live")
    async def live() -> dict[str, bool]:
        return {"live": True}

    @app.get("/v2/health/ready")
    async def all_ready() -> Any:
        loaded = [model.batcher for model in served.values()] + [text.model for text in texts]
        is_ready = all(each is not None for each in loaded)
        return fastapi.responses.JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    @app.get("/v2/models/{name}/ready")
    @app.get("/v2/models/{name}/versions/1/ready")
    async def model_ready(name: str) -> dict[str, Any]:
        return {"name": ready(name).name, "ready": True}

    @app.get("/v2/models/{name}")
    @app.get("/v2/models/{name}/versions/1")
    async def metadata(name: str) -> dict[str, Any]:
        loaded = ready(name).loaded
        assert loaded is not None
        return describe(name, loaded.platform, loaded.signature)

    @app.get("/metrics")
    async def metrics() -> Any:
        for model in served.values():
            waiting.labels(model.name).set(model.batcher.waiting if model.batcher else 0)
            now, answers = time.monotonic(), model.loaded
            answering.remove_by_labels({"model": model.name})
            answering.labels(model.name, answers.platform if answers else "").set(bool(answers))
            resting.labels(model.name).set(sum(form.rests_until > now for form in model.forms))
        text = prometheus.generate_latest(registry)
        return fastapi.Response(text, media_type=prometheus.CONTENT_TYPE_LATEST)

    async def body_of(request: fastapi.Request, what: str = "request") -> bytes:
        parts, total = list[bytes](), 0
        try:
            async with asyncio.timeout(PATIENCE):
                async for part in request.stream():
                    parts.append(part)
                    if (total := total + len(part)) > MOST_BYTES:
                        said = f"the {what} is longer than {MOST_BYTES} bytes"
                        raise fastapi.HTTPException(413, said)
        except TimeoutError:
            raise fastapi.HTTPException(408, f"the {what} took too long to come") from None
        except ClientDisconnect:
            raise fastapi.HTTPException(499, "the client has gone") from None
        return b"".join(parts)

    async def plain_body_of(request: fastapi.Request) -> bytes:
        if (coding := request.headers.get("content-encoding", "identity")) != "identity":
            said = f"the body is to come as it is, not in the coding {coding!r}"
            raise fastapi.HTTPException(415, said)
        return await body_of(request)

    def note(name: str, status: int, seconds: float) -> None:
        latency.labels(name).observe(seconds)
        requests.labels(name, str(status)).inc()

    async def infer(request: fastapi.Request) -> Any:
        start, name = time.perf_counter(), request.path_params["name"]
        try:
            response = await respond(ready(name), request)
        except fastapi.HTTPException as error:
            response = refused(error.status_code, str(error.detail))
            name = name if name in served else ""  # a figure for each name that comes would grow
        note(name, response.status_code, time.perf_counter() - start)
        return response

    async def respond(model: Served, request: fastapi.Request) -> Any:
        body = await plain_body_of(request)
        try:
            header = request.headers.get(HEADER)
            # The model may have been replaced by its next form meanwhile.
            loaded, batcher = model.loaded, model.batcher
            if loaded is None or batcher is None:
                return refused(503, f"model '{model.name}' is not there any more")
            asked = Request(body, None if header is None else _length(header), loaded.signature)
            results = await batcher.submit(asked.inputs, asked.samples)
        except Exception as error:  # whatever an engine raises
            return refused(*status_of(error))
        content, length = answer(model.name, asked, loaded.signature, results)
        if length is None:
            return fastapi.Response(content, media_type="application/json")
        headers = {HEADER: str(length)}
        return fastapi.Response(content, headers=headers, media_type="application/octet-stream")

    changing = asyncio.Lock()

    async def put(request: fastapi.Request) -> Any:
        name = request.path_params["name"]
        if not _NAME.fullmatch(name):
            return refused(400, "a model's name has letters, digits, '.', '-' and '_'")
        assert deploy is not None
        try:
            made = await asyncio.to_thread(deploy, name, await body_of(request, "package"))
        except TritonError as error:
            return refused(400, str(error))
        async with changing:
            await load(made)
            if made.batcher is None:
                return refused(400, f"model '{name}' cannot be loaded: {made.problem}")
            # The one before answered until now.
            former, served[name] = served.get(name), made
        if former is not None:
            await former.close()
        return fastapi.responses.JSONResponse({"name": name, "ready": True})

    async def remove(name: str) -> dict[str, Any]:
        async with changing:
            model = served.pop(name, None)
        if model is None:
            raise fastapi.HTTPException(404, f"no model '{name}'; there are {sorted(served)}")
        await model.close()
        return {"name": name, "ready": False}

    if deploy is not None:
        app.add_route("/v2/models/{name}", put, methods=["PUT"])
        app.delete("/v2/models/{name}")(remove)

    # A plain route: what FastAPI does to arguments and results takes half as long again.
    app.add_route("/v2/models/{name}/infer", infer, methods=["POST"])
    app.add_route("/v2/models/{name}/versions/1/infer", infer, methods=["POST"])
    if texts:
        add_text_routes(app, texts, plain_body_of, note)
    return app


def _length(text: str) -> int:
    refuse(not text.isdecimal(), f"{HEADER} is no length: {text!r}")
    return int(text)
