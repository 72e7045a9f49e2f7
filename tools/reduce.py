"""`triton-reduce`: the least program, and the fewest passes, that still fail as a given one does.

Not here: what it does (`reducing`), which takes as long to load as all passes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .console import complete, guarded, output_file, take_once

TOOL = "triton-reduce"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Errors are one message, never a traceback."""
    parser = _parser()
    complete(parser)
    arguments = parser.parse_args(argv)
    return guarded(TOOL, lambda: _run(arguments))


def _run(arguments: argparse.Namespace) -> int:
    from .reducing import run

    return run(arguments, TOOL)


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


if __name__ == "__main__":
    sys.exit(main())
