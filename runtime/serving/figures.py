"""What a server tells Prometheus of itself."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial

from ...ir.extras import needed
from .models import Served


class Figures:
    """Counters, histograms and gauges of one application, in a registry of their own.

    Raises:
        BackendError: prometheus-client is missing.
    """

    def __init__(self) -> None:
        needed("prometheus_client", "prometheus_client", "serve")
        import prometheus_client as prometheus

        self._registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self._registry)
        counter = partial(prometheus.Counter, registry=self._registry)
        histogram = partial(prometheus.Histogram, registry=self._registry, labelnames=["model"])
        gauge = partial(prometheus.Gauge, registry=self._registry)
        self._requests = counter("triton_requests", "Requests by their answer", ["model", "status"])
        self._latency = histogram("triton_request_seconds", "Time from request to answer")
        sizes = [2**power for power in range(11)]
        said = "Samples that went through at once"
        self._batches = histogram("triton_batch_samples", said, buckets=sizes)
        said = "Batches that another target answered"
        self._failures = counter("triton_target_failures", said, ["model", "target"])
        said = "Targets that rest after a failure"
        self._resting = gauge("triton_resting_targets", said, ["model"])
        self._answering = gauge("triton_ready", "1 where a model answers", ["model", "target"])
        self._waiting = gauge("triton_waiting_requests", "Requests that wait", ["model"])

    def note(self, name: str, status: int, seconds: float) -> None:
        """A request to a model was answered."""
        self._latency.labels(name).observe(seconds)
        self._requests.labels(name, str(status)).inc()

    def note_batch(self, name: str, samples: float) -> None:
        """So many samples went through a model at once."""
        self._batches.labels(name).observe(samples)

    def note_failure(self, name: str, platform: str) -> None:
        """A target of a model failed."""
        self._failures.labels(name, platform).inc()

    def text(self, models: Iterable[Served]) -> tuple[bytes, str]:
        """All of it in the form of Prometheus, with how models stand now; its media type."""
        import prometheus_client as prometheus

        for model in models:
            self._waiting.labels(model.name).set(model.batcher.waiting if model.batcher else 0)
            now, answers = time.monotonic(), model.loaded
            self._answering.remove_by_labels({"model": model.name})
            platform = answers.platform if answers else ""
            self._answering.labels(model.name, platform).set(bool(answers))
            resting = sum(form.rests_until > now for form in model.forms)
            self._resting.labels(model.name).set(resting)
        return prometheus.generate_latest(self._registry), prometheus.CONTENT_TYPE_LATEST
