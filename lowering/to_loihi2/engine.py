"""What runs the target `loihi2`: the script in Lava, where that is found, else our simulator.

The simulator is the program in fixed point itself, in native code; it gives the bits of Lava.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from xdsl.dialects.builtin import i1

from ...dialects.spike.types import dense_type
from ...ir.arrays import Array
from ...ir.interpreter import entry_function
from ...runtime.lava import lava_python, run_script
from ...runtime.spiking.simulator import Simulator
from ..emission import UnsupportedOps
from ..engine import Engine
from ..simulator import simulator
from ..stages import run_stages
from ..targets import compile_to_target, read_options
from .network import network_of
from .script import result_keys

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..artifact import Artifact
    from ..target import Target


SIMULATOR = "Triton DSL's simulator of Loihi 2"


class Loihi2Engine(Engine):
    """A program in fixed point, and its files.

    Args:
        module: after the stages of the target.
        artifact: the files.
    """

    def __init__(self, module: ModuleOp, artifact: Artifact) -> None:
        self.module, self.artifact = module, artifact
        self.size = sum(len(content) for content in artifact.files.values())

    @classmethod
    def of(cls, module: ModuleOp, target: Target, options: Mapping[str, object]) -> Self:
        """See `Engine.of`."""
        return cls.staged(module, target, options, compile_to_target(module, target, options))

    @classmethod
    def staged(
        cls, module: ModuleOp, target: Target, options: Mapping[str, object], artifact: Artifact
    ) -> Self:
        """The engine of a program whose files are there."""
        work = module.clone()
        run_stages(work, target.stages(read_options(target, options)))
        return cls(work, artifact)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Engine.run`."""
        found = lava_python()
        if found is None or "network.py" not in self.artifact.files:
            self.name = SIMULATOR
            return self.simulated(inputs)
        self.name = f"lava-nc {found[1]} (fixed_pt)"
        function = entry_function(self.module, "forward")
        network = network_of(function, UnsupportedOps("loihi2"))
        given = {part.name: x for part, x in zip(network.inputs, inputs, strict=True)}
        results = run_script(self.artifact.files, given)
        end = function.body.block.last_op
        assert end is not None
        values = zip(end.operands, (results[key] for key in result_keys(network)), strict=True)
        return [x.astype(np.bool_) if dense_type(v).element_type == i1 else x for v, x in values]

    def simulated(self, inputs: Sequence[Array]) -> list[Array]:
        """What our simulator gives."""
        self._simulator.reset()
        return self._simulator.run(inputs)

    @cached_property
    def _simulator(self) -> Simulator:
        return simulator(self.module)
