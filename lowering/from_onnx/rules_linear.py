"""ONNX import of matrix products: floats, trits where the values are, integers with zero points."""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
from xdsl.dialects.builtin import i8, i16, i32
from xdsl.ir import SSAValue

from ...dialects import tensor, ternary
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float, is_integer
from ...ir.arrays import Array
from ..problems import ProblemError, refuse
from ..ternary_weights import recognize
from .elimination import determinant_of
from .onnx_builder import Builder, Call, Rule
from .rules_elementwise import is_unsigned
from .rules_quantization import requantized, signed_zero
from .sizes import Free

EXACT_IN_FLOAT = 1 << 24
"""Up to here float32 holds every integer."""


def trits_of(e: Builder, weight: SSAValue, channel: int) -> tuple[Array, Array | None] | None:
    """A known weight as trits and their scale, output channels on the axis `channel`."""
    array = e.arrays.get(weight)
    if array is None or not e.recognize_ternary:
        return None
    if array.dtype.kind in "iu":
        if array.size == 0 or array.ndim < 2 or not np.isin(array, (-1, 0, 1)).all():
            return None
        return array.astype(np.int8), None
    match = recognize(np.moveaxis(array, channel, 0))
    if match is None:
        return None
    return np.moveaxis(match.trits, 0, channel), match.scale


def linear(e: Builder, x: SSAValue, weight: SSAValue, bias: SSAValue | None = None) -> SSAValue:
    """x · W + b with W [in, out]; trits where its values are."""
    known = trits_of(e, weight, 1) if e.rank(weight) == 2 and e.rank(x) > 0 else None
    if known is None or e.is_known(x):
        if e.rank(weight) == 2 and e.is_known(weight) and bias is not None:
            return e.add(tensor.LinearOp(x, weight, bias))
        matmul = e.add(tensor.MatmulOp(x, weight))
        return matmul if bias is None else e.add(tensor.AddOp(matmul, bias))
    key = e.names.get(weight, "weight")
    trits, scale = e.trits(known[0], key), known[1]
    if not is_float(tensor_type(x)):
        # Sums are as wide as x or wider: the standard's wrap around in the type of x.
        sums = e.add(ternary.LinearOp(x, trits))
        if bias is not None:
            sums = e.add(tensor.AddOp(sums, e.convert(bias, sums)))
        return e.convert(sums, x)
    whole = exact_integers(e, x, known[0].shape[0]) if scale is None and bias is None else None
    if whole is not None:
        sums = e.add(ternary.LinearOp(whole, trits))
        matmul = e.convert(sums, x)
        e.exact[matmul] = sums
        return matmul
    factor = None if scale is None else scale_of(e, scale, x, key)
    added = None if bias is None else e.real(bias)
    return e.add(ternary.LinearOp(x, trits, scale=factor, bias=added))


def scale_of(e: Builder, scale: Array, x: SSAValue, key: str) -> SSAValue:
    value = e.known(scale, tensor_type(x).element_type)
    e.names[value] = f"{key}_scale"
    return e.real(value)


def exact_integers(e: Builder, x: SSAValue, terms: int) -> SSAValue | None:
    """The integers that x, f32, holds, where sums of `terms` of them times trits are exact."""
    owner = x.owner
    if not isinstance(owner, tensor.ConvertOp) or not is_integer(tensor_type(owner.operand)):
        return None
    dtype = numpy_dtype(tensor_type(owner.operand).element_type)
    info = np.iinfo(dtype)
    exact = is_float(tensor_type(x)) and max(-info.min, info.max) * terms <= EXACT_IN_FLOAT
    if not exact or numpy_dtype(tensor_type(x).element_type) != np.float32:
        return None
    return owner.operand if info.min < 0 else e.convert(owner.operand, i32)


def _gemm(e: Builder, call: Call) -> SSAValue:
    x, weight, bias = call[0], call[1], call.optional(2)
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    x = e.permute(x, [1, 0]) if call.integer("transA", 0) else x
    weight = e.permute(weight, [1, 0]) if call.integer("transB", 0) else weight
    if not is_float(tensor_type(x)) and (alpha != 1 or beta != 1):
        raise ProblemError("it multiplies integers by alpha and beta")
    if alpha != 1.0 and e.is_known(weight):
        weight = e.add(tensor.MulOp(weight, e.number(alpha, weight)))
        alpha = 1.0
    if bias is not None and beta != 1.0:
        bias = e.add(tensor.MulOp(bias, e.number(beta, bias)))
    width = e.sizes(weight)[1]
    if bias is not None and alpha == 1.0 and e.is_known(bias) and not isinstance(width, Free):
        sizes = e.sizes(bias)
        if len(sizes) < 2 or sizes[0] == 1:
            flat = e.reshape(bias, (sizes[-1] if sizes else 1,))
            return linear(e, x, weight, e.stretch(flat, (width,)))
    matmul = linear(e, x, weight)
    matmul = matmul if alpha == 1.0 else e.add(tensor.MulOp(matmul, e.number(alpha, matmul)))
    return matmul if bias is None else e.add(tensor.AddOp(matmul, bias))


_MANY = 1 << 10
"""What a free size counts as, where products are ordered."""


def _einsum(e: Builder, call: Call) -> SSAValue:
    equation = call.text("equation", "").replace(" ", "")
    terms, arrow, output = equation.partition("->")
    parts, operands = terms.split(","), call.tensors()
    refuse(len(parts) != len(operands), f"its equation '{equation}' is for {len(parts)} operands")
    named = [part.replace("...", "") for part in parts]
    spare = [
        e.rank(value) - len(letters)
        for value, letters, part in zip(operands, named, parts, strict=True)
        if "..." in part
    ]
    if not arrow:
        joined = "".join(named)
        once = "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
        output = ("..." if spare else "") + once
    letters = dict.fromkeys("".join(named) + output.replace(".", ""))
    table = {letter: chr(ord("a") + index) for index, letter in enumerate(letters)}
    extra = [chr(ord("a") + len(table) + index) for index in range(max(spare, default=0))]
    if len(table) + len(extra) > 26 or any(not letter.isalpha() for letter in table):
        raise ProblemError(f"its equation '{equation}' is not understood")

    def renamed(part: str, rank: int | None) -> str:
        count = len(extra) if rank is None else rank - len(part.replace("...", ""))
        dots = "".join(extra[len(extra) - count :]) if "..." in part else ""
        before, _, behind = part.partition("...")
        return "".join(table[c] for c in before) + dots + "".join(table[c] for c in behind)

    shown = [renamed(p, e.rank(v)) for p, v in zip(parts, operands, strict=True)]
    sizes = [
        list(zip(term, e.sizes(v), strict=True)) for term, v in zip(shown, operands, strict=True)
    ]
    # An axis of one element stands for as many as the others have.
    spread = {letter for axes in sizes for letter, size in axes if size != 1}
    for index, axes in enumerate(sizes):
        single = [a for a, (letter, size) in enumerate(axes) if size == 1 and letter in spread]
        if single:
            operands[index] = e.add(tensor.SqueezeOp(operands[index], single))
            shown[index] = "".join(letter for a, (letter, _) in enumerate(axes) if a not in single)
    result = renamed(output, None)
    while len(operands) > 2:
        operands, shown = _pair_joined(e, operands, shown, result)
    return e.add(tensor.EinsumOp(operands, f"{','.join(shown)}->{result}"))


def _pair_joined(
    e: Builder, operands: list[SSAValue], shown: list[str], result: str
) -> tuple[list[SSAValue], list[str]]:
    """Operands with one in the place of the two whose product takes least, a free size as many."""
    sizes = {
        letter: _MANY if isinstance(size, Free) else int(size)
        for term, value in zip(shown, operands, strict=True)
        for letter, size in zip(term, e.sizes(value), strict=True)
    }

    def cost(pair: tuple[int, int]) -> int:
        return prod(sizes[letter] for letter in {*shown[pair[0]], *shown[pair[1]]})

    pair = min(combinations(range(len(shown)), 2), key=cost)
    others = [i for i in range(len(shown)) if i not in pair]
    needed = result + "".join(shown[i] for i in others)
    left, right = (shown[i] for i in pair)
    kept = "".join(c for c in dict.fromkeys(left + right) if c in needed)
    joined = e.add(tensor.EinsumOp([operands[i] for i in pair], f"{left},{right}->{kept}"))
    return [joined, *(operands[i] for i in others)], [kept, *(shown[i] for i in others)]


# Integers.


def centred(e: Builder, x: SSAValue, zero: SSAValue | None, axis: int | None = None) -> SSAValue:
    """x minus its zero point, as i32; with `axis` the zero point is a vector along it."""
    if x in e.signed and zero is not None and e.is_known(zero):
        x, zero = e.signed[x], signed_zero(e, zero)
    shifted = _before_shift(e, x, zero)
    if shifted is not None:
        return shifted
    wide = e.convert(x, i32)
    if zero is None:
        return wide
    zero = e.convert(zero, i32)
    if e.is_known(zero) and not e.array(zero).any():
        return wide
    if e.rank(zero) == 1 and e.sizes(zero) == (1,):
        zero = e.reshape(zero, ())
    if axis is not None and e.rank(zero) == 1:
        zero = e.along(zero, axis % e.rank(x), e.rank(x))
    return e.add(tensor.SubOp(wide, zero))


def _before_shift(e: Builder, x: SSAValue, zero: SSAValue | None) -> SSAValue | None:
    """The i32 bytes that 128 was added to, to make them unsigned, where 128 is the zero point."""
    known = None if zero is None else e.arrays.get(zero)
    narrow = x.owner
    if known is None or known.size != 1 or int(known.reshape(-1)[0]) != 128:
        return None
    if not isinstance(narrow, tensor.ConvertOp) or not is_unsigned(x):
        return None
    added = narrow.operand.owner
    if not isinstance(added, tensor.AddOp):
        return None
    wide = added.lhs.owner
    offset = e.written.get(added.rhs)
    if not isinstance(wide, tensor.ConvertOp) or offset is None or not (offset == 128).all():
        return None
    fits = tensor_type(wide.operand).element_type == i8 and tensor_type(added.lhs) == tensor_type(
        added.result
    )
    return added.lhs if fits and tensor_type(added.lhs).element_type == i32 else None


def integer_matmul(e: Builder, x: SSAValue, weight: SSAValue) -> SSAValue:
    """x · W of i32, exact modulo 2^32."""
    known = trits_of(e, weight, 1) if e.rank(weight) == 2 else None
    if known is None or e.is_known(x):
        return e.add(tensor.MatmulOp(x, weight))
    wide = x.owner
    if isinstance(wide, tensor.ConvertOp) and tensor_type(wide.operand).element_type in (i8, i16):
        x = wide.operand
    return e.add(ternary.LinearOp(x, e.trits(known[0], e.names.get(weight, "weight"))))


def _matmul_integer(e: Builder, call: Call) -> SSAValue:
    lhs = centred(e, call[0], call.optional(2), -2 if e.rank(call[0]) > 1 else None)
    rhs = centred(e, call[1], call.optional(3), -1)
    return integer_matmul(e, lhs, rhs)


def _qlinear_matmul(e: Builder, call: Call) -> SSAValue:
    lhs = centred(e, call[0], call[2], -2 if e.rank(call[0]) > 1 else None)
    sums = integer_matmul(e, lhs, centred(e, call[3], call[5], -1))
    scales: list[SSAValue] = []
    for index, axis in ((1, -2), (4, -1)):
        scale = call[index]
        if e.rank(scale) == 1:
            scale = e.reshape(scale, (*e.sizes(scale), *[1] * (-axis - 1)))
        scales.append(e.convert(scale, call[6]))
    return requantized(e, sums, scales, call[6], call[7])


RULES: dict[str, Rule] = {
    "Det": lambda e, call: determinant_of(e, call[0]),
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": lambda e, call: linear(e, call[0], call[1]),
    "MatMulInteger": _matmul_integer,
    "QLinearMatMul": _qlinear_matmul,
}
"""By the type of the operator."""
