"""The packages that engines and commands need, and the versions that are installed."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    ("xdsl", "the IR", None),
    ("numpy", "arrays", None),
    ("safetensors", "weights files", None),
    ("torch", "the PyTorch target, training", "torch"),
    ("onnx", "the ONNX target", "onnx"),
    ("onnxruntime", "running ONNX models", "onnx"),
    ("ai-edge-litert", "the TFLite target", "tflite"),
    ("llvmlite", "native code", "native"),
    ("nir", "graphs of spiking networks", "neuromorphic"),
    ("tonic", "event data", "events"),
    ("pygls", "the language server", "lsp"),
    ("scikit-learn", "the digits demo", "demo"),
)
"""Package, what it is for, and the extra that brings it (`None`: always needed)."""


def installed(name: str) -> str | None:
    """The version of a package, or `None` where it is missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def versions() -> str:
    """This package's version on one line, then Python's and those of the engines there are."""
    found = [f"{name} {at}" for name, _, _ in PACKAGES if (at := installed(name)) is not None]
    python = f"Python {platform.python_version()}"
    return f"triton-dsl {version('triton-dsl')}\n{', '.join([python, *found])}"
