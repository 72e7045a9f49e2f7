"""`skip-zeros`, proven for all inputs: which channels go depends on the zeros of known weights.

Every pattern of dead columns before and dead rows behind is tried, with signs and biases drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, i1, i8, i32
from xdsl.ir import SSAValue

from triton_dsl.dialects import spike, tensor, ternary
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.parameters import dense_constant
from triton_dsl.passes.analysis.layers import is_layer, weight_of
from triton_dsl.passes.skip_zeros.skip_zeros import SkipZerosPass

from .equivalence import changed, prove
from .programs import program, tensor_of
from .rewrites import path_ops, proves, rewrites_of

CHANNELS, INPUTS, OUTPUTS = 3, 2, 2

MASKS = list(product((False, True), repeat=CHANNELS))

Step = Callable[[Any, SSAValue], SSAValue]


def known(insert: Any, numbers: Any, element: Any = i32) -> SSAValue:
    """A constant."""
    return insert(dense_constant(np.asarray(numbers), element))


def trits(insert: Any, weight: NDArray[Any]) -> SSAValue:
    return insert(ternary.ConstantOp(weight.reshape(-1).tolist(), weight.shape))


def signs(shape: Any, seed: int) -> NDArray[Any]:
    """Trits that are not zero."""
    return np.random.default_rng(seed).choice([-1, 1], shape)


def layer(kind: Any, insert: Any, x: SSAValue, weight: NDArray[Any], **options: Any) -> SSAValue:
    """A product with a weight [in, out]; for convolutions with a window of 1x2."""
    if kind.name.endswith("conv"):
        weight = np.stack([weight.T, -weight.T], axis=2)[:, :, None, :]
        options = {"padding": options.pop("padding", (0, 0, 0, 0)), **options}
    if kind.name.startswith("ternary"):
        return insert(kind(x, trits(insert, weight), **options))
    operands = [x, known(insert, 3 * weight)]
    return insert(kind(*operands, **options))


def two_layers(
    kinds: tuple[Any, Any], path: Step, dead: Any, unread: Any, *, seed: int = 0,
    first: Any = None, padding: Any = (0, 0, 0, 0), batch: list[int] | None = None,
    spread: int = 1, given: Any = i8,
) -> ModuleOp:  # fmt: skip
    """x, a layer without the `dead` columns, a path, and a layer without the `unread` rows."""
    before = signs((INPUTS, CHANNELS), seed) * ~np.array(dead)
    behind = signs((CHANNELS * spread, OUTPUTS), seed + 1)
    behind = behind * ~np.repeat(np.array(unread), spread)[:, None]
    conv = kinds[0].name.endswith("conv")

    def body(insert: Any, x: SSAValue) -> SSAValue:
        if not kinds[0].name.startswith("ternary"):
            x = insert(tensor.ConvertOp(x, i32))
        options = first(insert) if first is not None else {}
        hidden = path(insert, layer(kinds[0], insert, x, before, **options))
        last = {"padding": padding} if kinds[1].name.endswith("conv") else {}
        return layer(kinds[1], insert, hidden, behind, **last)

    shape = [1, INPUTS, 2, 3] if conv else [*(batch or [1]), INPUTS]
    return program([tensor_of(given, shape)], body)


def elements(module: ModuleOp) -> int:
    """How many weights all layers have."""
    sizes = [weight_of(op).type for op in module.walk() if is_layer(op)]
    return sum(int(np.prod(size.get_shape())) for size in sizes)  # pyright: ignore


def pruned(before: ModuleOp) -> ModuleOp | None:
    """The module after the pass; `None` if all channels stay."""
    after = changed(before, lambda m: SkipZerosPass().apply(Context(), m))
    return after if elements(after) < elements(before) else None


def proven(programs: Iterator[ModuleOp], least: int) -> None:
    """Prove every program that loses channels; so many must at least.

    Where floats are summed, a zero may change its sign with the terms that go.
    """
    count = 0
    for before in programs:
        after = pruned(before)
        if after is not None:
            prove(before, after, signed_zeros=False)
            count += 1
    assert count >= least


def biases(insert: Any) -> dict[str, SSAValue]:
    return {"bias": known(insert, [5, -70, 2**31 - 3])}


def rescaling(insert: Any) -> dict[str, Any]:
    return {
        **biases(insert), "multiplier": known(insert, [3, 1, -(2**31)]),
        "shift": known(insert, [2, 1, 30]), "zero_point": known(insert, -4, i8),
        "low": -99, "high": 101,
    }  # fmt: skip


def thresholds(insert: Any) -> dict[str, Any]:
    known_thresholds = known(insert, [[-5, 0, 6], [-80, -70, 1], [0, 1, 2]])
    return {**biases(insert), "activation": "relu", "thresholds": known_thresholds}


def nothing(insert: Any, x: SSAValue) -> SSAValue:
    return x


LINEAR = (ternary.LinearOp, ternary.LinearOp)
CONV = (ternary.ConvOp, ternary.ConvOp)

TERNARY = (ternary.LinearOp, ternary.ConvOp, ternary.MatmulOp)
DENSE = (tensor.LinearOp, tensor.ConvOp, tensor.MatmulOp)

PAIRS = [
    (a, b)
    for a, b in product((*TERNARY, *DENSE), repeat=2)
    if a.name.endswith("conv") == b.name.endswith("conv") and not (a in DENSE and b in DENSE)
]


def to_wide(kinds: Any) -> Step:
    """The sums as i32, which dense layers need."""

    def step(insert: Any, x: SSAValue) -> SSAValue:
        return x if tensor_type(x).element_type == i32 else insert(tensor.ConvertOp(x, i32))

    return step


@proves(name for name in rewrites_of("skip-zeros") if " channels of " in name)
@pytest.mark.parametrize("kinds", PAIRS, ids=lambda kinds: f"{kinds[0].name}-{kinds[1].name}")
def test_channels_between_two_layers(kinds: Any) -> None:
    """Every pattern of zeros (a quarter of them for other pairs), with and without a bias."""
    options = [None, biases] if kinds[0] not in (ternary.MatmulOp, tensor.MatmulOp) else [None]

    def programs() -> Iterator[ModuleOp]:
        for seed, (dead, unread) in enumerate(product(MASKS, MASKS)):
            if kinds not in (LINEAR, CONV) and seed % 4:
                continue
            first = options[seed // 4 % len(options)]
            yield two_layers(kinds, nothing, dead, unread, seed=seed, first=first)

    proven(programs(), 40 if kinds in (LINEAR, CONV) else 10)


@pytest.mark.parametrize("first", [rescaling, thresholds], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kinds", [p for p in PAIRS if p[0] in TERNARY[:2]], ids=str)
def test_channels_behind_bounds(kinds: Any, first: Any) -> None:
    masks = [(d, u) for d, u in product(MASKS[1:-1], MASKS[:3])]

    def programs() -> Iterator[ModuleOp]:
        for seed, (dead, unread) in enumerate(masks):
            yield two_layers(kinds, to_wide(kinds), dead, unread, seed=seed, first=first)

    proven(programs(), 12)


@pytest.mark.parametrize("padding", [(0, 1, 0, 1), (0, 0, 0, 1)], ids=str)
def test_pads_are_no_constants(padding: Any) -> None:
    """A constant channel is not constant at the border of what pads it."""
    masks = product(MASKS[1:-1], MASKS[:4])
    proven(
        (
            two_layers(CONV, nothing, d, u, seed=i, first=biases, padding=padding)
            for i, (d, u) in enumerate(masks)
        ),
        10,
    )


def of(kind: Any, *options: Any, **named: Any) -> Step:
    return lambda insert, x: insert(kind(x, *options, **named))


def chain(*steps: Step) -> Step:
    def step(insert: Any, x: SSAValue) -> SSAValue:
        for each in steps:
            x = each(insert, x)
        return x

    return step


def requantize(insert: Any, x: SSAValue) -> SSAValue:
    m, s = known(insert, [3, -1, 77]), known(insert, [2, 1, 5])
    return insert(tensor.RequantizeOp(x, m, s, known(insert, 7, i8), low=-90, high=91))


def count(insert: Any, x: SSAValue) -> SSAValue:
    return insert(tensor.MultiThresholdOp(x, known(insert, [[-5, 0], [-80, 1], [0, 5]])))


def there_and_back(insert: Any, x: SSAValue) -> SSAValue:
    """Floats in between; scales are powers of two, so that the solver has an easy product."""
    scale, zero = known(insert, [0.5, 2.0, 0.25], f32), known(insert, [1, -2, 3])
    real = insert(tensor.DequantizeOp(x, scale, zero))
    return insert(tensor.QuantizeOp(real, scale, known(insert, [3, 0, -1], i8), low=-99, high=99))


def spikes(*between: Step) -> Step:
    wide = of(spike.ToTensorOp, i32)
    return chain(of(spike.FromTensorOp), *between, wide)


IMAGE = {"kernel": (1, 1), "strides": (1, 1), "padding": (0, 0, 0, 0)}

ON_ROWS: dict[str, Step] = {
    "tensor.relu": of(tensor.ReluOp),
    "tensor.relu6": of(tensor.Relu6Op),
    "tensor.abs": of(tensor.AbsOp),
    "tensor.neg": of(tensor.NegOp),
    "tensor.sign": of(tensor.SignOp),
    "tensor.clamp": of(tensor.ClampOp, min=-60.0, max=9.0),
    "tensor.convert": chain(of(tensor.ConvertOp, i8), of(tensor.ConvertOp, i32)),
    "tensor.not": chain(of(tensor.ConvertOp, i1), of(tensor.NotOp), of(tensor.ConvertOp, i32)),
    "tensor.requantize": requantize,
    "tensor.multi_threshold": count,
    "tensor.quantize": there_and_back,
    "tensor.dequantize": there_and_back,
    "spike.from_tensor": spikes(),
    "spike.to_tensor": spikes(),
}
"""On [N, C]."""

ON_RUNS: dict[str, Step] = {
    "spike.delay": spikes(of(spike.DelayOp, 1)),
    "spike.decode": chain(of(spike.FromTensorOp), of(spike.DecodeOp, "rate")),
}
"""On [T, N, C]."""

ON_IMAGES: dict[str, Step] = {
    "tensor.max_pool": of(tensor.MaxPoolOp, (2, 1), (1, 1), (1, 0, 0, 0)),
}
"""On [N, C, H, W]."""

MERGED: dict[str, Step] = {
    "tensor.flatten": of(tensor.FlattenOp),
    "tensor.reshape_to": of(tensor.ReshapeToOp, [1, -1]),
    "tensor.squeeze": chain(
        of(tensor.MaxPoolOp, (2, 2), (2, 2), (0, 0, 0, 0)), of(tensor.SqueezeOp, [2, 3])
    ),
}
"""From [N, C, H, W] to [N, features]."""

FEW = [(d, u) for d, u in product(MASKS[:-1], MASKS[:-1]) if sum(d) + sum(u)][::4]


def through(names: dict[str, Step]) -> list[str]:
    return [f"skip-zeros: channels through {name}" for name in names]


@proves(through(ON_ROWS))
@pytest.mark.parametrize("name", ON_ROWS)
def test_through_ops_on_elements(name: str) -> None:
    make = ON_ROWS[name]
    proven(
        (two_layers(LINEAR, make, d, u, seed=i, first=biases) for i, (d, u) in enumerate(FEW)), 8
    )


@proves(through(ON_RUNS))
@pytest.mark.parametrize("name", ON_RUNS)
def test_through_ops_on_runs(name: str) -> None:
    """Spikes at two steps; the rate of two steps has no rounding."""
    make = ON_RUNS[name]
    proven(
        (
            two_layers(LINEAR, make, d, u, seed=i, first=biases, batch=[2, 1])
            for i, (d, u) in enumerate(FEW)
        ),
        4,
    )


@proves(through(ON_IMAGES))
@pytest.mark.parametrize("name", ON_IMAGES)
def test_through_ops_on_images(name: str) -> None:
    make = ON_IMAGES[name]
    proven((two_layers(CONV, make, d, u, seed=i, first=biases) for i, (d, u) in enumerate(FEW)), 8)


@proves(through(MERGED))
@pytest.mark.parametrize("name", MERGED)
def test_through_ops_that_merge_axes(name: str) -> None:
    """A channel is several features behind them."""
    kinds = (ternary.ConvOp, ternary.LinearOp)
    spread = 1 if name.endswith("squeeze") else 4
    proven(
        (
            two_layers(kinds, MERGED[name], d, u, seed=i, first=biases, spread=spread)
            for i, (d, u) in enumerate(FEW)
        ),
        8,
    )


def test_every_op_on_the_way_is_here_or_of_floats() -> None:
    """What `rewrites` says of the others is checked there."""
    named = {*ON_ROWS, *ON_RUNS, *ON_IMAGES, *MERGED}
    assert named <= {op.name for op in path_ops()}
