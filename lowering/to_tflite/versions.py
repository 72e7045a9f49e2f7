"""The lowest version of each operator that has what a file needs, and the runtime that brought it.

After `op_version.cc` and `runtime_version.cc` of LiteRT. LiteRT refuses versions that it lacks, so
a file with the lowest ones runs on the most devices.
"""

from __future__ import annotations

from collections.abc import Iterable

from .graph import Element, Operator

_B, _I8, _I16 = Element.BOOL, Element.INT8, Element.INT16
_I32, _I64, _F32 = Element.INT32, Element.INT64, Element.FLOAT32
_F16, _I4, _I2 = Element.FLOAT16, Element.INT4, Element.INT2

_BY_TYPE: dict[str, dict[Element, int]] = {
    **{key: {_I8: 2, _I16: 4} for key in ("MAXIMUM", "MINIMUM", "SLICE", "GATHER")},
    **{key: {_I8: 2, _I16: 3} for key in ("CONCATENATION", "PAD", "PADV2", "SOFTMAX")},
    **{key: {_I8: 2, _I16: 3} for key in ("LOGISTIC", "TANH", "AVERAGE_POOL_2D", "MAX_POOL_2D")},
    **{key: {_I8: 2, _I16: 3} for key in ("MEAN", "REDUCE_MAX", "REDUCE_MIN", "RELU", "RELU6")},
    "ADD": {_I8: 2, _I64: 4, _I16: 3},
    "SUB": {_I8: 2, _I64: 4, _I16: 5},
    "MUL": {_I8: 2, _I64: 5, _I16: 4},
    "TRANSPOSE": {_I8: 2, _B: 3, _I16: 5},
    "STRIDED_SLICE": {_I8: 2, _B: 3},
    "SUM": {_I8: 2, _I16: 3},
    "QUANTIZE": {_I16: 2},
    "BROADCAST_TO": dict.fromkeys(Element, 2),
    "ARG_MAX": {_I8: 2, _B: 3},
    "ABS": {_I32: 5},
    "SIGN": {_I32: 2},
}
"""By the type of the data; 1 for others."""

_LARGE: dict[str, tuple[tuple[int, int], ...]] = {
    "TRANSPOSE": ((6, 6), (5, 4)),
    "SLICE": ((5, 5),),
    "STRIDED_SLICE": ((5, 4),),
    "PAD": ((5, 4),),
    "PADV2": ((5, 4),),
}
"""By the least number of axes, highest first."""


def version(operator: Operator) -> int:
    """The lowest version of the operator that has its types and ranks."""
    if operator.kind in _PRODUCTS:
        return _PRODUCTS[operator.kind](operator)
    operands = [tensor for tensor in operator.inputs if tensor is not None]
    elements = {tensor.element for tensor in (*operands, *operator.outputs)}
    rule = _BY_TYPE.get(operator.kind, {})
    by_type = max((rule.get(element, 1) for element in elements), default=1)
    rank = max((tensor.rank for tensor in operands), default=0)
    larger = (v for least, v in _LARGE.get(operator.kind, ()) if rank >= least)
    return max(by_type, next(larger, 1))


def _types(operator: Operator) -> tuple[Element, Element]:
    """Of the activations and of the weights."""
    first, weights = operator.inputs[:2]
    assert first is not None and weights is not None
    return first.element, weights.element


def _fully_connected(operator: Operator) -> int:
    activations, weights = _types(operator)
    if weights in (_I4, _I2):
        return 14 if weights is _I2 else 10
    if activations is _F32 and weights is _I8:
        return 12
    by_type = {_I8: 4, _I16: 7}.get(activations, 1)
    return max(by_type, 5) if operator.options.get("keepNumDims") else by_type


def _conv(operator: Operator) -> int:
    activations, weights = _types(operator)
    first, filters = operator.inputs[:2]
    assert first is not None and filters is not None
    if weights is _I4:
        return 7
    if first.shape[3] != filters.shape[3]:
        return 6
    return 5 if (activations, weights) == (_F32, _I8) else {_I8: 3, _I16: 4}.get(activations, 1)


def _depthwise(operator: Operator) -> int:
    activations, weights = _types(operator)
    if weights is _I4:
        return 7
    if (activations, weights) == (_F32, _I8):
        return 6
    dilated = (operator.options["dilationHFactor"], operator.options["dilationWFactor"]) != (1, 1)
    return {_I8: 3, _I16: 5}.get(activations, 2 if dilated else 1)


def _dequantize(operator: Operator) -> int:
    (first,) = operator.inputs
    assert first is not None
    if first.element in (_I2, _I4):
        return 6
    if first.quantization is not None and first.quantization.scale.size > 1:
        return 5
    return {_F16: 3, _I8: 2, _I16: 3}.get(first.element, 1)


_PRODUCTS = {
    "FULLY_CONNECTED": _fully_connected,
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "DEQUANTIZE": _dequantize,
}

_RUNTIMES: dict[str, dict[int, str]] = {
    "ABS": {5: "2.12.0"},
    "ADD": {3: "2.4.0", 4: "2.6.0"},
    "ARG_MAX": {3: "2.9.0"},
    "AVERAGE_POOL_2D": {3: "2.3.0"},
    "BATCH_MATMUL": {1: "2.3.0"},
    "BITWISE_XOR": {1: "2.13.0"},
    "BROADCAST_TO": {2: "2.5.0"},
    "CONCATENATION": {3: "2.3.0"},
    "CONV_2D": {4: "2.3.0", 5: "2.4.0", 6: "2.9.0", 7: "2.11.0"},
    "CUMSUM": {1: "2.4.0"},
    "DEPTHWISE_CONV_2D": {5: "2.3.0", 6: "2.3.0", 7: "2.11.0"},
    "DEQUANTIZE": {3: "1.15.0", 5: "2.7.0", 6: "2.18.0"},
    "FULLY_CONNECTED": {5: "2.0.0", 7: "2.3.0", 10: "2.11.0", 12: "2.17.0"},
    "GATHER": {3: "1.15.0", 4: "2.4.0"},
    "GELU": {1: "2.9.0"},
    "HARD_SWISH": {1: "1.15.0"},
    "LOGISTIC": {3: "2.3.0"},
    "MAXIMUM": {4: "2.3.0"},
    "MAX_POOL_2D": {3: "2.3.0"},
    "MEAN": {3: "2.4.0"},
    "MINIMUM": {4: "2.3.0"},
    "MUL": {4: "2.3.0", 5: "2.6.0"},
    "PAD": {3: "2.4.0", 4: "2.6.0"},
    "PADV2": {3: "2.4.0", 4: "2.6.0"},
    "QUANTIZE": {2: "1.15.0"},
    "REDUCE_MAX": {3: "2.5.0"},
    "REDUCE_MIN": {3: "2.5.0"},
    "RELU": {2: "2.1.0", 3: "2.5.0"},
    "RELU6": {3: "2.5.0"},
    "RIGHT_SHIFT": {1: "2.13.0"},
    "SELECT_V2": {1: "2.2.0"},
    "SIGN": {1: "2.11.0", 2: "2.12.0"},
    "SLICE": {4: "2.4.0", 5: "2.5.0"},
    "SOFTMAX": {3: "2.3.0"},
    "STRIDED_SLICE": {3: "2.1.0", 4: "2.2.0"},
    "SUB": {4: "2.4.0", 5: "2.4.0"},
    "TANH": {3: "2.3.0"},
    "TRANSPOSE": {3: "1.15.0", 4: "2.3.0", 5: "2.4.0", 6: "2.12.0"},
}
"""The first runtime with a version of an operator, where that is after `OLDEST`."""

OLDEST = "1.14.0"
"""What every file asks for."""

TWO_BITS = "2.1.6"
"""The first runtime with INT2: of LiteRT, whose numbers began anew behind TensorFlow Lite 2.20."""


def runtime(operators: Iterable[Operator]) -> str:
    """The first runtime that runs all the operators."""
    versions = [OLDEST]
    for operator in operators:
        if any(t is not None and t.element is _I2 for t in operator.inputs):
            return TWO_BITS
        versions.append(_RUNTIMES.get(operator.kind, {}).get(version(operator), OLDEST))
    return max(versions, key=lambda text: tuple(map(int, text.split("."))))
