"""The main job on real data: ternary networks for handwritten digits, trained, compiled, verified.

Trains a ternary perceptron and a ternary convolutional network from `models/digits.tri` on
scikit-learn's digits, beside their float twins; compiles each to PyTorch and ONNX, also as an
integer-only program; runs both engines on the test split and compares them with the reference
interpreter. Run it with `make demo`, or `python examples/digits.py [OUTPUT FOLDER]`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from classification import Data, Schedule, accuracy, deploy, quantize, table, train, write
from rich.console import Console
from rich.progress import Progress
from safetensors.numpy import save_file

from triton_dsl import comparison_table, describe_module, verify_module
from triton_dsl.dialects import run_module

SOURCE = Path(__file__).parent / "models" / "digits.tri"
NETWORKS = (("MLP", Schedule(epochs=40)), ("CNN", Schedule(epochs=15)))


def load_data() -> Data:
    """scikit-learn's digits: 1,797 images of 8x8, every fifth one for the test."""
    from sklearn.datasets import load_digits  # pyright: ignore

    digits: Any = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    test = np.arange(len(images)) % 5 == 0
    return Data(images[~test], labels[~test], images[test], labels[test])


def main() -> int:
    """Run the demo; 0 when every engine agrees."""
    parser = argparse.ArgumentParser(description="Train, compile and verify digit classifiers.")
    parser.add_argument("folder", nargs="?", default="build/digits", help="where files are written")
    folder = Path(parser.parse_args().folder)
    started = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    data = load_data()
    accuracies: list[tuple[object, ...]] = []
    sizes: list[tuple[object, ...]] = []
    checks: list[tuple[str, Any]] = []
    float_onnx = 0
    console = Console(width=None if sys.stdout.isatty() else 120)
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        for name, schedule in NETWORKS:
            floats = train(SOURCE, f"Float{name}", data, schedule, progress)
            baseline = deploy(SOURCE, f"Float{name}", floats)
            state = train(SOURCE, f"Ternary{name}", data, schedule, progress)
            save_file(state, folder / f"{name.lower()}.latent.safetensors")
            ternary = deploy(SOURCE, f"Ternary{name}", state)
            integer = quantize(ternary, data.train_images[:256], folder)
            logits = {}
            for kind, module in (("float", baseline), ("ternary", ternary), ("integer", integer)):
                (logits[kind],) = run_module(module, [data.test_images])
                stem = folder / f"{name.lower()}-{kind}"
                python = write(module, "pytorch", stem.with_suffix(".py"))
                onnx = write(module, "onnx", stem.with_suffix(".onnx"))
                float_onnx = onnx if kind == "float" else float_onnx
                weights = describe_module(module)
                sizes.append(
                    (
                        stem.name,
                        weights["stored_bytes"],
                        f"{weights['compression']:.1f}x",
                        python,
                        onnx,
                        f"{float_onnx / onnx:.1f}x",
                    )
                )
                if kind != "float":
                    rows = verify_module(module, [data.test_images])
                    checks.append((f"{kind} {name}, {len(data.test_images)} test images", rows))
            scores = [f"{accuracy(logits[kind], data.test_labels):.2%}" for kind in logits]
            accuracies.append((name, *scores))
    console.print(table("test accuracy", ["network", "float", "ternary", "integer"], accuracies))
    console.print(
        table(
            "bytes, and how many times smaller",
            ["model", "weights", "than float32", "PyTorch", "ONNX", "than float"],
            sizes,
        )
    )
    for title, rows in checks:
        console.print(comparison_table(f"{title}: engines against the interpreter", rows))
    console.print(f"files: {folder.resolve()}")
    console.print(f"took {time.monotonic() - started:.0f} s")
    return 0 if all(row.agrees for _, rows in checks for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
