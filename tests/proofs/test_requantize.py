"""`requantize`: how far integers may lie from the floats that they replace, for all inputs.

The pass promises one step of the grid. It is proven twice: against the program in real numbers, by
the solver, for any number of int8 inputs; and against the program in f32, as it is defined, by
running every pair of int8. Integer rescaling that goes into a product keeps every bit, which is
proven for all inputs, weights, multipliers and shifts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, i8, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.parameters import dense_constant
from triton_dsl.dialects.shapes import is_float
from triton_dsl.passes.analysis.compile_time import literal_value
from triton_dsl.passes.analysis.replacement import erase, erase_unused_except
from triton_dsl.passes.requantize.requantize import RequantizePass
from triton_dsl.passes.requantize.requantize_fusion import fuse_rescaling

from .equivalence import (
    all_values,
    arguments_of,
    changed,
    enumerate_all,
    prove,
    prove_near,
    results_on,
)  # fmt: skip
from .programs import program, tensor_of
from .rewrites import proves

BYTE = range(-128, 128)

HALF_AND_QUARTER = 0.5 + 0.25 + 2.0**-12
"""Of a step: the rounding to the grid, that of a bias, and those of sums and multipliers."""

Body = Callable[..., Any]

WEIGHT = np.array([[1, -1], [1, 0], [-1, -1], [0, 1], [1, 1], [-1, 0]])
"""Trits [in, out] of six inputs."""


def known(insert: Any, numbers: Any, element: Any = f32) -> SSAValue:
    """A constant."""
    return insert(dense_constant(np.asarray(numbers), element))


def quantized(insert: Any, y: SSAValue, scale: float, zero: int = 0) -> SSAValue:
    t, z = known(insert, scale), known(insert, zero, i8)
    return insert(tensor.QuantizeOp(y, t, z, low=-127, high=127))


def on_product(body: Body, inputs: int, scale: float = 0.11, zero: int = -3) -> ModuleOp:
    """x [1, inputs], a product with trits, its floats, a body, and int8 again."""

    def whole(insert: Any, x: SSAValue) -> SSAValue:
        weight = WEIGHT[:inputs]
        trits = insert(ternary.ConstantOp(weight.reshape(-1).tolist(), weight.shape))
        sums = insert(ternary.LinearOp(x, trits))
        real = insert(
            tensor.DequantizeOp(sums, known(insert, [0.03, 0.0071]), known(insert, 0, i32))
        )
        return quantized(insert, body(insert, real), scale, zero)

    return program([tensor_of(i8, [1, inputs])], whole)


def on_activations(body: Body, *shapes: Sequence[int], scale: float = 0.07) -> ModuleOp:
    """int8 tensors on grids of their own, a body on their floats, and int8 again."""
    grids = [(0.05, 3), (0.021, -100), (0.33, 0)]

    def whole(insert: Any, *arguments: SSAValue) -> Any:
        reals = [
            insert(tensor.DequantizeOp(x, known(insert, s), known(insert, z, i8)))
            for x, (s, z) in zip(arguments, grids, strict=False)
        ]
        made = body(insert, *reals)
        results = [made] if isinstance(made, SSAValue) else made
        return [quantized(insert, y, scale, 5) for y in results]

    return program([tensor_of(i8, shape) for shape in shapes], whole)


def requantized(before: ModuleOp) -> ModuleOp:
    """The module after the pass, which has no floats any more."""
    after = changed(before, lambda m: RequantizePass().apply(Context(), m))
    left = [op.name for op in after.walk() for r in op.results if is_float(tensor_type(r))]
    assert not left
    return after


def near(before: ModuleOp) -> None:
    """Prove that the integers are within a step, and run all inputs if they are two at most."""
    after = requantized(before)
    prove_near(before, after, HALF_AND_QUARTER)
    types = arguments_of(before)
    sizes = [int(np.prod(tensor_type_shape(type))) for type in types]
    if sum(sizes) <= 2:
        cases = all_values(*[BYTE] * sum(sizes))
        ends = np.cumsum([0, *sizes])
        arguments = [
            cases[:, a:b].reshape(-1, *tensor_type_shape(type))
            for a, b, type in zip(ends, ends[1:], types, strict=False)
        ]
        enumerate_all(before, after, arguments, within=1)


def tensor_type_shape(type: Any) -> tuple[int, ...]:
    return tuple(type.get_shape())


def op(kind: Any, *options: Any, **named: Any) -> Body:
    return lambda insert, *reals: insert(kind(*reals, *options, **named))


def number(kind: Any, numbers: Any, *, left: bool = False) -> Body:
    def step(insert: Any, x: SSAValue) -> SSAValue:
        other = known(insert, numbers)
        return insert(kind(other, x) if left else kind(x, other))

    return step


def chain(*steps: Body) -> Body:
    def step(insert: Any, *reals: SSAValue) -> SSAValue:
        first, *others = steps
        value = first(insert, *reals)
        for each in others:
            value = each(insert, value)
        return value

    return step


def batch_norm(insert: Any, x: SSAValue) -> SSAValue:
    numbers = ([1.5, -0.7], [0.3, 2.0], [1.1, -4.0], [2.25, 0.4])
    a, b, c, d = (known(insert, vector) for vector in numbers)
    return insert(tensor.BatchNormOp(x, a, b, c, d))


ELEMENTS: dict[str, Body] = {
    "tensor.add": number(tensor.AddOp, [1.3, -2.7]),
    "tensor.sub": number(tensor.SubOp, 3.1, left=True),
    "tensor.mul": number(tensor.MulOp, [2.5, -0.3]),
    "tensor.div": number(tensor.DivOp, [0.7, 3.0]),
    "tensor.neg": op(tensor.NegOp),
    "tensor.batch_norm": batch_norm,
    "tensor.relu": op(tensor.ReluOp),
    "tensor.relu6": chain(number(tensor.AddOp, 2.0), op(tensor.Relu6Op)),
    "tensor.hard_tanh": op(tensor.HardTanhOp),
    "tensor.clamp": op(tensor.ClampOp, min=-2.5, max=4.0),
    "_rescaled": chain(batch_norm, op(tensor.ReluOp)),
    "_scaled": chain(number(tensor.MulOp, 1.7), number(tensor.DivOp, -2.0)),
    "_normalized": chain(batch_norm, number(tensor.SubOp, [0.5, 0.1])),
    "_quantize": chain(op(tensor.ReluOp), number(tensor.AddOp, 1.0), op(tensor.NegOp)),
    "_rounded": chain(op(tensor.ReluOp), number(tensor.MulOp, 0.9)),
}


def rows(names: Any) -> list[str]:
    return [f"requantize: {name}" for name in names]


@proves(rows([*ELEMENTS, "requantize"]), by="SMT and enumeration")
@pytest.mark.parametrize("inputs", [2, 6])
@pytest.mark.parametrize("name", ELEMENTS)
def test_steps_on_elements(name: str, inputs: int) -> None:
    near(on_product(ELEMENTS[name], inputs))


@pytest.mark.parametrize("factor", [1e-6, 1e-4, 1e4])
@pytest.mark.parametrize("bounded", [1, 2, 3])
def test_parts_of_any_size(bounded: int, factor: float) -> None:
    """Bounds inside of sums, before a factor that shrinks or stretches them."""
    inside = [op(tensor.ReluOp), number(tensor.AddOp, 0.19)] * bounded
    body = chain(*inside, number(tensor.MulOp, [factor, -factor]))
    near(on_product(body, 2, scale=0.07 * factor))


IMAGE = [1, 2, 2, 1]

SHAPES: dict[str, tuple[Body, list[Any]]] = {
    "tensor.concatenate": (lambda i, a, b: i(tensor.ConcatenateOp([a, b], 1)), [[1, 1], [1, 1]]),
    "tensor.expand": (op(tensor.ExpandOp, [2, 2]), [[1, 2]]),
    "tensor.flatten": (op(tensor.FlattenOp), [IMAGE]),
    "tensor.max_pool": (op(tensor.MaxPoolOp, (2, 1), (1, 1), (1, 0, 0, 0)), [[1, 1, 3, 1]]),
    "tensor.permute": (op(tensor.PermuteOp, (1, 0)), [[2, 1]]),
    "tensor.reduce_max": (op(tensor.ReduceMaxOp, [1]), [[1, 3]]),
    "tensor.reduce_min": (op(tensor.ReduceMinOp, [1]), [[1, 2]]),
    "tensor.reshape_to": (op(tensor.ReshapeToOp, [2, 2]), [[1, 4]]),
    "tensor.slice": (op(tensor.SliceOp, [0, 1], [1, 3], [1, 1]), [[1, 3]]),
    "tensor.split": (lambda i, a: i(tensor.SplitOp(a, 1, [1, 2])).owner.results, [[1, 3]]),
    "tensor.squeeze": (op(tensor.SqueezeOp, [0]), [[1, 2]]),
    "tensor.unsqueeze": (op(tensor.UnsqueezeOp, [1]), [[1, 2]]),
    "tensor.pad_to": (op(tensor.PadToOp, (0, 1), (0, 0), 0.5), [[1, 2]]),
    "_move": (chain(op(tensor.ReluOp), op(tensor.FlattenOp)), [[1, 2, 1]]),
}


@proves(rows(SHAPES), by="SMT and enumeration")
@pytest.mark.parametrize("name", SHAPES)
def test_moves(name: str) -> None:
    body, shapes = SHAPES[name]
    near(on_activations(body, *shapes))


MEANS: dict[str, tuple[Body, list[Any]]] = {
    "tensor.avg_pool": (op(tensor.AvgPoolOp, (2, 1), (1, 1), (1, 0, 0, 0)), [[1, 2, 2, 1]]),
    "tensor.global_avg_pool": (op(tensor.GlobalAvgPoolOp), [[1, 1, 2, 1]]),
    "tensor.reduce_mean": (op(tensor.ReduceMeanOp, [1]), [[1, 2]]),
    "_mean": (chain(op(tensor.ReluOp), op(tensor.GlobalAvgPoolOp)), [[1, 1, 3, 2]]),
    "_window_sums": (op(tensor.AvgPoolOp, (2, 2), (1, 1), (0, 0, 0, 0)), [[1, 2, 2, 3]]),
}


@proves(rows(MEANS), by="SMT and enumeration")
@pytest.mark.parametrize("name", MEANS)
def test_means(name: str) -> None:
    body, shapes = MEANS[name]
    near(on_activations(body, *shapes))


SUMS: list[Body] = [
    op(tensor.AddOp),
    op(tensor.SubOp),
    chain(op(tensor.AddOp), op(tensor.ReluOp)),
    chain(op(tensor.SubOp), number(tensor.MulOp, [3.0]), number(tensor.AddOp, 0.3)),
]


@proves(rows(["_summed"]), by="SMT and enumeration")
@pytest.mark.parametrize("scale", [0.07, 0.9, 0.004])
@pytest.mark.parametrize("body", SUMS, ids=range(len(SUMS)))
def test_sums_of_activations(body: Body, scale: float) -> None:
    near(on_activations(body, [1, 1], [1, 1], scale=scale))


@proves(rows(["bounded"]), by="enumeration")
@pytest.mark.parametrize("body", [op(tensor.ReluOp), op(tensor.ClampOp, min=-1.0, max=2.0)])
def test_bounds_on_the_same_grid_are_exact(body: Body) -> None:
    """No rescaling: every int8 gives what the floats give."""

    def whole(insert: Any, x: SSAValue) -> SSAValue:
        scale, zero = known(insert, 0.05), known(insert, 3, i8)
        real = insert(tensor.DequantizeOp(x, scale, zero))
        return insert(tensor.QuantizeOp(body(insert, real), scale, zero, low=-100, high=100))

    before = program([tensor_of(i8, [1, 1])], whole)
    after = requantized(before)
    assert not any(isinstance(each, tensor.RequantizeOp) for each in after.walk())
    enumerate_all(before, after, [all_values(BYTE).reshape(-1, 1, 1)])


@proves(rows(["_dequantize"]), by="enumeration")
@pytest.mark.parametrize("name", ["tensor.add", "tensor.mul", "tensor.batch_norm", "_normalized"])
def test_results_are_within_half_a_unit_of_the_accumulator(name: str) -> None:
    """A float result with factors and sums behind the last product; f32 rounds by 2^-22 more."""

    def whole(insert: Any, x: SSAValue) -> SSAValue:
        trits = insert(ternary.ConstantOp([1, -1, 1, 0], (2, 2)))
        sums = insert(ternary.LinearOp(x, trits))
        scale, zero = known(insert, [0.03, 0.0071]), known(insert, 0, i32)
        return ELEMENTS[name](insert, insert(tensor.DequantizeOp(sums, scale, zero)))

    before = program([tensor_of(i8, [1, 2])], whole)
    after = changed(before, lambda m: RequantizePass().apply(Context(), m))
    (last,) = [each for each in after.walk() if isinstance(each, tensor.DequantizeOp)]
    assert sum(isinstance(each, tensor.AddOp | tensor.MulOp) for each in after.walk()) == 0
    cases = [all_values(BYTE, BYTE).reshape(-1, 1, 2)]
    (old,), (new,) = results_on(before, cases), results_on(after, cases)
    unit: Any = literal_value(last.scale)
    assert (np.abs(old - new) <= np.abs(unit) / 2 + np.abs(old) * 2.0**-22 + 2.0**-22).all()


# What goes into a product keeps every bit.


def parameter(insert: Any, key: str, shape: Sequence[int], element: Any = i32) -> SSAValue:
    """A value that the rewrite does not read."""
    return insert(tensor.ParameterOp(key, tensor_of(element, shape)))


def rescaled_product(kind: Any, vectors: bool, added: Any, own: bool) -> ModuleOp:
    conv = kind is ternary.ConvOp

    def whole(insert: Any, x: SSAValue) -> SSAValue:
        weight = insert(ternary.ParameterOp("w", [2, 2, 1, 1] if conv else [2, 2]))
        bias = {"bias": known(insert, [10, -20], i32)} if own else {}
        value = insert(kind(x, weight, **bias))
        if added is not None:
            numbers = np.array(added).reshape(-1, 1, 1) if conv and np.ndim(added) else added
            value = insert(tensor.AddOp(value, known(insert, numbers, i32)))
        m, s = (parameter(insert, key, [2] if vectors else []) for key in "ms")
        zero = parameter(insert, "z", [], i8)
        return insert(tensor.RequantizeOp(value, m, s, zero, low=-100, high=99))

    return program([tensor_of(i8, [1, 2, 2, 1] if conv else [1, 2])], whole)


def fuse(module: ModuleOp) -> None:
    (function,) = [each for each in module.walk() if isinstance(each, FuncOp)]
    fuse_rescaling(module, function.body.block)
    erase_unused_except(function.body.block, ())


@proves(rows(["_fuse_requantize"]))
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("added", [None, 7, [5, -9], [2**31 - 1000, 3]], ids=str)
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("kind", [ternary.LinearOp, ternary.ConvOp], ids=lambda kind: kind.name)
def test_rescaling_goes_into_the_product(kind: Any, vectors: bool, added: Any, own: bool) -> None:
    before = rescaled_product(kind, vectors, added, own)
    after = changed(before, fuse)
    (product_op,) = [each for each in after.walk() if isinstance(each, ternary.FusedOp)]
    assert product_op.multiplier is not None
    prove(before, after)


@proves(rows(["_fuse_bias"]))
@pytest.mark.parametrize("kind", [ternary.LinearOp, ternary.ConvOp], ids=lambda kind: kind.name)
@pytest.mark.parametrize("own", [False, True])
def test_a_sum_goes_into_the_product(kind: Any, own: bool) -> None:
    """A sum that nothing rescales."""
    before = rescaled_product(kind, False, [5, -9], own)
    (rescaling,) = [each for each in before.walk() if isinstance(each, tensor.RequantizeOp)]
    (function,) = [each for each in before.walk() if isinstance(each, FuncOp)]
    function.get_return_op().operands[0] = rescaling.input  # pyright: ignore
    function.update_function_type()
    erase(rescaling)
    after = changed(before, fuse)
    assert not any(isinstance(each, tensor.AddOp) for each in after.walk())
    prove(before, after)


def test_a_bias_that_might_wrap_around_stays() -> None:
    before = rescaled_product(ternary.LinearOp, False, [2**31 - 100, 3], False)
    after = changed(before, fuse)
    assert any(isinstance(each, tensor.RequantizeOp) for each in after.walk())
    prove(before, after)
