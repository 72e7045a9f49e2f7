"""Targets: what a program can be compiled to, and the way from a module to an artefact.

A target declares its options and its ordered, named stages, and emits an `Artifact` from a module
that went through them. Built-in targets load on first use; other packages add theirs by an entry
point of the group `triton_dsl.targets` (a name and a class without constructor arguments), programs
by `register_target`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.arg_spec import ParameterType

from ..dialects.elements import numpy_dtype
from ..dialects.parameters import parameters, sparse_value
from ..ir.collection import rare_collection
from ..ir.errors import OptionError, ParameterError, UnsupportedError, did_you_mean
from ..ir.extras import plug_ins
from ..ir.pipeline import option_text
from ..ir.progress import doing
from .artifact import Artifact
from .emission import require_elements
from .models import Model, import_model
from .options import TargetOptions, parse_options, parse_target_spec
from .stages import Stage, run_stages
from .target import Target, source_hash

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ..ir.instrument import Instrument
    from .placement.run import Driver

__all__ = [
    "Stage",
    "Target",
    "TargetOptions",
    "compile_to_target",
    "get_all_targets",
    "get_target",
    "register_target",
]

ENTRY_POINTS = "triton_dsl.targets"


_BUILT_IN = {
    "pytorch": "to_pytorch.target:PyTorchTarget",
    "onnx": "to_onnx.target:OnnxTarget",
    "native": "to_native.target:NativeTarget",
    "c": "to_c.target:CTarget",
    "tflite": "to_tflite.target:TFLiteTarget",
    "verilog": "to_verilog.target:VerilogTarget",
    "nir": "to_nir.target:NirTarget",
    "loihi2": "to_loihi2.target:Loihi2Target",
    "spinnaker": "to_spinnaker.target:SpiNNakerTarget",
    "mlir": "to_mlir:MlirTarget",
}
"""Our own targets by name: the module below this package, and its class; compared in this order."""

_registered: dict[str, Callable[[], Target]] = {}


def register_target(name: str, factory: Callable[[], Target]) -> None:
    """Add a target, or put another in the place of one with the same name."""
    _registered[name] = factory


def get_all_targets() -> dict[str, Callable[[], Target]]:
    """Every target by name: built-in, from entry points, registered; the last one wins."""

    def entry(point: EntryPoint) -> Callable[[], Target]:
        return lambda: point.load()()

    def built_in(home: str) -> Callable[[], Target]:
        return lambda: resolve_name(f"{__package__}.{home}")()

    own = {name: built_in(home) for name, home in _BUILT_IN.items()}
    found = {point.name: entry(point) for point in plug_ins(ENTRY_POINTS)}
    return {**own, **found, **_registered}


def get_target(name: str) -> Target:
    """The target of that name.

    Raises:
        OptionError: there is none; the message has the nearest name, or all.
    """
    targets = get_all_targets()
    if name not in targets:
        known = f"; there are {', '.join(sorted(targets))}"
        raise OptionError(f"unknown target '{name}'{did_you_mean(name, targets) or known}")
    return targets[name]()


@rare_collection()
def compile_to_target(
    module: Model,
    target: str | Target,
    options: Mapping[str, object] | TargetOptions | None = None,
    *,
    output: Path | None = None,
    dump_stages: Path | None = None,
    instruments: Sequence[Instrument] = (),
) -> Artifact:
    """Run a target's stages on a copy of `module` and emit.

    Args:
        module: IR with a public `@forward`, which stays as it is; or the path of a file, see
            `models.import_model`.
        target: a name, a name with options (`"onnx{opset=17}"`), or a target.
        options: options by name, over those in the text; or the target's own options object.
        output: where the artefact will go, if that is known; a target may look at the suffix.
        dump_stages: a folder for the IR after each stage.
        instruments: that see each pass, of each stage anew.

    Raises:
        OptionError: unknown target or option.
        PassError, VerifyError: a stage fails.
        UnsupportedError: the target cannot express the program.
        ParameterError: weights are sparse, which the simulator alone runs.
    """
    target, parsed = _chosen(target, options)
    if output is not None:
        parsed = target.options_for(parsed, output)
    module = import_model(module)
    work = _staged(module, target, parsed, dump_stages, instruments)
    shown = _spec_text(target, parsed)
    try:
        with doing(f"Writing for {target.name}"):
            artifact = target.emit(work, parsed)
    except UnsupportedError as error:
        if error.reproduce:
            raise
        command = f"triton-translate -t '{shown}' {_source_file(error) or 'FILE'}"
        raise UnsupportedError(
            error.target, error.problems, reproduce=command, hint=error.hint
        ) from None
    if target.seals:
        artifact = artifact.with_seals()
    return artifact.with_manifest(
        name=artifact.name,
        target=shown,
        pipeline=[
            {"stage": stage.name, "passes": stage.pipeline} for stage in target.stages(parsed)
        ],
        source_sha256=source_hash(module),
        tool=_tool_version(),
    )


def driver(
    module: ModuleOp, target: str | Target, options: Mapping[str, object] | None = None
) -> Driver | None:
    """What runs a program and says what the neurons do that a target's files have.

    Args and errors as for `compile_to_target`.

    Returns:
        `None` of targets that put no neurons on cores.
    """
    target, parsed = _chosen(target, options)
    return target.driver(_staged(module, target, parsed), parsed)


def _chosen(
    target: str | Target, options: Mapping[str, object] | TargetOptions | None
) -> tuple[Target, TargetOptions]:
    """A target and its options."""
    values: dict[str, object] = {}
    if isinstance(target, str):
        spec = parse_target_spec(target)
        values.update(spec.options)
        target = get_target(spec.name)
    if isinstance(options, TargetOptions):
        if values:
            raise OptionError("give options in the target's text or as an object, not both")
        return target, options
    return target, read_options(target, values, options or {})


def _staged(
    module: ModuleOp,
    target: Target,
    options: TargetOptions,
    dump_stages: Path | None = None,
    instruments: Sequence[Instrument] = (),
) -> ModuleOp:
    """A copy of a module that went through the stages of a target."""
    work = module.clone()
    require_elements(work, target.name, numpy_dtype)
    _refuse_sparse(work, target.name)
    target.prepare(work, options)
    stages = target.stages(options)
    run_stages(work, stages, dump_stages=dump_stages, instruments=instruments)
    return work


def _refuse_sparse(module: ModuleOp, target: str) -> None:
    keys = [op.key.data for op in parameters(module) if sparse_value(op) is not None]
    if keys:
        raise ParameterError(
            f"target '{target}' takes no sparse weights ({', '.join(keys)}): run the program in "
            "the simulator, or give the weights with their zeros"
        )


def read_options(target: Target, *values: Mapping[str, object]) -> TargetOptions:
    """A target's options by name, written with `-` or `_`; later ones win.

    Raises:
        OptionError: an unknown name, or a value of the wrong type.
    """
    merged = {name.replace("_", "-"): value for given in values for name, value in given.items()}
    return parse_options(target.Options, target.name, merged)


def _spec_text(target: Target, options: TargetOptions) -> str:
    given = [
        option_text(field.name, _values(getattr(options, field.name)))
        for field in fields(options)
        if getattr(options, field.name) != field.default
    ]
    return f"{target.name}{{{' '.join(given)}}}" if given else target.name


def _values(value: ParameterType | tuple[ParameterType, ...] | None) -> tuple[ParameterType, ...]:
    if isinstance(value, tuple):
        return value
    return () if value is None else (value,)


def _source_file(error: UnsupportedError) -> str | None:
    """The file that the locations name, when they name one."""
    files = {place.rsplit(":", 2)[0] for _, place, _ in error.problems if place.count(":") >= 2}
    return files.pop() if len(files) == 1 else None


def _tool_version() -> str:
    from importlib.metadata import version

    return f"triton-dsl {version('triton-dsl')}"
