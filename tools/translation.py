"""What `triton-translate` does with its arguments: import, run passes, write IR or artefacts.

Not here: the arguments (`translate`).
"""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ..ir.errors import OptionError
from ..ir.printing import PrintOptions, module_text
from ..lowering.artifact import write_artifact
from ..lowering.models import import_model
from ..lowering.module_file import save_module, unsaved_entries
from ..lowering.options import option_infos
from ..lowering.stages import apply_passes
from ..lowering.targets import get_all_targets
from .compilation import compile_told
from .console import print_json, show, table, warn_unsaved

TOOL = "triton-translate"


def run(arguments: Namespace) -> int:
    """Do what the arguments ask for; the exit code.

    Raises:
        TritonError: anything a user can have caused.
    """
    if arguments.list_targets:
        _list_targets(arguments.json)
        return 0
    if arguments.to_ir == bool(arguments.target):
        raise OptionError("give either --import or -t TARGET (see --list-targets)")
    module = import_model(
        arguments.input,
        weights=arguments.weights,
        layer=arguments.layer,
        trainable=arguments.trainable,
        dt=arguments.dt,
        rounding=arguments.rounding,
    )
    apply_passes(module, arguments.passes)
    if arguments.to_ir:
        _write_ir(module, arguments.output, arguments.print_debuginfo)
        return 0
    artifact = compile_told(
        TOOL,
        module,
        arguments.target,
        self_check=not arguments.no_self_check,
        output=arguments.output,
        dump_stages=arguments.dump_stages,
    )
    if arguments.output:
        write_artifact(artifact, arguments.output, sources=[arguments.input, arguments.weights])
        return 0
    main_file = artifact.main_file
    if main_file is None or len(artifact.files) > 1:
        raise OptionError("this artefact has several files: give -o PATH")
    content = artifact.files[main_file]
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        if sys.stdout.isatty():
            raise OptionError("this artefact is binary: give -o PATH") from None
        sys.stdout.buffer.write(content)
        return 0
    sys.stdout.write(text)
    return 0


def _write_ir(module: ModuleOp, output: str | None, debuginfo: bool) -> None:
    options = PrintOptions(locations=debuginfo)
    if output:
        save_module(module, Path(output), lambda m: module_text(m, options))
        return
    sys.stdout.write(module_text(module, options))
    warn_unsaved(TOOL, len(unsaved_entries(module)))


def _list_targets(as_json: bool) -> None:
    listed: list[dict[str, Any]] = []
    for name, factory in sorted(get_all_targets().items()):
        target = factory()
        listed.append(
            {
                "target": name,
                "description": target.description,
                "options": [asdict(option) for option in option_infos(target.Options)],
                "stages": [asdict(stage) for stage in target.stages(target.Options())],
            }
        )
    if as_json:
        print_json(listed)
        return
    for one in listed:
        options = [(o["name"], o["type"], _shown(o["default"]), o["help"]) for o in one["options"]]
        stages = [(s["name"], s["pipeline"]) for s in one["stages"]]
        show(f"{one['target']}: {one['description']}")
        if options:
            show(table("options", ["name", "value", "default", "meaning"], options))
        show(table("stages", ["name", "passes"], stages))


def _shown(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default or "none")
