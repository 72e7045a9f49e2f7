"""A bar on stderr for work that goes over many things; silent when stderr is not a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def tracked(things: Iterable[T], what: str, *, shown: bool = True) -> Iterator[T]:
    """`things`, one by one, with a bar that says how many are done and how long that took.

    Args:
        things: what is gone over; with a length, the bar says how much is left.
        what: what is done, in a few words.
        shown: whether to show anything at all.
    """
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
    hidden = not (shown and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(what, total=_length(things))
        for thing in things:
            yield thing
            bar.advance(task)


def _length(things: Iterable[object]) -> int | None:
    """How many there are, where that is known: a loader over a stream has no length."""
    try:
        return len(things)  # pyright: ignore[reportArgumentType]
    except TypeError:
        return None
