"""`triton verify`: does every target give the interpreter's answer?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Inputs, Json, Layer, Passes, Program, RandomWeights, Samples, Seed, Weights

if TYPE_CHECKING:
    from rich.table import Table

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
    json: Json = False,
) -> None:
    """Run the same inputs through the interpreter and each target's engine, and compare.

    Integer programs must agree bit for bit. Exits with 1 when a target disagrees. Targets that
    cannot express the program are named, and left out unless asked for.

    Example: triton verify model.tri -w model.safetensors -i test.npz
    """  # fmt: skip
    from ..console import note, print_json, progress, show
    from ..inputs import load_module, prepare
    from ..verify import verify_module

    with progress() as bar:
        bar.add_task(f"Verifying {file}", total=None)
        module = load_module(file, weights=weights, layer=layer)
        module, arrays = prepare(
            module,
            passes=passes,
            inputs=inputs,
            samples=samples,
            seed=seed,
            fill=random_weights,
        )
        refused: list[str] = []
        rows = verify_module(
            module,
            arrays,
            target,
            rtol=rtol,
            atol=atol,
            on_refusal=lambda name, error: refused.append(f"{name} is left out: {error}"),
        )
    for text in refused:
        note("triton", text)
    if json:
        print_json([row.to_dict() for row in rows])
    else:
        show(comparison_table(f"{file} against the reference interpreter", rows))
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
                ("agrees, exactly" if row.exact_required else "agrees")
                if row.agrees
                else ("DIFFERS (integer program)" if row.exact_required else "DIFFERS"),
            )
            for row in rows
        ],
    )
