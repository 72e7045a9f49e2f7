"""`triton`: the command line for people who have a model and want it somewhere.

`triton-opt` looks at IR and `triton-translate` reaches targets; this one checks, formats, compiles,
runs and verifies programs. Each command stands in its own file in `tools.commands`, which loads
when the command runs; their options are in `commands.options`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import update_wrapper
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import typer

from .commands.options import COMMANDS, command_name
from .console import guarded, speak

FILES = ("triton.toml", "pyproject.toml")
"""Where a project keeps defaults of the commands."""

app = typer.Typer(
    name="triton",
    help="Compile ternary neural networks, run them and prove that every target agrees.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _command(options: type) -> Callable[..., None]:
    """What runs a command on its options: its file loads then, and not for the help."""
    name = command_name(options).replace("-", "_")

    def run(**values: object) -> None:
        resolve_name(f"{__package__}.commands.{name}:{name}")(options(**values))

    run.__signature__ = signature(options)
    return update_wrapper(run, options, updated=())


for options in COMMANDS:
    app.command(command_name(options))(_command(options))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(resolve_name(f"{__package__}.installation:versions")())
        raise typer.Exit


@app.callback()
def _root(  # pyright: ignore[reportUnusedFunction]
    version: bool = typer.Option(
        False, "--version", help="Print the version, and those of the engines.",
        callback=_print_version, is_eager=True,
    ),
    verbose: bool = typer.Option(
        False, "--verbose", "-v", help="Log each stage with its time, on standard error."
    ),
    quiet: bool = typer.Option(
        False, "--quiet", "-q", help="No notes, warnings or progress; errors and results alone."
    ),
) -> None:  # fmt: skip
    del version
    speak(quiet=quiet, verbose=verbose)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Errors are one message, never a traceback."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return guarded("triton", lambda: _run(arguments), as_json="--json" in arguments)


def _settings() -> dict[str, dict[str, Any]]:
    """Defaults of the project that the command runs in."""
    folder = Path.cwd()
    if not any((place / name).is_file() for place in (folder, *folder.parents) for name in FILES):
        return {}
    return resolve_name(f"{__package__}.settings:defaults")(folder, COMMANDS)


def _run(arguments: list[str]) -> int:
    try:
        app(arguments, prog_name="triton", default_map=_settings())
    except SystemExit as done:  # how typer ends: help, usage errors, typer.Exit
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
