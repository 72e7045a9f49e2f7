"""Which element types LiteRT's kernels compute each operator in, and the tables of options.

Measured with ai-edge-litert 2.3.0 on models of one operator. Types that a kernel takes for
quantised numbers alone (8 and 16 bits in arithmetic) are left out: there integers without a scale
mean nothing. An operator outside its types is computed in a wider one that holds every value,
between casts; float16 in float32.
"""

from __future__ import annotations

from .graph import Element

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
    **dict.fromkeys(("CEIL", "COS", "ELU", "PRELU", "SIN"), _FLOAT),
    **dict.fromkeys(("SQUARED_DIFFERENCE", "BATCH_MATMUL", "FULLY_CONNECTED"), _FLOAT),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"), _FLOAT),
    **dict.fromkeys(("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "CUMSUM"), _REDUCED),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), frozenset({_F32, _I8, _I32, _U8})),
    "TOPK_V2": frozenset({_F32, _I8, _I16, _I32, _I64, _U8}),
    "BITWISE_XOR": frozenset({_I8, _I16, _I32, _U8, _U32}),
    "RIGHT_SHIFT": frozenset({_U32}),
    **dict.fromkeys(("RESHAPE", "TRANSPOSE", "STRIDED_SLICE", "SLICE"), _MOVED | {_F64}),
    **dict.fromkeys(("EXPAND_DIMS", "SQUEEZE", "SELECT_V2", "SHAPE"), _MOVED | {_F64}),
    **dict.fromkeys(("CONCATENATION", "PAD", "GATHER", "BROADCAST_TO"), _MOVED),
    "PADV2": _MOVED - {_B},
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
    "CONV_3D": "Conv3DOptions",
    "COS": "CosOptions",
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
    "SVDF": "SVDFOptions",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions",
    "SUM": "ReducerOptions",
    "TRANSPOSE": "TransposeOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
    "UNPACK": "UnpackOptions",
}
"""The table of options that an operator has in the schema; the others have none."""
