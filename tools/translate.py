"""`triton-translate`: from a source to IR (`--import`), and from IR to a target (`-t`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name

from .console import complete, guarded, output_file, take_once


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Errors are one message, never a traceback."""
    parser = _parser()
    complete(parser)
    arguments = parser.parse_args(argv)
    run = f"{__package__}.translation:run"  # not loaded for --help
    return guarded("triton-translate", lambda: resolve_name(run)(arguments))


class _PrintVersion(argparse.Action):
    """Looks the version up when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"triton-translate of triton-dsl {version('triton-dsl')}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="triton-translate",
        description="Translate programs to IR, and IR to targets.",
        epilog="Example: triton-translate model.tri -t 'onnx{opset=17}' -w model.safetensors "
        "-o model.onnx",
    )
    take_once(parser)
    parser.add_argument("--version", action=_PrintVersion, help="print the version and exit")
    parser.add_argument(
        "input", nargs="?", type=Path, default=Path("-"),
        help=".tri, .nir, .net, .onnx, .tflite, .pt2 or .mlir; '-' (the default) is IR from stdin",
    )  # fmt: skip
    parser.add_argument("--list-targets", action="store_true", help="list targets and their stages")
    parser.add_argument(
        "--import", dest="to_ir", action="store_true", help="stop at IR and print it"
    )
    parser.add_argument(
        "-t", "--target", metavar="TARGET", help="target, with options: 'onnx{opset=17}'"
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH", type=output_file,
        help="where to write; a text artefact of one file goes to stdout without it",
    )  # fmt: skip
    parser.add_argument(
        "--dump-stages", type=Path, metavar="DIR", help="write the IR after each stage there"
    )
    parser.add_argument("-w", "--weights", type=Path, metavar="FILE", help="weights to fill in")
    parser.add_argument("--layer", metavar="NAME", help="entry layer of a .tri program")
    parser.add_argument("--dt", type=float, metavar="SECONDS", help="step of a .nir graph")
    parser.add_argument(
        "--rounding", metavar="NAME", help="whose integers of a .tflite file: reference, xnnpack"
    )
    parser.add_argument(
        "-p", "--passes", default="", metavar="PIPELINE", help="passes to run first: 'free-batch'"
    )
    parser.add_argument(
        "--trainable", action="store_true", help="keep float latents of ternary weights"
    )
    parser.add_argument(
        "--no-self-check",
        action="store_true",
        help="do not compare the file in its engine before it is written",
    )
    parser.add_argument(
        "--print-debuginfo", action="store_true", help="print locations with the IR"
    )
    parser.add_argument("--json", action="store_true", help="with --list-targets: print JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
