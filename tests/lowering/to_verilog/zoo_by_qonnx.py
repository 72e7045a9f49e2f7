"""Networks in the styles of the qonnx zoo beside qonnx's own execution, and as whole circuits.

    python -m tests.lowering.to_verilog.zoo_by_qonnx [NAME …] [--inputs 1000]
        [--qonnx-python PYTHON]

For each network: on how many random inputs the program of integers gives something else than
qonnx, and on how many the whole circuit does in simulation. Float
sums of two engines round differently, so that results are the same to 1e-4 of the largest; a wrong
step of a quantiser is farther. The exit code is 1 where one input differs. qonnx may stand in an
environment of its own, whose Python is given. Not a test: qonnx is not installed with the project.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np
import onnx
from rich.console import Console

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.simulation import run_verilog
from triton_dsl.tools.console import table

from ..from_onnx.zoo_models import MODELS, Array, stated

SIMPLIFY = "canonicalize,cse,dce,fold-constants,canonicalize,cse,dce"

STATED = {"stated_2w2a": "x:int4*0.5"}
"""What inputs without a quantiser hold."""

NETWORKS = {**MODELS, "stated_2w2a": stated}

QONNX = """
import sys, numpy as np
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_shapes import InferShapes
model, x = ModelWrapper(sys.argv[1]).transform(InferShapes()), np.load(sys.argv[2])
(result,) = execute_onnx(model, {"x": x}).values()
np.save(sys.argv[3], result)
"""


def by_qonnx(model: Any, x: Array, python: str) -> Array:
    """The results of qonnx."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value = len(x)
    with TemporaryDirectory() as folder:
        paths = [f"{folder}/{name}" for name in ("model.onnx", "x.npy", "y.npy")]
        Path(paths[0]).write_bytes(fixed.SerializeToString())
        np.save(paths[1], x)
        subprocess.run([python, "-c", QONNX, *paths], check=True)
        return np.load(paths[2])


def samples(name: str, model: Any, count: int) -> Array:
    """Inputs of a network."""
    sizes = model.graph.input[0].type.tensor_type.shape.dim[1:]
    shape = (count, *(size.dim_value for size in sizes))
    rng = np.random.default_rng(1)
    x = rng.integers(-8, 8, shape) / 2 if name in STATED else rng.uniform(-1, 1, shape)
    return x.astype(np.float32)


def differing(found: Array, want: Array) -> int:
    """How many inputs have another result."""
    far = np.abs(found - want) > 1e-4 * np.abs(want).max()
    return int(far.reshape(len(want), -1).any(1).sum())


def measure(name: str, count: int, python: str) -> list[Any]:
    """The row of a network."""
    model = NETWORKS[name]()
    x = samples(name, model, count)
    want = by_qonnx(model, x, python)
    module = from_onnx(model)
    integers = module.clone()
    given = f'{{inputs="{STATED[name]}"}}' if name in STATED else ""
    run_stages(integers, [Stage("integers", f"{SIMPLIFY},streamline{given}")])
    (program,) = run_module(integers, [x])
    start = process_time()
    artifact = compile_to_target(module, "verilog", {"vectors": 2, "inputs": STATED.get(name)})
    seconds = process_time() - start
    report = json.loads(artifact.text("report.json"))
    start = perf_counter()
    engine, (circuit,) = run_verilog(artifact, [x])
    luts = report["estimate"]["luts"]
    row = [name, count, differing(program, want), differing(circuit, want), luts, seconds]
    row += [engine.split()[0], perf_counter() - start]
    print(*row, file=sys.stderr, flush=True)
    return row


def main() -> int:
    """Run the command line; 1 where a result differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--qonnx-python", default=sys.executable)
    options = parser.parse_args()
    python: str = options.qonnx_python
    rows = [measure(name, options.inputs, python) for name in options.names or NETWORKS]
    columns = ["network", "inputs", "integers differ", "circuit differs", "LUTs", "compiled in s",
               "simulator", "for s"]  # fmt: skip
    Console(width=120).print(table("beside qonnx", columns, rows))
    return int(any(row[2] or row[3] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
