"""Random PyTorch modules on integers as circuits: products, moves, comparisons, poolings, joins.

What eager PyTorch computes is exact; `circuits` has quantised networks. A module is a list of
statements, as in `torch_modules`, whose constants stand in them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from .cases import INTERPRETER, Check, Expected
from .torch_modules import Module, Statement, scope

Array = NDArray[Any]

SAMPLES = 4
"""Frames of a simulation; half of them go without waiting."""

MOST_ELEMENTS, MOST = 500, 2**29
"""Of a value, and its largest absolute number."""

_STEPS = (
    *("product", "product", "product", "threshold", "clamp", "pool", "flip", "select", "permute"),
    *("add", "cat", "where", "minimum", "sum", "largest", "abs", "slice", "pad", "flatten"),
)


@dataclass(frozen=True)
class IntegerModule(Module):
    """A module of integers and the options of its circuit."""

    KIND: ClassVar[str] = "integers"

    def expected(self) -> Expected:
        """Eager PyTorch's integers."""
        with torch.no_grad():
            found = self.network()(*map(torch.tensor, self.inputs())).numpy()
        return Expected((found,), (np.zeros(found.shape),))


def generate(seed: int) -> IntegerModule:
    """The module of a seed."""
    return _Writer(seed).module()


class _Writer:
    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.arrays = np.random.default_rng(seed)
        self.values: dict[str, tuple[torch.Tensor, int]] = {}
        """What each name holds for the inputs, and a bound of it for all inputs."""
        self.statements: list[Statement] = []

    def module(self) -> IntegerModule:
        """The module: statements until there are enough."""
        rng = self.rng
        bits, sizes = rng.randint(1, 8), rng.choice([(), (), (5,), (4, 5), (6, 3)])
        shape = (SAMPLES, rng.choice([1, 2, 3, 7]), *sizes)
        low, high = rng.choice([(0, 1 << bits), (-(1 << bits), 1 << bits)])
        arguments: list[tuple[str, Array]] = []
        for name in ("x", "y")[: rng.choice([1, 1, 1, 2])]:
            array = self.arrays.integers(low, high, shape).astype(np.int32)
            arguments.append((name, array))
            self.values[name] = torch.tensor(array), 1 << bits
        wanted = rng.randint(2, 7)
        for _ in range(40):
            if len(self.statements) < wanted:
                self._step()
        if not self.statements:
            self._append("{0} + 1", ["x"], (1 << bits) + 1)
        checks = (Check("", INTERPRETER), Check("", f"verilog{{{self._options(bits + 1)}}}"))
        result = self.statements[-1].name
        whole = IntegerModule(
            seed=self.seed, checks=checks, arguments=tuple(arguments), layers=(),
            statements=tuple(self.statements), result=result,
        )  # fmt: skip
        return whole.cut(result)

    def _options(self, bits: int) -> str:
        rng, words = self.rng, ["time-budget=0.02", "vectors=2", f"input-bits={bits}"]
        if rng.random() < 0.4:
            words.append(f"stream-width={rng.choice([8, 16, 32, 64, 128])}")
        if rng.random() < 0.3:
            words.append(f"pipeline={rng.choice([0, 2, 3])}")
        if rng.random() < 0.3:
            words.append(rng.choice(["lut-budget=500", "lut-budget=1500", "target-fps=1e6"]))
        if rng.random() < 0.4:
            words.append(f"device={rng.choice(['xczu3eg', 'xc7a35t', 'ice40-hx8k', 'ecp5-25'])}")
        return " ".join(words)

    def _append(self, text: str, uses: list[str], bound: int) -> None:
        """A statement, where PyTorch takes it and its values are not too many or large."""
        given = [self.values[name][0] for name in uses]
        names = {f"v{i}": value for i, value in enumerate(given)}
        try:
            made = eval(text.format(*names), scope() | names)
        except (AttributeError, RuntimeError, IndexError, ValueError):
            return
        small = 0 < made.numel() <= MOST_ELEMENTS * SAMPLES and bound < MOST
        framed = made.dim() > 1 and len(made) == SAMPLES
        if small and framed and made.dtype == torch.int32:
            name = f"t{len(self.statements)}"
            self.values[name] = made, bound
            self.statements.append(Statement(name, text, tuple(uses)))

    def _constant(self, values: Array) -> str:
        return f"torch.tensor({values.tolist()}, dtype=torch.int32)"

    def _step(self) -> None:
        rng, names = self.rng, list(self.values)
        name = names[-1] if rng.random() < 0.7 else rng.choice(names)
        value, bound = self.values[name]
        alike = [n for n in names if self.values[n][0].shape == value.shape]
        other, axis = rng.choice(alike), rng.randrange(1, value.dim())
        most = max(bound, self.values[other][1])
        last = value.shape[axis]
        match rng.choice(_STEPS):
            case "product":
                self._product(name, value, bound)
            case "threshold":
                per = (value.shape[1], *[1] * (value.dim() - 2))
                given = self._constant(self.arrays.integers(-bound, bound + 1, per))
                self._append(f"({{0}} >= {given}).int()", [name], 1)
            case "clamp":
                low = rng.choice([0, -1, -8])
                self._append(f"{{0}}.clamp({low}, {low + rng.choice([1, 7, 255])})", [name], 256)
            case "pool":
                pooled = f"F.max_pool{value.dim() - 2}d({{0}}.double(), 2, 1).int()"
                self._append(pooled, [name], bound)
            case "flip":
                self._append(f"{{0}}.flip({axis})", [name], bound)
            case "select":
                places = [rng.randrange(last) for _ in range(rng.randint(1, 4))]
                self._append(f"{{0}}.index_select({axis}, torch.tensor({places}))", [name], bound)
            case "permute":
                order = rng.sample(range(1, value.dim()), value.dim() - 1)
                self._append(f"{{0}}.permute(0, {str(order)[1:-1]})", [name], bound)
            case "add":
                self._append("{0} - {1}", [name, other], 2 * most)
            case "cat":
                self._append(f"torch.cat([{{0}}, {{1}}], {axis})", [name, other], most)
            case "where":
                self._append("torch.where({0} < 1, {1}, {0})", [name, other], most)
            case "minimum":
                self._append("torch.minimum({0}, {1})", [name, other], most)
            case "sum":
                self._append(f"{{0}}.sum({axis}, dtype=torch.int32)", [name], bound * last)
            case "largest":
                self._append(f"{{0}}.amax({axis}, keepdim=True)", [name], bound)
            case "abs":
                self._append("{0}.abs()", [name], bound)
            case "slice":
                self._append("{0}[:, 1::2]", [name], bound)
            case "pad":
                self._append("F.pad({0}, (1, 0), value=-3)", [name], max(bound, 3))
            case _:
                self._append("{0}.flatten(1)", [name], bound)

    def _product(self, name: str, value: torch.Tensor, bound: int) -> None:
        """A product with weights of 1 to 8 bits, of groups of channels where there are images."""
        rng, channels, rank = self.rng, value.shape[1], value.dim()
        half, columns = rng.choice([1, 1, 1, 2, 4, 128]), rng.randint(1, 4)
        groups = rng.choice([1, channels])
        shape = (channels, columns)
        if rank > 2:
            shape = (columns * groups, channels // groups, *[rng.randint(1, 3)] * (rank - 2))
        weight = self.arrays.integers(-half, half + (half == 1), shape)
        bound *= half * weight.size
        if rank == 2:
            self._append(f"{{0}} @ {self._constant(weight)}", [name], bound)
            return
        padding, stride = rng.choice([0, 0, 1]), rng.choice([1, 1, 2])
        given = f"{self._constant(weight)}, None, {stride}, {padding}, 1, {groups}"
        self._append(f"F.conv{rank - 2}d({{0}}, {given})", [name], bound)
