"""`spike.encode` by `rate` as a nest of loops that draws every number anew, bit for bit.

The generator is Threefry-2x32-20 (`dialects.spike.threefry`), which keeps nothing: each element of
each step has a number of its own, so loops run in vectors and in any order. Not here: other codes,
which `convert-spike-to-tensor` makes ops on tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xdsl.dialects.builtin import AnyFloat, f64, i1, i32, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ....dialects import spike
from ....dialects.inference import tensor_type
from ....dialects.spike.threefry import key_schedule, threefry
from ....runtime.native.abi.sizes import ONE, ZERO, Size
from ..linalg.scalars import Scalars, signed_bits
from .nests import Access, Nest, RefusedError
from .program import Planner, Program
from .structured import add_nest, packed

_WORD = 0xFFFFFFFF
_TIME, _PLACE = 0, 1
"""The loops: over the steps, and over all elements in row-major order."""


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
    s, x = Scalars(block.add_op), block.args[0]

    def plus(a: SSAValue, b: SSAValue | int) -> SSAValue:
        return s.add(a, signed_bits(b & _WORD, 32) if isinstance(b, int) else b)

    def rotated(value: SSAValue, bits: int) -> SSAValue:
        left = s.shift_left(value, s.constant(bits, i32))
        return s.either(left, s.shift_right(value, s.constant(32 - bits, i32), unsigned=True))

    time, place = (s.convert(s.index(loop), i64) for loop in (_TIME, _PLACE))
    if op.elapsed is not None:
        time = plus(time, block.args[1])
    counter = plus(s.convert(time, i32), op.start.value.data), s.convert(place, i32)
    schedule = key_schedule(op.seed.value.data)
    drawn, _ = threefry(schedule, counter, plus, s.exclusive, rotated)
    u = s.mul(s.convert(drawn, f64, unsigned=True), 2.0**-32)
    block.add_op(linalg.YieldOp(s.compare("lt", u, s.convert(x, f64))))


RULES: Mapping[type[Operation], Planner] = {spike.EncodeOp: encode}
"""For each op the function that plans it."""
