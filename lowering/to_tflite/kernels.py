"""Which element types LiteRT's kernels compute each operator in, and the operators' versions.

Measured with ai-edge-litert 2.3.0 on models of one operator. Types that a kernel takes for
quantised numbers alone (8 and 16 bits in arithmetic) are left out: there integers without a scale
mean nothing. An operator outside its types is computed in a wider one that holds every value,
between casts; float16 in float32.
"""

from __future__ import annotations

from .graph import Element, Operator

_B, _U8, _I8, _I16 = Element.BOOL, Element.UINT8, Element.INT8, Element.INT16
_I32, _I64, _F32 = Element.INT32, Element.INT64, Element.FLOAT32
_F16, _F64, _U32 = Element.FLOAT16, Element.FLOAT64, Element.UINT32

_FLOAT = frozenset({_F32})
_ARITHMETIC = frozenset({_F32, _I32, _I64})
_MOVED = frozenset({_F32, _F16, _I8, _I16, _I32, _I64, _U8, _B})
_REDUCED = frozenset({_F32, _I32, _I64})

KERNELS: dict[str, frozenset[Element]] = {
    **dict.fromkeys(("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "NEG", "FLOOR_MOD"), _ARITHMETIC),
    **dict.fromkeys(("DIV", "ABS", "SIGN"), frozenset({_F32, _I32})),
    **dict.fromkeys(("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"), _ARITHMETIC),
    **dict.fromkeys(("EQUAL", "NOT_EQUAL"), _ARITHMETIC | {_B}),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT"), frozenset({_B})),
    **dict.fromkeys(("POW", "EXP", "LOG", "SQRT", "RSQRT", "FLOOR", "ROUND"), _FLOAT),
    **dict.fromkeys(("RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "HARD_SWISH"), _FLOAT),
    **dict.fromkeys(("GELU", "LEAKY_RELU", "SOFTMAX", "LOG_SOFTMAX", "MEAN"), _FLOAT),
    **dict.fromkeys(("SQUARED_DIFFERENCE", "BATCH_MATMUL", "FULLY_CONNECTED"), _FLOAT),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"), _FLOAT),
    **dict.fromkeys(("SUM", "REDUCE_MAX", "REDUCE_MIN"), _REDUCED),
    "ARG_MAX": frozenset({_F32, _I8, _I32, _U8}),
    "BITWISE_XOR": frozenset({_I32, _U32}),
    "RIGHT_SHIFT": frozenset({_U32}),
    **dict.fromkeys(("RESHAPE", "TRANSPOSE", "STRIDED_SLICE", "SLICE"), _MOVED | {_F64}),
    **dict.fromkeys(("EXPAND_DIMS", "SQUEEZE", "SELECT_V2", "SHAPE"), _MOVED | {_F64}),
    **dict.fromkeys(("CONCATENATION", "PAD", "PADV2", "GATHER", "BROADCAST_TO"), _MOVED),
}

_WIDER: dict[Element, tuple[Element, ...]] = {
    _B: (_U8, _I32),
    _U8: (_I32, _F32),
    _I8: (_I32, _F32),
    _I16: (_I32, _F32),
    _I32: (_I64,),
    _F16: (_F32,),
}
"""Types that hold every value of a type, best first."""


def compute_type(kind: str, element: Element) -> Element | None:
    """The type to compute in: `element` itself, else the best wider one; `None` without any."""
    supported = KERNELS[kind]
    if element in supported:
        return element
    return next((wide for wide in _WIDER.get(element, ()) if wide in supported), None)


def version(operator: Operator) -> int:
    """The lowest version of the operator that has its types; LiteRT refuses versions it lacks."""
    given = [tensor for tensor in operator.inputs if tensor is not None]
    elements = {tensor.element for tensor in (*given, *operator.outputs)}
    rule = _VERSIONS.get(operator.kind)
    if rule is None:
        return _by_weights(operator)
    return max((rule.get(element, 1) for element in elements), default=1)


_VERSIONS: dict[str, dict[Element, int]] = {
    "ADD": {_I8: 2, _I64: 4, _I16: 5},
    "SUB": {_I8: 2, _I64: 4, _I16: 5},
    "MUL": {_I8: 2, _I64: 6, _I16: 5},
    "MAXIMUM": {_I8: 2, _I16: 4},
    "MINIMUM": {_I8: 2, _I16: 4},
    "CONCATENATION": {_I8: 2, _I16: 3, _B: 4},
    "RESHAPE": {},
    "TRANSPOSE": {_I8: 2, _B: 3, _I16: 4},
    "PAD": {_I8: 2, _I16: 3, _B: 4},
    "PADV2": {_I8: 2, _I16: 3, _B: 4},
    "SLICE": {_I8: 2, _I16: 4},
    "STRIDED_SLICE": {_I8: 2, _B: 3, _I16: 4},
    "GATHER": {_I8: 2, _B: 3, _I16: 4},
    "SOFTMAX": {_I8: 2, _I16: 3},
    "LOGISTIC": {_I8: 2, _I16: 3},
    "TANH": {_I8: 2, _I16: 3},
    "AVERAGE_POOL_2D": {_I8: 2, _I16: 3},
    "MAX_POOL_2D": {_I8: 2, _I16: 3},
    "MEAN": {_I8: 2, _I16: 3},
    "SUM": {_I8: 2, _I16: 3},
    "REDUCE_MAX": {_I8: 2, _I16: 3},
    "REDUCE_MIN": {_I8: 2, _I16: 3},
    "RELU": {_I8: 2, _I16: 3},
    "RELU6": {_I8: 2, _I16: 3},
    "QUANTIZE": {_I8: 1, _I16: 2},
    "BROADCAST_TO": dict.fromkeys(Element, 2),
    "BATCH_MATMUL": {_I8: 2, _I16: 3},
    "EQUAL": {_I8: 2, _B: 1},
    "ARG_MAX": {_I8: 2, _B: 3},
    "FLOOR_MOD": {_I64: 1, _I8: 2},
    "LEAKY_RELU": {_I8: 2},
    "HARD_SWISH": {},
    "GELU": {_I8: 2},
}


def _by_weights(operator: Operator) -> int:
    """The version of products and of DEQUANTIZE, by activations and weights."""
    first = operator.inputs[0]
    assert first is not None
    if operator.kind == "DEQUANTIZE":
        per_channel = first.quantization is not None and first.quantization.scale.size > 1
        small = first.element in (Element.INT2, Element.INT4)
        by_type = {_F16: 3, _I8: 2, _I16: 3}
        return 6 if small else 5 if per_channel else by_type.get(first.element, 1)
    if len(operator.inputs) < 2 or operator.inputs[1] is None:
        return 1
    weights = operator.inputs[1]
    small = {Element.INT4: 0, Element.INT2: 1}.get(weights.element)
    hybrid = first.element is _F32 and weights.element is not _F32
    match operator.kind:
        case "FULLY_CONNECTED":
            plain = 12 if hybrid else {_I8: 4, _I16: 7}.get(first.element, 1)
            if operator.options.get("keepNumDims"):
                plain = max(plain, 5)
            return plain if small is None else (10, 14)[small]
        case "CONV_2D":
            plain = 5 if hybrid else {_I8: 3, _I16: 4}.get(first.element, 1)
            return plain if small is None else 7
        case "DEPTHWISE_CONV_2D":
            dilated = (operator.options["dilationHFactor"], operator.options["dilationWFactor"])
            plain = 2 if dilated != (1, 1) else 1
            return 6 if hybrid else {_I8: 3, _I16: 5}.get(first.element, plain)
        case _:
            return 1


OPTIONS: dict[str, str] = {
    "ABS": "AbsOptions",
    "ADD": "AddOptions",
    "ARG_MAX": "ArgMaxOptions",
    "ARG_MIN": "ArgMinOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "BITWISE_XOR": "BitwiseXorOptions",
    "BROADCAST_TO": "BroadcastToOptions",
    "CAST": "CastOptions",
    "CONCATENATION": "ConcatenationOptions",
    "CONV_2D": "Conv2DOptions",
    "CUMSUM": "CumsumOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "DEPTH_TO_SPACE": "DepthToSpaceOptions",
    "DEQUANTIZE": "DequantizeOptions",
    "DIV": "DivOptions",
    "EQUAL": "EqualOptions",
    "EXP": "ExpOptions",
    "EXPAND_DIMS": "ExpandDimsOptions",
    "FLOOR_MOD": "FloorModOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "GATHER": "GatherOptions",
    "GELU": "GeluOptions",
    "GREATER": "GreaterOptions",
    "GREATER_EQUAL": "GreaterEqualOptions",
    "HARD_SWISH": "HardSwishOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "LEAKY_RELU": "LeakyReluOptions",
    "LESS": "LessOptions",
    "LESS_EQUAL": "LessEqualOptions",
    "LOCAL_RESPONSE_NORMALIZATION": "LocalResponseNormalizationOptions",
    "LOGICAL_AND": "LogicalAndOptions",
    "LOGICAL_NOT": "LogicalNotOptions",
    "LOGICAL_OR": "LogicalOrOptions",
    "LOG_SOFTMAX": "LogSoftmaxOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "MEAN": "ReducerOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "MIRROR_PAD": "MirrorPadOptions",
    "MUL": "MulOptions",
    "NEG": "NegOptions",
    "NOT_EQUAL": "NotEqualOptions",
    "ONE_HOT": "OneHotOptions",
    "PACK": "PackOptions",
    "PAD": "PadOptions",
    "PADV2": "PadV2Options",
    "POW": "PowOptions",
    "QUANTIZE": "QuantizeOptions",
    "RANGE": "RangeOptions",
    "REDUCE_ALL": "ReducerOptions",
    "REDUCE_ANY": "ReducerOptions",
    "REDUCE_MAX": "ReducerOptions",
    "REDUCE_MIN": "ReducerOptions",
    "REDUCE_PROD": "ReducerOptions",
    "RESHAPE": "ReshapeOptions",
    "RESIZE_BILINEAR": "ResizeBilinearOptions",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    "REVERSE_SEQUENCE": "ReverseSequenceOptions",
    "RIGHT_SHIFT": "RightShiftOptions",
    "SELECT_V2": "SelectV2Options",
    "SHAPE": "ShapeOptions",
    "SIGN": "SignOptions",
    "SLICE": "SliceOptions",
    "SOFTMAX": "SoftmaxOptions",
    "SPACE_TO_DEPTH": "SpaceToDepthOptions",
    "SPLIT": "SplitOptions",
    "SPLIT_V": "SplitVOptions",
    "SQUARED_DIFFERENCE": "SquaredDifferenceOptions",
    "SQUEEZE": "SqueezeOptions",
    "STRIDED_SLICE": "StridedSliceOptions",
    "SUB": "SubOptions",
    "SUM": "ReducerOptions",
    "TRANSPOSE": "TransposeOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
    "UNPACK": "UnpackOptions",
}
"""The table of options that an operator has in the schema; the others have none."""
