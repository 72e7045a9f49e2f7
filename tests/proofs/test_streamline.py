"""`streamline`: float steps between products of few-bit values against the integers made of them.

Networks of two int8 are run on every pair. What a quantiser of a float argument gives is asked of
the solver for all finite f32. The scales are powers of two, so that the float program itself rounds
nothing, and results are equal to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, i8, i32
from xdsl.ir import SSAValue

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.parameters import dense_constant
from triton_dsl.dialects.shapes import is_float
from triton_dsl.passes.analysis.layers import is_layer
from triton_dsl.passes.streamline.streamline import STAYS, StreamlinePass

from .equivalence import all_values, arguments_of, changed, enumerate_all, prove, results_on
from .programs import program, tensor_of
from .rewrites import proves

BYTE = range(-128, 128)

Body = Callable[..., Any]


def known(insert: Any, numbers: Any, element: Any = f32) -> SSAValue:
    """A constant."""
    return insert(dense_constant(np.asarray(numbers), element))


def times(insert: Any, x: SSAValue, outputs: int = 2, **options: Any) -> SSAValue:
    """A product of the last axis with trits, among them zeros."""
    inputs = tensor_type(x).get_shape()[-1]
    weight = np.resize([1, -1, 1, 0, 1, 1, -1], (inputs, outputs))
    trits = insert(ternary.ConstantOp(weight.reshape(-1).tolist(), weight.shape))
    return insert(ternary.LinearOp(x, trits, **options))


def convolved(insert: Any, x: SSAValue, window: Sequence[int], **options: Any) -> SSAValue:
    """A convolution with two output channels."""
    shape = (2, tensor_type(x).get_shape()[1], *window)
    weight = np.resize([1, -1, 1, 1, -1], shape)
    trits = insert(ternary.ConstantOp(weight.reshape(-1).tolist(), shape))
    return insert(ternary.ConvOp(x, trits, **options))


def shaped(insert: Any, numbers: Any, x: SSAValue) -> SSAValue:
    """One number a channel: the last axis of a matrix, axis 1 of an image."""
    rank = tensor_type(x).get_num_dims()
    vector = np.asarray(numbers)
    return known(insert, vector.reshape(-1, *[1] * (rank - 2)) if vector.ndim else vector)


def levels(insert: Any, x: SSAValue, scale: Any = 0.03125, bias: Any = 1.25, most: float = 3.0):
    """Scale, bias, bounds and rounding: a quantiser in float."""
    scaled = insert(tensor.MulOp(x, shaped(insert, scale, x)))
    moved = insert(tensor.AddOp(scaled, shaped(insert, bias, x)))
    return insert(tensor.RoundOp(insert(tensor.ClampOp(moved, min=0.0, max=most))))


def signs(insert: Any, x: SSAValue) -> SSAValue:
    """-1 below 0, else 1."""
    reached = insert(tensor.CompareOp(x, known(insert, 0.0), "ge"))
    return insert(tensor.WhereOp(reached, known(insert, 1.0), known(insert, -1.0)))


def on_bytes(body: Body, *shapes: Sequence[int], scale: float = 0.5) -> ModuleOp:
    """int8 tensors, their floats, and a body."""

    def whole(insert: Any, *arguments: SSAValue) -> Any:
        grid = known(insert, scale), known(insert, -3, i8)
        return body(insert, *(insert(tensor.DequantizeOp(x, *grid)) for x in arguments))

    return program([tensor_of(i8, shape) for shape in shapes], whole)


def streamlined(before: ModuleOp, inputs: str | None = None) -> ModuleOp:
    """The module after the pass, without products of floats."""
    after = changed(before, lambda m: StreamlinePass(inputs=inputs).apply(Context(), m))
    assert not any(is_layer(op) and is_float(tensor_type(op.result)) for op in after.walk())
    return after


def every_pair(before: ModuleOp) -> list[Any]:
    """All int8 of a program that has two."""
    types: list[Any] = arguments_of(before)
    sizes = [int(np.prod(type.get_shape())) for type in types]
    cases = all_values(*[BYTE] * sum(sizes))
    ends = np.cumsum([0, *sizes])
    pieces = [cases[:, a:b] for a, b in pairwise(ends)]
    return [p.reshape(-1, *t.get_shape()) for p, t in zip(pieces, types, strict=True)]


def same(body: Body, *shapes: Sequence[int]) -> ModuleOp:
    """Run every input through the program and what becomes of it, which is returned."""
    before = on_bytes(body, *shapes)
    after = streamlined(before)
    enumerate_all(before, after, every_pair(before))
    return after


def two_products(insert: Any, x: SSAValue, **steps: Any) -> SSAValue:
    return times(insert, levels(insert, times(insert, x), **steps), 3)


def op(kind: Any, *options: Any, **named: Any) -> Body:
    return lambda insert, x: insert(kind(x, *options, **named))


def rows(names: Any) -> list[str]:
    return [f"streamline: {name}" for name in names]


COUNTED = rows(["dequantized", "product", "_step", "_counted", "integer_result"])


@proves(COUNTED, by="enumeration")
@pytest.mark.parametrize("scale", [0.03125, [0.25, 0.0625]], ids=str)
@pytest.mark.parametrize("bias", [0.5, [1.5, -2.25]], ids=str)
@pytest.mark.parametrize("most", [1.0, 3.0, 15.0])
def test_steps_between_products_are_counted(scale: Any, bias: Any, most: float) -> None:
    def body(insert: Any, x: SSAValue) -> SSAValue:
        return two_products(insert, x, scale=scale, bias=bias, most=most)

    after = same(body, [1, 2])
    assert any(isinstance(op, tensor.MultiThresholdOp) for op in after.walk())


def test_optional_steps_of_a_product_are_counted_too() -> None:
    def body(insert: Any, x: SSAValue) -> SSAValue:
        scale, bias = known(insert, [0.25, 0.5]), known(insert, [1.0, -2.5])
        sums = times(insert, x, activation="relu", scale=scale, bias=bias)
        return times(insert, levels(insert, sums))

    same(body, [1, 2])


def test_results_with_a_factor_and_a_sum() -> None:
    def body(insert: Any, x: SSAValue) -> SSAValue:
        scaled = insert(tensor.MulOp(two_products(insert, x), known(insert, [0.5, 2.0, -0.25])))
        return insert(tensor.AddOp(scaled, known(insert, [1.5, -6.0, 0.25])))

    same(body, [1, 2])


def test_results_after_a_relu() -> None:
    def body(insert: Any, x: SSAValue) -> SSAValue:
        biased = insert(tensor.AddOp(two_products(insert, x), known(insert, [0.5, -1.25, 0.0])))
        return insert(tensor.ReluOp(biased))

    same(body, [1, 2])


@proves(rows(["_negated", "rising"]), by="enumeration")
def test_channels_that_fall_get_negated_weights() -> None:
    def body(insert: Any, x: SSAValue) -> SSAValue:
        return two_products(insert, x, scale=[0.125, -0.0625])

    same(body, [1, 2])


def times_floats(insert: Any, x: SSAValue, scale: Any, outputs: int = 2) -> SSAValue:
    """A product of the last axis with whole numbers times a scale, as floats."""
    inputs = tensor_type(x).get_shape()[-1]
    weight = np.resize([3, -7, 0, 2, 5, -1, 127], (inputs, outputs)) * np.asarray(scale)
    return insert(tensor.LinearOp(x, known(insert, weight.astype(np.float32))))


@proves(rows(["_integer_product"]), by="enumeration")
@pytest.mark.parametrize("scale", [0.25, [0.25, 0.5], [[0.25, 0.0], [0.25, 0.5]]], ids=str)
def test_weights_of_several_bits(scale: Any) -> None:
    """One scale, one a channel, and weights that are a scale times trits."""

    def body(insert: Any, x: SSAValue) -> SSAValue:
        hidden = levels(insert, times_floats(insert, x, scale), most=15.0)
        trits = np.resize([0.5, -0.5, 0.0], (2, 3)).astype(np.float32)
        last = insert(tensor.MatmulOp(hidden, known(insert, trits)))
        return times_floats(insert, levels(insert, last, scale=0.5), scale=0.125)

    after = same(body, [1, 2])
    assert sum(isinstance(op, ternary.FusedOp) for op in after.walk()) == 1


def test_convolutions_with_weights_of_several_bits_and_falling_channels() -> None:
    def body(insert: Any, x: SSAValue) -> SSAValue:
        weight = known(insert, (np.resize([3, -6, 1, 4], (2, 1, 2, 1)) / 8).astype(np.float32))
        bias = known(insert, [0.5, -1.25])
        hidden = insert(tensor.ConvOp(x, weight, bias, padding=(1, 0, 0, 0)))
        return convolved(insert, levels(insert, hidden, scale=[0.25, -0.5]), (1, 1))

    same(body, [1, 1, 2, 1])


def two_activations(insert: Any, x: SSAValue, step: float) -> list[SSAValue]:
    """On steps of 1, and of `step` from elsewhere on."""
    first = levels(insert, times(insert, x))
    second = levels(insert, times(insert, x), scale=0.125, bias=0.5)
    scaled = insert(tensor.MulOp(second, known(insert, step)))
    return [first, insert(tensor.AddOp(scaled, known(insert, -1.5 * step)))]


@proves(rows(["added", "_joint", "_times"]), by="enumeration")
@pytest.mark.parametrize("kind", [tensor.AddOp, tensor.SubOp])
@pytest.mark.parametrize("step", [1.0, 0.5, 0.75])
def test_sums_of_two_activations(kind: Any, step: float) -> None:
    def body(insert: Any, x: SSAValue) -> SSAValue:
        total = insert(kind(*two_activations(insert, x, step)))
        return times(insert, levels(insert, total, scale=0.5))

    same(body, [1, 2])


@pytest.mark.parametrize("kind", [tensor.AddOp, tensor.SubOp])
@pytest.mark.parametrize("step", [0.031, 0.37, 0.6222, 2.9])
def test_sums_of_bytes_without_a_common_step(kind: Any, step: float) -> None:
    def body(insert: Any, x: SSAValue, y: SSAValue) -> SSAValue:
        scaled = insert(tensor.MulOp(y, known(insert, step)))
        return times(insert, levels(insert, insert(kind(x, scaled)), most=255.0))

    same(body, [1, 1], [1, 1])


@proves(rows(["converted"]), by="enumeration")
def test_products_of_integers_that_are_rescaled_in_float() -> None:
    def body(insert: Any, x: SSAValue) -> SSAValue:
        hidden = insert(tensor.ConvertOp(times(insert, insert(tensor.ConvertOp(x, i32))), f32))
        scaled = insert(tensor.MulOp(hidden, known(insert, 0.037)))
        one, zero = known(insert, 1.0), known(insert, 3, i8)
        return times(insert, levels(insert, insert(tensor.DequantizeOp(
            insert(tensor.QuantizeOp(scaled, one, zero)), one, zero
        ))))  # fmt: skip

    before = program([tensor_of(i8, [1, 2])], body)
    enumerate_all(before, streamlined(before), every_pair(before))


@proves(rows(["is_same"]), by="enumeration")
def test_integers_that_were_floats_for_a_while() -> None:
    def body(insert: Any, x: SSAValue) -> SSAValue:
        floats = insert(tensor.MaximumOp(insert(tensor.ConvertOp(x, f32)), known(insert, -5.0)))
        return times(insert, insert(tensor.ConvertOp(floats, i32)))

    before = program([tensor_of(i8, [1, 2])], body)
    enumerate_all(before, streamlined(before), every_pair(before))


@proves(rows(["joined", "_joined_channels", "_side_by_side", "spaced"]), by="enumeration")
def test_activations_side_by_side() -> None:
    """Also sums that take more values than an activation."""

    def body(insert: Any, x: SSAValue) -> SSAValue:
        whole = insert(tensor.ConcatenateOp(two_activations(insert, x, 0.5), 1))
        sums = times(insert, whole)
        both = insert(tensor.ConcatenateOp([sums, times(insert, x)], 1))
        return times(insert, levels(insert, both, scale=0.0625))

    same(body, [1, 2])


@proves(rows(["_pooled_channels"]), by="enumeration")
def test_largest_of_sums_with_factors_of_their_own() -> None:
    def body(insert: Any, x: SSAValue) -> SSAValue:
        hidden = convolved(insert, x, (1, 1))
        scaled = insert(tensor.MulOp(hidden, shaped(insert, [0.25, -0.5], hidden)))
        pooled = insert(tensor.MaxPoolOp(scaled, (2, 1), (1, 1)))
        return convolved(insert, levels(insert, pooled, scale=0.5), (1, 1))

    same(body, [1, 1, 2, 1])


def test_activations_that_never_change() -> None:
    same(lambda insert, x: two_products(insert, x, scale=2.0**-12), [1, 2])


def test_the_largest_of_sums_with_a_bias() -> None:
    def body(insert: Any, x: SSAValue) -> SSAValue:
        biased = insert(tensor.AddOp(two_products(insert, x), known(insert, [0.5, -1.25, 0.0])))
        return insert(tensor.ArgmaxOp(biased))

    same(body, [1, 2])


@proves(rows(["largest"]), by="enumeration")
def test_the_largest_sum() -> None:
    def body(insert: Any, x: SSAValue) -> SSAValue:
        return insert(tensor.ArgmaxOp(two_products(insert, x)))

    same(body, [1, 2])


@proves(rows(["_compared"]), by="enumeration")
def test_the_largest_of_channels_with_a_scale_each() -> None:
    def body(insert: Any, x: SSAValue) -> SSAValue:
        scaled = insert(tensor.MulOp(two_products(insert, x), known(insert, [0.5, 0.37, 1.3])))
        return insert(tensor.ArgmaxOp(scaled))

    same(body, [1, 2])


def mean_of_rows(insert: Any, x: SSAValue) -> SSAValue:
    pooled = insert(tensor.ReduceMeanOp(levels(insert, times(insert, x)), [1], keepdims=True))
    return times(insert, pooled)


def mean_of_images(insert: Any, x: SSAValue) -> SSAValue:
    pooled = insert(tensor.GlobalAvgPoolOp(levels(insert, convolved(insert, x, (1, 1)))))
    return times(insert, insert(tensor.FlattenOp(pooled)))


def sum_of_rows(insert: Any, x: SSAValue) -> SSAValue:
    shifted = insert(tensor.AddOp(levels(insert, times(insert, x)), known(insert, -0.5)))
    return times(insert, insert(tensor.ReduceSumOp(shifted, [1], keepdims=True)))


def mean_of_windows(insert: Any, x: SSAValue) -> SSAValue:
    hidden = levels(insert, convolved(insert, x, (1, 1)))
    pooled = insert(tensor.AvgPoolOp(hidden, (2, 1), (1, 1), (1, 0, 0, 0)))
    return convolved(insert, levels(insert, pooled, scale=0.5), (1, 1))


@proves(rows(["reduced", "pooled", "mean"]), by="enumeration")
@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (mean_of_rows, [1, 2]),
        (sum_of_rows, [1, 2]),
        (mean_of_images, [1, 1, 2, 1]),
        (mean_of_windows, [1, 1, 2, 1]),
    ],
)
def test_means(body: Body, shape: Any) -> None:
    same(body, shape)


@proves(rows(["centred"]), by="enumeration")
@pytest.mark.parametrize("most", [2.0, 3.0])
def test_pads_of_convolutions_are_the_number_0(most: float) -> None:
    """Of levels around 0: signs, whose 0 is between two, and five steps."""

    def body(insert: Any, x: SSAValue) -> SSAValue:
        hidden = convolved(insert, x, (1, 1))
        if most == 2.0:
            centred = signs(insert, hidden)
        else:
            shift = known(insert, -1.0)
            centred = insert(tensor.AddOp(levels(insert, hidden, most=most), shift))
        return convolved(insert, centred, (2, 1), padding=(1, 0, 0, 0))

    same(body, [1, 1, 2, 1])


def second_half(insert: Any, x: SSAValue) -> SSAValue:
    insert(pieces := tensor.SplitOp(x, 1, [1, 1]))
    return pieces.results[1]


MOVES: dict[str, tuple[Body, list[int]]] = {
    "tensor.expand": (op(tensor.ExpandOp, [3, 2]), [1, 2]),
    "tensor.flatten": (op(tensor.FlattenOp), [1, 2, 1]),
    "tensor.max_pool": (op(tensor.MaxPoolOp, (2, 1), (1, 1), (1, 0, 0, 0)), [1, 1, 2, 1]),
    "tensor.pad_to": (op(tensor.PadToOp, (0, 1), (0, 1)), [1, 2]),
    "tensor.permute": (op(tensor.PermuteOp, (1, 0)), [1, 2]),
    "tensor.reduce_max": (op(tensor.ReduceMaxOp, [1], keepdims=True), [1, 2]),
    "tensor.reduce_min": (op(tensor.ReduceMinOp, [1], keepdims=True), [1, 2]),
    "tensor.reshape_to": (op(tensor.ReshapeToOp, [2, 1]), [1, 2]),
    "tensor.slice": (op(tensor.SliceOp, [0, 1], [1, 2], [1, 1]), [1, 2]),
    "tensor.split": (second_half, [1, 2]),
    "tensor.squeeze": (op(tensor.SqueezeOp, [1]), [1, 1, 2]),
    "tensor.unsqueeze": (op(tensor.UnsqueezeOp, [1]), [1, 2]),
}


@proves(rows([*MOVES, "moved", "_moved_integers"]), by="enumeration")
@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    """Of int8 before a product, and of counted levels between two."""
    move, shape = MOVES[name]
    same(lambda insert, x: times(insert, move(insert, x)), shape)

    def between(insert: Any, x: SSAValue) -> SSAValue:
        image = len(shape) == 4
        hidden = convolved(insert, x, (1, 1)) if image else times(insert, x)
        return times(insert, move(insert, levels(insert, hidden)))

    if name not in ("tensor.squeeze", "tensor.flatten") or len(shape) == 3:
        same(between, shape)


def test_moves_of_values_on_many_uneven_levels() -> None:
    def body(insert: Any, x: SSAValue) -> SSAValue:
        bent = insert(tensor.ClampOp(times(insert, x), min=-80.5, max=80.5))
        return times(insert, levels(insert, insert(tensor.PermuteOp(bent, (1, 0)))))

    same(body, [1, 2])


@proves(rows(["_permuted"]), by="enumeration")
def test_channels_that_are_moved() -> None:
    """Sums whose channels have factors of their own stand on another axis when they are rounded."""

    def body(insert: Any, x: SSAValue) -> SSAValue:
        scaled = insert(tensor.MulOp(times(insert, x), known(insert, [0.25, -0.5])))
        turned = insert(tensor.PermuteOp(scaled, (0, 2, 1)))
        return times(insert, levels(insert, turned, scale=0.5))

    same(body, [1, 1, 2])


@proves(rows(["_replace"]), by="enumeration")
def test_what_has_no_form_stays_between_integers() -> None:
    """A product of two activations: it takes and gives floats, and says why."""

    def body(insert: Any, x: SSAValue) -> SSAValue:
        both = insert(tensor.MulOp(*two_activations(insert, x, 1.0)))
        return two_products(insert, levels(insert, both, scale=2.0, bias=1.0), scale=0.5)

    after = same(body, [1, 2])
    (stays,) = [op for op in after.walk() if STAYS in op.attributes]
    assert isinstance(stays, tensor.MulOp)
    assert "combines values that change" in str(stays.attributes[STAYS])


# Arguments of floats.


def on_floats(body: Body, shape: Sequence[int]) -> ModuleOp:
    return program([tensor_of(f32, shape)], body)


def halves(insert: Any, x: SSAValue) -> SSAValue:
    """Steps of 1/4, from -2/4 to 1/4."""
    scaled = insert(tensor.MulOp(x, known(insert, 4.0)))
    rounded = insert(tensor.RoundOp(insert(tensor.ClampOp(scaled, min=-2.0, max=1.0))))
    return insert(tensor.MulOp(rounded, known(insert, 0.25)))


def above(insert: Any, x: SSAValue) -> SSAValue:
    """1 above 3/8, else 0."""
    reached = insert(tensor.CompareOp(x, known(insert, 0.375), "gt"))
    return insert(tensor.ConvertOp(reached, f32))


QUANTISERS: dict[str, tuple[Body, list[float]]] = {
    "signs": (signs, [-1.0, 1.0]),
    "halves": (halves, [-0.5, -0.25, 0.0, 0.25]),
    "above": (above, [0.0, 1.0]),
}
"""With an argument for each level."""


@proves(rows(["_quantized"]), by="SMT and enumeration")
@pytest.mark.parametrize("name", QUANTISERS)
def test_quantised_arguments(name: str) -> None:
    """The levels of one argument for all finite f32, then all levels of four arguments."""
    quantiser, points = QUANTISERS[name]

    def body(insert: Any, x: SSAValue) -> SSAValue:
        return times(insert, quantiser(insert, x), 2)

    single = on_floats(body, [1, 1])
    prove(single, streamlined(single), signed_zeros=False)
    before = on_floats(body, [1, 4])
    grid = np.array(list(product(points, repeat=4)), np.float32).reshape(-1, 1, 4)
    enumerate_all(before, streamlined(before), [grid])


@proves(rows(["stated"]), by="enumeration")
@pytest.mark.parametrize("kind", ["int2", "int8", "uint1", "uint8", "bipolar"])
def test_stated_arguments(kind: str) -> None:
    """Without a quantiser: all that the user says two arguments hold."""
    before = on_floats(lambda insert, x: two_products(insert, x, scale=0.5), [1, 2])
    ends = {"int2": (-2, 1), "int8": (-128, 127), "uint1": (0, 1), "uint8": (0, 255)}
    whole = [-1, 1] if kind == "bipolar" else range(ends[kind][0], ends[kind][1] + 1)
    grid = np.array(list(product(whole, repeat=2)), np.float32).reshape(-1, 1, 2) * 0.25
    enumerate_all(before, streamlined(before, f"x:{kind}*0.25"), [grid.astype(np.float32)])


@proves(rows(["_moved_function"]), by="enumeration")
@pytest.mark.parametrize("name", QUANTISERS)
def test_quantised_arguments_are_pooled_as_integers(name: str) -> None:
    quantiser, points = QUANTISERS[name]

    def body(insert: Any, x: SSAValue) -> SSAValue:
        pooled = insert(tensor.MaxPoolOp(quantiser(insert, x), (2, 2), (1, 1), (1, 0, 0, 0)))
        return convolved(insert, pooled, (1, 1))

    before = on_floats(body, [1, 1, 2, 2])
    after = streamlined(before)
    (pool,) = [op for op in after.walk() if isinstance(op, tensor.MaxPoolOp)]
    assert not is_float(tensor_type(pool.result))
    grid = np.array(list(product(points, repeat=4)), np.float32).reshape(-1, 1, 1, 2, 2)
    enumerate_all(before, after, [grid])


@pytest.mark.parametrize("name", QUANTISERS)
def test_arguments_that_are_moved_before(name: str) -> None:
    quantiser, points = QUANTISERS[name]

    def body(insert: Any, x: SSAValue) -> SSAValue:
        return times(insert, quantiser(insert, insert(tensor.FlattenOp(x))))

    before = on_floats(body, [1, 2, 2])
    grid = np.array(list(product(points, repeat=4)), np.float32).reshape(-1, 1, 2, 2)
    enumerate_all(before, streamlined(before), [grid])


@pytest.mark.parametrize("scale", [0.3, 0.071])
def test_results_with_other_scales_are_within_their_rounding(scale: float) -> None:
    """Offsets that are no whole number of steps are 2^-17 of a step off, and f32 rounds."""

    def body(insert: Any, x: SSAValue) -> SSAValue:
        y = two_products(insert, x)
        scaled = insert(tensor.MulOp(y, known(insert, [scale, 1.3, -0.7])))
        return insert(tensor.AddOp(scaled, known(insert, [0.111, -2.3, 0.0])))

    before = on_bytes(body, [1, 2])
    cases = every_pair(before)
    (old,), (new,) = results_on(before, cases), results_on(streamlined(before), cases)
    step = np.array([scale, 1.3, 0.7])
    assert (np.abs(old - new) <= step * 2.0**-17 + np.abs(old) * 2.0**-21 + 2.0**-21).all()
