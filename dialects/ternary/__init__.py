"""The `ternary` dialect: tensors whose elements are -1, 0 or +1, and products with them.

`types` holds the trit, `storage` what makes and packs trits, `linear` the products, `adder_graph`
a matrix as additions, `sparsity` the facts about zeros. Each op says what it computes.
"""

from xdsl.ir import Dialect

from .adder_graph import AdderGraphOp
from .linear import ConvOp, FusedOp, LinearOp, MatmulOp
from .sparsity import SparsityAttr
from .storage import ConstantOp, DequantizeOp, PackOp, ParameterOp, TernarizeOp, UnpackOp
from .types import TritType, trit, trit_tensor

Ternary = Dialect(
    "ternary",
    [
        AdderGraphOp,
        ConstantOp,
        ConvOp,
        DequantizeOp,
        LinearOp,
        MatmulOp,
        PackOp,
        ParameterOp,
        TernarizeOp,
        UnpackOp,
    ],
    [SparsityAttr, TritType],
)

__all__ = [
    "AdderGraphOp",
    "ConstantOp",
    "ConvOp",
    "DequantizeOp",
    "FusedOp",
    "LinearOp",
    "MatmulOp",
    "PackOp",
    "ParameterOp",
    "SparsityAttr",
    "TernarizeOp",
    "Ternary",
    "TritType",
    "UnpackOp",
    "trit",
    "trit_tensor",
]
