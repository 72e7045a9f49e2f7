"""The dialect `fabric`: what the logic of an FPGA has beyond `hw`, `comb` and `seq`.

Not here: which rows make up a sum (`lowering.to_verilog.circuit.heaps`), and Verilog.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects import comb, hw
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, i1, i64
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
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


@lru_cache(maxsize=1 << 14)
def _pairs(array: bytes) -> list[tuple[int, int]]:
    numbers = _numbers(array)
    return list(zip(numbers[::2], numbers[1::2], strict=True))


@irdl_op_definition
class BitsOp(IRDLOperation):
    """Bits of some values beside each other, as `comb.extract` and `comb.concat` of them.

    `places` has two numbers for each bit of the result, the lowest first: of the operand, and of
    the bit in it. Rows take their inputs from many values: an op for each of those bits would be
    most of a circuit.

        %y = fabric.bits %a, %b {places = array<i64: 0, 3, 1, 0, 0, 1>} : (i4, i1) -> i3
    """

    name = "fabric.bits"

    inputs = var_operand_def(IntegerType)
    places = prop_def(DenseArrayBase.constr(i64))
    result = result_def(IntegerType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$inputs attr-dict `:` functional-type(operands, results)"

    def __init__(self, bits: Sequence[tuple[SSAValue, int]]) -> None:
        numbers: dict[SSAValue, int] = {}
        places: list[int] = []
        for value, place in bits:
            places += (numbers.setdefault(value, len(numbers)), place)
        Operation.__init__(
            self,
            operands=[*numbers],
            properties={"places": _places(tuple(places))},
            result_types=[bits_type(len(bits))],
        )

    @property
    def bits(self) -> list[tuple[int, int]]:
        """For each bit of the result, the lowest first, the operand's number and the place."""
        return _pairs(self.places.data.data)

    @property
    def is_legal(self) -> bool:
        """Whether all of the bits are there."""
        if len(self.places) != 2 * (bit_width(self.result.type) or 0):
            return False
        widths = [bit_width(value.type) or 0 for value in self.operands]
        count = len(widths)
        for number, place in self.bits:
            if not (0 <= number < count and 0 <= place < widths[number]):
                return False
        return True

    def verify_(self) -> None:
        if not self.is_legal:
            raise VerifyException("expects an operand and a place in it for each bit of the result")

    def value(self, inputs: Sequence[int]) -> int:
        """The result for operands that are known."""
        return sum((inputs[of] >> place & 1) << bit for bit, (of, place) in enumerate(self.bits))


@irdl_op_definition
class RowOp(IRDLOperation):
    """A carry chain with a look-up table of six inputs and two outputs before each bit.

    Site k takes bits 6k to 6k + 5 of the inputs. Its look-up table gives the bit t[i5 … i0] of its
    number `tables[k]`, which the carry chain adds, and t[0 i4 … i0], its second output. Where
    `linked[k]` is 1, the second output of the site before takes the place of an input: of i4 where
    `direct[k]` is 1, else of i5. The carry goes on where the first output is 1; elsewhere it
    becomes i4 at a direct site, the second output at another. The result has the sums, above them
    the last carry, and above that the last site's second output.

        %y = fabric.row %x, %c {tables = array<i64: 6, 6>, direct = array<i64: 0, 0>,
             linked = array<i64: 0, 1>} : (i12, i1) -> i4
    """

    name = "fabric.row"

    inputs = operand_def(IntegerType)
    carry = operand_def(IntegerType)
    tables = prop_def(DenseArrayBase.constr(i64))
    direct = prop_def(DenseArrayBase.constr(i64))
    linked = prop_def(DenseArrayBase.constr(i64))
    result = result_def(IntegerType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$inputs `,` $carry attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        inputs: SSAValue,
        carry: SSAValue,
        tables: Sequence[int],
        direct: Sequence[int],
        linked: Sequence[int],
    ) -> None:
        Operation.__init__(
            self,
            operands=[inputs, carry],
            properties=_properties(tuple(tables), tuple(direct), tuple(linked)),
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
        carry = self.carry.owner
        if not isinstance(carry, hw.ConstantOp) or carry.value.value.data:
            return True
        return any(_takes_carry(use.operation, self.result) for use in self.result.uses)

    def verify_(self) -> None:
        sites, (direct, linked) = len(self.tables), self.flags
        if not sites or not len(direct) == len(linked) == sites:
            raise VerifyException(
                "expects a table, and whether it is direct and linked, for each site"
            )
        if not {*direct, *linked} <= {0, 1} or linked[0]:
            raise VerifyException(
                "expects 0 or 1 for direct and linked sites, and a first site that is not linked"
            )
        widths = [bit_width(value.type) for value in (self.inputs, self.carry, self.result)]
        if widths != [INPUTS * sites, 1, sites + 2] or self.carry.type != i1:
            raise VerifyException(
                f"expects i{INPUTS * sites} and i1, and gives i{sites + 2}, for {sites} sites; got "
                f"{self.inputs.type}, {self.carry.type} and {self.result.type}"
            )

    def value(self, inputs: int, carry: int) -> int:
        """The result for operands that are known."""
        return row_values(self.functions, *self.flags, inputs, carry)


@lru_cache(maxsize=4096)
def _support(table: int) -> tuple[bool, ...]:
    """Which inputs the lower half of a table depends on."""
    bits = [table >> place & 1 for place in range(32)]
    places = range(INPUTS - 1)
    return (*(any(bits[k] != bits[k ^ 1 << i] for k in range(32)) for i in places), False)


def _takes_carry(user: Operation, row: SSAValue) -> bool:
    """Whether an op reads the second bit of its operand."""
    if isinstance(user, BitsOp):
        return (user.operands.index(row), 1) in user.bits
    if not isinstance(user, comb.ExtractOp):
        return True
    low = user.low_bit.value.data
    return low <= 1 < low + (bit_width(user.result.type) or 1)


Fabric = Dialect("fabric", [BitsOp, RowOp], [])
