"""The pass `recognize-quantizers`: floats that are rounded to few levels become integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i8
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ..analysis.compile_time import literal, literal_value
from ..analysis.replacement import erase_unused, insert_before, replace_results


@dataclass(frozen=True)
class RecognizeQuantizersPass(ModulePass):
    """Put `tensor.quantize` and `tensor.dequantize` in the place of rounding in float.

    Networks that were trained with quantisation (`FakeQuantize`, qonnx's `Quant`) round activations
    to multiples of a step. With a known step, whole bounds, and at most 256 levels:

        %d = tensor.div %x, %s : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
        %r = tensor.round %d : (tensor<?x4xf32>) -> tensor<?x4xf32>
        %c = tensor.clamp %r {min = -7.0 : f64, max = 7.0 : f64} : …
        %y = tensor.mul %c, %s : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
        // becomes
        %q = tensor.quantize %x, %s, %zero {low = -7 : i64, high = 7 : i64} : … -> tensor<?x4xi8>
        %y = tensor.dequantize %q, %s, %zero : …

    The clamp may stand before the rounding, and may be a maximum and a minimum. The results are the
    same numbers, but for NaN and for the sign of zeros. `quantize-activations` then takes such
    activations as they are, without samples.
    """

    name = "recognize-quantizers"
    approximate: ClassVar[bool] = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for product in list(op.walk()):
            if (
                not isinstance(product, tensor.MulOp)
                or tensor_type(product.result).element_type != f32
            ):
                continue
            found = _levels(product.lhs, product.rhs) or _levels(product.rhs, product.lhs)
            if found is not None:
                _replace(op, product, found)


class _Levels(NamedTuple):
    """clamp(round(source / step), low, high), and the ops that compute it."""

    source: SSAValue
    step: np.float32
    low: int
    high: int
    ops: list[Operation]


def _levels(value: SSAValue, scale: SSAValue) -> _Levels | None:
    """What `value` is, where it is levels of the step `scale`."""
    step = _number(scale)
    if step is None or not 0 < step < math.inf:
        return None
    low, high, is_rounded, ops = -math.inf, math.inf, False, list[Operation]()
    while True:
        op = value.owner
        least = most = None
        match op:
            case tensor.DivOp():
                if not is_rounded or _number(op.rhs) != step or not low < high:
                    return None
                if not (float(low).is_integer() and float(high).is_integer() and high - low < 256):
                    return None
                return _Levels(op.lhs, np.float32(step), int(low), int(high), [op, *ops])
            case tensor.RoundOp():
                is_rounded = True
            case tensor.ClampOp():
                least, most = (b and b.value.data for b in (op.min, op.max))
            case tensor.MaximumOp():
                least = _number(op.rhs)
            case tensor.MinimumOp():
                most = _number(op.rhs)
            case tensor.AddOp() | tensor.SubOp():
                if _number(op.rhs) != 0:
                    return None
            case _:
                return None
        if isinstance(op, tensor.MaximumOp | tensor.MinimumOp) and least is None and most is None:
            return None
        # Bounds met later are applied earlier: those already there cut them.
        low = min(max(low, -math.inf if least is None else least), high)
        high = max(min(high, math.inf if most is None else most), low)
        ops.insert(0, op)
        value = op.operands[0]


def _number(value: SSAValue) -> float | None:
    known = literal_value(value)
    return None if known is None or known.size != 1 else float(known.reshape(-1)[0])


def _replace(module: ModuleOp, product: tensor.MulOp, found: _Levels) -> None:
    # Levels beyond an i8 are moved to begin at its lowest number.
    zero = 0 if found.low >= -128 and found.high <= 127 else -128 - found.low
    scale = literal(module, "scale", np.array(found.step), TensorType(f32, []))
    shift = literal(module, "zero", np.array(zero, np.int8), TensorType(i8, []))
    quantized = tensor.QuantizeOp(
        found.source, scale.results[0], shift.results[0],
        low=found.low + zero, high=found.high + zero,
    )  # fmt: skip
    restored = tensor.DequantizeOp(quantized, scale.results[0], shift.results[0])
    for op in (scale, shift, quantized, restored):
        insert_before(product, op)
    replace_results(product, restored.results)
    erase_unused(found.ops)
