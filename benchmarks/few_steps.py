"""Conversion for few steps on convolutional networks trained here, beside SpikingJelly.

    python benchmarks/few_steps.py --mnist FOLDER [--peer-python PATH] [--networks mnist/pools,…]
        [--seeds 0,1,2] [--draws 0,1,2] [--images 10000] [--cache build/few_steps] [--json FILE]

Networks, by the set that they are for: `pools` (two convolutions, pools, two layers behind), `deep`
(four convolutions with batch normalisation) and `residual` (six, two sums), for MNIST, whose
idx files stand in FOLDER, or for shapes that are drawn. Each is trained for a few epochs with each
seed and kept in the cache. Each draw of 2,000 training images, without classes, calibrates once;
nothing else is trained. Figures are means over draws, on the first test images.

SpikingJelly converts with neurons that start at half their threshold, and with the share of the
greatest activation that is best for T on 500 calibration images. It runs in the environment of
`--peer-python`, which `tests/nir_peers/environments.py spikingjelly` makes. Ours has the price that
it has by default; at T=4 also a budget of 39 % of the other's spikes: the price that keeps it is
found on the calibration images of the first draw. From T=2 on spikes are signed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measure.trained import calibration, images_of, trained

from triton_dsl import from_torch
from triton_dsl.lowering.conversion import convert_to_snn, prepared, run_spiking
from triton_dsl.lowering.conversion_front import Front
from triton_dsl.passes.convert_ann_to_snn import ConvertAnnToSnnPass

WORKER = Path(__file__).parent / "measure" / "best_share.py"

SHARE = 0.39
"""The budget at T=4, of the peer's spikes."""

STEPS = (1, 2, 4)

WITHIN = 4
"""The T at which there is a budget."""

DEFAULT_PRICE = float(ConvertAnnToSnnPass.price)


def peer(python: str, *arguments: object) -> dict[int, tuple[float, float]]:
    """Accuracy and spikes of SpikingJelly by T."""
    command = [python, str(WORKER), *map(str, arguments)]
    ended = subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
    return {int(t): tuple(v) for t, v in json.loads(ended.stdout.splitlines()[-1]).items()}


def measure(options: argparse.Namespace, of: str, name: str, seed: int) -> list[dict[str, Any]]:
    """The rows of one trained network."""
    import torch

    torch.set_num_threads(1)
    images = images_of(of, options.mnist, options.cache)
    module = trained(name, images, of, seed, options.cache)
    test, labels = images.test[: options.images], images.test_labels[: options.images]

    def right(scores: Any) -> float:
        return 100 * float(np.mean(scores.argmax(1) == labels))

    with torch.no_grad():
        parts = [module(part) for part in torch.from_numpy(test).split(500)]
    before = right(torch.cat(parts).numpy())
    others: dict[int, tuple[float, float]] = {}
    if options.peer_python:
        steps = ",".join(map(str, STEPS))
        where = (options.mnist, options.cache)
        others = peer(options.peer_python, name, of, seed, *where, steps, options.images)
    program = from_torch(module, torch.from_numpy(test[:2]), dynamic={"input": {0: "N"}})
    draws = [calibration(images, draw) for draw in options.draws]
    rows: list[dict[str, Any]] = []
    for timesteps, bound in [*((t, False) for t in STEPS), *([(WITHIN, True)] if others else [])]:
        signed, price = timesteps > 1, DEFAULT_PRICE
        if bound:
            budget = SHARE * others[timesteps][1]
            front = Front(*prepared(program, draws[0]))
            front.explore(ConvertAnnToSnnPass(timesteps=timesteps, signed=signed), budget=budget)
            price = front.chosen(budget=budget).price
        ours: list[tuple[float, float]] = []
        for draw in draws:
            spiking = convert_to_snn(program, draw, timesteps, signed=signed, price=price)
            run = run_spiking(spiking, [test], batch=max(16, 128 // timesteps))
            ours.append((right(run.results[0]), float(run.total.mean())))
        accuracy, spikes = np.mean(ours, axis=0).tolist()
        row = {"network": f"{of}/{name}", "seed": seed, "T": timesteps, "bound": bound}
        row |= {"float": before, "accuracy": accuracy, "spikes": spikes, "price": price}
        if others:
            row |= {"peer": others[timesteps][0], "peer_spikes": others[timesteps][1]}
        rows.append(row)
        told = " ".join(
            f"{key}={value:.4g}" if isinstance(value, float) and key == "price"
            else f"{key}={value:.2f}" if isinstance(value, float)
            else str(value) for key, value in row.items()
        )  # fmt: skip
        print(told, flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and print its rows, and their means by network and T."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mnist", type=Path, required=True, help="folder of the idx files")
    parser.add_argument("--cache", type=Path, default=Path("build/few_steps"))
    parser.add_argument("--peer-python", help="an interpreter that has SpikingJelly")
    parser.add_argument("--networks", default="mnist/pools,mnist/residual,shapes/deep")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--draws", default="0,1,2")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    options.draws = [int(part) for part in options.draws.split(",")]
    rows: list[dict[str, Any]] = []
    for chosen in options.networks.split(","):
        of, _, name = chosen.partition("/")
        for seed in map(int, options.seeds.split(",")):
            rows += measure(options, of, name, seed)
    for key in dict.fromkeys((row["network"], row["T"], row["bound"]) for row in rows):
        same = [row for row in rows if (row["network"], row["T"], row["bound"]) == key]
        lost = np.mean([row["float"] - row["accuracy"] for row in same])
        within = " within a budget" if key[2] else ""
        line = f"{key[0]} T={key[1]}{within}: {lost:.2f} points below float"
        if all("peer" in row for row in same):
            there = np.mean([row["float"] - row["peer"] for row in same])
            share = np.mean([row["spikes"] / row["peer_spikes"] for row in same])
            line += f" at {100 * share:.0f} % of SpikingJelly's spikes, which is {there:.2f} below"
        print(line)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
