"""Fits of synapses against least squares of NumPy on windows that PyTorch cuts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block

from triton_dsl.dialects import tensor
from triton_dsl.passes.convert_ann_to_snn import refit
from triton_dsl.passes.convert_ann_to_snn.refit import LeastSquares


def convolution(channels: int, outputs: int, groups: int) -> tensor.ConvOp:
    weight = [outputs, channels // groups, 3, 3]
    block = Block(arg_types=[TensorType(f32, [-1, channels, 6, 6]), TensorType(f32, weight)])
    return tensor.ConvOp(*block.args, padding=[1, 1, 1, 1], groups=groups)


def ridge(phi: NDArray[Any], u: NDArray[Any], before: NDArray[Any], share: float) -> Any:
    """[W; b] by augmented rows: what is centred is held, and the bias is free."""
    centred = phi - phi.mean(0)
    root = np.sqrt(share * (centred**2).sum() / phi.shape[1])
    rows = np.concatenate([centred, root * np.eye(phi.shape[1])])
    wanted = np.concatenate([u - u.mean(0), root * before])
    weight = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    return weight, u.mean(0) - phi.mean(0) @ weight


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_is_fitted_by_groups(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(refit, "RIDGES", (0.05,))
    rng = np.random.default_rng(groups)
    x = (rng.random((12, 4, 6, 6)) < 0.3).astype(np.float32)
    target = rng.normal(size=(12, 6, 6, 6)).astype(np.float32)
    before = rng.normal(size=(6, 4 // groups, 3, 3)).astype(np.float32)
    squares = LeastSquares(convolution(4, 6, groups), before, 12)
    for start in (0, 5):
        stop = start + 5 if start == 0 else 12
        squares.add(x[start:stop], target[start:stop], start)
    weight, bias = squares.solve()
    columns = torch.nn.functional.unfold(torch.tensor(x), 3, padding=1)
    columns = columns.reshape(12, groups, -1, 36).permute(1, 0, 3, 2).reshape(groups, 432, -1)
    for group in range(groups):
        part = slice(group * 6 // groups, (group + 1) * 6 // groups)
        u = target[:, part].transpose(0, 2, 3, 1).reshape(432, -1).astype(np.float64)
        held = before[part].reshape(u.shape[1], -1).T
        wanted, shift = ridge(columns[group].double().numpy(), u, held, 0.05)
        np.testing.assert_allclose(weight[part].reshape(u.shape[1], -1).T, wanted, atol=1e-5)
        np.testing.assert_allclose(bias[part], shift, atol=1e-5)


def linear(inputs: int, outputs: int) -> tensor.MatmulOp:
    block = Block(arg_types=[TensorType(f32, [-1, inputs]), TensorType(f32, [inputs, outputs])])
    return tensor.MatmulOp(*block.args)


def test_held_out_samples_choose_the_ridge() -> None:
    rng = np.random.default_rng(0)
    phi, truth = rng.normal(size=(400, 30)), rng.normal(size=(30, 2))

    def fitted(noise: float, before: NDArray[Any]) -> Any:
        squares = LeastSquares(linear(30, 2), before, 400)
        squares.add(phi, phi @ truth + noise * rng.normal(size=(400, 2)), 0)
        return squares.solve()[0]

    # Without noise the data win over wrong weights; with much of it right weights stay.
    np.testing.assert_allclose(fitted(0.0, np.zeros((30, 2))), truth, atol=0.01)
    near = fitted(100.0, truth)
    loose = ridge(phi, phi @ truth + 100 * rng.normal(size=(400, 2)), truth, 1e-3)[0]
    assert np.abs(near - truth).max() < np.abs(loose - truth).max()


def test_what_never_speaks_has_no_weight() -> None:
    rng = np.random.default_rng(1)
    phi = rng.normal(size=(50, 3))
    phi[:, 1] = 0
    squares = LeastSquares(linear(3, 2), np.ones((3, 2)), 50)
    squares.add(phi, rng.normal(size=(50, 2)), 0)
    weight, _ = squares.solve()
    assert not weight[1].any() and weight[[0, 2]].all()
