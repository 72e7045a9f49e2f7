"""Which parameters a generated module has: those of the program, also once no op reads them.

Passes remove unused parameter ops, but `state_dict` keeps the keys of the source program. So the
list is noted on the module before the stages run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import tensor, ternary
from ...dialects.parameters import ParameterLike, parameters
from ...dialects.shapes import AnyTensor
from .state import State

DECLARED = "pytorch.parameters"
"""Module attribute: key, type and kind of every parameter."""


def remember_parameters(module: ModuleOp) -> None:
    """Note the parameters of a module on it."""
    module.attributes[DECLARED] = ArrayAttr(
        [
            ArrayAttr([op.key, op.result.type, BoolAttr.from_bool(_is_buffer(op))])
            for op in parameters(module)
        ]
    )


def _is_buffer(op: ParameterLike) -> bool:
    return isinstance(op, ternary.ParameterOp) or op.buffer is not None


def declared_keys(module: ModuleOp) -> list[str]:
    """The keys of the parameters that the generated module has."""
    return list(declare_state(module).entries)


def declare_state(module: ModuleOp) -> State:
    """The parameters noted on the module, then those that passes added.

    A noted parameter that no op reads is kept if the store was not changed by folding, that is
    while every op's key is noted too.
    """
    state = State()
    present = list(parameters(module))
    noted = list(_noted(module))
    if {op.key.data for op in present} <= {op.key.data for op in noted}:
        for op in noted:
            state.declare(op)
    for op in present:
        entry = state.declare(op)
        for use in op.result.uses:
            entry.latent |= isinstance(use.operation, ternary.TernarizeOp)
            if _scales(use.operation, op.result):
                entry.initial = "ones"
    return state


def _noted(module: ModuleOp) -> Iterator[ParameterLike]:
    noted = module.attributes.get(DECLARED)
    for entry in cast("ArrayAttr[ArrayAttr[Attribute]]", noted or ArrayAttr[Attribute]([])):
        key, type, buffer = entry
        known = cast(AnyTensor, type)
        name = cast(StringAttr, key).data
        if isinstance(known.element_type, ternary.TritType):
            yield ternary.ParameterOp(name, known.get_shape())
        else:
            yield tensor.ParameterOp(name, known, buffer=bool(cast(BoolAttr, buffer).value.data))


def _scales(user: Operation, value: SSAValue) -> bool:
    """Whether `user` multiplies or divides by `value`, so that zeros are no start."""
    match user:
        case tensor.BatchNormOp():
            return value in (user.scale, user.variance)
        case tensor.LayerNormOp() | tensor.RmsNormOp():
            return value is user.scale
        case _:
            return False
