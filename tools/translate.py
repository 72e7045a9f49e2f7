"""`triton-translate`: from a source to IR (`--import`), and from IR to a target (`-t`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ir.errors import OptionError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Errors are one message, never a traceback."""
    from .console import guarded

    arguments = _parser().parse_args(argv)
    return guarded("triton-translate", lambda: _run(arguments))


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
    parser.add_argument("--version", action=_PrintVersion, help="print the version and exit")
    parser.add_argument(
        "input", nargs="?", type=Path, default=Path("-"),
        help=".tri, .nir, .onnx, .tflite or .mlir; '-' (the default) reads IR from stdin",
    )  # fmt: skip
    parser.add_argument("--list-targets", action="store_true", help="list targets and their stages")
    parser.add_argument(
        "--import", dest="to_ir", action="store_true", help="stop at IR and print it"
    )
    parser.add_argument(
        "-t", "--target", metavar="TARGET", help="target, with options: 'onnx{opset=17}'"
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH",
        help="where to write; a text artefact of one file goes to stdout without it",
    )  # fmt: skip
    parser.add_argument(
        "--dump-stages", type=Path, metavar="DIR", help="write the IR after each stage there"
    )
    parser.add_argument("-w", "--weights", type=Path, metavar="FILE", help="weights to fill in")
    parser.add_argument("--layer", metavar="NAME", help="entry layer of a .tri program")
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


def _run(arguments: argparse.Namespace) -> int:
    if arguments.list_targets:
        _list_targets(arguments.json)
        return 0
    if arguments.to_ir == bool(arguments.target):
        raise OptionError("give either --import or -t TARGET (see --list-targets)")
    from ..lowering.models import import_model
    from .inputs import apply_passes

    module = import_model(
        arguments.input,
        weights=arguments.weights,
        layer=arguments.layer,
        trainable=arguments.trainable,
    )
    if arguments.passes:
        apply_passes(module, arguments.passes)
    if arguments.to_ir:
        _write_ir(module, arguments.output, arguments.print_debuginfo)
        return 0
    from ..lowering.artifact import write_artifact
    from ..lowering.targets import compile_to_target
    from .clock_goal import warn_missed_clock
    from .folding import show_folding
    from .left_out import warn_left_out

    artifact = compile_to_target(
        module,
        arguments.target,
        {"self_check": False} if arguments.no_self_check else None,
        output=Path(arguments.output) if arguments.output else None,
        dump_stages=arguments.dump_stages,
    )
    show_folding(artifact)
    warn_left_out(artifact, "triton-translate")
    warn_missed_clock(artifact, "triton-translate")
    if arguments.output:
        write_artifact(artifact, arguments.output, sources=[arguments.input, arguments.weights])
        return 0
    main_file = artifact.main_file
    if main_file is None or len(artifact.files) > 1:
        raise OptionError("this artefact has several files: give -o PATH")
    content = artifact.files[main_file]
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        if sys.stdout.isatty():
            raise OptionError("this artefact is binary: give -o PATH") from None
        sys.stdout.buffer.write(content)
        return 0
    sys.stdout.write(text)
    return 0


def _write_ir(module: ModuleOp, output: str | None, debuginfo: bool) -> None:
    from ..ir.printing import PrintOptions, module_text
    from ..lowering.module_file import save_module, unsaved_entries

    options = PrintOptions(locations=debuginfo)
    if output:
        save_module(module, Path(output), lambda m: module_text(m, options))
        return
    sys.stdout.write(module_text(module, options))
    if count := len(unsaved_entries(module)):
        print(
            f"triton-translate: warning: the values of {count} parameter(s) are in memory alone; "
            "write to a file with -o to keep them",
            file=sys.stderr,
        )


def _list_targets(as_json: bool) -> None:
    from dataclasses import asdict

    from ..lowering.options import option_infos
    from ..lowering.targets import get_all_targets
    from .console import print_json, show, table

    listed: list[dict[str, Any]] = []
    for name, factory in sorted(get_all_targets().items()):
        target = factory()
        listed.append(
            {
                "target": name,
                "description": target.description,
                "options": [asdict(option) for option in option_infos(target.Options)],
                "stages": [asdict(stage) for stage in target.stages(target.Options())],
            }
        )
    if as_json:
        print_json(listed)
        return
    for one in listed:
        options = [(o["name"], o["type"], _shown(o["default"]), o["help"]) for o in one["options"]]
        stages = [(s["name"], s["pipeline"]) for s in one["stages"]]
        show(f"{one['target']}: {one['description']}")
        if options:
            show(table("options", ["name", "value", "default", "meaning"], options))
        show(table("stages", ["name", "passes"], stages))


def _shown(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default or "none")


if __name__ == "__main__":
    sys.exit(main())
