"""How command lines speak: tables on stdout, everything else on stderr, JSON on request."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from io import TextIOWrapper
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from ..ir.collection import rare_collection
from ..ir.errors import TritonError
from ..ir.progress import display

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from rich.progress import Progress
    from rich.table import Table

_quiet = False


def speak(*, quiet: bool, verbose: bool) -> None:
    """How much is said on stderr besides errors and results, in this process.

    Quietly neither notes, warnings nor progress; verbosely what the package logs: each stage with
    its seconds.
    """
    global _quiet
    _quiet = quiet
    if verbose:
        import logging

        logger = logging.getLogger("triton_dsl")
        logger.setLevel(logging.INFO)
        if not logger.handlers:
            handler = logging.StreamHandler()
            handler.setLevel(logging.INFO)
            handler.setFormatter(logging.Formatter("%(relativeCreated)7.0f ms  %(message)s"))
            logger.addHandler(handler)


def print_json(value: Any) -> None:
    """One JSON document on stdout; keys sorted, numbers that JSON lacks as `null`."""
    json.dump(_finite(value), sys.stdout, indent=2, sort_keys=True, ensure_ascii=False)
    sys.stdout.write("\n")


def print_error(wrong: BaseException, message: str, code: int) -> None:
    """What a command that fails prints in place of the JSON that was asked for."""
    kind = type(wrong).__name__
    print_json({"error": {"kind": kind, "message": message, "exit_code": code}})


def _finite(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}  # pyright: ignore
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]  # pyright: ignore
    return value


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table whose columns after the first are right-aligned when they hold numbers."""
    from rich.table import Table
    from rich.text import Text

    cells = [[_cell(value) for value in row] for row in rows]
    grid = Table(title=Text(visible(title)), title_justify="left")
    for index, column in enumerate(columns):
        numeric = index > 0 and all(_is_number(row[index]) for row in cells)
        grid.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        grid.add_row(*(Text(cell) for cell in row))
    return grid


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}"
    return "-" if value is None else visible(str(value))


def visible(text: str) -> str:
    """A text of a file from whoever, without what a terminal would obey: escapes, directions.

    Names of files in a locale of ASCII hold bytes of UTF-8 as lone surrogates.
    """
    with suppress(UnicodeEncodeError):
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    return "".join(c if c.isprintable() or c in "\n\t\xa0" else repr(c)[1:-1] for c in text)


def _is_number(cell: str) -> bool:
    return not cell or cell[0].isdigit() or cell[0] in "-+" or cell in ("nan", "inf")


def show(*renderables: Any, to_stderr: bool = False) -> None:
    """Print tables and text, on stdout by default; wide tables keep their columns when piped."""
    from rich.console import Console
    from rich.table import Table

    stream = sys.stderr if to_stderr else sys.stdout
    width = None if stream.isatty() else 160
    console = Console(stderr=to_stderr, soft_wrap=False, width=width)
    for renderable in renderables:
        if isinstance(renderable, Table) and renderable.title:
            # Above the table and not of it, which would break it at the table's width.
            console.print(renderable.title, style="table.title")
            renderable.title = None
        console.print(renderable)


def progress() -> AbstractContextManager[Progress]:
    """A display of bars on stderr, silent when stderr is not a terminal or nothing shall be said.

    What is called while it is open adds to it how far it is: see `ir.progress`.
    """
    return display(hidden=_quiet)


def complete(parser: ArgumentParser) -> None:
    """Answer a shell that asks what may follow, and end; nothing where none asks."""
    if "_ARGCOMPLETE" in os.environ:
        resolve_name(f"{__package__}.completion:answer")(parser)


def take_once(parser: ArgumentParser) -> None:
    """Refuse options that take one value and are given twice: the last would win unsaid."""
    from argparse import Action, ArgumentError

    class Once(Action):
        def __call__(self, parser: object, namespace: object, values: object, *_: object) -> None:
            if self.option_strings and getattr(namespace, self.dest) != self.default:
                raise ArgumentError(self, "given more than once, and takes one value")
            setattr(namespace, self.dest, values)

    parser.register("action", None, Once)


def output_file(text: str) -> str | None:
    """An argument that names an output; `-` stands for standard output, as no argument does."""
    return None if text == "-" else text


def error(tool: str, message: str) -> None:
    """One error on stderr, with the tool's name unless the message names a source place."""
    first = message.split("\n", 1)[0]
    located = ": error: " in first or ": warning: " in first
    placeless = first.startswith(("error: ", "warning: "))
    prefix = "" if located else f"{tool}: " if placeless else f"{tool}: error: "
    diagnose(prefix + message)


def diagnose(message: str) -> None:
    """Messages of the compiler on stderr, in colours where it is a terminal that wants them."""
    message = visible(message)
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        from rich.console import Console
        from rich.text import Text

        text = Text(message)
        for pattern, style in _STYLES:
            text.highlight_regex(pattern, style)
        Console(stderr=True, highlight=False, soft_wrap=True).print(text)
    else:
        print(message, file=sys.stderr)


_STYLES = (
    (r"(?m)^(?:.*?: )?error: .*$", "bold"),
    (r"(?m)(?<=: )error:|^error:", "bold red"),
    (r"(?m)(?<=: )warning:|^warning:", "bold yellow"),
    (r"(?m)^help:", "bold cyan"),
    (r"(?m)(?<=: )note:|^note:", "bold blue"),
    (r"(?m)^ *\d* \|", "blue"),
    (r"(?m)(?<=\| )[ \t]*\^+$", "bold red"),
    (r"\[[EW]\d{4}\](?m:$)", "dim"),
)


def note(tool: str, message: str) -> None:
    """One remark on stderr: something to know that is no error."""
    if not _quiet:
        diagnose(f"{tool}: note: {message}")


def warn(tool: str, message: str) -> None:
    """One warning on stderr."""
    if not _quiet:
        diagnose(f"{tool}: warning: {message}")


def warn_unsaved(tool: str, count: int) -> None:
    """One warning on stderr where the values of so many parameters end with the process."""
    if count:
        warn(
            tool,
            f"the values of {count} parameter(s) are in memory alone; "
            "write to a file with -o to keep them",
        )


def open_streams() -> None:
    """Make the standard streams fit for any text.

    An empty file takes the place of each one that the caller closed (`>&-`). Output into a file or
    a pipe is UTF-8, as every file that is written; a terminal shows escapes for what its locale
    lacks. Names of files that are no UTF-8 pass through byte for byte.
    """
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="backslashreplace")
        else:
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")


@rare_collection()
def guarded(
    tool: str, run: Callable[[], int], *, debug: bool = False, as_json: bool = False
) -> int:
    """The exit code of `run`, or of the one message for what it raised; never a traceback.

    With `as_json` the message is a JSON document on standard output too, in place of the result.

    With `debug`, or the variable TRITON_DEBUG set, a traceback stands before the message.
    """
    try:
        open_streams()
        code = run()
        sys.stdout.flush()
        return code
    except SystemExit:
        raise
    except KeyboardInterrupt:
        error(tool, "interrupted")
        return 130
    except BrokenPipeError:
        return _quiet_broken_pipe()
    except BaseException as wrong:  # xDSL's ArgSpecParseError is no Exception
        if debug or os.environ.get("TRITON_DEBUG"):
            import traceback

            traceback.print_exc()
        code, message = _explained(wrong)
        error(tool, message)
        if as_json:
            try:
                print_error(wrong, message, code)
                sys.stdout.flush()
            except OSError:  # what is wrong with standard output was said
                _quiet_broken_pipe()
        return code


def _explained(wrong: BaseException) -> tuple[int, str]:
    """Exit code and message of an error."""
    from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException

    text = " ".join(str(wrong).split())
    match wrong:
        case TritonError():
            return wrong.exit_code, str(wrong)
        case ArgSpecParseError():
            return 2, text
        case DiagnosticException():
            return 1, text
        case OSError():
            reason = wrong.strerror or text
            return 1, f"{wrong.filename}: {reason}" if wrong.filename else reason
        case MemoryError():
            return 1, f"out of memory: {text}".rstrip(": ")
        case RecursionError():
            return 1, "the program nests too deeply"
        case _:
            defect = f"internal error: {type(wrong).__name__}: {text}"
            return 1, f"{defect} (TRITON_DEBUG=1 shows where)"


def _quiet_broken_pipe() -> int:
    """The reader of our output has gone: keep Python from complaining about it at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
