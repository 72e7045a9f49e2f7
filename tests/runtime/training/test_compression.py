"""Pruning and quantisation-aware training on scikit-learn's digits, from settings to integers."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from xdsl.dialects.builtin import ModuleOp

from triton_dsl import from_torch
from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.shapes import is_float
from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.stages import apply_passes
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.simulation import run_verilog
from triton_dsl.passes.analysis.compile_time import literal_value
from triton_dsl.passes.quantize_activations.integer_pipeline import integer_pipeline
from triton_dsl.runtime.fake_quantize import layers_of
from triton_dsl.runtime.pruning import bake, prune
from triton_dsl.spiking import SpikingConfig, SpikingMLP
from triton_dsl.training import SpikingRun, Trainer, TrainingConfig

Data: TypeAlias = tuple[Tensor, Tensor]
TUNING = TrainingConfig(epochs=5, learning_rate=2e-3, schedule="cosine", progress=False)


@pytest.fixture(scope="module")
def digits() -> tuple[Data, Data]:
    """Images [N, 1, 8, 8] from 0 to 1 to train with, and 397 others."""
    loaded: Any = load_digits()
    order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
    x = torch.tensor(loaded.images / 16, dtype=torch.float32)[order].unsqueeze(1)
    y = torch.tensor(loaded.target)[order]
    return (x[:1400], y[:1400]), (x[1400:], y[1400:])


@pytest.fixture(scope="module")
def trained(digits: tuple[Data, Data]) -> nn.Sequential:
    """A small convolutional network in float."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    config = dataclasses.replace(TUNING, epochs=12, learning_rate=1e-2)
    Trainer(net, config).fit(digits[0])
    return net


def accuracy(net: nn.Module, data: Data) -> float:
    return Trainer(net, TUNING).evaluate(data)["accuracy"]


def tuned(trained: nn.Module, data: Data, **fields: Any) -> nn.Sequential:
    net = copy.deepcopy(trained)
    Trainer(net, dataclasses.replace(TUNING, **fields)).fit(data)
    assert isinstance(net, nn.Sequential)
    return net.eval()


def integers(net: nn.Module, example: Tensor) -> ModuleOp:
    module = from_torch(net, example)
    apply_passes(module, integer_pipeline())
    floats = [
        op.name for op in module.walk()
        if isinstance(op, tensor.ConvOp | tensor.LinearOp | ternary.FusedOp)
        and is_float(tensor_type(op.operands[0]))
    ]  # fmt: skip
    assert not floats
    return module


def levels(net: nn.Module, x: Tensor) -> tuple[list[Tensor], Tensor]:
    """The integers that enter each layer, and the results."""
    found: list[Tensor] = []

    def note(grid: Any, _: Any, result: Tensor) -> None:
        found.append((result / grid.step()).round())

    grids: list[Any] = [layer.input_quantizer for layer in layers_of(net)]
    hooks = [grid.register_forward_hook(note) for grid in grids]
    with torch.no_grad():
        result = net(x)
    for hook in hooks:
        hook.remove()
    return found, result


@pytest.mark.parametrize(
    ("weights", "activations", "targets"),
    [(4, 4, ("onnx", "tflite", "native", "c")), (2, 4, ("onnx", "native")), (8, 8, ("tflite",))],
)
def test_a_trained_network_is_the_same_integers_everywhere(
    trained: nn.Sequential,
    digits: tuple[Data, Data],
    weights: int,
    activations: int,
    targets: tuple[str, ...],
) -> None:
    (train, test), bits = digits, {"weight_bits": weights, "activation_bits": activations}
    net = tuned(trained, train, **bits)
    module = integers(net, test[0][:1])
    wanted, scores = levels(net, test[0])
    kinds = {type(op) for op in module.walk()}
    assert (ternary.ConvOp in kinds) == (weights == 2) != (tensor.ConvOp in kinds)
    quantized, rescaled = tensor.QuantizeOp, tensor.RequantizeOp
    inner = [op for op in module.walk() if isinstance(op, quantized | rescaled | ternary.ConvOp)]
    assert len(inner) == 3
    (found,) = run_module(module, [test[0].numpy()])
    step = min(abs(np.diff(np.unique(found))).min(), 1.0)
    assert wanted[2].unique().numel() > 2**activations // 2
    # The sums of the last layer are the same integers, but where a sum in float32 lies so close to
    # the middle of two levels that its order puts an activation on the one beside.
    assert (abs(found - scores.numpy()) > step / 100).any(axis=1).mean() < 0.1
    assert (found.argmax(1) != scores.argmax(1).numpy()).mean() < 0.02
    for target in targets:
        _, (result,), _ = run_target(module.clone(), target, [test[0].numpy()])
        np.testing.assert_array_equal(result, found)


def test_a_trained_network_is_the_same_integers_in_a_circuit(
    digits: tuple[Data, Data], require_tool: Callable[[str, str], str]
) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    images, labels = digits[0]
    x, y = nn.functional.avg_pool2d(images, 2), labels
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 3, 2), nn.ReLU(), nn.MaxPool2d(3), nn.Flatten(), nn.Linear(3, 10)
    )
    net = tuned(net, (x, y), weight_bits=4, activation_bits=8, epochs=1)
    module = integers(net, x[:1])
    samples = x[:5].numpy()
    wanted, (found,) = levels(net, x[:5])[1].numpy(), run_module(module, [samples])
    artifact = compile_to_target(module, "verilog", {"time_budget": 0.01, "vectors": 2})
    _, (result,) = run_verilog(artifact, [samples], "iverilog")
    np.testing.assert_array_equal(result, found)
    np.testing.assert_allclose(result, wanted, atol=1e-4)


def test_training_is_better_than_rounding_at_four_bits(
    trained: nn.Sequential, digits: tuple[Data, Data], tmp_path: Path
) -> None:
    train, test = digits
    np.savez(tmp_path / "samples.npz", input=train[0].numpy())
    module = from_torch(trained, test[0][:1])
    pipeline = integer_pipeline(
        str(tmp_path / "samples.npz"), bits=4, weights=4, observer="mse", samples=256
    )
    apply_passes(module, pipeline)
    (scores,) = run_module(module, [test[0].numpy()])
    rounded = float((scores.argmax(1) == test[1].numpy()).mean())
    aware = accuracy(tuned(trained, train, weight_bits=4, activation_bits=4), test)
    assert aware > rounded
    assert aware > accuracy(trained, test) - 0.02


def test_groups_hold_in_what_is_exported(trained: nn.Sequential, digits: tuple[Data, Data]) -> None:
    train, test = digits
    net = tuned(trained, train, pruning_pattern="2:4", weight_bits=4, activation_bits=4)
    assert accuracy(net, test) > accuracy(trained, test) - 0.05
    module = integers(net, test[0][:1])
    weights = [
        literal_value(op.operands[1]) for op in module.walk()
        if isinstance(op, tensor.ConvOp | tensor.LinearOp)
    ]  # fmt: skip
    assert len(weights) == 3
    for weight in weights[1:]:
        assert weight is not None
        rows = weight.T if weight.ndim == 2 else weight.transpose(0, 2, 3, 1)
        count = (rows.reshape(len(rows), -1, 4) != 0).sum(2)
        assert count.max() == 2 and count.mean() > 1.5


def test_sensitivity_is_better_than_magnitude(
    trained: nn.Sequential, digits: tuple[Data, Data]
) -> None:
    (x, y), test = digits
    data = [(x[i : i + 8], y[i : i + 8]) for i in range(0, 400, 8)]
    for sparsity in (0.5, 0.6):
        found: dict[str, float] = {}
        for method in ("magnitude", "sensitivity"):
            net = copy.deepcopy(trained)
            prune(net, sparsity, method=method, data=data)
            bake(net)
            zeros = sum(int((layer.weight == 0).sum()) for layer in layers_of(net))  # pyright: ignore
            assert zeros == pytest.approx(sparsity * (72 + 1152 + 640), abs=2)
            found[method] = accuracy(net, test)
        assert found["sensitivity"] > found["magnitude"] + 0.02


@pytest.mark.parametrize("method", ["magnitude", "sensitivity"])
def test_a_run_goes_on_with_the_same_bits(
    method: str, digits: tuple[Data, Data], tmp_path: Path
) -> None:
    x, y = digits[0][0][:160], digits[0][1][:160]
    config = TrainingConfig(
        epochs=4, batch_size=16, sparsity=0.8, pruning=method, weight_bits=3, activation_bits=4,
        progress=False, checkpoint_folder=str(tmp_path),
    )  # fmt: skip

    def perceptron() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))

    straight, resumed = perceptron(), perceptron()
    Trainer(straight, config).fit((x, y))
    Trainer(perceptron(), config).fit((x, y), max_steps=13)
    trainer = Trainer(resumed, config)
    trainer.fit((x, y), resume=tmp_path / "last.safetensors")
    assert trainer.best_epoch is not None and trainer.best_epoch >= 2
    state, other = straight.state_dict(), resumed.state_dict()
    assert state.keys() == other.keys()
    assert all(torch.equal(state[name], other[name]) for name in state)
    bake(straight)
    total = sum(int((layer.weight == 0).sum()) for layer in layers_of(straight))  # pyright: ignore
    assert total >= round(0.8 * (1024 + 160)) - 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weight_bits": 9}, "weight_bits: expected a whole number from 2 to 8, got 9"),
        ({"activation_bits": True}, "activation_bits: expected a whole number"),
        ({"sparsity": -0.1}, "sparsity: expected a number from 0, below 1"),
        ({"pruning": "random"}, "pruning: expected one of magnitude, sensitivity"),
        ({"pruning_pattern": "2:2"}, "pruning_pattern: expected N:M"),
        ({"pruning_pattern": "2:4", "sparsity": 0.5}, "leave out sparsity"),
    ],
)
def test_settings_are_checked(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        TrainingConfig(**fields)


def test_spikes_are_not_rounded() -> None:
    network = SpikingMLP([16, 8, 2], SpikingConfig(timesteps=4))
    config = TrainingConfig(activation_bits=4)
    with pytest.raises(OptionError, match="activation_bits: what spiking networks pass on"):
        Trainer(network, config, spiking=SpikingRun(4, "direct", "rate"))
