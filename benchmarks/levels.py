"""What each level of `triton_dsl.backends` gains on the processor.

    python benchmarks/levels.py [MODEL ...] [--batch 8] [--rounds 7] [--json]

Models: `resnet18`, `mnist` and `cifar10` (ternary networks), `spiking` (a perceptron of spikes, 8
steps) and `perceptron` (784-1024-1024-10, ternary), all with random weights, and `float`, the same
perceptron in float, which int8 through `torchao` may take. A model is made at each level with a
sample; then all run in turns, and a figure is the least processor time of a level's rounds over
that of `O0`: where a level applied nothing, it tells how much the machine's other work moves it.
Results are compared with those of `O0`. What each level applied stands behind its ratio.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from triton_dsl.backends import get_optimizer
from triton_dsl.runtime import TernaryLinear, ternary_resnet18
from triton_dsl.runtime.models.small import TernaryCIFAR10Net, TernaryMNISTNet
from triton_dsl.spiking import SpikingConfig, SpikingMLP

LEVELS = ("O0", "O1", "O2", "O3")


def perceptron(layer: Callable[[int, int], nn.Module]) -> nn.Module:
    """784-1024-1024-10."""
    sizes = (784, 1024, 1024, 10)
    layers = [part for a, b in pairwise(sizes) for part in (layer(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Sequence[int]]]] = {
    "resnet18": (lambda: ternary_resnet18(num_classes=10), lambda n: (n, 3, 32, 32)),
    "mnist": (TernaryMNISTNet, lambda n: (n, 1, 28, 28)),
    "cifar10": (TernaryCIFAR10Net, lambda n: (n, 3, 32, 32)),
    "spiking": (
        lambda: SpikingMLP([784, 256, 10], SpikingConfig(timesteps=8)), lambda n: (8, n, 784),
    ),
    "perceptron": (lambda: perceptron(TernaryLinear), lambda n: (n, 784)),
    "float": (lambda: perceptron(nn.Linear), lambda n: (n, 784)),
}  # fmt: skip
"""How a model is made, and the shape of its input."""


def first(result: Any) -> Tensor:
    """The result, without states."""
    return result[0] if isinstance(result, tuple) else result


def measured(name: str, batch: int, rounds: int) -> dict[str, Any]:
    """For each level the ratio to O0, what was applied, and the error over the largest result."""
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model, x = make().eval(), torch.rand(*shape(batch))
    made = [get_optimizer("cpu").optimize(model, level, x) for level in LEVELS]
    times: list[list[float]] = [[] for _ in LEVELS]
    with torch.inference_mode():
        results = [first(found(x)) for found, _ in made]
        begin = time.process_time()
        made[0][0](x)
        repeats = max(1, round(0.05 / max(time.process_time() - begin, 1e-6)))
        for _ in range(rounds):
            for slots, (found, _) in zip(times, made, strict=True):
                begin = time.process_time()
                for _ in range(repeats):
                    found(x)
                slots.append((time.process_time() - begin) / repeats)
    largest = results[0].abs().max().clamp(min=1e-9)
    report: dict[str, Any] = {"ms at O0": round(1000 * min(times[0]), 3)}
    for level, slots, (_, result), given in zip(LEVELS, times, made, results, strict=True):
        report[level] = {
            "time, O0 = 1": round(min(slots) / min(times[0]), 3),
            "applied": result.optimizations_applied,
            "difference": float((given - results[0]).abs().max() / largest),
        }
    return report


def main(line: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    options = parser.parse_args(line)
    unknown = sorted(set(options.models) - set(MODELS))
    if unknown:
        parser.error(f"no model {unknown[0]}; there are {', '.join(MODELS)}")
    report: dict[str, Any] = {}
    for name in options.models or MODELS:
        report[name] = measured(name, options.batch, options.rounds)
        if options.json:
            continue
        print(f"{name}: {report[name]['ms at O0']} ms of processor time at O0")
        for level in LEVELS[1:]:
            row = report[name][level]
            applied = ", ".join(row["applied"]) or "nothing"
            print(
                f"  {level} {row['time, O0 = 1']:6.3f}  {applied}; off by {row['difference']:.1e}"
            )
    if options.json:
        print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
