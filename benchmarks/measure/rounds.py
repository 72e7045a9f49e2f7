"""Engines that take turns on one problem, and what is told of it.

A figure is the median over the rounds. A ratio is left out where a median lies over 1.3 times the
fastest round of its engine: the machine was busy with something else.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter, process_time, sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

UNSTEADY = 1.3
EVICTION = 256 << 20
ROUND_SECONDS = 0.002
AWAKE_SECONDS = 0.02
"""How long threads of an engine may look for more work, and keep a processor from the next one."""
MOST_ERROR = 0.05

Run = Callable[[], Any]


@dataclass
class Contender:
    """One engine on one problem, with the seconds that a call took in each round.

    `twin` is the same engine with other weights: run before a cold call, so that only the weights
    have to come from memory. Seconds are of processor time where an engine has one thread, which
    other programs lengthen less, else those of the wall.
    """

    name: str
    run: Run
    twin: Run
    error: float = 0.0
    seconds: list[float] = field(default_factory=list[float])
    threads: int = 1

    def timed(self, calls: int) -> float:
        """Seconds of so many calls."""
        clock = process_time if self.threads == 1 else perf_counter
        start = clock()
        for _ in range(calls):
            self.run()
        return clock() - start

    @property
    def median(self) -> float:
        """Seconds of a call."""
        return statistics.median(self.seconds)

    @property
    def steady(self) -> bool:
        """Whether the rounds agree well enough for a ratio."""
        return self.median <= UNSTEADY * min(self.seconds)


@dataclass(frozen=True)
class Figure:
    """One engine on one problem: microseconds, and its time as a multiple of ours."""

    problem: str
    state: str
    threads: int
    engine: str
    median: float
    fastest: float
    ratio: float | None
    error: float


def contenders(
    runs: Mapping[str, Run],
    twins: Mapping[str, Run],
    expected: NDArray[Any] | None,
    threads: int = 1,
) -> list[Contender]:
    """The engines, each checked against `expected` once; stops the program if one is wrong."""
    found: list[Contender] = []
    for name, run in runs.items():
        error = 0.0
        result = run()
        if expected is not None and expected.size:
            error = float(np.abs(result - expected).max() / np.abs(expected).max())
        if error > MOST_ERROR:
            sys.exit(f"benchmark: error: {name} is wrong by {error:.0%} of the largest value")
        found.append(Contender(name, run, twins.get(name, run), error, threads=threads))
    return found


def take_turns(found: Sequence[Contender], rounds: int, *, cold: bool = False) -> None:
    """Let the engines take turns, `rounds` times."""
    other = np.ones(EVICTION // 8, np.int64) if cold else None
    calls: dict[str, int] = {}
    for contender in found:
        contender.run()
        once = contender.timed(1)
        calls[contender.name] = 1 if cold else max(1, int(ROUND_SECONDS / once))
    for _ in range(rounds):
        for contender in found:
            if contender.threads > 1:
                sleep(AWAKE_SECONDS)
            if other is None:
                # Another engine's turn may have put these weights out of the cache.
                contender.run()
            else:
                other.max()
                contender.twin()
            count = calls[contender.name]
            contender.seconds.append(contender.timed(count) / count)


def figures(
    problem: str,
    found: Sequence[Contender],
    *,
    state: str = "hot",
    threads: int = 1,
) -> list[Figure]:
    """A line for each engine; the first one is ours."""
    ours = found[0]
    result: list[Figure] = []
    for one in found:
        told = ours.steady and one.steady and one is not ours
        result.append(
            Figure(
                problem,
                state,
                threads,
                one.name,
                one.median * 1e6,
                min(one.seconds) * 1e6,
                one.median / ours.median if told else None,
                one.error,
            )
        )
    return result


def show(title: str, lines: Iterable[Figure]) -> None:
    """A table of figures on stdout."""
    table = Table(title=title, title_justify="left")
    for column in ("problem", "state", "threads", "engine"):
        table.add_column(column)
    for column in ("median, µs", "fastest, µs", "× ours", "error"):
        table.add_column(column, justify="right")
    previous = ""
    for line in lines:
        if previous and line.problem + line.state != previous:
            table.add_section()
        previous = line.problem + line.state
        table.add_row(
            line.problem,
            line.state,
            str(line.threads),
            line.engine,
            f"{line.median:.1f}",
            f"{line.fastest:.1f}",
            "-" if line.ratio is None else f"{line.ratio:.2f}",
            f"{line.error:.1e}" if line.error else "0",
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def plot(path: str, lines: Sequence[Figure]) -> None:
    """A picture of the ratios: one group of bars a problem."""
    import matplotlib as mpl  # pyright: ignore[reportMissingImports]

    mpl.use("Agg")
    from matplotlib import pyplot  # pyright: ignore[reportMissingImports]

    told = [line for line in lines if line.ratio is not None]
    problems = list(dict.fromkeys(f"{line.problem} {line.state}" for line in told))
    engines = list(dict.fromkeys(line.engine for line in told))
    pyplot.rcParams["svg.hashsalt"] = "benchmark"
    figure, axes = pyplot.subplots(figsize=(max(6.0, 0.45 * len(problems) * len(engines) / 3), 4.5))
    width = 0.8 / max(1, len(engines))
    for index, engine in enumerate(engines):
        values = {
            f"{line.problem} {line.state}": line.ratio
            for line in told
            if line.engine == engine and line.ratio is not None
        }
        places = [i + index * width for i, name in enumerate(problems) if name in values]
        axes.bar(places, [values[name] for name in problems if name in values], width, label=engine)
    axes.axhline(1.0, color="black", linewidth=1)
    axes.set_yscale("log")
    axes.set_ylabel("time as a multiple of ours")
    axes.set_xticks([i + 0.4 for i in range(len(problems))], problems, rotation=60, ha="right")
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)
    pyplot.close(figure)
