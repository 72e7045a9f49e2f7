"""`triton run` on spiking programs: what it prints, its JSON, and the pictures it writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.store import save_arrays
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.runtime.spiking.spike_tensor import SpikeTensor
from triton_dsl.tools.cli import main

SOURCE = """layer Net {
    param w: TernaryTensor[6, 4]

    fn forward(s: SpikeTensor[8, N, 6]) -> Tensor[N, 4] {
        return decode(integrate_fire(s @ w))
    }
}
"""
DENSE = "layer Net { fn forward(x: Tensor[N, 6]) -> Tensor[N, 6] { return relu(x) } }\n"
RNG = np.random.default_rng(6)
W = RNG.integers(-1, 2, (6, 4)).astype(np.int8)
S = RNG.random((8, 5, 6)) < 0.5
LABELS = RNG.integers(0, 4, 5)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.tri").write_text(SOURCE)
    (tmp_path / "dense.tri").write_text(DENSE)
    save_arrays(tmp_path / "w.safetensors", {"w": W})
    np.save(tmp_path / "s.npy", S.astype(np.float32))
    np.save(tmp_path / "labels.npy", LABELS)
    return tmp_path


NET = ("run", "net.tri", "-w", "w.safetensors", "-i", "s.npy")


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys, *NET)
    v, sent = np.zeros((5, 4)), np.zeros((8, 5, 4))
    for t, current in enumerate(S @ W.astype(float)):
        v = v + current
        sent[t] = v >= 1
        v = v - sent[t]
    additions = int((S.sum((0, 1)) * (W != 0).sum(1)).sum())
    assert found["spiking"] == {
        "layers": [
            {"name": "s", "op": "spike.from_tensor", "place": "net.tri:4:16", "steps": 8,
             "neurons": 6, "spikes": int(S.sum()), "rate": S.mean()},
            {"name": "w", "op": "spike.integrate_fire", "place": "net.tri:5:23", "steps": 8,
             "neurons": 4, "spikes": int(sent.sum()), "rate": sent.mean()},
        ],
        "synapses": [
            {"name": "w", "op": "spike.linear", "additions": additions, "dense": 8 * 5 * 24,
             "graded": False},
        ],
        "spikes": int(sent.sum()),
        "additions": additions,
        "dense": 8 * 5 * 24,
    }  # fmt: skip


def test_tables_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NET]) == 0
    shown = capsys.readouterr().out
    for text in ("Spikes", "spike.integrate_fire", "Additions", "dense products"):
        assert text in shown
    assert main(["run", "dense.tri"]) == 0
    assert "Spikes" not in capsys.readouterr().out
    assert "spiking" not in report(capsys, "run", "dense.tri")


def test_random_trains_are_fed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "net.tri", "-w", "w.safetensors", "--samples", "3"]) == 0
    assert "3x4" in capsys.readouterr().out


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_recorded_spikes_are_fed(layout: str, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = SpikeTensor.from_train(torch.from_numpy(S))
    (recorded if layout == "dense" else recorded.to_sparse()).save("spikes.safetensors")
    expected = report(capsys, *NET)
    assert report(capsys, *NET[:-1], "spikes.safetensors") == expected
    SpikeTensor.from_train(torch.zeros(8, 5, 6, 2)).save("wide.safetensors")
    assert main([*NET[:-1], "wide.safetensors"]) == 1
    assert "expected a rank from 2 to 5 that leaves out sizes of 1" in capsys.readouterr().err


OPEN = """layer Net {
    fn forward(s: SpikeTensor[T, N, 6], x: Tensor[T, N, 6], v: Tensor[N, 6]) {
        return [delay(s), lif(x, initial=v)]
    }
}
"""


@pytest.mark.parametrize(("arguments", "steps"), [((), 16), (("--timesteps", "9"), 9)])
def test_time_that_is_left_open(
    arguments: tuple[str, ...], steps: int, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("open.tri").write_text(OPEN)
    found = report(capsys, "run", "open.tri", "--samples", "3", *arguments)
    outputs = found["outputs"]
    assert isinstance(outputs, list)
    assert [output["shape"] for output in outputs] == [[steps, 3, 6]] * 2


def test_pictures_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    files = {"--raster": "a.png", "--traces": "b.svg", "--rates": "c.pdf", "--accuracy": "d.png"}
    options = [part for pair in files.items() for part in pair]
    found = report(capsys, *NET, *options, "--labels", "labels.npy", "--sample", "4")
    first = {name: Path(name).read_bytes() for name in files.values()}
    assert all(first.values())
    report(capsys, *NET, *options, "--labels", "labels.npy", "--sample", "4")
    assert {name: Path(name).read_bytes() for name in files.values()} == first
    module = import_tri(SOURCE.replace("[8,", "[T,"), weights={"w": W})
    assert found["accuracy"] == [
        (run_module(module, [S[:steps]])[0].argmax(1) == LABELS).mean() for steps in range(1, 9)
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "dense.tri", "--raster", "a.png"], 2, "the program has no spikes to draw"),
        (["run", "dense.tri", "--traces", "a.png"], 2, "the program has no potentials to draw"),
        ([*NET, "--raster", "a.jpg"], 2, "expected a name in .png, .svg, .pdf"),
        ([*NET, "--raster", "a.png", "--rates", "a.png"], 2, "a file of its own"),
        ([*NET, "--raster", "a.png", "--rates", "./a.png"], 2, "a file of its own"),
        ([*NET, "--raster", "a.png", "-o", "a.png"], 2, "a file of its own"),
        ([*NET, "--raster", "a.png", "-o", "s.npy"], 2, "'s.npy' is read by this command"),
        ([*NET, "--raster", "a.png", "-o", "net.tri/o.npz"], 1, "net.tri"),
        ([*NET, "--raster", "a.png", "-o", "."], 1, "Is a directory"),
        ([*NET, "--raster", "a.png", "--engine", "onnx"], 2, "runs in the interpreter"),
        ([*NET, "--raster", "a.png", "--sample", "5"], 2, "sample 5 is not among the 5"),
        ([*NET, "--accuracy", "a.png"], 2, "--accuracy and --labels go together"),
        ([*NET, "--labels", "labels.npy"], 2, "--accuracy and --labels go together"),
        ([*NET, "--accuracy", "a.png", "--labels", "s.npy"], 1, "expected 5 labels"),
        ([*NET, "--accuracy", "a.png", "--labels", "none.npy"], 1, "none.npy"),
        ([*NET, "--raster", "nowhere/a.png"], 1, "nowhere/a.png"),
    ],
)
def test_what_cannot_be_drawn(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    assert main(arguments) == code
    shown = capsys.readouterr()
    assert message in " ".join(shown.err.split()), shown.err
    assert "Traceback" not in shown.err and not shown.out
    assert not Path("a.png").exists()


def test_outputs_leave_the_files_around_them_alone(folder: Path) -> None:
    """Also those of a compiled program of the same name."""
    listed = folder / "net.py"
    listed.write_text("")
    (folder / "net.manifest.json").write_text(json.dumps({"files": {"net.py": {}}}))
    assert main([*NET, "-o", "net.npz"]) == 0
    assert listed.exists()
    assert np.load("net.npz")["output"].shape == (5, 4)
    assert main([*NET, "-o", "made/there/net.npz"]) == 0
    assert Path("made/there/net.npz").exists()


def test_runs_without_steps_or_samples_have_pictures() -> None:
    pytest.importorskip("matplotlib")
    Path("open.tri").write_text("""layer Net {
    param w: TernaryTensor[6, 4]
    fn forward(s: SpikeTensor[T, N, 6]) -> SpikeTensor[T, N, 4] { return integrate_fire(s @ w) }
}
""")
    run = ["run", "open.tri", "-w", "w.safetensors", "-i", "empty.npy"]
    np.save("empty.npy", np.zeros((0, 5, 6), np.bool_))
    assert main([*run, "--rates", "a.png", "--raster", "b.png", "--traces", "c.png"]) == 0
    np.save("empty.npy", np.zeros((8, 0, 6), np.bool_))
    assert main([*run, "--rates", "d.png"]) == 0


@pytest.mark.parametrize(
    ("values", "accepted"),
    [
        (np.ones((8, 5, 6), np.int64), True),
        (np.full((8, 5, 6), 2), False),
        (np.full((8, 5, 6), 0.5), False),
        (np.full((8, 5, 6), np.nan), False),
    ],
)
def test_spikes_are_zeros_and_ones(
    values: np.ndarray[tuple[int, ...], np.dtype[np.generic]],
    accepted: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.save("s.npy", values)
    assert main([*NET]) == (0 if accepted else 1)
    assert accepted or "with values that bool cannot hold" in " ".join(
        capsys.readouterr().err.split()
    )


def test_integers_do_not_wrap_around(capsys: pytest.CaptureFixture[str]) -> None:
    Path("int.tri").write_text(
        "layer Net { fn forward(x: Tensor<int8>[N]) -> Tensor<int8>[N] { return maximum(x, 0) } }\n"
    )
    np.save("s.npy", np.array([127, -128]))
    assert main(["run", "int.tri", "-i", "s.npy"]) == 0
    np.save("s.npy", np.array([128, 0]))
    assert main(["run", "int.tri", "-i", "s.npy"]) == 1
    assert "with values that int8 cannot hold" in " ".join(capsys.readouterr().err.split())
