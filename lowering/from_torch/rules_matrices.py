"""Rules of determinants, inverses, roots and systems of equations of small matrices.

Not here: products (`rules_linear`), and the elimination itself (`from_onnx.elimination`).
"""

from __future__ import annotations

import numpy as np
from torch.fx import Node
from xdsl.dialects.builtin import f64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from ..from_onnx.elimination import root_of, solution_of
from ..from_onnx.onnx_builder import Builder as OnnxBuilder
from ..from_onnx.rules_shape import expanded
from .calls import Call
from .rules_onnx import carried, companion, same
from .sizes import static
from .torch_builder import Builder, Rule


def _determinant(e: Builder, call: Call) -> SSAValue:
    return same(e, "Det", [call["self" if "self" in call else "A"]], {})[0]


def _signed_determinant(e: Builder, call: Call) -> list[SSAValue | None]:
    """The sign of the determinant, and the logarithm of its size."""
    found = Formula(e, _determinant(e, call))
    return [found.of(tensor.SignOp).value, found.of(tensor.AbsOp).of(tensor.LogOp).value]


def _inverse(e: Builder, call: Call) -> SSAValue:
    there = companion(e)
    return there.real(
        solution_of(there, _carried(e, there, call["self" if "self" in call else "A"]))
    )


def _turned(there: OnnxBuilder, x: SSAValue) -> SSAValue:
    """The last two axes exchanged."""
    return there.move_axis(x, -1, -2)


def _solved(there: OnnxBuilder, x: SSAValue, y: SSAValue, is_left: bool = True) -> SSAValue:
    """Z of x·Z = y, or of Z·x = y; axes before the last two broadcast."""
    if not is_left:
        x, y = _turned(there, x), _turned(there, y)
    x, y = (
        expanded(there, one, [*there.sizes(other)[:-2], *there.sizes(one)[-2:]])
        for one, other in ((x, y), (y, x))
    )
    found = solution_of(there, x, y)
    return there.real(found if is_left else _turned(there, found))


def _solve(e: Builder, call: Call) -> SSAValue:
    """X of A·X = B, or of X·A = B; a B with an axis less has vectors."""
    there = companion(e)
    x, y = (_carried(e, there, call[name]) for name in ("A", "B"))
    is_vector = there.rank(y) == there.rank(x) - 1
    y = there.add(tensor.UnsqueezeOp(y, [there.rank(y)])) if is_vector else y
    found = _solved(there, x, y, call.flag("left", True))
    return there.reshape(found, there.sizes(found)[:-1]) if is_vector else found


def _solve_triangular(e: Builder, call: Call) -> SSAValue:
    """The same, where only a triangle of A is read, perhaps with ones for its diagonal."""
    there = companion(e)
    x, y = (_carried(e, there, call[name]) for name in ("self", "B"))
    rows = static(e.sizes(call["self"])[-2:], "matrices")
    kept = np.tri(*rows, dtype=np.bool_)
    matrix = Formula(there, there.known(kept.T if call.flag("upper") else kept))
    matrix = matrix.choose(Formula(there, x), 0)
    if call.flag("unitriangular"):
        matrix = Formula(there, there.known(np.eye(*rows, dtype=np.bool_))).choose(
            matrix.number(1), matrix
        )
    return _solved(there, matrix.value, y, call.flag("left", True))


def _solve_by_root(e: Builder, call: Call) -> SSAValue:
    """X of L·Lᵀ·X = B, or Rᵀ·R for an upper root."""
    there = companion(e)
    y, root = (_carried(e, there, call[name]) for name in ("self", "input2"))
    wide = there.convert(root, f64)
    sides = (_turned(there, wide), wide) if call.flag("upper") else (wide, _turned(there, wide))
    found = _solved(there, there.add(tensor.MatmulOp(*sides)), there.convert(y, f64))
    return there.convert(found, root)


def _root(e: Builder, call: Call) -> SSAValue:
    """The Cholesky root; where PyTorch raises an error, NaN."""
    there = companion(e)
    found = root_of(there, _carried(e, there, call["self"]))
    return there.real(_turned(there, found) if call.flag("upper") else found)


def _carried(e: Builder, there: OnnxBuilder, node: Node) -> SSAValue:
    value = carried(e, there, node)
    assert value is not None
    return value


RULES: dict[str, Rule] = {
    **dict.fromkeys(("det", "linalg_det"), _determinant),
    **dict.fromkeys(("inverse", "linalg_inv"), _inverse),
    **dict.fromkeys(("cholesky", "linalg_cholesky"), _root),
    "cholesky_solve": _solve_by_root,
    "linalg_cholesky_ex": lambda e, call: [_root(e, call), None],
    "linalg_inv_ex": lambda e, call: [_inverse(e, call), None],
    **dict.fromkeys(("linalg_slogdet", "slogdet"), _signed_determinant),
    "linalg_solve": _solve,
    "linalg_solve_triangular": _solve_triangular,
    "logdet": lambda e, call: e.add(tensor.LogOp(_determinant(e, call))),
}
"""By the name of the operator in the namespace `aten`."""
