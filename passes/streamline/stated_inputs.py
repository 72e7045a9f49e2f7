"""What the user says that float arguments hold: `x:int8*0.5`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ...ir.errors import OptionError
from ...ir.value_names import argument_names

_FORM = re.compile(r"(bipolar|u?int[1-8])(?:\*([0-9.eE+-]+))?")


@dataclass(frozen=True)
class StatedInput:
    """scale·n for all integers n of `low` to `high`; scale·(2·n - 1) of signs.

    Attributes:
        low: the least integer.
        high: the largest one.
        scale: above 0.
        of_sign: whether the values are -scale and scale.
    """

    low: int
    high: int
    scale: float
    of_sign: bool = False


def stated_inputs(text: str | None, function: FuncOp) -> dict[SSAValue, StatedInput]:
    """What `text` says of the arguments of a function.

    Raises:
        OptionError: it names no float argument, or one twice, or says no type.
    """
    if text is None:
        return {}
    arguments = dict(zip(argument_names(function), function.body.block.args, strict=True))
    stated: dict[SSAValue, StatedInput] = {}
    for part in text.split(";"):
        name, _, form = part.strip().partition(":")
        value = arguments.get(name.strip())
        if value is None:
            raise OptionError(
                f"inputs: no argument is called '{name.strip()}'; there are {', '.join(arguments)}"
            )
        if not isinstance(value.type, TensorType) or value.type.element_type != f32:
            raise OptionError(f"inputs: '{name.strip()}' is {value.type}, and no tensor of f32")
        if value in stated:
            raise OptionError(f"inputs: '{name.strip()}' is stated twice")
        stated[value] = _stated(form.strip())
    return stated


def _stated(form: str) -> StatedInput:
    match = _FORM.fullmatch(form)
    try:
        scale = float(match[2] or 1) if match else 0.0
    except ValueError:
        scale = 0.0
    if match is None or form.startswith("int1") or not 1e-30 < scale < 1e30:
        raise OptionError(
            f"inputs: '{form}' is no type; it is int2 to int8, uint1 to uint8 or bipolar, with a "
            "scale above 0 behind: x:int8*0.5"
        )
    kind = match[1]
    if kind == "bipolar":
        return StatedInput(0, 1, scale, of_sign=True)
    bits = int(kind[-1])
    if kind.startswith("u"):
        return StatedInput(0, (1 << bits) - 1, scale)
    return StatedInput(-(1 << (bits - 1)), (1 << (bits - 1)) - 1, scale)
