"""Quantisation without labels on a network trained here: what bits, methods and targets answer.

    python benchmarks/quantization.py [--of scenes --network resnet8] [--samples 2000]
        [--images 2000] [--targets native,onnx,tflite,pytorch] [--bits int8,int4,ternary]
        [--cache build/quantization] [--mnist FOLDER] [--json FILE]

ResNet-8 of MLPerf Tiny on coloured images that are drawn (`measure/scenes.py`), 25,000 to train on;
trained once with each seed and kept in the cache. Samples are training images without their
classes; figures are shares of right answers on the first test images, of the file that the target
makes in the engine that runs it. Rows: `plain`, each weight rounded by itself; `gptq`, layers that
make up for each other's errors; `N bits`, the same within a budget.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measure.trained import NETWORKS, SETS, calibration, images_of, trained
from xdsl.dialects.builtin import ModuleOp

from triton_dsl import from_torch, quantize_program
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.stages import apply_passes
from triton_dsl.passes.quantize_activations.integer_pipeline import integer_pipeline

BUDGETS = {"ternary": (2.25, 3.0)}
"""Bits a weight, by what layers get at least."""


def programs(
    float_program: ModuleOp, samples: Any, path: Path, bits: str
) -> Iterator[tuple[str, ModuleOp, float]]:
    """Programs with so many bits by method, and the bytes of their weights."""
    module = float_program.clone()
    if bits == "ternary":
        apply_passes(module, "fold-constants,fuse-linear,fold-constants,canonicalize,ternarize")
    weights = {"int8": 8, "int4": 4, "ternary": 8}[bits]
    apply_passes(module, integer_pipeline(str(path), weights=weights, samples=1000))
    yield "plain", module, float("nan")
    done = quantize_program(float_program, samples, bits, drop=1.0)
    yield "gptq", done.module, done.stored()[1]
    for budget in BUDGETS.get(bits, ()):
        done = quantize_program(float_program, samples, bits, budget=budget)
        yield f"{budget:g} bits", done.module, done.stored()[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and print its rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--of", choices=SETS, default="scenes")
    parser.add_argument("--network", choices=NETWORKS, default="resnet8")
    parser.add_argument("--mnist", type=Path, default=Path("mnist"), help="folder of idx files")
    parser.add_argument("--cache", type=Path, default=Path("build/quantization"))
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", default="native,onnx,tflite,pytorch")
    parser.add_argument("--bits", default="int8,int4,ternary")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(1)
    images = images_of(options.of, options.mnist, options.cache)
    module = trained(options.network, images, options.of, options.seed, options.cache)
    test, labels = images.test[: options.images], images.test_labels[: options.images]
    samples = calibration(images, options.seed, options.samples)
    path = options.cache / "samples.npy"
    np.save(path, samples)
    program = from_torch(module, torch.from_numpy(test[:2]), dynamic={"input": {0: "N"}})
    targets: list[str] = options.targets.split(",")
    rows: list[dict[str, Any]] = []

    def tell(bits: str, method: str, found: ModuleOp, size: float, seconds: float) -> None:
        row: dict[str, Any] = {"bits": bits, "method": method, "bytes": size, "seconds": seconds}
        for target in targets:
            (scores,) = run_target(found, target, [test])[1]
            row[target] = 100 * float(np.mean(scores.argmax(1) == labels))
        rows.append(row)
        told = " ".join(f"{k}={v:.2f}" if isinstance(v, float) else v for k, v in row.items())
        print(told, flush=True)

    tell("float", "-", program, float("nan"), 0.0)
    for bits in options.bits.split(","):
        start = time.process_time()
        for method, found, size in programs(program, samples, path, bits):
            tell(bits, method, found, size, time.process_time() - start)
            start = time.process_time()
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
