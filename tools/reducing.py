"""What `triton-reduce` does: what it means to fail, and the least case that fails so.

What fails is a pipeline (`-p`, with `--verify-semantics` also by what it computes), or a command
that is given the file and exits with another code than 0 (`--test`). With both and `--bisect`, the
first pass is named after which the command fails. The search is that of `reduction`; not here.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ..dialects.registry import triton_context, verify_module
from ..ir.errors import InputError, OptionError, TritonError
from ..ir.instrument import Instrument, VerifyEach, run_passes
from ..ir.pipeline import parse_pipeline, pipeline_text
from ..ir.printing import module_text
from ..lowering.models import import_model
from ..lowering.module_file import save_module
from ..passes.universe import everything
from ..runtime.equivalence import SemanticsCheck
from ..runtime.random_values import fill_parameters
from .bisection import first_wrong
from .draws import random_arrays
from .opt_loading import passes_of
from .reduction import Runnable, smaller_modules, smallest

_VARIES = re.compile(r"[!#]?[\w.]+<[^>]*>|%[\w.]+|'[\w.$-]+\.[\w.$-]+'|\S*:\d+:\d+|[-+]?\d[\w.+-]*")
"""What a smaller program says otherwise: types, names of values and ops, places and numbers."""


@dataclass(frozen=True)
class Case:
    """Passes and the program that they fail on."""

    passes: tuple[ModulePass, ...]
    program: Runnable


def run(arguments: argparse.Namespace, tool: str) -> int:
    """Reduce what fails, or name the pass, as the command `tool`; the exit code.

    Raises:
        TritonError: nothing fails, or arguments that do not fit each other.
    """
    if not arguments.passes and arguments.test is None:
        raise OptionError("what fails? give passes by -p, or a command by --test")
    if arguments.bisect and not (arguments.passes and arguments.test):
        raise OptionError("--bisect needs passes by -p and a command by --test")
    available = dict(everything().all_passes)
    for name in arguments.load:
        available.update(passes_of(Path(name), available))
    passes = tuple(parse_pipeline(arguments.passes, available))
    module = import_model(arguments.input_file, weights=arguments.weights)
    module = fill_parameters(module, arguments.seed)
    if arguments.bisect:
        return _bisect(module, passes, arguments.test)
    inputs = tuple(random_arrays(module, 3, arguments.seed))
    whole = Case(passes, Runnable(module, inputs))
    told = _teller(arguments.test, arguments.verify_semantics, arguments.seed)
    failure = told(whole)
    if failure is None:
        raise InputError("nothing fails: there is nothing to reduce")
    left = reduced(whole, lambda case: told(case) == failure, arguments.seconds)
    text = pipeline_text(left.passes, anchor=False)
    count = _ops(left.program.module)
    print(f"{tool}: {_ops(module)} ops became {count}, {len(passes)} passes {len(left.passes)}",
          file=sys.stderr)  # fmt: skip
    if arguments.output_file is None:
        print(module_text(left.program.module), end="")
    else:
        save_module(left.program.module, Path(arguments.output_file))
    file = arguments.output_file or "FILE"
    again = f"{arguments.test} {file}"
    if arguments.test is None:
        semantics = " --verify-semantics" if arguments.verify_semantics else ""
        loads = "".join(f" --load {shlex.quote(path)}" for path in arguments.load)
        again = f"triton-opt {file}{loads} -p {shlex.quote(text)}{semantics}"
    print(f"{tool}: fails again: {again}", file=sys.stderr)
    return 0


def reduced(whole: Case, fails: Callable[[Case], bool], seconds: float) -> Case:
    """The least case that fails: fewer passes first, then a smaller program."""

    def fewer(case: Case) -> Iterator[Case]:
        for index in range(len(case.passes)):
            yield Case((*case.passes[:index], *case.passes[index + 1 :]), case.program)

    def smaller(case: Case) -> Iterator[Case]:
        for program in smaller_modules(case.program):
            yield Case(case.passes, program)

    short = smallest(whole, fewer, fails, seconds=seconds / 2)
    return smallest(short, smaller, fails, tries=100_000, seconds=seconds)


def _teller(test: str | None, semantics: bool, seed: int) -> Callable[[Case], str | None]:
    """How a case fails: a text that is the same for smaller programs with the same failure."""
    if test is not None:
        return lambda case: "fails" if _command_fails(test, case.program.module) else None
    return lambda case: _failure(case, semantics, seed)


def _failure(case: Case, semantics: bool, seed: int) -> str | None:
    instruments: list[Instrument] = [VerifyEach(verify_module)]
    if semantics:
        instruments.insert(0, SemanticsCheck(seed=seed))
    try:
        run_passes(triton_context(), case.program.module.clone(), case.passes, instruments)
    except TritonError as error:
        message = str(error).split("\n", 1)[0]
        changed = re.match(r"pass '\S+' changes the result", message)
        return changed[0] if changed else _VARIES.sub("…", message)
    return None


def _command_fails(test: str, module: ModuleOp) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.mlir"
        save_module(module, path)
        ran = subprocess.run(
            [*shlex.split(test), str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    return ran.returncode != 0


def _bisect(module: ModuleOp, passes: Sequence[ModulePass], test: str) -> int:
    """Name the first pass after which the command fails; it must not before all of them."""

    def fails(count: int) -> bool | None:
        copy = module.clone()
        with suppress(TritonError):  # nobody can tell what a pass that refuses would have made
            run_passes(triton_context(), copy, passes[:count])
            return _command_fails(test, copy)
        return None

    if fails(0):
        raise InputError("the command fails before the first pass: reduce the program instead")
    if not fails(len(passes)):
        raise InputError("the command does not fail after all passes")
    count = first_wrong(len(passes), fails)
    print(f"pass {count} of {len(passes)}: {passes[count - 1].name}")
    return 0


def _ops(module: ModuleOp) -> int:
    """Ops that compute: without functions, what they return, constants and parameters."""
    return sum(bool(op.operands) and op.name != "func.return" for op in module.walk())
