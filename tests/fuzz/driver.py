"""Runs cases in processes of their own, counts what they do, and reduces what fails.

The parent hands out seeds, keeps the time of each case and writes the counts to a file, so that
several runs add up. A worker that dies or takes too long is replaced, and its seed reported.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast

from triton_dsl.ir.safe_write import PendingFiles
from triton_dsl.tools.reduction import smallest

from .cases import Case, Check, Finding, Outcome, check, crash

KINDS = {
    "tri": "fuzz.program_rules",
    "networks": "fuzz.networks",
    "spiking": "fuzz.spiking",
    "ir": "fuzz.module_rules",
    "onnx": "fuzz.onnx_rules",
    "torch": "fuzz.torch_modules",
    "circuits": "fuzz.circuits",
    "integers": "fuzz.integer_modules",
}
"""The file that generates a kind: `generate(seed)` gives a `Case`."""

LIMITS = {"circuits": 900.0}
"""Seconds that a case may take; 300 for the others, as processors are shared."""

REDUCTION = 60.0
"""Seconds for making a failing case smaller, but for the run that is going on."""

CASES_OF_WORKER = 2000
"""After so many a worker is replaced, as engines keep memory."""


def kinds() -> list[str]:
    """The kinds that there are generators for."""
    return [kind for kind, module in KINDS.items() if find_spec(module) is not None]


def generator(kind: str) -> Callable[[int], Case]:
    """What makes the cases of a kind."""
    return cast("Callable[[int], Case]", import_module(KINDS[kind]).generate)


@dataclass
class Tally:
    """What became of the cases of one kind, over several runs.

    Attributes:
        next: the first seed that has not run.
        cases: how many ran.
        compared: of those, how many were compared at least once.
        seconds: of all workers together.
        ran: comparisons, by engine or `passes`.
        refused: refusals, by reason.
        failures: seeds of findings, by signature.
    """

    next: int = 0
    cases: int = 0
    compared: int = 0
    seconds: float = 0.0
    ran: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    failures: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def add(self, seed: int, outcome: Outcome, seconds: float) -> None:
        """Count one case."""
        self.cases += 1
        self.compared += bool(outcome.ran)
        self.seconds += seconds
        self.ran.update(outcome.ran)
        self.refused.update(outcome.refused)
        if outcome.finding is not None:
            self.failures.setdefault(outcome.finding.signature, []).append(seed)


def read_state(path: Path) -> dict[str, Tally]:
    """The tallies of former runs; none where there is no such file."""
    if not path.exists():
        return {}
    loaded: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    state = {kind: Tally(**values) for kind, values in loaded.items()}
    for tally in state.values():
        tally.ran, tally.refused = Counter(tally.ran), Counter(tally.refused)
    return state


def write_state(path: Path, state: dict[str, Tally]) -> None:
    """Replace the file of tallies."""
    text = json.dumps({kind: vars(tally) for kind, tally in state.items()}, indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    with PendingFiles() as files:
        files.add(path, text.encode())


def reduced(case: Case, finding: Finding, seconds: float = REDUCTION) -> tuple[Case, Finding]:
    """The smallest case found that fails in the same way, and how."""
    latest = finding

    def fails(candidate: Case) -> bool:
        nonlocal latest
        found = _finding(candidate)
        if found is None or found.signature != finding.signature:
            return False
        latest = found
        return True

    start = case if finding.check.engine == "import" else case.only(finding.check)
    if not fails(start):  # what ran before this check matters
        return case, finding
    return smallest(start, lambda c: c.reductions(), fails, seconds=seconds), latest


def _finding(case: Case) -> Finding | None:
    try:
        return check(case).finding
    except Exception:  # no case at all: the generator or the oracle refuses it
        return None


def write_failure(folder: Path, case: Case, finding: Finding) -> Path:
    """Write the case as a test; the file."""
    source = case.source(finding)
    folder.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^a-z]+", "_", finding.signature.lower())[:60].strip("_")
    path = folder / f"test_{case.KIND}_{case.seed}_{slug}.py"
    path.write_text(source, encoding="utf-8")
    return path


def serve(connection: Connection, failures: str) -> None:
    """A worker: takes `(kind, seed, reduce)` and answers with the outcome, until it gets `None`."""
    import torch

    torch.set_num_threads(1)
    while (job := connection.recv()) is not None:
        kind, seed, reduce = job
        try:
            case = generator(kind)(seed)
            outcome = check(case)
        except Exception as error:
            outcome = Outcome(finding=crash(Check("", "generator"), error))
            connection.send(str(outcome.finding) if reduce else outcome)
            continue
        if not reduce:
            connection.send(outcome)
            continue
        if outcome.finding is None:
            connection.send(f"{kind} {seed}: did not fail again")
            continue
        smaller, finding = reduced(case, outcome.finding)
        path = write_failure(Path(failures), smaller, finding)
        connection.send(
            f"{kind} {seed}: {finding.check}: {finding.kind}, {smaller.size()} operation(s)\n"
            f"  {finding.message.splitlines()[0][:300]}\n  {path}"
        )


class Worker:
    """A process that runs one case after the other."""

    def __init__(self, failures: Path) -> None:
        context = get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, str(failures)), daemon=True)
        self.process.start()
        other.close()
        self.job: tuple[str, int, bool] | None = None
        self.started = time.monotonic()
        self.cases = 0
        self.fresh = True

    def give(self, job: tuple[str, int, bool]) -> None:
        """Start a job."""
        self.job, self.started = job, time.monotonic()
        self.cases += 1
        self.connection.send(job)

    @property
    def deadline(self) -> float:
        """When the job has taken too long; a new process loads its libraries first."""
        assert self.job is not None
        kind, _, reduce = self.job
        limit = LIMITS.get(kind, 300.0)
        return self.started + limit + (REDUCTION + limit if reduce else 0) + 120 * self.fresh

    def end(self) -> None:
        """Stop the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def fuzz(
    kinds: Sequence[str],
    *,
    seconds: float | None,
    count: int | None,
    seed: int | None,
    jobs: int,
    folder: Path,
) -> int:
    """Run cases of the kinds in turn; the number of findings.

    Args:
        kinds: names of `KINDS`.
        seconds: when to stop; `None` for no limit.
        count: cases of each kind; `None` for no limit.
        seed: the first seed; `None` goes on where the last run of this folder ended.
        jobs: workers.
        folder: for the state and the failures.
    """
    state = read_state(folder / "state.json")
    for kind in kinds:
        state.setdefault(kind, Tally())
    upcoming = {kind: state[kind].next if seed is None else seed for kind in kinds}
    run = {kind: Tally() for kind in kinds}
    end = None if seconds is None else time.monotonic() + seconds
    left = {kind: count for kind in kinds}
    pending: list[tuple[str, int, bool]] = []
    seen: set[str] = set()
    turn = 0
    findings = 0
    saved = time.monotonic()
    workers: list[Worker | None] = [None] * jobs

    def next_job() -> tuple[str, int, bool] | None:
        nonlocal turn
        if pending:
            return pending.pop(0)
        if end is not None and time.monotonic() > end:
            return None
        for _ in kinds:
            kind = kinds[turn % len(kinds)]
            turn += 1
            remaining = left[kind]
            if remaining is None or remaining > 0:
                left[kind] = None if remaining is None else remaining - 1
                number = upcoming[kind]
                upcoming[kind] += 1
                if seed is None:  # a single case again does not move where the next run goes on
                    state[kind].next = upcoming[kind]
                return kind, number, False
        return None

    def note(job: tuple[str, int, bool], outcome: Outcome, took: float) -> None:
        nonlocal findings
        kind, number, _ = job
        for tally in (state[kind], run[kind]):
            tally.add(number, outcome, took)
        if outcome.finding is None:
            return
        findings += 1
        signature = f"{kind}: {outcome.finding.signature}"
        print(f"{kind} {number}: {outcome.finding.check}: {outcome.finding.message[:200]}")
        lost = outcome.finding.kind in ("hang", "died")
        if signature not in seen and not lost:
            pending.append((kind, number, True))
        seen.add(signature)

    try:
        while True:
            for index, worker in enumerate(workers):
                if worker is not None and worker.job is None and worker.cases >= CASES_OF_WORKER:
                    worker.end()
                    workers[index] = worker = None
                if worker is not None and worker.job is not None:
                    continue
                if (job := next_job()) is None:
                    continue
                if worker is None:
                    workers[index] = worker = Worker(folder / "failures")
                worker.give(job)
            busy = [w for w in workers if w is not None and w.job is not None]
            if not busy:
                break
            patience = max(0.0, min(w.deadline for w in busy) - time.monotonic())
            ready = wait([w.connection for w in busy], min(patience + 0.1, 5.0))
            for index, worker in enumerate(workers):
                if worker is None or worker.job is None:
                    continue
                job, took = worker.job, time.monotonic() - worker.started
                lost = ""
                if worker.connection in ready:
                    try:
                        answer = worker.connection.recv()
                    except EOFError:
                        worker.process.join()
                        lost = f"the process died with status {worker.process.exitcode}"
                    else:
                        worker.job, worker.fresh = None, False
                        if isinstance(answer, Outcome):
                            note(job, answer, took)
                        else:
                            print(answer)
                elif time.monotonic() > worker.deadline:
                    lost = f"no answer after {took:.0f} s"
                if lost:
                    worker.end()
                    workers[index] = None
                    if job[2]:
                        print(f"{job[0]} {job[1]}: could not be reduced: {lost}")
                    else:
                        note(job, _lost(lost), took)
            sys.stdout.flush()
            if time.monotonic() - saved > 30:
                write_state(folder / "state.json", state)
                saved = time.monotonic()
    except KeyboardInterrupt:
        print("interrupted")
    finally:
        for worker in workers:
            if worker is not None:
                worker.end()
        write_state(folder / "state.json", state)
    for kind in kinds:
        print(summary(kind, run[kind], state[kind]))
    return findings


def _lost(reason: str) -> Outcome:
    kind = "hang" if "no answer" in reason else "died"
    return Outcome(finding=Finding(Check("", "process"), kind, reason))


def summary(kind: str, run: Tally, total: Tally) -> str:
    """What a run did, and what all did together."""
    rate = run.cases / run.seconds * 3600 if run.seconds else 0.0
    lines = [
        f"{kind}: {run.cases} cases, {run.compared} compared, {rate:.0f} an hour and worker; "
        f"{total.cases} in all, {total.compared} compared, next seed {total.next}"
    ]
    lines.append("  ran: " + ", ".join(f"{n} {what}" for what, n in run.ran.most_common()))
    lines += [f"  refused {n}: {reason}" for reason, n in run.refused.most_common(12)]
    lines += [
        f"  FAILED {len(seeds)}: {signature} (seeds {', '.join(map(str, seeds[:5]))})"
        for signature, seeds in run.failures.items()
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """The command line: `python -m fuzz --help`."""
    import argparse

    parser = argparse.ArgumentParser(prog="fuzz", description="Generated programs, compared.")
    parser.add_argument("--kind", default="all", help=f"all, or some of {','.join(KINDS)}")
    parser.add_argument("--time", type=float, help="seconds to run; 60 without a count")
    parser.add_argument("--count", type=int, help="cases of each kind")
    parser.add_argument("--seed", type=int, help="the first seed; by default where it ended")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    options = parser.parse_args(list(arguments))
    chosen = kinds() if options.kind == "all" else options.kind.split(",")
    unknown = [kind for kind in chosen if kind not in kinds()]
    if unknown:
        parser.error(f"unknown kind '{unknown[0]}'; there are {', '.join(kinds())}")
    limit: Any = options.time
    if limit is None and options.count is None:
        limit = 60.0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found = fuzz(
        chosen,
        seconds=limit,
        count=options.count,
        seed=options.seed,
        jobs=options.jobs,
        folder=options.folder,
    )
    return 1 if found else 0
