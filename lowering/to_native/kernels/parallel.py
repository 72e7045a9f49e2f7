"""A kernel with its arguments in memory, whole (`linear_call`) and in parts (`linear_part`).

One argument costs a call from Python far less than a dozen. Several threads prepare rows, then
compute panels, each as much as it gets to; every number of threads gives the same bits. Not here:
who takes which part, how many threads are worth it (`runtime.native`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import (
    COMPUTE_ARGUMENTS,
    LINEAR_ARGUMENTS,
    PANEL,
    PREPARE_ARGUMENTS,
)
from ....runtime.native.abi.parallel import CALL, PART
from .code import POINTER, Code

_SIZES = ("rows", "ins", "outs", "batch")
PART_ARGUMENTS = (POINTER, i64, i64, i64, i64)
"""Of every part: arguments, phase, first, end, member."""


def call_functions() -> list[llvm.FuncOp]:
    """`linear_call` and `linear_part`, see `abi.parallel`.

    They belong into a module with `linear`, `prepare` and `compute`.
    """
    return [_write_call(), _write_part()]


def loaded(code: Code, names: Sequence[str]) -> dict[str, SSAValue]:
    """Arguments that stand where the first one of a function says, eight bytes each, by name."""
    memory = code.arguments[0]
    return {
        name: code.load(code.at(memory, 8 * i), i64 if name in _SIZES else POINTER)
        for i, name in enumerate(names)
    }


def _write_call() -> llvm.FuncOp:
    code = Code(CALL, [POINTER])
    code.call("linear", *loaded(code, LINEAR_ARGUMENTS).values())
    return code.finish()


def _write_part() -> llvm.FuncOp:
    code = Code(PART, PART_ARGUMENTS)
    values = loaded(code, LINEAR_ARGUMENTS)
    _, phase, first, end, _ = code.arguments
    values["first"], values["end"] = first, end
    values["n0"] = code.mul(first, PANEL)
    values["n1"] = code.minimum(code.mul(end, PANEL), values["outs"])
    for number, (name, names) in enumerate(
        (("prepare", PREPARE_ARGUMENTS), ("compute", COMPUTE_ARGUMENTS))
    ):
        with code.when(code.icmp("eq", phase, number)):
            code.call(name, *(values[argument] for argument in names))
    return code.finish()
