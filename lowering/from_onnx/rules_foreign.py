"""ONNX import of operators of other domains: packed products of ONNX Runtime, others' tables."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import tensor
from ..problems import ProblemError
from .elimination import solution_of
from .onnx_builder import Builder, Call, Rule
from .rules_activation import RULES as ACTIVATIONS
from .rules_attention import ATTENTION
from .rules_decoder import DECODER
from .rules_fused import FUSED
from .rules_linear import linear
from .rules_pooling import RULES as POOLING
from .rules_qonnx import QONNX
from .rules_qoperator import QOPERATORS, channels_last
from .rules_reduction import RULES as REDUCTION
from .rules_window import RULES as WINDOWS


def _matmul_bits(e: Builder, call: Call) -> SSAValue:
    """x · W for W of 2, 4 or 8 bits in blocks, each with a scale and a zero point."""
    depth, width = call.integer("K", 0), call.integer("N", 0)
    bits, block = call.integer("bits", 4), call.integer("block_size", 0)
    if bits not in (2, 4, 8) or block < 16 or min(depth, width) < 1 or call.has(4):
        raise ProblemError(f"its form (bits {bits}, blocks of {block}) is not known")
    count = -(-depth // block)
    packed = e.array(call[1], "weight").reshape(-1)
    scales = e.array(call[2], "scales").reshape(-1)
    if packed.size != width * count * (block * bits // 8) or scales.size != width * count:
        raise ProblemError(f"its weight has {packed.size} bytes for [{depth}, {width}]")
    codes = _unpacked(packed.astype(np.uint8), bits).reshape(width, count, block)
    zeros = np.full((width, count), 1 << (bits - 1), np.float32)
    if call.has(3):
        stored = e.array(call[3], "zero points")
        if stored.dtype == np.uint8:
            rows = _unpacked(stored.reshape(width, -1), bits).reshape(width, -1)
            zeros = rows[:, :count].astype(np.float32)
        else:
            zeros = stored.reshape(width, count).astype(np.float32)
    steps = codes.astype(np.float32) - zeros[..., None]
    real = (steps * scales.reshape(width, count, 1)).reshape(width, count * block)[:, :depth]
    weight = e.known(np.ascontiguousarray(real.T).astype(scales.dtype))
    e.names[weight] = e.names.get(call[1], "weight")
    return linear(e, call[0], weight, call.optional(5))


def _unpacked(data: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], bits: int) -> np.ndarray[
    tuple[int, ...], np.dtype[np.uint8]
]:  # fmt: skip
    """The codes in bytes, lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((data[..., None] >> shifts) & ((1 << bits) - 1)).astype(np.uint8)


def _fast_gelu(e: Builder, call: Call) -> SSAValue:
    x = call[0] if not call.has(1) else e.add(tensor.AddOp(call[0], call[1]))
    return e.add(tensor.GeluOp(x, "tanh"))


MICROSOFT: dict[str, Rule] = {
    "FastGelu": _fast_gelu,
    "Gelu": ACTIVATIONS["Gelu"],
    "Inverse": lambda e, call: solution_of(e, call[0]),
    "MatMulNBits": _matmul_bits,
    "NhwcConv": channels_last(WINDOWS["Conv"]),
    "NhwcMaxPool": channels_last(POOLING["MaxPool"]),
    **ATTENTION,
    **DECODER,
    **FUSED,
    **QOPERATORS,
}
"""Operators of ONNX Runtime."""

CHANNELS_LAST: dict[str, Rule] = {
    "BatchNormalization": channels_last(REDUCTION["BatchNormalization"]),
    "Conv": channels_last(WINDOWS["Conv"], 2),
    "MaxPool": channels_last(POOLING["MaxPool"]),
}
"""Operators of the standard, as qonnx has them with their channels, also of weights, behind."""

GENERAL: dict[str, Rule] = {**QONNX, "MaxPoolNHWC": CHANNELS_LAST["MaxPool"]}
"""Operators of qonnx's general domain, and of those that it had before."""

FOREIGN: dict[tuple[str, str], Rule] = {
    **{("com.microsoft", name): rule for name, rule in MICROSOFT.items()},
    **{
        (domain, name): rule
        for domain in ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
        for name, rule in GENERAL.items()
    },
    **{("qonnx.custom_op.channels_last", name): rule for name, rule in CHANNELS_LAST.items()},
}
"""By domain and type of the operator."""
