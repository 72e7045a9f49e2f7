"""Models pushed to a Hub of this machine and loaded again; what breaks, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from triton_dsl import load_from_hub, push_to_hub
from triton_dsl.ir.errors import BackendError, IntegrityError
from triton_dsl.lowering.publishing import sending
from triton_dsl.runtime import TernaryMNISTNet
from triton_dsl.tools import cli

from .local_servers import TOKEN, Hub

# What huggingface_hub says to its own authors.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "m.tri").write_text(
        "layer L { param w: Tensor[64, 40]\n fn forward(x: Tensor[N, 64]) -> Tensor[N, 40] "
        "{ return x @ w } }"
    )
    return tmp_path / "m.tri"


WEIGHTS = {"w": np.random.default_rng(0).standard_normal((64, 40)).astype(np.float32)}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending.time, "sleep", lambda seconds: None)  # pyright: ignore[reportUnknownArgumentType]


@pytest.mark.slow
def test_a_network_goes_there_and_back(hub: Hub) -> None:
    torch.manual_seed(0)
    model = TernaryMNISTNet().eval()
    address = push_to_hub(
        model=model,
        repo_id="username/mnist-ternary",
        commit_message="Add ternary MNIST classifier",
        private=True,
        token=TOKEN,
        tags=["ternary", "image-classification"],
    )
    assert address.startswith(f"{hub.address}/username/mnist-ternary/commit/")
    assert hub.private == {"username/mnist-ternary"}
    loaded = load_from_hub(repo_id="username/mnist-ternary", revision="main")
    loaded.eval()
    images = torch.rand(5, 1, 28, 28)
    with torch.no_grad():
        torch.testing.assert_close(loaded(images), model(images), atol=1e-4, rtol=1e-4)
    files = hub.repos["username/mnist-ternary"]
    assert not [name for name in files if name.endswith((".bin", ".pt", ".pth", ".pkl"))]
    large = [data for name, data in files.items() if name.endswith(".safetensors")]
    assert max(map(len, large)) > 10 * hub.part  # it went in parts
    card = files["README.md"].decode()
    _, data, text = card.split("---\n", 2)
    library = "triton-dsl"
    assert yaml.safe_load(data) == {
        "library_name": library,
        "tags": [library, "ternary", "image-classification"],
    }
    size = sum(len(data) for name, data in files.items() if name.startswith("onnx/"))
    assert f"| `onnx/` | `onnx` | {size:,} |" in text
    assert TOKEN not in card


def test_what_broke_off_is_sent_on_and_nothing_twice(hub: Hub, program: Path) -> None:
    hub.part = 1 << 30  # each file in one piece
    hub.breaks = {"/commit/": 99}
    with pytest.raises(BackendError, match="the Hub and 'o/m'"):
        push_to_hub(program, "o/m", weights=WEIGHTS, attempts=1)
    assert not hub.repos["o/m"]
    stored = set(hub.storage)
    assert stored
    hub.breaks = {}
    hub.asked.clear()
    push_to_hub(program, "o/m", weights=WEIGHTS)
    assert set(hub.storage) == stored
    assert not [line for line in hub.asked if line.startswith("PUT")]
    assert load_from_hub("o/m")(torch.ones(1, 64)).shape == (1, 40)


def test_connections_that_break_in_the_middle_are_taken_up(hub: Hub, program: Path) -> None:
    hub.breaks = {"/put/": 1, "/commit/": 1, "/preupload/": 1, "/tree/": 1}
    push_to_hub(program, "o/m", weights=WEIGHTS)
    assert set(hub.breaks.values()) == {0}
    hub.breaks = {"/resolve/": 1}
    model = load_from_hub("o/m")
    x = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
    wanted = x.astype(np.float64) @ WEIGHTS["w"]
    result = model(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(result, wanted, atol=1e-4)


def test_pushing_again_replaces_and_leaves_the_rest(hub: Hub, program: Path) -> None:
    push_to_hub(program, "o/m", weights=WEIGHTS)
    hub.repos["o/m"]["notes.txt"] = b"mine"
    renamed = program.with_name("other.tri")
    renamed.write_bytes(program.read_bytes())
    push_to_hub(renamed, "o/m", weights=WEIGHTS, targets=[])
    files = hub.repos["o/m"]
    assert "other.manifest.json" in files and "m.manifest.json" not in files
    assert files["notes.txt"] == b"mine"
    load_from_hub("o/m")


def test_changed_files_are_not_loaded(hub: Hub, program: Path) -> None:
    push_to_hub(program, "o/m", weights=WEIGHTS)
    files = hub.repos["o/m"]
    data = bytearray(files["program.safetensors"])
    data[-3] ^= 1
    files["program.safetensors"] = bytes(data)
    with pytest.raises(IntegrityError, match=r"program\.safetensors"):
        load_from_hub("o/m")


def test_refusals_say_what_to_do_and_never_the_token(
    hub: Hub, program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = "hf_wrong-secret"
    with pytest.raises(BackendError, match="refuses the token") as refused:
        push_to_hub(program, "o/m", token=wrong, weights=WEIGHTS)
    assert wrong not in str(refused.value)
    with pytest.raises(BackendError, match="no 'o/none'"):
        load_from_hub("o/none")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(BackendError, match="the Hub and 'o/m'"):
        load_from_hub("o/m", attempts=2)
    monkeypatch.setenv("HF_TOKEN", wrong)
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    np.savez(program.with_suffix(".npz"), w=WEIGHTS["w"])
    words = ["publish", "hub", str(program), "o/m", "-w", str(program.with_suffix(".npz"))]
    assert cli.main(["-v", *words]) == 1
    told = capsys.readouterr()
    assert "refuses the token" in told.err and wrong not in told.err + told.out
    monkeypatch.delenv("HF_TOKEN")
    assert cli.main(words) == 1
    assert "set the variable HF_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert cli.main([*words, "--license", "Apache-2.0"]) == 0
    assert re.fullmatch(rf"{hub.address}/o/m/commit/\w+\n", capsys.readouterr().out)
    assert b"license: apache-2.0" in hub.repos["o/m"]["README.md"]


def test_a_missing_library_is_told(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(BackendError, match=r"huggingface_hub is missing: .*\[hub\]"):
        push_to_hub(program, "o/m")


def test_nothing_of_it_is_imported_by_the_package() -> None:
    code = (
        "import sys, triton_dsl; triton_dsl.compile_model\n"
        "print([m for m in sys.modules if m.split('.')[0] in "
        "('httpx', 'httpx2', 'huggingface_hub', 'cryptography', 'model_signing', 'sigstore') "
        "or '.publishing' in m or '.security' in m or 'triton_dsl.lowering.packages' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
