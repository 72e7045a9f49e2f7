"""`triton serve`: which models it makes of files, and the command itself in a process."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import psutil
import pytest

from triton_dsl import import_model
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError, TritonError
from triton_dsl.runtime.serving.client import Client, Retries
from triton_dsl.tools.commands.options.runs import Serve
from triton_dsl.tools.commands.serve import _replicas, served_models  # pyright: ignore

PROGRAM = """
layer Net {
    fn forward(x: Tensor[N, 4]) -> Tensor[N, 4] { return softmax(x, axis=AXIS) }
}
"""


def program(folder: Path, axis: int, name: str = "net") -> Path:
    path = folder / f"{name}.tri"
    path.write_text(PROGRAM.replace("AXIS", str(axis)))
    return path


@pytest.mark.parametrize("target", ["native", "onnx", "pytorch", "tflite"])
@pytest.mark.parametrize(("axis", "together"), [(1, True), (0, False)])
def test_samples_go_together_where_they_do_not_meet(
    tmp_path: Path, target: str, axis: int, together: bool
) -> None:
    path = program(tmp_path, axis)
    (served,) = served_models(Serve([path], target=[target]))
    loaded = served.loaders[0]()
    assert loaded.signature.takes_batches == together and target in loaded.platform
    assert [port.shape for port in loaded.signature.inputs] == [(-1, 4)]
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_allclose(loaded.run([x])[0], run_module(import_model(path), [x])[0], 1e-5)


def test_a_model_that_cannot_be_loaded_is_told_at_the_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bare.tri"
    path.write_text("layer A { param w: Tensor[4]; fn forward(x: Tensor[N, 4]) { return x * w } }")
    (served,) = served_models(Serve([path]))
    with pytest.raises(TritonError):
        served.loaders[0]()
    shown = capsys.readouterr().err
    assert "warning: model 'bare' cannot be loaded: " in shown and "'w' is in no file" in shown


def test_names_and_weights_are_checked(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first, second = program(tmp_path, 1), program(tmp_path / "other", 1)
    with pytest.raises(OptionError, match="names of their own"):
        served_models(Serve([first, second]))
    with pytest.raises(OptionError, match="nosuch"):
        served_models(Serve([first], target=["native", "nosuch"]))
    with pytest.raises(OptionError, match="--weights goes with one model"):
        served_models(Serve([first, program(tmp_path, 1, "b")], weights=tmp_path / "w.npz"))


def test_the_command_answers_and_stops(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "triton_dsl.tools.cli", "serve", str(program(tmp_path, 1))]
    process = subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        port = int(line.rsplit(":", 1)[1].removesuffix("/v2\n"))
        assert line.endswith(f"listening on http://127.0.0.1:{port}/v2\n") and port > 0
        address = f"http://127.0.0.1:{port}/v2/models/net"
        _wait(f"{address}/ready", process)
        tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0, 0, 0, 0]}
        body = json.dumps({"inputs": [tensor]}).encode()
        with urlopen(Request(f"{address}/infer", body, method="POST")) as response:
            answer: Any = json.load(response)
        assert answer["outputs"][0]["data"] == [0.25] * 4
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
        assert "Traceback" not in told
    finally:
        process.kill()


def test_replicas_are_servers_on_ports_of_their_own(tmp_path: Path) -> None:
    options = Serve([tmp_path / "a.tri", tmp_path / "b.tri"], target=["onnx", "native"], replicas=3)
    first, *_, last = _replicas(options)
    assert first[:6] == [sys.executable, "-m", "triton_dsl.tools.cli", "serve", *first[4:6]]
    assert first[4:6] == [str(tmp_path / "a.tri"), str(tmp_path / "b.tri")]
    assert first[6:10] == ["--target", "onnx", "--target", "native"]
    assert first[-2:] == ["--port", "8080"] and last[-2:] == ["--port", "8082"]
    assert "--replicas" not in first and "--weights" not in first
    for port in (0, 65534):
        with pytest.raises(OptionError, match=f"no 3 ports from {port}"):
            _replicas(Serve([tmp_path / "a.tri"], port=port, replicas=3))
    with pytest.raises(OptionError, match="--deploy go with one server"):
        _replicas(Serve([tmp_path / "a.tri"], deploy=True, replicas=3))


def answer_of(client: Client) -> Any:
    (answer,) = client.infer("net", {"x": np.zeros((1, 4), np.float32)}).values()
    return answer


@pytest.mark.slow
def test_a_replica_that_is_killed_is_started_anew(tmp_path: Path) -> None:
    opened = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    port = max(each.getsockname()[1] for each in opened) + 1
    for each in opened:
        each.close()
    command = [sys.executable, "-m", "triton_dsl.tools.cli", "serve", str(program(tmp_path, 1))]
    options = ["--target", "onnx", "--replicas", "2", "--port", str(port)]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
    servers = [f"http://127.0.0.1:{port + index}" for index in range(2)]
    try:
        for server in servers:
            with Client(server, Retries(deadline=120)) as client:
                assert (answer_of(client) == 0.25).all()
        for child in psutil.Process(process.pid).children():
            child.kill()
        with Client(servers, Retries(deadline=120)) as client:
            assert (answer_of(client) == 0.25).all()
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 0 and told.count("ended with -9; again in 0.2 s") == 2
    finally:
        process.kill()


def test_an_address_in_use_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        command = ["serve", str(program(tmp_path, 1)), "--port", str(port)]
        done = subprocess.run(
            [sys.executable, "-m", "triton_dsl.tools.cli", *command],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"cannot listen on 127.0.0.1, port {port}" in done.stderr


def _wait(address: str, process: subprocess.Popen[str]) -> None:
    import time

    for _ in range(600):
        assert process.poll() is None
        try:
            with urlopen(address):
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail("the server did not come up")
