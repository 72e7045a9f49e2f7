"""`triton explore`: a page of a program, stage by stage and op by op."""

from __future__ import annotations

from pathlib import Path

import typer

from ...ir.safe_write import PendingFiles, check_writable, keep_sources
from ...lowering.sources.choice import source_of
from ..console import note, progress
from ..explorer.exploration import explore as explored
from ..explorer.formats import SUFFIXES
from ..inputs import imported, prepare
from .options.runs import Explore


def explore(options: Explore) -> None:
    """Write the page; exits with 1 where something differs."""
    suffix = SUFFIXES.get(options.format, ".html")
    output = options.output or Path(f"{options.file.stem}{suffix}")
    keep_sources(output, (options.file, options.weights, options.inputs))
    check_writable(output)
    with progress() as bar, PendingFiles() as pending:
        bar.add_task(f"Exploring {options.file}", total=None)
        source = source_of(options.file, dt=options.dt, rounding=options.rounding)
        program, steps = imported(options, rounding=options.rounding), options.timesteps
        module, arrays = prepare(program, options, passes="", timesteps=steps, source=source)
        found = explored(
            module,
            arrays,
            passes=options.passes,
            targets=options.target or (),
            source=source,
            path=options.file,
        )
        pending.add(output, found.content(options.format, options.stage))
    if found.data["note"]:
        note("triton", f"nothing was run: {found.data['note']}")
    for text in found.differences():
        note("triton", text)
    if found.differences():
        raise typer.Exit(1)
