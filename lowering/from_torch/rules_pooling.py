"""Rules of pooling: to windows, as in `from_onnx`, and to a given size."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ..from_onnx.calls import Call as OnnxCall
from ..from_onnx.rules_pooling import average
from ..from_onnx.windows import Window, image_of
from .calls import Call
from .rules_onnx import OPSET, Attributes, companion, same, sized, windows
from .sizes import static
from .torch_builder import Builder, Result, Rule


def _axes(call: Call) -> int:
    """How many axes an image has."""
    return next(axes for axes in (1, 2, 3) if f"{axes}d" in call.name)


def _batched(pool: Callable[[Builder, Call, SSAValue], Sequence[SSAValue | None]]) -> Rule:
    """A rule for images [N, C, …]; one without a batch gets a batch of one."""

    def rule(e: Builder, call: Call) -> Result:
        x, sizes = e.value(call["self"]), e.sizes(call["self"])
        if call.rank == _axes(call) + 2:
            results = pool(e, call, sized(e, x, sizes))
        else:
            image = sized(e, e.add(tensor.UnsqueezeOp(x, [0])), (1, *sizes))
            results = [
                None if result is None else e.add(tensor.SqueezeOp(result, [0]))
                for result in pool(e, call, image)
            ]
        if len(call.values) > 1:
            return results
        (only,) = filter(None, results)
        return only

    return rule


def _max_pool(e: Builder, call: Call, x: SSAValue) -> Sequence[SSAValue | None]:
    return _pooled(e, call, x, windows(call, call.window("kernel_size", _axes(call))))


def _pooled(
    e: Builder, call: Call, x: SSAValue, attributes: Attributes
) -> Sequence[SSAValue | None]:
    """The greatest of windows that ONNX has too, and its place where that is used."""
    (values,) = same(e, "MaxPool", [x], attributes)
    users = [user for user in call.node.users if user.target is operator.getitem]
    if not any(user.args[1] == 1 for user in users):
        return [values, None]
    # Where in its image each element was; there in the whole tensor.
    _, places = same(e, "MaxPool", [x], attributes, outputs=2)
    return [values, (Formula(e, places) % math.prod(_image(x))).value]


def _image(x: SSAValue) -> list[int]:
    return static(tensor_type(x).get_shape()[2:], "image")


def _avg_pool(e: Builder, call: Call, x: SSAValue) -> list[SSAValue | None]:
    there, kernel = companion(e), call.window("kernel_size", _axes(call))
    attributes = windows(call, kernel)
    window = Window(OnnxCall("", "", OPSET, [], attributes), kernel, image_of(there, x))
    counted = call.flag("count_include_pad", True)
    divisor = call.integer("divisor_override") if "divisor_override" in call else None
    return [there.real(average(there, x, window, counted=counted, divisor=divisor))]


def _bounds(size: int, out: int) -> list[tuple[int, int]]:
    """The windows of adaptive pooling."""
    return [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


def _divided(call: Call, x: SSAValue) -> tuple[list[int], list[int], list[int] | None]:
    """The sizes of an image, those wanted, and the kernel where windows of one size do it."""
    image, wanted = _image(x), call.window("output_size", _axes(call))
    pairs = list(zip(image, wanted, strict=True))
    return image, wanted, None if any(a % b for a, b in pairs) else [a // b for a, b in pairs]


def _adaptive_avg_pool(e: Builder, call: Call, x: SSAValue) -> list[SSAValue | None]:
    image, wanted, kernel = _divided(call, x)
    if set(wanted) == {1}:
        return [e.add(tensor.GlobalAvgPoolOp(x))]
    if kernel is not None and len(kernel) < 3:
        return [e.add(tensor.AvgPoolOp(x, kernel))]
    last = len(wanted) + 1
    for axis in reversed(range(len(wanted))):
        swap = [*range(2 + axis), last, *range(3 + axis, last), 2 + axis]
        means = np.zeros((image[axis], wanted[axis]))
        for column, (start, end) in enumerate(_bounds(image[axis], wanted[axis])):
            means[start:end, column] = 1 / (end - start)
        weight = e.numbers(means, tensor_type(x).element_type)
        x = x if 2 + axis == last else e.permute(x, swap)
        x = e.add(tensor.MatmulOp(x, weight))
        x = x if 2 + axis == last else e.permute(x, swap)
    return [x]


def _adaptive_max_pool(e: Builder, call: Call, x: SSAValue) -> list[SSAValue | None]:
    """The greatest of each window and its place in the image; of equal ones the first."""
    image, wanted, kernel = _divided(call, x)
    if kernel is not None:
        return [*_pooled(e, call, x, {"kernel_shape": kernel, "strides": kernel})]
    values, places, behind = Formula(e, x), None, 1
    for axis, size in reversed([*enumerate(image, 2)]):
        greatest, at = list[SSAValue](), list[SSAValue]()
        for start, end in _bounds(size, wanted[axis - 2]):
            part = values.cut(axis, start, end)
            best = part.of(tensor.ArgmaxOp, axis=axis, keepdims=True)
            greatest.append(part.of(tensor.GatherElementsOp, best, axis=axis).value)
            place = (best + start) * behind
            if places is not None:
                here = places.cut(axis, start, end)
                place = place + here.of(tensor.GatherElementsOp, best, axis=axis)
            at.append(place.value)
        values, places = (
            Formula(e, e.add(tensor.ConcatenateOp(parts, axis))) for parts in (greatest, at)
        )
        behind *= size
    assert places is not None
    return [values.value, places.value]


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "adaptive_avg_pool1d",
            "adaptive_avg_pool2d",
            "_adaptive_avg_pool2d",
            "adaptive_avg_pool3d",
            "_adaptive_avg_pool3d",
        ),
        _batched(_adaptive_avg_pool),
    ),
    **{f"adaptive_max_pool{axes}d": _batched(_adaptive_max_pool) for axes in (1, 2, 3)},
    **{f"avg_pool{axes}d": _batched(_avg_pool) for axes in (1, 2, 3)},
    **{
        f"max_pool{axes}d{ending}": _batched(_max_pool)
        for axes in (1, 2, 3)
        for ending in ("", "_with_indices")
    },
}
"""By the name of the operator in the namespace `aten`."""
