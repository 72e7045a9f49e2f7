"""`triton attack`: what attacks leave of right answers, beside torchattacks on PyTorch's layer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from triton_dsl.tools import cli

PROGRAM = """layer Net {
    param w: Tensor[8, 3]
    fn forward(x: Tensor[N, 8]) -> Tensor[N, 3] { return x @ w }
}"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    w, x = torch.randn(8, 3), torch.rand(60, 8)
    Path("net.tri").write_text(PROGRAM)
    save_file({"w": w}, "w.safetensors")
    np.save("x.npy", x.numpy())
    np.save("y.npy", (x @ w).argmax(1).numpy())
    return ["attack", "net.tri", "-w", "w.safetensors", "-i", "x.npy", "--labels", "y.npy"]


def test_what_attacks_leave_is_what_torchattacks_leaves(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    attacks: Any = pytest.importorskip("torchattacks")
    options = ["-a", "FGSM{eps=0.1}", "-a", "PGD{eps=0.1 alpha=0.03 steps=5 random-start=0}"]
    assert cli.main([*command, *options, "--limit", "50", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    net = nn.Linear(8, 3, bias=False)
    net.weight.data = load_file("w.safetensors")["w"].T
    x, y = torch.from_numpy(np.load("x.npy"))[:50], torch.from_numpy(np.load("y.npy"))[:50]
    expected = [
        float((net(kind(x, y)).argmax(1) == y).float().mean())
        for kind in (attacks.FGSM(net, 0.1), attacks.PGD(net, 0.1, 0.03, 5, random_start=False))
    ]
    assert said["rows"] == 50 and said["clean"] == 1
    assert list(said["attacked"].values()) == pytest.approx(expected, abs=1e-6)
    assert expected[0] < 0.9
    assert cli.main([*command, "-a", "GN{std=0.01}"]) == 0
    assert "100.00%" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-a", "Nothing"], "has no attack 'Nothing'"),
        (["-a", "FGSM{steps=2}"], "FGSM has no steps"),
        (["-a", "FGSM{eps=far}"], "eps is a number, not 'far'"),
        (["--labels", "x.npy"], "expected 60 labels"),
        (["-i", "w.safetensors"], "x"),
    ],
)
def test_what_cannot_be_attacked_is_told(
    command: list[str], options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torchattacks")
    line = [*command]
    if options[0] in line:  # no option is given twice
        place = line.index(options[0])
        del line[place : place + 2]
    assert cli.main([*line, *options]) == (2 if options[0] == "-a" else 1)
    shown = capsys.readouterr().err
    assert message in " ".join(shown.split()) and "Traceback" not in shown
