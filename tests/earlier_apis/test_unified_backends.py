"""The guide to a unified interface of backends, example by example, as users type them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import nn

import triton_dsl.backends as unified
from triton_dsl.backends import (
    BackendFactory,
    BackendType,
    BaseBackend,
    BaseOptimizer,
    DeviceInfo,
    KernelPyTorchConfig,
    OptimizationLevel,
    OptimizationResult,
    PreparedModel,
    detect_best_backend,
    get_all_backend_info,
    get_backend,
    get_optimizer,
    list_available_backends,
)
from triton_dsl.ir.errors import BackendError

KINDS = [kind for kind in BackendType if kind is not BackendType.AUTO]
ABSENT = [kind for kind in KINDS if not BackendFactory.is_available(kind)]


@pytest.fixture(autouse=True)
def compile_nothing() -> Iterator[None]:
    """Kernels of `torch.compile` take long to make; one test below makes them."""
    with torch.compiler.set_stance("force_eager"):
        yield


def perceptron() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10))


def test_a_backend_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    model, x = perceptron(), torch.randn(8, 256)
    expected = model(x)
    backend = get_backend()
    model = backend.prepare_model(model, OptimizationLevel.O2)
    model = backend.optimize_for_inference(model)
    info = backend.get_device_info()
    print(f"Device: {info.device_name} ({info.device_type})")
    assert detect_best_backend() == backend.BACKEND_NAME
    torch.testing.assert_close(model(backend.to_device(x)).cpu(), expected, atol=1e-2, rtol=1e-2)
    assert f"({info.device_type})" in capsys.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
def test_a_backend_is_named(kind: BackendType) -> None:
    backend = BackendFactory.create(kind)
    named = BackendFactory.create(kind.value.upper())
    assert type(backend) is type(named) is getattr(unified, type(backend).__name__)
    assert isinstance(backend, BaseBackend) and kind.value == backend.BACKEND_NAME
    assert type(backend).__name__.lower() == f"{kind.value}backend"
    assert backend.is_available == BackendFactory.is_available(kind)
    assert (backend.device_count > 0) == backend.is_available


@pytest.mark.parametrize("kind", ABSENT)
def test_an_absent_device_is_refused_by_name_when_it_is_used(kind: BackendType) -> None:
    backend = get_backend(kind)
    info = backend.get_device_info()
    assert not info.is_available and info.properties["reason"]
    for use in (
        lambda: backend.device,
        lambda: backend.prepare_model(perceptron()),
        lambda: backend.optimize_for_inference(perceptron()),
        lambda: backend.optimize_for_training(perceptron()),
        lambda: backend.to_device(torch.zeros(1)),
        lambda: backend.set_device(0),
        backend.synchronize,
        backend.empty_cache,
        backend.__enter__,
        lambda: get_optimizer(kind).optimize(perceptron()),
        lambda: get_optimizer(kind).get_available_strategies(perceptron(), torch.zeros(1, 256)),
    ):
        with pytest.raises(BackendError, match=f"the backend {kind.value} has no device: .{{10}}"):
            use()


def test_backends_are_told_apart() -> None:
    available = list_available_backends()
    assert available[0] == "cpu" and detect_best_backend() in available
    report = BackendFactory.get_all_backend_info()
    assert report == get_all_backend_info()
    assert list(report) == ["nvidia", "amd", "tpu", "intel", "cpu"]
    for name, facts in report.items():
        assert facts["available"] == (name in available) == (facts["reason"] is None)
        assert len(facts["devices"]) == facts["device_count"]
    assert report["cpu"]["class"] == "CPUBackend"
    with pytest.raises(BackendError, match=r"expected a backend of auto, nvidia, .*, got 'gaudi'"):
        BackendFactory.create("gaudi")


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("O2", "O2"),
        ("o0", "O0"),
        ("balanced", "O2"),
        ("BALANCED", "O2"),
        ("conservative", "O1"),
        ("aggressive", "O3"),
        ("none", "O0"),
    ],
)
def test_levels_have_names(name: str, level: str) -> None:
    assert OptimizationLevel.from_string(name) is OptimizationLevel[level]
    prepared = get_backend("cpu").prepare_model(perceptron(), name)
    assert isinstance(prepared, PreparedModel) and prepared.level.value == level


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(BackendError, match=r"expected a level of O0, .*aggressive, got 'fast'"):
        OptimizationLevel.from_string("fast")


def test_device_information_is_the_same_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    backend = get_backend()
    info: DeviceInfo = backend.get_device_info()
    print(f"Memory: {info.total_memory_gb:.1f} GB, {info.total_memory_mb:.0f} MB")
    names = [each.name for each in fields(DeviceInfo)]
    assert list(info.to_dict()) == names and names[:3] == ["backend", "device_type", "device_id"]
    assert info.is_available and info.total_memory_bytes > 2**28
    assert backend.get_device_info_dict() == info.to_dict()
    if info.backend == "nvidia":
        assert isinstance(info.properties.get("fp8_supported", False), bool)
    with pytest.warns(DeprecationWarning, match="take DeviceInfo.device_name"):
        assert info["device_name"] == info.device_name
    with pytest.raises(BackendError, match=r"has \d+ devices, got the index 99"):
        backend.get_device_info(99)


def test_optimizers_say_what_they_did() -> None:
    model, x = perceptron(), torch.randn(8, 256)
    optimizer = get_optimizer("cpu")
    assert isinstance(optimizer, BaseOptimizer)
    optimized, result = optimizer.optimize(model, level=OptimizationLevel.O2, sample_input=x)
    assert isinstance(result, OptimizationResult) and result.success
    torch.testing.assert_close(optimized(x), model(x))
    assert any(note.startswith("fuse_conv_bn: no batch norm") for note in result.warnings)
    assert result.to_dict()["level"] == "O2" and result.to_dict()["model"] == "PreparedModel"
    with pytest.warns(DeprecationWarning, match="use optimize"):
        assert isinstance(optimizer.optimize_legacy(model), PreparedModel)


def test_strategies_are_measured_or_not_told() -> None:
    optimizer = get_optimizer("cpu")
    for strategy in optimizer.get_available_strategies():
        assert strategy.name and strategy.description and strategy.applicable_levels
        assert strategy.speedup_estimate is None
    from triton_dsl.runtime import TernaryLinear

    model = nn.Sequential(TernaryLinear(64, 64), nn.ReLU(), nn.Conv1d(4, 4, 1))
    measured = optimizer.get_available_strategies(model, torch.randn(4, 64))
    assert "ternary_kernels" in [strategy.name for strategy in measured]
    assert all(each.speedup_estimate and each.speedup_estimate > 0 for each in measured)


def test_a_context_waits_and_cleans() -> None:
    with get_backend() as backend:
        model = backend.prepare_model(perceptron())
        model = backend.optimize_for_inference(model)
        output = model(backend.to_device(torch.randn(2, 256)))
    assert output.shape == (2, 10)


def test_a_configuration_reaches_the_backend() -> None:
    config = KernelPyTorchConfig(optimization_level="O1", without=("compile",))
    from triton_dsl.backends import CPUBackend

    for backend in (CPUBackend(config), BackendFactory.create("cpu", config=config)):
        prepared = backend.prepare_model(perceptron())
        assert isinstance(prepared, PreparedModel) and prepared.level is OptimizationLevel.O1
    prepared = CPUBackend(config).prepare_model(perceptron(), "aggressive")
    assert isinstance(prepared, PreparedModel) and prepared.runs == "plain"


@pytest.mark.parametrize("level", list(OptimizationLevel))
def test_a_training_loop_runs_anywhere(level: OptimizationLevel) -> None:
    my_model = perceptron()
    my_optimizer = torch.optim.Adam(my_model.parameters(), lr=1e-2)
    rng = torch.Generator().manual_seed(0)
    inputs = torch.randn(64, 256, generator=rng)
    dataloader = [{"input": inputs, "target": (inputs[:, 0] > 0).long()}]
    criterion, losses = nn.CrossEntropyLoss(), list[float]()
    backend = get_backend()
    prepared = backend.prepare_model(my_model, level)
    model, optimizer = backend.optimize_for_training(prepared, my_optimizer)
    for _ in range(20):
        for batch in dataloader:
            moved = backend.to_device(batch)
            optimizer.zero_grad()
            loss = criterion(model(moved["input"]), moved["target"])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        backend.synchronize()
    assert losses[-1] < 0.2 * losses[0]
    # The parameters are those of the model that was given, and so are its keys.
    assert model.state_dict().keys() == perceptron().state_dict().keys()
    assert model.state_dict()["0.weight"] is not None and next(model.parameters()) is next(
        my_model.parameters()
    )


def test_backends_are_compared() -> None:
    seen: list[str] = []
    for backend_type in KINDS:
        backend = BackendFactory.create(backend_type)
        if not backend.is_available:
            continue
        model = backend.prepare_model(perceptron(), OptimizationLevel.O2)
        model = backend.optimize_for_inference(model)
        x = backend.to_device(torch.randn(8, 256))
        start = time.perf_counter()
        for _ in range(10):
            _ = model(x)
        backend.synchronize()
        assert time.perf_counter() > start
        seen.append(backend.BACKEND_NAME)
    assert "cpu" in seen


def test_a_pipeline_for_inference() -> None:
    def create_inference_pipeline(model: nn.Module, sample_input: Any = None) -> Any:
        backend = get_backend()
        model = backend.prepare_model(model, OptimizationLevel.O3)
        model = backend.optimize_for_inference(model, sample_input=sample_input)

        def predict(inputs: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                outputs = model(backend.to_device(inputs))
                backend.synchronize()
                return outputs

        return predict, backend.get_device_info()

    my_model, x = perceptron(), torch.randn(4, 256)
    predict, device_info = create_inference_pipeline(my_model, x)
    assert device_info.is_available
    torch.testing.assert_close(predict(x).cpu(), my_model.to("cpu")(x), atol=0.05, rtol=0.05)


def test_an_own_backend_needs_three_methods() -> None:
    class Own(BaseBackend):
        BACKEND_NAME = "own"

        def _setup_environment(self) -> None:
            self.is_set_up = True

        def _check_availability(self) -> bool:
            return True

        def _get_device_info(self, device_id: int = 0) -> DeviceInfo:
            return DeviceInfo("own", "cpu", device_id, "own", None, 0, None, True)

    backend = Own()
    assert backend.is_set_up and backend.get_device_info().backend == "own"
    assert backend.prepare_model(perceptron())(torch.zeros(1, 256)).shape == (1, 10)
