"""The engine for what a program came from: `source_of`. Not here: the engines."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from ...ir.errors import OptionError
from ..frontends import BUILT_IN, front_end_of
from .source import NoEngine, Source


def source_of(given: Any) -> Source:
    """An engine for what a program was imported from.

    Args:
        given: a path; the bytes of an ONNX or TFLite file; an `onnx.ModelProto`; an `nn.Module`
            whose `forward` takes tensors; or a `Source`.

    Raises:
        OptionError: none of these.
        SourceError: a file that no front end reads.
    """
    if isinstance(given, Source):
        return given
    if isinstance(given, str | Path):
        given = Path(given)
        home = front_end_of(given).source
    elif isinstance(given, bytes | bytearray):
        given = bytes(given)
        home = BUILT_IN[".tflite" if given[4:8] == b"TFL3" else ".onnx"].source
    elif type(given).__name__ == "ModelProto":
        home = BUILT_IN[".onnx"].source
    elif hasattr(given, "state_dict"):
        home = f"{__package__}.torch:TorchSource"
    else:
        raise OptionError(
            "source expects a path, the bytes of a file, an onnx.ModelProto or an nn.Module, "
            f"got {type(given).__name__}"
        )
    if home is None:
        return NoEngine(f"'{given}' has no other engine than the interpreter")
    return (resolve_name(home) if isinstance(home, str) else home)(given)
