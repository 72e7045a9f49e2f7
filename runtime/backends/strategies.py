"""What may be done to a model so that it runs faster: when each applies, and what it does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from ...ir.errors import first_line
from ...ir.extras import install
from ..devices import cuda_device
from ..packed import freeze, pack_model
from .options import OptimizationLevel
from .prepared import PreparedModel

O1, O2, O3 = OptimizationLevel.O1, OptimizationLevel.O2, OptimizationLevel.O3


class Inapplicable(Exception):
    """A strategy does nothing for this model here; the message says why."""


class Failed(Inapplicable):
    """A strategy applies, and the model it gives does not run."""


@dataclass(frozen=True)
class Strategy:
    """A way to make a model faster.

    Attributes:
        name: as configurations write it.
        description: one line.
        applicable_levels: at which it is tried.
        apply: gives the changed model; the one it takes may be changed in place, or refused by
            `Inapplicable`.
        speedup_estimate: how many times as fast it made a model on this machine; `None` where
            nothing was measured.
        trains: whether the changed model still learns.
        needs_sample: why it is applied only where a sample shows that it gains, if so.
        replaces: the name of a strategy that is undone by this one.
    """

    name: str
    description: str
    applicable_levels: tuple[OptimizationLevel, ...]
    apply: Callable[[PreparedModel], PreparedModel] = field(repr=False)
    speedup_estimate: float | None = None
    trains: bool = False
    needs_sample: str | None = None
    replaces: str | None = None


def _fold_batch_norms(model: PreparedModel) -> PreparedModel:
    from torch.fx.experimental.optimization import fuse

    if not _layers(model, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
        raise Inapplicable("no batch norm to fold")
    traced: Any = fuse
    try:
        return model.having(traced(model.module))
    except Exception as error:
        # Tracing runs the model's own code on proxies, which may fail in any way.
        raise Inapplicable(f"torch.fx cannot trace the model: {first_line(error)}") from error


def _pack_ternary_layers(model: PreparedModel) -> PreparedModel:
    if not any(hasattr(layer, "to_packed") for layer in model.modules()):
        raise Inapplicable("no ternary layer")
    return model.having(freeze(pack_model(model.module)))


def _put_channels_last(model: PreparedModel) -> PreparedModel:
    if not _layers(model, nn.Conv2d):
        raise Inapplicable("no convolution of images")
    module: Any = model.module
    return model.having(module.to(memory_format=torch.channels_last))


def _run_in_bfloat16(model: PreparedModel) -> PreparedModel:
    if model.device_type == "cpu":
        raise Inapplicable("processors compute in the model's own precision")
    if model.device_type == "cuda" and not torch.cuda.is_bf16_supported():
        raise Inapplicable("this GPU has no bfloat16")
    return model.having(dtype=torch.bfloat16)


def _compile(model: PreparedModel) -> PreparedModel:
    if model.device_type == "cpu" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        raise Inapplicable("torch.compile needs a C++ compiler: apt-get install g++")
    return model.having(runs="compiled")


def _run_native_code(model: PreparedModel) -> PreparedModel:
    if model.device_type != "cpu":
        raise Inapplicable("native code is for processors")
    return model.having(runs="native")


def _quantize_to_int8(model: PreparedModel) -> PreparedModel:
    # Without fused kernels the rounding of activations takes longer than the products.
    return _by_torchao(model, "Int8DynamicActivationInt8WeightConfig").having(runs="compiled")


def _quantize_to_fp8(model: PreparedModel) -> PreparedModel:
    supported = model.device_type == "cuda" and cuda_device(0).properties["fp8_supported"]
    if not supported:
        raise Inapplicable("no FP8 products on this device")
    return _by_torchao(model, "Float8DynamicActivationFloat8WeightConfig")


def _by_torchao(model: PreparedModel, config: str) -> PreparedModel:
    if not _layers(model, nn.Linear):
        raise Inapplicable("no linear layer in float")
    if find_spec("torchao") is None:
        raise Inapplicable(f"torchao is missing: {install('torchao')}")
    torchao: Any = import_module("torchao.quantization")
    try:
        torchao.quantize_(model.module, getattr(torchao, config)())
    except Exception as error:
        # torchao's refusals share no base class.
        raise Inapplicable(f"torchao refuses the model: {first_line(error)}") from error
    return model


def _layers(
    model: nn.Module, kind: type[nn.Module] | tuple[type[nn.Module], ...]
) -> list[nn.Module]:
    return [layer for layer in model.modules() if isinstance(layer, kind)]


FUSION = Strategy(
    "fuse_conv_bn", "batch norms folded into convolutions", (O1, O2, O3), _fold_batch_norms
)
TERNARY = Strategy(
    "ternary_kernels", "packed trits and native kernels", (O3,), _pack_ternary_layers
)
_LOSES = "loses precision, so it needs a sample to show what it gains"
INT8 = Strategy("int8", "int8 products by torchao", (O3,), _quantize_to_int8, needs_sample=_LOSES)
FP8 = Strategy("fp8", "FP8 products by torchao", (O3,), _quantize_to_fp8, needs_sample=_LOSES)
CHANNELS_LAST = Strategy(
    "channels_last", "images with their channels last", (O2, O3), _put_channels_last, trains=True
)
MIXED_PRECISION = Strategy(
    "mixed_precision",
    "products in bfloat16 by autocast",
    (O1, O2, O3),
    _run_in_bfloat16,
    trains=True,
)
COMPILE = Strategy("compile", "kernels of torch.compile", (O2, O3), _compile, trains=True)
NATIVE = Strategy(
    "native",
    "machine code of the target `native`",
    (O2, O3),
    _run_native_code,
    needs_sample="is compiled for the types of a sample",
    replaces="compile",
)

FOR_GPUS = (FUSION, TERNARY, INT8, FP8, CHANNELS_LAST, MIXED_PRECISION, COMPILE)
ALL = (*FOR_GPUS, NATIVE)
"""In the order in which they are applied."""
