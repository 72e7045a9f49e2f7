"""A page of recorded numbers; and the whole way: trained, compiled, served, watched."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch import nn

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.runtime.layers import TernaryLinear
from triton_dsl.runtime.serving.models import Loaded, Served
from triton_dsl.runtime.serving.server import application
from triton_dsl.runtime.serving.signature import Port, Signature
from triton_dsl.runtime.training.config import TrainingConfig
from triton_dsl.runtime.training.tracking import History
from triton_dsl.runtime.training.trainer import Trainer
from triton_dsl.tools.pictures.dashboard import dashboard

HISTORY = History(
    [
        {"epoch": 1, "loss": 0.5, "learning_rate": 0.1, "val_loss": 0.6},
        {"epoch": 2, "loss": 0.25, "learning_rate": 0.1, "val_loss": 0.3},
    ]
)
FIGURES = """# HELP triton_requests_total Requests <by> their answer
# TYPE triton_requests_total counter
triton_requests_total{model="net",status="200"} 60.0
# HELP triton_request_seconds Time
# TYPE triton_request_seconds histogram
triton_request_seconds_bucket{le="0.1",model="net"} 40.0
triton_request_seconds_bucket{le="+Inf",model="net"} 60.0
triton_request_seconds_count{model="net"} 60.0
triton_request_seconds_sum{model="net"} 9.0
"""


class Page(HTMLParser):
    """What a page holds: headings, cells and pictures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.texts = list[str](), dict[str, list[str]]()
        self.pictures: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "img":
            self.pictures.append(dict(attrs)["src"])
        elif tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def test_a_page_shows_what_was_recorded(tmp_path: Path) -> None:
    path = dashboard(tmp_path / "page.html", title="A <b>", training=HISTORY, figures=FIGURES)
    text = path.read_text("utf-8")
    page = Page(text)
    assert page.texts["h1"] == ["A <b>"] and page.texts["h2"] == ["Training", "Serving"]
    assert page.texts["td"] == ["Requests <by> their answer", "model net, status 200", "60"]
    assert len(page.pictures) == 2 and "http" not in re.sub(r'base64,[^"]*', "", text)
    for picture in page.pictures:
        head, _, data = picture.partition(",")
        assert head == "data:image/svg+xml;base64"
        assert ElementTree.fromstring(base64.b64decode(data)).tag.endswith("svg")
    again = dashboard(tmp_path / "b.html", title="A <b>", training=HISTORY, figures=FIGURES)
    assert again.read_bytes() == path.read_bytes()


def test_what_makes_no_page(tmp_path: Path) -> None:
    for figures, message in ((None, "needs training, figures"), ("{", "no figures of")):
        with pytest.raises(OptionError, match=message):
            dashboard(tmp_path / "page.html", figures=figures)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_trained_compiled_for_a_device_served_and_watched(
    tmp_path: Path, require_tool: Callable[[str, str], str]
) -> None:
    require_tool("gcc", "apt-get install gcc")
    clients: Any = pytest.importorskip("fastapi.testclient")
    torch.manual_seed(0)
    y = torch.arange(120) % 2
    x = torch.rand(120, 8) * 0.6 + 0.4 * (torch.arange(8) // 4 == y[:, None])
    network = nn.Sequential(TernaryLinear(8, 12), nn.ReLU(), TernaryLinear(12, 2))
    config = TrainingConfig(
        epochs=5, learning_rate=0.02, log_to=("prometheus",), log_folder=str(tmp_path)
    )
    history = Trainer(network, config).fit((x, y), (x, y))
    assert history["val_accuracy"][-1] > 0.9
    network.eval()
    program = from_torch(network, (x[:1],))
    _, (on_device,), size = run_target(program, "c", [x[:1].numpy()])
    np.testing.assert_allclose(on_device, network(x[:1]).detach().numpy(), rtol=1e-5, atol=1e-5)
    assert size > 0

    def run(inputs: Any) -> Any:
        return [network(torch.from_numpy(inputs[0])).detach().numpy()]

    ports = [Port(name, np.dtype(np.float32), (-1, n), 0) for name, n in (("x", 8), ("y", 2))]
    loaded = Loaded(run, Signature(ports[:1], ports[1:]), "pytorch")
    tensor = {"name": "x", "shape": [120, 8], "datatype": "FP32", "data": x.flatten().tolist()}
    with clients.TestClient(application([Served("net", [lambda: loaded])])) as client:
        while client.get("/v2/health/ready").status_code != 200:
            pass
        answer = client.post("/v2/models/net/infer", json={"inputs": [tensor]}).json()
        figures = str(client.get("/metrics").text) + (tmp_path / "training.prom").read_text()
    logits = np.array(answer["outputs"][0]["data"]).reshape(120, 2)
    assert float((logits.argmax(1) == y.numpy()).mean()) == history["val_accuracy"][-1]
    page = Page(dashboard(tmp_path / "p.html", training=history, figures=figures).read_text())
    rows = dict(zip(page.texts["td"][1::3], page.texts["td"][2::3], strict=True))
    assert rows["model net, status 200"] == "1"
    assert float(rows["name val_accuracy"]) == pytest.approx(history["val_accuracy"][-1], 1e-5)
