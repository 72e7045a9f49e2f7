"""A generated case, and what is checked of it: every engine and pipeline against an oracle.

The oracle is outside the project (PyTorch, ONNX Runtime, LiteRT, a simulator). It says for each
element of each output how far rounding may move it; integers are exact, but where a float that
decides them is within its own error of a jump.
"""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import BackendError, TritonError, VerifyError
from triton_dsl.ir.printing import module_text
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.tools.verify import is_integer_program

from .promises import promised

Array = NDArray[Any]

INTERPRETER = "interpreter"
ENGINES = ("pytorch", "onnx", "native", "tflite", "c")

EXACT_PASSES = (
    "canonicalize",
    "cse",
    "dce",
    "fold-constants",
    "fold-constants{keep-packed=true}",
    "fuse-linear",
    "fuse-linear{exact=true}",
    "skip-zeros",
    "skip-zeros{prune=false}",
    "infer-shapes",
    "merge-rescaling",
    "optimize-adder-graph{time-budget=0.05}",
    "free-batch",
)
"""Passes that keep what a program of tensors computes."""


BROKEN = ("crashed", "self-check of the", "refuses the model: [", "internal error")
"""Words of errors that are no refusal: a pass broke, or an engine does not take our file."""


class Undetermined(Exception):
    """The oracle has no answer for this case: it is not run."""


SAMPLES = "SAMPLES"
"""In an approximate pipeline: the file with the inputs of the case."""


@dataclass(frozen=True)
class Check:
    """One run of the program: after a pipeline (none if empty), on an engine.

    Attributes:
        pipeline: passes that keep what is computed.
        engine: the interpreter or a target.
        approximate: passes that run first and change what is computed. No oracle knows their
            result; what the interpreter then computes is what all others must, integers exactly.
    """

    pipeline: str
    engine: str
    approximate: str = ""

    @property
    def target(self) -> str:
        """The engine without its options."""
        return self.engine.partition("{")[0]

    def __str__(self) -> str:
        passes = ",".join(filter(None, (self.approximate, self.pipeline)))
        return f"{self.engine} after '{passes}'" if passes else self.engine


@dataclass(frozen=True)
class Expected:
    """What the oracle computes, and the largest absolute error of each element.

    A bound of infinity says that the element is not determined, as it hangs on rounding.
    """

    values: tuple[Array, ...]
    bounds: tuple[Array, ...]


@dataclass(frozen=True)
class Finding:
    """Something that must not be.

    Attributes:
        check: what was run.
        kind: `difference`, `crash`, `round trip`, `invalid` or `hang`.
        message: what happened, with numbers.
    """

    check: Check
    kind: str
    message: str

    @property
    def signature(self) -> str:
        """The same for findings that probably have one cause."""
        what = re.sub(r"0x[0-9a-f]+|[-+]?\d[\d.e+-]*", "#", self.message.split("\n")[0])
        where = self.check.target
        if self.check.pipeline:
            where = f"passes, {where}" if where != INTERPRETER else "passes"
        # What differs says nothing of the cause; what crashed does.
        return f"{where}: {self.kind}" + ("" if self.kind == "difference" else f": {what[:120]}")


@dataclass
class Outcome:
    """What became of a case."""

    ran: Counter[str] = field(default_factory=Counter[str])
    """Runs that were compared, by engine or `passes`."""
    refused: Counter[str] = field(default_factory=Counter[str])
    """Refusals by reason, with numbers and names left out."""
    finding: Finding | None = None


@dataclass(frozen=True)
class Case(ABC):
    """One generated program with its inputs.

    Attributes:
        seed: what it is made from.
        checks: what is run of it, in order.
    """

    KIND: ClassVar[str] = ""
    seed: int
    checks: tuple[Check, ...]

    @abstractmethod
    def inputs(self) -> list[Array]:
        """The arguments of the program."""

    @abstractmethod
    def expected(self) -> Expected:
        """What it computes, by an engine that is not ours.

        Raises:
            Undetermined: the oracle has no answer.
        """

    @abstractmethod
    def module(self) -> ModuleOp:
        """The program as our importer reads it, with its weights.

        Raises:
            TritonError: it is refused.
        """

    def names(self) -> list[str]:
        """The names of the arguments in the program."""
        raise NotImplementedError("a kind with approximate passes names its arguments")

    @abstractmethod
    def reductions(self) -> Iterator[Self]:
        """Smaller cases, the smallest first; they need not fail, nor even compile."""

    @abstractmethod
    def size(self) -> int:
        """How many operations it has."""

    @abstractmethod
    def building(self) -> tuple[list[str], list[str]]:
        """The imports and the statements of a test that make the variable `module`."""

    def only(self, check: Check) -> Self:
        """The same case with one check."""
        return replace(self, checks=(check,))

    def source(self, finding: Finding, fallback: Expected | None = None) -> str:
        """A test of this case alone, with the oracle's values in it."""
        try:
            expected = self.expected()
        except Exception:
            expected = fallback
        return _test_source(self, finding, expected)


def checks_of(
    rng: random.Random, engines: Sequence[str] = ENGINES, passes: Sequence[str] = EXACT_PASSES
) -> tuple[Check, ...]:
    """The interpreter, two engines, a random pipeline and an engine after another."""

    def pipeline() -> str:
        return ",".join(rng.choice(passes) for _ in range(rng.choice([1, 1, 2, 4, 6])))

    return (
        Check("", INTERPRETER),
        Check(pipeline(), INTERPRETER),
        *(Check("", engine) for engine in rng.sample(list(engines), 2)),
        Check(pipeline(), INTERPRETER),
        Check(pipeline(), rng.choice(list(engines))),
    )


def check(case: Case) -> Outcome:
    """Run the checks of a case up to the first finding."""
    outcome = Outcome()
    try:
        inputs = case.inputs()
        expected = case.expected()
    except Undetermined as reason:
        outcome.refused[f"undetermined: {reason}"] += 1
        return outcome
    try:
        module = case.module()
    except TritonError as error:
        outcome.refused[f"import: {reason_of(error)}"] += 1
        return outcome
    except Exception as error:
        outcome.finding = crash(Check("", "import"), error)
        return outcome
    for each in case.checks:
        outcome.finding = _run(case, module, inputs, expected, each, outcome)
        if outcome.finding is not None:
            break
    return outcome


def _run(
    case: Case,
    module: ModuleOp,
    inputs: list[Array],
    expected: Expected,
    each: Check,
    outcome: Outcome,
) -> Finding | None:
    try:
        work = module.clone()
        if each.approximate:
            expected = _approximated(case, work, inputs, each.approximate)
        if each.pipeline:
            run_stages(work, [Stage("fuzz", each.pipeline)])
        if each.engine == INTERPRETER:
            text = module_text(work)
            if module_text(parse_module(text, "printed")) != text:
                return Finding(each, "round trip", "the module prints otherwise after parsing")
            actual: Sequence[Array] = run_module(work, inputs)
        else:
            _, actual, _ = run_target(work, each.engine, inputs)
    except VerifyError as error:
        return Finding(each, "invalid", str(error))
    except TritonError as error:
        stopped = each.target == "verilog" and isinstance(error, BackendError)
        if stopped or any(words in str(error) for words in BROKEN):
            return Finding(each, "crash", str(error))
        if each.engine == INTERPRETER and not each.pipeline:
            return Finding(each, "crash", f"the interpreter refuses: {error}")
        outcome.refused[f"{each.target}: {reason_of(error)}"] += 1
        return None
    except Exception as error:
        return crash(each, error)
    bounds = promised(each.target, work, expected.values, expected.bounds)
    problem = difference(replace(expected, bounds=bounds), actual)
    if problem is not None:
        return Finding(each, "difference", problem)
    outcome.ran["passes" if each.pipeline else each.engine] += 1
    return None


def _approximated(case: Case, work: ModuleOp, inputs: list[Array], pipeline: str) -> Expected:
    """Run passes that change what a module computes; what it computes then."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "samples.npz"
        samples: dict[str, Any] = dict(zip(case.names(), inputs, strict=True))
        np.savez(path, **samples)
        run_stages(work, [Stage("approximate", pipeline.replace(SAMPLES, str(path)))])
    values = run_module(work, inputs)
    if is_integer_program(work):
        return Expected(values, tuple(np.zeros(v.shape) for v in values))
    scales = [1e-3 * float(np.max(np.abs(v), initial=0.0)) + 1e-4 for v in values]
    return Expected(values, tuple(np.full(v.shape, b) for v, b in zip(values, scales, strict=True)))


def crash(where: Check, error: Exception) -> Finding:
    """An exception that no user may see, with the function of ours that it came from."""
    trace = error.__traceback__
    place = ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "site-packages" not in name:
            place = f"{name.rpartition('/')[2]}:{trace.tb_frame.f_code.co_name}"
        trace = trace.tb_next
    return Finding(where, "crash", f"{type(error).__name__} in {place}: {error}")


def reason_of(error: TritonError) -> str:
    """Why something was refused, without what differs from program to program."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = lines[1] if len(lines) > 1 and "cannot express" in lines[0] else lines[0]
    text = re.sub(r"^\S*:\d+:\d+: ", "", text.strip())
    text = re.sub(r" at (unknown location|\S+): ", ": ", text)
    return re.sub(r"'[^']*'|\[[^\]]*\]|tensor<[^>]*>|-?\d[\d.e+-]*", "_", text)[:100]


def difference(expected: Expected, actual: Sequence[Array]) -> str | None:
    """How the outputs differ by more than they may; `None` if they do not."""
    if len(actual) != len(expected.values):
        return f"{len(actual)} outputs instead of {len(expected.values)}"
    for index, (want, bound, got) in enumerate(
        zip(expected.values, expected.bounds, actual, strict=True)
    ):
        if got.shape != want.shape:
            return f"output {index} has shape {list(got.shape)} instead of {list(want.shape)}"
        if got.dtype != want.dtype:
            return f"output {index} has type {got.dtype} instead of {want.dtype}"
        bad = _too_far(want, got, bound)
        if bad.any():
            place = tuple(np.argwhere(bad)[0])
            return (
                f"output {index} at {[int(i) for i in place]} is {got[place]!s} instead of "
                f"{want[place]!s}, allowed {float(bound[place]):.3g}; "
                f"{int(bad.sum())} of {want.size} elements"
            )
    return None


def _too_far(want: Array, got: Array, bound: Array) -> Array:
    if want.dtype.kind in "iub":
        return (want != got) & np.isfinite(bound)
    a, b = want.astype(np.float64), got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= bound
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return ~(same | near | np.isinf(bound))


def array_source(array: Array) -> str:
    """An expression that makes the array."""
    name = str(array.dtype)
    if name == "bfloat16":
        return (
            f"np.array({array.astype(np.float32).tolist()}, np.float32).astype(ml_dtypes.bfloat16)"
        )
    if 0 in array.shape:
        return f"np.zeros({array.shape}, np.{name})"
    literal = str(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({literal}, np.{'bool_' if name == 'bool' else name})"


def _test_source(case: Case, finding: Finding, expected: Expected | None) -> str:
    imports, building = case.building()
    check = finding.check
    lines = [f"    {line}" if line else "" for line in building]
    argument = ""
    if check.engine in ENGINES or check.engine == INTERPRETER:
        lines.append(f"    inputs = [{', '.join(map(array_source, case.inputs()))}]")
        if check.approximate or check.pipeline:
            imports.append("from triton_dsl.lowering.stages import Stage, run_stages")
        if check.approximate:
            imports.append("from triton_dsl.dialects.interpret import run_module")
            argument = "tmp_path: Path"
            imports.append("from pathlib import Path")
            lines.append(f"    samples = dict(zip({case.names()}, inputs, strict=True))")
            lines.append("    np.savez(tmp_path / 'samples.npz', **samples)")
            lines.append(f"    passes = {check.approximate!r}")
            lines.append(f"    passes = passes.replace({SAMPLES!r}, str(tmp_path / 'samples.npz'))")
            lines.append("    run_stages(module, [Stage('approximate', passes)])")
            lines.append("    expected = run_module(module, inputs)")
        if check.pipeline:
            lines.append(f"    run_stages(module, [Stage('fuzz', {check.pipeline!r})])")
        if check.engine == INTERPRETER:
            imports.append("from triton_dsl.dialects.interpret import run_module")
            lines.append("    actual = run_module(module, inputs)")
        else:
            imports.append("from triton_dsl.lowering.engine import run_target")
            lines.append(f"    _, actual, _ = run_target(module, {check.engine!r}, inputs)")
        lines += _comparison(expected, bool(check.approximate))
    body = "\n".join(lines)
    heads = ["import numpy as np", *(["import ml_dtypes"] if "ml_dtypes" in body else [])]
    heads += sorted({line for line in imports if line not in heads})
    message = "\n".join(finding.message.split("\n")[:6])
    return (
        f'"""{case.KIND}, seed {case.seed}: {finding.check}: {finding.kind}.\n\n'
        f'{message}\n"""\n\n' + "\n".join(heads) + "\n\n\n"
        f"def test_{case.KIND}_{case.seed}({argument}) -> None:\n{body}\n"
    ).replace("\\", "\\\\" if "\\" in message else "\\")


def _comparison(expected: Expected | None, approximate: bool) -> list[str]:
    if approximate:
        return [
            "    for want, got in zip(expected, actual, strict=True):",
            "        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)",
        ]
    lines: list[str] = []
    pairs = zip(expected.values, expected.bounds, strict=True) if expected else ()
    for index, (value, bound) in enumerate(pairs):
        wanted = array_source(value)
        if value.dtype.kind in "iub":
            lines.append(f"    np.testing.assert_array_equal(actual[{index}], {wanted})")
        else:
            atol = float(bound[np.isfinite(bound)].max(initial=0.0))
            lines.append(
                f"    np.testing.assert_allclose(actual[{index}], {wanted}, "
                f"rtol=0, atol={atol:.3g})"
            )
    return lines
