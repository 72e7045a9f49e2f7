"""What cannot be imported says so, all at once, by module and line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from triton_dsl import compile_model, from_torch
from triton_dsl.dialects import tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import LoweringError, OptionError, UnsupportedError
from triton_dsl.ir.printing import PrintOptions, module_text
from triton_dsl.lowering.emission import source_place
from triton_dsl.lowering.from_torch import TorchWarning


class Wrapped(nn.Module):
    """A function in a module called `inner`."""

    class Inner(nn.Module):
        def __init__(self, function: Any) -> None:
            super().__init__()
            self.function = function

        def forward(self, *inputs: Tensor) -> Any:
            return self.function(*inputs)

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.inner = self.Inner(function)

    def forward(self, x: Tensor) -> Any:
        return self.inner(x)


def test_all_problems_are_listed_at_once() -> None:
    def several(x: Tensor) -> Tensor:
        return torch.unique(x).sum() + torch.randn(4) + torch.special.airy_ai(x)

    with pytest.raises(UnsupportedError) as caught:
        from_torch(Wrapped(several), torch.randn(2, 4))
    problems = {name: (place, reason) for name, place, reason in caught.value.problems}
    assert set(problems) == {"aten::_unique2", "aten::randn", "aten::special_airy_ai"}
    place, reason = problems["aten::_unique2"]
    line = Wrapped.Inner.forward.__code__.co_firstlineno + 1
    assert place.startswith("'inner' (") and place.endswith(f"test_errors.py:{line})")
    assert "depends on values" in reason


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x[x > 0], "depends on values"),
        (lambda x: torch.nn.functional.gumbel_softmax(x, hard=True), "draws random numbers"),
        (lambda x: torch.where(x > 0)[0], "depends on values; give 'where' two values"),
        (lambda x: torch.unique(x), "depends on values"),
        (lambda x: x[0, torch.tensor([0, 1, 0])][:, torch.tensor([0]), x[0, 0, 0] > 0], "depends"),
        (lambda x: x.to(torch.complex64), "it is complex; return torch.view_as_real of it"),
        (lambda x: torch.linalg.qr(x)[0], "no op of the IR computes it"),
    ],
)
def test_single_problems(function: Any, message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        from_torch(Wrapped(function), torch.randn(2, 1, 4, 4))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.view(2, -1) + torch.ones(2, 4),
        lambda x: x.index_put((torch.tensor([-1]),), x[0]),
    ],
)
def test_sizes_that_the_module_fixes(function: Any) -> None:
    """Such a module comes in for the sizes of the example, unless free ones were asked for."""
    x = torch.randn(2, 4)
    with pytest.warns(TorchWarning, match="the sizes of the example alone"):
        made = from_torch(Wrapped(function), x)
    assert "tensor<2x4xf32>" in str(made)
    np.testing.assert_allclose(run_module(made, [x.numpy()])[0], function(x).numpy())
    with pytest.raises(LoweringError, match=r"fixes a size|must be fixed|is not fixed"):
        from_torch(Wrapped(function), x, dynamic={"x": {0: "N"}})


def test_a_fixed_size_is_found_at_once() -> None:
    """A module is exported once with a free batch, and once for the sizes of the example."""
    calls: list[int] = []

    def counted(x: Tensor) -> Tensor:
        calls.append(1)
        return torch.relu(x).view(2, -1) + torch.ones(2, 4)

    with pytest.warns(TorchWarning, match="the sizes of the example alone"):
        from_torch(nn.Sequential(nn.Linear(4, 4), Wrapped(counted)), torch.randn(2, 4))
    assert len(calls) == 2


@pytest.mark.parametrize(("example", "bound"), [(2, "N up to 3"), (6, "N from 4")])
def test_a_module_that_goes_another_way_for_other_sizes(example: int, bound: str) -> None:
    """By default it comes in for the sizes of the example; a size that is asked for is bounded."""
    module, x = Wrapped(lambda x: x + 1 if x.shape[0] > 3 else x - 1), torch.zeros(example, 4)
    with pytest.warns(TorchWarning, match=rf"the sizes of the example alone, .* for {bound} alone"):
        made = from_torch(module, x)
    assert f"tensor<{example}x4xf32>" in str(made)
    with pytest.warns(TorchWarning, match=f"is read for {bound}: beyond, the module may"):
        made = from_torch(module, x, dynamic={"x": {0: "N"}})
    np.testing.assert_array_equal(run_module(made, [x.numpy()])[0], module(x).numpy())


@dataclass
class Pair:
    """Something that a module gives and PyTorch does not know."""

    first: Tensor


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x: x * torch.equal(x, x),
            r"that aten\.equal\.default gives is data-dependent",
        ),
        (
            lambda x: x.geqrf()[0],
            "cannot tell the sizes that aten.geqrf",
        ),
        (Pair, r"gives a .*Pair, .*; return tensors, .* torch\.export\.register_dataclass"),
    ],
)
def test_reasons_are_told_where_pytorch_names_an_operator_alone(
    function: Any, message: str
) -> None:
    with pytest.raises(LoweringError, match=message):
        from_torch(Wrapped(function), torch.randn(3, 4), dynamic={"x": {0: "N"}})


def test_control_flow_on_values() -> None:
    def own(x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x

    line = own.__code__.co_firstlineno + 1
    expected = rf"test_errors\.py:{line}\)\nControl flow must not depend on values"
    with pytest.raises(LoweringError, match=expected):
        from_torch(Wrapped(own), torch.randn(2, 4))


def test_modules_that_change() -> None:
    class Counter(nn.Module):
        count: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1
            return x + self.count

    with pytest.raises(LoweringError, match="changes count when it runs"):
        from_torch(Counter(), torch.randn(2, 4))


@pytest.mark.parametrize(
    ("module", "inputs", "options", "message"),
    [
        ("net.pt", torch.ones(2), {}, "expected an nn.Module, got str"),
        (nn.ReLU(), (torch.ones(2), torch.ones(2)), {}, "do not fit 'forward'"),
        (nn.ReLU(), None, {}, "example_inputs"),
        (nn.ReLU(), torch.ones(2), {"dynamic": {"y": {0: "N"}}}, "no argument 'y'"),
        (nn.ReLU(), torch.ones(2), {"dynamic": {"input": {1: "N"}}}, "no axis 1"),
        (nn.ReLU(), torch.ones(2), {"dynamic": ({0: "N"},)}, r"as {'x': {0: 'N'}}; got \({0"),
        (nn.ReLU(), torch.ones(2), {"dynamic": 3}, "got 3"),
        (nn.ReLU(), torch.ones(2), {"dynamic": {"input": "N"}}, "got {'input': 'N'}"),
        (nn.ReLU(), torch.ones(2), {"dynamic": {"input": {"N": 0}}}, "got {'input': {'N': 0}}"),
        (nn.ReLU(), torch.ones(2), {"dynamic": {"input": {0: "N-1"}}}, "{0: 'N-1'}}"),
    ],
)
def test_wrong_arguments(module: Any, inputs: Any, options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        from_torch(module, inputs, **options)


def test_weights_that_are_no_numbers() -> None:
    layer = nn.Linear(3, 2)
    nn.init.constant_(layer.weight, float("nan"))
    with pytest.raises(UnsupportedError, match="'weight' holds NaN"):
        from_torch(layer, torch.ones(2, 3))


def test_locations() -> None:
    """Ops say which module they come from, and the line of the user's that calls it."""
    made = from_torch(Wrapped(torch.relu), torch.ones(2, 3))
    (op,) = [op for op in made.walk() if isinstance(op, tensor.ReluOp)]
    assert '"inner"' in str(op.location)
    line = Wrapped.Inner.forward.__code__.co_firstlineno + 1
    assert source_place(op.location) == f"{__file__}:{line}:1"


def test_locations_are_no_lines_of_the_importer() -> None:
    for module in (nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 2), nn.ReLU())):
        program = from_torch(module, torch.ones(2, 3))
        assert "from_torch" not in module_text(program, PrintOptions(locations=True))


class Named(nn.Module):
    """Arguments by keyword, nested results."""

    def forward(self, image: Tensor, *, scale: Tensor, offset: float = 1.0) -> dict[str, Tensor]:
        return {"scaled": image * scale + offset, "sum": image.sum(1)}


def test_names() -> None:
    made = from_torch(Named(), {"scale": torch.ones(3), "image": torch.ones(1, 3)}, name="scaler")
    text = str(made)
    assert "builtin.module @scaler" in text
    for name in ("image", "scale", "scaled", "sum"):
        assert f'tensor.name = "{name}"' in text
    assert 'tensor<?x3xf32> {tensor.name = "image", tensor.dimensions = ["N", "3"]}' in text


def test_equal_modules_give_equal_text() -> None:
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(3, 80), nn.ReLU(), nn.Linear(80, 2))
    texts = [str(from_torch(layer, torch.ones(2, 3))) for _ in range(2)]
    assert texts[0] == texts[1]


def test_compile_model() -> None:
    layer = nn.Linear(3, 2)
    made = compile_model(layer, "onnx", example_inputs=torch.ones(2, 3))
    assert any(path.endswith(".onnx") for path in made.artifact.files)
    with pytest.raises(OptionError, match="has its own weights"):
        compile_model(layer, "onnx", weights={}, example_inputs=torch.ones(2, 3))
    with pytest.raises(OptionError, match="belong to a PyTorch module"):
        compile_model("model.tri", "onnx", example_inputs=torch.ones(2, 3))
    with pytest.raises(OptionError, match="example_inputs"):
        compile_model(layer, "onnx")


def test_dropping_a_free_axis_is_refused() -> None:
    dropping, x = Wrapped(lambda x: x.squeeze(0)), torch.zeros(1, 3)
    with pytest.raises(UnsupportedError, match="drops a free axis where that is 1"):
        from_torch(dropping, x, dynamic={"x": {0: "N"}})
    (result,) = run_module(from_torch(dropping, x, dynamic={}), [x.numpy()])
    assert result.shape == (3,)


def test_constants_with_other_strides_are_viewed() -> None:
    """A view of a dtype is one too, and has no sizes."""
    table = torch.arange(24.0).reshape(4, 6).t()

    class Biased(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            bits = table.contiguous().view(torch.int32).view(torch.float32)
            return x + bits.view(1, 24)

    module = from_torch(Biased(), torch.zeros(2, 24))
    x = torch.randn(3, 24)
    np.testing.assert_array_equal(run_module(module, [x.numpy()])[0], Biased()(x).numpy())


class Two(nn.Module):
    """A function of two tensors and a list of them."""

    def forward(self, x: Tensor, y: Tensor, more: list[Tensor]) -> Tensor:
        return x - 2 * y + 4 * more[0] - 8 * more[1]


def test_one_example_for_several_inputs() -> None:
    x = torch.ones(2, 3)
    module = from_torch(Two(), (x, x, [x, x]))
    values = [np.full((2, 3), n, np.float32) for n in (1, 10, 100, 1000)]
    (found,) = run_module(module, values)
    np.testing.assert_array_equal(found, np.full((2, 3), 1 - 20 + 400 - 8000, np.float32))


class Unlisted(nn.Module):
    """A function that takes names it does not list."""

    def forward(self, x: Tensor, **rest: Tensor) -> Tensor:
        return x - rest["y"]


def test_names_that_are_not_listed() -> None:
    x = torch.randn(2, 3)
    with pytest.warns(TorchWarning, match="sizes of the example"):
        module = from_torch(Unlisted(), {"x": x, "y": x + 1})
    (found,) = run_module(module, [x.numpy(), (x * 3).numpy()])
    np.testing.assert_allclose(found, (x * -2).numpy(), 1e-6)
