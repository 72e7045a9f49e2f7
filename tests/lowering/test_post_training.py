"""Bits for the layers of a trained program: what is told is what an independent engine finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store, parameters
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError
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
    with pytest.raises(OptionError, match=r"no choice of bits is right for 1\.0000 of the samples"):
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
