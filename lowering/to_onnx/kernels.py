"""Which element types ONNX Runtime's CPU provider computes each operator in.

Measured with ONNX Runtime 1.31.1 on one-node models of opsets 13 to 23: the types listed load in
all of them. An operator outside its types is computed in a wider one that holds every value,
between casts. (Half precision counts as supported where the runtime puts casts around the node
itself.)

Left out although they load, because they give wrong numbers: Max, Min, Clip, Sign, ReduceMax and
ReduceMin on INT64 (they compare the lower halves as signed numbers). ReduceSum on integers rounds
to float64 and saturates; `reduction.sum_integers` works around it.
"""

from __future__ import annotations

from ..stored_elements import nearest_type
from .graph import Element

_B, _U8, _U16 = Element.BOOL, Element.UINT8, Element.UINT16
_I8, _I16 = Element.INT8, Element.INT16
_I32, _I64 = Element.INT32, Element.INT64
_U32, _U64 = Element.UINT32, Element.UINT64
_F16, _BF16, _F32, _F64 = Element.FLOAT16, Element.BFLOAT16, Element.FLOAT, Element.DOUBLE

_HALF = frozenset({_F16, _F32})
_FLOATS = frozenset({_F16, _F32, _F64})
_ARITHMETIC = _FLOATS | {_I32, _I64}
_INTEGERS = frozenset({_I8, _I16, _I32, _I64, _U8})
_ALL_INTEGERS = _INTEGERS | {_U16, _U32, _U64}
_ORDERED = _FLOATS | _INTEGERS
_MOVED = _ORDERED | {_BF16, _B}

KERNELS: dict[str, frozenset[Element]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "MatMul", "Einsum", "ReduceSum"), _ARITHMETIC),
    **dict.fromkeys(("Exp", "Log", "Sqrt", "Reciprocal", "Floor", "Round"), _FLOATS),
    **dict.fromkeys(("Sigmoid", "Tanh", "Softmax", "LogSoftmax", "IsNaN", "Pow"), _FLOATS),
    **dict.fromkeys(("BatchNormalization", "LayerNormalization", "ReduceMean"), _FLOATS),
    **dict.fromkeys(("Ceil", "Cos", "Sin"), _FLOATS),
    **dict.fromkeys(("Erf", "Gelu", "HardSwish", "LeakyRelu"), _HALF),
    **dict.fromkeys(("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh"), _HALF),
    **dict.fromkeys(("Tan", "Elu", "HardSigmoid", "Mish", "PRelu", "Selu", "Softplus"), _HALF),
    **dict.fromkeys(("Softsign", "ThresholdedRelu"), _HALF),
    **dict.fromkeys(("Celu",), frozenset({_F32})),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"), _ALL_INTEGERS),
    **dict.fromkeys(("CumSum", "ReduceProd", "TopK"), frozenset({_F32, _F64, _I32, _I64})),
    "ScatterElements": frozenset({_F32, _F64, _I32, _I64}),
    "ArgMin": frozenset({_F32, _F64, _I8, _I32, _U8}),
    "IsInf": frozenset({_F32, _F64}),
    **dict.fromkeys(("Conv", "AveragePool", "GlobalAveragePool"), _HALF),
    **dict.fromkeys(("Abs", "Mod", "Equal"), _ORDERED),
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual"), _ORDERED),
    **dict.fromkeys(("Max", "Min", "Clip", "ReduceMax", "ReduceMin"), _ORDERED - {_I16, _I64}),
    **dict.fromkeys(("ArgMax", "Where"), _ORDERED - {_I16}),
    "Sign": _ORDERED - {_I64},
    "Neg": _ORDERED - {_U8},
    "Relu": _FLOATS,
    "MaxPool": _FLOATS | {_I8, _U8},
    "Pad": (_ORDERED - {_I16}) | {_B},
    "Expand": _ORDERED | {_B},
    **dict.fromkeys(("And", "Or", "Xor", "Not"), frozenset({_B})),
    **dict.fromkeys(("Reshape", "Transpose", "Concat", "Slice", "Split"), _MOVED),
    **dict.fromkeys(("Gather", "GatherElements"), _MOVED),
    **dict.fromkeys(("Squeeze", "Unsqueeze", "Identity"), _MOVED),
}

_WIDER: dict[Element, tuple[Element, ...]] = {
    _B: (_U8, _I32),
    _U8: (_I32, _F32),
    _I8: (_I32, _F32),
    _U16: (_I32, _F32),
    _I16: (_I32, _F32),
    _I32: (_I64, _F64),
    _F16: (_F32,),
    _BF16: (_F32,),
}
"""Types that hold every value of a type, best first."""


def compute_type(op_type: str, element: Element) -> Element | None:
    """The type to compute in: `element` itself, else the best wider one; `None` without any."""
    return nearest_type(element, KERNELS[op_type], _WIDER)
