"""A server on a real socket: right answers in any company, refusals, health, figures, the end."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.runtime.serving import bodies
from triton_dsl.runtime.serving import server as serving
from triton_dsl.runtime.serving.batching import Limits
from triton_dsl.runtime.serving.models import Loaded, Served
from triton_dsl.runtime.serving.protocol import HEADER, Request
from triton_dsl.runtime.serving.signature import FREE, Port, Signature

Array = np.ndarray[Any, Any]
F32 = np.dtype(np.float32)
SIGNATURE = Signature([Port("x", F32, (FREE, 3), 0)], [Port("y", F32, (FREE, 2), 0)])
MATRIX = np.array([[1, 0], [-1, 1], [0, 2]], np.float32)


def product(inputs: Sequence[Array]) -> list[Array]:
    return [inputs[0] @ MATRIX]


def model(
    run: Callable[[Sequence[Array]], list[Array]] = product, signature: Signature = SIGNATURE
) -> Served:
    return Served("net", [lambda: Loaded(run, signature, "numpy")])


SERVERS: list[uvicorn.Server] = []
"""Those of this process, the last one last."""


@contextmanager
def running(
    *models: Served, limits: Limits | None = None, app: Any = None
) -> Generator[httpx.Client]:
    """A client of a server in a thread, on a free port; it stops as a signal stops it."""
    app = app or serving.application(models, limits)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    SERVERS.append(server)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


def until_ready(client: httpx.Client) -> None:
    while client.get("/v2/health/ready").status_code != 200:
        time.sleep(0.01)


def body(x: Array, **more: Any) -> dict[str, Any]:
    tensor = {"name": "x", "shape": list(x.shape), "datatype": "FP32", "data": x.ravel().tolist()}
    return {"inputs": [tensor], **more}


def ask(client: httpx.Client, x: Array) -> Array:
    response = client.post("/v2/models/net/infer", json=body(x))
    assert response.status_code == 200, response.text
    (output,) = response.json()["outputs"]
    return np.array(output["data"], np.float32).reshape(output["shape"])


def test_each_request_gets_its_own_answer() -> None:
    seen: list[int] = []

    def run(inputs: Sequence[Array]) -> list[Array]:
        seen.append(len(inputs[0]))
        time.sleep(0.01)  # others come meanwhile
        return product(inputs)

    rng = np.random.default_rng(0)
    requests = [rng.normal(size=(1 + i % 3, 3)).astype(np.float32) for i in range(60)]
    with running(model(run), limits=Limits(samples=16)) as client:
        until_ready(client)
        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda x: ask(client, x), requests))
        figures = client.get("/metrics").text
    for x, y in zip(requests, answers, strict=True):
        np.testing.assert_allclose(y, x @ MATRIX, rtol=1e-6)
    assert sum(seen) == sum(map(len, requests)) and max(seen) > 3 and max(seen) <= 16
    assert 'triton_requests_total{model="net",status="200"} 60.0' in figures
    assert f'triton_batch_samples_count{{model="net"}} {float(len(seen))}' in figures


def test_binary_tensors_go_both_ways() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor: dict[str, Any] = {"name": "x", "shape": [2, 3], "datatype": "FP32"}
    tensor["parameters"] = {"binary_data_size": x.nbytes}
    asked = {"id": "7", "inputs": [tensor], "parameters": {"binary_data_output": True}}
    text = json.dumps(asked).encode()
    with running(model()) as client:
        until_ready(client)
        response = client.post(
            "/v2/models/net/infer", content=text + x.tobytes(), headers={HEADER: str(len(text))}
        )
    length = int(response.headers[HEADER])
    fields = json.loads(response.content[:length])
    assert fields["id"] == "7" and fields["model_name"] == "net"
    assert fields["outputs"][0]["parameters"] == {"binary_data_size": 16}
    values = np.frombuffer(response.content[length:], np.float32).reshape(2, 2)
    np.testing.assert_array_equal(values, x @ MATRIX)


def test_a_model_says_what_it_is() -> None:
    with running(model()) as client:
        until_ready(client)
        assert client.get("/v2").json()["extensions"] == ["binary_tensor_data"]
        assert client.get("/v2/health/live").json() == {"live": True}
        assert client.get("/v2/models/net").json() == {
            "name": "net",
            "versions": ["1"],
            "platform": "numpy",
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
        }
        absent = client.get("/v2/models/other")
        assert absent.status_code == 404 and "there are ['net']" in absent.json()["error"]


X = np.zeros((1, 3), np.float32)
MALFORMED = [
    (b"", "is no JSON"),
    (b"[" * 100_000, "is no JSON"),
    (b"[]", "is no JSON object"),
    (b"{}", "no list 'inputs'"),
    (b'{"inputs": [1]}', "is no JSON object"),
    (body(X) | {"parameters": 3}, "'parameters' is no JSON object"),
    ({"inputs": [{"name": 3}]}, "has no name"),
    ({"inputs": [{"name": "x", "shape": [-1, 3]}]}, "no shape of sizes"),
    ({"inputs": [{"name": "x", "shape": [True, 3]}]}, "no shape of sizes"),
    ({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "BYTES"}]}, "datatype 'BYTES'"),
    (body(X[:, :2]), "input 'x' is float32[-1, 3], got float32[1, 2]"),
    ({"inputs": [body(X)["inputs"][0] | {"data": [1]}]}, "does not hold FP32[1, 3]"),
    ({"inputs": [body(X)["inputs"][0] | {"data": ["a", 1, 2]}]}, "does not hold FP32[1, 3]"),
    ({"inputs": [body(X)["inputs"][0] | {"datatype": "FP64"}]}, "got float64[1, 3]"),
    ({"inputs": [body(X)["inputs"][0] | {"name": "z"}]}, "expected the inputs ['x'], got ['z']"),
    ({"inputs": [body(X)["inputs"][0] | {"data": ["1", 1, 2]}]}, "elements of the type str"),
    ({"inputs": [body(X)["inputs"][0] | {"data": [None, True, 2]}]}, "the type NoneType, bool"),
    ({"inputs": [body(X)["inputs"][0] | {"data": [[1, 2], 3]}]}, "lists stand beside numbers"),
    ({"inputs": [body(X)["inputs"][0] | {"shape": [], "data": None}]}, "of the type NoneType"),
    ({"inputs": body(X)["inputs"] * 2}, "input 'x' is given twice"),
    (body(X, outputs=3), "no list 'outputs'"),
    (body(X, outputs=[{"name": "z"}]), "there is no output 'z'; there are ['y']"),
    ({"inputs": []}, "expected the inputs ['x'], got []"),
    (
        {"inputs": [body(X)["inputs"][0] | {"parameters": {"binary_data_size": 12}}]},
        "is to have 12 bytes, of 0",
    ),
]


def test_malformed_requests_are_refused_and_change_nothing() -> None:
    with running(model()) as client:
        until_ready(client)
        for content, message in MALFORMED:
            sent = content if isinstance(content, bytes) else json.dumps(content).encode()
            response = client.post("/v2/models/net/infer", content=sent)
            assert response.status_code == 400, content
            assert message in response.json()["error"]
        headers = {HEADER: "-3"}
        response = client.post("/v2/models/net/infer", content=b"{}", headers=headers)
        assert response.status_code == 400 and "is no length" in response.json()["error"]
        headers = {"Content-Encoding": "gzip"}
        response = client.post("/v2/models/net/infer", content=b"{}", headers=headers)
        assert response.status_code == 415 and "the coding 'gzip'" in response.json()["error"]
        assert client.post("/v2/models/other/infer", content=b"{}").status_code == 404
        np.testing.assert_array_equal(ask(client, X + 1), (X + 1) @ MATRIX)
        figures = client.get("/metrics").text
    assert f'triton_requests_total{{model="net",status="400"}} {len(MALFORMED) + 1}.0' in figures
    assert 'triton_requests_total{model="",status="404"} 1.0' in figures


def test_numbers_are_taken_as_they_are() -> None:
    ports = [Port(n, np.dtype(t), (FREE,), 0) for n, t in (("i", np.int8), ("b", np.bool_))]
    signature = Signature(ports, [])

    def read(i: Any, b: Any, **more: Any) -> list[Array]:
        tensors = [("i", "INT8", i), ("b", "BOOL", b)]
        inputs = [{"name": n, "shape": [2], "datatype": t, "data": d} for n, t, d in tensors]
        return Request(json.dumps({"inputs": inputs} | more).encode(), None, signature).inputs

    assert [x.tolist() for x in read([-128, 127], [[True], [False]])] == [
        [-128, 127],
        [True, False],
    ]
    for wrong in ([1.5, 2], [128, 0], [True, 0], [2**70, 0]):
        with pytest.raises(OptionError, match=r"does not hold INT8\[2\]"):
            read(wrong, [True, False])
    for wrong in ([1, 0], ["a", "b"]):
        with pytest.raises(OptionError, match=r"does not hold BOOL\[2\]"):
            read([1, 2], wrong)
    tensor = {"shape": [2], "parameters": {"binary_data_size": 2}}
    named = [tensor | {"name": n, "datatype": t} for n, t in (("i", "INT8"), ("b", "BOOL"))]
    text = json.dumps({"inputs": named}).encode()
    right = Request(text + b"\xff\x02\x01\x00", len(text), signature).inputs
    assert [x.tolist() for x in right] == [[-1, 2], [True, False]]
    with pytest.raises(OptionError, match="bytes other than 0 and 1"):
        Request(text + b"\xff\x02\x02\x00", len(text), signature)


def test_results_are_chosen_by_name_and_form() -> None:
    def run(inputs: Sequence[Array]) -> list[Array]:
        return [inputs[0] + 1, inputs[0] * 2]

    ports = [Port(name, F32, (FREE, 3), 0) for name in ("more", "twice")]
    x = np.arange(3, dtype=np.float32).reshape(1, 3)
    with running(model(run, Signature(SIGNATURE.inputs, ports))) as client:
        until_ready(client)
        asked = [{"name": "twice", "parameters": {"binary_data": True}}, {"name": "more"}]
        address = "/v2/models/net/versions/1"
        assert client.get(f"{address}/ready").json() == {"name": "net", "ready": True}
        assert client.get(address).json() == client.get("/v2/models/net").json()
        response = client.post(f"{address}/infer", json=body(x, outputs=asked))
        one = client.post("/v2/models/net/infer", json=body(x, outputs=asked[1:])).json()
    length = int(response.headers[HEADER])
    twice, more = json.loads(response.content[:length])["outputs"]
    assert twice["name"] == "twice" and twice["parameters"] == {"binary_data_size": 12}
    assert np.frombuffer(response.content[length:], np.float32).tolist() == [0, 2, 4]
    assert more["name"] == "more" and more["data"] == [1, 2, 3]
    assert [output["name"] for output in one["outputs"]] == ["more"]


def test_clients_that_go_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def run(inputs: Sequence[Array]) -> list[Array]:
        time.sleep(0.005)
        return product(inputs)

    content = json.dumps(body(X)).encode()
    head = b"POST /v2/models/net/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    sent = head % len(content) + content

    def leave(client: httpx.Client, count: int) -> None:
        with socket.create_connection((client.base_url.host, client.base_url.port)) as end:
            end.sendall(sent[:count])

    with running(model(run), limits=Limits(samples=8)) as client:
        until_ready(client)
        with ThreadPoolExecutor(8) as pool:
            gone = [pool.submit(leave, client, len(sent) - i % 3 * 40) for i in range(60)]
            answers = list(pool.map(lambda i: ask(client, X + i), range(30)))
            assert all(each.result() is None for each in gone)
        figures = client.get("/metrics").text
    for i, y in enumerate(answers):
        np.testing.assert_array_equal(y, (X + i) @ MATRIX)
    assert 'status="500"' not in figures and not caplog.records


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["inputs", "name", "shape", "datatype", "data", "parameters", "id"]),
        inner, max_size=5,
    ),
    max_leaves=12,
))  # fmt: skip
def test_any_json_is_read_or_refused(content: Any) -> None:
    with pytest.raises(OptionError):
        Request(json.dumps(content).encode(), None, SIGNATURE)


def test_too_many_and_too_long_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    free, entered = threading.Event(), threading.Event()

    def run(inputs: Sequence[Array]) -> list[Array]:
        entered.set()
        assert free.wait(60)
        return product(inputs)

    monkeypatch.setattr(bodies, "MOST_BYTES", 2000)
    with running(model(run), limits=Limits(samples=1, waiting=2)) as client:
        until_ready(client)
        with ThreadPoolExecutor(3) as pool:
            first = pool.submit(ask, client, X)
            assert entered.wait(60)
            others = [pool.submit(ask, client, X) for _ in range(2)]
            while 'triton_waiting_requests{model="net"} 2.0' not in client.get("/metrics").text:
                time.sleep(0.01)
            refused = client.post("/v2/models/net/infer", json=body(X))
            assert refused.status_code == 429 and "2 requests wait" in refused.json()["error"]
            long = client.post("/v2/models/net/infer", content=b" " * 3000)
            assert long.status_code == 413
            free.set()
            for each in (first, *others):
                np.testing.assert_array_equal(each.result(), X @ MATRIX)


def test_one_that_fails_fails_alone() -> None:
    def run(inputs: Sequence[Array]) -> list[Array]:
        time.sleep(0.02)
        if (inputs[0] > 100).any():
            raise ValueError("too large for the device")
        return product(inputs)

    with running(model(run)) as client:
        until_ready(client)
        with ThreadPoolExecutor(8) as pool:
            bad = [pool.submit(client.post, "/v2/models/net/infer", json=body(X + 101))]
            good = [pool.submit(ask, client, X + i) for i in range(6)]
            for i, each in enumerate(good):
                np.testing.assert_array_equal(each.result(), (X + i) @ MATRIX)
            response = bad[0].result()
    assert response.status_code == 500 and response.json()["error"] == "too large for the device"


def test_a_model_answers_from_the_first_form_that_is_ready() -> None:
    gate, second = threading.Event(), threading.Event()

    def slow() -> Loaded:
        assert second.wait(60)
        return Loaded(lambda inputs: [inputs[0] @ MATRIX * 2], SIGNATURE, "better")

    def quick() -> Loaded:
        assert gate.wait(60)
        return Loaded(product, SIGNATURE, "first")

    def broken() -> Loaded:
        raise BackendError("no such engine")

    net = Served("net", [quick, broken, slow])
    with running(net) as client:
        waiting = client.post("/v2/models/net/infer", json=body(X))
        assert waiting.status_code == 503 and "still loading" in waiting.json()["error"]
        assert client.get("/v2/health/ready").status_code == 503
        gate.set()
        until_ready(client)
        np.testing.assert_array_equal(ask(client, X + 1), (X + 1) @ MATRIX)
        second.set()
        while client.get("/v2/models/net").json()["platform"] != "better":
            time.sleep(0.01)
        np.testing.assert_array_equal(ask(client, X + 1), 2 * (X + 1) @ MATRIX)
    assert net.problem == "no such engine"


def test_a_model_that_cannot_be_loaded_leaves_the_others_alone() -> None:
    def broken() -> Loaded:
        raise MemoryError

    other = Served("broken", [broken])
    with running(other, model()) as client:
        while client.get("/v2/models/net/ready").status_code != 200:
            time.sleep(0.01)
        np.testing.assert_array_equal(ask(client, X), X @ MATRIX)
        refused = client.get("/v2/models/broken/ready")
        assert refused.status_code == 503
        assert refused.json()["error"] == "model 'broken' cannot be loaded: MemoryError"
        assert client.get("/v2/health/ready").status_code == 503


def test_a_server_that_stops_answers_what_it_owes() -> None:
    entered, free = threading.Event(), threading.Event()

    def run(inputs: Sequence[Array]) -> list[Array]:
        entered.set()
        assert free.wait(60)
        return product(inputs)

    served = model(run)
    with running(served, limits=Limits(samples=1)) as client, ThreadPoolExecutor(4) as pool:
        until_ready(client)
        asked = [pool.submit(ask, client, X + i) for i in range(3)]
        assert entered.wait(60)
        while 'triton_waiting_requests{model="net"} 2.0' not in client.get("/metrics").text:
            time.sleep(0.01)
        SERVERS[-1].should_exit = True
        time.sleep(0.3)
        assert not any(each.done() for each in asked)
        free.set()
        for i, each in enumerate(asked):
            np.testing.assert_array_equal(each.result(), (X + i) @ MATRIX)


def test_models_that_mix_samples_are_asked_one_by_one() -> None:
    signature = Signature([Port("x", F32, (3,), None)], [Port("y", F32, (2,), None)])
    seen: list[int] = []

    def run(inputs: Sequence[Array]) -> list[Array]:
        seen.append(inputs[0].ndim)
        return product(inputs)

    with running(model(run, signature)) as client:
        until_ready(client)
        with ThreadPoolExecutor(4) as pool:
            for y in pool.map(lambda i: ask(client, X[0] + i), range(8)):
                assert y.shape == (2,)
    assert seen == [1] * 8


def test_the_code_of_the_guide_runs(run_guide: Callable[[str], dict[str, Any]]) -> None:
    with running(app=run_guide("docs/serving.md")["app"]) as client:
        until_ready(client)
        tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
        answer = client.post("/v2/models/total/infer", json={"inputs": [tensor]})
    assert answer.json()["outputs"][0]["data"] == [10.0]
