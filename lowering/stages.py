"""Running the named stages of a target, and writing the IR before and after each.

A stage is pass-pipeline text under a name. The texts written by `dump_stages` can be read again:
their weights stand in one `parameters.safetensors` beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, PassFailedException, VerifyException

from ..dialects.parameters import attach_store, parameters, store_of
from ..dialects.tensor.storage import STORE_ATTRIBUTE
from ..ir.errors import OptionError, PassError, VerifyError
from ..ir.printing import PrintOptions, module_text
from ..ir.store import ParameterStore, StoreReference


@dataclass(frozen=True)
class Stage:
    """One step on the way to a target: a name, and a pass pipeline such as `canonicalize,cse`."""

    name: str
    pipeline: str


def available_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """The passes a stage may name: ours, then xDSL's."""
    from xdsl.transforms import get_all_passes as upstream_passes

    from .. import passes

    return {**upstream_passes(), **passes.get_all_passes()}


def parse_passes(pipeline: str) -> tuple[ModulePass, ...]:
    """The passes of pipeline text, with their options.

    Raises:
        OptionError: bad syntax, an unknown pass (with the nearest known one) or a bad option.
    """
    available = available_passes()
    try:
        specs = tuple(parse_pipeline(pipeline))
    except ArgSpecParseError as error:
        reason = str(error).strip().splitlines()[-1].strip(" ^")
        raise OptionError(f"pipeline '{pipeline}': {reason}") from None
    passes: list[ModulePass] = []
    for spec in specs:
        if spec.name not in available:
            from difflib import get_close_matches

            close = get_close_matches(spec.name, available, 1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            raise OptionError(f"unknown pass '{spec.name}'{hint}")
        try:
            passes.append(available[spec.name]().from_spec(spec))
        except ValueError as error:
            raise OptionError(f"pass '{spec.name}': {error}") from None
    return tuple(passes)


def run_stages(
    module: ModuleOp, stages: Sequence[Stage], *, dump_stages: Path | None = None
) -> None:
    """Run stages on `module` in place.

    With `dump_stages`, `00-input.mlir`, `01-NAME.mlir`, … show the IR at each point; those of the
    stages that ran are written even when one fails.

    Raises:
        PassError: a pass refuses; the message names stage and pass.
        VerifyError: a pass leaves ill-formed IR.
    """
    from ..dialects.registry import triton_context

    context = triton_context()
    pipelines = [(stage, parse_passes(stage.pipeline)) for stage in stages]
    snapshots = [("input", module.clone())] if dump_stages is not None else []
    try:
        for stage, passes in pipelines:
            _run_stage(context, module, stage, passes)
            if dump_stages is not None:
                snapshots.append((stage.name, module.clone()))
    finally:
        if dump_stages is not None:
            _write_snapshots(dump_stages, snapshots)


def _run_stage(
    context: Context, module: ModuleOp, stage: Stage, passes: tuple[ModulePass, ...]
) -> None:
    for one in passes:
        try:
            PassPipeline((one,)).apply(context, module)
            module.verify()
        except PassFailedException as error:
            raise PassError(f"stage '{stage.name}', pass '{one.name}': {error}") from None
        except VerifyException as error:
            reason = str(error).strip().splitlines()[-1]
            raise VerifyError(
                f"stage '{stage.name}': the IR is ill-formed after pass '{one.name}': {reason}"
            ) from None


def located_text(module: ModuleOp) -> str:
    """The module as text with locations."""
    return module_text(module, PrintOptions(locations=True))


def _write_snapshots(folder: Path, snapshots: Sequence[tuple[str, ModuleOp]]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reference = _save_parameters(folder, [module for _, module in snapshots])
        for index, (name, module) in enumerate(snapshots):
            if reference is not None:
                attach_store(module, ParameterStore(reference))
            (folder / f"{index:02}-{name}.mlir").write_text(located_text(module))
    except OSError as error:
        raise OptionError(f"cannot write '{folder}': {error.strerror or error}") from None


def _save_parameters(folder: Path, modules: Sequence[ModuleOp]) -> StoreReference | None:
    """Save every entry that some snapshot names; `None` when there are no values."""
    names: dict[str, ParameterStore] = {}
    for module in modules:
        if STORE_ATTRIBUTE in module.attributes:
            store = store_of(module)
            names |= {op.key.data: store for op in parameters(module) if op.key.data in store}
    if not names:
        return None
    path = folder / "parameters.safetensors"
    arrays = {name: store.read(name) for name, store in names.items()}
    digest = ParameterStore.of(arrays).save(path, arrays)
    return StoreReference(path.name, digest, path)
