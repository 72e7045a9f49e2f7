"""Rules of fake quantisation, and of what PT2E and torchao write into a quantised model.

What they mean is said by the rules of `from_onnx`. A known scale divides as there, where PyTorch
multiplies by its inverse, which differs at halves. Weights that integers stand for stay integers;
see `Known.integers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch.fx import Node
from xdsl.dialects.builtin import f32, i8, i16, i32
from xdsl.ir import Attribute, SSAValue

from ...dialects import tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ..from_onnx import sizes as onnx_sizes
from ..from_onnx.calls import Call as OnnxCall
from ..from_onnx.calls import tensor_of
from ..from_onnx.formats import UI8
from ..from_onnx.onnx_builder import Builder as OnnxBuilder
from ..from_onnx.onnx_operators import RULES as ONNX
from ..from_onnx.rules_quantization import quantized, spread
from ..problems import ProblemError
from .calls import Call, Operand, is_tensor
from .rules_onnx import OPSET, carried, companion
from .sizes import Sizes, is_free, is_node, sizes_of, static
from .torch_builder import Builder, Known, Result, Rule, element_type

_TYPES: Sequence[tuple[int, int, Attribute]] = (
    (-128, 127, i8), (0, 255, UI8), (-(1 << 15), (1 << 15) - 1, i16),
    (-(1 << 31), (1 << 31) - 1, i32),
)  # fmt: skip


def _holding(low: int, high: int) -> Attribute:
    """The narrowest type of integers from `low` to `high`."""
    for least, most, element in _TYPES:
        if least <= low and high <= most:
            return element
    raise ProblemError(f"its integers from {low} to {high} have no type")


def _put(there: OnnxBuilder, e: Builder, operand: Operand, element: Attribute) -> SSAValue:
    """A scale or zero point of a type, without the axis that says that it is one."""
    if not is_tensor(operand):
        if is_node(operand):
            raise ProblemError("its scale and zero point must be numbers or tensors")
        return there.number(operand, element)
    value = carried(e, there, operand)
    assert value is not None
    value = there.convert(value, element)
    return there.reshape(value, ()) if there.sizes(value) == (1,) else value


def _restored(
    there: OnnxBuilder, levels: SSAValue, scale: SSAValue, zero: SSAValue, axis: int, block: int
) -> SSAValue:
    """(levels - zero) · scale, f32."""
    call = OnnxCall("DequantizeLinear", "", OPSET, [levels, scale, zero],
                    {"axis": axis, "block_size": block}, 1)  # fmt: skip
    return tensor_of(cast("SSAValue", ONNX[call.op](there, call)))


def _given(e: Builder, call: Call, there: OnnxBuilder, value: SSAValue) -> SSAValue | Known:
    """A result: known values stay known, with the integers that they stand for."""
    value = there.convert(value, element_type(call.value.dtype))
    if not there.is_known(value):
        return there.real(value)
    sources = [known for node in call.node.all_input_nodes if (known := e.known(node))]
    keys = tuple(dict.fromkeys(key for known in sources for key in known.keys))

    def integers(order: Sequence[int]) -> SSAValue:
        return there.integers(there.permute(value, order))

    values = torch.from_numpy(there.arrays[value].copy())
    return Known(values, call.sizes, keys, integers=integers if value in there.levels else None)


def _bounds(call: Call) -> tuple[int, int]:
    """The least and the largest integer."""
    if any(is_tensor(call.arguments[name]) for name in ("quant_min", "quant_max")):
        raise ProblemError("its bounds are tensors; export the model with fixed ones")
    kind = call.value.dtype
    if "quant_min" not in call and not kind.is_floating_point:
        info = np.iinfo(numpy_dtype(element_type(kind)))
        return int(info.min), int(info.max)
    return call.integer("quant_min"), call.integer("quant_max")


def _both(e: Builder, call: Call) -> SSAValue | Known:
    """Fake quantisation: integers, and the floats that they stand for."""
    low, high = _bounds(call)
    element, there = _holding(low, high), companion(e)
    zero_point = call.operand("zero_point")
    if is_tensor(zero_point) and zero_point.meta["val"].is_floating_point():
        raise ProblemError("its zero points are no integers")
    scale = _put(there, e, call.operand("scale"), f32)
    zero = _put(there, e, zero_point, element)
    axis = call.integer("axis", 0) % max(call.rank, 1)
    x = carried(e, there, call["self"])
    assert x is not None
    levels = quantized(there, x, scale, zero, axis, bounds=(low, high))
    return _given(e, call, there, _restored(there, levels, scale, zero, axis, 0))


_SCALES, _ZEROS = ("scale", "scales"), ("zero_point", "zero_points")


def _first(call: Call, names: Sequence[str]) -> Operand | None:
    return next((call.operand(name) for name in names if name in call), None)


def _steps(
    e: Builder, call: Call, there: OnnxBuilder, element: Attribute
) -> tuple[SSAValue, SSAValue, int, int]:
    """Scale, zero point, the axis that they are along, and how many elements share one there."""
    scale_of, zero_of = _first(call, _SCALES), _first(call, _ZEROS)
    assert scale_of is not None
    if zero_of is None or (is_tensor(zero_of) and 0 in e.sizes(zero_of)):
        zero_of = 0
    parts = [_put(there, e, scale_of, f32), _put(there, e, zero_of, element)]
    if "block_size" not in call:
        return parts[0], parts[1], call.integer("axis", 0) % max(call.rank, 1), 0
    axis, block, sizes = _blocked(call)
    for index, part in enumerate(parts):
        if there.rank(part) and (sizes is None or there.rank(part) != call.rank):
            whole = onnx_sizes.product(there.sizes(part))
            parts[index] = there.reshape(part, [whole] if sizes is None else static(sizes))
    return parts[0], parts[1], axis, block


def _blocked(call: Call) -> tuple[int, int, Sizes | None]:
    """What torchao's blocks are in ONNX: an axis, the elements of a block on it, and the scales.

    Single positions on one axis have a vector of scales, for which there are no sizes here; blocks
    along one axis have a table of scales.
    """
    blocks = sizes_of(cast("Sequence[Node]", call.arguments["block_size"]))
    pairs = list(enumerate(zip(blocks, call.sizes, strict=True)))
    apart = [axis for axis, (block, size) in pairs if block != size]
    within = [axis for axis, (block, _) in pairs if block != 1]
    if not apart or (len(apart) == 1 and blocks[apart[0]] == 1):
        return max(apart, default=0), 0, None
    if len(within) != 1 or is_free(blocks[within[0]]):
        raise ProblemError(
            f"its blocks {onnx_sizes.show(blocks)} lie along several axes; take one axis"
        )
    (axis,) = within
    (block, size) = static([blocks[axis], call.sizes[axis]], "block")
    return axis, block, (*call.sizes[:axis], size // block, *call.sizes[axis + 1 :])


def _quantize(e: Builder, call: Call) -> SSAValue | Known:
    element, there = element_type(call.value.dtype), companion(e)
    scale, zero, axis, block = _steps(e, call, there, element)
    x = carried(e, there, call["input"])
    assert x is not None
    if not there.is_known(scale):
        # Scales of a range put its ends on halves.
        inverse = 1 / Formula(there, spread(there, scale, x, axis, block))
        x, scale = (Formula(there, x) * inverse).value, there.number(1, f32)
    levels = quantized(there, x, scale, zero, axis, block, bounds=_bounds(call))
    return _given(e, call, there, levels)


def _dequantize(e: Builder, call: Call) -> SSAValue | Known:
    there = companion(e)
    levels = carried(e, there, call["input"])
    assert levels is not None
    scale, zero, axis, block = _steps(e, call, there, tensor_type(levels).element_type)
    return _given(e, call, there, _restored(there, levels, scale, zero, axis, block))


def _by_token(rule: Rule) -> Rule:
    """A rule for scales and zero points of all that lies along the last axis."""

    def by_token(e: Builder, call: Call) -> Result:
        shape = call.value.shape
        return rule(e, call.using(block_size=[*[1] * (call.rank - 1), *shape[-1:]]))

    return by_token


def _chosen_by_token(e: Builder, call: Call) -> list[SSAValue | None]:
    """Scales and zero points of bytes for the range along the last axis."""
    x = Formula(e, e.value(call["input"])).convert(f32)
    if call.name.endswith("asymmetric"):
        top, bottom = (
            x.of(kind, axes=[x.rank - 1], keepdims=True)
            for kind in (tensor.ReduceMaxOp, tensor.ReduceMinOp)
        )
        top, bottom = top.maximum(0), bottom.minimum(0)
        scale = ((top - bottom) / 255).maximum(float(np.finfo(np.float32).eps))
        low, high = bottom / scale, top / scale
        # The end whose levels are rounded less far beyond the bytes stays where it is.
        zero = ((low - 128) + (high + 127) > 0).choose(-128 - low, 127 - high)
        zero = round(zero.maximum(-128).minimum(127))
    else:
        size = abs(x).of(tensor.ReduceMaxOp, axes=[x.rank - 1], keepdims=True)
        scale = size.maximum(1e-5) / 127
        zero = scale * 0
    kinds = [element_type(value.dtype) for value in call.values]
    return [e.convert(v.value, kind) for v, kind in zip((scale, zero), kinds, strict=True)]


def _chosen(e: Builder, call: Call) -> list[SSAValue | None]:
    """Scale and zero point for the range of a tensor and 0; symmetric ones for the larger end."""
    x, axes = e.value(call["input"]), list(range(len(e.sizes(call["input"]))))
    low, high = (call.integer(name) for name in ("quant_min", "quant_max"))
    top = Formula(e, e.add(tensor.ReduceMaxOp(x, axes))).maximum(0)
    bottom = Formula(e, e.add(tensor.ReduceMinOp(x, axes))).minimum(0)
    least = call.number("eps")
    if call.name.endswith("symmetric"):
        scale = ((0 - bottom).maximum(top) / ((high - low) / 2)).maximum(least)
        middle = 128 if call.arguments["dtype"] == torch.uint8 else 0
        zero = scale * 0 + middle
    else:
        scale = ((top - bottom) / (high - low)).maximum(least)
        zero = (low - (bottom / scale).of(tensor.RoundOp)).maximum(low).minimum(high)
    kinds = [element_type(value.dtype) for value in call.values]
    return [
        e.convert(e.add(tensor.ReshapeToOp(value.value, [1])), kind)
        for value, kind in zip((scale, zero), kinds, strict=True)
    ]


RULES: dict[str, Rule] = {
    "aten::fake_quantize_per_channel_affine": _both,
    "aten::fake_quantize_per_tensor_affine": _both,
    "quantized_decomposed::choose_qparams": _chosen,
    "quantized_decomposed::choose_qparams_per_token": _chosen_by_token,
    "quantized_decomposed::choose_qparams_per_token_asymmetric": _chosen_by_token,
    "quantized_decomposed::choose_qparams_symmetric": _chosen,
    "quantized_decomposed::dequantize_per_channel": _dequantize,
    "quantized_decomposed::dequantize_per_tensor": _dequantize,
    "quantized_decomposed::dequantize_per_token": _by_token(_dequantize),
    "quantized_decomposed::quantize_per_channel": _quantize,
    "quantized_decomposed::quantize_per_tensor": _quantize,
    "quantized_decomposed::quantize_per_token": _by_token(_quantize),
    "torchao::dequantize_affine": _dequantize,
    "torchao::quantize_affine": _quantize,
}
"""By the name of the operator."""
