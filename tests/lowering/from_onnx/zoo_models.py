"""Small models of the structure that published quantised networks have, written with onnx.helper.

Names and layouts follow the qonnx model zoo (TFC, CNV, MobileNet). Weights are random; statistics
of normalisations are such that activations use all of their levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]

QONNX = "qonnx.custom_op.general"


class Graph:
    """Nodes and initialisers, written one after another; values are names."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}

    def node(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node; its result."""
        name = f"{op.lower()}_{len(self.nodes)}"
        made = helper.make_node(op, list(inputs), [name], name=name, domain=domain, **attributes)
        self.nodes.append(made)
        return name

    def constant(self, value: Any) -> str:
        """Add an initialiser; floats are f32."""
        array = np.asarray(value)
        name = f"c{len(self.constants)}"
        self.constants[name] = array.astype(np.float32) if array.dtype.kind == "f" else array
        return name

    def quant(self, x: str, bits: int, scale: float, *, signed: bool = True, narrow: bool = True,
              zero: float = 0.0, rounding: str = "ROUND") -> str:  # fmt: skip
        """qonnx's Quant, or BipolarQuant for one bit."""
        factor = self.constant(np.array(scale))
        if bits == 1:
            return self.node("BipolarQuant", x, factor, domain=QONNX)
        return self.node(
            "Quant", x, factor, self.constant(np.array(zero)), self.constant(np.array(float(bits))),
            domain=QONNX, signed=int(signed), narrow=int(narrow), rounding_mode=rounding,
        )  # fmt: skip

    def weight(self, shape: Sequence[int], bits: int, scale: float = 0.5) -> str:
        """A quantised weight."""
        return self.quant(self.constant(self.rng.standard_normal(shape) * 0.6), bits, scale)

    def norm(self, x: str, channels: int, spread: float) -> str:
        """A normalisation of sums of about that spread; some channels are negated."""
        parts = [
            self.rng.uniform(0.5, 1.5, channels) * self.rng.choice([-1, 1], channels),
            self.rng.normal(0, 0.3, channels),
            self.rng.normal(0, spread / 3, channels),
            spread**2 * self.rng.uniform(0.5, 1.5, channels),
        ]
        return self.node("BatchNormalization", x, *map(self.constant, parts), epsilon=1e-5)

    def model(self, shape: Sequence[int | str], result: str, opset: int = 11) -> Any:
        """The model with one input `x` and one output."""
        outputs = [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))]
        tensors = [
            helper.make_tensor(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.ravel())
            for n, a in self.constants.items()
        ]
        graph = helper.make_graph(self.nodes, "zoo", inputs, outputs, tensors)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(QONNX, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def tfc(weight_bits: int, activation_bits: int, seed: int = 0) -> Any:
    """TFC_xWyA: a fully connected network on quantised inputs, a scale and bias at the end."""
    g = Graph(seed)
    x = g.node("Reshape", "x", g.constant(np.array([-1, 36])))
    x = g.node("Sub", g.node("Mul", x, g.constant(np.array(2.0))), g.constant(np.array([1.0])))
    x = g.quant(x, activation_bits, 1.0 if activation_bits == 1 else 0.5)
    for inputs, outputs in ((36, 16), (16, 16)):
        x = g.node("MatMul", x, g.weight((inputs, outputs), weight_bits))
        x = g.norm(x, outputs, float(np.sqrt(inputs)) / 2)
        x = g.quant(x, activation_bits, 1.0 if activation_bits == 1 else 0.5)
    x = g.node("MatMul", x, g.weight((16, 5), weight_bits))
    x = g.node("Add", g.node("Mul", x, g.constant(np.array([0.37]))), g.constant(np.array([-0.9])))
    return g.model(["N", 1, 6, 6], x)


def cnv(weight_bits: int, activation_bits: int, seed: int = 0) -> Any:
    """CNV_xWyA: convolutions without padding, max pooling, dense layers; 8-bit images."""
    g = Graph(seed)
    x = g.quant("x", 8, 2.0**-7)
    channels = 3
    for index, outputs in enumerate((8, 8)):
        weight = g.weight((outputs, channels, 3, 3), weight_bits)
        x = g.node("Conv", x, weight, kernel_shape=[3, 3])
        x = g.norm(x, outputs, float(np.sqrt(9 * channels)) / 2)
        x = g.quant(x, activation_bits, 1.0 if activation_bits == 1 else 0.5)
        if index:
            x = g.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        channels = outputs
    x = g.node("Reshape", x, g.constant(np.array([-1, 8 * 9])))
    x = g.node("MatMul", x, g.weight((72, 12), weight_bits))
    x = g.quant(g.norm(x, 12, 4.0), activation_bits, 1.0 if activation_bits == 1 else 0.5)
    x = g.node("MatMul", x, g.weight((12, 4), weight_bits))
    return g.model(["N", 3, 10, 10], g.norm(x, 4, 2.0))


def mobilenet(weight_bits: int = 2, activation_bits: int = 4, seed: int = 0) -> Any:
    """MobileNet with Quant: padded, depthwise and pointwise convolutions, a mean, a dense layer."""
    g = Graph(seed)
    x = g.quant("x", 8, 2.0**-6)
    kinds = (
        (3, 8, 3, 1, 2),
        (8, 8, 3, 8, 1),
        (8, 12, 1, 1, 1),
        (12, 12, 3, 12, 2),
        (12, 8, 1, 1, 1),
    )
    for inputs, outputs, kernel, groups, stride in kinds:
        weight = g.weight((outputs, inputs // groups, kernel, kernel), weight_bits)
        pad = kernel // 2
        x = g.node("Conv", x, weight, kernel_shape=[kernel] * 2, pads=[pad] * 4, group=groups,
                   strides=[stride] * 2)  # fmt: skip
        x = g.node("Relu", g.norm(x, outputs, float(kernel * np.sqrt(inputs / groups)) / 2))
        x = g.quant(x, activation_bits, 0.25, signed=False, narrow=False)
    x = g.node("GlobalAveragePool", x)
    x = g.node("Reshape", x, g.constant(np.array([-1, 8])))
    x = g.node(
        "Gemm", x, g.weight((4, 8), weight_bits), g.constant(g.rng.normal(0, 1, 4)), transB=1
    )
    return g.model(["N", 3, 8, 8], x)


def residual(weight_bits: int = 2, activation_bits: int = 3, seed: int = 0) -> Any:
    """A residual block whose two ways are quantised with the same scale."""
    g = Graph(seed)
    x = g.quant("x", 4, 0.25)
    x = g.node("Conv", x, g.weight((6, 3, 3, 3), weight_bits), pads=[1] * 4)
    x = g.quant(g.node("Relu", g.norm(x, 6, 2.0)), activation_bits, 0.5, signed=False, narrow=False)
    y = g.node("Conv", x, g.weight((6, 6, 3, 3), weight_bits), pads=[1] * 4)
    y = g.quant(g.norm(y, 6, 3.0), activation_bits, 0.5)
    x = g.quant(g.node("Relu", g.node("Add", x, y)), activation_bits, 0.5, signed=False,
                narrow=False)  # fmt: skip
    x = g.node("Flatten", g.node("GlobalAveragePool", x))
    x = g.node(
        "Gemm", x, g.weight((4, 6), weight_bits), g.constant(g.rng.normal(0, 1, 4)), transB=1
    )
    return g.model(["N", 3, 6, 6], x)


def activation(g: Graph, x: str, channels: int, bits: int, scale: float) -> str:
    """A normalisation, relu and a quantiser without sign."""
    x = g.node("Relu", g.norm(x, channels, 2.5))
    return g.quant(x, bits, scale, signed=False, narrow=False)


def convolution(
    g: Graph, x: str, sizes: tuple[int, int, int], bits: int, scale: float, stride: int = 1
) -> str:
    """A convolution that keeps the size, or halves it: inputs, outputs, kernel."""
    inputs, outputs, kernel = sizes
    weight = g.weight((outputs, inputs, kernel, kernel), bits, scale)
    pads = [kernel // 2] * 4
    return g.node("Conv", x, weight, kernel_shape=[kernel] * 2, pads=pads, strides=[stride, stride])


def several_bits(seed: int = 0) -> Any:
    """Weights of 4, 3 and 6 bits, activations of 3 and 4."""
    g = Graph(seed)
    x = g.quant("x", 8, 2.0**-6)
    x = g.quant(g.norm(convolution(g, x, (2, 6, 3), 4, 0.13), 6, 2.0), 3, 0.25)
    x = activation(g, convolution(g, x, (6, 8, 3), 3, 0.21, 2), 8, 4, 0.25)
    x = g.node("Reshape", x, g.constant(np.array([-1, 72])))
    bias = g.constant(g.rng.normal(0, 1, 4))
    return g.model(["N", 2, 6, 6], g.node("Gemm", x, g.weight((4, 72), 6, 0.03), bias, transB=1))


def unet(seed: int = 0) -> Any:
    """Channels last outside; halved, and doubled again beside what was before."""
    g = Graph(seed)
    x = g.node("Transpose", g.quant("x", 4, 0.25), perm=[0, 3, 1, 2])
    a = activation(g, convolution(g, x, (2, 4, 3), 3, 0.21), 4, 3, 0.5)
    b = activation(g, convolution(g, a, (4, 6, 3), 3, 0.21, 2), 6, 3, 0.5)
    none, sizes = g.constant(np.zeros(0)), g.constant(np.array([1.0, 1.0, 2.0, 2.0]))
    up = g.node("Resize", b, none, sizes, mode="nearest", nearest_mode="floor",
                coordinate_transformation_mode="asymmetric")  # fmt: skip
    x = g.node("Concat", up, a, axis=1)
    x = activation(g, convolution(g, x, (10, 4, 3), 3, 0.21), 4, 3, 0.5)
    x = convolution(g, x, (4, 3, 1), 3, 0.21)
    return g.model(["N", 6, 6, 2], g.node("Transpose", x, perm=[0, 2, 3, 1]))


def averaged(seed: int = 0) -> Any:
    """Two activations on different steps are added; means of windows and of the image."""
    g = Graph(seed)
    x = activation(g, convolution(g, g.quant("x", 6, 2.0**-4), (3, 6, 3), 4, 0.13), 6, 4, 0.25)
    y = activation(g, convolution(g, x, (6, 6, 3), 3, 0.21), 6, 4, 0.125)
    x = g.node("AveragePool", g.node("Add", x, y), kernel_shape=[2, 2], strides=[2, 2])
    x = g.node("GlobalAveragePool", g.quant(x, 4, 0.25, signed=False, narrow=False))
    x = g.node("Reshape", x, g.constant(np.array([-1, 6])))
    return g.model(["N", 3, 6, 6], g.node("MatMul", x, g.weight((6, 4), 4, 0.1)))


def transposed(seed: int = 0) -> Any:
    """An image that a transposed convolution doubles again."""
    g = Graph(seed)
    x = activation(g, convolution(g, g.quant("x", 4, 0.25), (3, 4, 3), 3, 0.21, 2), 4, 3, 0.5)
    x = g.node("ConvTranspose", x, g.weight((4, 4, 2, 2), 3, 0.21), strides=[2, 2])
    x = activation(g, x, 4, 3, 0.5)
    return g.model(["N", 3, 6, 6], convolution(g, x, (4, 3, 1), 3, 0.21))


def int64_parameters(seed: int = 0) -> Any:
    """Quantisers whose zero points and numbers of bits are int64."""
    model = several_bits(seed)
    for constant in model.graph.initializer:
        value = numpy_helper.to_array(constant)
        if value.shape == () and value.dtype == np.float32 and value == np.rint(value):
            whole = value.astype(np.int64)
            constant.CopyFrom(numpy_helper.from_array(whole, constant.name))
    return model


def thresholds(g: Graph, x: str, rows: Array, **attributes: Any) -> str:
    """FINN's activation: how many thresholds of its channel a sum reaches."""
    known = g.constant(np.sort(rows, axis=1))
    kind = f"UINT{int(rows.shape[1]).bit_length()}"
    return g.node("MultiThreshold", x, known, domain=QONNX, out_dtype=kind, **attributes)


def finn(seed: int = 0) -> Any:
    """As FINN leaves networks: thresholds in the place of activations, some with channels last."""
    g = Graph(seed)
    even = (np.arange(7) - 3.5)[None] * 0.3
    x = thresholds(g, "x", even, out_scale=0.5, out_bias=-2.0)
    x = g.node("Conv", x, g.weight((5, 2, 3, 3), 1), pads=[1] * 4)
    x = thresholds(g, x, g.rng.integers(-9, 9, (5, 3)) + 0.125)
    x = g.node("Transpose", g.node("Conv", x, g.weight((4, 5, 3, 3), 2)), perm=[0, 2, 3, 1])
    x = thresholds(g, x, g.rng.integers(-4, 4, (4, 7)) + 0.25, data_layout="NHWC", out_scale=0.5)
    x = g.node("Transpose", x, perm=[0, 3, 1, 2])
    x = g.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g.node("Reshape", x, g.constant(np.array([-1, 16])))
    return g.model(["N", 2, 6, 6], g.node("MatMul", x, g.weight((16, 4), 4, 0.1)))


def bytes_by_255(seed: int = 0) -> Any:
    """Unsigned bytes that are n/255, weights of their own scale a channel, uneven windows."""
    g = Graph(seed)
    x = g.quant("x", 8, 1 / 255, signed=False, narrow=False)
    x = g.node("Conv", x, g.weight((6, 2, 3, 2), 4, 0.11), pads=[2, 0, 1, 1], dilations=[1, 2],
               strides=[2, 1])  # fmt: skip
    x = activation(g, x, 6, 8, 0.0137)
    weight = g.weight((4, 3, 3, 3), 3, 0.17)
    x = g.node("Conv", x, weight, group=2, pads=[1, 1, 0, 1], kernel_shape=[3, 3])
    x = activation(g, x, 4, 4, 0.33)
    x = g.node("AveragePool", x, kernel_shape=[3, 2], strides=[1, 2])
    x = g.node("Flatten", g.quant(x, 4, 0.21, signed=False, narrow=False))
    return g.model(["N", 2, 8, 8], g.node("MatMul", x, g.weight((24, 4), 4, 0.1)))


def stated(seed: int = 0) -> Any:
    """Inputs that no quantiser says anything of: halves from -4 to 3.5."""
    g = Graph(seed)
    x = g.node("Reshape", "x", g.constant(np.array([-1, 24])))
    for inputs, outputs in ((24, 16), (16, 12)):
        x = activation(g, g.node("MatMul", x, g.weight((inputs, outputs), 2, 0.4)), outputs, 2, 0.5)
    return g.model(["N", 24], g.node("MatMul", x, g.weight((12, 5), 2, 0.4)))


def by_channel(g: Graph, x: str, scales: Array, bits: int, **options: Any) -> str:
    """A quantiser with a scale for each channel of an image."""
    known = g.constant(np.asarray(scales).reshape(1, -1, 1, 1))
    zero, width = g.constant(np.array(0.0)), g.constant(np.array(float(bits)))
    kind = {"signed": 1, "narrow": 0, "rounding_mode": "ROUND", **options}
    return g.node("Quant", x, known, zero, width, domain=QONNX, **kind)


def scales_by_channel(seed: int = 0) -> Any:
    """Activations with a scale a channel before depthwise convolutions, and before groups."""
    g = Graph(seed)
    x = by_channel(g, g.quant("x", 6, 0.07), np.array([0.11, 0.2]), 4)
    x = g.node("Conv", x, g.weight((2, 1, 3, 3), 3, 0.3), group=2, pads=[1] * 4)
    x = g.quant(g.norm(x, 2, 0.7), 4, 0.3)
    x = g.norm(convolution(g, x, (2, 4, 3), 4, 0.13), 4, 1.5)
    x = by_channel(g, x, g.rng.uniform(0.1, 0.3, 4), 4)
    x = g.node("Conv", x, g.weight((8, 1, 3, 3), 3, 0.2), group=4, pads=[1, 0, 1, 2])
    x = by_channel(g, x, np.array([1, 2, 4, 1, 3, 1, 2, 2]) * 0.07, 3, signed=0)
    x = g.node("Conv", x, g.weight((4, 4, 2, 2), 3, 0.2), group=2)
    x = activation(g, x, 4, 3, 0.25)
    factors = np.array([0.7, -1.3, 0.9, 1.1]).reshape(1, 4, 1, 1)
    x = g.node("Add", g.node("Mul", x, g.constant(factors)), g.constant(factors / 3))
    x = g.node("Conv", x, g.weight((4, 1, 2, 2), 3, 0.2), group=4)
    x = g.node("Flatten", g.quant(x, 4, 0.3))
    return g.model(["N", 2, 6, 6], g.node("MatMul", x, g.weight((64, 4), 3, 0.2)))


def preactivated(seed: int = 0) -> Any:
    """Sums of activations that are normalised, and sums of 9 bits that a product takes."""
    g = Graph(seed)
    x = g.quant(convolution(g, g.quant("x", 4, 0.25), (2, 4, 3), 4, 0.13), 8, 0.0537, narrow=False)
    y = activation(g, x, 4, 3, 0.3)
    y = g.quant(convolution(g, y, (4, 4, 3), 3, 0.21), 8, 0.0537, narrow=False)
    x = g.node("Add", x, y)
    y = activation(g, x, 4, 3, 0.3)
    x = activation(g, convolution(g, x, (4, 4, 1), 3, 0.21), 4, 3, 0.4)
    x = g.node("Flatten", g.node("Concat", x, y, axis=1))
    return g.model(["N", 2, 5, 5], g.node("MatMul", x, g.weight((200, 4), 3, 0.2)))


def turning(seed: int = 0) -> Any:
    """Activations that fall and rise again, pooled and padded."""
    g = Graph(seed)
    x = g.norm(convolution(g, g.quant("x", 4, 0.25), (2, 5, 3), 4, 0.13), 5, 0.7)
    x = g.quant(g.node("HardSwish", x), 4, 0.17, narrow=False)
    x = g.node("MaxPool", x, kernel_shape=[2, 2], strides=[1, 1])
    x = g.node("Abs", g.norm(convolution(g, x, (5, 4, 3), 3, 0.21), 4, 1.5))
    x = g.node("Flatten", g.quant(x, 3, 0.19, signed=False, narrow=False))
    return g.model(["N", 2, 5, 5], g.node("MatMul", x, g.weight((64, 4), 3, 0.2)), opset=14)


def summed_signs(seed: int = 0) -> Any:
    """Sums of signs, which are even numbers, in a padded convolution."""
    g = Graph(seed)
    x = g.quant(g.norm(convolution(g, g.quant("x", 4, 0.25), (2, 4, 3), 4, 0.13), 4, 1.5), 1, 1.0)
    y = g.quant(g.norm(convolution(g, x, (4, 4, 3), 1, 1.0), 4, 4.0), 1, 1.0)
    x = convolution(g, g.node("Add", x, y), (4, 3, 3), 2, 0.25)
    return g.model(["N", 2, 5, 5], x)


def few_of_many_levels(seed: int = 0) -> Any:
    """Quantisers of 8 bits after sums of few values; an input beside them; one constant level."""
    g = Graph(seed)
    a = g.quant("x", 2, 0.31)
    b = g.quant(convolution(g, a, (2, 4, 3), 5, 0.083), 8, 0.00731, narrow=False)
    c = g.quant(g.node("Relu", convolution(g, a, (2, 2, 1), 2, 0.5)), 1, 0.37)
    x = g.node("Concat", g.node("Add", g.quant(a, 2, 0.173), c), b, axis=1)
    x = g.quant(x, 8, 0.0191, narrow=False)
    x = g.node("Abs", g.norm(convolution(g, x, (6, 4, 3), 3, 0.21), 4, 2.0))
    x = g.node("Flatten", g.quant(x, 8, 0.0117, signed=False, narrow=False))
    return g.model(["N", 2, 4, 4], g.node("MatMul", x, g.weight((64, 4), 3, 0.2)))


def class_by_scales(seed: int = 0) -> Any:
    """The class among sums with a scale a channel."""
    g = Graph(seed)
    x = g.quant("x", 4, 0.11, narrow=False)
    scales = g.constant(g.rng.uniform(0.02, 0.3, (1, 7)))
    weight, zero = g.constant(g.rng.standard_normal((25, 7))), g.constant(np.array(0.0))
    weight = g.node("Quant", weight, scales, zero, g.constant(np.array(4.0)), domain=QONNX,
                    signed=1, narrow=1, rounding_mode="ROUND")  # fmt: skip
    x = g.node("Add", g.node("MatMul", x, weight), g.constant(g.rng.normal(0, 0.4, 7)))
    model = g.model(["N", 25], g.node("ArgMax", x, axis=1))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    return model


MODELS = {
    "tfc_1w1a": lambda: tfc(1, 1),
    "tfc_1w2a": lambda: tfc(1, 2),
    "tfc_2w2a": lambda: tfc(2, 2),
    "cnv_1w1a": lambda: cnv(1, 1),
    "cnv_1w2a": lambda: cnv(1, 2),
    "cnv_2w2a": lambda: cnv(2, 2),
    "mobilenet_2w4a": mobilenet,
    "residual_2w3a": residual,
    "several_bits": several_bits,
    "unet_3w3a": unet,
    "averaged_4w4a": averaged,
    "transposed_3w3a": transposed,
    "int64_parameters": int64_parameters,
    "finn_thresholds": finn,
    "bytes_by_255": bytes_by_255,
    "scales_by_channel": scales_by_channel,
    "preactivated": preactivated,
    "turning": turning,
    "summed_signs": summed_signs,
    "few_of_many_levels": few_of_many_levels,
    "class_by_scales": class_by_scales,
}
"""Each makes a model; the input `x` has a free batch."""
