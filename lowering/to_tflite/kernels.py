"""Which element types LiteRT's kernels compute each operator in, and the tables of options.

Measured with ai-edge-litert 2.3.0 on models of one operator. Types that a kernel takes for
quantised numbers alone (8 and 16 bits in arithmetic) are left out: there integers without a scale
mean nothing. An operator outside its types is computed in a wider one that holds every value,
between casts; float16 in float32.
"""

from __future__ import annotations

from ..operator_names import camel
from ..stored_elements import nearest_type
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
    return nearest_type(element, KERNELS[kind], _WIDER)


_OF_ITS_NAME = """
ABS ADD ARG_MAX ARG_MIN BITWISE_XOR BROADCAST_TO CAST CONCATENATION CONV_2D CONV_3D COS CUMSUM
DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE DIV EQUAL EXP EXPAND_DIMS FLOOR_MOD FULLY_CONNECTED
GATHER GELU GREATER GREATER_EQUAL HARD_SWISH LEAKY_RELU LESS LESS_EQUAL
LOCAL_RESPONSE_NORMALIZATION LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOG_SOFTMAX MIRROR_PAD MUL NEG
NOT_EQUAL ONE_HOT PACK PAD POW QUANTIZE RANGE RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR
REVERSE_SEQUENCE RIGHT_SHIFT SELECT_V2 SHAPE SIGN SLICE SOFTMAX SPACE_TO_DEPTH SPLIT SPLIT_V
SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB TRANSPOSE TRANSPOSE_CONV UNPACK
"""
"""Operators whose table has their name: that of LEAKY_RELU is LeakyReluOptions."""

OPTIONS: dict[str, str] = {
    **{
        name: f"{camel(name.lower()).replace('2d', '2D').replace('3d', '3D')}Options"
        for name in _OF_ITS_NAME.split()
    },
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), "Pool2DOptions"),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), "MaximumMinimumOptions"),
    **dict.fromkeys(("MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX"), "ReducerOptions"),
    **dict.fromkeys(("REDUCE_MIN", "REDUCE_PROD", "SUM"), "ReducerOptions"),
    "BATCH_MATMUL": "BatchMatMulOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "PADV2": "PadV2Options",
    "SVDF": "SVDFOptions",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions",
}
"""The table of options that an operator has in the schema; the others have none."""
