"""A constant ternary matrix as a shared graph of additions and subtractions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    prop_def,
    result_def,
    traits_def,
)

from ...ir.arrays import Array
from ...ir.definition import irdl_op_definition
from ..inference import InferredOp, Value, fail, tensor_type
from ..shapes import integer, ints, merge_dim
from ..traits import TakesSamples
from .linear import accumulator, sum_dtype


@irdl_op_definition
class AdderGraphOp(InferredOp):
    """y = x · M for the matrix M that the graph stands for, by additions and subtractions alone.

    Values 0 … inputs-1 are the positions of x's last axis. Node i, four numbers (a, b, sign,
    shift), makes value inputs + i = v[a] + sign·(v[b] · 2^shift) with a, b < inputs + i and sign
    ±1. `outputs` holds two numbers a column: the value and a sign; the sign 0 gives a zero column.
    Sums are in the type of `ternary.matmul`.

        %y = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64: 0, 1, -1, 0>,
             outputs = array<i64: 2, 1, 0, 1>} : (tensor<?x2xi8>) -> tensor<?x2xi32>
    """

    name = "ternary.adder_graph"

    operand = operand_def(TensorType)
    inputs = prop_def(IntegerAttr[IntegerType])
    nodes = prop_def(DenseArrayBase[IntegerType])
    outputs = prop_def(DenseArrayBase[IntegerType])
    result = result_def(TensorType)

    traits = traits_def(TakesSamples())

    def __init__(
        self,
        operand: Value,
        inputs: int,
        nodes: Sequence[tuple[int, int, int, int]],
        outputs: Sequence[tuple[int, int]],
    ) -> None:
        self.build_inferred(
            [operand],
            {
                "inputs": integer(inputs),
                "nodes": ints([n for node in nodes for n in node]),
                "outputs": ints([n for output in outputs for n in output]),
            },
        )

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.operand)
        shape = type.get_shape()
        inputs = self.inputs.value.data
        if not shape:
            fail(f"expects an operand of rank 1 or more, got {type}")
        merge_dim(shape[-1], inputs, "last axis and inputs")
        nodes, outputs = self.nodes.get_values(), self.outputs.get_values()
        if len(nodes) % 4 or len(outputs) % 2:
            fail("expects four numbers a node and two an output")
        for i in range(len(nodes) // 4):
            a, b, sign, shift = nodes[4 * i : 4 * i + 4]
            if not (min(a, b) >= 0 and max(a, b) < inputs + i):
                fail(f"node {i} reads value {max(a, b)}, expected one below {inputs + i}")
            if sign not in (-1, 1) or not 0 <= shift <= 31:
                fail(f"node {i} has sign {sign} and shift {shift}, expected ±1 and 0 to 31")
        values = inputs + len(nodes) // 4
        for value, sign in zip(outputs[::2], outputs[1::2], strict=True):
            if sign not in (-1, 0, 1) or not 0 <= value < max(values, 1):
                fail(f"output ({value}, {sign}) is out of range for {values} values")
        return [TensorType(accumulator(type), (*shape[:-1], len(outputs) // 2))]

    def matrix(self) -> NDArray[np.int64]:
        """The matrix that the graph stands for, int64 [inputs, outputs]."""
        inputs = self.inputs.value.data
        rows: list[NDArray[np.int64]] = [*np.eye(inputs, dtype=np.int64)]
        numbers = self.nodes.get_values()
        for i in range(0, len(numbers), 4):
            a, b, sign, shift = numbers[i : i + 4]
            rows.append(rows[a] + sign * (rows[b] << shift))
        outputs = self.outputs.get_values()
        columns = [
            sign * rows[value] for value, sign in zip(outputs[::2], outputs[1::2], strict=True)
        ]
        return np.stack(columns, axis=1) if columns else np.zeros((inputs, 0), dtype=np.int64)

    def compute(self, x: Array) -> Array:
        is_float = x.dtype.kind == "f"
        # Wrapping modulo 2^64 and then modulo 2^32 is wrapping modulo 2^32.
        wide = x if is_float else x.astype(np.int64)
        values = list(np.moveaxis(wide, -1, 0))
        nodes, outputs = self.nodes.get_values(), self.outputs.get_values()
        for a, b, sign, shift in zip(*(nodes[k::4] for k in range(4)), strict=True):
            values.append(values[a] + wide.dtype.type(sign * 2**shift) * values[b])
        result = np.zeros((*x.shape[:-1], len(outputs) // 2), wide.dtype)
        for column, (value, sign) in enumerate(zip(outputs[::2], outputs[1::2], strict=True)):
            if sign:
                result[..., column] = values[value] * wide.dtype.type(sign)
        return result.astype(sum_dtype(x.dtype))
