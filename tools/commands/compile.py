"""`triton compile`: a program to a target's files."""

from __future__ import annotations

from pathlib import Path

from ...ir.errors import refuse
from ...lowering.artifact import write_artifact
from ...lowering.models import import_model
from ...lowering.stages import apply_passes
from ..compilation import compile_told
from ..console import print_json, progress, show, table
from .options.programs import Compile


def compile(options: Compile) -> None:
    """Compile a program, write its files and list them."""
    file = options.file
    prints = f"triton compile writes files; to print: triton-translate {file} -t {options.target}"
    refuse(options.output == "-", prints)
    with progress() as bar:
        bar.add_task(f"Compiling {file}", total=None)
        module = import_model(
            file,
            weights=options.weights,
            layer=options.layer,
            trainable=options.trainable,
            dt=options.dt,
            rounding=options.rounding,
        )
        apply_passes(module, options.passes)
        artifact = compile_told(
            "triton compile",
            module,
            options.target,
            self_check=not options.no_self_check,
            output=options.output,
            dump_stages=options.dump_stages,
        )
        paths = write_artifact(
            artifact,
            options.output or _default_output(file, artifact.main_file),
            sources=[file, options.weights],
        )
    sizes = [(str(path), path.stat().st_size) for path in paths if path.is_file()]
    if options.json:
        files = [{"path": path, "bytes": size} for path, size in sizes]
        print_json({"target": options.target, "files": files})
    else:
        show(table(f"{file} → {options.target}", ["file", "bytes"], sizes))


def _default_output(file: Path, main_file: str | None) -> Path:
    if main_file is None:
        return Path(file.stem)
    return Path(file.stem + Path(main_file).suffix)
