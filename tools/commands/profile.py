"""`triton profile`: where the time of a native program goes, and what this machine would allow."""

from __future__ import annotations

from typing import Any

from ...ir.errors import refuse
from ...lowering.options import parse_target_spec
from ...lowering.peers import peer_times
from ...lowering.to_native.profiling import Profile as Measured
from ...lowering.to_native.profiling import StepProfile, profile_program
from ..console import print_json, progress, show, table
from ..inputs import imported, prepare
from .options.runs import Profile

_COLUMNS = ("op", "step", "µs", "% of time", "bound µs", "by", "% of bound", "bytes", "GOP/s")


def profile(options: Profile) -> None:
    """Time the steps of a program, and whole calls of other engines."""
    spec = parse_target_spec(options.target)
    refuse(spec.name != "native", f"steps of 'native' are timed, and not those of '{spec.name}'")
    with progress() as bar:
        bar.add_task(f"Profiling {options.file}", total=None)
        module, arrays = prepare(imported(options), options, timesteps=options.timesteps)
        measured = profile_program(module, arrays, spec.options, seconds=options.seconds)
        source = None if options.passes else options.file
        peers = {} if options.no_peers else peer_times(module, arrays, source, options.seconds)
    if options.json:
        print_json(_report(measured, peers))
        return
    free = ", ".join(f"{name} {size}" for name, size in measured.free.items())
    title = (
        f"{options.file}: {free}, {measured.recipe}, one thread, "
        f"{measured.footprint:,} bytes at {measured.bandwidth / 1e9:.0f} GB/s"
    )
    steps = [_row(step, measured.seconds) for step in measured.ops()]
    total = sum(step.bound for step in measured.steps)
    size = sum(step.facts.bytes for step in measured.steps)
    whole = ("a call", "", measured.seconds * 1e6, 100.0, total * 1e6, "")
    steps.append((*whole, 100 * total / measured.seconds, size, None))
    show(table(title, _COLUMNS, steps))
    if peers:
        ours = measured.seconds
        rows = [
            (name, found, None) if isinstance(found, str) else (name, found * 1e6, found / ours)
            for name, found in peers.items()
        ]
        show(table("Other engines, one thread", ("engine", "µs", "x ours"), rows))


def _row(step: StepProfile, whole: float) -> tuple[object, ...]:
    facts, seconds = step.facts, step.seconds
    rate = None
    if facts.operations is not None and seconds > 0:
        rate = facts.operations / seconds / 1e9
    share = 100 * step.bound / seconds if seconds > 0 else None
    return (
        *(facts.where, facts.what, seconds * 1e6, 100 * seconds / whole),
        *(step.bound * 1e6, step.limit, share, facts.bytes, rate),
    )


def _report(measured: Measured, peers: dict[str, float | str]) -> dict[str, Any]:
    return {
        "recipe": measured.recipe,
        "sizes": dict(measured.free),
        "seconds": measured.seconds,
        "footprint_bytes": measured.footprint,
        "bandwidth": measured.bandwidth,
        "steps": [
            {
                "step": step.facts.what,
                "where": step.facts.where,
                "seconds": step.seconds,
                "operations": step.facts.operations,
                "unit": step.facts.unit,
                "bytes": step.facts.bytes,
                "compute_seconds": step.compute,
                "memory_seconds": step.memory,
                "bound_seconds": step.bound,
                "limit": step.limit,
            }
            for step in measured.steps
        ],
        "peers": peers,
    }
