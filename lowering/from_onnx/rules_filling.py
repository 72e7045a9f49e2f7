"""ONNX import of made-up tensors, triangles of matrices, and blocks and cuts of images."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ..problems import ProblemError, refuse
from .inputs import type_of_proto
from .onnx_builder import LARGEST_KNOWN, Builder, Call, Rule
from .rules_conversion import cast
from .rules_shape import check_size
from .sizes import Free, static


def _constant(e: Builder, call: Call) -> SSAValue:
    for name, value in call.attributes.items():
        if isinstance(value, np.ndarray):
            return e.known(value)
        if name in ("value_int", "value_ints"):
            return e.indices(call.integers(name, []))
        if name in ("value_float", "value_floats"):
            return e.known(np.asarray(value, np.float32))
    raise ProblemError("its value is text or sparse; the IR has numbers alone")


def _constant_of_shape(e: Builder, call: Call) -> SSAValue:
    value = call.attributes.get("value")
    array = value if isinstance(value, np.ndarray) else np.zeros(1, np.float32)
    sizes = e.size_list(call[0], "shape")
    check_size(sizes)
    one = e.known(array.reshape([1] * len(sizes)))
    return e.stretch(one, sizes)


def _range(e: Builder, call: Call) -> SSAValue:
    if any(call[index] in e.symbolic for index in range(3)):
        return _free_range(e, call)
    start, limit, delta = (e.array(call[index], "bounds").reshape(-1)[0] for index in range(3))
    if delta == 0 or abs((float(limit) - float(start)) / float(delta)) > LARGEST_KNOWN:
        raise ProblemError(f"it counts from {start} to {limit} by {delta}")
    count = max(int(np.ceil((float(limit) - float(start)) / float(delta))), 0)
    dtype = e.arrays[call[0]].dtype
    values = (start + np.arange(count) * delta).astype(dtype)
    return e.known(values, tensor_type(call[0]).element_type)


def _free_range(e: Builder, call: Call) -> SSAValue:
    """A range whose bounds are free sizes."""
    (start,), (limit,), (delta,) = (e.size_list(call[index], "bounds") for index in range(3))
    if not isinstance(delta, int) or delta not in (1, -1):
        raise ProblemError(f"it counts by {delta} up to a free size")
    steps = Formula(e, e.arange((limit - start) * delta))
    first, step = (Formula(e, e.reshape(call[index], [])).convert(i64) for index in (0, 2))
    return e.convert((steps * step + first).value, call[0])


def _eye_like(e: Builder, call: Call) -> SSAValue:
    rows, columns = e.shape(call[0])
    check_size([rows, columns])
    refuse(rows * columns > LARGEST_KNOWN, f"its result has the sizes [{rows}, {columns}]")
    eye = e.known(np.eye(rows, columns, call.integer("k", 0), np.float32))
    if "dtype" not in call.attributes:
        return e.convert(eye, call[0])
    return cast(e, eye, *type_of_proto(call.integer("dtype", 0)))


def _trilu(e: Builder, call: Call) -> SSAValue:
    x, upper = call[0], call.integer("upper", 1)
    k = e.int_list(call[1], "k")[0] if call.has(1) else 0
    rows, columns = e.sizes(x)[-2:]
    if not isinstance(rows, Free) and not isinstance(columns, Free):
        refuse(rows * columns > LARGEST_KNOWN, f"its matrices have the sizes [{rows}, {columns}]")
        k = max(min(k, columns + 1), -rows - 1)
    down = Formula(e, e.reshape(e.arange(rows), [rows, 1]))
    across = Formula(e, e.reshape(e.arange(columns), [1, columns]))
    mask = across > down + (k - 1) if upper else across < down + (k + 1)
    return mask.choose(Formula(e, x), 0).value


def _depth_to_space(e: Builder, call: Call) -> SSAValue:
    n, c, h, w = e.sizes(call[0])
    (channels,) = static([c], "channels")
    b = call.integer("blocksize", 1)
    refuse(b < 1 or channels % (b * b), f"{channels} channels are no multiple of {b}*{b}")
    c = channels // (b * b)
    if call.text("mode", "DCR") == "DCR":
        x = e.permute(e.reshape(call[0], (n, b, b, c, h, w)), [0, 3, 4, 1, 5, 2])
    else:
        x = e.permute(e.reshape(call[0], (n, c, b, b, h, w)), [0, 1, 4, 2, 5, 3])
    return e.reshape(x, (n, c, h * b, w * b))


def _space_to_depth(e: Builder, call: Call) -> SSAValue:
    n, c, h, w = e.sizes(call[0])
    b = call.integer("blocksize", 1)
    high, wide = static([h, w], "image")
    refuse(b < 1 or high % b or wide % b, f"an image of {high}x{wide} has no blocks of {b}")
    x = e.reshape(call[0], (n, c, high // b, b, wide // b, b))
    order = [0, 3, 5, 1, 2, 4] if call.text("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    return e.reshape(e.permute(x, order), (n, c * b * b, high // b, wide // b))


RULES: dict[str, Rule] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "DepthToSpace": _depth_to_space,
    "EyeLike": _eye_like,
    "Range": _range,
    "SpaceToDepth": _space_to_depth,
    "Trilu": _trilu,
}
"""By the type of the operator."""
