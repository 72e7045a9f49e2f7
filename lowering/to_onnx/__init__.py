"""The ONNX target: IR to a model of standard ONNX operators, with packed ternary weights.

Not here: running the model in an engine (`runtime`).
"""
