"""Writes one function of a compiled program: sizes as values, and `arith` and `math` on vectors.

xDSL knows many ops of `arith` on scalars only, so what stands in the bodies of loops becomes ops of
the `llvm` dialect at once, by the rules of the passes `convert-arith-to-llvm` and
`convert-math-to-llvm`. Not here: loops (`loops`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import cast

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    LocationAttr,
    UnrealizedConversionCastOp,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from ....runtime.native.abi.sizes import Extreme, Quotient, Size, Symbol
from ..kernels.code import POINTER, Code
from ..llvm.convert_arith import RULES as ARITH_RULES
from ..llvm.convert_arith import (
    constant_value,
    extreme_of_doubles,
    extreme_of_numbers,
    extreme_of_registers,
    lane_by_lane,
    multiply_halves,
)
from ..llvm.convert_math import rules_for
from ..llvm.types import converted, element, lanes, like, vector
from ..llvm.walk import Rule
from .views import has_no_sign, stored


@cache
def rules(features: frozenset[str] = frozenset()) -> Mapping[type[Operation], Rule]:
    """What makes `llvm` ops of an op in the body of a loop, for a processor with these features."""
    known = {**ARITH_RULES, **rules_for("none", features)}
    if "avx2" in features:
        known[arith.MulSIExtendedOp] = multiply_halves
        known[arith.MaximumfOp] = extreme_of_registers("maximum", features)
        known[arith.MinimumfOp] = extreme_of_registers("minimum", features)
    else:
        for kind in (arith.MaxSIOp, arith.MinSIOp, arith.TruncIOp):
            known[kind] = lane_by_lane(known[kind])
    if not features:
        known[arith.MaxnumfOp] = extreme_of_numbers("ogt")
        known[arith.MinnumfOp] = extreme_of_numbers("olt")
        for kind, predicate in ((arith.MaximumfOp, "ogt"), (arith.MinimumfOp, "olt")):
            known[kind] = extreme_of_doubles(predicate, known[kind])
    return known


class Writer(Code):
    """Appends to a function whose last arguments are the free sizes.

    Attributes:
        free: these.
        location: of the ops that are appended, but for those at the start of the function.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[Attribute],
        free: int,
        *,
        features: frozenset[str] = frozenset(),
        location: LocationAttr | None = None,
    ) -> None:
        super().__init__(name, [*arguments, *[i64] * free])
        self.location = self._own_location = location
        self._builder.operation_insertion_handler.append(self._locate)
        self._rules = rules(features)
        self.free = self.arguments[len(arguments) :]
        for number, size in enumerate(self.free):
            size.name_hint = f"size{number}" if number else "batch"
        self._sizes: dict[Size, SSAValue] = {}

    def finish(
        self,
        *results: SSAValue,
        linkage: str = "internal",
        attributes: Sequence[Mapping[str, Attribute]] = (),
    ) -> llvm.FuncOp:
        """See `Code.finish`; the attributes are those of the first arguments."""
        function = super().finish(*results, linkage=linkage)
        if attributes:
            known = [DictionaryAttr(dict(attribute)) for attribute in attributes]
            rest = [DictionaryAttr({}) for _ in self.arguments[len(known) :]]
            function.arg_attrs = ArrayAttr([*known, *rest])
        if self._own_location is not None:
            function.location = self._own_location
        return function

    def _locate(self, op: Operation) -> None:
        if self.location is not None:
            op.location = self.location

    def null(self) -> SSAValue:
        """A pointer to nothing."""
        return self.insert(llvm.ZeroOp(result_types=[POINTER]))

    def size(self, size: Size) -> SSAValue:
        """A size as an i64; what depends on free ones is computed at the start of the function."""
        if size.number is not None:
            return self.constant(size.number)
        known = self._sizes.get(size)
        if known is None:
            ops: list[Operation] = []
            known = self._sizes[size] = self._sum(size, ops)
            self.behind_constants(ops)
        return known

    def _sum(self, size: Size, ops: list[Operation]) -> SSAValue:
        """A size by ops that are added to a list."""

        def new(op: Operation) -> SSAValue:
            ops.append(op)
            return op.results[0]

        if not size.terms:
            return self.constant(0)
        total: SSAValue | None = None
        for symbols, factor in size.terms:
            term: SSAValue | None = None
            for symbol in symbols:
                one = self._symbol(symbol, ops)
                term = one if term is None else new(llvm.MulOp(term, one))
            number = self.constant(factor) if factor != 1 or term is None else None
            if number is not None:
                term = number if term is None else new(llvm.MulOp(term, number))
            assert term is not None
            total = term if total is None else new(llvm.AddOp(total, term))
        assert total is not None
        return total

    def _symbol(self, symbol: Symbol, ops: list[Operation]) -> SSAValue:
        match symbol:
            case int():
                return self.free[symbol]
            case Quotient():
                numerator = self._sum(symbol.numerator, ops)
                ops.append(llvm.UDivOp(numerator, self.constant(symbol.divisor)))
            case Extreme():
                first, second = (self._sum(size, ops) for size in symbol.sizes)
                predicate = llvm.ICmpPredicateFlag("sgt" if symbol.larger else "slt").to_int()
                chosen = llvm.ICmpOp(first, second, IntegerAttr(predicate, i64))
                ops += [chosen, llvm.SelectOp(chosen.res, first, second)]
        return ops[-1].results[0]

    def move(
        self, base: SSAValue, terms: Sequence[tuple[SSAValue, Size]], kind: Attribute
    ) -> SSAValue:
        """The address of base[Σ index·stride], for elements of a stored type."""
        for index, stride in terms:
            if stride.number == 0:
                continue
            place = index if stride.number == 1 else self.mul(index, self.size(stride))
            base = self.at(base, place, kind)
        return base

    # Elements

    def load_element(
        self, address: SSAValue, element: Attribute, kind: Attribute, width: int | None
    ) -> SSAValue:
        """One element, or `width` in a row, as values of `kind` in the body of a loop."""
        value = self.load(address, wide_type(stored(element), width))
        return self.loaded(value, element, kind)

    def loaded(self, value: SSAValue, element: Attribute, kind: Attribute) -> SSAValue:
        """What was loaded as a value of a body: truth values are bytes, integers may be narrow."""
        wanted = like(value.type, converted(kind))
        if value.type == wanted:
            return value
        return self.resize(value, wanted, unsigned=has_no_sign(element))

    def storable(self, value: SSAValue, element: Attribute) -> SSAValue:
        """A value of a body as it is stored."""
        wanted = like(value.type, stored(element))
        if value.type == wanted:
            return value
        return self.resize(value, wanted, unsigned=element == i1)

    def gather(
        self,
        address: SSAValue,
        stride: SSAValue,
        element: Attribute,
        type: Attribute,
        width: int,
    ) -> SSAValue:
        """`width` elements that are `stride` apart, as values of `type`."""
        kind = stored(element)
        result = self.insert(llvm.UndefOp(vector(kind, width)))
        for lane in range(width):
            value = self.load(address, kind)
            result = self.insert(llvm.InsertElementOp(result, value, self.constant(lane, i32)))
            if lane + 1 < width:
                address = self.at(address, stride, kind)
        return self.loaded(result, element, type)

    def load_every_second(
        self, address: SSAValue, element: Attribute, type: Attribute, width: int
    ) -> SSAValue:
        """`gather` of elements that are 2 apart: two loads, which end where the last one does."""
        kind = wide_type(stored(element), width)
        first = self.load(address, kind)
        second = self.load(self.at(address, width - 1, stored(element)), kind)
        places = [2 * n if 2 * n < width else 2 * n + 1 for n in range(width)]
        return self.loaded(self.shuffle(first, second, places), element, type)

    def scatter(self, value: SSAValue, address: SSAValue, stride: SSAValue, width: int) -> None:
        """Store the lanes of a vector `stride` elements apart."""
        kind = cast("VectorType[Attribute]", value.type).element_type
        for lane in range(width):
            self.store(self.lane(value, lane), address)
            if lane + 1 < width:
                address = self.at(address, stride, kind)

    def wide(self, value: SSAValue, width: int | None) -> SSAValue:
        """A scalar in every lane."""
        return value if width is None else self.splat(value, width)

    def literal(self, op: arith.ConstantOp, width: int | None) -> SSAValue:
        """A scalar `arith.constant`, in every lane."""
        kind = converted(op.result.type)
        content = constant_value(op.value, kind)
        assert isinstance(content, IntegerAttr | FloatAttr)
        number = cast("IntegerAttr | FloatAttr", content).value.data
        return self.constant(number, wide_type(kind, width))

    def neutral(self, value: int | float, type: Attribute) -> SSAValue:
        """A number as a value of the type of a body, scalar or vector."""
        scalar = converted(element(type))
        if isinstance(element(type), AnyFloat):
            scalar_op = arith.ConstantOp(FloatAttr(float(value), cast("AnyFloat", element(type))))
            return self.literal(scalar_op, lanes(type))
        return self.constant(int(value), wide_type(scalar, lanes(type)))

    def counted(self, first: SSAValue, width: int | None) -> SSAValue:
        """first, first + 1, … in the lanes."""
        if width is None:
            return first
        steps = self.listed(range(width), VectorType(i64, [width]))
        return self.add(self.splat(first, width), steps)

    def apply(
        self, op: Operation, operands: Sequence[SSAValue], width: int | None
    ) -> list[SSAValue]:
        """The results of an op of a body, for operands in `llvm` types: scalars or vectors."""
        types = [wide_type(value.type, width) for value in op.operands]
        # The rules read types off the op; these stand for values of types that it shall have.
        typed = [UnrealizedConversionCastOp.get([], [kind]).results[0] for kind in types]
        carrier = type(op).create(
            operands=typed,
            result_types=[wide_type(value.type, width) for value in op.results],
            properties=dict(op.properties),
        )
        results = self._rules[type(op)](self, carrier, operands)
        return [results] if isinstance(results, SSAValue) else list(results)


def wide_type(kind: Attribute, width: int | None) -> Attribute:
    """The vector of so many elements; the scalar itself for `None`."""
    return kind if width is None else vector(kind, width)
