"""Engines that run what a caller gave: an ONNX or TFLite file, a PyTorch module, a NIR graph.

One engine a file, none of them ours. Nothing here reads IR but the names and types of arguments.
"""
