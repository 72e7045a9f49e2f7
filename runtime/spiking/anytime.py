"""What a spiking program answers after each step of its run, and not at the end alone.

Trains do not depend on later steps, so that the first t steps of a run are a run of t steps; a
decoder then reads them. Only what comes after the decoders is computed once for each step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from ...dialects import spike
from ...dialects.interpret import evaluate, run_module
from ...ir.arrays import Array
from ...ir.errors import OptionError
from ...ir.interpreter import entry_function
from ...ir.locations import location_text


def answers(module: ModuleOp, inputs: Sequence[Array], function: str = "forward") -> Array:
    """The first result of a function after 1, 2, … T steps, [T, …].

    What the decoders of the program read is cut to so many steps. Without decoders the result has
    time first: a train is read by its rates up to each step, and a trace by its steps.

    Args:
        module: a verified module.
        inputs: one array an argument.
        function: the name of the function.

    Raises:
        OptionError: a function is called with what was decoded.
        TritonError: see `run_module`.
    """
    block = entry_function(module, function).body.block
    decoders, after = _decoders(block)
    needed = {operand for op in (*decoders, *after) for operand in op.operands}
    values: dict[SSAValue, Array] = dict(zip(block.args, inputs, strict=True))

    def keep(op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> None:
        values.update((v, r) for v, r in zip(op.results, results, strict=True) if v in needed)

    output = run_module(module, inputs, function, keep)[0]
    if not decoders:
        return _read(output)
    steps = max(len(values[op.operand]) for op in decoders)
    return np.stack([_after(t + 1, decoders, after, values) for t in range(steps)])


def _decoders(block: Block) -> tuple[list[spike.DecodeOp], list[Operation]]:
    """The first decoders of the function, and the ops that depend on them, the return last."""
    decoders: list[spike.DecodeOp] = []
    after: list[Operation] = []
    decoded: set[SSAValue] = set()
    for op in block.ops:
        if any(operand in decoded for operand in op.operands):
            if isinstance(op, CallOp):
                raise OptionError(
                    f"{location_text(op)}: answers after each step need the call inlined"
                )
            after.append(op)
            decoded.update(op.results)
        elif isinstance(op, spike.DecodeOp):
            decoders.append(op)
            decoded.add(op.result)
        elif isinstance(op, ReturnOp):
            after.append(op)
    return decoders, after


def _after(
    steps: int,
    decoders: Sequence[spike.DecodeOp],
    after: Sequence[Operation],
    values: dict[SSAValue, Array],
) -> Array:
    """The first result when the decoders see `steps` steps."""
    known = dict(values)
    for op in decoders:
        (known[op.result],) = evaluate(op, [known[op.operand][:steps]])
    for op in after:
        operands = [known[operand] for operand in op.operands]
        if isinstance(op, ReturnOp):
            return operands[0]
        known.update(zip(op.results, evaluate(op, operands), strict=True))
    raise AssertionError("a function ends in its return")


def _read(output: Array) -> Array:
    if output.dtype != np.bool_:
        return output
    steps = np.arange(1, len(output) + 1).reshape(-1, *[1] * (output.ndim - 1))
    return np.cumsum(output, axis=0) / steps
