"""What of the TFLite schema (version 3) the reader needs: operators by number, fields by slot.

Which table of options an operator has, and the element types, stand where files are written
(`lowering.to_tflite.kernels`, `lowering.to_tflite.graph`). Fields are written
`name:type=default`, in the order of their slots, with the letters of `struct`; `i[]` is a list,
`-` a slot that is not read.
"""

from __future__ import annotations

from typing import TypeAlias

from ..to_tflite.kernels import OPTIONS
from .flatbuffer import Table

OptionValue: TypeAlias = int | float | list[int] | None
"""A field of an operator's options; `None` is a list that the file leaves out."""

IDENTIFIER = b"TFL3"
"""At byte 4 of each file."""

_OPERATORS = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE
EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D
LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1
RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS
SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE
UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT
LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG
PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE
EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD
REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV
REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU
SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE
RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D
IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS
RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE
RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2
UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD
STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP
STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE
STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE
STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE
STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT
STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT
STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA
STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE
STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW
STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
"""

OPERATORS: tuple[str, ...] = tuple(_OPERATORS.split())
"""Names by `BuiltinOperator`."""

CUSTOM = OPERATORS.index("CUSTOM")

_ELEMENTS = """
float32 float16 int32 uint8 int64 text bool int16 complex64 int8 float64 complex128 uint64
resource variant uint32 uint16 int4 bfloat16 int2
uint4 float8_e4m3fn float8_e5m2
"""

ELEMENTS: tuple[str, ...] = tuple(_ELEMENTS.split())
"""What messages call each `TensorType`."""

TABLES: dict[str, tuple[int, str]] = {
    "AddOptions": (11, "fusedActivationFunction:b"),
    "ArgMaxOptions": (40, "outputType:b"),
    "ArgMinOptions": (57, "outputType:b"),
    "BatchMatMulOptions": (101, "adjX:? adjY:? asymmetricQuantizeInputs:?"),
    "CastOptions": (37, "inDataType:b outDataType:b"),
    "ConcatenationOptions": (10, "axis:i fusedActivationFunction:b"),
    "Conv2DOptions": (
        1,
        "padding:b strideW:i strideH:i fusedActivationFunction:b dilationWFactor:i=1 "
        "dilationHFactor:i=1",
    ),
    "Conv3DOptions": (
        106,
        "padding:b strideD:i strideW:i strideH:i fusedActivationFunction:b dilationDFactor:i=1 "
        "dilationWFactor:i=1 dilationHFactor:i=1",
    ),
    "CumsumOptions": (102, "exclusive:? reverse:?"),
    "DepthToSpaceOptions": (94, "blockSize:i"),
    "DepthwiseConv2DOptions": (
        2,
        "padding:b strideW:i strideH:i depthMultiplier:i fusedActivationFunction:b "
        "dilationWFactor:i=1 dilationHFactor:i=1",
    ),
    "DivOptions": (29, "fusedActivationFunction:b"),
    "FullyConnectedOptions": (
        8, "fusedActivationFunction:b weightsFormat:b keepNumDims:? asymmetricQuantizeInputs:?",
    ),
    "GatherOptions": (23, "axis:i batchDims:i"),
    "GeluOptions": (116, "approximate:?"),
    "L2NormOptions": (12, "fusedActivationFunction:b"),
    "LeakyReluOptions": (75, "alpha:f"),
    "LocalResponseNormalizationOptions": (13, "radius:i bias:f alpha:f beta:f"),
    "MirrorPadOptions": (77, "mode:b"),
    "MulOptions": (21, "fusedActivationFunction:b"),
    "OneHotOptions": (61, "axis:i"),
    "PackOptions": (59, "valuesCount:i axis:i"),
    "Pool2DOptions": (
        5, "padding:b strideW:i strideH:i filterWidth:i filterHeight:i fusedActivationFunction:b",
    ),
    "ReducerOptions": (27, "keepDims:?"),
    "ReshapeOptions": (17, "newShape:i[]"),
    "ResizeBilinearOptions": (15, "- - alignCorners:? halfPixelCenters:?"),
    "ResizeNearestNeighborOptions": (74, "alignCorners:? halfPixelCenters:?"),
    "ReverseSequenceOptions": (87, "seqDim:i batchDim:i"),
    "ShapeOptions": (55, "outType:b"),
    "SoftmaxOptions": (9, "beta:f"),
    "SpaceToDepthOptions": (19, "blockSize:i"),
    "SplitOptions": (35, "numSplits:i"),
    "SplitVOptions": (79, "numSplits:i"),
    "SqueezeOptions": (30, "squeezeDims:i[]"),
    "StridedSliceOptions": (
        32, "beginMask:i endMask:i ellipsisMask:i newAxisMask:i shrinkAxisMask:i offset:?",
    ),
    "SVDFOptions": (6, "rank:i fusedActivationFunction:b asymmetricQuantizeInputs:?"),
    "SubOptions": (28, "fusedActivationFunction:b"),
    "TransposeConvOptions": (49, "padding:b strideW:i strideH:i fusedActivationFunction:b"),
    "UnidirectionalSequenceLSTMOptions": (
        71,
        "fusedActivationFunction:b cellClip:f projClip:f timeMajor:? asymmetricQuantizeInputs:? "
        "diagonalRecurrentTensors:?",
    ),
    "UnpackOptions": (64, "num:i axis:i"),
}  # fmt: skip
"""The number of each table in the union of options, and its fields."""


def read_options(kind: str, number: int, table: Table | None) -> dict[str, OptionValue]:
    """The options of an operator by name; defaults where the file has none."""
    entry = TABLES.get(OPTIONS.get(kind, ""))
    if entry is None:
        return {}
    expected, text = entry
    options: dict[str, OptionValue] = {}
    for slot, part in enumerate(text.split()):
        if part == "-":
            continue
        name, _, rest = part.partition(":")
        letter, _, default = rest.partition("=")
        stored = table if number == expected else None
        if letter.endswith("[]"):
            list_ = None if stored is None else stored.numbers(slot, "i4")
            options[name] = None if list_ is None else [int(value) for value in list_]
        else:
            value = int(default or 0)
            options[name] = value if stored is None else stored.scalar(slot, letter, value)
    return options
