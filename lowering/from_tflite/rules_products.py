"""TFLite import of products: fully connected layers, convolutions, products of matrices.

Each is floats, integers on grids (sums of i32, then one rescaling), or floats by stored integers,
for which LiteRT rounds the activations in each run (`dynamic_range`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i8, i16, i32, i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...ir.arrays import Array
from ..from_onnx.calls import AttributeValue, Call
from ..from_onnx.rules_linear import integer_matmul, linear
from ..from_onnx.rules_window import Window, convolution
from ..from_onnx.sizes import Free, Size, product
from ..problems import ProblemError, refuse
from .dynamic_range import rounded_activations
from .fixed_point import (
    LARGEST_SUM,
    activation_range,
    centred,
    grid_range,
    has_float_kernel,
    real_values,
    rescaled,
    rescaled_in_floats,
    rescaled_wide,
)
from .model import Quantization
from .rules_activation import activated
from .tflite_builder import Builder, Node, Rule, is_real, standard

SAME = 0
"""The kind of pads that keeps sizes, by its number in the schema; 1 has none."""


@dataclass(frozen=True)
class Product:
    """A product of an operator's first input with a weight.

    Attributes:
        x: the input, laid out as `multiply` takes it.
        weight: the weight, laid out so.
        inputs: which inputs of the node x, the weight and the bias are.
        outputs: the axis of the weight that counts outputs.
        axis: the axis of the result that does.
        multiply: makes the product of x, a weight and, for floats, a bias.
    """

    x: SSAValue
    weight: SSAValue
    inputs: tuple[int, int, int]
    outputs: int
    axis: int
    multiply: Callable[[SSAValue, SSAValue, SSAValue | None], SSAValue]

    def result(self, e: Builder, node: Node) -> SSAValue:
        """The result, activation included."""
        if not is_real(self.x):
            return self._integers(e, node)
        return activated(e, node, self.floats(e, node, node.optional(self.inputs[2])))

    def floats(self, e: Builder, node: Node, bias: SSAValue | None) -> SSAValue:
        """The sums of floats, by floats or by stored integers."""
        if is_real(self.weight):
            return self.multiply(self.x, self.weight, bias)
        return self._mixed(e, node, node.scales(self.inputs[1]), bias)

    def _mixed(
        self, e: Builder, node: Node, scales: Quantization, bias: SSAValue | None
    ) -> SSAValue:
        """Floats by stored integers."""
        signed = tensor_type(self.weight).element_type == i8 and not scales.zero_point.any()
        if not (e.rounds_activations and signed and e.is_known(self.weight)):
            weight = self._real_weight(e, scales)
            return self.multiply(self.x, weight, bias)
        is_rows = node.kind == "FULLY_CONNECTED"
        # LiteRT takes the form for one scale where all are the same.
        varied = bool((scales.scale != scales.scale[0]).any())
        symmetric = is_rows or not (varied or node.kind == "DEPTHWISE_CONV_2D")
        if node.options.get("asymmetricQuantizeInputs"):
            symmetric = False
        rank = e.rank(self.x)
        axes = [rank - 1] if is_rows else list(range(1, rank))
        steps, step = rounded_activations(e, self.x, axes, symmetric=symmetric)
        sums = self.multiply(steps, e.convert(self.weight, i32), None)
        rank = e.rank(sums)
        scale = e.known(scales.scale.astype(np.float32))
        scale = (
            e.along(scale, self.axis % rank, rank) if scales.is_per_axis else e.reshape(scale, ())
        )
        result = e.add(tensor.MulOp(e.convert(sums, step), e.add(tensor.MulOp(step, scale))))
        if bias is None:
            return result
        return e.add(tensor.AddOp(result, e.along(bias, self.axis % rank, rank)))

    def _real_weight(self, e: Builder, scales: Quantization) -> SSAValue:
        laid = Quantization(scales.scale, scales.zero_point, self.outputs)
        return real_values(e, self.weight, laid)

    def _integers(self, e: Builder, node: Node) -> SSAValue:
        """Integers on grids."""
        place, index, last = self.inputs
        scales, weights, result = node.scales(place), node.scales(index), node.result_scales()
        if weights.is_per_axis and weights.zero_point.any():
            raise ProblemError("its weights have a zero point for each channel")
        refuse(is_real(self.weight), "it multiplies integers by floats")
        x, weight = centred(e, self.x, scales), centred(e, self.weight, weights)
        bias = node.optional(last)
        largest = self._largest(e, scales, weight, bias)
        both = tensor_type(self.x).element_type == tensor_type(self.weight).element_type == i16
        wide = both or (bias is not None and tensor_type(bias).element_type == i64)
        if both or (wide and largest > LARGEST_SUM):
            x, weight = e.convert(x, i64), e.convert(weight, i64)
        sums = self.multiply(x, weight, None)
        if bias is not None:
            # A bias beyond 32 bits only stands where the sums are wide too.
            added = e.along(e.convert(bias, sums), self.axis % e.rank(sums), e.rank(sums))
            sums = e.add(tensor.AddOp(sums, added))
        bounds, axis = activation_range(node), self.axis % e.rank(sums)
        if has_float_kernel(e, *(tensor_type(v).element_type for v in (self.x, self.weight))):
            # In float32 and in this order, as XNNPACK computes it.
            real = scales.scale[0] * weights.scale / result.scale[0]
            return rescaled_in_floats(e, sums, real, result.zero, node.element, bounds, axis)
        factors = self._factors(scales, weights, result)
        connected = node.kind == "FULLY_CONNECTED"
        rounds_once = connected and not both and largest <= LARGEST_SUM
        if wide and tensor_type(self.x).element_type == i16 and not rounds_once:
            sums, bits = e.convert(sums, i64), 32 if connected and not both else 16
            return rescaled_wide(e, sums, factors, bounds, node.element, axis, bits=bits)
        sums = e.convert(sums, i32)
        once = largest if rounds_once else None
        return rescaled(
            e, sums, factors, result.zero, node.element, bounds, largest=once, axis=axis
        )

    def _factors(self, scales: Quantization, weights: Quantization, result: Quantization) -> Array:
        both = np.float64(scales.scale[0]) * weights.scale.astype(np.float64)
        return both / np.float64(result.scale[0])

    def _largest(
        self, e: Builder, scales: Quantization, weight: SSAValue, bias: SSAValue | None
    ) -> int:
        """The largest sum there may be."""
        known = e.arrays.get(weight)
        if known is None or (bias is not None and bias not in e.arrays):
            return LARGEST_SUM
        low, high = grid_range(tensor_type(self.x).element_type)
        reach = max(high - scales.zero, scales.zero - low)
        axes = tuple(a for a in range(known.ndim) if a != self.outputs % max(known.ndim, 1))
        sums = np.abs(known.astype(np.int64)).sum(axis=axes) * reach
        if bias is not None:
            sums = sums + np.abs(e.arrays[bias].astype(np.int64))
        return int(np.max(sums, initial=0))


# Fully connected layers.


def _fully_connected(e: Builder, node: Node) -> SSAValue:
    x, stored = node[0], node[1]
    refuse(node.flag("weightsFormat"), "its weights are shuffled")
    if e.rank(stored) != 2:
        raise ProblemError(f"its weight has rank {e.rank(stored)}")
    width = e.sizes(stored)[1]
    weight, sizes = e.permute(stored, [1, 0]), e.sizes(x)
    if not node.flag("keepNumDims"):
        if e.rank(x) != 2 or sizes[1] != width:
            x = e.reshape(x, (_quotient(product(sizes), width), width))
        x, weight = _unlaid(e, x, weight)
    return rows(e, x, weight, (0, 1, 2)).result(e, node)


def rows(e: Builder, x: SSAValue, weight: SSAValue, inputs: tuple[int, int, int]) -> Product:
    """The product of rows x with a weight [in, out]; `inputs` as in `Product`."""

    def multiply(x: SSAValue, weight: SSAValue, bias: SSAValue | None) -> SSAValue:
        if is_real(x) or tensor_type(x).element_type == i64:
            return linear(e, x, weight, bias)
        return integer_matmul(e, x, weight)

    return Product(x, weight, inputs, 1, -1, multiply)


def _quotient(whole: Size, part: Size) -> Size:
    if isinstance(whole, Free):
        return whole // part
    if isinstance(part, Free) or part == 0 or whole % part:
        raise ProblemError(f"{whole} elements are no rows of {part}")
    return whole // part


def _unlaid(e: Builder, x: SSAValue, weight: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Rows of a known weight in the order of images channels first, where x is such, flattened."""
    flat = x.owner
    if not isinstance(flat, tensor.ReshapeToOp) or not e.is_known(weight):
        return x, weight
    before = e.permuted(flat.operand)
    if before is None or before[1][0] != 0 or e.sizes(before[0])[0] != e.sizes(x)[0]:
        return x, weight
    source, perm = before
    inner = [size for size in e.sizes(source)[1:] if not isinstance(size, Free)]
    if len(inner) != len(perm) - 1:
        return x, weight
    order = [axis - 1 for axis in perm[1:]]
    places = np.arange(int(np.prod(inner))).reshape([inner[axis] for axis in order])
    rows = places.transpose(np.argsort(order)).reshape(-1)
    moved = e.add(tensor.GatherRowsOp(weight, e.indices(rows)))
    e.stored.add(moved)
    return e.reshape(source, e.sizes(x)), moved


# Convolutions.


def window(e: Builder, node: Node, x: SSAValue, kernel: list[int]) -> Window:
    """The window of an operator over the image x, channels first."""
    image = list(e.sizes(x)[2:])
    axes = "DHW"[-len(kernel) :]
    strides = [node.integer(f"stride{axis}") for axis in axes]
    dilation = [node.integer(f"dilation{axis}Factor", 1) for axis in axes]
    same = node.integer("padding") == SAME
    attributes: dict[str, AttributeValue] = {"strides": strides, "dilations": dilation}
    if same and any(isinstance(size, Free) for size in image) and set(strides) == {1}:
        # Without strides the pads do not depend on the image.
        total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        attributes["pads"] = [*(n // 2 for n in total), *(n - n // 2 for n in total)]
    else:
        attributes["auto_pad"] = "SAME_UPPER" if same else "VALID"
    return Window(Call("", "", 21, [], attributes), kernel, image)


def _check_images(e: Builder, *values: SSAValue, rank: int = 4) -> None:
    if any(e.rank(value) != rank for value in values):
        raise ProblemError(f"it takes images and weights of rank {rank}")


_WEIGHTS = {
    "CONV_2D": (0, 3, 1, 2),
    "CONV_3D": (4, 3, 0, 1, 2),
    "DEPTHWISE_CONV_2D": (3, 0, 1, 2),
}
"""The axes of weights, as those of outputs, inputs and the window."""


def _conv(e: Builder, node: Node) -> SSAValue:
    order = _WEIGHTS[node.kind]
    _check_images(e, node[0], node[1], rank=len(order))
    x, weight = e.first(node[0]), e.permute(node[1], order)
    channels, (depth,) = e.sizes(x)[1], e.shape(weight)[1:2]
    if isinstance(channels, Free) or not depth or channels % depth:
        raise ProblemError(f"{channels} channels do not fall into groups of {depth}")
    groups = channels // depth

    def multiply(x: SSAValue, weight: SSAValue, bias: SSAValue | None) -> SSAValue:
        # A window is used up by a convolution.
        place = window(e, node, x, e.shape(weight, "kernel")[2:])
        return convolution(e, x, weight, bias, place, groups)

    return e.last(Product(x, weight, (0, 1, 2), 0, 1, multiply).result(e, node))


def _transpose_conv(e: Builder, node: Node) -> SSAValue:
    _check_images(e, node[2], node[1])
    shape = e.size_list(node[0], "output shape")
    x, weight = e.first(node[2]), e.permute(node[1], [3, 0, 1, 2])
    strides = [node.integer("strideH"), node.integer("strideW")]
    sizes = [size for size in shape[1:3] if not isinstance(size, Free)]
    refuse(len(shape) != 4 or len(sizes) != 2, "the sizes of its result must be fixed")

    def multiply(x: SSAValue, weight: SSAValue, bias: SSAValue | None) -> SSAValue:
        return standard(
            e, "ConvTranspose", [x, weight, bias],
            auto_pad="SAME_UPPER", strides=strides, output_shape=sizes,
        )  # fmt: skip

    return e.last(Product(x, weight, (2, 1, 3), 1, 1, multiply).result(e, node))


# Products of matrices.


def _batch_matmul(e: Builder, node: Node) -> SSAValue:
    values = [node[0], node[1]]
    for index, name in enumerate(("adjX", "adjY")):
        if node.flag(name):
            values[index] = e.move_axis(values[index], -1, -2)
    x, y = values
    if not is_real(x):
        if not node.is_quantized:
            return e.add(tensor.MatmulOp(e.convert(x, node.element), e.convert(y, node.element)))
        scales = [node.scales(0), node.scales(1), node.result_scales()]
        factors = [centred(e, x, scales[0]), centred(e, y, scales[1])]
        factor = np.float32(scales[0].scale[0]) * np.float32(scales[1].scale[0])
        factor = np.float64(factor) / np.float64(scales[2].scale[0])
        if node.element == i16 and e.rounding != "once":
            sums = e.add(tensor.MatmulOp(*(e.convert(part, i64) for part in factors)))
            return rescaled_wide(e, sums, factor, grid_range(i16), i16, 0, bits=16)
        sums = e.add(tensor.MatmulOp(*factors))
        return rescaled(e, sums, factor, scales[2].zero, node.element)
    if not is_real(y):
        y = real_values(e, y, node.scales(1))
    return linear(e, x, y) if e.rank(y) == 2 else e.add(tensor.MatmulOp(x, y))


RULES: dict[str, Rule] = {
    "BATCH_MATMUL": _batch_matmul,
    "CONV_2D": _conv,
    "CONV_3D": _conv,
    "DEPTHWISE_CONV_2D": _conv,
    "FULLY_CONNECTED": _fully_connected,
    "TRANSPOSE_CONV": _transpose_conv,
}
"""By the name of the operator; all have an integer form."""
