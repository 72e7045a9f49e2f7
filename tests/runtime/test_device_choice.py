"""Devices, settings, mixed precision and providers of the backend that a user asks for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from triton_dsl.ir.errors import BackendError
from triton_dsl.runtime.device_choice import (
    BACKENDS,
    chosen_device,
    chosen_providers,
    configure_torch_backend,
    resolve_amp_config,
    resolve_ort_providers,
    resolve_torch_device,
    use_device,
)
from triton_dsl.tools.cli import main

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
ROCM, COREML = "ROCMExecutionProvider", "CoreMLExecutionProvider"


@pytest.fixture
def same_settings() -> Iterator[None]:
    """PyTorch's settings are put back."""
    backends: Any = torch.backends
    found = (
        backends.cudnn.benchmark,
        backends.cudnn.allow_tf32,
        backends.cuda.matmul.allow_tf32,
        torch.get_float32_matmul_precision(),
    )
    yield
    torch.set_float32_matmul_precision(found[3])
    backends.cudnn.benchmark, backends.cudnn.allow_tf32 = found[:2]
    backends.cuda.matmul.allow_tf32 = found[2]


def test_the_processor_and_what_is_best() -> None:
    assert resolve_torch_device("cpu") == torch.device("cpu")
    if torch.cuda.is_available():
        expected = "cuda"
    else:
        expected = "mps" if torch.backends.mps.is_available() else "cpu"
    assert resolve_torch_device() == torch.device(expected)


@pytest.mark.parametrize("backend", ["cuda", "rocm"])
def test_a_build_without_the_backend(backend: str) -> None:
    version: Any = torch.version
    if getattr(version, "hip" if backend == "rocm" else "cuda"):
        pytest.skip(f"this PyTorch is built for {backend}")
    with pytest.raises(BackendError, match=backend):
        resolve_torch_device(backend)


def test_unknown_backends() -> None:
    message = "expected a backend of auto, cpu, cuda, rocm, got 'tpu'"
    with pytest.raises(BackendError, match=message):
        resolve_torch_device("tpu")
    with pytest.raises(BackendError, match=message):
        resolve_ort_providers("tpu", [CPU])
    with pytest.raises(BackendError, match=message):
        configure_torch_backend("tpu", torch.device("cpu"))
    assert issubclass(BackendError, RuntimeError) and BACKENDS[0] == "auto"


@pytest.mark.parametrize(
    ("device", "dtype", "scaled"),
    [("cpu", None, False), ("cuda", torch.float16, True), ("mps", torch.float16, False)],
)
def test_policy_of_mixed_precision(device: str, dtype: torch.dtype | None, scaled: bool) -> None:
    assert resolve_amp_config(torch.device(device)) == {
        "enabled": dtype is not None,
        "dtype": dtype,
        "use_grad_scaler": scaled,
    }


def test_the_processor_is_left_as_it_is(
    same_settings: None, capsys: pytest.CaptureFixture[str]
) -> None:
    before = torch.get_float32_matmul_precision()
    configure_torch_backend("auto", torch.device("cpu"))
    assert torch.get_float32_matmul_precision() == before
    written = capsys.readouterr()
    assert written.out == "" and torch.__version__ in written.err and "device: cpu" in written.err
    configure_torch_backend("auto", torch.device("cpu"), verbose=False)
    assert capsys.readouterr().err == ""


def test_gpus_are_set_up(same_settings: None) -> None:
    """The settings can be made without the device."""
    torch.set_float32_matmul_precision("highest")
    configure_torch_backend("auto", torch.device("mps"), verbose=False)
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision("highest")
    configure_torch_backend("cuda", torch.device("cuda"), verbose=False)
    backends: Any = torch.backends
    assert backends.cudnn.benchmark
    if torch.version.hip is None:
        assert backends.cudnn.allow_tf32 and backends.cuda.matmul.allow_tf32
        assert torch.get_float32_matmul_precision() == "high"


@pytest.mark.parametrize(
    ("backend", "available", "expected"),
    [
        ("auto", [CPU], [CPU]),
        ("auto", [CPU, CUDA, ROCM], [CUDA, CPU]),
        ("auto", [COREML, ROCM, CPU], [ROCM, CPU]),
        ("auto", ["Other", COREML, CPU], [COREML, CPU]),
        ("cpu", [CUDA, CPU], [CPU]),
        ("cuda", [CUDA, CPU], [CUDA, CPU]),
        ("rocm", [ROCM, CPU], [ROCM, CPU]),
    ],
)
def test_providers(backend: str, available: list[str], expected: list[str]) -> None:
    assert resolve_ort_providers(backend, available) == expected


def test_missing_providers() -> None:
    with pytest.raises(BackendError, match=f"has no {CUDA}; it has {CPU}"):
        resolve_ort_providers("cuda", [CPU])
    with pytest.raises(BackendError, match="it has no provider"):
        resolve_ort_providers("cpu", [])


def test_engines_run_on_what_was_chosen() -> None:
    available = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    assert chosen_providers(available) == ["CPUExecutionProvider"]
    assert chosen_device() == torch.device("cpu")
    with use_device("auto"):
        assert chosen_providers(available) == available
        with use_device("cpu", "CUDAExecutionProvider"):
            assert chosen_providers(available) == available
        assert chosen_device() == resolve_torch_device("auto")
    with (
        use_device("cpu", "TensorrtExecutionProvider"),
        pytest.raises(BackendError, match="has no"),
    ):
        chosen_providers(available)
    assert chosen_providers(available) == ["CPUExecutionProvider"]
    with pytest.raises(BackendError, match="expected a backend"), use_device("gaudi"):
        pass


@pytest.mark.parametrize("command", ["run", "verify"])
def test_commands_take_a_device(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "net.tri"
    forward = "fn forward(x: Tensor[N, 4]) -> Tensor[N, 4] { return relu(x) }"
    program.write_text(f"layer Net {{ {forward} }}")
    where = ["--engine", "onnx"] if command == "run" else ["-t", "onnx"]
    assert main([command, str(program), *where, "--provider", "CPUExecutionProvider"]) == 0
    assert main([command, str(program), *where, "--device", "auto"]) == 0
    capsys.readouterr()
    assert main([command, str(program), *where, "--device", "tpu"]) == 1
    assert "expected a backend of auto, cpu, cuda, rocm, got 'tpu'" in capsys.readouterr().err
    assert main([command, str(program), *where, "--provider", "NoSuch"]) == 1
    assert "ONNX Runtime has no NoSuch; it has" in capsys.readouterr().err
