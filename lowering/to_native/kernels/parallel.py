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
from .code import POINTER, Code, function

_SIZES = ("rows", "ins", "outs")


def call_functions(*, parallel: bool) -> list[llvm.FuncOp]:
    """`linear_call`, and `linear_task` if asked for, see `abi.parallel`.

    They belong into a module with `linear`, `prepare` and `compute`.
    """
    functions = [function(CALL, [POINTER], _write_call)]
    if parallel:
        functions += [declared(BARRIER), declared(THREAD_NUMBER, i32), declared(TEAM_SIZE, i32)]
        functions.append(function(TASK, [POINTER], _write_task))
    return functions


def _arguments(code: Code, memory: SSAValue) -> dict[str, SSAValue]:
    kinds = {name: i64 if name in _SIZES else POINTER for name in LINEAR_ARGUMENTS}
    return {
        name: code.load(code.at(memory, 8 * i), kind)
        for i, (name, kind) in enumerate(kinds.items())
    }


def declared(name: str, result: Attribute | None = None) -> llvm.FuncOp:
    """A function without arguments that the loader knows."""
    kind = llvm.LLVMFunctionType([], result)
    return llvm.FuncOp(name, kind, llvm.LinkageAttr("external"), body=Region())


def _write_call(code: Code, arguments: Sequence[SSAValue]) -> None:
    code.call("linear", *_arguments(code, arguments[0]).values())


def _write_task(code: Code, arguments: Sequence[SSAValue]) -> None:
    values = _arguments(code, arguments[0])
    thread = code.widen(code.ask(THREAD_NUMBER, i32), i64)
    count = code.widen(code.ask(TEAM_SIZE, i32), i64)
    following = code.add(thread, code.constant(1))

    def share(things: SSAValue) -> tuple[SSAValue, SSAValue]:
        first, end = code.mul(things, thread), code.mul(things, following)
        return code.udiv(first, count), code.udiv(end, count)

    def call(name: str, names: Sequence[str]) -> None:
        code.call(name, *(values[argument] for argument in names))

    values["first"], values["end"] = share(values["rows"])
    call("prepare", PREPARE_ARGUMENTS)
    code.call(BARRIER)
    outs = values["outs"]
    panels = code.udiv(code.add(outs, code.constant(PANEL - 1)), code.constant(PANEL))
    first, end = (code.mul(bound, code.constant(PANEL)) for bound in share(panels))
    values["n0"], values["n1"] = first, code.minimum(end, outs)
    has_outputs = code.compare("slt", values["n0"], values["n1"])
    code.when(has_outputs, lambda: call("compute", COMPUTE_ARGUMENTS))
