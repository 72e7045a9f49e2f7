"""Runs what the pages show: every `python` and `sh` block, each page in a folder of its own.

`python tests/doc_blocks.py PAGE…` prints what failed, as JSON. One process runs many pages, so that
libraries load once; it is not the test's own, as pages register targets and back ends. What the
blocks of a page assume, the files and names before it, is made here.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", *sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/**/*.md")))
BLOCK = re.compile(r"^( *)```(python|sh)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)

ELSEWHERE = {
    "make demo": "examples/digits.py runs in tests/examples",
    "make test": "runs this",
    "pip install": "the installation; tests/test_packages.py builds the wheel",
    "curl ": "tests/tools/test_serve.py asks a server",
    "triton audit": "tests/runtime/serving",
    "triton serve": "tests/tools/test_serve.py",
    "openssl ": "tests/runtime/security has keys",
    "chmod ": "the same",
    "export ": "tokens, of tests/lowering/publishing",
    "triton boot ": "tests/runtime/boards",
    "triton publish": "tests/lowering/publishing",
    "triton package model.tri -w model.safetensors --": "signs or encrypts; tests/runtime/security",
    "triton verify-package model.tpk --signature": "the same",
    "TRITON_KEY_FILE": "the same",
    "haproxy ": "tests/runtime/serving has it",
    "prometheus ": "tests/examples/test_operations.py checks its files",
    "flower-": "tests/runtime/training/test_federated.py has such processes",
    "flwr run": "the same",
    "TORCH_DISABLE": "tests/runtime/training/test_elastic.py",
    "torchrun": "tests/runtime/training has several processes",
    ".venv/bin/pytest tests/proofs": "the proofs are tests",
    "triton-reduce": "needs a pass that fails; tests/tools/test_reduce.py",
    "triton compile TFC_1W1A": "the file is downloaded; tests/lowering/to_verilog has others",
    "triton verify TFC_1W1A": "the same",
}
"""Commands that are not run here, by how they begin, and why."""

DOWNLOADED = ("BitNet-b1.58-2B4T",)
"""Gigabytes that a block names: the tests of checkpoints have small ones."""

FOLDER = tempfile.TemporaryDirectory()
"""Where what pages share is made once."""

MLP = """
layer Net {
    let hidden = Linear(16, 12)
    let head = Linear(12, 4)

    fn forward(x: Tensor[N, 16]) -> Tensor[N, 4] {
        return head(relu(hidden(x)))
    }
}
"""


def blocks(page: str) -> list[tuple[str, str]]:
    """The language and text of each block of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [(found[2], dedent(found[3])) for found in BLOCK.finditer(text)]


def readme_programs() -> list[str]:
    """The programs in the language that README shows."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return [text for text in re.findall(r"^```\n(.*?)^```", text, re.M | re.S) if "layer" in text]


def save_weights(source: str, *files: Path) -> None:
    """Write random weights of a program."""
    from safetensors.numpy import save_file

    from triton_dsl import TypeChecker

    rng = np.random.default_rng(0)
    made: dict[str, Any] = {}
    for parameter in TypeChecker().check_source(source).elaborate().parameters:
        shape = [size or 1 for size in parameter.type.static_shape()]
        is_ternary = parameter.type.kind == "ternary"
        trits = rng.integers(-1, 2, shape).astype(np.int8)
        made[parameter.path] = trits if is_ternary else rng.normal(0, 0.1, shape).astype("float32")
    for file in files:
        save_file(made, file)


def command(line: str) -> int:
    """Run one of the tools in this process."""
    name, *arguments = shlex.split(line, comments=True)
    homes = {"triton": "cli", "triton-opt": "opt", "triton-translate": "translate"}
    main: Callable[[Sequence[str]], int] = import_module(f"triton_dsl.tools.{homes[name]}").main
    return main(arguments)


def model_files(folder: Path, page: str) -> None:
    """The models and samples that the commands of a page name."""
    ternary, spiking = readme_programs()[:2]
    programs = {"docs/pictures.md": spiking, "docs/triton-opt.md": MLP, "docs/explorer.md": MLP}
    shutil.copytree(files_of(programs.get(page, ternary)), folder, dirs_exist_ok=True)


@cache
def files_of(source: str) -> Path:
    """A folder with a program as each of the files that it may stand in, and samples."""
    folder = Path(tempfile.mkdtemp(dir=FOLDER.name))
    os.chdir(folder)
    rng = np.random.default_rng(0)
    (folder / "model.tri").write_text(source, encoding="utf-8")
    save_weights(source, folder / "weights.safetensors", folder / "model.safetensors")
    (folder / "net.tri").write_text(MLP, encoding="utf-8")
    width = 16 if source == MLP else 784
    np.save(folder / "sample.npy", rng.normal(size=(1, 16)).astype("float32"))
    np.save(folder / "samples.npy", rng.normal(size=(64, 16)).astype("float32"))
    digits = rng.random((8, width)).astype("float32")
    np.savez(folder / "digits.npz", x=digits)
    np.savez(folder / "test.npz", x=digits)
    np.save(folder / "labels.npy", rng.integers(0, 10, 8))
    save_weights(MLP, folder / "net.safetensors")
    for target in ("onnx", "tflite"):
        assert not command(
            f"triton compile net.tri -t {target} -w net.safetensors -o model.{target}"
        )
    shutil.copy(folder / "model.onnx", folder / "float.onnx")
    assert not command("triton-translate model.tri --import -o model.mlir")
    assert not command("triton compile model.tri -t native -w weights.safetensors -o model.so")
    return folder


def names(page: str) -> dict[str, Any]:
    """What the blocks of a page take as given."""
    import torch

    rng = np.random.default_rng(0)
    given: dict[str, Any] = {"__name__": "page"}
    if page == "docs/plugins.md":
        sys.path.insert(0, str(ROOT / "examples" / "plugin"))
        given.update(vars(import_module("triton_census")))
    elif page == "docs/quantization.md":
        from triton_dsl import from_torch

        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(16, 12), torch.nn.ReLU(), torch.nn.Linear(12, 4))
        images = rng.normal(size=(64, 16)).astype("float32")
        labels = net(torch.from_numpy(images)).argmax(1).numpy()
        pairs = torch.utils.data.TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))
        loader = torch.utils.data.DataLoader(pairs, batch_size=16)
        given.update(module=from_torch(net, (torch.zeros(2, 16),)), model=net, loader=loader)
        given.update(images=images, labels=labels)
    elif page == "docs/verify.md":
        given.update(net=torch.nn.Linear(16, 4), x=rng.normal(size=(3, 16)).astype("float32"))
    elif page in ("docs/onnx_import.md", "docs/tflite_import.md"):
        given.update(x=rng.normal(size=(1, 16)).astype("float32"))
    elif page == "docs/explorer.md":
        given.update(image=rng.normal(size=(1, 16)).astype("float32"))
    elif page == "docs/targets/native.md":
        given.update(x=rng.random((3, 784)).astype("float32"), following=np.zeros((3, 784)))
    elif page in ("docs/targets/pytorch.md", "docs/language.md"):
        given.update(source=readme_programs()[0].replace("LinearClassifier", "Net"))
        given.update(torch=torch, nn=torch.nn)
    return given


def run(page: str, kinds: Sequence[str]) -> list[str]:
    """Run the blocks of a page; what failed."""
    failed: list[str] = []
    own = [(number, block) for number, block in enumerate(blocks(page)) if block[0] in kinds]
    if not own:
        return failed
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "page"
        folder.mkdir()
        os.chdir(folder)
        text = "\n".join(block for _, (_, block) in own)
        own_files = page.startswith("docs/tutorials/")
        if not own_files and re.search(r"\b(model|net|digits|samples|weights)\.\w", text):
            model_files(folder, page)
            os.chdir(folder)
        given = names(page)
        for number, (kind, block) in own:
            if any(name in block for name in DOWNLOADED):
                continue
            try:
                if kind == "python":
                    exec(compile(block, f"{page}[{number}]", "exec"), given)
                else:
                    failed += shell(page, block)
            except BaseException:
                failed.append(f"{page}, block {number}:\n{block}\n{traceback.format_exc(limit=-3)}")
        os.chdir(ROOT)
    return failed


def shell(page: str, block: str) -> list[str]:
    """Run the commands of a block; what failed."""
    failed: list[str] = []
    for line in re.sub(r"\\\n\s*", "", block).splitlines():
        if not line.strip() or any(line.startswith(known) for known in ELSEWHERE):
            continue
        if "|" in line:
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            mlir_opt = shutil.which("mlir-opt") or shutil.which("mlir-opt-19")
            if "| mlir-opt" in line and mlir_opt is None:
                continue
            shown = line.replace("| less", "| cat").replace("| mlir-opt", f"| {mlir_opt}")
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", shown],
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
            )
            code, said = done.returncode, done.stderr
        else:
            stream = io.StringIO()
            with contextlib.redirect_stderr(stream):
                code, said = command(line), stream.getvalue()
        if code:
            failed.append(f"{page}: {line}\nexit code {code}\n{said[-2000:]}")
    return failed


def main(arguments: Sequence[str]) -> None:
    """Run pages, or pieces `PAGE:KIND` of them."""
    results: dict[str, Any] = {}
    out = sys.stdout
    for argument in arguments:
        page, _, kind = argument.partition(":")
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            failed = run(page, (kind,) if kind else ("python", "sh"))
        results[argument] = {"failed": failed, "seconds": time.perf_counter() - start}
        print(f"{argument} {results[argument]['seconds']:.1f} s", file=sys.stderr, flush=True)
    json.dump(results, out)


if __name__ == "__main__":
    main(sys.argv[1:])
