"""The TFLite frontend: a `.tflite` file becomes IR of the dialects `tensor` and `ternary`.

`flatbuffer` reads bytes from strangers, `schema` says what stands where in them, `model` holds a
file as tensors and operators, `importer` walks these. The values, sizes and everything that is
computed while a model is read are those of `from_onnx.onnx_builder`; `layout` takes images
from channels last to channels first, `fixed_point` writes LiteRT's integer arithmetic. The meaning
of each operator stands in the `rules_*` files. Not here: the way back (`lowering.to_tflite`).
"""

from .importer import from_tflite

__all__ = ["from_tflite"]
