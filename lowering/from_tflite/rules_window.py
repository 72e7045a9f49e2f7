"""TFLite import of pooling, of new sizes of images, and of what normalises over channels."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.dialects.builtin import i8, i16, i32, i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ...ir.arrays import Array
from ..from_onnx.calls import AttributeValue
from ..from_onnx.rules_pooling import combined, elements
from ..from_onnx.rules_shape import counted, take
from ..from_onnx.rules_window import Window
from ..from_onnx.sizes import static
from ..ir_builder import padded
from ..problems import ProblemError, refuse
from .fixed_point import (
    activation_range,
    clamped,
    grid_range,
    has_float_kernel,
    rescaled_wide,
    shifted,
)
from .rules_activation import activated, regridded, through_floats
from .rules_products import window
from .tflite_builder import Builder, Node, Results, Rule, standard

MOST_PLACES = 4096
"""A window of integers has at most this many elements."""


def _window(e: Builder, node: Node, x: SSAValue) -> Window:
    kernel = [node.integer("filterHeight"), node.integer("filterWidth")]
    return window(e, node, x, kernel)


def _image(e: Builder, node: Node) -> SSAValue:
    if e.rank(node[0]) != 4:
        raise ProblemError(f"its image has rank {e.rank(node[0])}")
    return e.first(node[0])


def pool(op: str, **attributes: AttributeValue) -> Rule:
    """A rule for a pool of floats: that of ONNX."""

    def rule(e: Builder, node: Node) -> SSAValue:
        x = _image(e, node)
        place = _window(e, node, x)
        result = standard(
            e, op, [x], kernel_shape=place.kernel, strides=place.strides, pads=place.pads(),
            **attributes,
        )  # fmt: skip
        return e.last(activated(e, node, result))

    return rule


# Integers on grids.


def _max_pool(e: Builder, node: Node) -> SSAValue:
    """The largest integer of each window."""
    x = _image(e, node)
    place = _window(e, node, x)
    result = standard(
        e, "MaxPool", [x], kernel_shape=place.kernel, strides=place.strides, pads=place.pads()
    )
    scales = node.scales(0)
    refuse(not scales.is_same(node.result_scales()), "its input and result are on different grids")
    return e.last(regridded(e, result, scales, scales, node, activation_range(node)))


def _average_pool(e: Builder, node: Node) -> SSAValue:
    """The sum of each window over its elements inside the image, halves away from zero."""
    x = _image(e, node)
    if not node.scales(0).is_same(node.result_scales()):
        raise ProblemError("its input and result are on different grids")
    place = _window(e, node, x)
    wide = e.convert(x, i32)
    sums, counts = _sums(e, wide, place)
    bounds = activation_range(node)
    reach = max(abs(bound) for bound in grid_range(tensor_type(x).element_type))
    if isinstance(counts, int):
        means = _divided(e, sums, counts, reach * counts)
    else:
        # Half of the count, of the sign of the sum, then a division toward zero.
        halves = e.known(counts // 2, i32)
        moved = Formula(e, sums) + Formula(e, sums).of(tensor.SignOp) * Formula(e, halves)
        means = (moved / Formula(e, e.known(counts, i32))).value
    return e.last(clamped(e, means, *bounds, node.element))


def _divided(e: Builder, x: SSAValue, count: int, largest: int) -> SSAValue:
    """x / count, halves away from zero, for |x| ≤ largest.

    ⌈2^s/count⌉/2^s exceeds 1/count by less than 2^-s, so that no |x| < 2^(s-1)/count reaches the
    next half: with 31 bits of multiplier for all windows up to `MOST_PLACES`.
    """
    if count == 1:
        return x
    shift = 30 + (count - 1).bit_length() - 1
    multiplier = -(-(1 << shift) // count)
    refuse(largest >= (1 << (shift - 1)) // count, f"its window of {count} elements is too large")
    sign = e.add(tensor.SignOp(x)) if count % 2 == 0 else None
    size = x if sign is None else e.add(tensor.AbsOp(x))
    m, s = (e.known(np.asarray(value, np.int32), i32) for value in (multiplier, shift))
    low = -(1 << 30) if sign is None else 0
    quotient = e.add(
        tensor.RequantizeOp(size, m, s, e.number(0, i32), axis=1, low=low, high=1 << 30)
    )
    return quotient if sign is None else e.add(tensor.MulOp(quotient, sign))


def _sums(e: Builder, x: SSAValue, place: Window) -> tuple[SSAValue, int | Array]:
    """The sums of the windows, and how many elements each has: one number or an array."""
    image, pads = place.image, place.pads()
    count = prod(place.kernel)
    if place.kernel == image and not any(pads):
        return e.add(tensor.ReduceSumOp(x, [2, 3], keepdims=True)), count
    refuse(count > MOST_PLACES, f"its window {place.kernel} is too large")
    filled = padded(e, x, [0, 0, *pads[:2]], [0, 0, *pads[2:]], 0)
    counted(prod(static(image, "image")))
    counts = elements(place, counted=False).astype(np.int32)
    sums = combined(e, filled, place, tensor.AddOp)
    return sums, count if (counts == count).all() else counts


# New sizes.


def _resize(mode: str) -> Rule:
    def rule(e: Builder, node: Node) -> SSAValue:
        x = _image(e, node)
        sizes = e.int_list(node[1], "sizes")
        refuse(len(sizes) != 2 or min(sizes) < 1, f"its new sizes are {sizes}")
        how = "asymmetric"
        if node.flag("halfPixelCenters"):
            how = "half_pixel" if mode == "linear" else "tf_half_pixel_for_nn"
        elif node.flag("alignCorners"):
            how = "align_corners"
        near = "round_prefer_ceil" if node.flag("alignCorners") else "floor"
        wanted = e.indices(sizes)
        result = standard(
            e, "Resize", [x, None, None, wanted], mode=mode, axes=[2, 3], nearest_mode=near,
            coordinate_transformation_mode=how,
        )  # fmt: skip
        return e.last(result)

    return rule


def _resized_integers(e: Builder, node: Node) -> Results:
    """RESIZE_BILINEAR of integers: whole weights, one division, halves away from zero.

    Along each axis every new element is the sum of two, as LiteRT's `ResizeBilinearInteger` has it
    for int8 and int16 with weights of 10 bits. XNNPACK's have 11 bits, for bytes alone, and halves
    go up. Others go through floats, as in LiteRT.
    """
    if not node.scales(0).is_same(node.result_scales()):
        return through_floats(RULES["RESIZE_BILINEAR"])(e, node)
    x = _image(e, node)
    wanted, image = e.int_list(node[1], "sizes"), static(e.sizes(x)[2:], "image")
    in_floats = has_float_kernel(e, node.element)
    known = in_floats or node.element in (i8, i16)
    if len(wanted) != 2 or min(wanted) < 1 or not known:
        return through_floats(RULES["RESIZE_BILINEAR"])(e, node)
    element, bits = i64 if node.element == i16 else i32, 11 if in_floats else 10
    wide, one = e.convert(x, element), 1 << bits
    for axis, (size, new) in enumerate(zip(image, wanted, strict=True)):
        counted(size * new)
        low, high, share = (_float_neighbours if in_floats else _neighbours)(size, new, node, one)
        parts = [
            Formula(e, take(e, wide, 2 + axis, places))
            * Formula(e, e.along(e.known(weights, element), 2 + axis, 4))
            for places, weights in ((low, one - share), (high, share))
        ]
        wide = (parts[0] + parts[1]).value
    # Weights below 0 cancel: |x| stays below 2^22 of the largest.
    bounds = grid_range(node.element)
    if in_floats:
        return e.last(shifted(e, wide, 2 * bits, 0, node.element, bounds))
    # A half less than zero moves below the half.
    negative = e.convert(e.add(tensor.CompareOp(wide, e.number(0, wide), "lt")), element)
    moved = e.add(tensor.SubOp(wide, negative))
    if node.element == i16:
        return e.last(rescaled_wide(e, moved, 2.0**-20, bounds, i16, 1, bits=16))
    return e.last(shifted(e, moved, 20, 0, node.element, bounds))


def _neighbours(size: int, new: int, node: Node, one: int) -> tuple[Array, Array, Array]:
    """Of each new place the two old ones beside it, and the weight of the second, of `one`."""
    step = (one * size + new // 2) // new
    if node.flag("alignCorners") and new > 1:
        step = (one * (size - 1) + (new - 1) // 2) // (new - 1)
    places = np.arange(new, dtype=np.int64) * step
    if node.flag("halfPixelCenters"):
        places = places + step // 2 - one // 2
    low = np.maximum(np.trunc(places / one).astype(np.int64), 0)
    high = np.minimum(np.trunc((places + one - 1) / one).astype(np.int64), size - 1)
    return low, high, (places - one * low).astype(np.int64)


def _float_neighbours(size: int, new: int, node: Node, one: int) -> tuple[Array, Array, Array]:
    """As `_neighbours`, by XNNPACK's places in float32."""
    corners = int(node.flag("alignCorners") and new > 1)
    step = np.float32(size - corners) / np.float32(new - corners)
    places = np.arange(new).astype(np.float32) * step
    if node.flag("halfPixelCenters"):
        half = np.float32(0.5)
        places = np.clip(places + (half * step - half), 0, np.float32(size - 1))
    low = places.astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    return low, high, np.rint((places - low.astype(np.float32)) * one).astype(np.int64)


def _space_to_depth(e: Builder, node: Node) -> SSAValue:
    return e.last(
        standard(e, "SpaceToDepth", [_image(e, node)], blocksize=node.integer("blockSize"))
    )


def _depth_to_space(e: Builder, node: Node) -> SSAValue:
    block = node.integer("blockSize")
    return e.last(standard(e, "DepthToSpace", [_image(e, node)], blocksize=block, mode="DCR"))


# Over channels.


def _l2_normalization(e: Builder, node: Node) -> SSAValue:
    """x / √max(Σ x², 10^-6) over the last axis."""
    x = Formula(e, node[0])
    axis = e.rank(node[0]) - 1
    total = Formula(e, e.add(tensor.ReduceSumOp((x * x).value, [axis], keepdims=True)))
    return activated(e, node, (x / total.maximum(1e-6).of(tensor.SqrtOp)).value)


def _local_response(e: Builder, node: Node) -> SSAValue:
    radius = node.integer("radius")
    size = 2 * radius + 1
    return e.last(standard(
        e, "LRN", [_image(e, node)], size=size, alpha=node.number("alpha") * size,
        beta=node.number("beta"), bias=node.number("bias"),
    ))  # fmt: skip


def _l2_pool(e: Builder, node: Node) -> SSAValue:
    """√ of the mean of squares."""
    x = _image(e, node)
    place = _window(e, node, x)
    squares = e.add(tensor.MulOp(x, x))
    means = standard(
        e, "AveragePool", [squares], kernel_shape=place.kernel, strides=place.strides,
        pads=place.pads(),
    )  # fmt: skip
    return e.last(activated(e, node, e.add(tensor.SqrtOp(means))))


RULES: dict[str, Rule] = {
    "AVERAGE_POOL_2D": pool("AveragePool"),
    "DEPTH_TO_SPACE": _depth_to_space,
    "L2_NORMALIZATION": _l2_normalization,
    "L2_POOL_2D": _l2_pool,
    "LOCAL_RESPONSE_NORMALIZATION": _local_response,
    "MAX_POOL_2D": pool("MaxPool"),
    "RESIZE_BILINEAR": _resize("linear"),
    "RESIZE_NEAREST_NEIGHBOR": _resize("nearest"),
    "SPACE_TO_DEPTH": _space_to_depth,
}
"""By the name of the operator."""

INTEGER: dict[str, Rule] = {
    "AVERAGE_POOL_2D": _average_pool,
    "MAX_POOL_2D": _max_pool,
    "RESIZE_BILINEAR": _resized_integers,
    **{
        name: RULES[name]
        for name in ("DEPTH_TO_SPACE", "RESIZE_NEAREST_NEIGHBOR", "SPACE_TO_DEPTH")
    },
}
"""Those with an integer form, by the name of the operator; the others go through floats."""
