"""What `torch.export` needs to see fake quantisation as the operators that have rules.

Its modules ask tensors whether they observe, which no graph can, and PyTorch does not say what
shapes its operators give. Not here: what the operators mean (`rules_quantization`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from ...ir.errors import LoweringError

_MODULES = ("FakeQuantize", "FusedMovingAvgObsFakeQuantize")
"""The classes of PyTorch and of torchao."""

_OPERATORS = (
    "fake_quantize_per_channel_affine_cachemask",
    "fake_quantize_per_tensor_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
)
"""Operators that the functions of these names are for PyTorch."""


@contextmanager
def fake_quantization(module: nn.Module) -> Generator[None]:
    """Fake quantisation within `module` can be exported in a `with` block.

    Raises:
        LoweringError: a part of it still changes its scale by what it sees.
    """
    replaced: list[nn.Module] = []
    for name, part in cast("Iterable[tuple[str, nn.Module]]", module.named_modules()):
        is_fake = type(part).__name__ in _MODULES and hasattr(part, "fake_quant_enabled")
        if is_fake and "forward" not in part.__dict__:
            part.__dict__["forward"] = _forward(name, part)
            replaced.append(part)
    library = torch.library.Library("aten", "IMPL")
    try:
        for operator in _OPERATORS:
            has = torch._C._dispatch_has_kernel_for_dispatch_key  # pyright: ignore[reportPrivateUsage]
            if not has(f"aten::{operator}", "Meta"):
                library.impl(operator, _shapes, "Meta")
        yield
    finally:
        library._destroy()  # pyright: ignore[reportPrivateUsage]
        for part in replaced:
            del part.__dict__["forward"]


def _shapes(x: Tensor, *_rest: object) -> tuple[Tensor, Tensor]:
    """The result, and where it was not clamped."""
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)


def _forward(name: str, part: Any) -> Callable[[Tensor], Tensor]:
    """What a module does whose scale is settled."""
    if part.observer_enabled.any():
        raise LoweringError(
            f"'{name}' changes its scale by what it sees; settle it before with "
            "model.apply(torch.ao.quantization.disable_observer)"
        )

    is_enabled = bool(part.fake_quant_enabled.any())
    observer = part.activation_post_process

    def forward(X: Tensor) -> Tensor:
        if not is_enabled:
            return X
        steps, bounds = (part.scale, part.zero_point), (observer.quant_min, observer.quant_max)
        if part.is_per_channel:
            return torch.fake_quantize_per_channel_affine(X, *steps, part.ch_axis, *bounds)
        return torch.fake_quantize_per_tensor_affine(X, *steps, *bounds)

    return forward
