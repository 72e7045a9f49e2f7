"""Times of a netx network: our simulator beside Lava, in one run and step by step.

    python benchmarks/loihi.py network.net [--steps 1000]

Lava runs in the Python that `TRITON_LAVA_PYTHON` names. Its time is that of `run` alone, without
its compilation; ours is that of a call, the second one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_dsl.dialects.spike.types import dense_type
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.lowering.artifact import write_artifact
from triton_dsl.lowering.from_netx import import_netx
from triton_dsl.lowering.simulator import simulator
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.runtime.lava import lava_python

_LAVA = """
import json, sys, time
import numpy as np
import network
from lava.magma.core.run_conditions import RunSteps
from lava.magma.core.run_configs import Loihi2SimCfg

if __name__ == "__main__":
    inputs = dict(np.load("inputs.npz"))
    steps = len(next(iter(inputs.values())))
    last = list(network.build(inputs).values())[-1]
    def run(n):
        start = time.perf_counter()
        last.run(condition=RunSteps(num_steps=n), run_cfg=Loihi2SimCfg(select_tag="fixed_pt"))
        return time.perf_counter() - start
    run(1)
    whole = run(steps) / steps
    single = sorted(run(1) for _ in range(50))[25]
    last.stop()
    print(json.dumps([whole, single]))
"""


def lava_times(path: Path, inputs: dict[str, NDArray[Any]]) -> list[float]:
    """Seconds a step in one run, and of a run of one step."""
    found = lava_python()
    if found is None:
        raise SystemExit("set TRITON_LAVA_PYTHON to a Python with lava-nc 0.10.0")
    with TemporaryDirectory() as name:
        write_artifact(compile_to_target(import_netx(path), "loihi2"), name)
        save: Any = np.savez
        save(Path(name, "inputs.npz"), **{k: x[:, 0] for k, x in inputs.items()})
        Path(name, "timed.py").write_text(_LAVA, encoding="utf-8")
        command = [found[0], "timed.py"]
        told = subprocess.run(command, cwd=name, capture_output=True, encoding="utf-8", check=True)
        return json.loads(told.stdout.splitlines()[-1])


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description="Our simulator of Loihi beside Lava.")
    parser.add_argument("network", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    module = import_netx(arguments.network)
    simulate = simulator(module, "event")
    names = [port.name for port in simulate.signature.inputs]
    shape = dense_type(entry_function(module, "forward").args[0]).get_shape()[2:]
    x = np.random.default_rng(0).random((arguments.steps, 1, *shape)) < 0.1
    simulate.run([x])
    whole: list[float] = []
    for _ in range(5):
        simulate.reset()
        start = perf_counter()
        simulate.run([x])
        whole.append((perf_counter() - start) / len(x))
    singles: list[float] = []
    for step in x:
        start = perf_counter()
        simulate.run([step[None]])
        singles.append(perf_counter() - start)
    ours = [float(np.median(whole)), float(np.median(singles))]
    theirs = lava_times(arguments.network, {names[0]: x})
    whats = ("a step of one run", "a run of one step")
    for what, mine, other in zip(whats, ours, theirs, strict=True):
        times = f"ours {mine * 1e6:.2f} µs, Lava {other * 1e6:.0f} µs"
        print(f"{what}: {times}, {other / mine:.0f} times")


if __name__ == "__main__":
    main()
