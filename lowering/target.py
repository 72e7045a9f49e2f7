"""What a target is: its options, its ordered stages, and how it emits. Not here: the table of them.

A target declares its options and its ordered, named stages, and emits an `Artifact` from a module
that went through them. `targets` finds one by name and compiles.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import numpy as np
from typing_extensions import TypeVar
from xdsl.dialects.builtin import ModuleOp

from ..dialects.parameters import parameter_keys, store_of
from ..dialects.tensor.storage import STORE_ATTRIBUTE
from .artifact import Artifact
from .options import TargetOptions
from .stages import Stage, located_text

if TYPE_CHECKING:
    from .engine import Engine
    from .placement.run import Driver


OptionsT = TypeVar("OptionsT", bound=TargetOptions, default=Any)


class Target(ABC, Generic[OptionsT]):
    """Something a program can be compiled to.

    Attributes:
        name: as written on the command line.
        description: one line for `--list-targets`.
        Options: a frozen dataclass of the target's options, see `lowering.options`.
        engine_package: the module of Python that the engine needs, for a target that is compared
            with the others, where it is installed, without being asked for; else `None`.
        known_steps: whether it runs neurons for a number of steps that the program says; who runs a
            program with steps left open fixes those of the inputs.
        holds_graded: whether numbers, not spikes alone, may go from neurons to neurons.
        subtracts: whether neurons can lose their threshold at a spike, and not all they have.
        engine: what runs what it makes (`engine.Engine`), or where that stands,
            `package.module:Class`; `None` where nothing does.
        seals: whether its files may carry their SHA-256 (`ir.seal`): not where one tells that of
            another.
        backend: who deploys what it makes on a machine (`neuromorphic.backend`), or where that
            stands; `None` where nobody does.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    Options: ClassVar[type[TargetOptions]] = TargetOptions
    engine: ClassVar[type[Engine] | str | None] = None
    engine_package: ClassVar[str | None] = None
    backend: ClassVar[type | str | None] = None
    known_steps: ClassVar[bool] = False
    holds_graded: ClassVar[bool] = True
    subtracts: ClassVar[bool] = True
    seals: ClassVar[bool] = True

    def options_for(self, options: OptionsT, output: Path) -> OptionsT:
        """The options for an artefact that goes to `output`, whose suffix may say something.

        Raises:
            OptionError: the options and the path contradict each other.
        """
        del output
        return options

    def prepare(self, module: ModuleOp, options: OptionsT) -> None:
        """Look at the module as the program gave it, or note something on it; `stages` run next."""
        del module, options

    def stages(self, options: OptionsT) -> Sequence[Stage]:
        """The stages that a module goes through before `emit`, in order."""
        del options
        return STANDARD_STAGES

    def driver(self, module: ModuleOp, options: OptionsT) -> Driver | None:
        """What runs a module that went through the stages, and says what the neurons do that its
        files have; `None` of targets that put no neurons on cores."""
        del module, options
        return None

    @abstractmethod
    def emit(self, module: ModuleOp, options: OptionsT) -> Artifact:
        """The artefact of a module that went through the stages.

        Raises:
            UnsupportedError: names every op that the target cannot express.
        """


STANDARD_STAGES: tuple[Stage, ...] = (Stage("simplify", "canonicalize,cse,dce"),)
"""What every target that works on whole tensors starts with."""


def source_hash(module: ModuleOp) -> str:
    """The SHA-256 of a module: its text, and the weights it names that are in no file."""
    digest = hashlib.sha256(located_text(module).encode())
    added = parameter_keys(module)
    if added and STORE_ATTRIBUTE in module.attributes:
        store = store_of(module)
        for name in sorted(added.intersection(store.added_names)):
            array = store.read(name)
            digest.update(f"\0{name}\0{array.dtype}\0{array.shape}\0".encode())
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
