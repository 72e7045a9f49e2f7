"""`triton`: the command line for people who have a model and want it somewhere.

`triton-opt` looks at IR and `triton-translate` reaches targets; this one checks, formats, compiles,
runs and verifies programs. Each command stands in its own file in `tools.commands`, which loads
when the command runs; their options are in `commands.options`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper
from inspect import cleandoc, signature
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from .commands.options import COMMANDS, options_of
from .commands.options.common import flag
from .console import guarded, print_error, speak

FILES = ("triton.toml", "pyproject.toml")
"""Where a project keeps defaults of the commands."""


def _application(commands: Iterable[str]) -> typer.Typer:
    application = typer.Typer(
        name="triton",
        help="Compile ternary neural networks, run them and prove that every target agrees.",
        cls=_Root,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    application.callback()(_root)
    for name in commands:
        application.command(name, cls=_Command)(_command(name))
    return application


def _untyped(found: list[Any]) -> list[Any]:
    """Options, of which the help says no type where they take no value."""
    for each in found:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return found


class _Root(TyperGroup):
    """`triton` itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _untyped(super().get_params(ctx))


class _Command(TyperCommand):
    """A command whose options that take one value are given once: the last would win unsaid."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _untyped(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        as_json = "--json" in args
        try:
            if not ctx.resilient_parsing:  # as completion does
                self._refuse_repeated(ctx, list(args))
            return super().parse_args(ctx, args)
        except Exception as wrong:
            message = getattr(wrong, "format_message", None)  # one for people, who see it on stderr
            if as_json and message is not None:
                print_error(wrong, message(), code=2)
            raise

    def _refuse_repeated(self, ctx: Any, args: list[str]) -> None:
        _, _, given = self.make_parser(ctx).parse_args(args)
        for each in given:
            takes_one = isinstance(each, TyperOption) and not each.is_flag and not each.multiple
            if takes_one and given.count(each) > 1:
                ctx.fail(f"{each.opts[0]} is given more than once, and takes one value")


def _command(name: str) -> Callable[..., None]:
    """What runs a command on its options: its file loads then, and not for the help."""
    options, module = options_of(name), name.replace("-", "_")

    def run(**values: object) -> None:
        resolve_name(f"{__package__}.commands.{module}:{module}")(options(**values))

    update_wrapper(run, options, updated=())
    run.__signature__ = signature(options)
    # Lines of a paragraph run on, as the terminal is wide; examples have their own.
    run.__doc__ = re.sub(r"(?<!\n)\n(?!\n|Example)", " ", cleandoc(options.__doc__ or ""))
    return run


def _print_version(wanted: bool) -> None:
    if wanted:
        print(resolve_name(f"{__package__}.installation:versions")())
        raise typer.Exit


def _root(
    version: Annotated[bool, flag("--version", "Print the version, and those of the engines.",
        callback=_print_version, is_eager=True)] = False,
    verbose: Annotated[bool, flag("--verbose", "Log each stage with its time, on standard error.",
        "-v")] = False,
    quiet: Annotated[bool, flag("--quiet",
        "No notes, warnings or progress; errors and results alone.", "-q")] = False,
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
    return resolve_name(f"{__package__}.settings:defaults")(folder)


def _run(arguments: list[str]) -> int:
    # A command alone is made where one is asked for; completion and help need all.
    first = next((argument for argument in arguments if not argument.startswith("-")), "")
    application = _application([first] if first in COMMANDS else COMMANDS)
    try:
        application(arguments, prog_name="triton", default_map=_settings())
    except SystemExit as done:  # how typer ends: help, usage errors, typer.Exit, Ctrl-C
        if isinstance(done.__context__, typer.Exit) and done.code == 130:
            raise KeyboardInterrupt from None
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
