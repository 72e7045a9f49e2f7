"""Branches on values and scans over steps: as in PyTorch, for inputs that go either way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import LoweringError, UnsupportedError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_torch import TorchWarning, from_torch
from triton_dsl.lowering.from_torch.pt2_file import from_pt2

cond = cast("Callable[..., Any]", torch.cond)


class Branches(nn.Module):
    """A branch within a branch, with layers and several results."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def negative(x: Tensor) -> tuple[Tensor, Tensor]:
            y = cond(x.amax() > 2, lambda x: x * 2, lambda x: x.sort(1)[0], (x,))
            return self.other(y).relu(), y

        return cond(x.sum() > 0, lambda x: (self.one(x), x + 1), negative, (x,))


class Filter(nn.Module):
    """Two runs, a state and a weight that all steps share."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        from torch._higher_order_ops.scan import scan

        def step(state: Tensor, parts: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            state = torch.tanh(state @ self.weight + parts[0])
            return state, state * parts[1]

        return cast("Any", scan)(step, torch.zeros(2, 4), (x, y))


INPUTS = [np.random.default_rng(n).normal(n - 1, 1.5, (2, 4)).astype(np.float32) for n in range(4)]


def test_branches_on_values() -> None:
    module = Branches().eval()
    program = from_torch(module, torch.randn(2, 4))
    for x in INPUTS:
        wanted = [value.detach().numpy() for value in module(torch.from_numpy(x))]
        results = [run_module(program, [x])]
        results += [run_target(program, name, [x])[1] for name in ("onnx", "pytorch", "native")]
        for found in results:
            for result, value in zip(found, wanted, strict=True):
                np.testing.assert_allclose(result, value, 1e-5, 1e-6)


@pytest.mark.parametrize("steps", [1, 5])
def test_scans(steps: int) -> None:
    module = Filter().eval()
    x, y = torch.randn(steps, 2, 4), torch.randn(steps, 2, 4)
    program = from_torch(module, (x, y), dynamic={})
    found = run_module(program, [x.numpy(), y.numpy()])
    for result, value in zip(found, module(x, y), strict=True):
        np.testing.assert_allclose(result, value.detach().numpy(), 1e-5, 1e-6)


def test_branches_in_files(tmp_path: Any) -> None:
    module, path = Branches().eval(), tmp_path / "net.pt2"
    torch.export.save(torch.export.export(module, (torch.zeros(2, 4),)), path)
    program = from_pt2(path)
    for x in INPUTS:
        for result, value in zip(
            run_module(program, [x]), module(torch.from_numpy(x)), strict=True
        ):
            np.testing.assert_allclose(result, value.detach().numpy(), 1e-5, 1e-6)


def test_steps_along_the_first_axis_are_those_of_the_example() -> None:
    """By default it is free as the batch is; who asks for that is told."""
    module, inputs = Filter().eval(), (torch.randn(5, 2, 4), torch.randn(5, 2, 4))
    with pytest.warns(TorchWarning, match="the sizes of the example alone"):
        program = from_torch(module, inputs)
    found = run_module(program, [value.numpy() for value in inputs])
    for result, value in zip(found, module(*inputs), strict=True):
        np.testing.assert_allclose(result, value.detach().numpy(), 1e-5, 1e-6)
    with pytest.raises(UnsupportedError, match=r"scan .*free number of steps; fix that size"):
        from_torch(module, inputs, dynamic={"x": {0: "T"}, "y": {0: "T"}})


class Rows(nn.Module):
    """Each row by a function of its own row and of what all share."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        from torch._higher_order_ops.map import map

        return cast("Any", map)(lambda row, y: (row @ y).tanh(), x, y)


def test_a_map_over_rows() -> None:
    x, y = torch.randn(3, 2, 4), torch.randn(4, 5)
    program = from_torch(Rows(), (x, y), dynamic={})
    np.testing.assert_allclose(
        run_module(program, [x.numpy(), y.numpy()])[0], torch.tanh(x @ y).numpy(), 1e-5, 1e-6
    )


class Doubled(nn.Module):
    """A loop whose end depends on values."""

    def forward(self, x: Tensor) -> Tensor:
        from torch._higher_order_ops.while_loop import while_loop

        loop = cast("Any", while_loop)
        return loop(lambda x: x.sum() < 9, lambda x: (x * 2,), (x,))[0]


def test_loops_whose_end_depends_on_values_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"while_loop .*when it ends depends on values"):
        from_torch(Doubled(), torch.ones(2, 4))


class Long(nn.Module):
    """A loop that counts far, or by numbers that take much memory."""

    def __init__(self, wide: bool) -> None:
        super().__init__()
        self.wide = wide

    def forward(self, x: Tensor) -> Tensor:
        from torch._higher_order_ops.while_loop import while_loop

        def goes_on(i: Tensor, y: Tensor) -> Tensor:
            return (i.expand(1 << 17) + 0).sum() < 9 if self.wide else i < 1 << 17

        start = torch.tensor(0)
        return cast("Any", while_loop)(goes_on, lambda i, y: (i + 1, y * 2), (start, x))[1]


@pytest.mark.parametrize("wide", [False, True])
def test_long_loops_are_refused(wide: bool) -> None:
    with pytest.raises(UnsupportedError, match=r"while_loop .*or is too far away"):
        from_torch(Long(wide), torch.ones(2, 4))


class Counted(nn.Module):
    """Loops whose ends hang on counters alone, one within the other."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        from torch._higher_order_ops.while_loop import while_loop

        loop, last = cast("Any", while_loop), torch.tensor(4)

        def twice(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            start = y.new_zeros((), dtype=torch.int32)
            again = loop(lambda j, y: j < 2, lambda j, y: (j + 1, y.sin() + j), (start, y))[1]
            return i + 1, again * 1.5 + i

        count, y = loop(lambda i, y: (i < last) & (i < 9), twice, (torch.tensor(1), x))
        return y * count, loop(lambda i, y: i < 0, lambda i, y: (i + 1, y + i), (0, x))[1]


def test_loops_with_a_counter() -> None:
    module = Counted().eval()
    program = from_torch(module, torch.randn(2, 4))
    for x in INPUTS:
        wanted = module(torch.from_numpy(x))
        for result, value in zip(run_module(program, [x]), wanted, strict=True):
            np.testing.assert_allclose(result, value.numpy(), 1e-5, 1e-6)


class Flagged(nn.Module):
    """Branches, sizes and factors that hang on buffers and parameters, and a buffer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.flags = nn.Buffer(torch.tensor([1.0, 0.0, 2.0]))
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.sizes = nn.Buffer(torch.tensor([1, 3]))
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        for flag in self.flags:
            if flag > 0:
                x = self.layer(x) * flag
        if (self.flags > 1).any() and self.scale > 0:
            x = x * self.scale
        first, second = x.split(self.sizes.tolist(), 1)
        return torch.cat([second, first[:, : int(self.sizes[0])]], 1) * self.flags.max().item()


def test_branches_on_values_of_the_module_itself() -> None:
    module, x = Flagged().eval(), torch.randn(3, 4)
    program = from_torch(module, x)
    assert "tensor<?x4xf32>" in str(program)
    (got,) = run_module(program, [x.numpy()])
    torch.testing.assert_close(torch.from_numpy(got), module(x).detach())
    assert module.flags.tolist() == [1, 0, 2]


def test_a_buffer_that_is_counted_stays_as_it_is() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = nn.Buffer(torch.tensor(1.0))

        def forward(self, x: Tensor) -> Tensor:
            self.count.add_(1)
            return x if self.count > 1.5 else -x

    module = Counter()
    with pytest.raises(LoweringError, match="changes count when it runs"):
        from_torch(module, torch.randn(3, 4))
    assert module.count == 1
