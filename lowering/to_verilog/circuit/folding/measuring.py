"""What a network with chosen forms really takes: its interval, and its area by the estimate.

Closed formulas (`costs`) foresee products alone. The circuit has windows, gathering and stages that
wait for each other besides, so that a goal is compared with a circuit that was built. Not here:
which forms are tried (`reaching`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr

from .....ir.pipeline import parse_pipeline
from ...estimate.estimate import estimate
from ...estimate.families import FAMILIES
from .. import ConvertTernaryToHwPass
from ..ports import INTERFACE
from .rom_styles import LUTS_OF_A_BLOCK


@dataclass(frozen=True)
class Measured:
    """A circuit.

    Attributes:
        interval: cycles from frame to frame, exactly.
        luts: look-up tables of all of it, by the estimate; 0 where nobody asks.
        blocks: memories of 18 Kbit; likewise.
    """

    interval: int
    luts: int = 0
    blocks: int = 0

    @property
    def area(self) -> int:
        """LUTs, with memories counted as those that a device has for each."""
        return self.luts + LUTS_OF_A_BLOCK * self.blocks


def conversion_pass(options: str) -> ConvertTernaryToHwPass:
    """`convert-ternary-to-hw` with options as a pipeline has them.

    Raises:
        PipelineError: they are not its options.
        OptionError: one is out of its range.
    """
    name = ConvertTernaryToHwPass.name
    (conversion,) = parse_pipeline(f"{name}{{{options}}}", {name: lambda: ConvertTernaryToHwPass})
    assert isinstance(conversion, ConvertTernaryToHwPass)
    return conversion


def measured(
    ctx: Context, module: ModuleOp, conversion: ConvertTernaryToHwPass, *, sized: bool
) -> Measured:
    """Build a circuit and measure it.

    Args:
        ctx: of the passes.
        module: the program, with forms; it becomes the circuit.
        conversion: how the circuit is made.
        sized: whether its area is asked for.

    Raises:
        UnsupportedError: ops that cannot become hardware.
    """
    conversion.apply(ctx, module)
    noted = cast("DictionaryAttr", module.attributes[INTERFACE]).data
    name, interval = cast("StringAttr", noted["name"]), cast("IntegerAttr", noted["interval"])
    if not sized:
        return Measured(interval.value.data)
    family = next(family for family in FAMILIES if conversion.device.startswith(family))
    total = estimate(module, family, name.data, conversion.device).total
    return Measured(interval.value.data, total.luts, total.block_memories)
