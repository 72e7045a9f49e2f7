"""The TFLite target: IR to a `.tflite` flatbuffer for LiteRT, without TensorFlow.

`graph` holds operators and tensors, `tflite_writer` what the rules write with, `layout` the order
of axes in which values are stored. Each family of ops has its file of rules, `tflite_rules` the
table. The passes over a finished graph are `activations`, `precision` and `calibrated`;
`flatbuffer` makes the bytes, `engine` runs them once. `export` is the Python interface. Not here:
running models (`runtime.engines`).
"""

from .export import TFLiteQuantizationConfig, export_to_tflite

__all__ = ["TFLiteQuantizationConfig", "export_to_tflite"]
