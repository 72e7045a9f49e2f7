"""Biases with which the mean results of quantised layers are what they were in float.

Rounding what enters a layer moves the mean of what leaves it; a bias takes that back (Nagel et al.
2019, "Data-free quantization through weight equalization and bias correction", section 4.2, with
the means taken on samples, as in appendix D). Layers are corrected one after the other, each behind
those that are corrected already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ...dialects import interpret, ternary
from ...dialects.elements import numpy_dtype
from ...dialects.inference import InferredOp, tensor_type
from ...dialects.interpret import run_module
from ...dialects.parameters import Array
from ...ir.errors import PassError
from ..analysis.compile_time import literal
from ..analysis.layers import Layer, channel_axis, is_layer, options_of, rebuilt
from ..analysis.replacement import insert_before, replace

Means = NDArray[np.float64]


def correctable(op: Operation) -> TypeGuard[Layer]:
    """Whether `op` is a layer whose bias can be changed: nothing quantises its sums."""
    return is_layer(op) and not {"thresholds", "multiplier"} & set(options_of(op))


def mean_sums(
    module: ModuleOp,
    function: FuncOp,
    layers: Sequence[Layer],
    samples: Iterable[Sequence[Array]],
) -> list[Means]:
    """The mean of each channel of what layers give before their activation, over samples.

    Args:
        module: the program.
        function: its function.
        layers: layers of the function for which `correctable` holds.
        samples: batches, each with one array an argument of the function; gone over once.

    Raises:
        PassError: there are no samples.
    """
    watched = {op: _without_activation(op) for op in layers}
    sums: dict[Layer, Means | float] = dict.fromkeys(watched, 0.0)
    counts: dict[Layer, int] = dict.fromkeys(watched, 0)

    def observe(op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> None:
        if is_layer(op) and op in watched:
            total, count = _channel_sums(watched[op], operands)
            sums[op], counts[op] = sums[op] + total, counts[op] + count

    for batch in samples:
        run_module(module, batch, function.sym_name.data, observe)
    if layers and not all(counts.values()):
        raise PassError("bias correction needs at least one sample")
    return [np.asarray(sums[op]) / counts[op] for op in layers]


def correct_biases(
    module: ModuleOp,
    function: FuncOp,
    wanted: Mapping[Layer, Means],
    samples: Iterable[Sequence[Array]],
) -> dict[Operation, Operation]:
    """Change the biases of layers so that the means of what they give are those wanted.

    Args:
        module: the program, changed in place.
        function: its function, of one block.
        wanted: for layers in the function's body, what `mean_sums` is to give.
        samples: batches, each with one array an argument of the function; all are kept at once.

    Returns:
        the layers in the place of those given.
    """
    batches = list(samples)
    replaced: dict[Operation, Operation] = {}
    block = function.body.block
    values: dict[SSAValue, list[Array]] = {
        argument: list(arrays)
        for argument, arrays in zip(block.args, zip(*batches, strict=True), strict=True)
    }
    ops = [op for op in block.ops if not isinstance(op, ReturnOp)]
    last = {value: op for op in ops for value in op.operands}
    for op in ops:
        operands = list(op.operands)
        inputs = [[values[v][n] for v in operands] for n in range(len(batches))]
        current: Operation = op
        if is_layer(op) and op in wanted:
            sums = [_channel_sums(_without_activation(op), arrays) for arrays in inputs]
            mean = sum(total for total, _ in sums) / sum(count for _, count in sums)
            old = op.result
            bias = options_of(op).get("bias")
            before = 0.0 if bias is None else values[bias][0].astype(np.float64)
            current, bias, array = _with_bias(module, op, before + wanted[op] - mean)
            replaced[op] = current
            values[bias] = [array] * len(batches)
            inputs = [[values[v][n] for v in current.operands] for n in range(len(batches))]
            if old in last:
                last[current.results[0]] = last.pop(old)
        results = [interpret.evaluate(current, arrays) for arrays in inputs]
        values.update(
            (r, list(a)) for r, a in zip(current.results, zip(*results, strict=True), strict=True)
        )
        for value in operands:
            if last.get(value) is op:
                values.pop(value, None)
    return replaced


def _without_activation(op: Layer) -> InferredOp:
    if isinstance(op, ternary.FusedOp) and op.activation.data != "none":
        return rebuilt(op, activation="none")
    return op


def _channel_sums(op: Operation, operands: Sequence[Array]) -> tuple[Means, int]:
    """The sum of each channel of what a layer gives, and how many values a channel has."""
    assert is_layer(op)
    (result,) = interpret.evaluate(op, operands)
    axis = channel_axis(op)
    others = tuple(a for a in range(result.ndim) if a != axis)
    total: Means = result.astype(np.float64).sum(axis=others)
    return total, result.size // max(1, result.shape[axis])


def _with_bias(module: ModuleOp, op: Layer, values: Means) -> tuple[Operation, SSAValue, Array]:
    """Replace a layer by one with another bias; with that bias."""
    element = tensor_type(op.result).element_type
    array = np.ascontiguousarray(values.astype(numpy_dtype(element)))
    constant = literal(module, "bias.corrected", array, TensorType(element, array.shape))
    insert_before(op, constant)
    new = rebuilt(op, bias=constant.result)
    replace(op, new)
    return new, constant.result, array
