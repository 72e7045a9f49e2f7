"""The steps of the server's image, in a Debian root: no base image is needed, and no Docker.

    debootstrap --variant=minbase --include=python3-venv,ca-certificates bookworm FOLDER
    sudo TRITON_DEBIAN_ROOT=FOLDER .venv/bin/pytest -m slow tests/examples/test_image.py

It needs an index of packages and the rights of the system's administrator. The steps change the
folder: each run needs a new one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

from triton_dsl import export_to_onnx
from triton_dsl.runtime.serving.client import Client

SOURCE = Path(__file__).resolve().parents[2]
FOLDER = os.environ.get("TRITON_DEBIAN_ROOT")


def instructions() -> dict[str, list[str]]:
    """What the file says, by its first words, lines that go on put together."""
    text = (SOURCE / "examples" / "operations" / "Dockerfile").read_text("utf-8")
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.M))
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        found.setdefault(name, []).append(rest)
    return found


@pytest.mark.slow
@pytest.mark.skipif(FOLDER is None, reason="TRITON_DEBIAN_ROOT names no Debian root")
def test_the_steps_of_the_image_make_a_server() -> None:
    root, said = Path(FOLDER or ""), instructions()
    assert (root / "etc" / "debian_version").read_text().startswith("12."), "bookworm, as the image"
    (root / "src").mkdir()
    archived = subprocess.run(
        ["git", "archive", "HEAD"], cwd=SOURCE, capture_output=True, check=True
    )
    subprocess.run(["tar", "-x", "-C", root / "src"], input=archived.stdout, check=True)
    for file in ("/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt"):
        if Path(file).exists():  # of this machine's network
            shutil.copy(file, root / file[1:])
    for step in said["RUN"]:
        subprocess.run(["chroot", root, "/bin/bash", "-c", step], check=True)
    assert not (root / "src").exists()
    torch.manual_seed(0)
    network, x = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), np.ones((2, 4), np.float32)
    (root / "models").mkdir()
    export_to_onnx(network, root / "models" / "model.onnx", (1, 4))
    with socket.create_server(("127.0.0.1", 0)) as opened:
        port = opened.getsockname()[1]
    user, variables = said["USER"][0], [each for each in said["ENV"] if "=" in each]
    inside = ["chroot", f"--userspec={user}", root, "/usr/bin/env", "-i", *variables]
    check: list[str] = json.loads("[" + said["HEALTHCHECK"][0].partition("[")[2])
    check = [part.replace("8080", str(port)) for part in check]
    entry: list[str] = json.loads(said["ENTRYPOINT"][0])
    with subprocess.Popen([*inside, *entry, "/models/model.onnx", "--port", str(port)]) as server:
        try:
            end = time.monotonic() + 300
            while subprocess.run([*inside, *check], capture_output=True, check=False).returncode:
                assert server.poll() is None and time.monotonic() < end
                time.sleep(1)
            with Client(f"http://127.0.0.1:{port}") as client:
                (found,) = client.infer("model", {"input": x}).values()
        finally:
            server.send_signal(signal.SIGTERM)
    session = onnxruntime.InferenceSession(root / "models" / "model.onnx")
    (expected,) = session.run(None, {"input": x})
    np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-5)
