"""The record of a program: every stage, what it computes, and what engines make of it.

A record is one JSON document, of which the page and all other forms are made:

    format      1
    title       of the program
    tool        the name of this package and its version
    note        why nothing was run; empty where something was
    files       [{name, lines}], the texts that places are in; no lines of what is not shown
    stages      [stage], in the order in which they came to be
    rasters     [{name, op, steps, neurons, spikes, counts, fired, potential}]: op is a number of
                the stage `program`; counts and fired have an entry for each step of one sample
    tables      [{title, columns, rows}]: the first cell of a row is the name of a layer
    program     the number of the last stage before those of targets

A stage has

    name        of its pass; `import` of the first
    passes      the pass with its options
    track       the target that it leads to; empty before
    before      the number of the stage it comes from; -1 of the first
    approximate whether the pass changes results on purpose
    unchanged   names of passes behind it that changed nothing
    not_run     why the interpreter did not run it; empty where it did
    text        its lines, large constants elided
    left_out    ops beyond those that a page holds
    ops         [{name, lines: [first, last], parent, operands, results, attributes, place, group,
                stored, origins}]: parent, operands and results are numbers of this stage, origins
                of the stage it comes from; place has name, file, line and column, what is known
                of it; group are the layers it belongs to, outermost first; stored ops hold
                constants
    values      [{name, type, element, shape, op, is_argument, statistics}]: op gives it, or has it
                as an argument; statistics are of the sample: count, min, max, mean, zeros (a
                share), bits, histogram, not_finite
    checks      [{kind, name, agrees, values, first, note}]: of kind `pass`, `source`, `engine` or
                `refusal` (of the pass or target `name`, which says why in note); values have
                {max_abs, relative, wrong} by the number of the value, first is the first op with a
                wrong one

Not here: the forms (`page`, `formats`), what Python programs are given (`exploration`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.arrays import Array
from ...lowering.models import Model, import_for
from ...lowering.options import parse_target_spec
from ...lowering.sources.choice import source_of
from ...lowering.sources.source import NoEngine, Source
from ...lowering.stages import Stage, run_stages
from ...lowering.targets import compile_to_target, get_target
from .engines import of_source, of_target
from .recorder import Recorder
from .reports import circuit_tables, spiking
from .sources import source_text

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def record_of(
    model: Model,
    inputs: Sequence[Array] | None = None,
    *,
    passes: str = "",
    targets: Sequence[str] = (),
    source: Source | None = None,
    path: Path | None = None,
) -> dict[str, Any]:
    """Record a program: each pass, what it computes on a sample, what engines compute.

    Args:
        model: IR, which stays as it is, or what it is imported from (`import_model`).
        inputs: of `@forward`, in order; without them nothing is run.
        passes: a pipeline that runs first.
        targets: that it is lowered to, each from the program behind `passes`.
        source: what IR came from; by default the model, where an engine runs it.
        path: the file that it came from, whose text is shown; by default `model`.

    Raises:
        TritonError: the model is not read.
        OptionError: no such pass or target, or no such option of it.
    """
    module: ModuleOp = import_for(model, inputs or ())
    if module is not model and source is None:
        source = source_of(model)  # pyright: ignore[reportArgumentType]
    module = module.clone()
    if path is None and isinstance(model, str | Path):
        path = Path(model)
    recorder = Recorder(inputs)
    recorder.see(module, "import")
    if source is not None and not isinstance(source, NoEngine) and recorder.arrays[0]:
        check = of_source(module, source, inputs or (), recorder.arrays[0])
        recorder.stages[0]["checks"].append(check)
    with recorder.refusals("the passes"):
        if passes:
            run_stages(module, [Stage("passes", passes)], instruments=[recorder])
    if recorder.refused:
        targets = ()
    program = len(recorder.stages) - 1
    rasters, tables = spiking(module, inputs) if inputs is not None else ([], [])
    for target in targets:
        if recorder.arrays[program] and get_target(parse_target_spec(target).name).engine_package:
            check = of_target(module, target, inputs or (), recorder.arrays[program])
            recorder.stages[program]["checks"].append(check)
        recorder.branch(target, program, module)
        with recorder.refusals(target):
            tables += circuit_tables(compile_to_target(module, target, instruments=[recorder]))
            if recorder.stages[-1]["track"] != target:
                recorder.branch(target, program, module)
                recorder.see(module, "as before", always=True)
    name = module.sym_name.data if module.sym_name is not None else "program"
    return {
        "format": 1,
        "title": name,
        "tool": f"triton-dsl {version('triton-dsl')}",
        "note": recorder.stages[0].get("not_run", "no inputs were given"),
        "files": [
            {"name": file, "lines": source_text(file, path)} for file in recorder.files.names
        ],
        "stages": recorder.stages,
        "rasters": rasters,
        "tables": tables,
        "program": program,
    }


def json_bytes(data: dict[str, Any]) -> bytes:
    """A record as JSON: the same bytes for the same record."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
