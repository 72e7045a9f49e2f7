"""Modules that are refused whatever is done with them: at once, and without other output."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from triton_dsl.ir.errors import LoweringError, UnsupportedError
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.from_torch import importer as reading


class Then(nn.Module):
    """A normalised layer, and a function of its result."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layers(x))


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (torch.bernoulli, "aten::bernoulli"),
        (torch.nonzero, "aten::nonzero"),
        (torch.unique, "aten::_unique2"),
        (lambda y: torch.linalg.eigvals(y @ y.mT).real, "aten::linalg_eigvals"),
        (lambda y: y[y > 0], "aten::index"),
        (
            lambda y: y.split((y[:, :2] > 0).sum(0).tolist())[1] + 1,
            r"aten::split_with_sizes at .* pieces \[u0, u1\] depend on values",
        ),
        (
            lambda y: y.cumsum(1)[:, : (y[0, 0] > 0).long().item()],
            r"aten::slice at .* bounds \[u0\] depend on values",
        ),
    ],
)
def test_nothing_is_taken_apart_in_vain(
    function: Callable[[Tensor], Tensor], operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("taken apart")

    monkeypatch.setattr(reading, "decomposed", never)
    monkeypatch.setattr("triton_dsl.lowering.from_torch.exporting.decomposed", never)
    with pytest.raises(UnsupportedError, match=operator) as refused:
        from_torch(Then(function).eval(), torch.randn(3, 4))
    assert "test_hopeless.py" in str(refused.value)


CELL = torch.nn.GRUCell(4, 4)


@pytest.mark.parametrize(
    "function",
    [
        lambda y: y + torch.linalg.eigvals(torch.eye(4)).real,
        lambda y: (torch.special.i0(y), y * 2)[1],
        lambda y: torch.special.entr(y + 1),
        CELL,
    ],
    ids=["of constants", "unread", "taken apart", "a cell that changes its gates in place"],
)
def test_what_only_looks_hopeless_comes_in(function: Callable[[Tensor], Tensor]) -> None:
    from triton_dsl.dialects.interpret import run_module

    module, x = Then(function).eval(), torch.randn(3, 4)
    (got,) = run_module(from_torch(module, x), [x.numpy()])
    torch.testing.assert_close(torch.from_numpy(got), module(x))


@pytest.mark.parametrize(
    "function",
    [lambda y: torch.ones(int(y.argmax())) + y.sum(), lambda y: y if y.sum() > 0 else -y],
    ids=["a size", "a branch"],
)
def test_no_graph_is_printed(
    function: Callable[[Tensor], Tensor], capfd: pytest.CaptureFixture[str]
) -> None:
    """`torch.export` prints the whole graph where a size or a branch depends on values."""

    def told(y: Tensor) -> Tensor:
        import sys

        print("from the module", file=sys.stderr)
        return function(y)

    with pytest.raises(LoweringError, match="data-dependent"):
        from_torch(Then(told).eval(), torch.randn(3, 4))
    captured = capfd.readouterr()
    assert captured.out == ""
    assert set(captured.err.split("\n")) <= {"from the module", ""}
    assert "from the module" in captured.err
