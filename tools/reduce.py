"""`triton-reduce`: the least program, and the fewest passes, that still fail as a given one does.

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
from typing import TYPE_CHECKING

from .console import complete, guarded, output_file, take_once

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from .reduction import Runnable

TOOL = "triton-reduce"
_VARIES = re.compile(r"[!#]?[\w.]+<[^>]*>|%[\w.]+|'[\w.$-]+\.[\w.$-]+'|\S*:\d+:\d+|[-+]?\d[\w.+-]*")
"""What a smaller program says otherwise: types, names of values and ops, places and numbers."""


@dataclass(frozen=True)
class Case:
    """Passes and the program that they fail on."""

    passes: tuple[ModulePass, ...]
    program: Runnable


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Errors are one message, never a traceback."""
    parser = _parser()
    complete(parser)
    arguments = parser.parse_args(argv)
    return guarded(TOOL, lambda: _run(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=TOOL,
        description="Make a program that fails smaller while it fails in the same way.",
        epilog="Example: triton-reduce model.mlir -p fuse-linear,my-pass --verify-semantics "
        "-o small.mlir",
    )
    take_once(parser)
    parser.add_argument("input_file", metavar="FILE", help="IR, or a program of any front end")
    parser.add_argument("-p", "--passes", default="", metavar="PIPELINE", help="passes that fail")
    parser.add_argument("-w", "--weights", metavar="FILE", help="weights of the program")
    parser.add_argument(
        "-o", "--output-file", metavar="FILE", type=output_file, help="where to write what is left"
    )
    parser.add_argument(
        "--verify-semantics", action="store_true",
        help="a pass fails too that changes what the program computes on random inputs",
    )  # fmt: skip
    parser.add_argument(
        "--test", metavar="COMMAND", help="fails where 'COMMAND FILE' exits with a code but 0"
    )
    parser.add_argument(
        "--bisect", action="store_true",
        help="name the first of the passes after which the command fails, and reduce nothing",
    )  # fmt: skip
    parser.add_argument(
        "--load", action="append", default=[], metavar="FILE.py",
        help="run this file of Python and take the passes that it defines",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of weights and inputs (default: 0)")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="when to stop searching (default: 60)"
    )
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from ..ir.errors import InputError, OptionError
    from ..ir.pipeline import parse_pipeline, pipeline_text
    from ..ir.printing import module_text
    from ..lowering.models import import_model
    from ..lowering.module_file import save_module
    from ..passes.universe import everything
    from ..runtime.random_values import fill_parameters
    from .draws import random_arrays
    from .opt_loading import passes_of
    from .reduction import Runnable

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
    print(f"{TOOL}: {_ops(module)} ops became {count}, {len(passes)} passes {len(left.passes)}",
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
    print(f"{TOOL}: fails again: {again}", file=sys.stderr)
    return 0


def reduced(whole: Case, fails: Callable[[Case], bool], seconds: float) -> Case:
    """The least case that fails: fewer passes first, then a smaller program."""
    from .reduction import smaller_modules, smallest

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
    from ..dialects.registry import triton_context, verify_module
    from ..ir.errors import TritonError
    from ..ir.instrument import Instrument, VerifyEach, run_passes
    from ..runtime.equivalence import SemanticsCheck

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
    from ..lowering.module_file import save_module

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.mlir"
        save_module(module, path)
        ran = subprocess.run(
            [*shlex.split(test), str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    return ran.returncode != 0


def _bisect(module: ModuleOp, passes: Sequence[ModulePass], test: str) -> int:
    """Name the first pass after which the command fails; it must not before all of them."""
    from ..dialects.registry import triton_context
    from ..ir.errors import InputError, TritonError
    from ..ir.instrument import run_passes
    from .bisection import first_wrong

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


if __name__ == "__main__":
    sys.exit(main())
