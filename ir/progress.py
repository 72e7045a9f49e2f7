"""Bars on stderr for work that goes over many things; silent when stderr is not a terminal.

A command line opens a `display`, and whatever it calls adds what it goes over with `tracked`. Work
that somebody starts from Python opens a display of its own, where it takes long.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
_open: list[Progress] = []
"""The display, while there is one; rich before its version 14 knows one at a time."""


@contextmanager
def display(*, hidden: bool = False) -> Generator[Progress]:
    """A display of bars: how many are done of how many, and how long that took.

    Within another one it is the same display.

    Args:
        hidden: whether to show nothing; so it is too where stderr is no terminal.
    """
    if _open:
        yield _open[0]
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    hidden = hidden or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bars:
        _open.append(bars)
        try:
            yield bars
        finally:
            _open.clear()


def tracked(
    things: Iterable[T],
    what: str,
    *,
    shown: bool = True,
    name: Callable[[T], str] | None = None,
) -> Iterator[T]:
    """`things`, one by one, with a bar that says how many are done and how long that took.

    Args:
        things: what is gone over; with a length, the bar says how much is left.
        what: what is done, in a few words.
        shown: whether to open a display where there is none.
        name: says of one of them what it is, for the bar to tell while it is the one.
    """
    if not _open and not shown:
        yield from things
        return
    with display() as bars:
        task = bars.add_task(what, total=_length(things))
        try:
            for thing in things:
                if name is not None:
                    bars.update(task, description=f"{what} {name(thing)}")
                yield thing
                bars.advance(task)
        finally:
            bars.remove_task(task)


def threads() -> int:
    """How many threads draw the display."""
    return int(bool(_open) and not _open[0].disable)


@contextmanager
def doing(what: str) -> Generator[None]:
    """Tell of one thing that takes long, where a display is open."""
    for _ in tracked((None,), what, shown=False):
        yield


def _length(things: Iterable[object]) -> int | None:
    """How many there are, where that is known: a loader over a stream has no length."""
    try:
        return len(things)  # pyright: ignore[reportArgumentType]
    except TypeError:
        return None
