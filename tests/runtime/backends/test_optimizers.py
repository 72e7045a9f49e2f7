"""What strategies do to models: results stay, models given stay, gains are kept and losses not."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import nn

from triton_dsl.backends import CPUBackend, CPUOptimizer, KernelPyTorchConfig, PreparedModel
from triton_dsl.ir.errors import BackendError
from triton_dsl.lowering.to_native.torch_module import native_module
from triton_dsl.runtime import PackedTernaryLinear, TernaryLinear
from triton_dsl.runtime.backends.options import OptimizationLevel
from triton_dsl.runtime.backends.strategies import (
    ALL,
    CHANNELS_LAST,
    COMPILE,
    FUSION,
    NATIVE,
    TERNARY,
)

CPU = torch.device("cpu")


@pytest.fixture
def uncompiled() -> Iterator[None]:
    with torch.compiler.set_stance("force_eager"):
        yield


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.norm(self.conv(x)))


def residual() -> nn.Module:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), Block(8), Block(8), nn.Flatten())
    model(torch.randn(16, 3, 9, 9))
    return model.eval()


def state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {key: value.clone() for key, value in model.state_dict().items()}


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("level", list(OptimizationLevel))
@pytest.mark.parametrize("with_sample", [False, True])
def test_results_stay_and_the_model_given_too(level: OptimizationLevel, with_sample: bool) -> None:
    model, x = residual(), torch.randn(4, 3, 9, 9)
    before, expected = state(model), model(x)
    sample = x if with_sample else None
    optimized, result = CPUOptimizer(CPU).optimize(model, level, sample)
    torch.testing.assert_close(optimized(x), expected, rtol=0.05, atol=0.05)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert set(result.optimizations_applied) <= {each.name for each in ALL}
    assert not optimized.training and not any(p.requires_grad for p in optimized.parameters())


def test_batch_norms_are_folded() -> None:
    model, x = residual(), torch.randn(4, 3, 9, 9)
    folded, result = CPUOptimizer(CPU).optimize(model, "O1")
    assert result.optimizations_applied == ["fuse_conv_bn"]
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in folded.modules())
    torch.testing.assert_close(folded(x), model(x), rtol=1e-4, atol=1e-5)


def test_what_cannot_be_traced_stays() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x) if x.sum() > 0 else x

    _, result = CPUOptimizer(CPU).optimize(Branching(), "O1")
    assert result.success and not result.optimizations_applied
    assert "torch.fx cannot trace" in result.warnings[0]


def test_ternary_layers_are_packed() -> None:
    torch.manual_seed(2)
    model = nn.Sequential(TernaryLinear(64, 32), nn.ReLU(), TernaryLinear(32, 5)).eval()
    x = torch.randn(3, 64)
    packed, result = CPUOptimizer(CPU, without=("compile",)).optimize(model, "O3")
    assert result.optimizations_applied == [TERNARY.name]
    assert sum(isinstance(layer, PackedTernaryLinear) for layer in packed.modules()) == 2
    torch.testing.assert_close(packed(x), model(x), rtol=1e-4, atol=1e-4)


def test_what_is_slower_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are given here, so that the choice is seen alone."""
    from triton_dsl.runtime.backends import optimizers

    def times(models: Any, *_: object) -> list[float]:
        slow = [model.module[0].weight.is_contiguous() for model in models]
        return [1.0 if plain else 2.0 for plain in slow]

    monkeypatch.setattr(optimizers, "seconds", times)
    model = nn.Sequential(nn.Conv2d(3, 8, 3))
    _, result = CPUOptimizer(CPU, without=("compile",)).optimize(
        model, "O2", torch.randn(1, 3, 5, 5)
    )
    assert not result.optimizations_applied
    assert "channels_last: 0.50 times as fast on the sample" in result.warnings


def test_low_precision_needs_a_sample() -> None:
    _, result = CPUOptimizer(CPU, without=("compile",)).optimize(nn.Linear(4, 4), "O3")
    assert any(note.startswith("int8: loses precision") for note in result.warnings)


@pytest.mark.usefixtures("uncompiled")
def test_blocks_recompute_their_activations_with_the_same_gradients() -> None:
    model = residual().train()
    reference = copy.deepcopy(model)
    backend = CPUBackend(KernelPyTorchConfig(without=("compile",)))
    prepared = backend.optimize_for_training(backend.prepare_model(model, "O2"))
    assert isinstance(prepared, PreparedModel)
    wrapped = [layer for layer in prepared.modules() if type(layer).__name__ == "CheckpointWrapper"]
    assert len(wrapped) == 2
    assert backend.optimize_for_training(prepared).state_dict().keys() == state(reference).keys()
    x = torch.randn(4, 3, 9, 9)
    for each in (prepared, reference):
        each(x).square().mean().backward()
    for (name, ours), theirs in zip(
        prepared.named_parameters(), reference.parameters(), strict=True
    ):
        assert ours.grad is not None and theirs.grad is not None, name
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)
    # A batch norm that saw each batch twice would remember something else.
    for ours, theirs in zip(prepared.buffers(), reference.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_model_that_cannot_run_or_move_is_told() -> None:
    backend, x = CPUBackend(KernelPyTorchConfig(without=("compile",))), torch.zeros(4, 32)
    samples: list[Any] = [x, 3, (), {"x": x}]
    for sample in samples:
        model, result = backend.optimizer.optimize(nn.Linear(3, 3), "O3", sample)
        assert not result.success and not result.optimizations_applied
        (note,) = result.warnings
        assert note.startswith("the model fails on the sample: ") and "\n" not in note
        assert model(torch.zeros(1, 3)).shape == (1, 3)
    meta = nn.Linear(3, 3, device="meta")
    for use in (backend.prepare_model, backend.optimize_for_inference):
        with pytest.raises(BackendError, match=r"on the device meta .* to_empty\(device='cpu'\)"):
            use(meta)
        with pytest.raises(BackendError, match=r"expected a torch\.nn\.Module, got str"):
            use("model")  # pyright: ignore[reportArgumentType]
    for level in (2, None, b"O2"):
        with pytest.raises(BackendError, match="expected a level of O0"):
            OptimizationLevel.from_string(level)  # pyright: ignore[reportArgumentType]


def test_samples_and_results_may_be_nested() -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, batch: Any, mask: Any = None) -> Any:
            y = self.layer(batch["x"] if isinstance(batch, dict) else batch)
            return {"y": y, "more": (y * 2, mask)}

    model, x = Nested().eval(), torch.randn(4, 8)
    optimizer = CPUOptimizer(CPU, without=("compile",))
    _, result = optimizer.optimize(model, "O2", {"x": x})
    assert result.success and "native: native code takes tensors alone" in result.warnings
    native = native_module(model, (x,))
    found, wanted = native(x), model(x)
    torch.testing.assert_close(found["y"], wanted["y"])
    torch.testing.assert_close(found["more"][0], wanted["more"][0])
    assert found["more"][1] is None and list(found) == ["y", "more"]
    half = CPUBackend().optimize_for_inference(nn.Linear(8, 4), x, torch.bfloat16)
    assert half(x.bfloat16()).dtype == torch.bfloat16


def test_a_prepared_model_is_copied_saved_and_asked_like_its_own() -> None:
    module: Any = residual()
    module.classes = 10
    model = PreparedModel(module, OptimizationLevel.O2, "cpu").having(runs="compiled")
    again = copy.deepcopy(model)
    again.load_state_dict(model.state_dict())
    assert again.runs == "compiled" and again.module is not model.module
    assert again.classes == 10
    assert model.state_dict().keys() == residual().state_dict().keys()
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = model.absent


@pytest.mark.slow
def test_a_model_is_compiled() -> None:
    model, x = residual(), torch.randn(4, 3, 9, 9)
    compiled = COMPILE.apply(PreparedModel(model, OptimizationLevel.O2, "cpu"))
    with torch.inference_mode():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert compiled.runs == "compiled"


def test_what_pytorch_cannot_compile_runs_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise import_module("torch._dynamo.exc").Unsupported("no such thing")

    monkeypatch.setattr(torch, "compile", lambda module: refuse)
    model, x = residual(), torch.randn(1, 3, 9, 9)
    prepared = PreparedModel(model, OptimizationLevel.O2, "cpu").having(runs="compiled")
    with pytest.warns(UserWarning, match="runs as it is, not compiled: no such thing"):
        torch.testing.assert_close(prepared(x), model(x))
    assert prepared.runs == "plain"
    torch.testing.assert_close(prepared(x), model(x))


def test_strategies_say_when_they_apply() -> None:
    assert {each.name for each in ALL} == {
        "fuse_conv_bn", "ternary_kernels", "int8", "fp8", "channels_last", "mixed_precision",
        "compile", "native",
    }  # fmt: skip
    assert CHANNELS_LAST.trains and COMPILE.trains and not FUSION.trains and not TERNARY.trains


def test_a_model_that_does_not_run_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(model: PreparedModel) -> PreparedModel:
        return model.having(nn.Linear(3, 3))

    strategy = replace(FUSION, apply=broken)
    monkeypatch.setattr(CPUOptimizer, "STRATEGIES", (strategy,))
    model, x = nn.Linear(4, 2), torch.randn(1, 4)
    optimized, result = CPUOptimizer(CPU).optimize(model, "O1", x)
    assert not result.success and "fuse_conv_bn: fails on the sample" in result.warnings[0]
    torch.testing.assert_close(optimized(x), model(x))


def native(model: nn.Module) -> PreparedModel:
    prepared = PreparedModel(model, OptimizationLevel.O2, "cpu").eval()
    return NATIVE.apply(prepared)


def test_a_model_becomes_machine_code() -> None:
    torch.manual_seed(4)
    model = nn.Sequential(TernaryLinear(16, 12), nn.ReLU(), TernaryLinear(12, 5))
    prepared, x = native(model), torch.randn(6, 16)
    ran: list[int] = []
    model.register_forward_hook(lambda *_: ran.append(1))
    with torch.no_grad():
        expected = model(x)
        prepared(x)
        ran.clear()
        torch.testing.assert_close(prepared(x), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(prepared(x[:2]), expected[:2], rtol=1e-4, atol=1e-5)
        assert not ran
        # What the code is not for runs as it is.
        torch.testing.assert_close(prepared(x[0]), expected[0], rtol=1e-4, atol=1e-5)
        assert len(ran) == 1
    prepared(x).sum().backward()
    assert len(ran) == 2 and model[0].get_parameter("weight").grad is not None


def test_machine_code_follows_weights_and_training() -> None:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(1.0))
    prepared, other, x = native(model), nn.Linear(4, 3), torch.randn(2, 4)
    with torch.no_grad():
        prepared(x)
        prepared.load_state_dict(nn.Sequential(other).state_dict())
        torch.testing.assert_close(prepared(x), other(x))
        assert not prepared.train()(x).any()
    prepared.eval()(x).sum().backward()
    torch.optim.SGD(prepared.parameters(), 0.5).step()
    with torch.no_grad():
        assert not torch.allclose(prepared(x), other(x))
        torch.testing.assert_close(prepared(x), model(x))


def test_results_keep_their_form_in_machine_code() -> None:
    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            return {"sum": x.sum(1), "parts": (x + 1, x - 1)}

    with torch.no_grad():
        found, x = native(Both())(torch.ones(2, 3)), torch.ones(2, 3)
    torch.testing.assert_close(found, {"sum": x.sum(1), "parts": (x + 1, x - 1)})


def test_the_quicker_of_two_compilers_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are given here, so that the choice is seen alone."""
    from triton_dsl.runtime.backends import optimizers

    order = {"plain": 3.0, "compiled": 2.0, "native": 1.0}
    monkeypatch.setattr(
        optimizers, "seconds", lambda models, *_: [order[model.runs] for model in models]
    )
    model, x = nn.Sequential(nn.Linear(4, 3)), torch.ones(2, 4)
    found, result = CPUOptimizer(CPU).optimize(model, "O2", x)
    assert isinstance(found, PreparedModel) and found.runs == "native"
    assert result.optimizations_applied == ["native"]


def test_what_is_no_program_stays_as_it_is() -> None:
    class Own(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if float(x.sum()) > 0 else -x

    x = torch.ones(2, 3)
    _, result = CPUOptimizer(CPU, without=("compile",)).optimize(Own(), "O2", x)
    assert result.success and not result.optimizations_applied
    assert any(note.startswith("native: ") for note in result.warnings)


def test_what_is_no_model_or_type_is_refused() -> None:
    given: Any = None
    with pytest.raises(BackendError, match=r"expected a torch\.nn\.Module, got NoneType"):
        CPUOptimizer(CPU).optimize(given)
    with pytest.raises(BackendError, match="on the device meta and has no weights"):
        CPUOptimizer(CPU).optimize(nn.Linear(2, 2, device="meta"))
    given = "fp16"
    with pytest.raises(BackendError, match=r"expected a torch\.dtype .* got 'fp16'"):
        CPUBackend().optimize_for_training(nn.Linear(2, 2), dtype=given)
