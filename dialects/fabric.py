"""The dialect `fabric`: what the logic of an FPGA has beyond `hw`, `comb` and `seq`.

Not here: which rows make up a sum (`lowering.to_verilog.circuit.heaps`), and Verilog.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects import comb, hw
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, i64
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ..ir.definition import irdl_op_definition
from .shapes import bit_width, bits_type, ints

INPUTS = 6
"""Of a site's look-up table."""


def row_values(
    tables: Sequence[int], direct: Sequence[int], linked: Sequence[int], inputs: int, carry: int
) -> int:
    """What `fabric.row` gives, as a number; of `inputs` and `carry` as numbers too."""
    result, upper = 0, 0
    sites = len(tables)
    for site, table in enumerate(tables):
        bits = inputs >> (INPUTS * site) & 63
        place = 4 if direct[site] else 5
        if linked[site]:
            bits = bits & ~(1 << place) | upper << place
        propagated = table >> bits & 1
        passing = bits >> place & 1
        upper = table >> (bits & 31) & 1
        generated = passing if direct[site] else upper
        result |= (propagated ^ carry) << site
        carry = carry if propagated else generated
    return result | carry << sites | upper << (sites + 1)


@lru_cache(maxsize=1 << 14)
def _properties(
    tables: tuple[int, ...], direct: tuple[int, ...], linked: tuple[int, ...]
) -> dict[str, DenseArrayBase[IntegerType]]:
    """Of a row; most rows are like another one."""
    signed = [table - (table >> 63 << 64) for table in tables]
    return {"tables": ints(signed), "direct": ints(direct), "linked": ints(linked)}


_places = lru_cache(maxsize=1 << 14)(ints)


@lru_cache(maxsize=1 << 14)
def _numbers(array: bytes) -> tuple[int, ...]:
    """Of an array of 64 bits each."""
    return i64.unpack(array, len(array) // 8)


@lru_cache(maxsize=1 << 15)
def _pairs(array: bytes) -> list[tuple[int, int]]:
    numbers = i64.unpack(array, len(array) // 8)
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _picked(bits: Sequence[tuple[SSAValue, int]]) -> tuple[list[SSAValue], Attribute]:
    """The values that bits are of, and for each bit the number of its value and its place."""
    numbers: dict[int, int] = {}  # by identity: values are told apart so, and hashed in Python
    values: list[SSAValue] = []
    places: list[int] = []
    for value, place in bits:
        number = numbers.get(id(value))
        if number is None:
            number = numbers[id(value)] = len(values)
            values.append(value)
        places += (number, place)
    return values, _places(tuple(places))


class PicksBits(IRDLOperation):
    """An op that takes bits of its operands, two numbers in `places` each: the operand's, and the
    bit's in it."""

    inputs = var_operand_def(IntegerType)
    places = prop_def(DenseArrayBase.constr(i64))
    result = result_def(IntegerType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$inputs attr-dict `:` functional-type(operands, results)"

    @property
    def bits(self) -> list[tuple[int, int]]:
        """For each bit that it takes, the lowest first, the operand's number and the place."""
        return _pairs(self.places.data.data)

    def has_bits(self, count: int) -> bool:
        """Whether it takes so many bits, and all of them are there."""
        if len(self.places) != 2 * count:
            return False
        widths = [bit_width(value.type) or 0 for value in self.operands]
        end = len(widths)
        for number, place in self.bits:
            if not (0 <= number < end and 0 <= place < widths[number]):
                return False
        return 0 not in widths

    def given(self, inputs: Sequence[int]) -> int:
        """The bits as a number, of operands that are known."""
        return sum((inputs[of] >> place & 1) << bit for bit, (of, place) in enumerate(self.bits))


@irdl_op_definition
class BitsOp(PicksBits):
    """Bits of some values beside each other, as `comb.extract` and `comb.concat` of them.

    `places` has two numbers for each bit of the result, the lowest first: of the operand, and of
    the bit in it. Registers take their bits from many values: an op for each of those bits would be
    a large part of a circuit.

        %y = fabric.bits %a, %b {places = array<i64: 0, 3, 1, 0, 0, 1>} : (i4, i1) -> i3
    """

    name = "fabric.bits"

    def __init__(self, bits: Sequence[tuple[SSAValue, int]]) -> None:
        operands, places = _picked(bits)
        Operation.__init__(
            self,
            operands=operands,
            properties={"places": places},
            result_types=[bits_type(len(bits))],
        )

    @property
    def fault(self) -> str:
        """What is wrong with it; empty where nothing is."""
        if self.has_bits(bit_width(self.result.type) or 0):
            return ""
        return "expects an operand and a place in it for each bit of the result"

    def verify_(self) -> None:
        if self.fault:
            raise VerifyException(self.fault)

    def value(self, inputs: Sequence[int]) -> int:
        """The result for operands that are known."""
        return self.given(inputs)


@irdl_op_definition
class RowOp(PicksBits):
    """A carry chain with a look-up table of six inputs and two outputs before each bit.

    `places` has two numbers for each input, of the operand and of the bit in it: six of each site,
    the lowest first, and behind them those of the carry. The look-up table of site k gives the bit
    t[i5 … i0] of its number `tables[k]`, which the carry chain adds, and t[0 i4 … i0], its second
    output. Where `linked[k]` is 1, the second output of the site before takes the place of an
    input: of i4 where `direct[k]` is 1, else of i5. The carry goes on where the first output is 1;
    elsewhere it becomes i4 at a direct site, the second output at another. The result has the sums,
    above them the last carry, and above that the last site's second output.

        %y = fabric.row %x, %c {places = array<i64: 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 1, 0>,
             tables = array<i64: 6>, direct = array<i64: 0>, linked = array<i64: 0>}
             : (i6, i1) -> i3
    """

    name = "fabric.row"

    tables = prop_def(DenseArrayBase.constr(i64))
    direct = prop_def(DenseArrayBase.constr(i64))
    linked = prop_def(DenseArrayBase.constr(i64))

    def __init__(
        self,
        inputs: Sequence[tuple[SSAValue, int]],
        carry: tuple[SSAValue, int],
        tables: Sequence[int],
        direct: Sequence[int],
        linked: Sequence[int],
    ) -> None:
        operands, places = _picked([*inputs, carry])
        Operation.__init__(
            self,
            operands=operands,
            properties={"places": places}
            | _properties(tuple(tables), tuple(direct), tuple(linked)),
            result_types=[bits_type(len(tables) + 2)],
        )

    @property
    def functions(self) -> tuple[int, ...]:
        """The look-up tables as numbers of 64 bits, without a sign."""
        return tuple(table % (1 << 64) for table in _numbers(self.tables.data.data))

    @property
    def flags(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """For each site whether it is direct, and whether it is linked."""
        return _numbers(self.direct.data.data), _numbers(self.linked.data.data)

    @property
    def second_inputs(self) -> list[tuple[bool, ...]]:
        """For each site which of its inputs the second output depends on."""
        return [_support(table) for table in self.functions]

    @property
    def is_chained(self) -> bool:
        """Whether it takes a carry chain: one site alone, whose carry nobody reads, does not."""
        if len(self.tables) > 1:
            return True
        carry = self.operands[self.bits[-1][0]].owner
        if not isinstance(carry, hw.ConstantOp) or carry.value.value.data:
            return True
        return any(_takes_carry(use.operation, self.result) for use in self.result.uses)

    @property
    def fault(self) -> str:
        """What is wrong with it; empty where nothing is."""
        sites, (direct, linked) = len(self.tables), self.flags
        if not sites or not len(direct) == len(linked) == sites:
            return "expects a table, and whether it is direct and linked, for each site"
        if not {*direct, *linked} <= {0, 1} or linked[0]:
            return "expects 0 or 1 for direct and linked sites, and a first site that is not linked"
        if bit_width(self.result.type) == sites + 2 and self.has_bits(INPUTS * sites + 1):
            return ""
        return (
            f"expects an operand and a place in it for each of {INPUTS * sites} inputs and a carry,"
            f" and gives i{sites + 2}, for {sites} sites; got {self.result.type}"
        )

    def verify_(self) -> None:
        if self.fault:
            raise VerifyException(self.fault)

    def value(self, inputs: Sequence[int]) -> int:
        """The result for operands that are known."""
        bits, below = self.given(inputs), INPUTS * len(self.tables)
        return row_values(self.functions, *self.flags, bits & ((1 << below) - 1), bits >> below)


@lru_cache(maxsize=4096)
def _support(table: int) -> tuple[bool, ...]:
    """Which inputs the lower half of a table depends on."""
    bits = [table >> place & 1 for place in range(32)]
    places = range(INPUTS - 1)
    return (*(any(bits[k] != bits[k ^ 1 << i] for k in range(32)) for i in places), False)


def _takes_carry(user: Operation, row: SSAValue) -> bool:
    """Whether an op reads the second bit of its operand."""
    if isinstance(user, PicksBits):
        return (user.operands.index(row), 1) in user.bits
    if not isinstance(user, comb.ExtractOp):
        return True
    low = user.low_bit.value.data
    return low <= 1 < low + (bit_width(user.result.type) or 1)


Fabric = Dialect("fabric", [BitsOp, RowOp], [])
