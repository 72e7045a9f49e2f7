"""Operators that ONNX has too: what they mean is said once, by the rules of `from_onnx`.

A function here states a call in the terms of the other format; `same` has its rule write the ops,
in the same block. Not here: operators whose rules are shorter than that (the other `rules_*`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np
import sympy
from sympy import Expr
from torch.fx import Node
from xdsl.ir import BlockArgument, SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from ...ir.arrays import Array
from ..from_onnx import sizes as onnx_sizes
from ..from_onnx.calls import AttributeValue, tensor_of
from ..from_onnx.calls import Call as OnnxCall
from ..from_onnx.onnx_builder import Builder as OnnxBuilder
from ..from_onnx.onnx_operators import RULES as ONNX
from ..from_onnx.rules_resize import picked
from ..problems import ProblemError, refuse
from .calls import Call
from .padded_sequences import NAMESPACE
from .sizes import Sizes, is_free, static
from .standard_layers import OF_LENGTHS
from .torch_builder import Builder, Known, Result, Rule, array_of

Attributes: TypeAlias = Mapping[str, AttributeValue]

Operand: TypeAlias = "Node | SSAValue | Array | None"
"""A tensor of the graph, a value, or known numbers."""

OPSET = 21
"""The version of ONNX whose operators are meant."""


def same(
    e: Builder, op: str, operands: Sequence[Operand], attributes: Attributes, outputs: int = 1
) -> list[SSAValue]:
    """The results of an ONNX operator."""
    there = companion(e)
    inputs = [carried(e, there, operand) for operand in operands]
    results = ONNX[op](there, OnnxCall(op, "", OPSET, inputs, attributes, outputs))
    listed = results if isinstance(results, tuple) else (results,)
    return [there.real(tensor_of(result)) for result in listed]


def companion(e: Builder) -> OnnxBuilder:
    """The builder of the rules there; it knows the sizes of the arguments."""
    there = e.companion(OnnxBuilder)
    there.location = e.location
    for node, value in e.values.items():
        if isinstance(value, BlockArgument):
            there.refine(value, _sizes(e.sizes(node)))
    return there


def carried(e: Builder, there: OnnxBuilder, operand: Operand) -> SSAValue | None:
    """An operand for the rules there, which know its values and sizes."""
    if operand is None or isinstance(operand, SSAValue):
        return operand
    if isinstance(operand, np.ndarray):
        return there.known(operand)
    known = e.values[operand]
    if isinstance(known, Known) and not known.is_spread:
        value = there.known(array_of(known.tensor))
        if known.keys:
            there.names[value] = known.keys[0]
        if known.is_stored:
            there.stored.add(value)
        if known.is_stored and known.keys[0] in e.buffers:
            there.buffers.add(value)
        return value
    return there.refine(e.value(operand), _sizes(e.sizes(operand)))


def sized(e: Builder, x: SSAValue, sizes: Sizes) -> SSAValue:
    """A value for the rules there, which ask for its sizes."""
    return companion(e).refine(x, _sizes(sizes))


def _sizes(sizes: Sizes) -> list[onnx_sizes.Size]:
    return [_size(cast("Expr", size)) if is_free(size) else size for size in sizes]


def _measured(e: Builder, sizes: Sizes) -> SSAValue:
    """Sizes for the rules there, which find values that have them."""
    there = companion(e)
    for size in sizes:
        if is_free(size) and (held := e.holder(size)):
            there.refine(held[0], _sizes(held[1]))
    return there.sizes_value(np.array(_sizes(sizes), object))


def _size(size: Expr) -> onnx_sizes.Size:
    """An expression of free sizes as a polynomial; what is none is a free size of its own."""
    parts = [_size(cast("Expr", part)) for part in size.args]
    if isinstance(size, sympy.Add):
        return sum(parts)
    if isinstance(size, sympy.Mul):
        return onnx_sizes.product(parts)
    if isinstance(size, sympy.Pow) and isinstance(parts[1], int) and parts[1] > 0:
        return onnx_sizes.product(parts[:1] * parts[1])
    return int(size) if size.is_Integer else onnx_sizes.Free.named(str(size))


def _nearest(e: Builder, call: Call, node: Node) -> SSAValue:
    """Each element of the result is one of the image, at a place that PyTorch rounds in f32."""
    there, is_exact = companion(e), "exact" in call.name
    x = tensor_of(carried(e, there, node))
    image, scales = static(e.sizes(node)[2:], "image"), _scales(call, call.rank - 2)
    for axis, (size, out) in enumerate(zip(image, static(call.sizes[2:]), strict=True)):
        step = np.float32(size) / np.float32(out)
        step = step if scales is None else np.float32(1 / scales[axis])
        places = (np.arange(out, dtype=np.float32) + np.float32(is_exact / 2)) * step
        places = np.minimum(places.astype(np.int64), size - 1)
        if size != out or (places != np.arange(out)).any():
            x = picked(there, x, axis + 2, size, places)
    return there.real(x)


def _resize(mode: str, nearest: str = "floor", given: Attributes | None = None) -> Rule:
    """A rule for new sizes of images.

    PyTorch passes scales on where they were given, and computes them from the sizes otherwise.
    """

    def rule(e: Builder, call: Call) -> Result:
        x, new = call["self" if "self" in call else "input"], call.sizes[2:]
        if mode == "nearest" and not any(map(is_free, (*new, *e.sizes(x)[2:]))):
            return _nearest(e, call, x)
        place = "align_corners" if call.flag("align_corners") else "half_pixel"
        if mode == "nearest" and nearest == "floor":
            place = "asymmetric"
        axes = list(range(2, call.rank))
        scales = _scales(call, len(axes))
        attributes: Attributes = {
            "mode": mode, "coordinate_transformation_mode": place, "nearest_mode": nearest,
            "axes": axes, **(given or {}),
        }  # fmt: skip
        is_open = any(map(is_free, new))
        if scales is not None and (is_open or place != "align_corners"):
            operands: list[Operand] = [x, None, np.array(scales, np.float64)]
        else:
            operands = [x, None, None, _measured(e, new)]
        return same(e, "Resize", operands, attributes)[0]

    return rule


def _scales(call: Call, axes: int) -> list[float] | None:
    """The scales that the call states."""
    if "scale_factors" in call:
        return [*cast("Sequence[float]", call.arguments["scale_factors"])]
    names = [name for name in ("scales", "scales_d", "scales_h", "scales_w") if name in call]
    return [call.number(name) for name in names] if len(names) == axes else None


def _grid_sample(e: Builder, call: Call) -> Result:
    modes = ("linear", "nearest", "cubic")
    attributes: Attributes = {
        "mode": modes[call.integer("interpolation_mode")],
        "padding_mode": ("zeros", "border", "reflection")[call.integer("padding_mode")],
        "align_corners": int(call.flag("align_corners")),
    }
    return same(e, "GridSample", [call["input"], call["grid"]], attributes)[0]


def windows(call: Call, kernel: Sequence[int]) -> dict[str, AttributeValue]:
    axes = len(kernel)
    pads = call.window("padding", axes)
    strides = call.window("stride", axes) if call.integers("stride") else list(kernel)
    dilation = call.window("dilation", axes) if "dilation" in call else [1] * axes
    return {
        "kernel_shape": list(kernel), "strides": strides, "dilations": dilation,
        "pads": [*pads, *pads], "ceil_mode": int(call.flag("ceil_mode")),
    }  # fmt: skip


def _from_columns(e: Builder, call: Call) -> SSAValue:
    names = {"dilations": "dilation", "strides": "stride"}
    attributes: dict[str, AttributeValue] = {
        ours: call.window(theirs, 2) for ours, theirs in names.items()
    }
    attributes["pads"] = call.window("padding", 2) * 2
    shapes = [np.array(call.window(name, 2)) for name in ("output_size", "kernel_size")]
    x, is_lone = e.value(call["self"]), call.rank == 3
    x = e.add(tensor.UnsqueezeOp(x, [0])) if is_lone else sized(e, x, e.sizes(call["self"]))
    image = same(e, "Col2Im", [x, *shapes], attributes)[0]
    return e.add(tensor.SqueezeOp(image, [0])) if is_lone else image


def deep_convolution(e: Builder, call: Call) -> SSAValue:
    """A convolution of three axes and more, also a transposed one."""
    weight, spatial = call["weight"], len(e.sizes(call["weight"])) - 2
    attributes = windows(call, static(e.sizes(weight)[2:], "kernel"))
    attributes["group"] = call.integer("groups")
    mode = call.arguments.get("padding")
    if isinstance(mode, str):
        attributes["auto_pad"] = "SAME_UPPER" if mode == "same" else "VALID"
    operands = [call["input"], weight, call.optional("bias")]
    if not call.flag("transposed"):
        return same(e, "Conv", operands, attributes)[0]
    attributes["output_padding"] = call.window("output_padding", spatial)
    return same(e, "ConvTranspose", operands, attributes)[0]


_GATES = {"lstm": ("LSTM", [0, 3, 1, 2]), "gru": ("GRU", [1, 0, 2])}
"""The operator there, and the order of its gates in terms of PyTorch's."""


def _recurrent(e: Builder, call: Call) -> Result:
    """Layers of recurrent cells."""
    refuse("input" not in call, "sequences of different lengths are not supported; pad them")
    name = OF_LENGTHS.get(call.name, call.name.removeprefix("aten::"))
    op, order = _GATES.get(name, ("RNN", [0]))
    layers, ways = call.integer("num_layers"), 1 + call.flag("bidirectional")
    parameters = call.tensors("params")
    count = len(parameters) // (layers * ways)
    if any(e.known(node) is None for node in parameters):
        raise ProblemError("cells with computed weights are not supported")
    attributes: dict[str, AttributeValue] = {
        "direction": "bidirectional" if ways == 2 else "forward", "linear_before_reset": 1,
    }  # fmt: skip
    if op == "RNN":
        attributes["activations"] = [name.removeprefix("rnn_")] * ways
    there = companion(e)
    starts = call.tensors("hx") if op == "LSTM" else [call["hx"]]
    states = [carried(e, there, start) for start in starts]
    x = there.real(tensor_of(carried(e, there, call["input"])))
    lengths = carried(e, there, call.optional("lengths"))
    x = there.permute(x, [1, 0, 2]) if call.flag("batch_first") else x
    finals: list[list[SSAValue]] = [[] for _ in states]
    for layer in range(layers):
        first = layer * ways
        sets = [parameters[(first + way) * count : (first + way + 1) * count]
                for way in range(ways)]  # fmt: skip
        weights = [_stacked(e, there, [own[i] for own in sets], order) for i in range(count & ~1)]
        bias = there.add(tensor.ConcatenateOp(weights[2:], 1)) if count > 3 else None
        projection = _stacked(e, there, [own[-1] for own in sets], [0]) if count % 2 else None
        begins = [there.cut(tensor_of(state), 0, first, first + ways) for state in states]
        inputs = [x, weights[0], weights[1], bias, lengths, *begins]
        inputs += [None] * (7 - len(inputs)) + [None, projection]
        results = ONNX[op](there, OnnxCall(op, "", OPSET, inputs, attributes, 1 + len(states)))
        assert isinstance(results, tuple)
        y, *ends = map(tensor_of, results)
        for final, end in zip(finals, ends, strict=True):
            final.append(end)
        steps, _, batch, hidden = there.sizes(y)
        x = there.reshape(there.permute(y, [0, 2, 1, 3]), (steps, batch, ways * hidden))
    x = there.permute(x, [1, 0, 2]) if call.flag("batch_first") else x
    joined = [
        final[0] if layers == 1 else there.add(tensor.ConcatenateOp(final, 0)) for final in finals
    ]
    return [there.real(value) for value in (x, *joined)]


def _stacked(
    e: Builder, there: OnnxBuilder, parameters: Sequence[Node], order: Sequence[int]
) -> SSAValue:
    """Parameters of all directions with their gates in another order."""
    arrays: list[Array] = []
    for node in parameters:
        known = e.known(node)
        assert known is not None
        gates = np.split(array_of(known.tensor), len(order))
        arrays.append(np.concatenate([gates[gate] for gate in order]))
    value = there.known(np.stack(arrays))
    known = e.known(parameters[0])
    if known is not None and known.keys:
        there.names[value] = known.keys[0]
    return value


def _roi_align(e: Builder, call: Call) -> SSAValue:
    """The operator of torchvision, whose boxes have their image in front."""
    rois, count = Formula(e, e.value(call["rois"])), e.sizes(call["rois"])[0]
    images = rois.cut(1, 0, 1).of(tensor.SqueezeOp, axes=[1]).value
    attributes: Attributes = {
        "mode": "avg", "spatial_scale": call.number("spatial_scale"),
        "output_height": call.integer("pooled_height"),
        "output_width": call.integer("pooled_width"),
        "sampling_ratio": call.integer("sampling_ratio"),
        "coordinate_transformation_mode":
            "half_pixel" if call.flag("aligned") else "output_half_pixel",
    }  # fmt: skip
    boxes = sized(e, rois.cut(1, 1, 5).value, (count, 4))
    return same(e, "RoiAlign", [call["input"], boxes, sized(e, images, (count,))], attributes)[0]


def _deform_conv(e: Builder, call: Call) -> SSAValue:
    """The operator of torchvision."""

    def pair(name: str) -> list[int]:
        return [call.integer(f"{name}_h"), call.integer(f"{name}_w")]

    attributes: Attributes = {
        "strides": pair("stride"), "pads": pair("pad") * 2, "dilations": pair("dilation"),
        "group": call.integer("groups"), "offset_group": call.integer("offset_groups"),
    }  # fmt: skip
    mask = call["mask"] if call.flag("use_mask") else None
    operands = [call["input"], call["weight"], call["offset"], call["bias"], mask]
    return same(e, "DeformConv", operands, attributes)[0]


_AREA: Attributes = {"antialias": 1, "exclude_outside": 1, "cubic_coeff_a": -0.5}
"""Antialiased, as in the library PIL: only elements inside the image count."""


RULES: dict[str, Rule] = {
    "col2im": _from_columns,
    **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), _grid_sample),
    **dict.fromkeys(("gru", "lstm", "rnn_relu", "rnn_tanh"), _recurrent),
    "upsample_bicubic2d": _resize("cubic"),
    "_upsample_bicubic2d_aa": _resize("cubic", given=_AREA),
    "upsample_bilinear2d": _resize("linear"),
    "_upsample_bilinear2d_aa": _resize("linear", given=_AREA),
    "upsample_linear1d": _resize("linear"),
    **{f"upsample_nearest{axes}d": _resize("nearest") for axes in (1, 2, 3)},
    **{
        f"_upsample_nearest_exact{axes}d": _resize("nearest", "round_prefer_ceil")
        for axes in (1, 2, 3)
    },
    "upsample_trilinear3d": _resize("linear"),
}
"""By the name of the operator in the namespace `aten`."""

LAYERS: dict[str, Rule] = {
    "torchvision::deform_conv2d": _deform_conv,
    "torchvision::roi_align": _roi_align,
    **dict.fromkeys(OF_LENGTHS, _recurrent),
    **dict.fromkeys(
        (f"{NAMESPACE}::rows", f"{NAMESPACE}::steps"),
        lambda e, call: e.reshape(e.value(call["self"]), e.sizes(call["self"]), call.sizes),
    ),
}
"""By the name of the operator; also what sequences of several lengths become."""
