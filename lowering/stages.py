"""Running the named stages of a target, and writing the IR before and after each.

A stage is pass-pipeline text under a name. The texts written by `dump_stages` can be read again:
their weights stand in one `parameters.safetensors` beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from xdsl.dialects.builtin import ModuleOp

from ..dialects.parameters import attach_store, parameter_keys, store_of
from ..dialects.registry import triton_context
from ..dialects.tensor.storage import STORE_ATTRIBUTE
from ..dialects.verification import ChangeVerifier
from ..ir.errors import TritonError
from ..ir.instrument import Instrument, VerifyEach, run_passes
from ..ir.pipeline import parse_pipeline
from ..ir.printing import PrintOptions, module_text
from ..ir.progress import tracked
from ..ir.safe_read import accessing
from ..ir.safe_write import PendingFiles
from ..ir.store import ParameterStore, StoreReference, save_arrays
from ..passes.universe import everything


@dataclass(frozen=True)
class Stage:
    """One step on the way to a target: a name, and a pass pipeline such as `canonicalize,cse`."""

    name: str
    pipeline: str


UNTIL_FUSED = (
    Stage("spiking", "lower-network,inline-spike-layers,lower-recurrent,convert-spike-to-tensor"),
    Stage("simplify", "canonicalize,cse,dce"),
    Stage("fold", "fold-constants{keep-packed=true},canonicalize,dce"),
    Stage("fuse", "fuse-linear,fold-constants{keep-packed=true},canonicalize,cse,dce"),
)
"""From spikes to fused products: what targets whose files are graphs have before emission."""


def run_stages(
    module: ModuleOp,
    stages: Sequence[Stage],
    *,
    dump_stages: Path | None = None,
    verify: bool = True,
    instruments: Sequence[Instrument] = (),
) -> None:
    """Run stages on `module` in place.

    Args:
        module: what they change.
        stages: in order.
        dump_stages: a folder where `00-input.mlir`, `01-NAME.mlir`, … show the IR at each point;
            those of the stages that ran are written even when one fails.
        verify: whether what a pass changed is checked after it, and all of the IR at the end; or
            by whoever takes it afterwards.
        instruments: that see each pass, of each stage anew.

    Raises:
        PassError: a pass refuses; the message names stage and pass.
        VerifyError: a pass leaves ill-formed IR.
    """
    import logging  # not before something is compiled: it takes a part of the start

    logger = logging.getLogger("triton_dsl")
    context = triton_context()
    available = everything().all_passes
    pipelines = [(stage, parse_pipeline(stage.pipeline, available)) for stage in stages]
    snapshots = [("input", module.clone())] if dump_stages is not None else []
    changes = ChangeVerifier()
    observers = [*instruments, *([VerifyEach(changes)] if verify else [])]
    try:
        for stage, passes in tracked(pipelines, "Stage", shown=False, name=lambda s: s[0].name):
            start = perf_counter()
            try:
                run_passes(context, module, passes, observers)
            except TritonError as error:
                error.args = (f"stage '{stage.name}': {error}", *error.args[1:])
                raise
            seconds = perf_counter() - start
            logger.info("stage %s: %s, %.3f s", stage.name, stage.pipeline, seconds)
            if dump_stages is not None:
                snapshots.append((stage.name, module.clone()))
        if verify:
            changes.finish(module)
    finally:
        if dump_stages is not None:
            _write_snapshots(dump_stages, snapshots)


def apply_passes(module: ModuleOp, pipeline: str) -> None:
    """Run a pass pipeline given as text on `module`; nothing where it is empty.

    Raises:
        PassError, VerifyError: see `run_stages`.
    """
    if pipeline:
        run_stages(module, [Stage("passes", pipeline)])


def located_text(module: ModuleOp) -> str:
    """The module as text with locations."""
    return module_text(module, PrintOptions(locations=True))


def _write_snapshots(folder: Path, snapshots: Sequence[tuple[str, ModuleOp]]) -> None:
    with accessing(f"cannot write '{folder}'"), PendingFiles() as pending:
        pending.make_folder(folder)
        reference = save_parameters(folder, [module for _, module in snapshots], pending)
        for index, (name, module) in enumerate(snapshots):
            if reference is not None:
                attach_store(module, ParameterStore(reference))
            pending.add(folder / f"{index:02}-{name}.mlir", located_text(module).encode())


def save_parameters(
    folder: Path, modules: Sequence[ModuleOp], pending: PendingFiles | None = None
) -> StoreReference | None:
    """Save every entry that some module names to `folder`; `None` when there are no values."""
    names: dict[str, ParameterStore] = {}
    for module in modules:
        if STORE_ATTRIBUTE in module.attributes:
            store = store_of(module)
            names |= {key: store for key in parameter_keys(module) if key in store}
    if not names:
        return None
    path = folder / "parameters.safetensors"
    arrays = {name: store.read(name) for name, store in names.items()}
    digest = save_arrays(path, arrays, pending)
    return StoreReference(path.name, digest, path)
