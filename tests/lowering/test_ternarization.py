"""PyTorch modules made ternary on samples: what they hold, what they keep, where they go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import tensor, ternary
from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.ternarization import ternarize_module
from triton_dsl.passes.ternarize.ternarize import TernarizePass
from triton_dsl.runtime.engines import run_onnx
from triton_dsl.tools.verify import verify_module

torch = pytest.importorskip("torch")
nn: Any = torch.nn
Array = NDArray[Any]


def small() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 12, 3, padding=1, groups=2),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.Conv2d(12, 8, 3, stride=2, bias=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(72, 10, bias=False),
    ).eval()


def images(count: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, 2, 8, 8, generator=generator)


def loader(x: Any, size: int = 50) -> Any:
    """As training code has it, with labels behind the inputs."""
    data = torch.utils.data
    return data.DataLoader(data.TensorDataset(x, torch.zeros(len(x))), batch_size=size)


def layers(model: Any) -> list[Any]:
    return [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]


def ternary_products(module: ModuleOp) -> int:
    """How many products there are, all of them with trits."""
    plain = tensor.LinearOp | tensor.ConvOp | tensor.MatmulOp
    assert not [op for op in module.walk() if isinstance(op, plain)]
    return sum(isinstance(op, ternary.FusedOp) for op in module.walk())


def test_weights_are_trits_and_a_scale() -> None:
    from triton_dsl.lowering.from_torch import from_torch

    model = small()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    made = ternarize_module(model, loader(images(200)))
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    for layer in layers(made):
        for row in layer.weight.detach().flatten(1):
            assert len(row.abs().unique()) <= 2 and layer.bias is not None
    assert ternary_products(from_torch(made, (images(2),))) == 3


def test_results_are_kept() -> None:
    model, fresh = small(), images(300, seed=1)
    made = ternarize_module(model, loader(images(500)))
    rule = small()
    for layer in layers(rule):
        flat = layer.weight.detach().flatten(1)
        kept = flat.abs() > 0.7 * flat.abs().mean(1, keepdim=True)
        scale = (flat.abs() * kept).sum(1, keepdim=True) / kept.sum(1, keepdim=True)
        layer.weight.data = (flat.sign() * kept * scale).view_as(layer.weight)
    with torch.no_grad():
        wanted, found, rounded = (net(fresh) for net in (model, made, rule))
    assert ((found - wanted) ** 2).mean() < ((rounded - wanted) ** 2).mean() / 5


def test_training_goes_on_from_the_same_trits() -> None:
    from triton_dsl.runtime.layers import TernaryLinear

    made: Any = ternarize_module(nn.Sequential(nn.Linear(40, 10)), [torch.rand(99, 40)])
    layer = TernaryLinear(40, 10)
    layer.load_state_dict(made[0].state_dict())
    x = torch.rand(5, 40)
    torch.testing.assert_close(layer(x), made(x))


def test_what_cannot_be_stored_is_refused() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 6)

        def forward(self, x: Any) -> Any:
            return self.inner(self.inner(x).relu())

    x = [torch.rand(20, 6)]
    with pytest.raises(OptionError, match=r"inner.weight are used several times, with one bias"):
        ternarize_module(Tied(), x)
    ternarize_module(Tied(), x, options=TernarizePass(correct_bias=False))

    class Free(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.matrix = nn.Parameter(torch.rand(6, 6))

        def forward(self, x: Any) -> Any:
            return x @ self.matrix

    with pytest.raises(OptionError, match=r"'matrix' is the weight of no nn\.Linear"):
        ternarize_module(Free(), x)
    with pytest.raises(OptionError, match="at least one batch"):
        ternarize_module(small(), [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "samples", "float_share", "least"),
    [("mlp", 1000, 98.34, 97.5), ("cnn", 1000, 99.26, 98.9)],
)
def test_digits_without_training(
    shared_data: Any, name: str, samples: int, float_share: float, least: float
) -> None:
    """All products ternary, on samples without labels: the share of right test images."""
    from triton_dsl.lowering.from_torch import from_torch

    net = shared_data.network(name)
    x, y = shared_data.digits("t10k"), shared_data.labels("t10k")
    train = shared_data.digits("train")[:samples]
    with torch.no_grad():
        before = np.concatenate([net(part).numpy() for part in torch.tensor(x).split(500)])
    assert 100 * (before.argmax(1) == y).mean() == pytest.approx(float_share, abs=0.005)

    made = ternarize_module(net, torch.tensor(train).split(100))
    program = from_torch(made, (torch.zeros(2, 1, 28, 28),))
    assert ternary_products(program) == len(layers(net))
    data = compile_to_target(program.clone(), "onnx").files
    model_file = next(content for path, content in data.items() if path.endswith(".onnx"))
    found = np.concatenate([run_onnx(model_file, [part])[0] for part in np.split(x, 20)])
    assert 100 * (found.argmax(1) == y).mean() >= least
    for row in verify_module(program, [x[:64]], ["onnx", "native"]):
        assert row.agrees
