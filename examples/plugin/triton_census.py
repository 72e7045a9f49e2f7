"""A plug-in for Triton DSL: a target, a front end, a pass and a back end on the syntax tree.

The target `census` counts ops, `.csv` files are read as layers, the pass `name-products` names
results, and the back end `ports` lists the ports of a circuit.

Installed with `pip install ./examples/plugin`, it is there for `triton-opt`, `triton-translate`,
`triton` and `compile_model` without another step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from triton_dsl import FrontEnd, LayerDef, import_tri
from triton_dsl.dialects import ternary
from triton_dsl.targets import Artifact, BackendBase, Stage, Target, TargetOptions


@dataclass(frozen=True)
class CensusOptions(TargetOptions):
    """Options of the target: `census{header=true}`."""

    header: bool = False
    """Begin with a heading."""


class CensusTarget(Target):
    """How many ops of each kind the optimised program has, as text."""

    name = "census"
    description = "count the ops of a program"
    Options = CensusOptions

    def stages(self, options: Any) -> Sequence[Stage]:
        return (Stage("simplify", "canonicalize,cse,dce"), Stage("fuse", "fuse-linear,dce"))

    def emit(self, module: ModuleOp, options: Any) -> Artifact:
        counts = Counter(op.name for op in module.walk() if not op.name.startswith("builtin"))
        lines = [f"{count:6} {name}" for name, count in sorted(counts.items())]
        if options.header:
            lines.insert(0, " count op")
        return Artifact("census", {"census.txt": ("\n".join(lines) + "\n").encode()})


def read_matrix(path: Path) -> ModuleOp:
    """The linear layer of the matrix in a `.csv` file, with a row for each input."""
    matrix = np.loadtxt(path, delimiter=",", dtype=np.float32, ndmin=2)
    ins, outs = matrix.shape
    source = f"""
    layer Matrix {{
        param matrix: Tensor[{ins}, {outs}]
        fn forward(x: Tensor[N, {ins}]) -> Tensor[N, {outs}] {{ return x @ matrix }}
    }}
    """
    return import_tri(source, weights={"matrix": matrix})


MATRICES = FrontEnd(read_matrix)


@dataclass(frozen=True)
class NameProductsPass(ModulePass):
    """Name the result of every ternary product after its weight."""

    name = "name-products"

    suffix: str = "product"
    """What follows the weight's name."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, ternary.MatmulOp | ternary.FusedOp):
                hint = inner.weight.name_hint or "anonymous"
                inner.result.name_hint = f"{hint}_{self.suffix}"


class PortsBackend(BackendBase):
    """The ports a hardware module for one layer needs: a back end on the syntax tree."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix

    def generate_code(self, layer_def: LayerDef) -> str:
        lines = [f"module {self.prefix}{layer_def.name}"]
        for param in layer_def.params:
            bits = 2 if param.param_type == "TernaryTensor" else 32
            for size in param.shape:
                bits *= size
            lines.append(f"input [{bits - 1}:0] {param.name}")
        return "\n".join(lines)

    def compile(self, code: str) -> dict[str, str]:
        head, *ports = code.splitlines()
        return {"module": head, **{port.split()[-1]: port for port in ports}}

    def optimize(self, compiled_model: dict[str, str]) -> dict[str, str]:
        return compiled_model


def _name_products() -> type[ModulePass]:
    return NameProductsPass


_PASSES: dict[str, Callable[[], type[ModulePass]]] = {"name-products": _name_products}

UNIVERSE = Universe(all_passes=_PASSES)
