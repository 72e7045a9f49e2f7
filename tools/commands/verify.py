"""`triton verify`: does every engine give the answer of what the program came from?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from ...ir.errors import BackendError, OptionError, refuse
from ...ir.extras import install
from ...lowering.options import parse_target_spec
from ...lowering.sources.choice import source_of
from ...lowering.sources.source import Source
from ...runtime.device_choice import use_device
from ..console import error, note, print_json, progress, show, table
from ..draws import EDGE, SPECIAL, TIMESTEPS, draw
from ..inputs import changes_results, imported, prepare
from ..verify import NO_ENGINE, SOURCE, Comparison, verify_module, verify_neurons
from .options.runs import Verify

if TYPE_CHECKING:
    from rich.table import Table

    from ..layer_results import LayerReport


def verify(options: Verify) -> None:
    """Compare engines, or layers one by one; exits with 1 when one is wrong."""
    if options.layers:
        _verify_layers(options)
        return
    if options.prove is not None:
        raise OptionError("--prove needs --layers: proofs are of the circuits of single layers")
    file, samples, seed = options.file, options.samples, options.seed
    refused: list[str] = []
    kinds = [] if options.inputs is not None else [EDGE, SPECIAL] if options.special else [EDGE]

    def rows_of(passes: str, targets: list[str] | None, source: Source | None) -> list[Comparison]:
        module, arrays = prepare(program.clone(), options, passes=passes, source=source)
        more = [draw(module, kind, samples, seed, source=source) for kind in kinds]
        return verify_module(
            module,
            arrays,
            targets,
            source=source,
            more_inputs=[drawn for drawn in more if drawn is not None],
            rtol=options.rtol,
            atol=options.atol,
            trace=options.trace,
            on_refusal=lambda name, error: refused.append(f"{name} is left out: {error}"),
        )

    with progress() as bar, use_device(options.device, options.provider, tuned=False):
        bar.add_task(f"Verifying {file}", total=None)
        program = imported(options, rounding=options.rounding)
        file_source = source_of(file, dt=options.dt, rounding=options.rounding)
        if changes_results(options.passes):
            # What was imported is held against its source, what the passes made against itself.
            rows = [*rows_of("", [], file_source), *rows_of(options.passes, options.target, None)]
        else:
            rows = rows_of(options.passes, options.target, file_source)
    if all(row.engine == NO_ENGINE for row in rows):
        engines = install("torch,onnx,native,tflite")
        raise BackendError(f"nothing is compared: no engine is installed; {engines}")
    for text in refused:
        note("triton", text)
    if options.json:
        print_json([row.to_dict() for row in rows])
    else:
        show(comparison_table(f"{file} on every engine", rows))
        said: dict[str, list[str]] = {}
        for row in rows:
            for text in filter(None, (row.note, row.first_difference)):
                said.setdefault(str(text), []).append(row.target)
        for text, names in said.items():
            note("triton", f"{', '.join(names)}: {text}")
    if not all(row.agrees for row in rows):
        raise typer.Exit(1)


def comparison_table(title: str, rows: Sequence[Comparison], of: str = "target") -> Table:
    """The table of a verification, a row for each target or layer."""
    return table(
        title,
        [of, "engine", "max abs", "max rel", "same argmax", "bit-exact", "bytes", "verdict"],
        [
            (
                row.target,
                row.engine,
                *(
                    (row.max_abs, row.max_rel, _share(row.argmax_agreement), row.bit_exact)
                    if row.engine != NO_ENGINE
                    else (None, None, None, None)
                ),
                row.bytes,
                _verdict(row),
            )
            for row in rows
        ],
    )


def _share(agreement: float | None) -> str | None:
    return None if agreement is None else f"{agreement:.2%}"


def _verdict(row: Comparison) -> str:
    if row.target == SOURCE:
        return "no engine" if row.engine == NO_ENGINE else "expected values"
    if row.agrees:
        return "agrees, exactly" if row.exact_required else "agrees"
    return "DIFFERS (integer program)" if row.exact_required else "DIFFERS"


def _verify_layers(options: Verify) -> None:
    """Each layer as a circuit, with a table or JSON; exits with 1 when one is wrong."""
    from ..layer_verification import LayerChecks, verify_layers, verilog_options

    targets, file = options.target or ["verilog"], options.file
    refuse(len(targets) > 1, "--layers takes one target with its options, by default verilog")
    if parse_target_spec(targets[0]).name != "verilog":
        _verify_neurons(options, targets[0])
        return
    circuit = verilog_options(targets[0])
    with_samples = options.inputs is not None
    checks = LayerChecks(
        options.vectors, options.seed, prove=options.prove, with_samples=with_samples
    )
    with progress() as bar:
        task = bar.add_task(f"Verifying {file}", total=None)
        program = imported(options, rounding=options.rounding)
        module, arrays = prepare(program, options, timesteps=circuit.timesteps or TIMESTEPS)

        def begun(name: str, count: int) -> None:
            bar.update(task, description=f"Layer {name}", total=count, advance=1)

        report = verify_layers(module, arrays, circuit, checks, begun)
    if options.json:
        print_json(report.to_dict())
    else:
        show(layers_table(f"{file}, layer by layer against the reference interpreter", report))
    wrong = report.first_wrong
    if wrong is not None:
        what = "the whole circuit" if wrong is report.whole else f"layer '{wrong.layer}'"
        error("triton", f"{what} is not what the interpreter gives: {wrong.fault}")
    elif not report.chain:
        error("triton", "the layers together do not give what the program gives as it is written")
    if not report.agrees:
        raise typer.Exit(1)


def _verify_neurons(options: Verify, target: str) -> None:
    """The spikes of each layer on a target, with a table or JSON; exits with 1 when one differs."""
    if options.prove is not None:
        raise OptionError("--prove is of circuits: -t verilog")
    with progress() as bar:
        bar.add_task(f"Verifying {options.file}", total=None)
        module, arrays = prepare(imported(options, rounding=options.rounding), options)
        rows = verify_neurons(module, arrays, target)
    if options.json:
        print_json([row.to_dict() for row in rows])
    else:
        title = f"{options.file}, layer by layer on {target}"
        show(comparison_table(title, rows, "layer"))
    if not all(row.agrees for row in rows):
        raise typer.Exit(1)


def layers_table(title: str, report: LayerReport) -> Table:
    """The table of a verification layer by layer."""
    proofs = any(row.proof is not None for row in report.layers)
    columns = ["layer", "ops", "vectors", "of samples", "cycles", "engine", "s", "verdict"]
    rows: list[list[object]] = [
        [
            row.layer,
            ", ".join(row.ops),
            row.vectors,
            row.samples,
            row.latency,
            row.engine,
            row.seconds,
            "equal" if row.difference is None and row.complaint is None else row.fault,
            *([str(row.proof)] if proofs else []),
        ]
        for row in (*report.layers, report.whole)
    ]
    together = "equal" if report.chain else "DIFFERS from the program as written"
    last = ["one after another", "", None, report.samples, None, "interpreter", None, together]
    rows.insert(-1, [*last, *[None][:proofs]])
    return table(title, [*columns, *(["proof"] if proofs else [])], rows)
