"""`fuse-linear` on integers, proven for all inputs, weights, biases, thresholds and multipliers.

The pass reads no weights, so that every parameter is a variable of the query.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i8, i32
from xdsl.ir import SSAValue

from triton_dsl.dialects import tensor, ternary
from triton_dsl.passes.analysis.layers import is_layer
from triton_dsl.passes.fuse_linear import FuseLinearPass

from .equivalence import changed, prove
from .programs import program, tensor_of
from .rewrites import proves

LAYERS = (
    ternary.LinearOp, ternary.ConvOp, ternary.MatmulOp,
    tensor.LinearOp, tensor.ConvOp, tensor.MatmulOp,
)  # fmt: skip

CHANNELS = 2


def parameter(insert: Any, key: str, shape: list[int], element: Any = i32) -> SSAValue:
    """A value that is known to the pass, and not what it is."""
    return insert(tensor.ParameterOp(key, tensor_of(element, shape)))


def layer_of(kind: Any, insert: Any, x: SSAValue) -> SSAValue:
    """A product of `x` with a weight that may be anything."""
    shape = [CHANNELS, 2, 2, 1] if kind.name.endswith("conv") else [2, CHANNELS]
    if kind.name.startswith("ternary"):
        return insert(kind(x, insert(ternary.ParameterOp("w", shape))))
    return insert(kind(x, parameter(insert, "w", shape)))


def follow(what: str, insert: Any, y: SSAValue, conv: bool, n: int) -> SSAValue:
    """One of the ops that may follow, `what` with the shape of its operands."""
    op, _, form = what.partition(" ")
    axis = 1 if conv else -1
    shape = {
        "": [CHANNELS, 1, 1] if conv else [CHANNELS],
        "row": [1, CHANNELS, 1, 1] if conv else [1, CHANNELS],
        "one": [],
        "flat": [1],
    }
    match op:
        case "add" | "sub" | "radd" | "rsub" | "mul":
            other = parameter(insert, f"b{n}", shape[form])
            kind = {"a": tensor.AddOp, "s": tensor.SubOp, "m": tensor.MulOp}[op.lstrip("r")[0]]
            return insert(kind(other, y) if op.startswith("r") else kind(y, other))
        case "relu":
            return insert(tensor.ReluOp(y))
        case "relu6":
            return insert(tensor.Relu6Op(y))
        case "multi_threshold":
            rows = {"": CHANNELS, "one": 1}[form]
            known = parameter(insert, f"t{n}", [rows, 3])
            return insert(tensor.MultiThresholdOp(y, known, axis=axis))
        case _:
            assert op == "requantize"
            vector = [] if form == "one" else [CHANNELS]
            m, s = (parameter(insert, f"{name}{n}", vector) for name in ("m", "s"))
            zero = parameter(insert, f"z{n}", [], i8)
            return insert(tensor.RequantizeOp(y, m, s, zero, axis=axis, low=-100, high=99))


def family(kind: Any, steps: tuple[str, ...]) -> ModuleOp:
    conv = kind.name.endswith("conv")

    def body(insert: Any, x: SSAValue) -> SSAValue:
        value = layer_of(kind, insert, x)
        for n, what in enumerate(steps):
            value = follow(what, insert, value, conv, n)
        return value

    element = i8 if kind.name.startswith("ternary") else i32
    return program([tensor_of(element, [2, 2, 3, 1] if conv else [2, 2])], body)


def fused(before: ModuleOp, exact: bool = False) -> tuple[ModuleOp, int]:
    """The module after the pass, and how many ops follow its layer."""
    after = changed(before, lambda m: FuseLinearPass(exact=exact).apply(Context(), m))
    (function,) = after.body.block.ops
    ops = list(function.regions[0].block.ops)
    (at,) = [i for i, op in enumerate(ops) if is_layer(op)]
    return after, len(ops) - at - 2


SUMS = ["add", "radd", "sub", "add row", "sub row", "add one", "sub one", "radd flat"]
LAST = ["multi_threshold", "multi_threshold one", "requantize", "requantize one"]
TERNARY = [kind for kind in LAYERS if kind.name.startswith("ternary")]


@proves(["fuse-linear: tensor.add", "fuse-linear: tensor.sub"])
@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.name)
def test_sums_go_into_the_bias(kind: Any) -> None:
    """One behind the other too: biases add up, and wrap around as the sums do."""
    for steps in [*product(SUMS), ("sub", "add row"), ("add one", "radd"), ("sub", "sub one")]:
        for exact in (False, True):
            before = family(kind, steps)
            after, left = fused(before, exact)
            assert left == 0
            prove(before, after)


@proves([f"fuse-linear: tensor.{name}" for name in ("relu", "multi_threshold", "requantize")])
@pytest.mark.parametrize("kind", TERNARY, ids=lambda kind: kind.name)
def test_what_follows_goes_into_the_product(kind: Any) -> None:
    for sums, relu, last in product(["", "sub"], ["", "relu"], ["", *LAST]):
        steps = tuple(step for step in (sums, relu, last) if step)
        if steps:
            before = family(kind, steps)
            after, left = fused(before)
            assert left == 0
            prove(before, after)


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.name)
def test_what_may_not_go_stays(kind: Any) -> None:
    """A number minus the product, factors, relu6 of integers, and anything behind a bound."""
    kept = [("rsub",), ("mul",), ("relu6",), ("relu", "add"), ("add", "rsub", "relu")]
    if kind in TERNARY:
        kept += [("requantize", "relu"), ("multi_threshold", "relu6")]
    for steps in kept:
        before = family(kind, steps)
        after, left = fused(before)
        assert left >= 1
        prove(before, after)
