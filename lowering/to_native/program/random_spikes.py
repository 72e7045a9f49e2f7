"""`spike.encode` by `rate` as a nest of loops that draws every number anew, bit for bit.

The generator is Threefry-2x32-20 (`dialects.spike.threefry`), which keeps nothing: each element of
each step has a number of its own, so loops run in vectors and in any order. Not here: other codes,
which `convert-spike-to-tensor` makes ops on tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, f64, i1, i32, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from ....dialects import spike
from ....dialects.inference import tensor_type
from ....dialects.spike.threefry import key_schedule, threefry
from .nests import Access, Nest, RefusedError
from .program import Planner, Program
from .sizes import ONE, ZERO, Size
from .structured import add_nest, packed

_WORD = 0xFFFFFFFF
_TIME, _PLACE = 0, 1
"""The loops: over the steps, and over all elements in row-major order."""


class _Body:
    """Appends to the body of the nest."""

    def __init__(self, block: Block) -> None:
        self._builder = Builder(InsertPoint.at_end(block))

    def add(self, op: Operation) -> SSAValue:
        """Append an op; its result."""
        return self._builder.insert(op).results[0]

    def word(self, value: int) -> SSAValue:
        """A constant of 32 bits."""
        bits = value & _WORD
        return self.add(arith.ConstantOp(IntegerAttr(bits - (bits >> 31 << 32), i32)))

    def sum(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """a + b, wrapping."""
        return self.add(arith.AddiOp(a, self.word(b) if isinstance(b, int) else b))

    def counter(self, loop: int) -> SSAValue:
        """The iteration of a loop, as an i64."""
        return self.add(arith.IndexCastOp(self.add(linalg.IndexOp(loop)), i64))

    def low(self, value: SSAValue) -> SSAValue:
        """The low word of an i64."""
        return self.add(arith.TruncIOp(value, i32))

    def rotated(self, value: SSAValue, bits: int) -> SSAValue:
        """A word with its bits moved to the left, those that leave coming in on the right."""
        left = self.add(arith.ShLIOp(value, self.word(bits)))
        right = self.add(arith.ShRUIOp(value, self.word(32 - bits)))
        return self.add(arith.OrIOp(left, right))

    def mixed(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The exclusive or of two words."""
        return self.add(arith.XOrIOp(a, b))


def encode(program: Program, op: spike.EncodeOp) -> None:
    """`spike.encode` by `rate`.

    Raises:
        RefusedError: another code.
    """
    if op.scheme.data != "rate":
        raise RefusedError(
            f"has no form of '{op.scheme.data}' here; take it apart with 'convert-spike-to-tensor'"
        )
    assert op.timesteps is not None and op.seed is not None
    x, steps = packed(program, program.view(op.operand)), Size.of(op.timesteps.value.data)
    spikes = program.new(i1, (steps, *x.sizes))
    program.views[op.result] = spikes
    count = spikes.strides[0]
    element = cast("AnyFloat", tensor_type(op.operand).element_type)
    kinds: list[Attribute] = [element] if op.elapsed is None else [element, i64]
    block = Block(arg_types=[*kinds, i1])
    reads: dict[SSAValue, Access] = {block.args[0]: Access(x, x.offset, (ZERO, ONE))}
    if op.elapsed is not None:
        elapsed = program.view(op.elapsed)
        reads[block.args[1]] = Access(elapsed, elapsed.offset, (ZERO, ZERO))
    _write(block, op)
    write = Access(spikes, spikes.offset, (count, ONE))
    sizes, parallel = (steps, count), (True, True)
    add_nest(program, Nest(sizes, parallel, reads, (write,), (None,), block, {}, (0, 1)))


def _write(block: Block, op: spike.EncodeOp) -> None:
    """The body: u < x, u from the number of the step and the place."""
    assert op.seed is not None
    body, x = _Body(block), block.args[0]
    time = body.counter(_TIME)
    if op.elapsed is not None:
        time = body.sum(time, block.args[1])
    t = body.sum(body.low(time), op.start.value.data)
    counter = t, body.low(body.counter(_PLACE))
    schedule = key_schedule(op.seed.value.data)
    drawn, _ = threefry(schedule, counter, body.sum, body.mixed, body.rotated)
    scale = body.add(arith.ConstantOp(FloatAttr(2.0**-32, f64)))
    u = body.add(arith.MulfOp(body.add(arith.UIToFPOp(drawn, f64)), scale))
    wide = x if x.type == f64 else body.add(arith.ExtFOp(x, f64))
    fires = body.add(arith.CmpfOp(u, wide, "olt"))
    block.add_op(linalg.YieldOp(fires))


RULES: Mapping[type[Operation], Planner] = {spike.EncodeOp: encode}
"""For each op the function that plans it."""
