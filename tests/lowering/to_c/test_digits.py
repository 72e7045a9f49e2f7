"""Trained networks, made ternary, on all test images of MNIST, and what they take on a board."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.stages import apply_passes
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_c.engine import LoadedC
from triton_dsl.passes.quantize_activations.integer_pipeline import integer_pipeline


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least", "flash", "ram"), [("mlp", 97.5, 46_000, 2_500), ("cnn", 98.9, 50_000, 17_000)]
)
def test_all_digits(
    shared_data: Any,
    on_board: Callable[..., Any],
    tmp_path: Path,
    name: str,
    least: float,
    flash: int,
    ram: int,
) -> None:
    """The bits of the interpreter on 10,000 images, and flash and RAM of the board, without the
    input and the scores, which for integers are 824 bytes more."""
    torch = pytest.importorskip("torch")
    from triton_dsl.lowering.from_torch import from_torch

    x, y = shared_data.digits("t10k"), shared_data.labels("t10k")
    module = from_torch(shared_data.network(name), (torch.zeros(2, 1, 28, 28),))
    samples = tmp_path / "samples.npy"
    np.save(samples, shared_data.digits("train")[:1000])
    ternarize = f'ternarize{{method=gptq data="{samples}"}}'
    apply_passes(module, f"{ternarize},fuse-linear,fold-constants,canonicalize")
    apply_passes(module, integer_pipeline(str(samples)))
    loaded = LoadedC(compile_to_target(module, "c"))
    right = 0
    for start in range(0, len(x), 500):
        part = x[start : start + 500]
        (want,) = run_module(module, [part])
        found = np.concatenate([loaded(image[None])[0] for image in part])
        np.testing.assert_array_equal(found, want)
        right += int((found.argmax(1) == y[start : start + 500]).sum())
    assert right >= least * 100

    artifact = compile_to_target(module, "c{ports=quantized}")
    integers = (np.rint(x[:4] * 255) - 128).astype(np.int8)
    run = on_board("cortex-m4", artifact, [integers])
    scores = LoadedC(artifact)
    np.testing.assert_array_equal(
        run.outputs[0], np.concatenate([scores(image[None])[0] for image in integers])
    )
    assert run.flash <= flash
    assert run.ram + run.stack <= ram
