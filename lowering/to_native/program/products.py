"""Products with trits as calls of kernels: weights in their layout, tables, scratch memory.

A new kind of product is a rule here, and a line in `to_native.ternary_products`. Not here: the
kernels (`to_native.kernels`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import Float32Type, IntegerType, f32, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from ....dialects import ternary
from ....dialects.inference import tensor_type
from ....dialects.parameters import constant_value
from ....ir.arrays import Array
from ....passes.analysis.compile_time import defining_literal
from ....runtime.native.abi.layouts import weights_in
from ....runtime.native.abi.linear import (
    PANEL,
    Kind,
    Layout,
    order_of,
    scratch_bytes,
    weight_bytes,
)
from ....runtime.native.abi.sizes import ZERO, Size, product
from ....runtime.native.abi.sparse import worthwhile
from ....runtime.native.abi.tables import threshold_table, trit_sums
from ..kernels.activations import prepare_name
from ..kernels.epilogue import Activation, Epilogue, Requantize, Spread, Thresholds
from ..kernels.kernel import linear_functions, shared_functions
from ..linalg.linalg_builder import LinalgBuilder
from ..ternary_products import kind_of
from . import bitplane_products
from .nests import RefusedError
from .program import KernelStep, Planner, Program, SharedStep
from .schedule import ENOUGH_THINGS
from .structured import packed
from .views import Buffer, View, stored
from .writer import Writer

_PERIOD = 16
"""Rows after which the size of scratch memory grows evenly."""
_ROWS = 16
"""Rows of activations that a thread takes at a time."""


class LinearVariant(NamedTuple):
    """What the functions of a product are made for."""

    kind: Kind
    layout: Layout
    epilogue: Epilogue


@dataclass
class LinearStep(SharedStep):
    """One call of `linear_<suffix>`, which is left out where there are no rows.

    Attributes:
        prepare: the function that prepares rows; nothing where threads cannot share panels out.
    """

    prepare: str = ""

    @property
    def _few_rows(self) -> int:
        """Things that are a few rows of activations."""
        return -(-self.sizes[0].at(1) // _ROWS)

    @property
    def _panels(self) -> int:
        """Things that are panels of outputs, for all rows."""
        return -(-self.sizes[2].at(1) // PANEL) if self.prepare else 1

    @property
    def _by_rows(self) -> bool:
        return self._few_rows >= min(self._panels, ENOUGH_THINGS)

    @property
    def things(self) -> int:
        """A few rows of activations, or panels of outputs."""
        return self._few_rows if self._by_rows else self._panels

    @property
    def preparation(self) -> KernelStep | None:
        """What comes before any panel; who takes rows prepares them."""
        if self._by_rows:
            return None
        rows, ins, _ = self.sizes
        return KernelStep(self.prepare, self.operands[:1], (), (rows, ins, ZERO, rows), self.memory)

    def compute(
        self,
        writer: Writer,
        address: Callable[[View], SSAValue],
        bounds: tuple[SSAValue, SSAValue],
    ) -> None:
        """Append the call for some rows, or for some panels of rows that are prepared."""
        rows, ins, outs = self.sizes
        each, all_ = (_ROWS, rows.at(1)) if self._by_rows else (PANEL, outs.at(1))
        first, end = (writer.mul(bound, each) for bound in bounds)
        end = writer.select(writer.icmp("slt", end, all_), end, all_)
        if not self._by_rows:
            name = self.name.replace("linear", "compute", 1)
            call = KernelStep(
                name, self.operands[1:], self.outputs, self.sizes, self.memory, place=1
            )
            call.call(writer, address, first, end)
            return
        widths = {self.reads[0]: ins, self.outputs[0]: outs}

        def of_rows(view: View) -> SSAValue:
            place = address(view)
            if view not in widths:
                return place
            away = writer.mul(first, widths[view].at(1))
            return writer.at(place, away, stored(view.element))

        counts = writer.sub(end, first), writer.size(ins), writer.size(outs)
        KernelStep(self.name, self.operands, self.outputs, (), self.memory, self.place).call(
            writer, of_rows, *counts
        )

    def call(self, writer: Writer, address: Callable[[View], SSAValue], *more: SSAValue) -> None:
        """See `KernelStep.call`."""
        rows = self.sizes[0]
        if rows.number is not None:
            super().call(writer, address, *more)
            return
        with writer.when(writer.icmp("sgt", writer.size(rows), 0)):
            super().call(writer, address, *more)


def matmul(program: Program, op: ternary.MatmulOp) -> None:
    """`ternary.matmul` with a matrix that is known."""
    if bitplane_products.suits(program, op):
        bitplane_products.plan(program, op)
    else:
        linear(program, op)


def linear(program: Program, op: ternary.LinearOp | ternary.MatmulOp) -> None:
    """`ternary.linear`, `ternary.matmul` with a matrix that is known."""
    kind = kind_of(tensor_type(op.input).element_type, program.precision)
    weight = defining_literal(op.weight)
    if kind is None or weight is None:
        raise RefusedError("no kernel takes it; lower it with 'convert-tensor-to-linalg'")
    held = program.outside and isinstance(weight, ternary.ParameterOp) and not kind.offset
    trits = None if held else constant_value(weight)
    ins, outs = tensor_type(weight.result).get_shape()
    x = packed(program, program.view(op.input))
    program.meet(x.sizes[-1], Size.of(ins))
    sizes = (*x.sizes[:-1], Size.of(outs))
    rows = product(x.sizes[:-1])
    epilogue, tables = Tables(program, op, kind, None if trits is None else trits.T).read()
    y = program.new(LinalgBuilder.signless(tensor_type(op.result).element_type), sizes)
    program.views[op.result] = y
    if rows == ZERO:
        return
    layout: Layout = "panels"
    if trits is None:
        assert isinstance(weight, ternary.ParameterOp)
        weights = program.held_weights(weight.key.data, layout, weight_bytes(layout, ins, outs))
    else:
        layout = "sparse" if worthwhile(trits.T, rows.at(1)) else layout
        weights = program.constant(weights_in(layout, trits.T).view(np.int8), i8)
    variant = LinearVariant(kind, layout, epilogue)
    sizes = (rows, Size.of(ins), Size.of(outs))
    memory = Buffer(i8, scratch_size(rows, ins, outs, kind))
    name = f"linear_{program.kernel(variant, kind.activations)}"
    prepare = prepare_name(kind, order_of(layout)) if layout == "panels" else ""
    operands = [x, weights, *tables]
    program.steps.append(LinearStep(name, operands, [y], sizes, memory, 2, prepare))


def scratch_size(rows: Size, ins: int, outs: int, kind: Kind) -> Size:
    """At least `scratch_bytes` for every batch."""
    if rows.number is not None:
        return Size.of(scratch_bytes(rows.number, ins, outs, kind.digits))
    start = scratch_bytes(0, ins, outs, kind.digits)
    each = scratch_bytes(_PERIOD, ins, outs, kind.digits) - start
    return Size.of(start + each) + rows * Size.of(-(-each // _PERIOD))


class Tables:
    """Reads what follows a product: the epilogue, and the tables that it needs."""

    def __init__(
        self,
        program: Program,
        op: ternary.FusedOp | ternary.MatmulOp,
        kind: Kind,
        trits: Array | None,
    ) -> None:
        self._program = program
        self._op = op
        self._kind = kind
        self._trits = trits

    def read(self) -> tuple[Epilogue, list[View | None]]:
        """The epilogue; scale, bias, table, shift."""
        op = self._op
        scale, spread = self._vector("scale")
        bias = self._bias()
        scale_view = None if scale is None else self._program.constant(scale, f32)
        bias_view = None
        if bias is not None:
            bias_view = self._program.constant(bias, f32 if self._kind.floating else i32)
        if isinstance(op, ternary.MatmulOp):
            epilogue = Epilogue(spread, bias is not None)
            return epilogue, [scale_view, bias_view, None, None]
        then, table, shift = self._then(op)
        activation = cast("Activation", op.activation.data)
        epilogue = Epilogue(spread, bias is not None, activation, then)
        return epilogue, [scale_view, bias_view, table, shift]

    def _values(self, name: str) -> Array | None:
        value: SSAValue | None = getattr(self._op, name, None)
        if value is None:
            return None
        owner = defining_literal(value)
        if owner is None:
            raise RefusedError(f"its {name} is computed")
        return constant_value(owner)

    def _vector(self, name: str) -> tuple[Array | None, Spread | None]:
        values = self._values(name)
        if values is None:
            return None, None
        return values.reshape(-1), "all" if values.size == 1 else "channel"

    def _bias(self) -> Array | None:
        values = self._values("bias")
        offset = self._kind.offset
        if not offset or self._trits is None:
            return values
        correction = trit_sums(self._trits).astype(np.int64) * offset
        total = correction if values is None else correction + values
        return (total & 0xFFFFFFFF).astype(np.uint32).view(np.int32)

    def _then(
        self, op: ternary.FusedOp
    ) -> tuple[Thresholds | Requantize | None, View | None, View | None]:
        width = _width(tensor_type(op.result).element_type)
        thresholds = self._values("thresholds")
        if thresholds is not None:
            table = self._program.constant(threshold_table(thresholds), i32)
            spread: Spread = "all" if thresholds.shape[0] == 1 else "channel"
            return Thresholds(thresholds.shape[1], spread, width), table, None
        factors, each = self._vector("multiplier")
        bits, shared = self._vector("shift")
        zero = self._values("zero_point")
        if factors is None or bits is None or zero is None or op.low is None or op.high is None:
            return None, None, None
        assert each is not None and shared is not None
        low, high = op.low.value.data, op.high.value.data
        then = Requantize(each, shared, int(zero), low, high, width)
        return then, self._program.constant(factors, i32), self._program.constant(bits, i32)


def _width(element: Attribute) -> int:
    if isinstance(element, IntegerType):
        return cast("IntegerType", element).width.data
    assert isinstance(element, Float32Type)
    return 32


def functions(program: Program) -> list[llvm.FuncOp]:
    """The kernels that the steps of a program call."""
    variants = program.kernels_of(LinearVariant)
    kernels = shared_functions(program.recipe, [(v.kind, v.layout) for v, _ in variants])
    for (kind, layout, epilogue), suffix in variants:
        kernels += linear_functions(program.recipe, kind, epilogue, suffix, layout)
    return kernels


RULES: Mapping[type[Operation], Planner] = {
    ternary.LinearOp: linear,
    ternary.MatmulOp: matmul,
}
"""For each kept product the function that plans it."""
