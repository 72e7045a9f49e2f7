"""What ops are made of computes what they mean, to a few units in the last place."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from fuzz import meaning
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from triton_dsl.dialects import tensor
from triton_dsl.dialects.elements import element_of
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import verify_module
from triton_dsl.passes.decompose import DECOMPOSED, DecomposePass, decomposition

Array = NDArray[Any]
LARGEST = {
    **dict.fromkeys((tensor.SinOp, tensor.CosOp, tensor.TanOp), 1e5),
    **dict.fromkeys((tensor.SigmoidOp, tensor.SiluOp), 80),
    tensor.HardSwishOp: 5e37,
}
"""Up to where an op is right once it is decomposed: beyond, a product of parts leaves the type."""

UNITS: dict[Any, float] = {
    tensor.AcoshOp: 5,
    tensor.SoftplusOp: 5,
    tensor.Expm1Op: 5,
    tensor.MishOp: 6,
}
CANCELLING = (tensor.HardSigmoidOp, tensor.HardSwishOp, tensor.GeluOp)
"""A sum in them that comes near 0, or near 1 - 1, loses digits."""
EXACT = (
    *(tensor.CeilOp, tensor.TruncOp, tensor.ReciprocalOp),
    *(tensor.ThresholdedReluOp, tensor.HardTanhOp),
)
ENDS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 88.7, 89.3, -103.9, 710.3)
OWN: dict[Any, Any] = {tensor.SinhOp: np.sinh, tensor.CoshOp: np.cosh}
"""NumPy's: PyTorch's overflow too early."""

UNARY = (tensor.UnaryOp, tensor.PredicateOp)
FUNCTIONS = [k for k in DECOMPOSED if issubclass(k, UNARY) and k is not tensor.NotOp]


def points(dtype: Any) -> Array:
    """Numbers of all sizes, whole multiples of π/2, and the ends of the type."""
    generator, info = np.random.default_rng(5), np.finfo(dtype)
    sizes = np.exp(generator.uniform(-80, 80, 4000)) * generator.choice([-1, 1], 4000)
    parts = (
        *(np.linspace(-20, 20, 2001), np.linspace(-1.5, 1.5, 2001)),
        *(generator.uniform(-1e5, 1e5, 4000), np.arange(-60000, 60000, 7) * (np.pi / 2), sizes),
        *(ENDS, (info.max, info.min, info.smallest_normal, -info.smallest_normal)),
    )
    with np.errstate(over="ignore"):
        return np.concatenate([np.asarray(part).astype(dtype) for part in parts])


def module_of(kind: Any, operands: Sequence[Array]) -> tuple[ModuleOp, Operation]:
    types = [TensorType(element_of(x.dtype), x.shape) for x in operands]
    function = FuncOp("forward", (types, []))
    op = kind(*function.body.block.args)
    function.body.block.add_ops([op, ReturnOp(*op.results)])
    function.update_function_type()
    return ModuleOp([function]), op


def decomposed(kind: Any, *operands: Array) -> tuple[Array, Array]:
    """What the parts of an op compute, and what it means by PyTorch in float64."""
    module, op = module_of(kind, operands)
    DecomposePass().apply(Context(), module)
    verify_module(module)
    assert not any(type(inner) is type(op) for inner in module.walk())
    (result,) = run_module(module, operands)
    module, op = module_of(kind, operands)
    wide = [torch.from_numpy(np.asarray(x, np.float64)) for x in operands]
    return result, meaning.MEANING[type(op)](op, *wide).numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", FUNCTIONS, ids=lambda kind: kind.name)
def test_parts_compute_what_the_op_means(kind: Any, dtype: Any) -> None:
    x = points(dtype)
    limit = LARGEST.get(kind, np.inf)
    x = x[~(np.isfinite(x) & (np.abs(x) > limit))]
    result, expected = decomposed(kind, x)
    with np.errstate(over="ignore"):
        if kind in OWN:
            expected = OWN[kind](x.astype(np.longdouble))
        rounded = expected.astype(result.dtype)
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    assert result.dtype == rounded.dtype
    if result.dtype == np.bool_ or kind in EXACT:
        assert same.all()
    else:
        info = np.finfo(dtype)
        # Of numbers near 0 the digits below those of the terms are lost.
        least = 1.0 if kind in CANCELLING else 1e3 * float(info.smallest_normal)
        unit = np.maximum(np.abs(np.where(np.isfinite(rounded), rounded, 1)), least) * info.eps
        with np.errstate(invalid="ignore"):
            far = np.abs(result.astype(np.longdouble) - expected) > UNITS.get(kind, 4.5) * unit
        assert not (far | ~np.isfinite(result))[~same].any()
    zero = (x == 0) & (rounded == 0)
    np.testing.assert_array_equal(np.signbit(result[zero]), np.signbit(rounded[zero]))


@pytest.mark.parametrize("shape", [(), (4,), (3, 1)])
def test_a_slope_broadcasts(shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(1)
    x, slope = (generator.standard_normal(s).astype(np.float32) for s in ((2, 3, 4), shape))
    result, expected = decomposed(tensor.PreluOp, x, np.asarray(slope))
    np.testing.assert_array_equal(result, expected.astype(np.float32))


INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8)
BITS = (tensor.AndOp, tensor.OrOp, tensor.XorOp, tensor.ShiftLeftOp, tensor.ShiftRightOp)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("kind", [*BITS, tensor.FmodOp], ids=lambda kind: kind.name)
def test_integers_are_exact(kind: Any, dtype: Any) -> None:
    generator, info = np.random.default_rng(2), np.iinfo(dtype)
    ends = np.array([info.min, info.max, 0, 1, -1 if info.min else 2, 7], dtype)
    x, y = (v.reshape(-1) for v in np.meshgrid(ends, ends))
    more = generator.integers(info.min, info.max, (2, 200), dtype, endpoint=True)
    x, y = np.concatenate([x, more[0]]), np.concatenate([y, more[1]])
    if issubclass(kind, tensor.ShiftOp):
        y = np.concatenate([y[:36], generator.integers(0, 70, 200).astype(dtype)])
    # By NumPy's own: the meaning of the division of the least integer by -1 is none in PyTorch.
    (expected,) = run_module(module_of(kind, [x, y])[0], [x, y])
    module, _ = module_of(kind, [x, y])
    DecomposePass().apply(Context(), module)
    (result,) = run_module(module, [x, y])
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", [tensor.AndOp, tensor.OrOp, tensor.XorOp])
def test_truth_values_are_combined(kind: Any) -> None:
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    module, op = module_of(kind, [a, b])
    DecomposePass().apply(Context(), module)
    expected = meaning.MEANING[type(op)](op, torch.from_numpy(a), torch.from_numpy(b)).numpy()
    np.testing.assert_array_equal(run_module(module, [a, b])[0], expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [tensor.Atan2Op, tensor.HypotOp, tensor.FmodOp])
def test_functions_of_two_numbers(kind: Any, dtype: Any) -> None:
    sizes = np.exp(np.random.default_rng(4).uniform(-20, 20, 60))
    numbers = np.concatenate([sizes, -sizes, ENDS, [np.finfo(dtype).max]]).astype(dtype)
    x, y = (v.reshape(-1) for v in np.meshgrid(numbers, numbers))
    result, expected = decomposed(kind, x, y)
    if kind is tensor.FmodOp:  # PyTorch's gives NaN where the quotient is large
        with np.errstate(invalid="ignore"):
            expected = np.fmod(x.astype(np.float64), y.astype(np.float64))
    with np.errstate(over="ignore"):
        rounded = expected.astype(dtype)
    tiny = float(np.finfo(dtype).smallest_normal) * 100
    np.testing.assert_allclose(result, rounded, rtol=4 * np.finfo(dtype).eps, atol=tiny)


PAIRS = np.array([[3, 1, 1, np.nan, -2], [0, -0.0, np.inf, -np.inf, 5]], np.float32)
PLAIN = np.array([[3, 1, 1, 4, -2], [0, -7, 2, 2, 5]], np.float32)
PLACES = np.array([[0, 4, 1], [2, 2, 3]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int32, np.int64])
@pytest.mark.parametrize(
    ("build", "x", "others"),
    [
        (lambda x: tensor.CumsumOp(x, 1), PAIRS, []),
        (lambda x: tensor.CumsumOp(x, 0), PLAIN, []),
        (lambda x: tensor.CumprodOp(x, -1), PLAIN, []),
        (lambda x: tensor.TopKOp(x, 5, 1), PAIRS, []),
        (lambda x: tensor.TopKOp(x, 3, 1, largest=False), PAIRS, []),
        (lambda x: tensor.TopKOp(x, 2, 0), PLAIN, []),
        (lambda x: tensor.ArgminOp(x, 1), PAIRS, []),
        (lambda x: tensor.ReduceProdOp(x, [0, 1]), PLAIN, []),
        (lambda x: tensor.ReduceProdOp(x, [1], keepdims=True), PLAIN, []),
        (lambda x, i: tensor.GatherElementsOp(x, i, 1), PAIRS, [PLACES]),
        (lambda x, i, u: tensor.ScatterElementsOp(x, i, u, 1, "add"), PLAIN, [PLACES, PLAIN]),
        (lambda x, i, u: tensor.ScatterElementsOp(x, i, u, 1), PLAIN, [PLACES[:, :2], PLAIN]),
    ],
)
def test_what_works_along_an_axis(build: Any, x: Array, others: list[Array], dtype: Any) -> None:
    if np.dtype(dtype).kind == "i":
        x = np.nan_to_num(x, nan=9, posinf=100, neginf=-100)
    operands = [x.astype(dtype), *others]
    if len(others) == 2:
        operands[2] = others[1][:, : others[0].shape[1]].astype(dtype)
    module, op = module_of(build, operands)
    held = [torch.from_numpy(v.astype(np.float64) if v.dtype.kind == "f" else v) for v in operands]
    expected = meaning.MEANING[type(op)](op, *held)
    DecomposePass().apply(Context(), module)
    verify_module(module)
    assert not any(type(inner) is type(op) for inner in module.walk())
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for result, value in zip(run_module(module, operands), wanted, strict=True):
        np.testing.assert_array_equal(result, value.numpy().astype(result.dtype))


def test_sums_of_exponentials_reach_their_ends() -> None:
    x = np.array([[-np.inf] * 3, [np.inf, 0, 1], [1, 2, 3], [np.nan, 1, 2]], np.float32)
    module, _ = module_of(lambda v: tensor.ReduceLogSumExpOp(v, [1]), [x])
    DecomposePass().apply(Context(), module)
    expected = torch.logsumexp(torch.from_numpy(x.astype(np.float64)), 1).numpy()
    np.testing.assert_allclose(run_module(module, [x])[0], expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("kind", [tensor.MishOp, tensor.AtanOp, tensor.CeilOp])
def test_narrow_floats_are_rounded_once(kind: Any, dtype: Any) -> None:
    x = np.linspace(-5, 5, 101).astype(dtype)
    (half,) = run_module(module_of(kind, [x])[0], [x])
    module, _ = module_of(kind, [x])
    DecomposePass().apply(Context(), module)
    (result,) = run_module(module, [x])
    assert result.dtype == dtype
    single, _ = decomposed(kind, x.astype(np.float32))
    np.testing.assert_array_equal(result, single.astype(dtype))
    np.testing.assert_allclose(result.astype(float), half.astype(float), rtol=0.01)


def test_a_target_says_what_it_takes() -> None:
    text = decomposition(lambda kind, element: kind is tensor.SinOp and str(element) == "f32")
    assert text == "decompose{legal=tensor.sin:f32}"
    assert decomposition(lambda kind, element: False) == "decompose"
    assert (
        decomposition(lambda kind, element: kind is tensor.SinOp) == "decompose{legal=tensor.sin}"
    )
