"""`triton convert`: its table, JSON, picture and file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.models import import_model
from triton_dsl.tools.cli import main

SOURCE = """layer Net {
    let fc = Linear(5, 24)
    let head = Linear(24, 3)

    fn forward(x: Tensor[N, 5]) -> Tensor[N, 3] {
        return head(relu(fc(x)))
    }
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from triton_dsl.ir.store import save_arrays

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    (tmp_path / "net.tri").write_text(SOURCE)
    shapes = {"fc.weight": (5, 24), "fc.bias": (24,), "head.weight": (24, 3), "head.bias": (3,)}
    arrays = {key: rng.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
    save_arrays(tmp_path / "w.safetensors", arrays)
    np.save(tmp_path / "x.npy", rng.normal(size=(200, 5)).astype(np.float32))
    np.save(tmp_path / "y.npy", rng.integers(0, 3, 200))
    return tmp_path


NET = ("convert", "net.tri", "-w", "w.safetensors", "-s", "x.npy")


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*NET, *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_chosen_program_is_written_and_is_what_is_told(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    found = report(capsys, "--timesteps", "2,4", "--budget", "20", "-o", "out.mlir")
    (chosen,) = (row for row in found["front"] if row["chosen"])
    assert found["measured"] == 50 and not found["labels"] and chosen["spikes"] <= 20
    x = np.load(folder / "x.npy")[150:]
    (wanted,) = run_module(import_model("net.tri", weights="w.safetensors"), [x])
    (result,) = run_module(import_model("out.mlir"), [x])
    assert chosen["accuracy"] == np.mean(result.argmax(1) == wanted.argmax(1))
    keys = {"timesteps", "signed", "price", "accuracy", "spikes", "additions", "chosen"}
    keys |= {"divergence"}
    assert all(row.keys() == keys for row in found["front"])


def test_the_table_and_the_picture(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    pytest.importorskip("matplotlib")
    arguments = ("--labels", "y.npy", "--timesteps", "1,4", "--price", "0.01,0.1")
    assert main([*NET, *arguments, "--picture", "front.svg"]) == 0
    out = capsys.readouterr().out
    assert "accuracy" in out and "additions" in out and "yes" in out
    picture = (folder / "front.svg").read_text()
    assert all(f'id="{line}"' in picture for line in ("1", "4", "4 signed"))


def test_a_target_without_numbers_between_neurons_gets_plain_spikes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*NET, "--timesteps", "4", "-t", "nir", "--json"]) == 0
    captured = capsys.readouterr()
    assert "note: target 'nir' holds no numbers between neurons" in captured.err
    assert not any(row["signed"] for row in json.loads(captured.out)["front"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--timesteps", "1,two"), "expected timesteps as numbers with commas, got '1,two'"),
        (("--timesteps", "0"), "expected timesteps as whole numbers of at least 1"),
        (("--price", "-1"), "expects a price of at least 0"),
        (("-o", "out.onnx"), "a spiking program is IR; name it .mlir"),
        (("--budget", "0.0001", "--accuracy", "0.5"), "exclude each other"),
        (("-t", "abacus"), "abacus"),
        (("--labels", "x.npy"), "expected 200 labels as whole numbers, got float32"),
        (("--timesteps", "1", "--accuracy", "1"), "no conversion fits"),
    ],
)
def test_what_is_wrong_is_told_in_one_message(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert main([*NET, *arguments]) == (1 if "--labels" in arguments else 2)
    captured = capsys.readouterr()
    assert message in captured.err.replace("\n", " ") and "Traceback" not in captured.err
    assert not (folder / "out.onnx").exists()
