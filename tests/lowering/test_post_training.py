"""Bits for the layers of a trained program: what is told is what an independent engine finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import r2_score
from torch import nn
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store, parameters
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import InputError, OptionError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.post_training import quantize_program
from triton_dsl.lowering.stages import apply_passes
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.passes.analysis.compile_time import literal_value

Array = NDArray[Any]

TEXT = """
func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x4xf32> {
  %a = tensor.parameter "a" : tensor<6x32xf32>
  %b = tensor.parameter "b" : tensor<32x32xf32>
  %c = tensor.parameter "c" : tensor<32x4xf32>
  %h = tensor.matmul %x, %a : (tensor<?x6xf32>, tensor<6x32xf32>) -> tensor<?x32xf32>
  %r = tensor.relu %h : (tensor<?x32xf32>) -> tensor<?x32xf32>
  %i = tensor.matmul %r, %b : (tensor<?x32xf32>, tensor<32x32xf32>) -> tensor<?x32xf32>
  %s = tensor.relu %i : (tensor<?x32xf32>) -> tensor<?x32xf32>
  %y = tensor.matmul %s, %c : (tensor<?x32xf32>, tensor<32x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
"""


def trits(rng: np.random.Generator, *shape: int) -> Array:
    return (rng.integers(-1, 2, shape) * rng.uniform(0.5, 2, shape[-1])).astype(np.float32)


def program(seed: int = 0, **arrays: Array) -> ModuleOp:
    rng = np.random.default_rng(seed)
    shapes = {"a": (6, 32), "b": (32, 32), "c": (32, 4)}
    drawn = {key: rng.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
    module = parse_module(TEXT)
    attach_store(module, ParameterStore.of({**drawn, **arrays}))
    return module


def samples(seed: int = 1, count: int = 240) -> Array:
    return np.random.default_rng(seed).normal(size=(count, 6)).astype(np.float32)


def answers(module: ModuleOp, x: Array) -> Array:
    """Classes by ONNX Runtime."""
    (model,) = (
        data for n, data in compile_to_target(module, "onnx").files.items() if n.endswith(".onnx")
    )
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    result: Any = session.run(None, {session.get_inputs()[0].name: x})[0]
    return result.argmax(1)


@pytest.mark.parametrize("name", ["tokens", "signals"])
@pytest.mark.parametrize("bits", ["int8", "ternary"])
def test_layers_on_other_ranks_leave_for_onnx(name: str, bits: str) -> None:
    torch.manual_seed(1)
    layers: Sequence[nn.Module] = {
        "tokens": [nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Flatten()],
        "signals": [nn.Conv1d(5, 6, 3), nn.ReLU(), nn.Conv1d(6, 10, 1), nn.ReLU(), nn.Flatten()],
    }[name]
    x = torch.randn(64, 5, 6)
    module = from_torch(nn.Sequential(*layers, nn.Linear(40, 3)).eval(), x[:2])
    done = quantize_program(module, x.numpy(), bits, drop=1.0)
    _, (found,), _ = run_target(done.module, "onnx", [x.numpy()])
    np.testing.assert_allclose(found, run_module(done.module, [x.numpy()])[0], rtol=0, atol=1e-6)


def bits_of(layers: Any) -> Mapping[str, float]:
    return {layer.key: layer.bits for layer in layers}


@pytest.mark.parametrize("bits", ["int8", "int4", "ternary"])
def test_accuracy_is_what_another_engine_finds(bits: str) -> None:
    x, module = samples(), program()
    labels = np.random.default_rng(2).integers(0, 4, len(x))
    done = quantize_program(module, x, bits, labels=labels, drop=1.0)
    assert done.measured == 60
    assert done.before == np.mean(answers(module, x[180:]) == labels[180:])
    assert done.accuracy == np.mean(answers(done.module, x[180:]) == labels[180:])
    width = {"int8": 8, "int4": 4, "ternary": 2}[bits]
    assert bits_of(done.layers) == dict.fromkeys("abc", width)
    assert done.stored() == (
        (6 * 32 + 32 * 32 + 32 * 4) * 4,
        (6 * 32 + 32 * 32 + 32 * 4) * width / 8,
    )


def test_layers_that_lose_most_keep_more_bits() -> None:
    """Those with trits already lose nothing."""
    rng = np.random.default_rng(4)
    module = program(a=trits(rng, 6, 32), b=trits(rng, 32, 32))
    done = quantize_program(module, samples(), "ternary", drop=0.02)
    assert bits_of(done.layers) == {"a": 2, "b": 2, "c": 8}
    lost = {layer.key: layer.divergence for layer in done.layers}
    assert lost["a"] < 1e-9 and lost["b"] < 1e-9 and lost["c"] > 1e-3
    assert done.accuracy >= done.before - 0.02


class Several(nn.Module):
    """An image, a number and places: nothing that is a class."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 3, 3)
        self.number = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = torch.relu(self.first(x))
        image = self.second(h)
        return image, self.number(h.mean((2, 3))), image.argmax(1)


def test_results_that_are_no_classes_are_judged_by_their_variance() -> None:
    torch.manual_seed(3)
    net = Several().eval()
    x = torch.randn(64, 2, 7, 6)
    program = from_torch(net, x[:2])
    narrow = quantize_program(program, x.numpy(), "ternary", drop=1.0)
    assert (narrow.share, narrow.measured) == ("R²", 16)
    assert narrow.before == pytest.approx(1, abs=1e-6)
    with torch.no_grad():
        wanted = [y.numpy().reshape(16, -1) for y in net(x[48:])]
    _, results, _ = run_target(narrow.module, "onnx", [x[48:].numpy()])
    found = [result.reshape(16, -1) for result in results]
    parts = [
        r2_score(y, z, multioutput="variance_weighted")
        for y, z in zip(wanted[:2], found[:2], strict=True)
    ]
    parts.append((wanted[2] == found[2]).mean())
    assert narrow.accuracy == pytest.approx(np.mean(parts), abs=1e-3)
    assert 0.2 < narrow.accuracy < 0.95
    kept = quantize_program(program, x.numpy(), "ternary", drop=0.02)
    assert kept.accuracy >= 0.98 and 8 in bits_of(kept.layers).values()


def test_a_result_of_all_samples_together_is_refused() -> None:
    x = torch.randn(16, 2, 3, 3)

    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 1)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = self.conv(x)
            return y, y.mean()

    with pytest.raises(InputError, match="result 1 has no values for each sample"):
        quantize_program(from_torch(Mean().eval(), x), x.numpy())


def test_one_number_is_no_class() -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1)).eval()
    x = torch.randn(64, 6)
    program = from_torch(net, x[:2])
    done = quantize_program(program, x.numpy(), "ternary", drop=1.0)
    assert done.share == "R²" and done.accuracy < 0.999
    assert quantize_program(program, x.numpy(), drop=1.0, measure="classes").accuracy == 1.0
    with pytest.raises(OptionError, match="labels are classes"):
        quantize_program(program, x.numpy(), labels=np.zeros(64, int), measure="signal")
    with pytest.raises(OptionError, match="measure of classes or signal, got 'r2'"):
        quantize_program(program, x.numpy(), measure="r2")


def test_keys_that_are_kept_stay_floats() -> None:
    done = quantize_program(program(), samples(), "int8", keep=["b"], drop=1.0)
    assert bits_of(done.layers) == {"a": 8, "b": 32, "c": 8}
    kept = {op.key.data: str(op.result.type) for op in parameters(done.module)}
    assert kept["b"] == "tensor<32x32xf32>"
    assert not any(kept[key].endswith("f32>") for key in kept if key != "b")


def test_a_budget_is_kept_and_spent_where_it_gains() -> None:
    rng = np.random.default_rng(4)
    module = program(a=trits(rng, 6, 32), b=trits(rng, 32, 32))
    done = quantize_program(module, samples(), "ternary", budget=3.0)
    assert bits_of(done.layers) == {"a": 2, "b": 2, "c": 8}
    assert done.stored()[1] == (6 * 32 + 32 * 32) / 4 + 32 * 4
    least = quantize_program(module, samples(), "ternary", budget=2.0)
    assert bits_of(least.layers) == dict.fromkeys("abc", 2)
    with pytest.raises(OptionError, match="a budget of 4 bits or more a weight, got 3"):
        quantize_program(module, samples(), "int4", budget=3.0)
    with pytest.raises(OptionError, match=r"that are kept take more than 2\.5 bits a weight"):
        quantize_program(module, samples(), "ternary", budget=2.5, keep=["b"])


def test_pairs_of_products_fit_sixteen_bits() -> None:
    done = quantize_program(program(), samples(), "int8", drop=1.0)
    kept = [op for op in parameters(done.module) if op.key.data.endswith("integers")]
    assert len(kept) == 3
    for op in kept:
        array = literal_value(op.results[0])
        assert array is not None and 2 * 255 * np.abs(array).max() < 2**15


def test_the_program_itself_stays() -> None:
    module = program()
    before = str(module)
    first = quantize_program(module, samples(), "ternary", drop=1.0)
    assert str(module) == before
    assert str(first.module) == str(quantize_program(module, samples(), "ternary", drop=1.0).module)


def test_what_cannot_be_is_refused() -> None:
    module, x = program(), samples()
    with pytest.raises(OptionError, match="expected bits one of int8, int4, ternary, got 'int2'"):
        quantize_program(module, x, "int2")
    with pytest.raises(OptionError, match="no layer has the weight 'd'; there are a, b, c"):
        quantize_program(module, x, keep=["d"])
    with pytest.raises(OptionError, match="from 0 to 1 to lose, got 5"):
        quantize_program(module, x, drop=5)
    with pytest.raises(OptionError, match="8 samples or more"):
        quantize_program(module, x[:5])
    outlier = x.copy()
    outlier[3] = 1e7
    with pytest.raises(OptionError, match=r"no choice of bits has the agreement 1\.0000"):
        quantize_program(module, outlier, "ternary", drop=0)
    bare = parse_module(
        "func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x6xf32> {\n"
        "%y = tensor.relu %x : (tensor<?x6xf32>) -> tensor<?x6xf32>\n"
        "func.return %y : tensor<?x6xf32>\n}"
    )
    with pytest.raises(OptionError, match="no layer with float weights"):
        quantize_program(bare, x)


def test_the_pass_names_keys_that_no_parameter_has() -> None:
    with pytest.raises(OptionError, match="no parameter has the key 'd'"):
        apply_passes(program(), "quantize-activations{weights=8 skip=d}")
