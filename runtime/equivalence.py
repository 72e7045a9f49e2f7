"""Whether a pass keeps what a module computes: the module before and after on random inputs.

Both run in the reference interpreter, with the same inputs and the same parameters; parameters that
have no values get random ones. Integers, booleans and trits must agree exactly, floats within a
tolerance. Meant for `--verify-semantics` and for tests of passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from ml_dtypes import finfo
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ..dialects.interpret import run_module
from ..ir.arrays import Array
from ..ir.errors import PassError, TritonError, UnsupportedError
from ..ir.instrument import Instrument
from .random_values import fill_parameters, random_inputs

Results = tuple[Array, ...]

ATTEMPTS = (((3, 4, 5, 6), 16), ((4, 4, 4, 4), 4), ((8, 8, 8, 8), 2), ((1, 1, 1, 1), 1))
"""Sizes of dynamic dimensions by position, and the bound of wide integers; the first that runs."""


@dataclass(frozen=True)
class Tolerance:
    """How far floats may differ: |a - b| ≤ absolute + relative · max|a|.

    The bound grows with the largest result, as reordered sums err in proportion to it. Types of
    lower precision get 8 units in the last place.
    """

    relative: float = 1e-4
    absolute: float = 1e-5

    def bound(self, reference: Array) -> float:
        """The largest difference allowed from `reference`."""
        wide = _wide(reference)
        largest = float(np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide)))
        precision = float(cast(Any, finfo)(reference.dtype).eps)
        return self.absolute + max(self.relative, 8 * precision) * largest


@dataclass
class SemanticsCheck(Instrument):
    """Stops the pipeline at the first pass that changes what a function computes.

    Every function with a body whose arguments are tensors or spike trains is run. A function that
    the interpreter cannot run is left out, and named in `skipped`. A pass that says it changes
    results (`approximate = True`) is held to shapes and to making no new NaN, unless
    `approximate_within` gives a tolerance; its results are then the reference for the next pass.
    After a pass that changes the types of inputs, both versions run on new ones.

    Attributes:
        samples: random inputs for each function.
        seed: of inputs and parameters.
        checked: passes that were compared.
        notes: what each approximate pass changed, for the user.
        skipped: functions that were not compared, and why.
    """

    samples: int = 3
    seed: int = 0
    tolerance: Tolerance = field(default_factory=Tolerance)
    approximate_within: Tolerance | None = None
    checked: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    _inputs: dict[str, list[list[Array]]] = field(default_factory=dict[str, list[list[Array]]])
    _results: dict[str, list[Results]] = field(default_factory=dict[str, list[Results]])
    _previous: ModuleOp | None = None

    def start(self, module: ModuleOp) -> None:
        runnable = fill_parameters(module, self.seed)
        for function in _functions(module):
            name = function.sym_name.data
            try:
                self._inputs[name], self._results[name] = self._first_runs(runnable, function)
            except TritonError as error:
                self.skipped[name] = str(error).replace("\n", " ")

    def before(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        self._previous = module.clone() if self._results else None

    def after(self, module: ModuleOp, rest: Sequence[ModulePass]) -> None:
        if self._previous is None:
            return
        current = rest[0]
        runnable = fill_parameters(module, self.seed)
        present = {function.sym_name.data: function for function in _functions(module)}
        former = {function.sym_name.data: function for function in _functions(self._previous)}
        for name in list(self._results):
            if name not in present:
                self._leave_out(name, f"pass '{current.name}' removed it")
                continue
            if present[name].function_type.inputs != former[name].function_type.inputs:
                try:
                    self._draw_again(self._previous, present[name])
                except TritonError:
                    self._leave_out(name, f"pass '{current.name}' changed what it takes")
                    continue
            try:
                results = [run_module(runnable, i, name) for i in self._inputs[name]]
            except UnsupportedError as error:
                reason = str(error).split("\n")[1].strip()
                self._leave_out(name, f"after pass '{current.name}': {reason}")
            except TritonError as error:
                raise PassError(
                    f"pass '{current.name}' changed function '{name}': it no longer runs: {error}"
                ) from None
            else:
                self._compare(current, name, results)
                self._results[name] = results
        if self._results:
            self.checked.append(current.name)

    def _draw_again(self, previous: ModuleOp, function: FuncOp) -> None:
        """Take inputs that fit `function`, and what the module before the pass made of them."""
        name = function.sym_name.data
        runnable = fill_parameters(previous, self.seed)
        self._inputs[name], self._results[name] = self._first_runs(runnable, function)

    def _leave_out(self, name: str, reason: str) -> None:
        del self._results[name]
        self.skipped[name] = reason

    def _compare(self, current: ModulePass, name: str, results: list[Results]) -> None:
        approximate = is_approximate(current)
        tolerance = self.approximate_within if approximate else self.tolerance
        largest = 0.0
        for sample, (before, after) in enumerate(zip(self._results[name], results, strict=True)):
            where = f"function '{name}', input {sample + 1} of {self.samples}, seed {self.seed}"
            problem = difference(before, after, tolerance)
            if problem is not None:
                raise PassError(f"pass '{current.name}' changes the result: {problem} ({where})")
            largest = max([largest, *(_distance(b, a) for b, a in zip(before, after, strict=True))])
        if approximate:
            self.notes.append(
                f"pass '{current.name}' is approximate: function '{name}' changes by {largest:.4g}"
            )

    def _first_runs(
        self, module: ModuleOp, function: FuncOp
    ) -> tuple[list[list[Array]], list[Results]]:
        problem: TritonError | None = None
        for sizes, bound in ATTEMPTS:
            rng = np.random.default_rng([self.seed, *function.sym_name.data.encode()])
            inputs = [
                random_inputs(function.function_type, rng, sizes, bound)
                for _ in range(self.samples)
            ]
            try:
                return inputs, [run_module(module, i, function.sym_name.data) for i in inputs]
            except UnsupportedError:
                raise
            except TritonError as error:
                problem = problem or error
        assert problem is not None
        raise problem


def is_approximate(current: ModulePass) -> bool:
    """Whether a pass changes results on purpose."""
    return bool(getattr(current, "approximate", False))


def difference(before: Results, after: Results, tolerance: Tolerance | None) -> str | None:
    """How `after` differs from `before`; `None` if it does not.

    Without a tolerance only counts, shapes and new NaNs are compared.
    """
    if len(before) != len(after):
        return f"{len(before)} results became {len(after)}"
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        what = f"result {index}"
        if old.shape != new.shape:
            return f"{what} has shape {list(new.shape)} instead of {list(old.shape)}"
        new_nans = np.isnan(_wide(new)) & ~np.isnan(_wide(old))
        if new_nans.any():
            return f"{what} is NaN at {_position(new_nans)} instead of {_shown(old, new_nans)}"
        if tolerance is None:
            continue
        if old.dtype != new.dtype:
            return f"{what} has type {new.dtype} instead of {old.dtype}"
        bound = 0.0 if old.dtype.kind in "iub" else tolerance.bound(old)
        gap = _gaps(old, new)
        if gap.size and gap.max() > bound:
            worst = gap == gap.max()
            return (
                f"{what} at {_position(worst)} is {_shown(new, worst)} instead of "
                f"{_shown(old, worst)}, a difference of {gap.max():.4g} (allowed: {bound:.2g})"
            )
    return None


def _functions(module: ModuleOp) -> Iterator[FuncOp]:
    for op in module.ops:
        if isinstance(op, FuncOp) and not op.is_declaration:
            yield op


def _wide(array: Array) -> Array:
    if array.dtype.kind in "iub":
        return np.asarray(array, dtype=np.float64)
    return array.astype(np.float64)


def _gaps(old: Array, new: Array) -> Array:
    a, b = _wide(old), _wide(new)
    with np.errstate(invalid="ignore"):
        gap = np.abs(a - b)
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    if old.dtype.kind in "iub":
        equal = old == new
        gap = np.where(equal, 0.0, np.maximum(gap, 1.0))
    return np.where(equal, 0.0, np.where(np.isnan(gap), np.inf, gap))


def _distance(old: Array, new: Array) -> float:
    gap = _gaps(old, new)
    return float(gap.max()) if gap.size else 0.0


def _position(mask: Array) -> str:
    return str([int(i) for i in np.argwhere(mask)[0]])


def _shown(array: Array, mask: Array) -> str:
    value = array[tuple(np.argwhere(mask)[0])]
    return f"{float(value):.6g}" if array.dtype.kind not in "iub" else str(value)


def summary(names: Mapping[str, str]) -> str:
    """Functions that were left out, in one line."""
    return "; ".join(f"'{name}': {reason}" for name, reason in names.items())
