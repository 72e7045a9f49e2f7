"""A kernel with its arguments in memory, alone (`linear_call`) and for a team (`linear_task`).

One argument costs a call from Python far less than a dozen. A team is the threads of an OpenMP
runtime, which the caller starts on `linear_task`: each prepares its share of the rows, waits for
the others, and computes its share of the panels. The runtime's functions are not part of the
module: `runtime.native.threads` names them to the loader. Every size of the team gives the same
bits. Not here: which runtime that is, how many threads are worth it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute, Region, SSAValue

from ....runtime.native.abi.linear import (
    COMPUTE_ARGUMENTS,
    LINEAR_ARGUMENTS,
    PANEL,
    PREPARE_ARGUMENTS,
)
from ....runtime.native.abi.parallel import BARRIER, CALL, TASK, TEAM_SIZE, THREAD_NUMBER
from .code import POINTER, Code

_SIZES = ("rows", "ins", "outs", "batch")


def call_functions(*, parallel: bool) -> list[llvm.FuncOp]:
    """`linear_call`, and `linear_task` if asked for, see `abi.parallel`.

    They belong into a module with `linear`, `prepare` and `compute`.
    """
    functions = [_write_call()]
    if parallel:
        functions += [declared(BARRIER), declared(THREAD_NUMBER, i32), declared(TEAM_SIZE, i32)]
        functions.append(_write_task())
    return functions


def loaded(code: Code, names: Sequence[str]) -> dict[str, SSAValue]:
    """Arguments that stand where the only one of a function says, eight bytes each, by name."""
    memory = code.arguments[0]
    return {
        name: code.load(code.at(memory, 8 * i), i64 if name in _SIZES else POINTER)
        for i, name in enumerate(names)
    }


def declared(name: str, result: Attribute | None = None) -> llvm.FuncOp:
    """A function without arguments that the loader knows."""
    kind = llvm.LLVMFunctionType([], result)
    return llvm.FuncOp(name, kind, llvm.LinkageAttr("external"), body=Region())


class Member:
    """The thread of a team that a task runs in."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self.number = code.resize(code.ask(THREAD_NUMBER, i32), i64)
        self._count = code.resize(code.ask(TEAM_SIZE, i32), i64)

    def share(self, things: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The first of so many things that are its own, and the end of them."""
        code = self._code
        first, end = code.mul(things, self.number), code.mul(things, code.add(self.number, 1))
        return code.udiv(first, self._count), code.udiv(end, self._count)


def _write_call() -> llvm.FuncOp:
    code = Code(CALL, [POINTER])
    code.call("linear", *loaded(code, LINEAR_ARGUMENTS).values())
    return code.finish()


def _write_task() -> llvm.FuncOp:
    code = Code(TASK, [POINTER])
    values = loaded(code, LINEAR_ARGUMENTS)
    member = Member(code)

    def call(name: str, names: Sequence[str]) -> None:
        code.call(name, *(values[argument] for argument in names))

    values["first"], values["end"] = member.share(values["rows"])
    call("prepare", PREPARE_ARGUMENTS)
    code.call(BARRIER)
    outs = values["outs"]
    panels = code.udiv(code.add(outs, PANEL - 1), PANEL)
    first, end = (code.mul(bound, PANEL) for bound in member.share(panels))
    values["n0"], values["n1"] = first, code.minimum(end, outs)
    with code.when(code.icmp("slt", values["n0"], values["n1"])):
        call("compute", COMPUTE_ARGUMENTS)
    return code.finish()
