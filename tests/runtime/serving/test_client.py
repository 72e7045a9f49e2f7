"""A client that asks again: right answers from whoever answers, one error where nobody does."""

from __future__ import annotations

import socket
import time
from typing import Any

import numpy as np
import pytest

from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.runtime.serving.client import Client, Retries

from .test_server import MATRIX, model, product, running, until_ready

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        return int(opened.getsockname()[1])


def test_it_goes_to_the_server_that_answers() -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    with running(model()) as http:
        until_ready(http)
        with Client([dead, str(http.base_url).rstrip("/")]) as client:
            for _ in range(3):
                np.testing.assert_array_equal(client.infer("net", {"x": X})["y"], X @ MATRIX)
            with pytest.raises(OptionError, match=r"404 no model 'other'; there are \['net'\]"):
                client.infer("other", {"x": X})
            with pytest.raises(OptionError, match=r"400 input 'x' is float32\[-1, 3\], got float"):
                client.infer("net", {"x": X[0]})


def test_it_waits_for_a_server_that_is_not_ready_yet() -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    calls: list[int] = []

    def flaky(inputs: Any) -> Any:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("a fault")
        return product(inputs)

    with running(model(flaky)) as http, Client(str(http.base_url).rstrip("/")) as client:
        np.testing.assert_array_equal(client.infer("net", {"x": X})["y"], X @ MATRIX)
    assert len(calls) == 3
    with Client(address, Retries(deadline=0.4)) as client:
        start = time.monotonic()
        with pytest.raises(
            BackendError, match=r"no answer of 'net' in 0\.4 s; http://127.*refused"
        ):
            client.infer("net", {"x": X})
        assert time.monotonic() - start < 60


def test_what_no_request_holds() -> None:
    with (
        Client("http://127.0.0.1:1") as client,
        pytest.raises(OptionError, match="holds complex64"),
    ):
        client.infer("net", {"x": X.astype(np.complex64)})
    with pytest.raises(OptionError, match="needs a server"):
        Client([])
