"""Quantised networks as circuits: simulated against NumPy, or only elaborated.

`python -m fuzz --kind circuits` simulates whole circuits. By itself this file has two modes, each
of which goes on where it ended:

    .venv/bin/python tests/fuzz/circuits.py simulate --count 300
    .venv/bin/python tests/fuzz/circuits.py elaborate --count 1000

`elaborate` writes Verilog without simulating it, asks whether any two modules have one name, and
has Icarus Verilog read every file with all of its warnings.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

if __package__ in (None, ""):  # as a script
    sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from fuzz.cases import INTERPRETER, Case, Check, Expected, Undetermined, check, reason_of
from fuzz.circuit_networks import random_network, random_options, smaller_networks
from fuzz.quantised_networks import Network, computed, onnx_model, result_type, samples_of
from triton_dsl.ir.errors import TritonError, VerifyError
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.targets import compile_to_target

Array = NDArray[Any]

_SAMPLES = 6
"""Frames of a simulation; half of them go without waiting."""

_DEFAULTS = ("time-budget=0.02", "vectors=4")
"""Options that every case has: they make it quick."""


@dataclass(frozen=True)
class CircuitCase(Case):
    """A quantised network and the options of its circuit, which are those of the last check.

    Attributes:
        network: what it is.
    """

    KIND: ClassVar[str] = "circuits"
    network: Network

    @property
    def target(self) -> str:
        """The target with its options."""
        return self.checks[-1].engine

    def inputs(self) -> list[Array]:
        """Samples away from jumps, and those of the least and the largest numbers."""
        try:
            return [samples_of(self.network, _SAMPLES)]
        except ValueError as error:
            raise Undetermined(str(error)) from None

    def expected(self) -> Expected:
        """NumPy's float64; a float may be off by the rounding of one product."""
        (x,) = self.inputs()
        found, _ = computed(self.network, x)
        whole = self.network.form == "integers" or found.dtype.kind == "i"
        if whole:
            kind = np.int64 if found.dtype.kind == "i" else result_type(self.network)
            return Expected((found.astype(kind),), (np.zeros(found.shape),))
        size = float(np.abs(found).max(initial=0.0))
        return Expected((found.astype(np.float32),), (np.full(found.shape, 1e-5 * size + 1e-6),))

    def module(self) -> ModuleOp:
        """The model as `from_onnx` reads it."""
        return from_onnx(onnx_model(self.network))

    def reductions(self) -> Iterator[Self]:
        """Fewer options, then smaller networks."""
        words = self.target.removeprefix("verilog{").removesuffix("}").split()
        for word in words:
            if word not in _DEFAULTS:
                yield self._with(" ".join(w for w in words if w != word))
        for network in smaller_networks(self.network):
            yield replace(self, network=network)

    def _with(self, options: str) -> Self:
        return replace(self, checks=(*self.checks[:-1], Check("", f"verilog{{{options}}}")))

    def size(self) -> int:
        """Products, poolings and sums."""
        return self.network.size()

    def building(self) -> tuple[list[str], list[str]]:
        """The network as an expression."""
        names = "Branches, Flatten, Mean, Network, Pool, Product, Quant, onnx_model"
        imports = [
            f"from fuzz.quantised_networks import {names}",
            "from triton_dsl.lowering.from_onnx import from_onnx",
        ]
        return imports, [f"module = from_onnx(onnx_model({self.network!r}))"]


def generate(seed: int) -> CircuitCase:
    """The case of a seed."""
    network = random_network(seed)
    target = random_options(seed, network)
    return CircuitCase(seed, (Check("", INTERPRETER), Check("", target)), network)


def elaborated(case: CircuitCase) -> str | None:
    """What Icarus Verilog says of a case's circuit, or of two modules of one name; else `None`.

    Raises:
        TritonError: the network is refused.
    """
    with TemporaryDirectory() as name:
        return warnings_of(compile_to_target(case.module(), case.target).files, Path(name))


def warnings_of(files: Any, folder: Path) -> str | None:
    """What Icarus Verilog says of the Verilog among files; `None` if it says nothing."""
    texts = {Path(n).name: t.decode() for n, t in files.items() if n.endswith(".v")}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    found = Counter(re.findall(r"^module\s+(\w+)", "\n".join(texts.values()), re.MULTILINE))
    twice = [name for name, times in found.items() if times > 1]
    if twice or len({n.lower() for n in found}) < len(found):
        return f"two modules are called {twice or sorted(found)}"
    # Out of test: benches take their vectors from files. Each file alone says what it is.
    sources = [name for name in texts if not name.endswith("_pins.v")]
    command = ["iverilog", "-g2012", "-Wall", "-t", "null", *sources]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).strip()
    return said or (f"exit status {done.returncode}" if done.returncode else None)


def _simulate(case: CircuitCase) -> tuple[str, str]:
    outcome = check(case)
    if outcome.finding is not None:
        return (
            "FAILED",
            f"{outcome.finding.check}: {outcome.finding.kind}: {outcome.finding.message}",
        )
    if outcome.refused:
        return "refused", next(iter(outcome.refused))
    return "simulated", ""


def _elaborate(case: CircuitCase) -> tuple[str, str]:
    try:
        said = elaborated(case)
    except TritonError as error:
        return ("FAILED" if _is_fault(error) else "refused"), reason_of(error)
    except Exception as error:
        return "FAILED", f"{type(error).__name__}: {error}"
    return ("elaborated", "") if said is None else ("FAILED", said)


def _is_fault(error: TritonError) -> bool:
    words = ("two different modules", "crashed")
    return isinstance(error, VerifyError) or any(text in str(error) for text in words)


_MODES = {"simulate": _simulate, "elaborate": _elaborate}


def run(mode: str, count: int, start: int | None, state: Path) -> int:
    """Try so many cases, and print what became of them and how many go in an hour."""
    known: dict[str, Any] = json.loads(state.read_text()) if state.exists() else {}
    mine: dict[str, Any] = known.setdefault(mode, {"next": 0, "counts": {}, "seconds": 0.0})
    first = mine["next"] if start is None else start
    counts = Counter[str](mine["counts"])
    reasons = Counter[str]()
    failed = 0
    for seed in range(first, first + count):
        began = time.monotonic()
        case = generate(seed)
        verdict, said = _MODES[mode](case)
        counts[verdict] += 1
        failed += verdict == "FAILED"
        if verdict == "FAILED":
            print(f"seed {seed}, {case.size()} parts, {case.target}: {said[:600]}", flush=True)
        elif said:
            reasons[said] += 1
        mine |= {"next": seed + 1, "counts": dict(counts)}
        mine["seconds"] += time.monotonic() - began
        state.parent.mkdir(parents=True, exist_ok=True)
        state.write_text(json.dumps(known))
        if (seed - first) % 25 == 24:
            print(f"{seed + 1 - first} of {count}: {dict(counts)}", flush=True)
    rate = sum(counts.values()) / max(mine["seconds"], 1e-9) * 3600
    print(f"{mode}: {dict(counts)}, {rate:.0f} an hour; next seed {mine['next']}")
    for reason, times in reasons.most_common(20):
        print(f"  refused {times}: {reason}")
    return failed


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(description="Quantised networks as circuits.")
    parser.add_argument("mode", choices=sorted(_MODES))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--start", type=int, help="the first seed; by default where it ended")
    parser.add_argument("--state", type=Path, default=Path("build/fuzz/circuits.json"))
    given = parser.parse_args()
    sys.exit(bool(run(given.mode, given.count, given.start, given.state)))
