"""Joins operators of a finished graph: biases and activations go into the operator before."""

from __future__ import annotations

from math import prod

import numpy as np

from .graph import Element, Graph, Operator, Tensor

_ACTIVATIONS = {"RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3}
"""By their number in the schema's `ActivationFunctionType`."""

PRODUCTS = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D")
"""Operators whose second input is a weight and whose third is a bias."""

_TAKE_ACTIVATION = (*PRODUCTS, "ADD", "SUB", "MUL", "DIV", "AVERAGE_POOL_2D", "MAX_POOL_2D")


def fuse(graph: Graph) -> None:
    """Move `ADD` of a constant vector into products, then activations into what precedes them."""
    for step in (_take_bias, _take_activation):
        producers, uses = graph.producers(), graph.uses()
        live: list[Operator] = []
        for op in graph.operators:
            source = next((t for t in op.inputs if t in producers and t.data is None), None)
            before = None if source is None or uses[source] > 1 else producers[source]
            if before is not None and len(op.outputs) == 1 and step(before, op):
                before.outputs = op.outputs
                producers[op.outputs[0]] = before
            else:
                live.append(op)
        graph.operators = live
    graph.drop_unused()


def _take_bias(before: Operator, op: Operator) -> bool:
    """Whether `before` is a product without bias, activation and type change that took `op`'s."""
    vector = next((t for t in op.inputs if t is not None and t.data is not None), None)
    product = op.kind == "ADD" and before.kind in PRODUCTS and not before.exact
    if not product or vector is None or before.options.get("fusedActivationFunction"):
        return False
    result = before.outputs[0]
    channels = result.shape[-1]
    if before.inputs[2] is not None and (
        before.inputs[2].data is None or before.inputs[2].data.any()
    ):
        return False
    assert vector.data is not None
    if prod(vector.shape) != channels or (vector.rank and vector.shape[-1] != channels):
        return False
    if op.outputs[0].shape != result.shape or vector.element is not Element.FLOAT32:
        return False
    before.inputs[2] = Tensor(vector.name, Element.FLOAT32, (channels,), np.ravel(vector.data))
    return True


def _take_activation(before: Operator, op: Operator) -> bool:
    """Whether `before` took the activation `op`."""
    number = _ACTIVATIONS.get(op.kind)
    floats = before.outputs[0].element is Element.FLOAT32
    fits = number is not None and before.kind in _TAKE_ACTIVATION and floats
    if not fits or before.options.get("fusedActivationFunction"):
        return False
    assert number is not None
    before.options["fusedActivationFunction"] = number
    return True
