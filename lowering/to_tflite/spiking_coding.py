"""TFLite forms of what stays of encoders: random spikes, and trains as truth values.

The other codes are ops of `tensor` by then (`convert-spike-to-tensor`).
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from ...dialects import spike
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type, is_train
from .elementwise import clip
from .graph import Element, Tensor, element_type
from .tflite_writer import Inexpressible, Rule, Writer
from .threefry import words


def encode(e: Writer, op: spike.EncodeOp) -> None:
    """Spikes at random, by the same numbers as everywhere: h/2^32 < x for a random word h.

    For an integer h that is h < ⌈x·2^32⌉, in INT64.
    """
    if op.scheme.data != "rate":
        raise Inexpressible(f"spikes of more than 4096 steps by '{op.scheme.data}'")
    assert op.timesteps is not None and op.seed is not None
    x = e.float32(e.value(op.operand))
    steps = op.timesteps.value.data
    drawn = words(e, op.seed.value.data, _steps(e, op), _places(e, x))
    spread = _spread(e, drawn, x, steps)
    unsigned = e.cast(e.cast(spread, Element.UINT32), Element.INT64)
    e.bind(op.result, e.compare("LESS", unsigned, _limit(e, x)))


def _limit(e: Writer, x: Tensor) -> Tensor:
    """⌈x·2^32⌉ for x cut to [0, 1], as INT64; 0 for what is no number."""
    zero = e.scalar(0, Element.FLOAT32)
    number = e.choose(e.compare("EQUAL", x, x), x, zero)
    scaled = e.binary("MUL", clip(e, number, 0, 1), e.scalar(2.0**32, Element.FLOAT32))
    ceiling = e.apply("NEG", [e.apply("FLOOR", [e.apply("NEG", [scaled])])])
    return e.cast(ceiling, Element.INT64)


def _steps(e: Writer, op: spike.EncodeOp) -> Tensor:
    """The numbers of the steps modulo 2^32, as INT32 [steps, 1]."""
    assert op.timesteps is not None
    start, count = op.start.value.data, op.timesteps.value.data
    numbers = np.arange(start, start + count, dtype=np.int64).astype(np.int32).reshape(-1, 1)
    steps = e.constant(numbers, "steps")
    if op.elapsed is None:
        return steps
    return e.binary("ADD", steps, e.cast(e.value(op.elapsed), Element.INT32))


def _places(e: Writer, x: Tensor) -> Tensor:
    """The row-major index of each element, as INT32 [elements]."""
    if DYNAMIC not in x.shape:
        return e.constant(np.arange(np.prod(x.shape, dtype=np.int64)).astype(np.int32), "places")
    count = e.reshape(e.dimension(e.reshape(x, (DYNAMIC,)), 0), ())
    bounds = [e.scalar(0, Element.INT32), count, e.scalar(1, Element.INT32)]
    return e.node("RANGE", bounds, Element.INT32, (DYNAMIC,))


def _spread(e: Writer, drawn: Tensor, x: Tensor, steps: int) -> Tensor:
    """[steps, elements] as [steps, …] of the sizes of `x`."""
    shape = (steps, *x.shape)
    if shape.count(DYNAMIC) <= 1:
        return e.reshape(drawn, shape)
    sizes = e.sizes([steps, *(e.dimension(x, a) if s == DYNAMIC else s for a, s in _axes(x))])
    return e.node("RESHAPE", [drawn, sizes], drawn.element, shape)


def _axes(x: Tensor) -> list[tuple[int, int]]:
    return list(enumerate(x.shape))


def convert_train(e: Writer, op: spike.ToTensorOp | spike.FromTensorOp) -> None:
    """A train as numbers, or truth values as a train."""
    wanted = dense_type(op.result)
    element = Element.BOOL if is_train(op.result) else element_type(wanted.element_type)
    x, layout = e.stored(op.operand)
    e.bind(op.result, e.cast(x, element), layout)


RULES: dict[type[Operation], Rule] = {
    spike.EncodeOp: encode,
    spike.ToTensorOp: convert_train,
    spike.FromTensorOp: convert_train,
}
