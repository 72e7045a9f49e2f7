"""A spiking network as ONNX and as a generated module beside PyTorch by hand, on one thread.

    python benchmarks/spiking_export.py [--layers 784-256-10] [--steps 32] [--batches 1,32]
        [--rounds 9] [--json]

Layers of ternary weights and leaky neurons on spikes, a fifth of them ones; all engines take turns
in one process. `onnx` runs in ONNX Runtime: a product of all steps and a Scan for each layer.
`pytorch` is the generated module, `alone` where the package is not installed; `eager` is what one
writes by hand, a loop over the steps in which each layer does its product. A figure is the median
of the rounds, and `x ours` says how many times as long as `onnx` it took; a ratio is left out when
either side's median is over 1.3 times its fastest round. Counts of spikes are compared first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from measure.rounds import Figure, Run, contenders, figures, show, take_turns
from measure.telling import load_average, tell
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import TritonError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_pytorch.load import load_module

Array = NDArray[Any]

DECAY, THRESHOLD = 0.875, 4.0


def program(sizes: Sequence[int], steps: int, batch: int, weights: Sequence[Array]) -> ModuleOp:
    """The network from spikes [steps, batch, ins] to the share of spikes of each last neuron."""
    lines: list[str] = []
    before = "%s0"
    for layer, (ins, outs) in enumerate(pairwise(sizes)):
        spikes = f"!spike.train<{steps}x{batch}x{ins}>"
        current = f"tensor<{steps}x{batch}x{outs}xf32>"
        weight = f"tensor<{ins}x{outs}x!ternary.trit>"
        after = f"!spike.train<{steps}x{batch}x{outs}>"
        lines += [
            f'%w{layer} = ternary.parameter "{layer}" : {weight}',
            f"%i{layer} = spike.linear {before}, %w{layer} scale(%one : tensor<f32>) "
            f": {spikes}, {weight} -> {current}",
            f"%s{layer + 1} = spike.lif %i{layer} {{beta = {DECAY} : f64, "
            f"threshold = {THRESHOLD} : f64}} : ({current}) -> {after}",
        ]
        before = f"%s{layer + 1}"
    text = f"""
func.func @forward(%x: tensor<{steps}x{batch}x{sizes[0]}xf32>) -> tensor<{batch}x{sizes[-1]}xf32> {{
  %one = tensor.constant dense<1.0> : tensor<f32>
  %s0 = spike.from_tensor %x
    : (tensor<{steps}x{batch}x{sizes[0]}xf32>) -> !spike.train<{steps}x{batch}x{sizes[0]}>
  {chr(10).join(lines)}
  %y = spike.decode {before} {{scheme = "rate"}}
    : (!spike.train<{steps}x{batch}x{sizes[-1]}>) -> tensor<{batch}x{sizes[-1]}xf32>
  func.return %y : tensor<{batch}x{sizes[-1]}xf32>
}}"""
    module = parse_module(text)
    stored = {str(layer): pack_trits(weight) for layer, weight in enumerate(weights)}
    attach_store(module, ParameterStore.of(stored))
    return module


def onnx_run(module: ModuleOp, x: Array) -> Run:
    """In ONNX Runtime."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    model = next(iter(compile_to_target(module.clone(), "onnx").files.values()))
    session: Any = onnxruntime.InferenceSession(model, settings, ["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})[0]


def torch_runs(module: ModuleOp, x: Array, weights: Sequence[Array]) -> dict[str, Run]:
    """The generated module with the package and alone, and the loop by hand."""
    import torch

    torch.set_num_threads(1)
    made = compile_to_target(module.clone(), "pytorch")
    assert made.main_file is not None
    text = made.text().replace("from triton_dsl.", "raise ImportError  # ").encode()
    alone = Artifact(made.name, {**made.files, made.main_file: text}, primary=made.primary)
    spikes = torch.from_numpy(x)
    floats = [torch.from_numpy(weight.astype(np.float32)) for weight in weights]

    def generated(artifact: Artifact) -> Run:
        model: Any = load_module(artifact)

        def run() -> Array:
            with torch.inference_mode():
                return model(spikes).numpy()

        return run

    def eager() -> Array:
        with torch.inference_mode():
            potentials = [torch.zeros(x.shape[1], weight.shape[1]) for weight in floats]
            total = torch.zeros(x.shape[1], floats[-1].shape[1])
            for step in spikes:
                for layer, weight in enumerate(floats):
                    v = DECAY * potentials[layer] + step @ weight
                    step = (v >= THRESHOLD).float()
                    potentials[layer] = v - THRESHOLD * step
                total = total + step
            return (total / len(spikes)).numpy()

    return {"pytorch": generated(made), "pytorch, alone": generated(alone), "torch eager": eager}


def measured(sizes: Sequence[int], steps: int, batch: int, rounds: int) -> list[Figure]:
    """The engines on one network and batch."""
    rng = np.random.default_rng(0)
    weights = [rng.integers(-1, 2, pair).astype(np.int8) for pair in pairwise(sizes)]
    x = (rng.random((steps, batch, sizes[0])) < 0.2).astype(np.float32)
    module = program(sizes, steps, batch, weights)
    runs = {"onnx": onnx_run(module, x), **torch_runs(module, x, weights)}
    found = contenders(runs, runs, runs["torch eager"]())
    take_turns(found, rounds)
    name = f"{'-'.join(map(str, sizes))}, T={steps}, batch {batch}"
    return figures(name, found)


def numbers(text: str) -> list[int]:
    """`1,32` or `784-256-10` as numbers."""
    return [int(part) for part in text.replace("-", ",").split(",")]


def main(line: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=numbers, default=[784, 256, 10], help="such as 784-256-10")
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--batches", type=numbers, default=[1, 32], help="such as 1,32")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(line)
    lines = [
        figure
        for batch in options.batches
        for figure in measured(options.layers, options.steps, batch, options.rounds)
    ]
    title = "a spiking network that leaves"
    tell(lines, lambda: show(title, lines), as_json=options.json, load=load_average())


if __name__ == "__main__":
    try:
        main()
    except TritonError as problem:
        sys.exit(f"benchmarks/spiking_export.py: error: {problem}")
