"""The engine for what a program came from: `source_of`. Not here: the engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...ir.errors import OptionError
from .source import NoEngine, Source


def source_of(given: Any) -> Source:
    """An engine for what a program was imported from.

    Args:
        given: a path; the bytes of an ONNX or TFLite file; an `onnx.ModelProto`; an `nn.Module`
            whose `forward` takes tensors; or a `Source`.

    Raises:
        OptionError: none of these.
    """
    if isinstance(given, Source):
        return given
    if isinstance(given, bytes | bytearray):
        data = bytes(given)
        if data[4:8] == b"TFL3":
            from .tflite import TFLiteSource

            return TFLiteSource(data)
        from .onnx import OnnxSource

        return OnnxSource(data)
    if isinstance(given, str | Path):
        return _of_file(Path(given))
    if type(given).__name__ == "ModelProto":
        from .onnx import OnnxSource

        return OnnxSource(given)
    if hasattr(given, "state_dict"):
        from .torch import TorchSource

        return TorchSource(given)
    raise OptionError(
        "source expects a path, the bytes of a file, an onnx.ModelProto or an nn.Module, "
        f"got {type(given).__name__}"
    )


def _of_file(path: Path) -> Source:
    match path.suffix:
        case ".onnx":
            from .onnx import OnnxSource

            return OnnxSource(path)
        case ".tflite":
            from .tflite import TFLiteSource

            return TFLiteSource(path)
        case ".nir":
            from .nir import NIRSource

            return NIRSource(path)
        case ".tri":
            return NoEngine("a .tri program has no other engine than the interpreter")
        case _:
            return NoEngine("IR has no other engine than the interpreter")
