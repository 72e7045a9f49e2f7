"""Functions of PyTorch against PyTorch: values at the ends of their domains too."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.from_torch import from_torch

GENERATOR = torch.Generator().manual_seed(3)
X, Y = (torch.randn(3, 5, generator=GENERATOR) for _ in range(2))
PLACES = torch.tensor([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 1, 2, 2, 0]])
INTS = torch.tensor([[-100, 5, 7, 2**31 - 1, -(2**31)], [1, 2, 3, 4, 5]], dtype=torch.int32)
OTHERS = torch.tensor([[3, -2, 7, 100, 1], [9, 8, 7, 6, 5]], dtype=torch.int32)
HOLES = torch.tensor([[1.0, -2.0, torch.nan], [0.0, -0.0, -torch.inf], [torch.inf, 3.0, -1.0]])
BOUNDS = torch.tensor([-1.0, 0.0, 0.5, 0.5, 7.0])
TIES = torch.tensor([[-1.0, 0.5, 7.0, 8.0], [-2.0, 0.0, torch.nan, -torch.inf]])
NUMBER = torch.tensor(3.0)
TINY = torch.tensor([3e-8, -3e-8, 0.0])
SERIES = torch.tensor([
    [1.0, 3.0, 3.0, -2.0, 4.0, torch.nan, 9.0], [-torch.inf, -torch.inf, 2.0, 2.0, -1, 88, 90],
    [0.0, -0.0, 0.0, torch.inf, -torch.inf, torch.inf, 1.0], [5.0, 4.0, 3.0, 2.0, 1.0, 0.5, 0.5],
])  # fmt: skip
BLOCKS = torch.randn(2, 3, 4, 4, generator=GENERATOR)
WHOLE = (BLOCKS * 4).round()  # sums of products are exact in any order

SQUARES = torch.randn(4, 3, 3, generator=GENERATOR) + 2 * torch.eye(3)
SQUARES[0] = SQUARES[0].roll(1, 0)  # rows must change places
ROWS = torch.randn(4, 3, 5, generator=GENERATOR)

DEFINITE = SQUARES @ SQUARES.mT + torch.eye(3)
GAMMA = torch.tensor(
    [-2.75, -2.0, -0.3, -0.0, 0.0, 1e-9, 0.2, 1.25, 1.75, 7.9, 8.0, 33.5, 1e10, torch.inf,
     -torch.inf, torch.nan], dtype=torch.float64
)  # fmt: skip
BELOW_ONE = torch.tensor(
    [-1.5, -1, -0.9999, -0.7, -0.0, 1e-9, 0.3, 0.71, 0.999999, 1, torch.nan], dtype=torch.float64
)
TAILS = torch.tensor(
    [-9, -2.5, -0.5, 0.0, 1e-9, 0.5, 1.99, 2.01, 5, 8.5, torch.inf, torch.nan], dtype=torch.float64
)

BESSEL = torch.tensor([-60.0, -8.5, -8, -1, -0.0, 1e-9, 0.5, 7.9, 8.1, 30, 80, torch.nan])
SHARES = torch.tensor([0, 1e-38, 1e-9, 0.02425, 0.3, 0.5, 0.50001, 0.97, 0.9999999, 1, 1.5])
FREQUENT = torch.tensor([[2, 0, 2, 0, 1, 0, 2], [1, 2, 2, 1, 0, 0, 1]])
COUNTS = torch.tensor([2, 0, 3, 1, 4])

CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    **{name: (getattr(torch, name), (X,)) for name in ("sin", "cos", "tan", "atan", "asinh")},
    **{name: (getattr(torch, name), (X,)) for name in ("sinh", "cosh", "exp2", "isinf")},
    **{name: (getattr(torch, name), (X / 5,)) for name in ("asin", "acos", "atanh")},
    **{name: (getattr(torch, name), (X.abs() + 1,)) for name in ("acosh", "log2")},
    **{name: (getattr(torch, name), (X, Y)) for name in ("hypot", "atan2", "fmod")},
    **{name: (getattr(torch, name), (HOLES, HOLES.T)) for name in ("fmax", "fmin", "copysign")},
    **{name: (getattr(torch.linalg, name), (SQUARES,)) for name in ("det", "inv", "slogdet")},
    "inverse": (torch.inverse, (SQUARES,)),
    "logdet": (torch.logdet, (SQUARES @ SQUARES.mT,)),
    "a negative power": (lambda x: torch.linalg.matrix_power(x, -2), (SQUARES,)),
    "solve": (torch.linalg.solve, (SQUARES, ROWS)),
    "solve vectors": (torch.linalg.solve, (SQUARES, ROWS[..., 0].clone())),
    "solve from the right": (
        lambda a, b: torch.linalg.solve(a, b.mT, left=False),
        (SQUARES.double(), ROWS.double()),
    ),
    "signbit": (torch.signbit, (HOLES,)),
    "round to decimals": (lambda x: torch.round(x * 100, decimals=1), (X,)),
    "round to tens": (lambda x: torch.round(x * 100, decimals=-1), (X,)),
    "ldexp": (torch.ldexp, (X, PLACES - 2)),
    "addmv": (lambda x: torch.addmv(x[:, 0], x, x[0], beta=0.5, alpha=2), (X,)),
    "softmax of a number": (lambda x: (x.softmax(0), x.log_softmax(0)), (NUMBER,)),
    "axes of a number": (lambda x: (x.flip(0), x.transpose(0, -1)), (NUMBER,)),
    "a number gathered": (lambda x: x.gather(0, torch.tensor(0)), (NUMBER,)),
    "as_strided where a diagonal is filled": (lambda x: x.clone().fill_diagonal_(9.0), (X,)),
    "diagonals below written": (
        lambda x: x.diagonal_scatter(x[:, 0, :3], -1, 1, 2),
        (BLOCKS[:, 0],),
    ),
    "diagonals above written": (
        lambda x: x.diagonal_scatter(x[:, :, 0, :2], 2, 2, 3),
        (BLOCKS[:, :2],),
    ),
    "threshold of NaN": (lambda x: torch.nn.functional.threshold(x, 0.5, 3.0), (HOLES,)),
    "signbit of integers": (torch.signbit, (INTS,)),
    "median": (torch.median, (X,)),
    "median of integers": (torch.median, (INTS,)),
    "median along": (lambda x: x.median(1), (X,)),
    "median of an even number": (lambda x: x.median(1, keepdim=True)[0], (X[:, :4],)),
    "median with NaN": (lambda x: x.median(0)[0], (HOLES,)),
    "median of numbers": (torch.nanmedian, (HOLES,)),
    "median of numbers along": (lambda x: x.nanmedian(1), (HOLES,)),
    "median of numbers, where there are some": (
        lambda x: x.nanmedian(0, keepdim=True)[0],
        (torch.tensor([[1.0, torch.nan, 4.0], [2.0, torch.nan, torch.nan]]),),
    ),
    "any and all": (lambda x: (x.any(1), x.all(1), x.any(), x.all()), (HOLES,)),
    "any and all of nothing": (
        lambda x: (x.any(1), x.all(1), x.any(), x.all()),
        (torch.zeros(3, 0),),
    ),
    "fmod of integers": (torch.fmod, (INTS, OTHERS)),
    "var": (lambda x: x.var(), (X,)),
    "var along": (lambda x: x.var(1, correction=0), (X,)),
    "std": (lambda x: x.std(0), (X,)),
    "tril": (torch.tril, (X,)),
    "triu": (lambda x: x.triu(1), (X,)),
    "topk": (lambda x: torch.topk(x, 2), (X,)),
    "topk smallest": (lambda x: torch.topk(x, 2, largest=False), (X,)),
    "sort": (lambda x: torch.sort(x, descending=True), (X,)),
    "argsort": (lambda x: torch.argsort(x), (X,)),
    "prod": (lambda x: x.prod(1), (X,)),
    "prod of all": (lambda x: x.prod(), (X,)),
    "cumprod": (lambda x: x.cumprod(1), (X,)),
    "cumsum over the batch": (lambda x: x.cumsum(0), (X,)),
    "gather": (lambda x, i: x.gather(1, i), (X, PLACES)),
    "gather fewer": (lambda x, i: x.gather(1, i[:, :2]), (X, PLACES)),
    "scatter": (lambda x, i, y: x.scatter(1, i, y), (X, PLACES[:2].repeat(2, 1)[:3], Y)),
    "scatter_add": (lambda x, i, y: x.scatter_add(1, i, y), (X, PLACES, Y)),
    "scatter a number": (lambda x, i: x.scatter(1, i, 2.5), (X, PLACES[:, :2])),
    **{
        f"scatter_reduce {kind} {includes}": (
            lambda x, i, y, kind=kind, includes=includes: x.scatter_reduce(
                1, i, y, kind, include_self=includes
            ),
            (X, PLACES[:, 1:], Y),
        )
        for kind in ("mean", "amax", "amin", "prod")
        for includes in (True, False)
    },
    **{
        f"index_reduce {kind} {includes}": (
            lambda x, y, kind=kind, includes=includes: x.index_reduce(
                -1, torch.tensor([1, 4, 1, 0, 1]), y, kind, include_self=includes
            ),
            (X, Y),
        )
        for kind in ("prod", "mean", "amax", "amin")
        for includes in (True, False)
    },
    "rows by index": (
        lambda x, y: (
            x.index_add(1, torch.tensor([1, 4, 1, 3, 0]), y, alpha=2),
            x.index_copy(1, torch.tensor([3, 0]), y[:, :2]),
            x.index_fill(1, torch.tensor([-2]), 3.5),
            x[0].index_add(0, torch.tensor([2]), y[0, :1]),
            (x * 9).long().index_add(1, torch.tensor([4, 4]), (y[:, :2] * 9).long()),
        ),
        (X, Y),
    ),
    "truth values scattered": (lambda x, i, y: (x > 0).scatter(1, i, y > 0), (X, PLACES, Y)),
    "truth values gathered": (lambda x, i: (x > 0).gather(1, i), (X, PLACES)),
    "scatter_reduce of integers": (
        lambda x, i, y: x.scatter_reduce(0, i, y, "amin", include_self=False),
        (INTS, PLACES[1:] % 2, OTHERS),
    ),
    "scatter_reduce": (lambda x, i, y: x.scatter_reduce(1, i, y, "sum"), (X, PLACES, Y)),
    "scatter_reduce without what is there": (
        lambda x, i, y: x.scatter_reduce(1, i, y, "sum", include_self=False),
        (X, PLACES[:, :3], Y),
    ),
    "bucketize": (lambda x: torch.bucketize(x, BOUNDS), (TIES,)),
    "bucketize from the right": (lambda x: torch.bucketize(x, BOUNDS, right=True), (TIES,)),
    "bucketize integers": (lambda x: torch.bucketize(x, BOUNDS, out_int32=True), (INTS,)),
    "searchsorted": (lambda b, x: torch.searchsorted(b, x), (X.sort(1)[0], Y)),
    "searchsorted from the right": (lambda x: torch.searchsorted(BOUNDS, x, side="right"), (TIES,)),
    "cdist": (lambda x, y: torch.cdist(x[None], y[None].repeat(2, 1, 1)), (X, Y[:2])),
    "cdist of batches": (lambda x, y: torch.cdist(x[None, None], y.repeat(3, 1, 1)), (X, Y[:2])),
    "cdist of order 1": (lambda x, y: torch.cdist(x, y, p=1), (X, Y)),
    "cdist of the largest": (lambda x, y: torch.cdist(x, y, p=torch.inf), (X, Y)),
    "and": (lambda a, b: a & b, (INTS, OTHERS)),
    "or": (lambda a, b: a | b, (INTS, OTHERS)),
    "not": (lambda a: ~a, (INTS,)),
    "shift left": (lambda a: a << 3, (INTS,)),
    "shift right": (lambda a: a >> 2, (INTS,)),
    # What was wrong without a word.
    "exclusive or": (lambda a: a ^ 3, (INTS,)),
    "running sums": (lambda x: x.cumsum(1), (torch.tensor([[1.0, torch.inf, 2, torch.nan, 1]]),)),
    "running greatest": (lambda x: x.cummax(1), (SERIES,)),
    "running greatest over the first axis": (lambda x: x.cummax(0), (SERIES,)),
    "running least": (lambda x: x.cummin(1), (SERIES,)),
    "running least of integers": (lambda x: x.cummin(1), (INTS,)),
    "running logsumexp": (lambda x: x.logcumsumexp(1), (SERIES,)),
    "running logsumexp of blocks": (lambda x: x.logcumsumexp(2).exp(), (BLOCKS,)),
    "max_pool2d of an image without a batch, with dilation": (
        lambda x: torch.nn.functional.max_pool2d_with_indices(
            x[:, 0], (2, 2), (1, 1), dilation=(1, 2)
        ),
        (WHOLE,),
    ),
    "einsum with two ellipses": (
        lambda x, y: torch.einsum("...ij,j...k->...ki", x, y),
        (WHOLE, WHOLE.permute(2, 0, 1, 3)),
    ),
    "einsum with an ellipsis and no result": (
        lambda x, y: torch.einsum("...ab, b", x, y),
        (WHOLE, WHOLE[0, 0, 0]),
    ),
    "einsum that adds its ellipsis": (
        lambda x, y: torch.einsum("b...,b...->b", x, y),
        (WHOLE, WHOLE * 2),
    ),
    "einsum that spreads": (
        lambda x, y: torch.einsum("bcij,...ij->bc...", x[:, :1], y),
        (WHOLE, WHOLE[:, 1]),
    ),
    "einsum of four, two by two": (
        lambda x: torch.einsum("bchw,cd,de,bdhw->beh", x, X[:3, :3].round(), x[0, :, 0, :3], x),
        (WHOLE,),
    ),
    "what is read by a value": (
        lambda x, i: (x[:, x[0].argmax()], x[:, i[0, 1] - 3], x * i[1, 0].item() - i[0, 0].item()),
        (X, PLACES),
    ),
    "numbers that are read": (lambda x: x * (x.sum().item() * 2 + 1) + (x > 0).sum().item(), (X,)),
    "integers to the fifth": (lambda a: a**5, (INTS,)),
    "norm of order 3": (lambda x: torch.linalg.vector_norm(x, 3, dim=1), (X,)),
    "norm of order 1/2": (lambda x: x.norm(0.5, dim=0), (X,)),
    "pdist": (lambda x: [torch.pdist(Y * x.sum(0), p) for p in (2.0, 1.0)], (X,)),
    "cdist of order 4": (lambda x, y: torch.cdist(x, y, p=4), (X, Y)),
    "masked_scatter": (lambda x, y: x.masked_scatter(y > 0, y), (X, Y)),
    "masked_scatter of rows": (lambda x, y: x.masked_scatter(y[:, :1] > -9, y * 2), (X, Y)),
    "masked_scatter of none": (lambda x, y: x.masked_scatter(y > 99, y[:0]), (X, Y)),
    "a row where a mask holds": (
        lambda x, y: x.index_put((x[:, :, 0, 0] > 0,), y[:1, :4, None]),
        (BLOCKS, Y),
    ),
    "rows where a mask holds": (
        lambda x, y: x.index_put((x[:, :, 0, 0] > 0,), y),
        (BLOCKS, BLOCKS[0, 0]),
    ),
    "as_strided": (lambda x: x.as_strided((3, 2, 3), (5, 2, 1)) * 1, (X,)),
    "as_strided from within": (lambda x: (x + 1).as_strided((2, 3), (1, 4), 2) * 1, (X,)),
    "batch_norm of its batch": (
        lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
        (BLOCKS,),
    ),
    "max_pool2d with places": (
        lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True),
        (BLOCKS,),
    ),
    "max_unpool2d": (
        lambda x: torch.nn.functional.max_unpool2d(
            *torch.nn.functional.max_pool2d(x, 2, return_indices=True), [2, 2]
        ),
        (BLOCKS,),
    ),
    "logsumexp": (
        lambda x: x.logsumexp(1),
        (torch.tensor([[-torch.inf] * 3, [torch.inf, 0, 1], [1, 2, 3]]),),
    ),
    "argmin of bytes": (lambda x: x.argmin(1), (torch.tensor([[3, 0, 255]], dtype=torch.uint8),)),
    "argmin of int8": (lambda x: x.argmin(1), (torch.tensor([[3, -128]], dtype=torch.int8),)),
    "min of bytes": (lambda x: x.min(1)[1], (torch.tensor([[3, 0, 255]], dtype=torch.uint8),)),
    **{name: (getattr(torch, name), (GAMMA,)) for name in ("lgamma", "digamma")},
    "lgamma of floats": (torch.lgamma, (GAMMA.float(),)),
    "erfinv": (torch.erfinv, (BELOW_ONE,)),
    "erfinv of floats": (torch.erfinv, (BELOW_ONE.float(),)),
    **{name: (getattr(torch.special, name), (TAILS,)) for name in ("erfc", "erfcx", "log_ndtr")},
    "erfc of floats": (torch.erfc, (TAILS.float(),)),
    **{name: (getattr(torch.special, name), (BESSEL,)) for name in ("i0", "i0e", "i1", "i1e")},
    "ndtri": (torch.special.ndtri, (SHARES,)),
    "bins of a width": (lambda x: torch.histc(x, 4, -1, 2), (TIES,)),
    "bins from the least to the greatest": (lambda x: torch.histc(x, 5), (X,)),
    "bins of one number": (lambda x: torch.histc(x, 3), (X[0, :1].expand(4).clone(),)),
    "the most frequent of integers": (
        lambda x: (*x.mode(1), *x.mode(0, keepdim=True)),
        (FREQUENT,),
    ),
    "the most frequent": (lambda x: x.round().mode(1), (X,)),
    "common divisors": (torch.gcd, (INTS[:, 1:4], OTHERS[:, 1:4])),
    "worst common divisor": (
        torch.gcd,
        (
            torch.tensor([2**63 - 1, 7540113804746346429, 0]),
            torch.tensor([6, 4660046610375530309, 0]),
        ),
    ),
    "common multiples": (torch.lcm, (INTS[1:], OTHERS[1:] - 7)),
    "put": (lambda x, y: x.put(torch.tensor([0, 5, -1]), y[0, :3]), (X, Y)),
    "put added": (lambda x, y: x.put(torch.tensor([2, 2, -1]), y[0, :3], True), (X, Y)),
    "places that are not 0": (lambda x: torch.nonzero_static(x.relu(), size=4), (X,)),
    "more places than are not 0": (
        lambda x: torch.nonzero_static(x > 0, size=20, fill_value=7),
        (BLOCKS[:, 0, 0, :2].clone(),),
    ),
    "so many as a tensor says": (lambda x: x.repeat_interleave(COUNTS, 1) + 1, (X,)),
    "so many as an input says": (
        lambda x, i: x.flatten().repeat_interleave(i.flatten(), output_size=26),
        (X, PLACES),
    ),
    "what a known mask keeps": (
        lambda x: (
            x[:, COUNTS > 1],
            x.mT[COUNTS > 2],
            x[0].masked_select(COUNTS == 0),
            COUNTS.nonzero() * x[0, 0],
        ),
        (X,),
    ),
    "windows of several sizes with places": (
        lambda x: torch.nn.functional.adaptive_max_pool2d(x, (3, 2), return_indices=True),
        (WHOLE,),
    ),
    "windows of volumes": (
        lambda x: torch.nn.functional.adaptive_max_pool3d(x, (2, 3, 3), return_indices=True),
        (WHOLE,),
    ),
    "windows of one size with places": (
        lambda x: torch.nn.functional.adaptive_max_pool1d(x[0], 2, return_indices=True),
        (WHOLE,),
    ),
    "mvlgamma": (lambda x: torch.special.multigammaln(x + 2, 3), (TAILS[4:8],)),
    "cholesky": (torch.linalg.cholesky, (DEFINITE,)),
    "an upper cholesky": (lambda x: torch.linalg.cholesky(x, upper=True), (DEFINITE.double(),)),
    "cholesky_solve": (
        lambda x, y: torch.cholesky_solve(y, torch.linalg.cholesky(x)),
        (DEFINITE.double(), ROWS.double()),
    ),
    **{
        f"solve_triangular {upper} {left} {ones}": (
            lambda x, y, upper=upper, left=left, ones=ones: torch.linalg.solve_triangular(
                x, y if left else y.mT, upper=upper, left=left, unitriangular=ones
            ),
            (DEFINITE.double(), ROWS.double()),
        )
        for upper, left, ones in ((True, True, False), (False, False, False), (False, True, True))
    },
    "one matrix for several sides": (
        lambda x, y: torch.linalg.solve(x[0], y),
        (SQUARES.double(), ROWS.double()),
    ),
    "clamp between bounds in the wrong order": (lambda x: x.clamp(1, -1), (HOLES,)),
    "powers of integers": (
        lambda x, y: (x.pow(y), 3**y, x.pow(2)),
        (torch.tensor([[-2, 7, 0, 1, -1], [2, -3, 5, 9, 10]]), PLACES[:2]),
    ),
    **{
        f"floor of a quotient by {y}": (
            lambda x, y=y: torch.div(x, y, rounding_mode="floor"),
            (torch.cat([HOLES, HOLES * 0.3, torch.tensor([[1.0, -1.0, 0.6]])]),),
        )
        for y in (0.1, 2, -0.7, 0.0, torch.inf)
    },
    "floor of a quotient": (lambda x, y: x // y, (HOLES, HOLES.T.clone())),
    "what is not 0 counted": (lambda x: x.relu().norm(p=0, dim=1), (X,)),
    "scatter fewer rows": (
        lambda x, i: (x.scatter(1, i[:2, :2], 9.0), x.scatter_add(0, i[:, :2] % 3, x[:, 1:])),
        (X, PLACES),
    ),
    "log1p": (torch.log1p, (TINY,)),
    "expm1": (torch.expm1, (TINY,)),
    "elu": (torch.nn.functional.elu, (TINY,)),
    "trunc": (lambda x: 1 / x.trunc(), (torch.tensor([-0.0, -0.5, 2.5]),)),
    "softplus": (torch.nn.functional.softplus, (torch.tensor([-20.0, 1.0, 30.0]),)),
}


def called(function: Callable[..., Any], count: int) -> torch.nn.Module:
    class One(torch.nn.Module):
        def forward(self, a: Tensor) -> Any:
            return function(a)

    class Two(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Any:
            return function(a, b)

    class Three(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Any:
            return function(a, b, c)

    return (One, Two, Three)[count - 1]()


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", CASES)
def test_a_function_is_that_of_pytorch(name: str) -> None:
    function, inputs = CASES[name]
    # Those that go by the number.
    counted = ("median", "cdist", "as_strided", "max_", "running greatest over", "einsum with two")
    dynamic = {} if name.startswith(counted) else None
    module = from_torch(called(function, len(inputs)), inputs, dynamic=dynamic)
    expected = function(*inputs)
    results = run_module(module, [v.numpy() for v in inputs])
    several = [expected] if isinstance(expected, Tensor) else list(expected)
    for result, value in zip(results, several, strict=True):
        wanted = value.numpy()
        assert result.dtype == wanted.dtype
        if wanted.dtype.kind != "f":
            np.testing.assert_array_equal(result, wanted)
        else:
            np.testing.assert_allclose(result, wanted, rtol=2e-6, atol=1e-30)
