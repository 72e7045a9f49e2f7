"""What earlier interfaces promise beyond names: methods, orders, meanings, each called once.

Names are in `test_calls`. Not here: what is published, signed, deployed or run by a cluster.
"""

from __future__ import annotations

import asyncio
import socket
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from triton_dsl import compile_model, from_torch
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.arrays import Array
from triton_dsl.ir.errors import BackendError
from triton_dsl.lowering.conversion import convert_to_snn
from triton_dsl.runtime import (
    Limits,
    Loaded,
    Port,
    Served,
    Signature,
    TernaryBertTiny,
    TernaryLinear,
)
from triton_dsl.runtime.models.mobilenet import TernaryMobileNetV2
from triton_dsl.runtime.models.small import TernaryCIFAR10Net, TernaryMNISTNet
from triton_dsl.spiking import SpikingConfig, SpikingMLP
from triton_dsl.training import SpikingRun, Trainer, TrainingConfig

from .test_calls import checked, layer, named, perceptron, source

QUICK = TrainingConfig(epochs=1, progress=False)
X, Y = torch.rand(24, 6, generator=torch.Generator().manual_seed(0)), torch.arange(24) % 3


def backend(**fields: Any) -> Any:
    """The processor's, without compilers."""
    config = named("KernelPyTorchConfig")(without=("compile", "native"), **fields)
    return named("CPUBackend")(config)


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def refused(call: Callable[[], Any], kind: str) -> bool:
    """Whether what a device that is absent is asked for is refused with a reason."""
    with pytest.raises(BackendError, match=f"the backend {kind} has no device: "):
        call()
    return True


def absent() -> bool:
    """Each backend can be made anywhere, says whether its device is there, and why not."""
    for kind in ("nvidia", "amd", "tpu", "intel"):
        made = named("BackendFactory").create(kind)
        assert made.is_available == named("BackendFactory").is_available(kind)
        assert made.is_available == (kind in named("list_available_backends")())
        if not made.is_available:
            assert refused(lambda made=made: made.prepare_model(perceptron()), kind)
    return True


def first_of_priority() -> bool:
    order = ("nvidia", "amd", "tpu", "intel", "cpu")
    there = named("list_available_backends")()
    return named("detect_best_backend")() == next(kind for kind in order if kind in there)


def within() -> bool:
    with backend() as found:
        found.set_device(0)
        found.synchronize()
        found.empty_cache()
        assert found.device_count == 1
        moved = found.to_device({"x": [X], "y": (Y, "name")})
    return torch.equal(moved["x"][0], X) and moved["y"][1] == "name"


def levels() -> bool:
    """O0 places, O1 folds, O2 recomputes activations in training, O3 packs trits."""
    folded = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
    ternary, optimizer = perceptron(), named("get_optimizer")("cpu")
    optimizer.without = ("compile", "native")
    assert optimizer.optimize(folded, "O0")[1].optimizations_applied == []
    assert optimizer.optimize(folded, "O1")[1].optimizations_applied == ["fuse_conv_bn"]
    assert "ternary_kernels" in optimizer.optimize(ternary, "O3")[1].optimizations_applied
    blocks = nn.Sequential(nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)), nn.Linear(6, 3))
    recomputed = backend(optimization_level="O2").optimize_for_training(blocks)
    return any("Checkpoint" in type(part).__name__ for part in recomputed.modules())


def zero_rows() -> bool:
    trits = torch.randint(-1, 2, (64, 32)).float()
    trits[torch.rand(64) < 0.9] = 0
    x = torch.randn(3, 64)
    found = named("ternary_matmul")(x, trits, b_ternary=True)
    assert torch.allclose(x @ named("TernaryTensor")(trits), found, atol=1e-4)
    return torch.allclose(found, x @ trits, atol=1e-4)


def architectures() -> bool:
    """Each is made of ternary layers; those without convolutions run here, others elsewhere."""
    for make in (TernaryCIFAR10Net, TernaryMobileNetV2, TernaryMNISTNet, TernaryBertTiny):
        assert any(hasattr(part, "get_ternary_weights") for part in make().modules())
    with torch.no_grad():
        words = TernaryBertTiny().eval()(torch.zeros(1, 4, dtype=torch.int64))
        images = TernaryMNISTNet().eval()(torch.rand(1, 1, 28, 28))
    return bool(words.isfinite().all()) and images.shape == (1, 10)


def three_steps() -> bool:
    """A back end of one's own needs `generate_code` alone; `compile` and `optimize` are given."""
    own = type("Own", (named("BackendBase"),), {"generate_code": lambda self, each: each.name})()
    assert checked().layers
    return own.optimize(own.compile(own.generate_code(layer()))) is not None


def stored(tmp: Path) -> bool:
    model = named("optimize_for_mobile")(perceptron(), input_shape=(1, 6), backend="onnx")
    torch.save(model, tmp / "model.pth")
    again = torch.load(tmp / "model.pth", weights_only=False)
    return torch.equal(again(X[:1]), model(X[:1]))


def whole(tmp: Path) -> bool:
    """A module as it is, without pickle of anything: its classes are named, and no others."""
    safe, model = torch.serialization, perceptron()
    torch.save(model, tmp / "model.pth")
    names = safe.get_unsafe_globals_in_checkpoint(tmp / "model.pth")
    assert {name.split(".")[0] for name in names} == {"torch", "triton_dsl"}
    with safe.safe_globals([TernaryLinear, nn.Sequential, nn.ReLU, nn.Linear]):
        again = torch.load(tmp / "model.pth")
    return torch.equal(again(X), model(X))


def targets(tmp: Path) -> bool:
    """One program for each of the targets of the overview."""
    weights = {"weights": np.eye(784, 10, dtype=np.int8), "bias": np.ones(10, np.float32)}
    path = source(tmp)
    made = [compile_model(path, name, weights=weights) for name in ("pytorch", "onnx", "tflite")]
    return len(made) == 3


def mixed() -> bool:
    """Training under autocast, as a configuration asks for it on any device."""
    found = named("resolve_amp_config")(torch.device("cuda"))
    assert found == {"enabled": True, "dtype": torch.float16, "use_grad_scaler": True}
    model, x = perceptron().train(), X
    with torch.autocast("cpu", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), Y)
    loss.backward()
    return all(p.grad is not None for p in model.parameters())


def sources_of_data() -> bool:
    """Arrays, data sets and loaders train alike."""
    data = TensorDataset(X, Y)
    given = ((X.numpy(), Y.numpy()), data, DataLoader(data, 8, shuffle=True))
    losses = [Trainer(small(), QUICK).fit(each)["loss"][0] for each in given]
    return all(np.isfinite(losses))


def generated() -> bool:
    """A float network becomes a spiking program without training."""
    program = from_torch(small().eval(), X)
    return "spike." in str(convert_to_snn(program, X.numpy(), 4))


def offline() -> bool:
    """Nothing opens a connection to compile and run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", None)
        program = from_torch(small().eval(), X)
        return run_module(program, [X.numpy()])[0].shape == (24, 3)


def in_chunks() -> bool:
    config = SpikingConfig(timesteps=9)
    network = SpikingMLP([6, 8, 3], config, readout="membrane")
    run = SpikingRun.of(config, decoding="mean", chunk="auto")
    return Trainer(network, QUICK, spiking=run).fit((X, Y))["loss"][0] > 0


PORT = Port("x", np.dtype(np.float32), (-1, 1), 0)


def served(*delays: float) -> tuple[Served, list[str]]:
    """A model whose forms are loaded one after the other, and which of them answered."""
    answered: list[str] = []

    def form(name: str) -> Callable[[], Loaded]:
        def run(inputs: Sequence[Array]) -> list[Array]:
            answered.append(name)
            return [inputs[0] + 1]

        return lambda: Loaded(run, Signature([PORT], [PORT]), name)

    return Served("net", [form(str(n)) for n in range(len(delays))]), answered


def progressive() -> bool:
    model, answered = served(0, 0)

    async def run() -> None:
        await model.load(Limits(workers=2), lambda samples: None)
        assert model.batcher is not None
        x = np.ones((1, 1), np.float32)
        found = await asyncio.gather(*(model.batcher.submit([x], 1) for _ in range(9)))
        assert all(result[0].item() == 2 for result in found)
        await model.close()

    asyncio.run(run())
    return set(answered) == {"1"} and len(answered) < 9


def deprecated() -> bool:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        info = backend().get_device_info()
        assert info["device_name"] == info.device_name
        named("get_optimizer")("cpu").optimize_legacy(perceptron(), "O0")
    return [each.category for each in told] == [DeprecationWarning] * 2


FEATURES: dict[str, Callable[[Path], Any]] = {
    "products leave out zero rows": lambda _: zero_rows(),
    "pre-built architectures": lambda _: architectures(),
    "back ends generate, compile, optimise": lambda _: three_steps(),
    "mixed precision": lambda _: mixed(),
    "models for phones are stored": stored,
    "whole modules are loaded by safe names": whole,
    "one program for every target": targets,
    "devices that are absent": lambda _: absent(),
    "the first device of a priority": lambda _: first_of_priority(),
    "contexts, devices, memory, synchronisation": lambda _: within(),
    "what levels mean": lambda _: levels(),
    "strategies by level": lambda _: (
        [each.name for each in named("get_optimizer")("cpu").get_available_strategies()] != []
    ),
    "results as dictionaries": lambda _: (
        set(named("get_optimizer")("cpu").optimize(perceptron(), "O0")[1].to_dict())
        == {"success", "model", "level", "optimizations_applied", "warnings", "metrics"}
    ),
    "device information as a dictionary": lambda _: (
        backend().get_device_info_dict() == backend().get_device_info().to_dict()
    ),
    "deprecated forms warn": lambda _: deprecated(),
    "names of levels in any case": lambda _: (
        {
            named("OptimizationLevel").from_string(name).value
            for name in ("NONE", "conservative", "Balanced", "aggressive")
        }
        == {"O0", "O1", "O2", "O3"}
    ),
    "training and inference share devices": lambda _: Trainer(small(), QUICK).evaluate((X, Y)),
    "data of any kind": lambda _: sources_of_data(),
    "networks of spikes are generated": lambda _: generated(),
    "inference without a connection": lambda _: offline(),
    "training in chunks of steps": lambda _: in_chunks(),
    "requests are balanced, models load in steps": lambda _: progressive(),
}


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_is_there(feature: str, tmp_path: Path) -> None:
    result = FEATURES[feature](tmp_path)
    assert result is not None and result is not False
