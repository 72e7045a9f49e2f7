"""Integers of 64 bits in the bodies of loops that 32 bits hold: half as many registers.

Rescaling is 64 bits wide in the IR; but for one product, its numbers are not, and of that the upper
half is enough. Bounds that no number reaches go. Not here: which numbers there are (`intervals`),
what stands in memory (`narrowing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from .intervals import Interval, Values, as_given, interval, values_behind, values_in
from .structured import NestStep
from .views import Buffer

_BITS = 32
_LOW, _HIGH = -(1 << 31), (1 << 31) - 1
_SAME = arith.AddiOp | arith.SubiOp | arith.MuliOp | arith.ShRSIOp | arith.ShLIOp
_BOUNDS = arith.MaxSIOp | arith.MinSIOp


def shorten(steps: Sequence[NestStep], known: Mapping[Buffer, Interval]) -> None:
    """Compute in 32 bits what they hold.

    Args:
        steps: loops.
        known: what stands in their tensors.
    """
    for step in steps:
        nest = as_given(step)
        if nest.behind is not None:
            _Shortening(nest.behind.body, values_behind(nest, known)).run()
        _Shortening(nest.body, values_in(nest, known)).run()


class _Shortening:
    """Rewrites one body."""

    def __init__(self, body: Block, values: Values) -> None:
        self._body = body
        self._values = dict(values)
        self._short: dict[SSAValue, SSAValue] = {}
        """For values of 64 bits, the same in 32."""

    def run(self) -> None:
        """Rewrite op by op; what nothing needs any more goes."""
        for op in list(self._body.ops):
            self._rewrite(op)
        for op in reversed(list(self._body.ops)):
            if op.results and not any(list(result.uses) for result in op.results):
                self._body.erase_op(op)

    def _fits(self, value: SSAValue) -> bool:
        found = interval(value, self._values)
        return found is not None and found[0] >= _LOW and found[1] <= _HIGH

    def _can_be_short(self, op: Operation) -> bool:
        """Whether 32 bits hold all that an op takes and gives, and can be shifted so far."""
        if isinstance(op, arith.ShRSIOp | arith.ShLIOp):
            by = interval(op.operands[1], self._values)
            if by is None or by[0] < 0 or by[1] >= _BITS:
                return False
        return all(self._fits(v) for v in (*op.operands, *op.results))

    def _rewrite(self, op: Operation) -> None:
        if isinstance(op, _BOUNDS) and (kept := self._unbounded(op)) is not None:
            if op.result in self._short or kept in self._short:
                self._short[op.result] = self._short[kept]
            op.result.replace_all_uses_with(kept)
            return
        if isinstance(op, arith.ExtSIOp) and op.result.type == i64:
            source = op.input
            if source.type != i32:
                source = self._insert(op, arith.ExtSIOp(source, i32))
            self._short[op.result] = source
        elif isinstance(op, arith.ConstantOp) and op.result.type == i64:
            number = interval(op.result, self._values)
            if number is not None and self._fits(op.result):
                short = arith.ConstantOp(IntegerAttr(number[0], i32))
                self._short[op.result] = self._insert(op, short)
        elif isinstance(op, _SAME | _BOUNDS) and op.result.type == i64:
            if self._can_be_short(op):
                operands = [self._shortened(op, v) for v in op.operands]
                short = type(op).create(
                    operands=operands, result_types=[i32], properties=dict(op.properties)
                )
                self._short[op.result] = self._insert(op, short)
            elif isinstance(op, arith.ShRSIOp):
                self._halve(op)
        elif isinstance(op, arith.CmpiOp) and op.lhs.type == i64:
            if all(self._fits(v) for v in op.operands):
                for position, value in enumerate(op.operands):
                    op.operands[position] = self._shortened(op, value)
        elif isinstance(op, arith.TruncIOp) and op.input in self._short:
            source = self._short[op.input]
            if op.result.type == i32:
                op.result.replace_all_uses_with(source)
            else:
                op.operands[0] = source

    def _halve(self, op: arith.ShRSIOp) -> None:
        """Of a product that is divided by a power of two and rounded, take the upper half.

        It is put together of two products of 32 bits where they hold these. Else, and
        with a further factor of 2ᵗ so that n + t > 32, ⌊(x·m + 2ⁿ⁻¹) / 2ⁿ⌋ is
        ⌊(⌊2ᵗ·x·m / 2³²⌋ + 2ⁿ⁺ᵗ⁻³³) / 2ⁿ⁺ᵗ⁻³²⌋.
        """
        total, by = op.lhs.owner, interval(op.rhs, self._values)
        if not isinstance(total, arith.AddiOp) or by is None or not 0 < by[0] <= by[1] < 2 * _BITS:
            return
        product, half = (v.owner for v in total.operands)
        if not isinstance(product, arith.MuliOp) or not self._is_half(half, op.rhs, by):
            return
        bounds = [interval(v, self._values) for v in product.operands]
        if (1, 1) in bounds and by[1] <= _BITS:
            self._round(op, product.operands[bounds.index((1, 1)) - 1], by[0])
            return
        most = [_HIGH + 1 if b is None else max(-b[0], b[1]) for b in bounds]
        further = max(0, _BITS + 1 - by[0])
        if min(most) << further > _HIGH or max(most) > _HIGH or by[1] + further >= 2 * _BITS:
            return
        x, m = (self._shortened(op, v) for v in product.operands)
        large = 1
        if most[0] > most[1]:
            x, m, large = m, x, 0
        bits = _low_bits(min(most), bounds[large] or (0, _HIGH), by)
        if bits is not None and self._fits(op.result):
            self._multiply_parts(op, x, m, bits)
            return
        if further:
            x = self._insert(op, arith.ShLIOp(x, self._number(op, further)))
        product = arith.MulSIExtendedOp(x, m)
        self._insert(op, product)
        upper = product.high
        bits = self._shortened(op, op.rhs)
        rest = self._insert(op, arith.SubiOp(bits, self._number(op, _BITS - further)))
        before = self._insert(op, arith.SubiOp(bits, self._number(op, _BITS + 1 - further)))
        half_step = self._insert(op, arith.ShLIOp(self._number(op, 1), before))
        rounded = self._insert(op, arith.AddiOp(upper, half_step))
        self._short[op.result] = self._insert(op, arith.ShRSIOp(rounded, rest))

    def _multiply_parts(self, op: arith.ShRSIOp, x: SSAValue, m: SSAValue, bits: int) -> None:
        """See `_low_bits`: ⌊(x·m + 2ⁿ⁻¹) / 2ⁿ⌋ by products of x with both parts of m = h·2ᵏ + l.

        It is ⌊(x·h + ⌊x·l / 2ᵏ⌋ + 2ⁿ⁻ᵏ⁻¹) / 2ⁿ⁻ᵏ⌋, and x·h + ⌊(x·l + 2ⁿ⁻¹) / 2ⁿ⌋ where k = n.
        """
        by = self._shortened(op, op.rhs)
        known = interval(op.rhs, self._values)
        to, half = self._number(op, bits), self._number(op, 1 << bits - 1)
        high = self._insert(op, arith.ShRSIOp(self._insert(op, arith.AddiOp(m, half)), to))
        low = self._insert(op, arith.SubiOp(m, self._insert(op, arith.ShLIOp(high, to))))
        upper, lower = (self._insert(op, arith.MuliOp(x, part)) for part in (high, low))
        if known == (bits, bits):
            lower = self._insert(op, arith.AddiOp(lower, half))
        lower = self._insert(op, arith.ShRSIOp(lower, to))
        total = self._insert(op, arith.AddiOp(upper, lower))
        if known != (bits, bits):
            rest = self._insert(op, arith.SubiOp(by, to))
            before = self._insert(op, arith.SubiOp(by, self._number(op, bits + 1)))
            half_step = self._insert(op, arith.ShLIOp(self._number(op, 1), before))
            total = self._insert(op, arith.AddiOp(total, half_step))
            total = self._insert(op, arith.ShRSIOp(total, rest))
        self._short[op.result] = total

    def _round(self, op: arith.ShRSIOp, value: SSAValue, least: int) -> None:
        """⌊(x + 2ⁿ⁻¹) / 2ⁿ⌋ as ⌊(⌊x / 2ⁿ⁻¹⌋ + 1) / 2⌋ for n from `least` on, where all of it has 32
        bits."""
        known = interval(value, self._values)
        if known is None or known[0] < _LOW or known[1] >> least - 1 >= _HIGH:
            return
        x, bits, one = self._shortened(op, value), self._shortened(op, op.rhs), self._number(op, 1)
        less = self._insert(op, arith.SubiOp(bits, one))
        kept = self._insert(op, arith.ShRSIOp(x, less))
        kept = self._insert(op, arith.AddiOp(kept, one))
        self._short[op.result] = self._insert(op, arith.ShRSIOp(kept, one))

    def _number(self, op: Operation, value: int) -> SSAValue:
        return self._insert(op, arith.ConstantOp(IntegerAttr(value, i32)))

    def _is_half(self, half: Operation | Block, bits: SSAValue, by: Interval) -> bool:
        """Whether an op gives half of two to the power of `bits`."""
        if not isinstance(half, arith.ShLIOp | arith.ConstantOp):
            return False
        known = interval(half.result, self._values)
        if by[0] == by[1]:
            return known == (1 << by[0] - 1,) * 2
        power = half.operands[1].owner if isinstance(half, arith.ShLIOp) else None
        if not isinstance(power, arith.SubiOp) or power.lhs is not bits:
            return False
        one = [interval(v, self._values) for v in (half.operands[0], power.rhs)]
        return one == [(1, 1), (1, 1)]

    def _unbounded(self, op: arith.MaxSIOp | arith.MinSIOp) -> SSAValue | None:
        """The operand that an op gives in any case."""
        a, b = (interval(v, self._values) for v in op.operands)
        if a is None or b is None:
            return None
        if isinstance(op, arith.MinSIOp):
            a, b = b, a
        # Now `a` is that of the first operand where it is the larger, or the smaller, of both.
        if a[0] >= b[1]:
            return op.operands[0]
        return op.operands[1] if b[0] >= a[1] else None

    def _shortened(self, op: Operation, value: SSAValue) -> SSAValue:
        """A value of 64 bits in 32."""
        known = self._short.get(value)
        if known is None:
            known = self._short[value] = self._insert(op, arith.TruncIOp(value, i32))
        return known

    def _insert(self, op: Operation, new: Operation) -> SSAValue:
        """Put an op in front of another one."""
        Builder(InsertPoint.before(op)).insert(new)
        return new.results[0]


def _low_bits(most: int, m: Interval, by: Interval) -> int | None:
    """How many bits the lower part of a factor has, so that 32 bits hold what comes of products.

    The lower part is from -2ᵏ⁻¹ to 2ᵏ⁻¹ - 1. All that is shifted to the right has to be held;
    other sums may wrap around.

    Args:
        most: the largest magnitude of the other factor.
        m: what the factor can be.
        by: by how many bits the product is shifted to the right.
    """
    (first, last), size = by, max(-m[0], m[1])
    if first == last < _BITS - 1 and (most + 1 << last - 1) <= _HIGH:
        return last if m[1] + (1 << last - 1) <= _HIGH else None
    for bits in range(min(first - 1, _BITS - 2), max(last - _BITS, 0), -1):
        sums = (most * size >> bits) + 2 + (1 << last - bits - 1)
        if max(sums, most << bits - 1, m[1] + (1 << bits - 1)) <= _HIGH:
            return bits
    return None
