"""Modules of `hw` from their inputs, outputs and body; not here: what stands in a body."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import hw
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Block, Region, TypeAttribute

from ....ir.printing import value_name

Signature = tuple[Sequence[tuple[str, TypeAttribute]], Sequence[tuple[str, TypeAttribute]]]
"""Names and types of the inputs and of the outputs of a module."""


def module_type(signature: Signature) -> hw.ModuleType:
    """The type of a module with those inputs and outputs."""
    directions = hw.Direction.INPUT, hw.Direction.OUTPUT
    return hw.ModuleType(
        ArrayAttr(
            [
                hw.ModulePort(StringAttr(name), type, hw.DirectionAttr(direction))
                for direction, side in zip(directions, signature, strict=True)
                for name, type in side
            ]
        )
    )


def hw_module(name: str, signature: Signature, block: Block) -> hw.HWModuleOp:
    """A module with those inputs and outputs, whose body is `block`."""
    for argument, (hint, _) in zip(block.args, signature[0], strict=True):
        argument.name_hint = value_name(hint)
    return hw.HWModuleOp(StringAttr(name), module_type(signature), Region(block))
