"""The ONNX frontend: a model file becomes IR of the dialects `tensor` and `ternary`.

`reading` opens files from strangers, `importer` walks the graph and inlines functions,
`onnx_builder` holds the values and computes what is constant, `sizes` are numbers and named free
sizes; the meaning of each operator stands in the `rules_*` files. `onnx_backend` is the interface
that the standard's own tests run against. Not here: the way back (`lowering.to_onnx`).
"""

from .importer import OnnxWarning, from_onnx

__all__ = ["OnnxWarning", "from_onnx"]
