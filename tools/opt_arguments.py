"""The command line of `triton-opt`: xDSL's options, with MLIR's names and ours added."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NoReturn

from ..ir.errors import OptionError, did_you_mean
from ..passes.universe import everything
from .console import complete, output_file, take_once

EPILOG = """\
examples:
  triton-opt model.mlir -p canonicalize,cse,dce -o optimised.mlir
  triton-opt model.tri --pass-pipeline='builtin.module(ternarize{rule=twn},fuse-linear)'
  triton-opt model.mlir -p fuse-linear --verify-semantics --mlir-print-ir-after-change
  triton-opt --describe-pass ternarize

Messages go to standard error. Exit codes: 0 success, 1 failure, 2 wrong usage.
docs/triton-opt.md tells more."""

_SINGLE_DASH = re.compile(r"-[a-z][a-z-]+(=.*)?", re.DOTALL)


def positive(text: str) -> int:
    """An argument that is a whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or int(text[:9]) < 1 or len(text) > 9:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got '{text}'")
    return int(text)


def natural(text: str) -> int:
    """An argument that is a whole number of at least 0."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, got '{text}'")
    return int(text)


def tolerance(text: str) -> float:
    """An argument that is a finite number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, got '{text}'")
    return value


def names(text: str) -> list[str]:
    """An argument that is a list of pass names."""
    return [name for name in re.split(r"[,\s]+", text) if name]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add our options to those of xDSL; where both have one, ours stays."""
    parser.prog = "triton-opt"
    parser.usage = "triton-opt [options] [input_file]"
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    # Groups made from here on may take over options that exist.
    parser.conflict_handler = "resolve"
    parser.allow_abbrev = False

    take_once(parser)

    for group, add_options in _GROUPS.items():
        add_options(parser.add_argument_group(group).add_argument)

    def error(message: str) -> NoReturn:
        unknown = re.fullmatch(r"unrecognized arguments: (-\S+)(.*)", message, re.DOTALL)
        if unknown:
            name = unknown[1].split("=", 1)[0]
            passes = [f"--{name}" for name in everything().all_passes]
            message += did_you_mean(name, [*parser._option_string_actions, *passes])  # pyright: ignore[reportPrivateUsage]
        parser.exit(2, f"triton-opt: error: {message} (--help lists the options)\n")

    parser.error = error
    complete(parser)


# fmt: off
def _add_passes(add: Callable[..., object]) -> None:
    add("-p", "--passes", "--pass-pipeline", dest="passes", default="", metavar="PIPELINE",
        help="passes to run, as 'p1{a=1 b=2,3},p2'; builtin.module(...) and func.func(...) around "
        "passes are accepted; --list-passes names the passes")
    add("-w", "--weights", metavar="FILE",
        help="weights of the program: .safetensors, .npz, .pt or .pth, for passes that read them")
    add("--load", action="append", default=[], metavar="FILE.py",
        help="run this file of Python and take the passes that it defines")
    add("--dump-pass-pipeline", action="store_true", help="print the parsed pipeline on stderr")
    add("--stop-after", metavar="N", help="stop after the Nth pass, or after the pass of that name")
    add("--verify-each", action=argparse.BooleanOptionalAction, default=True,
        help="verify the IR after each pass (default), or after the last one alone")
    add("--mlir-pass-pipeline-crash-reproducer", "--pass-pipeline-crash-reproducer",
        dest="pass_pipeline_crash_reproducer", metavar="FILE",
        help="when a pass fails, write the IR before it and the rest of the pipeline to FILE")
    add("--mlir-pass-pipeline-local-reproducer", dest="local_reproducer", action="store_true",
        help="let that pipeline be the failing pass alone")
    add("--mlir-generate-reproducer", dest="generate_reproducer", metavar="FILE",
        help="write such a file of the whole pipeline, whether it fails or not")
    add("--run-reproducer", action="store_true", help="run the pipeline that a reproducer holds")


def _add_prints(add: Callable[..., object]) -> None:
    for when in ("before", "after"):
        add(f"--mlir-print-ir-{when}", type=names, action="extend", default=[], metavar="PASS,...",
            help=f"print the IR {when} these passes on stderr")
        add(f"--mlir-print-ir-{when}-all", action="store_true",
            help=f"print the IR {when} every pass on stderr")
    add("--mlir-print-ir-after-change", action="store_true",
        help="print the IR after every pass that changed it on stderr")
    add("--mlir-print-ir-after-failure", action="store_true",
        help="print the IR after a pass that failed on stderr")
    add("--mlir-print-ir-tree-dir", metavar="DIR",
        help="print to files of this folder instead, one a module and pass")
    add("--mlir-output-format", choices=("text", "json"), default="text",
        help="how --mlir-timing reports (default: text)")
    add("--mlir-timing", "--time-passes", dest="time_passes", action="store_true",
        help="print the seconds that each step took on stderr")
    add("--mlir-pass-statistics", action="store_true",
        help="print how each pass changed the number of ops on stderr")


def _add_checks(add: Callable[..., object]) -> None:
    add("--verify-semantics", type=positive, metavar="N",
        help="run the module on N random inputs (3 without a number) before and after each pass, "
        "and stop at the first pass that changes a result")
    add("--semantics-seed", type=natural, default=0, metavar="SEED",
        help="seed of those inputs and of parameters without values (default: 0)")
    add("--semantics-tolerance", type=tolerance, default=1e-4, metavar="REL",
        help="largest difference of floats, relative to the largest result (default: 1e-4)")
    add("--approximate-tolerance", type=tolerance, metavar="REL",
        help="the same for passes that change results on purpose (default: any change)")
    add("--verify-diagnostics", action="store_true",
        help="check the messages against '// expected-error@+1 {{text}}' comments")
    add("--verify-roundtrip", action="store_true",
        help="check that the IR printed and read again is the same")


def _add_printing(add: Callable[..., object]) -> None:
    add("-o", "--output-file", metavar="FILE",
        type=output_file,
        help="where to write, on success alone; new parameters go to a .safetensors file beside it")
    add("--mlir-print-op-generic", dest="print_op_generic", action="store_true",
        help="as --print-op-generic")
    add("--mlir-print-debuginfo", dest="print_debuginfo", action="store_true",
        help="as --print-debuginfo")
    add("--mlir-print-local-scope", action="store_true",
        help="for mlir-opt's scripts: attributes, types and locations stand inline here always")
    add("--upstream-names", action="store_true",
        help="print the generic form with names that mlir-opt --allow-unregistered-dialect, IREE "
        "and viewers read; triton-opt reads it back")
    add("--mlir-elide-elementsattrs-if-larger", type=natural, metavar="N",
        help="print dense constants of more than N elements as dense_resource<__elided__>")
    add("-t", "--target", default="mlir",
        help="xDSL target that prints the output (default: mlir); see also triton-translate")


def _add_information(add: Callable[..., object]) -> None:
    add("--list-passes", action="store_true", help="list the passes")
    add("--show-dialects", action="store_true", help="list the dialects")
    add("--describe-pass", metavar="NAME", help="what a pass does, and its options")
    add("--describe-dialect", metavar="NAME", help="the ops and types of a dialect")
    add("--json", action="store_true", help="print information as JSON")
    add("--debug", action="store_true", help="show the traceback of an error")
# fmt: on


_GROUPS = {
    "passes": _add_passes,
    "what the passes do": _add_prints,
    "checks": _add_checks,
    "printing": _add_printing,
    "information": _add_information,
}
"""What adds the options of each group."""


def normalise(
    arguments: Sequence[str],
    options: Mapping[str, argparse.Action],
    passes: Collection[str],
) -> list[str]:
    """The arguments as argparse takes them.

    As MLIR's tools do, take long options with one dash too (`-pass-pipeline=…`), and passes as
    options (`--cse`, `--ternarize="rule=twn"`), which run in the order given. `--verify-semantics`
    does without its number, and switches take `=true` and `=false`.

    Raises:
        OptionError: passes as options beside a pipeline.
    """
    result: list[str] = []
    as_options: list[str] = []
    rest = list(arguments)
    while rest and rest[0] != "--":
        argument = rest.pop(0)
        name, equals, value = argument.partition("=")
        if _SINGLE_DASH.fullmatch(argument) and "-" + name in options:
            argument, name = "-" + argument, "-" + name
        if name in options and options[name].nargs == 0 and value in ("true", "false"):
            no = f"--no-{name[2:]}"
            if value == "true" or no in options:
                result.append(name if value == "true" else no)
            continue
        if name.startswith("--") and name not in options and name[2:] in passes:
            as_options.append(f"{name[2:]}{{{value}}}" if equals else name[2:])
            continue
        result.append(f"{argument}=3" if argument == "--verify-semantics" else argument)
    if as_options:
        if any(re.match(r"-p|--passes|--pass-pipeline(=|$)", argument) for argument in result):
            raise OptionError(
                f"give passes by -p or as options such as '--{as_options[0]}', not both"
            )
        result.append(f"--passes={','.join(as_options)}")
    return [*result, *rest]
