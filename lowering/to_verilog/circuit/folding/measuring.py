"""What a network with chosen forms really takes: its interval, and its area by the estimate.

Closed formulas (`costs`) foresee products alone. The circuit has windows, gathering and stages that
wait for each other besides, so that a goal is compared with a circuit that was built. Not here:
which forms are tried (`reaching`).
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from .....ir.pipeline import parse_pipeline
from ...estimate.areas import Cost, areas_of
from ...estimate.estimate import estimate
from .. import ConvertTernaryToHwPass
from ..interface import noted_interface
from .choice import Measured


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
    """Build a circuit and measure it: its interval exactly, its area by the estimate.

    Args:
        ctx: of the passes.
        module: the program, with forms; it becomes the circuit.
        conversion: how the circuit is made.
        sized: whether its area is asked for.

    Raises:
        UnsupportedError: ops that cannot become hardware.
    """
    conversion.apply(ctx, module)
    interface = noted_interface(module)
    if not sized:
        return Measured(interface.interval)
    total = estimate(module, conversion.device, interface.name).total
    cost = Cost(total.luts, total.flip_flops)
    blocks = areas_of(conversion.device).in_blocks(total.block_memories)
    return Measured(interface.interval, cost + blocks)
