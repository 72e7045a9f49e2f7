"""Branches and sizes that hang on values of the module itself, while it is exported.

`torch.export` knows no value of a buffer, so `if self.flags[0] > 0` depends on values to it.
Not here: sizes that known values decide in an exported graph (`known_sizes`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch._subclasses import fake_tensor as fakes
from torch.export import _trace as tracing

MOST_VALUES = 64
"""Elements of a tensor whose values are told: flags, sizes and scales, and no weights."""


@contextmanager
def known_branches() -> Generator[None]:
    """Small tensors of a module have their values in a `with` block.

    Those of the layers of `torch.nn` have none: no layer asks, and each operator on a tensor
    with values takes longer. A PyTorch that names its parts otherwise tells no values.
    """
    name, limit = "_fakify_params_buffers", "CONSTANT_NUMEL_LIMIT"
    faked: Callable[..., dict[str, Any]] | None = getattr(tracing, name, None)
    most: int | None = getattr(fakes, limit, None)
    if faked is None or most is None:
        yield
        return

    def told(mode: fakes.FakeTensorMode, module: nn.Module) -> dict[str, Any]:
        found = faked(mode, module)
        named = cast("Iterable[tuple[str, nn.Module]]", module.named_modules(set(), "", False))
        for prefix, part in named:
            if type(part).__module__.startswith("torch.nn."):
                continue
            tensors = {**dict(part.named_parameters(recurse=False)),
                       **dict(part.named_buffers(recurse=False))}  # fmt: skip
            for own, value in tensors.items():
                fake = found[f"{prefix}.{own}" if prefix else own]
                if fake.constant is None and _is_plain(value):
                    fake.constant = value.detach().clone()  # what is written to it is the copy
                    mode.fake_tensor_converter.add_constant_storage_mapping(fake)
        return found

    setattr(tracing, name, told)
    setattr(fakes, limit, MOST_VALUES)
    try:
        yield
    finally:
        setattr(tracing, name, faked)
        setattr(fakes, limit, most)


def _is_plain(value: Tensor) -> bool:
    """Whether a tensor has few elements that are there."""
    return (
        type(value) in (Tensor, nn.Parameter, nn.Buffer)
        and value.layout == torch.strided
        and value.device.type == "cpu"
        and not value.is_quantized
        and value.numel() <= MOST_VALUES
    )
