"""What the proofs take ops to mean, beside the reference interpreter: a fault of either is seen.

The two were written apart. Here they run the programs that the proofs are about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
import z3
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, f32, f64, i1, i8, i32

from triton_dsl.dialects import spike, tensor
from triton_dsl.dialects.interpret import run_module

from . import test_canonicalize as of_canonicalize
from . import test_merge_rescaling as of_merge_rescaling
from . import test_requantize as of_requantize
from . import test_skip_zeros as of_skip_zeros
from . import test_streamline as of_streamline
from .algebra import Terms
from .equivalence import arguments_of, results_on
from .meaning import RULES, Meaning, Value, dtype_of, filled
from .programs import program, tensor_of, unary

CASES = 40

PREDICATES = ("lt", "le", "gt", "ge", "eq", "ne")


def on_elements() -> Iterator[ModuleOp | None]:
    """Every op on single elements, of all integers."""
    unaries: list[Any] = [
        tensor.AbsOp, tensor.NegOp, tensor.SignOp, tensor.ReluOp, tensor.Relu6Op,
        lambda v: tensor.ClampOp(v, min=-5.0, max=100.0),
        *(lambda v, e=e: tensor.ConvertOp(v, e) for e in (*of_canonicalize.INTEGERS, i1, f32, f64)),
    ]  # fmt: skip
    binaries = (
        tensor.AddOp, tensor.SubOp, tensor.MulOp, tensor.MaximumOp, tensor.MinimumOp,
        *(lambda a, b, p=p: tensor.CompareOp(a, b, p) for p in PREDICATES),
    )  # fmt: skip
    for element in (*of_canonicalize.INTEGERS, f32):
        type = tensor_of(element, [3])
        yield from (unary(type, make) for make in unaries)
        for make in binaries:
            yield program([type, type], lambda insert, a, b, make=make: insert(make(a, b)))
        for number in (3,) if element == f32 else (1, 3, 100):
            given = of_canonicalize.with_constant
            yield given(tensor.DivOp, element, ([3], []), number, False)
    for element in (i8, i32):
        yield unary(tensor_of(f32, [3]), lambda v, e=element: tensor.ConvertOp(v, e))


def on_shapes() -> Iterator[ModuleOp | None]:
    """Changes of shape, known sizes only."""
    for name in of_canonicalize.matching("SameShape"):
        for shape in ([2, 2], [2, 1, 3]):
            makes = list(of_canonicalize.changes(of_canonicalize.operation(name), shape))
            fit = (unary(tensor_of(i8, shape), make) for make in makes)
            yield from islice((made for made in fit if made is not None), 12)
    yield unary(tensor_of(i32, [2, 3, 2]), lambda v: tensor.ReduceSumOp(v, [0, 2]))


def on_spikes() -> Iterator[ModuleOp | None]:
    train = spike.TrainType([4, 1, 2, 3])
    for steps in range(3):
        yield unary(train, lambda v, d=steps: spike.DelayOp(v, d))
    yield unary(spike.TrainType([3, 1, 2, 3, 3]), lambda v: spike.MaxPoolOp(v, (2, 2), (1, 1)))
    for readout in ("last", "max"):
        read = lambda v, r=readout: spike.DecodeOp(v, "membrane", r)  # noqa: E731
        yield unary(tensor_of(f32, [3]), lambda v: spike.EncodeOp(v, "direct", 2), read)


def on_passes() -> Iterator[ModuleOp | None]:
    """The programs of the proofs."""
    chains = of_merge_rescaling.programs(of_merge_rescaling.RESCALINGS, few=True)
    yield from islice(chains, 0, None, 5)
    for body in of_requantize.ELEMENTS.values():
        yield of_requantize.on_product(body, 6)
    for body, shapes in (*of_requantize.SHAPES.values(), *of_requantize.MEANS.values()):
        yield of_requantize.on_activations(body, *shapes)
    kept = (False,) * of_skip_zeros.CHANNELS
    for make in of_skip_zeros.ON_ROWS.values():
        yield of_skip_zeros.two_layers(of_skip_zeros.LINEAR, make, kept, kept)
    for make in of_skip_zeros.ON_RUNS.values():
        yield of_skip_zeros.two_layers(of_skip_zeros.LINEAR, make, kept, kept, batch=[2, 1])
    for kinds, first in product(of_skip_zeros.PAIRS, (None, of_skip_zeros.rescaling)):
        if first is None or kinds[0] in of_skip_zeros.TERNARY[:2]:
            wide = of_skip_zeros.to_wide(kinds)
            yield of_skip_zeros.two_layers(kinds, wide, kept, kept, first=first)
    for body in (
        of_streamline.two_products,
        lambda i, x: i(tensor.ArgmaxOp(of_streamline.two_products(i, x))),
        lambda i, x: of_streamline.signs(i, of_streamline.two_products(i, x)),
    ):
        yield of_streamline.on_bytes(body, [1, 2])


def inputs(module: ModuleOp, seed: int) -> list[NDArray[Any]]:
    """Random arguments, the ends of their types among them: [cases, …]."""
    rng = np.random.default_rng(seed)
    made: list[NDArray[Any]] = []
    for type in arguments_of(module):
        dtype, declared = dtype_of(type), type
        shape = [1 if size < 0 else size for size in declared.get_shape()]  # pyright: ignore
        if dtype.kind == "f":
            made.append((rng.normal(size=(CASES, *shape)) * 200).astype(dtype))
        elif dtype.kind == "b":
            made.append(rng.random((CASES, *shape)) < 0.5)
        else:
            info = np.iinfo(dtype)
            drawn = rng.integers(info.min, info.max, (CASES, *shape), dtype, endpoint=True)
            small = rng.integers(max(info.min, -9), 10, drawn.shape).astype(dtype)
            ends = rng.choice(np.array([info.min, info.max], dtype), drawn.shape)
            kinds = rng.integers(0, 3, drawn.shape)
            made.append(np.choose(kinds, [drawn, small, ends]).astype(dtype))
    return made


def terms(module: ModuleOp, arguments: list[NDArray[Any]]) -> list[Any]:
    """The results for one case as numbers, by terms that the solver simplifies."""
    algebra = Terms()
    values = [
        Value(a.dtype, filled(a.shape, lambda i, a=a: algebra.literal(a[i], a.dtype)))
        for a in arguments
    ]
    found: list[Any] = []
    for value in Meaning(algebra).run(module, values):
        for element in value.elements.reshape(-1):
            held: Any = z3.simplify(element)
            if value.dtype.kind == "f":
                bits: Any = z3.simplify(z3.fpToIEEEBV(held))
                word = np.array(bits.as_long(), f"u{value.dtype.itemsize}")
                found.append(word.view(value.dtype).item())
            elif value.dtype.kind == "b":
                found.append(z3.is_true(held))
            else:
                whole = held.as_signed_long() if value.dtype.kind == "i" else held.as_long()
                found.append(whole)
    return found


FAMILIES: list[Callable[[], Iterator[ModuleOp | None]]] = [
    on_elements, on_shapes, on_spikes, on_passes,
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_the_interpreter_computes_the_same(
    family: Callable[[], Iterator[ModuleOp | None]],
) -> None:
    for seed, module in enumerate(family()):
        if module is None:
            continue
        arguments = inputs(module, seed)
        found = results_on(module, arguments)
        for case in range(0, CASES, 8):
            wanted = run_module(module, [array[case] for array in arguments])
            for mine, theirs in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(mine[case], theirs, err_msg=str(module))
        if seed % 4 == 0:
            flat = [number for array in found for number in array[0].reshape(-1).tolist()]
            assert terms(module, [array[0] for array in arguments]) == flat, module


def test_every_meaning_is_compared() -> None:
    seen = {op.name for family in FAMILIES for m in family() if m is not None for op in m.walk()}
    assert set(RULES) <= seen
