"""Modules of `hw` from their inputs, outputs and body; not here: what stands in a body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import hw
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue, TypeAttribute

from ....ir.printing import value_name
from .circuit import COMMENT

AnyModule = hw.HWModuleOp | hw.HWModuleExternOp
"""A module with a body, or a memory."""

Ports = Sequence[tuple[str, Attribute]]
"""Names and types."""


def module_type(inputs: Ports, outputs: Ports) -> hw.ModuleType:
    """The type of a module with those inputs and outputs."""
    sides = (inputs, hw.Direction.INPUT), (outputs, hw.Direction.OUTPUT)
    return hw.ModuleType(
        ArrayAttr(
            [
                hw.ModulePort(
                    StringAttr(name), cast("TypeAttribute", type), hw.DirectionAttr(direction)
                )
                for side, direction in sides
                for name, type in side
            ]
        )
    )


def named_ports(module: hw.HWModuleOp) -> tuple[dict[str, SSAValue], dict[str, SSAValue]]:
    """The values of a module's inputs and those of its outputs, by name."""
    names: dict[bool, list[str]] = {True: [], False: []}
    for port in module.module_type.ports.data:
        names[port.dir.data == hw.Direction.INPUT].append(port.port_name.data)
    block = module.body.block
    assert isinstance(block.last_op, hw.OutputOp)
    arguments: dict[str, SSAValue] = dict(zip(names[True], block.args, strict=True))
    return arguments, dict(zip(names[False], block.last_op.inputs, strict=True))


def hw_module(
    name: str,
    comment: str,
    inputs: Ports,
    outputs: Sequence[tuple[str, SSAValue]],
    block: Block,
) -> hw.HWModuleOp:
    """A module with those inputs, whose body is `block`, which gives those outputs.

    Args:
        inputs: the arguments of the block.
        block: all but its last op.
    """
    for argument, (hint, _) in zip(block.args, inputs, strict=True):
        argument.name_hint = value_name(hint)
    block.add_op(hw.OutputOp([value for _, value in outputs]))
    type = module_type(inputs, [(port, value.type) for port, value in outputs])
    module = hw.HWModuleOp(StringAttr(name), type, Region(block))
    module.attributes[COMMENT] = StringAttr(comment)
    return module
