"""The engine for what a program came from: `source_of`. Not here: the engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from ...ir.errors import OptionError
from ..frontends import BUILT_IN, front_end_of
from .source import NoEngine, Source

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch import nn


def source_of(
    model: Source | str | Path | bytes | ModelProto | nn.Module,
    *,
    dt: float | None = None,
    rounding: str | None = None,
) -> Source:
    """An engine for what a program was imported from.

    Args:
        given: a path; the bytes of an ONNX or TFLite file; an `onnx.ModelProto`; an `nn.Module`
            whose `forward` takes tensors; or a `Source`.
        dt: of a NIR graph: seconds in a step.
        rounding: of a TFLite model: with `xnnpack` those kernels run it.

    Raises:
        OptionError: none of these.
        SourceError: a file that no front end reads.
    """
    if isinstance(model, Source):
        return model
    if isinstance(model, str | Path):
        model = Path(model)
        home = front_end_of(model).source
    elif isinstance(model, bytes | bytearray):
        model = bytes(model)
        home = BUILT_IN[".tflite" if model[4:8] == b"TFL3" else ".onnx"].source
    elif type(model).__name__ == "ModelProto":
        home = BUILT_IN[".onnx"].source
    elif hasattr(model, "state_dict"):
        home = f"{__package__}.torch:TorchSource"
    else:
        raise OptionError(
            "source expects a path, the bytes of a file, an onnx.ModelProto or an nn.Module, "
            f"got {type(model).__name__}"
        )
    if home is None:
        return NoEngine(f"'{model}' has no other engine than the interpreter")
    source: Callable[..., Source] = resolve_name(home) if isinstance(home, str) else home
    wanted = {"dt": dt, "rounding": rounding}
    return source(model, **{name: value for name, value in wanted.items() if value is not None})
