"""ONNX import of convolutions whose windows are deformed: `DeformConv`.

Dai et al. 2017, "Deformable Convolutional Networks", and with masks Zhu et al. 2019. Each element
of a window is read between the four of the image around its place; the rest is a product.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from ..problems import ProblemError, refuse
from .onnx_builder import Builder, Call, Rule
from .rules_sampling import taps
from .rules_shape import check_size
from .sizes import static
from .windows import Window, image_of


def _deformed(e: Builder, call: Call) -> SSAValue:
    x, weight, bias, mask = call[0], call[1], call.optional(3), call.optional(4)
    if e.rank(x) != 4:
        raise ProblemError(f"its image has rank {e.rank(x)}; only images of two axes are read")
    groups, parts = call.integer("group", 1), call.integer("offset_group", 1)
    outputs, depth, *kernel = static(e.sizes(weight), "weight")
    refuse(min(groups, parts) < 1, f"it has {groups} groups, and {parts} of offsets")
    batch, channels, image = e.sizes(x)[0], depth * groups, static(e.sizes(x)[2:], "image")
    window = Window(call, kernel, image_of(e, x))
    out = window.counts()
    if e.sizes(call[2])[2:] != (*out,):
        raise ProblemError(f"its offsets have the sizes {e.sizes(call[2])}, for places {out}")
    count, places = math.prod(kernel), math.prod(out)
    check_size([count, places, channels])
    # Offsets are [batch, part, element of the window, axis, place].
    offsets = Formula(e, e.reshape(call[2], (batch, parts, count, 2, places)))
    axes = list[list[tuple[Formula, Formula]]]()
    for axis, size in enumerate(image):
        start = np.arange(out[axis]) * window.strides[axis] - window.low[axis]
        along = [1 - axis, axis]
        steps = np.expand_dims(start, along[0]) + np.zeros(out)
        element = np.expand_dims(np.arange(kernel[axis]) * window.dilation[axis], along[0])
        elements = (element + np.zeros(kernel)).reshape(-1, 1)
        at = offsets.cut(3, axis, axis + 1).value
        at = e.reshape(at, (batch, parts, count, places))
        place = Formula(e, at) + offsets.array(elements + steps.reshape(1, -1))
        place = Formula(e, e.reshape(place.value, (batch, parts, 1, count * places)))
        axes.append(taps(place, size, "linear", lambda v: v, is_zero=True))
    flat = Formula(e, e.reshape(x, (batch, parts, channels // parts, math.prod(image))))
    wide = (batch, parts, channels // parts, count * places)
    total: Formula | None = None
    for (down, height), (along, width) in itertools.product(*axes):
        place = e.stretch((down * image[1] + along).convert(i64).value, wide)
        part = flat.of(tensor.GatherElementsOp, Formula(e, place), axis=3) * (height * width)
        total = part if total is None else total + part
    assert total is not None
    if mask is not None:
        total = total * Formula(e, e.reshape(mask, (batch, parts, 1, count * places)))
    columns = e.reshape(total.value, (batch, groups, depth * count, places))
    rows = e.reshape(weight, (1, groups, outputs // groups, depth * count))
    result = e.reshape(e.add(tensor.MatmulOp(rows, columns)), (batch, outputs, *out))
    if bias is None:
        return result
    return e.add(tensor.AddOp(result, e.along(bias, 1, 4)))


RULES: dict[str, Rule] = {"DeformConv": _deformed}
"""By the type of the operator."""
