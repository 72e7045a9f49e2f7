"""TFLite forms of the dense products: matmul, linear, conv, einsum and attention."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC, Shape, broadcast, is_float, matmul_shape
from .graph import Array, Element, Tensor, element_type
from .layout import Layout, channels_last, image_order, plain
from .products import (
    FLOAT_EXACT,
    convolution,
    exact_product,
    fully_connected,
    last_in_place,
    lifted,
    stored_bias,
    sums_of,
    weight_order,
)
from .tflite_writer import Inexpressible, Rule, Writer
from .window import lift, unlift, window_of


def matmul(e: Writer, op: tensor.MatmulOp) -> None:
    """FULLY_CONNECTED for a constant matrix, else BATCH_MATMUL."""
    known = e.array(op.rhs)
    if known is not None and known.ndim == 2:
        e.bind(op.result, *by_matrix(e, op.lhs, op.rhs, known, None))
        return
    element = e.stored(op.lhs)[0].element
    if is_float(tensor_type(op.lhs)):
        e.bind(op.result, e.cast(_batched(e, op.lhs, op.rhs), element))
        return
    terms = tensor_type(op.lhs).get_shape()[-1]
    bounds = [e.magnitudes.greatest(v) for v in (op.lhs, op.rhs)]
    if terms == DYNAMIC or terms * bounds[0] * bounds[1] > FLOAT_EXACT:
        raise Inexpressible(
            "products of two computed integer matrices are exact up to sums of 2^24 in LiteRT"
        )
    with e.exactly():
        out = e.cast(_batched(e, op.lhs, op.rhs), Element.INT32)
    e.bind(op.result, e.cast(out, element))


def linear(e: Writer, op: tensor.LinearOp) -> None:
    """FULLY_CONNECTED; a computed matrix by BATCH_MATMUL."""
    known = e.array(op.weight)
    if known is not None:
        e.bind(op.result, *by_matrix(e, op.input, op.weight, known, op.bias))
        return
    if not is_float(tensor_type(op.input)):
        raise Inexpressible("an integer product by computed weights has no form in LiteRT")
    out = e.cast(_batched(e, op.input, op.weight), e.stored(op.input)[0].element)
    e.bind(op.result, out if op.bias is None else e.binary("ADD", out, e.value(op.bias)))


def by_matrix(
    e: Writer, input: SSAValue, weight: SSAValue, known: Array, bias: SSAValue | None
) -> tuple[Tensor, Layout]:
    """x · W + b for a constant W [in, out]; its rows in the order in which x is stored."""
    x, rows, layout = vector_input(e, input, known)
    hint = e.stored(weight)[0].name
    if is_float(tensor_type(input)):
        stored = e.constant(np.ascontiguousarray(rows.T).astype(np.float32), hint)
        wide = e.float32(x)
        out = fully_connected(e, wide, stored, stored_bias(e, bias))
        return e.cast(out, x.element), layout
    reach = int(np.abs(rows.astype(np.float64)).sum(axis=0).max(initial=0))
    stored = e.constant(np.ascontiguousarray(rows.T).astype(np.float32), hint)
    bound, sums = e.magnitudes.greatest(input), sums_of(x.element)
    out = exact_product(
        e, x, bound, reach, sums, lambda piece: fully_connected(e, piece, stored, None)
    )
    if bias is not None:
        out = e.binary("ADD", out, e.cast(e.value(bias), sums))
    return e.cast(out, x.element), layout


def vector_input(e: Writer, input: SSAValue, rows: Array) -> tuple[Tensor, Array, Layout]:
    """The operand of a linear layer, the rows of W [in, out] to match, the order of the result.

    Only the last axis has to stand in its place.
    """
    x, layout = e.stored(input)
    if layout.image is not None:
        return x, rows[image_order(layout.image)], plain(x.rank)
    x, layout = last_in_place(e, input, 1)
    return x, rows, layout


def _batched(e: Writer, lhs: SSAValue, rhs: SSAValue) -> Tensor:
    """NumPy's matmul in float32; a transposed right operand stays as it is stored."""
    shapes = [tensor_type(v).get_shape() for v in (lhs, rhs)]
    x = e.float32(e.value(lhs))
    stored, layout = e.stored(rhs)
    rank = len(shapes[1])
    swapped = Layout((*range(rank - 2), rank - 1, rank - 2)) if rank >= 2 else plain(rank)
    adjoint = rank >= 2 and layout == swapped
    y = e.float32(stored if adjoint else e.value(rhs))
    x = e.reshape(x, (1, *x.shape)) if x.rank == 1 else x
    y = e.reshape(y, (*y.shape, 1)) if y.rank == 1 else y
    out = batch_matmul(e, x, y, adjoint=adjoint)
    return e.reshape(out, matmul_shape(*shapes), out)


def batch_matmul(e: Writer, x: Tensor, y: Tensor, *, adjoint: bool = False) -> Tensor:
    """BATCH_MATMUL of operands of rank 2 or more; `adjoint`: y has its last two axes swapped."""
    # XNNPACK does not resize operands of different ranks.
    x, y = (e.expand_axes(t, range(max(x.rank, y.rank) - t.rank)) for t in (x, y))
    columns = y.shape[-2] if adjoint else y.shape[-1]
    shape: Shape = (*broadcast(x.shape[:-2], y.shape[:-2]), x.shape[-2], columns)
    if len(shape) > 5:
        raise Inexpressible(
            f"LiteRT multiplies matrices of up to 5 axes, and here are {len(shape)}"
        )
    return e.node("BATCH_MATMUL", [x, y], Element.FLOAT32, shape, adjX=False, adjY=adjoint)


def conv(e: Writer, op: tensor.ConvOp) -> None:
    """CONV_2D or DEPTHWISE_CONV_2D; on integers exactly, by pieces that float32 holds."""
    rank = tensor_type(op.input).get_num_dims()
    x = lift(e, e.laid(op.input, channels_last(rank)))
    groups, known = op.groups.value.data, e.array(op.weight)
    window = window_of(op, tensor_type(op.weight).get_shape()[2:])
    order = weight_order(x, groups, rank)
    if known is None:
        computed = e.float32(e.laid(op.weight, Layout(order)))
        weight = e.expand_axes(computed, [1]) if rank == 3 else computed
    else:
        stored = lifted(known.transpose(order)).astype(np.float32)
        weight = e.constant(np.ascontiguousarray(stored), e.stored(op.weight)[0].name)
    element = e.stored(op.input)[0].element
    if is_float(tensor_type(op.input)):
        wide = e.float32(x)
        out = convolution(e, wide, weight, stored_bias(e, op.bias), window, groups)
    else:
        reach = prod(tensor_type(op.weight).get_shape()[1:]) * e.magnitudes.greatest(op.weight)
        bound, sums = e.magnitudes.greatest(op.input), sums_of(element)

        def product(piece: Tensor) -> Tensor:
            return convolution(e, piece, weight, None, window, groups)

        out = exact_product(e, x, bound, reach, sums, product)
        if op.bias is not None:
            out = e.binary("ADD", out, e.cast(e.value(op.bias), sums))
    e.bind(op.result, unlift(e, e.cast(out, element), rank), channels_last(rank))


def einsum(e: Writer, op: tensor.EinsumOp) -> None:
    """One or two operands by reductions, transposes and BATCH_MATMUL."""
    terms, _, output = op.equation.data.partition("->")
    subscripts = terms.split(",")
    if len(subscripts) > 2 or any(len(set(s)) != len(s) for s in subscripts):
        raise Inexpressible(
            "einsum of three operands or with a repeated letter has no form in LiteRT; "
            "write it as products of two"
        )
    if not is_float(tensor_type(op.result)):
        raise Inexpressible("einsum on integers has no form in LiteRT; write it as a matmul")
    element = element_type(tensor_type(op.result).element_type)
    sizes: dict[str, int] = {}
    operands: list[tuple[str, Tensor]] = []
    for index, (letters, value) in enumerate(zip(subscripts, op.inputs, strict=True)):
        others = output + "".join(s for i, s in enumerate(subscripts) if i != index)
        x = e.float32(e.value(value))
        alone = [place for place, letter in enumerate(letters) if letter not in others]
        x = e.reduce("SUM", x, alone)
        letters = "".join(letter for letter in letters if letter in others)
        sizes |= dict(zip(letters, x.shape, strict=True))
        operands.append((letters, x))
    if len(operands) == 1:
        letters, out = operands[0]
        result = e.transpose(out, [letters.index(letter) for letter in output])
    else:
        result = _contract(e, operands, sizes, output)
    e.bind(op.result, e.cast(result, element))


MOST_BATCH = 3
"""So many axes BATCH_MATMUL takes in front of those of matrices."""


def _contract(
    e: Writer, operands: list[tuple[str, Tensor]], sizes: dict[str, int], output: str
) -> Tensor:
    """Shared letters of the result become the batch, the other shared ones are summed over."""
    (left, x), (right, y) = operands
    batch = [c for c in output if c in left and c in right]
    summed = [c for c in left if c in right and c not in output]
    rows = [c for c in output if c in left and c not in right]
    columns = [c for c in output if c in right and c not in left]

    def sized(letters: list[str]) -> int:
        return (
            DYNAMIC
            if any(sizes[c] == DYNAMIC for c in letters)
            else prod(sizes[c] for c in letters)
        )

    unknown = [[c for c in (*batch, *side) if sizes[c] == DYNAMIC] for side in (rows, columns)]
    several = any(len(group) > 1 for group in unknown) or any(sizes[c] == DYNAMIC for c in summed)
    if several and len(rows) < len(columns):
        return _contract(e, operands[::-1], sizes, output)
    # Rows of several letters stand in front of a matrix that is the same for all.
    before = len(batch) if len(rows) == 1 else len(rows) - 1 + MOST_BATCH * len(batch)
    if several and not (rows and len(columns) == 1 >= len(summed) and before <= MOST_BATCH):
        raise Inexpressible("einsum with several dynamic sizes; fix them with infer-shapes")

    def matrix(letters: str, t: Tensor, order: list[str], shape: Shape) -> Tensor:
        turned = e.transpose(t, [letters.index(c) for c in order])
        return turned if several else e.reshape(turned, shape)

    shapes = [
        (sized(batch), sized(rows), sized(summed)),
        (sized(batch), sized(summed), sized(columns)),
    ]
    a = matrix(left, x, [*batch, *rows, *summed], shapes[0])
    b = matrix(right, y, [*batch, *summed, *columns], shapes[1])
    if several and not summed:
        a, b = e.expand_axes(a, [a.rank]), e.expand_axes(b, [len(batch)])
    out = batch_matmul(e, a, b)
    order = [*batch, *rows, *columns]
    spread = out if several else e.reshape(out, tuple(sizes[c] for c in order))
    return e.transpose(spread, [order.index(c) for c in output])


def attention(e: Writer, op: tensor.ScaledDotProductAttentionOp) -> None:
    """softmax(s·Q Kᵀ + mask)·V, written out. In floats in every precision."""
    element = e.stored(op.query)[0].element
    query, key, value = (e.float32(e.value(v)) for v in (op.query, op.key, op.value))
    width = query.shape[-1]
    if op.scale is None and width == DYNAMIC:
        raise Inexpressible("attention over vectors of dynamic size needs a scale")
    scale = width**-0.5 if op.scale is None else op.scale.value.data
    with e.exactly():
        query = e.binary("MUL", query, e.scalar(scale, Element.FLOAT32))
    scores = batch_matmul(e, query, key, adjoint=True)
    hidden = e.scalar(-np.inf, Element.FLOAT32)
    if op.mask is not None:
        mask = e.value(op.mask)
        if mask.element is Element.BOOL:
            scores = e.choose(mask, scores, hidden)
        else:
            scores = e.binary("ADD", scores, e.float32(mask))
    if op.is_causal.value.data:
        rows, columns = scores.shape[-2:]
        if DYNAMIC in (rows, columns):
            raise Inexpressible("causal attention over a dynamic length; fix it with infer-shapes")
        seen = e.constant(np.tri(rows, columns, dtype=np.bool_), "causal")
        scores = e.choose(seen, scores, hidden)
    with e.exactly():
        weights = e.apply("SOFTMAX", [scores], beta=1.0)
    e.bind(op.result, e.cast(batch_matmul(e, weights, value), element))


RULES: dict[type[Operation], Rule] = {
    tensor.MatmulOp: matmul,
    tensor.LinearOp: linear,
    tensor.ConvOp: conv,
    tensor.EinsumOp: einsum,
    tensor.ScaledDotProductAttentionOp: attention,
}
