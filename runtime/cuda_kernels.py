"""The kernels of `runtime.cuda`, in the language of OpenAI's Triton, which this module needs.

Both compute y = (x · W) · scale + bias. Trit (k, n) of W stands at place k · outs + n, four to a
byte, the first in the low bits: 00 = 0, 01 = +1, 10 = -1. Not here: tiles, checks (`cuda`).
"""

# Triton compiles these functions itself: their arguments have no Python types.
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false

import triton
import triton.language as tl


@triton.jit
def trits(weight, k, n, outs, mask):
    """The trits at inputs `k` and outputs `n`, int8; 0 outside `mask`."""
    place = k * outs + n
    byte = tl.load(weight + place // 4, mask=mask, other=0).to(tl.int32)
    code = (byte >> (place % 4 * 2)) & 3
    return ((code & 1) - (code >> 1)).to(tl.int8)


@triton.jit
def store(y, total, scale, bias, m, n, rows, outs, HAS_SCALE: tl.constexpr, HAS_BIAS: tl.constexpr):
    """Finish the sums of rows `m` and outputs `n`, and write them."""
    inside = n < outs
    if HAS_SCALE:
        total *= tl.load(scale + n, mask=inside, other=0).to(tl.float32)[None, :]
    if HAS_BIAS:
        total += tl.load(bias + n, mask=inside, other=0).to(tl.float32)[None, :]
    place = y + m[:, None] * outs + n[None, :]
    tl.store(place, total.to(y.dtype.element_ty), mask=(m[:, None] < rows) & inside[None, :])


@triton.jit
def single_rows(
    x,
    weight,
    y,
    scale,
    bias,
    rows,
    ins,
    outs,
    HAS_SCALE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    EXACT: tl.constexpr,
    ROWS: tl.constexpr,
    OUTS: tl.constexpr,
    INS: tl.constexpr,
):
    """One row and `OUTS` outputs a program, as sums of products; `ROWS` is 1."""
    m = tl.program_id(1)
    n = tl.program_id(0) * OUTS + tl.arange(0, OUTS)
    element: tl.constexpr = tl.int32 if EXACT else tl.float32
    total = tl.zeros((OUTS,), dtype=element)
    for start in range(0, ins, INS):
        k = start + tl.arange(0, INS)
        values = tl.load(x + m * ins + k, mask=k < ins, other=0).to(element)
        inside = (k[:, None] < ins) & (n[None, :] < outs)
        chosen = trits(weight, k[:, None], n[None, :], outs, inside).to(element)
        total += tl.sum(values[:, None] * chosen, axis=0)
    row = m + tl.arange(0, 1)
    store(y, total[None, :], scale, bias, row, n, rows, outs, HAS_SCALE, HAS_BIAS)


@triton.jit
def many_rows(
    x,
    weight,
    y,
    scale,
    bias,
    rows,
    ins,
    outs,
    HAS_SCALE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    EXACT: tl.constexpr,
    ROWS: tl.constexpr,
    OUTS: tl.constexpr,
    INS: tl.constexpr,
):
    """`ROWS` rows and `OUTS` outputs a program, as products of tiles."""
    m = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    n = tl.program_id(0) * OUTS + tl.arange(0, OUTS)
    element: tl.constexpr = tl.int32 if EXACT else tl.float32
    total = tl.zeros((ROWS, OUTS), dtype=element)
    for start in range(0, ins, INS):
        k = start + tl.arange(0, INS)
        here = (m[:, None] < rows) & (k[None, :] < ins)
        values = tl.load(x + m[:, None] * ins + k[None, :], mask=here, other=0)
        inside = (k[:, None] < ins) & (n[None, :] < outs)
        chosen = trits(weight, k[:, None], n[None, :], outs, inside).to(values.dtype)
        if EXACT:
            total = tl.dot(values, chosen, total, out_dtype=tl.int32)
        else:
            # No rounding of float32 to the tensor cores' shorter format.
            total = tl.dot(values, chosen, total, input_precision="ieee")
    store(y, total, scale, bias, m, n, rows, outs, HAS_SCALE, HAS_BIAS)
