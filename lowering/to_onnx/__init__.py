"""The ONNX target: IR to a model of standard ONNX operators, with packed ternary weights.

`graph` holds nodes and values, `onnx_writer` what the rules write with; each family of ops has its
file of rules, `onnx_rules` the table. `model` makes the bytes, `engine` runs them once. `export`
and `optimize` are the Python interface. Not here: running models (`runtime.engines`).
"""

from .export import export_to_onnx
from .optimize import optimize_onnx_model

__all__ = ["export_to_onnx", "optimize_onnx_model"]
