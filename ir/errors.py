"""The exception tree: every failure a user can cause ends in one of these.

    TritonError
    ├── SourceError        text the user wrote: `.tri` source or textual IR
    │   └── CompilationError   a `.tri` program with at least one error diagnostic
    ├── VerifyError        well-formed text, ill-formed IR
    ├── IntegrityError     a file that is not what was written, or not by whom it should be
    ├── ParameterError     a weights file: missing, wrong hash, key, shape, dtype or value
    ├── PassError          a pass cannot do what was asked of it
    ├── LoweringError      a program a target cannot express
    │   └── UnsupportedError   names every unsupported op at once
    ├── BackendError       an engine or library that is missing or refuses
    └── OptionError        a wrong option or argument value
        └── InputError         a file or an array that was given, and what stands in it

A message says what is wrong, where, and what to do. Command lines print `str(error)`; no traceback
reaches a user. They exit with 2 where they are used wrongly, which other words on the same line
would mend: an unknown option, a value that no option takes, an argument that is missing. All else
that goes wrong, with what files hold, with places that cannot be written and with this machine, is
1. `exit_code` of a class is where that is held.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence


class TritonError(Exception):
    """Base of every error raised on purpose by this package."""

    exit_code: int = 1


def first_line(error: BaseException) -> str:
    """What another library's exception says, without its details; its name if it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class SourceError(TritonError):
    """Text that cannot be read as a program."""


class CompilationError(SourceError):
    """A `.tri` program that does not compile.

    Attributes:
        line: 1-based line of the first error, or `None` when it has no place.
        column: 1-based column of the first error, or `None`.
        suggestion: what to write instead (`"did you mean 'weights'?"`), or `None`.
        diagnostics: every `Diagnostic` of the run, errors and warnings.
    """

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        suggestion: str | None = None,
        diagnostics: Sequence[object] = (),
    ) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.suggestion = suggestion
        self.diagnostics = tuple(diagnostics)


class VerifyError(TritonError):
    """IR that parses but breaks an invariant."""


class IntegrityError(TritonError):
    """A file or package that was damaged or changed, or whose signature or key does not fit."""


class ParameterError(TritonError):
    """A weights file that does not fit the program."""


class PassError(TritonError):
    """A pass that cannot be applied as asked."""


class LoweringError(TritonError):
    """A program that a frontend or a target cannot express."""


class UnsupportedError(LoweringError):
    """Ops a target cannot express, all of them.

    Attributes:
        target: name of the target or frontend.
        problems: one `(op name, location, reason)` for each unsupported op.
        reproduce: the command that shows the same error, or an empty string.
        hint: what makes such a program one that the target can express, or an empty string.
    """

    def __init__(
        self,
        target: str,
        problems: Sequence[tuple[str, str, str]],
        *,
        reproduce: str = "",
        hint: str = "",
    ) -> None:
        self.target = target
        self.problems = tuple(problems)
        self.reproduce = reproduce
        self.hint = hint
        lines = [f"target '{target}' cannot express {len(self.problems)} operation(s):"]
        lines += [f"  {name} at {location}: {reason}" for name, location, reason in self.problems]
        if hint:
            lines.append(f"hint: {hint}")
        if reproduce:
            lines.append(f"reproduce with: {reproduce}")
        super().__init__("\n".join(lines))


class BackendError(TritonError, RuntimeError):
    """An engine, device or library that is missing or refuses."""


class OptionError(TritonError, ValueError):
    """A command-line option or argument with a wrong value."""

    exit_code = 2


class InputError(OptionError):
    """A file or an array that was given and cannot be used: missing, broken, of wrong content."""

    exit_code = 1


def refuse(wrong: object, reason: str, kind: type[TritonError] = OptionError) -> None:
    """Raise an error of a kind for that reason where something is wrong."""
    if wrong:
        raise kind(reason)


def check_choice(what: str, value: object, allowed: Collection[str]) -> None:
    """Refuse a value that is none of those allowed.

    Raises:
        OptionError: it is not.
    """
    if value not in allowed:
        raise OptionError(f"{what}: expected one of {', '.join(allowed)}, got {value!r}")


def expect_one_of(what: str, value: object, allowed: Collection[str]) -> None:
    """Refuse an option that is none of some words; `what` begins the message and names it.

    Raises:
        OptionError: it is not.
    """
    refuse(value not in allowed, f"{what} one of {', '.join(allowed)}, got '{value}'")


def expect_from(what: str, value: float | None, low: float, high: float | None = None) -> None:
    """Refuse an option out of range, if it is given; `what` begins the message and names it.

    Raises:
        OptionError: it is.
    """
    if value is not None and not low <= value <= (value if high is None else high):
        bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise OptionError(f"{what} {bounds}, got {value}")


def check_fields(given: Iterable[object], known: Collection[str]) -> None:
    """Refuse names of fields that are not known.

    Raises:
        OptionError: some are not.
    """
    unknown = ", ".join(sorted(str(name) for name in given if name not in known))
    refuse(unknown, f"unknown field(s) {unknown}; expected some of {', '.join(known)}")


def did_you_mean(name: str, candidates: Mapping[str, object] | Sequence[str]) -> str:
    """`; did you mean 'x'?` for the nearest of `candidates`, or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(name.replace("_", "-"), list(candidates), 1, 0.6)
    return f"; did you mean '{close[0]}'?" if close else ""
