"""Convolution kernels against PyTorch in float64, where sums of integers are exact.

Every call has its buffers between forbidden pages, see the conftest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.to_native.kernels.conv import conv_functions
from triton_dsl.lowering.to_native.kernels.epilogue import Epilogue, Requantize, Thresholds
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES, best_recipe
from triton_dsl.runtime.native.abi.conv import ConvGeometry
from triton_dsl.runtime.native.abi.linear import KINDS, Kind
from triton_dsl.runtime.native.abi.tables import threshold_table
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("torch")
pytest.importorskip("llvmlite")

Array = NDArray[Any]
RunConvs = Callable[[str, Sequence[Any]], list[Array]]
KIND = {kind.activations: kind for kind in KINDS}
INTEGERS: dict[str, type[np.integer[Any]]] = {
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "i32": np.int32,
}
SQUARE = ConvGeometry(20, 9, 9, 70, (3, 3), before=(1, 1), after=(1, 1))
DEPTHWISE = ConvGeometry(5, 9, 20, 10, (3, 3), before=(1, 1), after=(1, 1), groups=5)


@st.composite
def geometries(draw: st.DrawFn) -> ConvGeometry:
    """Any small convolution, with one result at least."""
    kernel = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    dilation = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    before = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    span = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    least = [max(1, s - b - a) for s, b, a in zip(span, before, after, strict=True)]
    height = draw(st.integers(least[0], least[0] + 9))
    width = draw(st.integers(least[1], least[1] + 9) | st.integers(least[1], least[1] + 80))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    channels = groups * draw(st.sampled_from([1, 1, 2, 3, 4, 5, 8, 13, 16, 17, 33]))
    return ConvGeometry(
        channels,
        height,
        width,
        groups * draw(st.sampled_from([1, 2, 5, 17, 64, 65])),
        kernel,
        (draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 3, 5]))),
        before,
        after,
        dilation,
        groups,
    )


def wrapped(values: NDArray[np.float64]) -> NDArray[np.int32]:
    """Modulo 2^32."""
    return values.astype(np.int64).astype(np.uint64).astype(np.uint32).view(np.int32)


def random_trits(rng: np.random.Generator, g: ConvGeometry) -> NDArray[np.int8]:
    shape = (g.outs, g.group_channels, *g.kernel)
    return rng.choice([-1, 1] if rng.random() < 0.2 else [-1, 0, 1], shape).astype(np.int8)


def random_images(rng: np.random.Generator, g: ConvGeometry, kind: Kind, batch: int) -> Array:
    """Any values of the element of a kind, the extreme ones among them."""
    shape = (batch, g.channels, g.height, g.width)
    dtype = INTEGERS[kind.activations]
    info = np.iinfo(dtype)
    if rng.random() < 0.3:
        return rng.choice([info.min, info.max], shape).astype(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def sweep(
    recipe: str,
    run_convs: RunConvs,
    conv_problem: Any,
    layers: Sequence[tuple[ConvGeometry, str, int]],
    seed: int,
) -> None:
    """One module with all these layers; integers exact modulo 2^32."""
    rng = np.random.default_rng(seed)
    problems: list[Any] = []
    biases: list[Array] = []
    for g, name, batch in layers:
        kind = KIND[name]
        x, trits = random_images(rng, g, kind, batch), random_trits(rng, g)
        bias = rng.integers(-(1 << 31), 1 << 31, g.outs)
        given_bias = bias.astype(np.int32)
        tables = (None, given_bias, None, None)
        problems.append(conv_problem(g, kind, x, trits, Epilogue(bias=True), tables))
        biases.append(bias)
    for problem, bias, result in zip(problems, biases, run_convs(recipe, problems), strict=True):
        wanted = wrapped(problem.convolved() + bias[:, None, None])
        assert result.dtype == np.int32
        assert np.array_equal(result, wanted), (recipe, problem.kind, problem.geometry)


# Each goes another way through memory: rows or whole images, in place or copied, torn apart.
WAYS = [
    (ConvGeometry(17, 6, 33, 65, (3, 3), before=(1, 1), after=(1, 1)), "i8", 2),
    (ConvGeometry(40, 9, 7, 5, (3, 2), (1, 1), (2, 0), (0, 0)), "i16", 1),
    (ConvGeometry(3, 4, 300, 9, (2, 5), (1, 2), (0, 2), (1, 1), (1, 3)), "i8", 1),
    (ConvGeometry(6, 3, 1, 130, (2, 1), (1, 1), (1, 0), (0, 0), groups=2), "u8", 3),
    (ConvGeometry(33, 5, 9, 4, (1, 1)), "i32", 1),
    (ConvGeometry(2, 20, 21, 3, (5, 4), (3, 5), (2, 3), (1, 0), (2, 2)), "i8", 2),
    (ConvGeometry(3, 8, 40, 6, (3, 3), before=(1, 1), after=(1, 1), groups=3), "i8", 1),
    (ConvGeometry(2, 3, 5, 2, (2, 3), (2, 3), (1, 2), (1, 0), (1, 2), 2), "i16", 2),
    (ConvGeometry(2, 1, 90, 4, (1, 4), (1, 2), groups=2), "u8", 0),
]


def test_integers_are_exact(host_recipe: str, run_convs: RunConvs, conv_problem: Any) -> None:
    sweep(host_recipe, run_convs, conv_problem, WAYS, 5)


LAYERS = st.lists(
    st.tuples(geometries(), st.sampled_from([*INTEGERS, "i8", "i8"]), st.integers(0, 3)),
    min_size=4,
    max_size=4,
)
SLOW_COMPILER = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
FEW = settings(max_examples=3, deadline=None, suppress_health_check=SLOW_COMPILER)
MANY = settings(max_examples=40, deadline=None, suppress_health_check=SLOW_COMPILER)


@FEW
@given(layers=LAYERS, seed=st.integers(0, 2**32 - 1))
def test_integers_are_exact_for_any_geometry(
    run_convs: RunConvs, conv_problem: Any, layers: Any, seed: int
) -> None:
    recipe = best_recipe(host_features()).name
    sweep(recipe, run_convs, conv_problem, layers, seed)


@pytest.mark.slow
@MANY
@given(layers=LAYERS, seed=st.integers(0, 2**32 - 1))
def test_integers_are_exact_for_many_geometries(
    host_recipe: str, run_convs: RunConvs, conv_problem: Any, layers: Any, seed: int
) -> None:
    sweep(host_recipe, run_convs, conv_problem, layers, seed)


def test_extreme_bytes(host_recipe: str, run_convs: RunConvs, conv_problem: Any) -> None:
    wide = ConvGeometry(300, 4, 5, 3, (3, 3), before=(1, 1), after=(1, 1))
    problems: list[Any] = []
    for g, value, trit in [(wide, -128, 1), (wide, 127, -1), (DEPTHWISE, -128, -1)]:
        x = np.full((1, g.channels, g.height, g.width), value, np.int8)
        trits = np.full((g.outs, g.group_channels, *g.kernel), trit, np.int8)
        problems.append(conv_problem(g, KIND["i8"], x, trits))
    for problem, result in zip(problems, run_convs(host_recipe, problems), strict=True):
        assert np.array_equal(result, problem.convolved())


def test_steps_after_integer_products(
    width_recipe: str, run_convs: RunConvs, conv_problem: Any
) -> None:
    rng = np.random.default_rng(4)
    problems: list[Any] = []
    expected: list[Array] = []
    for g in (SQUARE, DEPTHWISE):
        x, trits = random_images(rng, g, KIND["i8"], 2), random_trits(rng, g)
        bias = rng.integers(-900, 900, g.outs).astype(np.int32)
        value = conv_problem(g, KIND["i8"], x, trits).convolved() + bias[:, None, None]
        value = value.astype(np.int64)
        factor = rng.integers(1 << 20, 1 << 30, g.outs).astype(np.int32)
        shift = rng.integers(30, 36, g.outs).astype(np.int32)
        steps = Epilogue(bias=True, then=Requantize("channel", "channel", 3, -100, 90, 8))
        tables = (None, bias, factor, shift)
        problems.append(conv_problem(g, KIND["i8"], x, trits, steps, tables))
        bits = shift[:, None, None].astype(np.int64)
        scaled = (value * factor[:, None, None] + (1 << (bits - 1))) >> bits
        expected.append(np.clip(scaled + 3, -100, 90))
        limits = np.sort(rng.integers(-900, 900, (1, 200)).astype(np.int32), axis=1)
        steps = Epilogue(bias=True, activation="relu", then=Thresholds(200, "all", 32))
        tables = (None, bias, threshold_table(limits), None)
        problems.append(conv_problem(g, KIND["i8"], x, trits, steps, tables))
        expected.append((limits[0] <= np.maximum(value, 0)[..., None]).sum(-1))
    for wanted, result in zip(expected, run_convs(width_recipe, problems), strict=True):
        assert np.array_equal(result, wanted)


@pytest.mark.parametrize(
    "g",
    [
        ConvGeometry(16384, 4, 4, 1, (3, 3)),
        ConvGeometry(1, 40, 40, 1, (33, 33)),
        ConvGeometry(1, 4, 400, 1, (1, 1), (1, 65)),
        ConvGeometry(1, 4, 400, 1, (1, 2), dilation=(1, 65)),
    ],
    ids=str,
)
def test_what_is_too_large_for_a_kernel_is_refused(g: ConvGeometry) -> None:
    assert not g.supported
    with pytest.raises(OptionError, match="no kernel for a convolution"):
        conv_functions(RECIPES[-1], KIND["i8"], g, Epilogue(), "conv")


def test_steps_that_sums_do_not_have_are_refused() -> None:
    with pytest.raises(OptionError, match="needs floats"):
        conv_functions(RECIPES[-1], KIND["i8"], SQUARE, Epilogue(scale="all"), "conv")
