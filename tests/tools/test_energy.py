"""`triton energy`: tables, JSON and a picture, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from triton_dsl.tools.cli import main

NETWORK = """
spike.network @net dt = 1.0e-3 {
  %w = tensor.constant dense<0.5> : tensor<4x3xf32>
  spike.input @x {shape = array<i64: 4>}
  spike.population @h {model = "lif", shape = array<i64: 3>, parameters = {tau = 1.0e-2 : f64}}
  spike.projection @fc @x -> @h weights(%w : tensor<4x3xf32>)
  spike.probe @hs @h
}
func.func @forward(%x: !spike.train<?x?x4>) -> !spike.train<?x?x3> {
  %hs = spike.simulate @net(%x) : (!spike.train<?x?x4>) -> !spike.train<?x?x3>
  func.return %hs : !spike.train<?x?x3>
}
"""


@pytest.fixture(autouse=True)
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.mlir").write_text(NETWORK)
    np.save("x.npy", np.ones((10, 2, 4), np.bool_))


def test_json_has_what_machines_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["energy", "net.mlir", "-i", "x.npy", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["machines"]
    assert list(told) == ["cpu", "fpga", "gpu", "loihi2", "spin2-48node", "spinnaker1"]
    # Ten steps, four inputs that always fire, each with three synapses.
    loihi = told["loihi2"]
    assert loihi["events"]["synapse"] == 120 and loihi["events"]["message"] == 40
    assert loihi["terms"]["synapse"] == pytest.approx([120 * 23.6e-12, 120 * 35.5e-12])
    assert told["cpu"]["total"] == pytest.approx([12 * 8.6e-9] * 2)
    # The script runs two steps before inputs, and one more, since @h hears them a step late.
    assert told["spinnaker1"]["seconds"] == pytest.approx([0.013] * 2)
    assert told["spinnaker1"]["keeps_up"] and list(told["spinnaker1"]["populations"]) == ["h", "x"]
    assert told["spin2-48node"]["missing"] == ["message", "chip_idle"]
    assert told["loihi2"]["costs"]["synapse"]["source"].startswith("Davies")


def test_tables_and_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["energy", "net.mlir", "-i", "x.npy", "-d", "loihi2", "-d", "spinnaker1"]
    assert main([*command, "--picture", "energy.svg"]) == 0
    text = capsys.readouterr().out
    assert "loihi2" in text and "100 µs" not in text and "13 ms" in text and "(idle)" in text
    drawn = Path("energy.svg").read_bytes()
    assert b"energy.all.loihi2" in drawn and b"energy.spinnaker1.x" in drawn
    assert main([*command, "--picture", "again.svg"]) == 0
    assert Path("again.svg").read_bytes() == drawn


def test_what_does_not_fit_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    Path("small.toml").write_text(
        "[machine]\ncores = 1\nshared = false\n[numbers]\nneurons_per_core = 1\n"
    )
    assert main(["energy", "net.mlir", "-i", "x.npy", "-d", "small.toml", "-d", "gpu"]) == 0
    assert "small.toml is left out: @network does not fit" in capsys.readouterr().out


def test_what_fits_nowhere_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["energy", "net.mlir", "-i", "x.npy", "-d", "loihi2{core_bytes=1}"]
    assert main([*command, "--picture", "energy.svg"]) == 1
    assert "core_bytes 12, a core has 1" in capsys.readouterr().err
    assert not Path("energy.svg").exists()


def test_without_costs_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text("[machine]\ncores = 4\n[numbers]\nneurons_per_core = 8\n")
    assert main(["energy", "net.mlir", "-i", "x.npy", "-d", "mine.toml"]) == 0
    told = capsys.readouterr().out
    assert "no cost is known of synapse, step" in told
    assert told.splitlines()[4].split("│")[2].strip() == "-"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-d", "loihi3"], 2, "did you mean 'loihi2'"),
        (["--picture", "energy.bmp"], 2, "expected a name in"),
        (["--picture", "no/energy.png"], 1, "no"),
    ],
)
def test_what_is_refused(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["energy", "net.mlir", "-i", "x.npy", *arguments]) == code
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == ["net.mlir", "x.npy"]
