"""`triton compile`: a program to a target's files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Json, Layer, Passes, Program, Weights


def compile(
    file: Program,
    target: Annotated[
        str,
        typer.Option(
            "--target", "-t", metavar="TARGET", help="Target, with options: 'onnx{opset=17}'."
        ),
    ] = "pytorch",
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="PATH", help="Where to write. Default: FILE's stem."
        ),
    ] = None,
    weights: Weights = None,
    layer: Layer = None,
    passes: Passes = "",
    trainable: Annotated[
        bool,
        typer.Option(help="Keep float latents of ternary weights, for training."),
    ] = False,
    dump_stages: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the IR after each stage to this folder."),
    ] = None,
    no_self_check: Annotated[
        bool,
        typer.Option(
            "--no-self-check", help="Do not compare the file in its engine before it is written."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Compile a program to PyTorch, ONNX, native code or another target.

    Example: triton compile model.tri -t onnx -w model.safetensors -o model.onnx
    """
    from ...lowering.artifact import write_artifact
    from ...lowering.models import import_model
    from ...lowering.targets import compile_to_target
    from ..clock_goal import warn_missed_clock
    from ..console import print_json, progress, show, table
    from ..folding import show_folding
    from ..inputs import apply_passes
    from ..left_out import warn_left_out

    with progress() as bar:
        bar.add_task(f"Compiling {file}", total=None)
        module = import_model(file, weights=weights, layer=layer, trainable=trainable)
        if passes:
            apply_passes(module, passes)
        artifact = compile_to_target(
            module,
            target,
            {"self_check": False} if no_self_check else None,
            output=Path(output) if output else None,
            dump_stages=dump_stages,
        )
        show_folding(artifact)
        warn_left_out(artifact, "triton compile")
        warn_missed_clock(artifact, "triton compile")
        paths = write_artifact(
            artifact,
            output or _default_output(file, artifact.main_file),
            sources=[file, weights],
        )
    sizes = [(str(path), path.stat().st_size) for path in paths if path.is_file()]
    if json:
        print_json({"target": target, "files": [{"path": p, "bytes": n} for p, n in sizes]})
    else:
        show(table(f"{file} → {target}", ["file", "bytes"], sizes))


def _default_output(file: Path, main_file: str | None) -> Path:
    if main_file is None:
        return Path(file.stem)
    return Path(file.stem + Path(main_file).suffix)
