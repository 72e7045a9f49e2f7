"""What a program becomes in memory: the steps that C is written of. Not here: C (`text`)."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ..to_native.free_sizes import free_sizes
from ..to_native.kernels.recipes import RECIPES
from ..to_native.program import padding, random_spikes, shapes, spiking, structured
from ..to_native.program.planning import forward_of, plan_function
from ..to_native.program.program import Planner, Program
from ..to_native.program.schedule import in_order
from . import expressions, products
from .fusion import fuse
from .in_place import keep_in_place
from .narrowing import narrow

RULES: Mapping[type[Operation], Planner] = {
    **shapes.RULES,
    **structured.RULES,
    **padding.RULES,
    **random_spikes.RULES,
    **spiking.TRAINS,
    **products.RULES,
}
"""For each op the function that plans it."""

TARGET = "c"


def planned(module: ModuleOp) -> Program:
    """The steps of a program.

    Args:
        module: what the stages made.

    Raises:
        UnsupportedError: names every op that has no form in C.
    """
    module = module.clone()
    function = forward_of(module, TARGET)
    program = Program(RECIPES[-1], "float32", function, RULES, expressions.RULES, TARGET, in_order)
    outputs = plan_function(program, module, free_sizes(function).shapes)
    keep_in_place(program.steps)
    narrow(program.steps)
    fuse(program, [view.buffer for view in outputs])
    return program
