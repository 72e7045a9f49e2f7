"""A ternary 784-256-128-10 perceptron on MNIST: trained, compiled, identical on both engines.

Needs the four idx files of MNIST (`train-images-idx3-ubyte.gz`, …) in a folder: give it as the
first argument or in the variable MNIST. The output folder is the second argument.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from classification import Array, Data, Schedule, accuracy, deploy, quantize, table, train, write
from rich.console import Console
from rich.progress import Progress

from triton_dsl import comparison_table, verify_module

SOURCE = Path(__file__).parent / "models" / "mnist.tri"
SCHEDULE = Schedule(epochs=20, batch=128, rate=1e-2, shift=1, threads=2)
FILES = {
    "train_images": "train-images-idx3-ubyte.gz",
    "train_labels": "train-labels-idx1-ubyte.gz",
    "test_images": "t10k-images-idx3-ubyte.gz",
    "test_labels": "t10k-labels-idx1-ubyte.gz",
}


def arguments() -> argparse.Namespace:
    """The command line: `data` and `folder`."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data" / "mnist"
    parser = argparse.ArgumentParser(description="Train, compile and verify a ternary perceptron.")
    parser.add_argument(
        "data", nargs="?", type=Path, default=Path(os.environ.get("MNIST", beside)),
        help="folder with the four idx files of MNIST",
    )  # fmt: skip
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/mnist"),
                        help="where files are written")  # fmt: skip
    return parser.parse_args()


def check_data(folder: Path) -> Path:
    """The folder with the idx files; ends the program with a message when one is missing."""
    missing = [name for name in FILES.values() if not (folder / name).is_file()]
    if missing:
        sys.exit(
            f"MNIST is not in '{folder}': {', '.join(missing)} missing. Download the four idx "
            "files and run: python examples/mnist.py FOLDER"
        )
    return folder


def read_idx(path: Path) -> Array:
    """An idx file of unsigned bytes: magic 0x08, the rank, the sizes, the data."""
    with gzip.open(path) as file:
        content = file.read()
    rank = content[3]
    shape = np.frombuffer(content, ">u4", rank, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape.tolist())


def load_data(folder: Path) -> Data:
    """MNIST: 60,000 images for training, 10,000 for the test."""
    arrays: dict[str, Any] = {}
    for name, file in FILES.items():
        content = read_idx(folder / file)
        if name.endswith("images"):
            arrays[name] = (content[:, None] / np.float32(255)).astype(np.float32)
        else:
            arrays[name] = content.astype(np.int64)
    return Data(**arrays)


def main() -> int:
    """Train, compile, compare; 0 when the engines agree."""
    given = arguments()
    data = load_data(check_data(given.data))
    folder: Path = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        state = train(SOURCE, "TernaryMLP", data, SCHEDULE, progress)
    ternary = deploy(SOURCE, "TernaryMLP", state)
    integer = quantize(ternary, data.train_images[:1024], folder)
    console = Console(width=None if sys.stdout.isatty() else 120)
    agree = True
    scores: list[tuple[object, ...]] = []
    from triton_dsl.dialects import run_module

    for kind, module in (("ternary", ternary), ("integer", integer)):
        (logits,) = run_module(module, [data.test_images])
        python = write(module, "pytorch", folder / f"mlp-{kind}.py")
        onnx = write(module, "onnx", folder / f"mlp-{kind}.onnx")
        scores.append((kind, f"{accuracy(logits, data.test_labels):.2%}", python, onnx))
        rows = verify_module(module, [data.test_images])
        agree = agree and all(row.agrees and row.argmax_agreement == 1.0 for row in rows)
        console.print(comparison_table(f"{kind}: engines against the interpreter", rows))
    console.print(
        table("MNIST, 10,000 test images", ["model", "accuracy", "PyTorch", "ONNX"], scores)
    )
    console.print(f"files: {folder.resolve()}")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
