"""Every command on files that are missing, broken or do not fit, and on places that are none.

Whatever is wrong with a file is one message and the exit code 1, and nothing is left behind.
"""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from triton_dsl.ir.store import save_arrays
from triton_dsl.tools import cli, opt, reduce, translate

from ..lowering.from_checkpoint.checkpoints import VOCABULARY, write_folder

tokenizers: Any = pytest.importorskip("tokenizers")
MAINS = {
    "triton": cli.main,
    "triton-opt": opt.main,
    "triton-reduce": reduce.main,
    "triton-translate": translate.main,
}
NET = """layer Net {
    let fc = Linear(5, 24)
    let head = Linear(24, 3)
    fn forward(x: Tensor[N, 5]) -> Tensor[N, 3] { return head(relu(fc(x))) }
}
"""
SPIKES = """layer Net {
    param w: TernaryTensor[4, 3]
    fn forward(s: SpikeTensor[10, N, 4]) -> Tensor[N, 3] {
        return decode(integrate_fire(s @ w))
    }
}
"""
PASSES = """from xdsl.passes import ModulePass
class Own(ModulePass):
    name = "own"
    def apply(self, ctx, op): pass
"""
COMMANDS = """
triton check net.tri
triton fmt net.tri
triton info net.tri -w w.npz
triton info net.tri -w w.pt
triton info net.onnx
triton info net.tflite
triton info net.mlir
triton info net.tpk
triton info net.pt2
triton compile net.tri -w w.safetensors -t onnx -o OUT.onnx
triton compile net.tri -w w.safetensors -t c -o OUT/
triton compile net.tri -w w.safetensors -o o.py --dump-stages OUT
triton run net.tri -w w.safetensors -i x.npz -o OUT.npz
triton run net.tri -w w.safetensors -i x.safetensors
triton run spikes.tri -w s.safetensors -i s.npy --labels sy.npy --accuracy OUT.svg
triton verify net.tri -w w.safetensors -i x.npy -t onnx
triton explore net.tri -w w.safetensors -i x.npy -o OUT.html
triton profile net.tri -w w.safetensors -i x.npy --no-peers --seconds 0.01
triton attack net.tri -w w.safetensors -i x.npy --labels y.npy -a GN
triton convert net.tri -w w.safetensors -s x.npy --labels y.npy --timesteps 1 -o OUT.mlir
triton quantize net.tri -w w.safetensors -s x.npy --labels y.npy --drop 100 -o OUT.mlir
triton energy spikes.tri -w s.safetensors -i s.npy -d machine.toml --picture OUT.svg
triton package net.tri -w w.safetensors -o OUT.tpk --card card.md --key key --sign sign.pem
triton inspect net.tpk --extract OUT
triton verify-package net.tpk
triton boot image.bin --sources OUT -o OUT.boot
triton audit image.bin
triton generate model --prompt a -n 2 --engine interpreter --tokenizer tokenizer.json
triton evaluate model --text text.txt --engine interpreter --tokens 9
triton serve net.tri -w w.safetensors --port PORT --policy policy.toml
triton serve net.tri --port PORT --tls-cert cert.pem --tls-key sign.pem
triton-opt net.mlir -p canonicalize -o OUT.mlir
triton-opt net.tri -w w.safetensors --load passes.py -p own
triton-opt net.tri -w w.safetensors -p calibrate{data=x.npy}
triton-translate net.tri -w w.safetensors -t onnx -o OUT.onnx
triton-translate net.onnx --import -o OUT.mlir
triton-reduce net.mlir -p canonicalize --test false -o OUT.mlir
""".strip().splitlines()
ANYTHING = {"card.md", "image.bin", "text.txt"}
"""Files of any bytes, or of any text."""

MAY_BE_EMPTY = {("check", "net.tri"), ("fmt", "net.tri"), ("serve", "policy.toml")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files that the commands read."""
    folder = write_folder("bitnet-packed", tmp_path_factory.mktemp("whole") / "model").parent
    here, rng = Path.cwd(), np.random.default_rng(0)
    os.chdir(folder)
    try:
        shapes = {"fc.weight": (5, 24), "fc.bias": (24,), "head.weight": (24, 3), "head.bias": (3,)}
        arrays = {key: rng.normal(size=size).astype(np.float32) for key, size in shapes.items()}
        save_arrays(Path("w.safetensors"), arrays)
        np.savez("w.npz", **arrays)  # pyright: ignore[reportArgumentType]
        torch.save({key: torch.from_numpy(array) for key, array in arrays.items()}, "w.pt")
        x = rng.random((40, 5), np.float32)
        np.save("x.npy", x)
        np.savez("x.npz", x=x)
        save_arrays(Path("x.safetensors"), {"x": x})
        save_arrays(Path("s.safetensors"), {"w": np.ones((4, 3), np.int8)})
        np.save("y.npy", rng.integers(0, 3, 40))
        np.save("s.npy", np.ones((10, 2, 4), np.bool_))
        np.save("sy.npy", np.array([0, 1]))
        for name, text in {
            "net.tri": NET,
            "spikes.tri": SPIKES,
            "passes.py": PASSES,
            "card.md": "# A net\n",
            "text.txt": "the sums are exact; spikes add up " * 9,
            "machine.toml": "[machine]\nlike = 'loihi2'\n",
            "policy.toml": "[roles.r]\nrun = ['*']\n",
        }.items():
            Path(name).write_text(text, encoding="utf-8")
        Path("image.bin").write_bytes(bytes(range(256)) * 64)
        Path("key").write_bytes(bytes(range(32)))
        key = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "sign.pem"]
        subprocess.run(key, check=True)
        request = ["openssl", "req", "-x509", "-key", "sign.pem", "-out", "cert.pem", "-subj"]
        subprocess.run([*request, "/CN=localhost"], check=True, capture_output=True)
        for secret in ("key", "sign.pem"):
            Path(secret).chmod(0o600)
        module = torch.nn.Linear(5, 3)
        torch.export.save(torch.export.export(module, (torch.rand(2, 5),)), "net.pt2")
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=VOCABULARY, special_tokens=["<unk>", "<s>", "</s>"]
        )
        tokenizer.train_from_iterator(["the sums are exact; spikes add up"], trainer)
        tokenizer.save("tokenizer.json")
        shutil.copy("tokenizer.json", "model")
        net = ["net.tri", "-w", "w.safetensors"]
        assert cli.main(["compile", *net, "-t", "onnx", "-o", "net.onnx"]) == 0
        assert cli.main(["compile", *net, "-t", "tflite", "-o", "net.tflite"]) == 0
        assert cli.main(["package", *net, "-t", "onnx"]) == 0
        assert translate.main([*net, "--import", "-o", "net.mlir"]) == 0
    finally:
        os.chdir(here)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    there = tmp_path / "there"
    shutil.copytree(whole, there)
    monkeypatch.chdir(there)
    return there


@pytest.fixture
def taken() -> Generator[int]:
    """A port that no server gets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def restore(whole: Path, folder: Path, name: str) -> None:
    """Make a file what it was; whatever else a command leaves is a fault that is told."""
    path = folder / name
    if path.exists() or path.is_symlink():
        remove(path)
    copy = shutil.copytree if (whole / name).is_dir() else shutil.copy2
    copy(whole / name, path)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def replaced(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """A fault by which something else is where a file was."""

    def fault(path: Path) -> None:
        mode = path.stat().st_mode
        remove(path)
        make(path)
        if path.is_file():
            path.chmod(mode)

    return fault


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


FILES: dict[str, Callable[[Path], object]] = {
    "missing": remove,
    "a folder": replaced(Path.mkdir),
    "unreadable": replaced(lambda path: path.symlink_to(path.name)),  # a circle, also to root
    "empty": replaced(lambda path: path.write_bytes(b"")),
    "cut": cut,
    "other bytes": replaced(lambda path: path.write_bytes(b"\xff\xfehello\0\n")),
    "other text": replaced(lambda path: path.write_text('{"a": [1, 2]}\n', encoding="utf-8")),
}


def not_finite(array: np.ndarray) -> np.ndarray:
    return np.full(array.shape, np.nan, np.float32)


ARRAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "of more axes": lambda array: np.zeros((*array.shape, 2), array.dtype),
    "of one number": lambda array: array.reshape(-1)[:1].reshape(()),
    "of text": lambda array: np.array(["a"] * 4),
    "of complex numbers": lambda array: array.astype(np.complex64),
    "of objects": lambda array: np.array([{}, 1], object),
    "not finite": not_finite,
    "of large integers": lambda array: np.full(array.shape, 1 << 40),
}
TAKEN = {"not finite": "xw", "of large integers": "x"}
"""What inputs, x, may be, and what weights are told to be elsewhere."""


def rewrite(path: Path, change: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether a file of arrays could be written with others."""
    match path.suffix:
        case ".npy":
            np.save(path, change(np.load(path)))
        case ".npz":
            arrays = {key: change(array) for key, array in np.load(path).items()}
            np.savez(path, **arrays)  # pyright: ignore[reportArgumentType]
        case ".safetensors":
            with suppress(Exception):  # it holds numbers alone
                save_arrays(path, {key: change(array) for key, array in load_file(path).items()})
                return True
            return False
        case _:
            return False
    return True


def tree(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "__pycache__" not in path.parts}


def refused(
    words: list[str], folder: Path, capsys: pytest.CaptureFixture[str], *names: str
) -> list[str]:
    """What is wrong with how a command refuses what is wrong."""
    before = tree(folder)
    capsys.readouterr()
    code = MAINS[words[0]](words[1:])
    shown = capsys.readouterr()
    found = [f"exit code {code}"] if code != 1 else []
    found += [f"left {path}" for path in tree(folder) - before]
    lost = "internal error" in shown.err or "Traceback" in shown.err or not shown.err.strip()
    if lost or (names and not any(name in shown.err for name in names)):
        found.append("an unclear message")
    return [f"{each}: {shown.err[-300:]}" for each in found]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_files_hold_is_told(
    command: str,
    whole: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    taken: int,
) -> None:
    words = command.replace("PORT", str(taken)).split()
    given = [
        word.rpartition("=")[2].strip("}") for word in words[2 if words[0] == "triton" else 1 :]
    ]
    names = [name for name in dict.fromkeys(given) if (whole / name).exists()]
    assert names
    found: list[str] = []
    for name in names:
        for kind, fault in FILES.items():
            if name in ANYTHING and kind not in ("missing", "a folder", "unreadable"):
                continue
            if (whole / name).is_dir() and kind in ("a folder", "cut"):
                continue
            if kind == "empty" and (words[1], name) in MAY_BE_EMPTY:
                continue
            fault(folder / name)
            wrong = refused(words, folder, capsys, Path(name).stem)
            restore(whole, folder, name)
            found += [f"{name} is {kind}: {each}" for each in wrong]
        for kind, change in ARRAYS.items():
            if name[0] in TAKEN.get(kind, ""):
                continue
            if rewrite(folder / name, change):
                wrong = refused(words, folder, capsys)
                found += [f"{name} is {kind}: {each}" for each in wrong]
                restore(whole, folder, name)
    assert not found, "\n".join(found)


@contextmanager
def no_room() -> Generator[None]:
    """A block in which no file becomes larger than some bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("command", [each for each in COMMANDS if "OUT" in each])
def test_places_that_cannot_be_written_are_told(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found: list[str] = []
    for place in ("net.tri/OUT", "/proc/none/OUT", "a" * 300):
        words = command.replace("OUT", place).split()
        found += [f"{place[:20]}: {each}" for each in refused(words, folder, capsys)]
    with no_room():
        found += [f"full: {each}" for each in refused(command.split(), folder, capsys)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.split()[1] not in ("fmt", "serve")])
def test_json_tells_the_error_too(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command.split()
    if words[0] != "triton" or words[1] in ("explore",):
        pytest.skip("it has no --json")
    word = next(word for word in words[2:] if (folder / word).exists())
    remove(folder / word)
    assert cli.main([*words[1:], "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    if words[1] == "check":
        assert not told[0]["ok"]
    else:
        assert told["error"]["exit_code"] == 1 and told["error"]["message"]


@pytest.mark.parametrize(
    "words", [["triton", "fmt", "-"], ["triton-opt"], ["triton-translate", "--import"]]
)
def test_what_is_interrupted_says_so(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(io.StringIO):
        def read(self, size: int | None = None) -> str:
            raise KeyboardInterrupt

    stdin: Any = Interrupted()
    stdin.buffer = stdin
    monkeypatch.setattr(sys, "stdin", stdin)
    assert MAINS[words[0]](words[1:]) == 130
    assert capsys.readouterr().err == f"{words[0]}: error: interrupted\n"


HIDDEN = """
import sys
from importlib.machinery import PathFinder
from pkgutil import resolve_name

def found(name, *rest, real=PathFinder.find_spec):
    return None if name.partition(".")[0] in PACKAGES else real(name, *rest)

PathFinder.find_spec = found
sys.exit(resolve_name(f"triton_dsl.tools.{sys.argv[1]}:main")(sys.argv[2:]))
"""


def optional() -> set[str]:
    """What is imported of packages that need not be installed."""
    return {"torch", "onnx", "onnxruntime", "llvmlite", "ai_edge_litert", "nir", "h5py",
            "matplotlib", "cryptography", "model_signing", "uvicorn", "starlette",
            "torchattacks", "tokenizers", "huggingface_hub", "flatbuffers", "pygls",
            "lsprotocol", "prometheus_client", "httpx"}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_packages_that_are_missing_are_told(command: str, folder: Path, taken: int) -> None:
    tool, *words = command.replace("PORT", str(taken)).split()
    module = tool.removeprefix("triton-").replace("triton", "cli")
    code = HIDDEN.replace("PACKAGES", repr(optional()))
    done = subprocess.run(
        [sys.executable, "-c", code, module, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    assert "internal error" not in done.stderr and "Traceback" not in done.stderr, done.stderr
    if done.returncode and words[0] not in ("audit",):
        assert "install" in done.stderr, done.stderr
