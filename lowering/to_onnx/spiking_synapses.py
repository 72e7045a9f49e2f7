"""ONNX forms of synapses, pools, delays and batch normalisation: all steps at once."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import spike
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC, Shape
from ...dialects.spike.types import dense_type, is_train
from ...dialects.ternary.types import is_trit
from .graph import DOMAIN, Element, element_type
from .integer import FLOAT_EXACT, exact_product
from .linear import pool_attributes, window_attributes
from .onnx_writer import FUNCTION_OPSET, Rule, Writer, unpack_attributes
from .quantization import constant_of
from .shape import arange
from .spiking_neurons import compute_element

Product = Callable[[str, str], str]
"""Writes a product of numbers of one type."""

TernaryProduct = Callable[[str], str]
"""Writes the product of floats with the trits of a synapse."""


def linear(e: Writer, op: spike.LinearOp) -> None:
    """MatMul over all steps, then scale and bias."""
    shape = tensor_type(op.weight).get_shape()

    def product(x: str, w: str) -> str:
        return e.apply("MatMul", [x, w])

    def ternary(x: str) -> str:
        element = e.element(x)
        packed = None if e.in_body or e.opset < FUNCTION_OPSET else e.packed(op.weight)
        if packed is None:
            return product(x, e.trits(op.weight, element))
        attributes = unpack_attributes(shape, element)
        return e.call(DOMAIN, "ternary.matmul", [x, packed], element, attributes)

    _synapse(e, op, shape[0], product, ternary)


def conv(e: Writer, op: spike.ConvOp) -> None:
    """Conv over the images of all steps, then scale and bias."""
    window = window_attributes(op)
    input, result = dense_type(op.input).get_shape(), tensor_type(op.result).get_shape()

    def product(x: str, w: str) -> str:
        images = e.reshape(x, [-1, *input[2:]]) if DYNAMIC not in input[2:] else _merged(e, x)
        out = e.apply("Conv", [images, w], rest=(), result=None, **window)
        return _steps_apart(e, out, x, input, result)

    def ternary(x: str) -> str:
        return product(x, e.trits(op.weight, e.element(x)))

    _synapse(e, op, prod(tensor_type(op.weight).get_shape()[1:]), product, ternary)


def _merged(e: Writer, x: str) -> str:
    """[T, N, …] as [T·N, …] where sizes are unknown."""
    shape = e.node("Shape", [x], Element.INT64)
    rest = e.slice_axes(shape, [2], [1 << 31], [0], [1])
    sizes = e.node("Concat", [e.indices([-1]), rest], Element.INT64, axis=0)
    return e.reshape_to(x, sizes)


def _steps_apart(e: Writer, images: str, x: str, input: Shape, result: Shape) -> str:
    """[T·N, …] as [T, N, …], T and N those of `x`."""
    if sum(size == DYNAMIC for size in result) <= 1:
        return e.reshape(images, [max(size, -1) for size in result])
    steps = [e.dimension(x, axis, input[axis]) for axis in (0, 1)]
    if DYNAMIC in result[2:]:
        shape = e.node("Shape", [images], Element.INT64)
        rest = e.slice_axes(shape, [1], [1 << 31], [0], [1])
    else:
        rest = e.indices(result[2:])
    sizes = e.node("Concat", [*steps, rest], Element.INT64, axis=0)
    return e.reshape_to(images, sizes, literal_zero=True)


def _synapse(
    e: Writer,
    op: spike.LinearOp | spike.ConvOp,
    terms: int,
    product: Product,
    ternary: TernaryProduct,
) -> None:
    """The sums, by `product` or, of trits, by `ternary`; then scale and bias."""
    weight = tensor_type(op.weight)
    stored = element_type(tensor_type(op.result).element_type)
    wide = compute_element(stored)
    if element_type(op.sum_element(weight)) is Element.INT32:
        sums = _exact_sums(e, op, terms, product, ternary)
        if op.scale is None:
            sums = e.cast(sums, Element.INT32)
    elif is_trit(weight):
        sums = ternary(e.numbers(op.input, wide))
    else:
        sums = product(e.numbers(op.input, wide), e.numbers(op.weight, wide))
    rank = tensor_type(op.result).get_num_dims()
    for op_type, value in (("Mul", op.scale), ("Add", op.bias)):
        if value is None or (op_type == "Mul" and _is_one(value, e)):
            continue
        shape = tensor_type(value).get_shape()
        laid = e.along_axis(e.numbers(value, wide), shape, op.CHANNEL_AXIS, rank)
        sums = e.apply(op_type, [e.cast(sums, wide), laid])
    e.bind(op.result, e.cast(e.cast(sums, wide), stored))


def _is_one(value: SSAValue, e: Writer) -> bool:
    known = constant_of(e.source(value))
    return known is not None and bool(np.all(known == 1))


def _exact_sums(
    e: Writer,
    op: spike.LinearOp | spike.ConvOp,
    terms: int,
    product: Product,
    ternary: TernaryProduct,
) -> str:
    """Sums of integers: float32 where that holds every one, else INT32."""
    trits = is_trit(tensor_type(op.weight))
    bound = 1 if is_train(op.input) else e.magnitudes.greatest(op.input)
    greatest = 1 if trits else e.magnitudes.greatest(op.weight)
    if terms * bound * greatest <= FLOAT_EXACT:
        x = e.numbers(op.input, Element.FLOAT)
        if trits:
            return ternary(x)
        return product(x, e.numbers(op.weight, Element.FLOAT))
    x = e.value(op.input)
    weight = e.trits(op.weight, Element.INT8) if trits else e.value(op.weight)
    return exact_product(e, (x, bound), (weight, greatest), terms, Element.INT32, product)


def avg_pool(e: Writer, op: spike.AvgPoolOp) -> None:
    """AveragePool over the images of all steps."""
    stored = element_type(tensor_type(op.result).element_type)
    out = _pool(e, op, e.numbers(op.operand, compute_element(stored)), "AveragePool")
    e.bind(op.result, e.cast(out, stored))


def max_pool(e: Writer, op: spike.MaxPoolOp) -> None:
    """MaxPool over zeros and ones."""
    e.bind(op.result, _pool(e, op, e.numbers(op.operand, Element.FLOAT), "MaxPool"))


def _pool(e: Writer, op: spike.AvgPoolOp | spike.MaxPoolOp, x: str, op_type: str) -> str:
    input, result = dense_type(op.operand).get_shape(), dense_type(op.result).get_shape()
    images = e.reshape(x, [-1, *input[2:]]) if DYNAMIC not in input[2:] else _merged(e, x)
    out = e.apply(op_type, [images], rest=(), result=None, **pool_attributes(op))
    return _steps_apart(e, out, x, input, result)


def delay(e: Writer, op: spike.DelayOp) -> None:
    """What came before, the run, and a part of both cut out."""
    steps, shape = op.steps.value.data, dense_type(op.input).get_shape()
    element = element_type(dense_type(op.input).element_type)
    x = e.numbers(op.input, element)
    if op.initial is not None:
        whole = e.apply("Concat", [e.numbers(op.initial, element), x], axis=0)
    else:
        pads = e.indices([steps, *[0] * (2 * len(shape) - 1)], "pads")
        whole = e.apply("Pad", [x], rest=[pads])
    if op.delays is not None:
        out = _delayed_each(e, op, x, whole, steps)
    else:
        out = e.slice_axes(whole, [0], [-steps], [0], [1]) if steps else x
    e.bind(op.output, out)
    if op.final is not None:
        first = [-steps] if steps else [1 << 31]
        e.bind(op.final, e.slice_axes(whole, first, [1 << 31], [0], [1]))


def _delayed_each(e: Writer, op: spike.DelayOp, x: str, whole: str, steps: int) -> str:
    """Element t + steps - d of `whole` for the delay d of each neuron."""
    assert op.delays is not None
    shape = dense_type(op.input).get_shape()
    t = e.unsqueeze(arange(e, e.dimension(x, 0, shape[0])), list(range(1, len(shape))))
    back = e.apply("Sub", [e.scalar(steps, Element.INT64), e.numbers(op.delays, Element.INT64)])
    places = e.apply("Add", [t, back])
    sizes = e.node("Shape", [x], Element.INT64)
    places = e.apply("Expand", [places], rest=[sizes])
    return e.node("GatherElements", [whole, places], e.element(whole), axis=0)


def batch_norm(e: Writer, op: spike.BatchNormOp) -> None:
    """(x - mean)/√(var + ε)·factor·scale + bias, in this order."""
    x = e.value(op.input)
    stored = e.element(x)
    wide = compute_element(stored)
    rank, axis = tensor_type(op.input).get_num_dims(), op.axis.value.data

    def channel(value: SSAValue) -> str:
        return e.along_axis(e.numbers(value, wide), (1,), axis, rank)

    epsilon = e.scalar(op.epsilon.value.data, wide)
    deviation = e.apply("Sqrt", [e.apply("Add", [e.numbers(op.variance, wide), epsilon])])
    out = e.apply("Sub", [e.cast(x, wide), channel(op.mean)])
    out = e.apply("Div", [out, e.along_axis(deviation, (1,), axis, rank)])
    if op.kind.data == "tdbn":
        out = e.apply("Mul", [out, e.scalar(op.factor(), wide)])
    out = e.apply("Add", [e.apply("Mul", [out, channel(op.scale)]), channel(op.bias)])
    e.bind(op.result, e.cast(out, stored))


RULES: dict[type[Operation], Rule] = {
    spike.LinearOp: linear,
    spike.ConvOp: conv,
    spike.AvgPoolOp: avg_pool,
    spike.MaxPoolOp: max_pool,
    spike.DelayOp: delay,
    spike.BatchNormOp: batch_norm,
}
