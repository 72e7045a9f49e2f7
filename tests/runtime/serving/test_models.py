"""Forms of a model: where one fails another answers, and the first rests for a while."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from triton_dsl.runtime.serving import figures as figures_module
from triton_dsl.runtime.serving import models as module
from triton_dsl.runtime.serving.models import Loaded, Served
from triton_dsl.runtime.serving.signature import Signature

from .test_server import MATRIX, SIGNATURE, ask, product, running

Array = np.ndarray[Any, Any]
X = np.array([[1, 2, 3]], np.float32)


class Target:
    """A form that fails while it is told to."""

    def __init__(self, name: str, signature: Signature = SIGNATURE) -> None:
        self.name, self.signature = name, signature
        self.fails, self.calls = False, 0

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        self.calls += 1
        if self.fails:
            raise OSError(f"{self.name} is gone")
        return product(inputs)

    def load(self) -> Loaded:
        return Loaded(self.run, self.signature, self.name)


def test_another_target_answers_for_one_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    clock = SimpleNamespace(monotonic=lambda: now, perf_counter=time.perf_counter)
    for user in (module, figures_module):
        monkeypatch.setattr(user, "time", clock)
    first, second = Target("first"), Target("second")
    with running(served := Served("net", [first.load, second.load])) as client:
        while served.pending:
            time.sleep(0.01)
        np.testing.assert_array_equal(ask(client, X), X @ MATRIX)
        assert (first.calls, second.calls) == (0, 1)
        second.fails = True
        for _ in range(3):
            np.testing.assert_array_equal(ask(client, X), X @ MATRIX)
        assert (first.calls, second.calls) == (3, 2)  # it is not tried again while it rests
        figures = client.get("/metrics").text
        assert 'triton_target_failures_total{model="net",target="second"} 1.0' in figures
        assert 'triton_resting_targets{model="net"} 1.0' in figures
        second.fails = False
        now += module.REST + 0.01
        ask(client, X)
        assert (first.calls, second.calls) == (3, 3)
        assert 'triton_resting_targets{model="net"} 0.0' in client.get("/metrics").text
        first.fails = second.fails = True
        response = client.post("/v2/models/net/infer", json={"inputs": [
            {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]})  # fmt: skip
        assert response.status_code == 500 and response.json() == {"error": "second is gone"}
        first.fails = second.fails = False
        ask(client, X)  # both failed on the same request: none of them rests for it
        assert second.calls == 5


def test_rests_grow_to_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    form = Target("one").load()
    rests: list[float] = []
    for _ in range(9):
        form.failed()
        rests.append(form.rests_until - now)
    assert rests == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    form.failures = 5000  # some days later
    form.failed()
    assert form.rests_until == now + 60


def test_all_forms_take_what_each_can_take() -> None:
    ports = [replace(port, batch_axis=None) for port in SIGNATURE.inputs]
    alone = Signature(ports, SIGNATURE.outputs)
    served = Served("net", [Target("alone", alone).load, Target("batches").load])
    with running(served):
        while served.pending:
            time.sleep(0.01)
        assert served.batcher is not None and not served.batcher.signature.takes_batches
