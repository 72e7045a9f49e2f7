"""Engines: what runs what a target makes of a program, so that it can be compared.

A target names its engine (`Target.engine`), which stands in the target's folder and loads on first
use. Not here: the reference interpreter, and what runs models that a program came from (`sources`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Self

from ..dialects.registry import triton_context
from ..ir.arrays import Array
from ..ir.errors import OptionError
from ..ir.interpreter import entry_function
from ..passes.analysis.time_axis import has_time_first
from ..passes.infer_shapes import InferShapesPass
from .models import Model, import_for
from .options import parse_target_spec
from .targets import compile_to_target, get_target

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from .artifact import Artifact
    from .target import Target


class Engine(ABC):
    """A program in the form of a target, and what runs it.

    Attributes:
        name: of the engine with its version; known after a run.
        size: of what the target made in bytes; for `native` of code and constants.
    """

    name: str = "none"
    size: int

    @classmethod
    @abstractmethod
    def of(cls, module: ModuleOp, target: Target, options: Mapping[str, object]) -> Self:
        """The engine of a program, compiled with options by name; the module stays as it is.

        Raises:
            TritonError: the program does not compile.
        """

    @abstractmethod
    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The results for inputs of `@forward`, in order.

        Raises:
            BackendError: the engine is not installed, or refuses the program or the inputs.
        """


class ArtifactEngine(Engine):
    """An engine that runs the files of a target.

    Args:
        artifact: the files.
    """

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.size = sum(len(content) for content in artifact.files.values())

    @classmethod
    def of(cls, module: ModuleOp, target: Target, options: Mapping[str, object]) -> Self:
        """See `Engine.of`. Checks that a target makes of what it writes are left out: whoever asks
        for an engine makes them, with the difference told."""
        known = {field.name for field in fields(target.Options)}
        off = {"self_check": False} if "self_check" in known else {}
        return cls(compile_to_target(module, target, {**options, **off}))


def engine_type(target: Target) -> type[Engine]:
    """The engine that a target names.

    Raises:
        OptionError: it names none.
    """
    if target.engine is None:
        raise OptionError(f"target '{target.name}' has no engine to verify it on")
    return resolve_name(target.engine) if isinstance(target.engine, str) else target.engine


def fit_steps(module: ModuleOp, target: str, inputs: Sequence[Array]) -> ModuleOp:
    """A program with the steps of its inputs where it leaves them open and the target cannot.

    Args:
        module: which stays as it is; it is given back where there is nothing to fix.
        target: with its options.
        inputs: of `@forward`, in order.
    """
    if not get_target(parse_target_spec(target).name).known_steps:
        return module
    arguments = zip(entry_function(module, "forward").args, inputs, strict=False)
    steps = {len(x) for a, x in arguments if has_time_first(a) and len(x)}
    if len(steps) != 1:
        return module
    fitting = module.clone()
    InferShapesPass(timesteps=steps.pop()).apply(triton_context(), fitting)
    return fitting


def engine_of(module: ModuleOp, target: str) -> Engine:
    """A program compiled to a target, given with its options, in the target's engine.

    Raises:
        OptionError: no such target, or one without an engine.
        TritonError: the program does not compile.
    """
    spec = parse_target_spec(target)
    found = get_target(spec.name)
    return engine_type(found).of(module, found, spec.options)


def run_target(module: Model, target: str, inputs: Sequence[Array]) -> tuple[str, list[Array], int]:
    """Compile a model to a target and run it: the engine's name, the outputs, the artefact's size.

    Args:
        module: IR, or what it is imported from, see `models.import_for`.
        target: with its options.
        inputs: of `@forward`, in order.

    Raises:
        OptionError: no engine runs this target.
        TritonError: the program does not compile or run.
    """
    engine = engine_of(fit_steps(import_for(module, inputs), target, inputs), target)
    outputs = engine.run(inputs)
    return engine.name, outputs, engine.size


def run_artifact(
    target: str, artifact: Artifact, inputs: Sequence[Array]
) -> tuple[str, list[Array]]:
    """Run an artefact on its engine; the engine's name and version, and the outputs.

    Raises:
        OptionError: no such target, or none whose files an engine runs.
    """
    found = get_target(parse_target_spec(target).name)
    kind = engine_type(found)
    if not issubclass(kind, ArtifactEngine):
        raise OptionError(f"the engine of target '{found.name}' compiles programs by itself")
    engine = kind(artifact)
    outputs = engine.run(inputs)
    return engine.name, outputs
