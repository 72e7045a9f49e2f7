"""Runs of neurons as native code against the autograd of every operation of every step."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from triton_dsl.ir.errors import BackendError
from triton_dsl.lowering.to_native.scan_kernels import scan_provider
from triton_dsl.runtime.native import torch_scan
from triton_dsl.runtime.native.abi.scan import FUNCTIONS, SCAN_CALL, ScanCode
from triton_dsl.runtime.native.provider import SCAN
from triton_dsl.runtime.spiking import neuron as layers
from triton_dsl.runtime.spiking import through_time
from triton_dsl.runtime.spiking.neurons import MODELS, LifNeuron
from triton_dsl.runtime.spiking.steps import run_steps
from triton_dsl.runtime.spiking.surrogate import SURROGATES, SurrogateGradient

SCALES = {"izhikevich": 40.0, "adaptive_exponential": 4e4}
"""Currents that make neurons fire which compute in mV and pA."""

DONE = {"adaptive_exponential": {False}, "sigma_delta": set[bool]()}
"""The directions that native code does of models with an exponential, or with truth values that
are kept for gradients; both of all others."""


class Calls:
    """The kernels that were asked for, and how often they were called."""

    def __init__(self) -> None:
        self.made: list[tuple[ScanCode, int, bool]] = []
        provide = scan_provider()

        def counted(scan: ScanCode, bits: int, *, forward: bool) -> Any:
            self.made.append((scan, bits, forward))
            return provide(scan, bits, forward=forward)

        self.provider: Any = counted


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    """Native code from the first run on."""
    pytest.importorskip("llvmlite")
    before, found = SCAN.get(), Calls()
    monkeypatch.setattr(torch_scan, "WORTH_COMPILING", 0)
    plans: Any = through_time
    plans._plan.cache_clear()
    SCAN.set(found.provider)
    yield found
    SCAN.set(before)
    plans._plan.cache_clear()


def gradients(layer: nn.Module, tensors: list[Tensor], weight: Tensor) -> list[Tensor]:
    """Outputs, states and the gradients of a weighted sum of them."""
    outputs, after = layer(tensors[0], tuple(tensors[1:]))
    total = (outputs * weight).sum()
    for number, value in enumerate(after):
        total = total + (value * weight[number % len(weight)]).sum()
    wanted = [*tensors, *layer.parameters()]
    parts: Any = torch.autograd.grad(total, wanted, allow_unused=True)
    pairs = zip(parts, wanted, strict=True)
    found = [torch.zeros_like(tensor) if part is None else part for part, tensor in pairs]
    return [outputs.detach(), *(value.detach() for value in after), *found]


def made(name: str, settings: dict[str, Any], trained: bool, shape: tuple[int, ...]) -> nn.Module:
    layer = MODELS[name](**settings)
    for parameter in MODELS[name].PARAMETERS if trained else ():
        if parameter != "v_reset" or settings.get("reset") == "to_value":
            value = torch.full(shape, float(getattr(layer, parameter)))
            delattr(layer, parameter)
            layer.register_parameter(parameter, nn.Parameter(value))
    return layer


def given(name: str, *shape: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = (torch.randn(*shape, generator=generator) * 0.6 + 0.5) * SCALES.get(name, 1.0)
    states = torch.zeros(len(MODELS[name].STATES), *shape[1:])
    return [t.to(dtype).requires_grad_() for t in (x, *states)]


def compared(
    layer: nn.Module, tensors: list[Tensor], monkeypatch: pytest.MonkeyPatch, digits: float = 1e-5
) -> None:
    """Outputs and states are the same bits, gradients as near as sums in another order are."""
    generator = torch.Generator().manual_seed(8)
    weight = torch.rand(tensors[0].shape, generator=generator).to(tensors[0].dtype)
    found = gradients(layer, tensors, weight)
    with monkeypatch.context() as by_steps:
        by_steps.setattr(layers, "run_through_time", run_steps)
        expected = gradients(layer, tensors, weight)
    assert expected[0].any()
    for mine, theirs in zip(found[: len(tensors)], expected, strict=False):
        assert torch.equal(mine, theirs)
    for mine, theirs in zip(found[len(tensors) :], expected[len(tensors) :], strict=True):
        scale = float(theirs.abs().max())
        torch.testing.assert_close(mine, theirs, rtol=digits, atol=digits * scale)


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("name", list(MODELS))
def test_models(name: str, trained: bool, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """19 neurons by 3: whole registers and single neurons."""
    layer = made(name, {}, trained, ())
    compared(layer, given(name, 7, 3, 19), monkeypatch, 1e-4)
    directions = {forward for _, _, forward in calls.made}
    assert directions == DONE.get(name, {False, True})


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize(
    "settings",
    [
        {"reset": "to_value", "v_reset": -0.1, "compare": "gt"},
        {"reset": "none", "detach_reset": True},
    ],
)
def test_slopes_and_resets(
    surrogate: str, settings: dict[str, Any], calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = made("lif", {**settings, "surrogate": SurrogateGradient(surrogate)}, True, ())
    tensors = given("lif", 5, 40, dtype=torch.float32)
    with torch.no_grad():
        # At the threshold, and what is no number.
        tensors[0][0, :4] = 1.0
        tensors[0][1, 4] = torch.nan
        tensors[0][1, 5] = torch.inf
    found = layer(tensors[0])[0]
    with monkeypatch.context() as by_steps:
        by_steps.setattr(layers, "run_through_time", run_steps)
        assert torch.equal(found, layer(tensors[0])[0])
    with torch.no_grad():
        tensors[0][1, 4:6] = 0.5
    compared(layer, tensors, monkeypatch)
    assert {forward for _, _, forward in calls.made} == {False, True}


def test_doubles_and_threads(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr(torch_scan, "WORTH_A_MEMBER", 1)
    layer = LifNeuron(0.9, surrogate="arctan")
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            tensors = given("lif", 6, 7, 331, dtype=torch.float64)
            compared(layer, tensors, monkeypatch, 1e-12)
    finally:
        torch.set_num_threads(before)
    assert {bits for _, bits, _ in calls.made} == {64}


def test_rows_need_not_be_contiguous(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(33, 4, 9).movedim(2, 0).detach().requires_grad_()
    state = torch.rand(4, 33).T.detach().requires_grad_()
    compared(LifNeuron(0.9), [x, state], monkeypatch)
    assert len(calls.made) == 2


@pytest.mark.parametrize("case", ["parameters of neurons", "bfloat16", "second derivative", "none"])
def test_what_native_code_does_not_do_is_done_as_before(
    case: str, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, tensors = LifNeuron(0.9, surrogate="arctan"), given("lif", 5, 3, 6)
    if case == "parameters of neurons":
        layer = made("lif", {}, True, (6,))
    elif case == "bfloat16":
        tensors = given("lif", 5, 3, 6, dtype=torch.bfloat16)
    elif case == "second derivative":
        x = tensors[0].double().detach().requires_grad_()
        assert torch.autograd.gradgradcheck(lambda x: layer(x)[1][0] * 1e-3, x, atol=1e-2)
        return
    else:

        def refuses(*_: Any, **__: Any) -> Any:
            raise BackendError("no compiler")

        provider: Any = refuses
        SCAN.set(provider)
    compared(layer, tensors, monkeypatch, 0.04 if case == "bfloat16" else 1e-5)
    assert not calls.made


def test_few_runs_are_not_compiled(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_scan, "WORTH_COMPILING", 3)
    layer, x = LifNeuron(0.9), torch.rand(4, 3, requires_grad=True)
    for run in range(6):
        assert len(calls.made) == (0 if run < 4 else 1)
        layer(x)


def test_functions_are_those_of_pytorch() -> None:
    """Zeros of both signs, infinities, what is no number, and subnormal numbers among them."""
    pytest.importorskip("llvmlite")
    values = [0.5, -0.0, 0.0, -2.25, 3.0, float("inf"), float("-inf"), float("nan"), 1e-40]
    a = torch.tensor([x for x in values for _ in values])
    b = torch.tensor(values * len(values))
    expected = {
        "add": a + b, "sub": a - b, "mul": a * b, "div": a / b, "minimum": torch.minimum(a, b),
        "neg": -a, "abs": a.abs(), "relu": a.relu(), "copy": a,
        "zero": 0 * torch.ones_like(a), "one": torch.ones_like(a),
        "eq": a == b, "ne": a != b, "lt": a < b, "gt": a > b, "isfinite": a.isfinite(),
    }  # fmt: skip
    for name, wanted in expected.items():
        numbers: tuple[tuple[str, tuple[int | float, ...]], ...] = ()
        if wanted.dtype is torch.bool:
            numbers = (("number", (2,)), ("where", (2, 3, 0.0)))
        call = (name, tuple(range(FUNCTIONS[name])))
        code = ScanCode(2, 0, 0, (call, *numbers), (), (2 + len(numbers),))
        library = scan_provider()(code, 32, forward=True)
        kernel: Any = library.function(SCAN_CALL, [ctypes.c_char_p])
        found = torch.empty_like(a)
        addresses = [tensor.data_ptr() for tensor in (a, b, found)]
        kernel(struct.pack("5q", *addresses, 1, len(a)))
        torch.testing.assert_close(found, wanted.float(), rtol=0, atol=0, equal_nan=True)
        if name in ("add", "sub", "mul", "div", "neg"):
            numeric = ~found.isnan()
            assert torch.equal(found.signbit()[numeric], wanted.signbit()[numeric])
