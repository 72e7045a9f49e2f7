"""`triton verify`: does every engine give the answer of what the program came from?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...ir.errors import OptionError
from .options import Inputs, Json, Layer, Passes, Program, RandomWeights, Samples, Seed, Weights

if TYPE_CHECKING:
    from rich.table import Table

    from ...lowering.sources.source import Source
    from ..layer_results import LayerReport
    from ..verify import Comparison


def verify(
    file: Program,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            metavar="TARGET",
            help="Repeat for several.",
            show_default="pytorch, onnx, and native where llvmlite is installed",
        ),
    ] = None,
    inputs: Inputs = None,
    weights: Weights = None,
    random_weights: RandomWeights = False,
    layer: Layer = None,
    passes: Passes = "",
    samples: Samples = 16,
    seed: Seed = 0,
    rtol: Annotated[float, typer.Option(min=0, help="Relative tolerance, float programs.")] = 1e-4,
    atol: Annotated[float, typer.Option(min=0, help="Absolute tolerance, float programs.")] = 1e-5,
    layers: Annotated[
        bool,
        typer.Option("--layers", help="Each layer by itself, as a circuit (target verilog)."),
    ] = False,
    vectors: Annotated[
        int,
        typer.Option(min=2, max=1_000_000, help="Random vectors for a layer, with --layers."),
    ] = 10_000,
    special: Annotated[
        bool,
        typer.Option("--special", help="Inputs with NaN, infinities and the ends of floats too."),
    ] = False,
    trace: Annotated[
        bool,
        typer.Option(help="Follow a difference to the first op, which takes further runs."),
    ] = True,
    prove: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="Prove small layers right for every input, so long each; with --layers.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run the same inputs through the source, the interpreter and each target, and compare.

    The source is the file as it was given, in an engine that is not ours; where there is none, the
    interpreter's values are expected. Integer programs must agree exactly. Exits with 1 when an
    engine disagrees, and says at which op. Targets that cannot express the program are named, and
    left out unless asked for.

    Example: triton verify model.tri -w model.safetensors -i test.npz
    """  # fmt: skip
    if layers:
        _verify_layers(
            file,
            target,
            inputs,
            {"weights": weights, "layer": layer},
            {"passes": passes, "samples": samples, "seed": seed, "fill": random_weights},
            vectors,
            prove,
            json,
        )
        return
    if prove is not None:
        raise OptionError("--prove needs --layers: proofs are of the circuits of single layers")
    from ...lowering.models import import_model
    from ...lowering.sources.choice import source_of
    from ..console import note, print_json, progress, show
    from ..draws import EDGE, SPECIAL, draw
    from ..inputs import changes_results, prepare
    from ..verify import verify_module

    refused: list[str] = []
    kinds = [] if inputs is not None else [EDGE, SPECIAL] if special else [EDGE]

    def rows_of(passes: str, targets: list[str] | None, source: Source | None) -> list[Comparison]:
        module, arrays = prepare(
            imported.clone(),
            passes=passes,
            inputs=inputs,
            samples=samples,
            seed=seed,
            fill=random_weights,
            source=source,
        )
        more = [draw(module, kind, samples, seed, source=source) for kind in kinds]
        return verify_module(
            module,
            arrays,
            targets,
            source=source,
            more_inputs=[drawn for drawn in more if drawn is not None],
            rtol=rtol,
            atol=atol,
            trace=trace,
            on_refusal=lambda name, error: refused.append(f"{name} is left out: {error}"),
        )

    with progress() as bar:
        bar.add_task(f"Verifying {file}", total=None)
        imported = import_model(file, weights=weights, layer=layer)
        given = source_of(file)
        if changes_results(passes):
            # What was imported is held against its source, what the passes made against itself.
            rows = [*rows_of("", [], given), *rows_of(passes, target, None)]
        else:
            rows = rows_of(passes, target, given)
    for text in refused:
        note("triton", text)
    if json:
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


def comparison_table(title: str, rows: Sequence[Comparison]) -> Table:
    """The table of a verification."""
    from ..console import table

    return table(
        title,
        ["target", "engine", "max abs", "max rel", "same argmax", "bit-exact", "bytes", "verdict"],
        [
            (
                row.target,
                row.engine,
                row.max_abs,
                row.max_rel,
                None if row.argmax_agreement is None else f"{row.argmax_agreement:.2%}",
                row.bit_exact,
                row.bytes,
                _verdict(row),
            )
            for row in rows
        ],
    )


def _verdict(row: Comparison) -> str:
    from ..verify import SOURCE

    if row.target == SOURCE:
        return "no engine" if row.engine == "none" else "expected values"
    if row.agrees:
        return "agrees, exactly" if row.exact_required else "agrees"
    return "DIFFERS (integer program)" if row.exact_required else "DIFFERS"


def _verify_layers(
    file: Path,
    targets: list[str] | None,
    inputs: Path | None,
    loaded: dict[str, Any],
    prepared: dict[str, Any],
    vectors: int,
    prove: float | None,
    json: bool,
) -> None:
    """Each layer as a circuit, with a table or JSON; exits with 1 when one is wrong."""
    from ...lowering.models import import_model
    from ..console import error, print_json, progress, show
    from ..draws import TIMESTEPS
    from ..inputs import prepare
    from ..layer_verification import LayerChecks, verify_layers, verilog_options

    if targets is not None and len(targets) > 1:
        raise OptionError("--layers takes one target, verilog with its options")
    options = verilog_options(targets[0] if targets else None)
    checks = LayerChecks(vectors, prepared["seed"], prove=prove, with_samples=inputs is not None)
    with progress() as bar:
        task = bar.add_task(f"Verifying {file}", total=None)
        module, arrays = prepare(
            import_model(file, **loaded),
            inputs=inputs,
            timesteps=options.timesteps or TIMESTEPS,
            **prepared,
        )

        def begun(name: str, count: int) -> None:
            bar.update(task, description=f"Layer {name}", total=count, advance=1)

        report = verify_layers(module, arrays, options, checks, begun)
    if json:
        print_json(report.to_dict())
    else:
        show(layers_table(f"{file}, layer by layer against the reference interpreter", report))
    wrong = report.first_wrong
    if wrong is not None:
        what = "the whole circuit" if wrong is report.whole else f"layer '{wrong.layer}'"
        error("triton", f"{what} is not what the interpreter gives: {wrong.found}")
    elif not report.chain:
        error("triton", "the layers together do not give what the program gives as it is written")
    if not report.agrees:
        raise typer.Exit(1)


def layers_table(title: str, report: LayerReport) -> Table:
    """The table of a verification layer by layer."""
    from ..console import table

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
            "equal" if row.difference is None and row.complaint is None else row.found,
            *([str(row.proof)] if proofs else []),
        ]
        for row in (*report.layers, report.whole)
    ]
    together = "equal" if report.chain else "DIFFERS from the program as written"
    last = ["one after another", "", None, report.samples, None, "interpreter", None, together]
    rows.insert(-1, [*last, *[None][:proofs]])
    return table(title, [*columns, *(["proof"] if proofs else [])], rows)
