"""Ops on shapes: views where strides can say it, else copies; arithmetic on sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.dialects import arith
from xdsl.dialects import tensor as upstream
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Operation, SSAValue

from ....dialects import tensor, ternary
from ....dialects.inference import tensor_type
from ....dialects.parameters import constant_value
from ....dialects.shapes import DYNAMIC
from ....passes.analysis.compile_time import Literal
from ....runtime.native.abi.sizes import ONE, ZERO, Size, product
from ..linalg.linalg_builder import LinalgBuilder
from ..linalg.shape import JOINED_AXIS
from .nests import RefusedError
from .program import Planner, Program, sizes_of
from .structured import add_copy, packed
from .views import View, whole_view


def _list(program: Program, static: Sequence[int], dynamic: Sequence[SSAValue]) -> list[Size]:
    free = iter(dynamic)
    return [program.size(next(free)) if n == DYNAMIC else Size.of(n) for n in static]


def empty(program: Program, op: upstream.EmptyOp) -> None:
    """`tensor.empty`."""
    type = tensor_type(op.tensor)
    sizes = _list(program, type.get_shape(), op.dynamic_sizes)
    program.views[op.tensor] = program.new(type.element_type, sizes)


def dim(program: Program, op: upstream.DimOp) -> None:
    """`tensor.dim`."""
    axis = program.size(op.index).number
    if axis is None:
        raise RefusedError("asks for an axis that is not known")
    program.sizes[op.result] = program.view(op.source).sizes[axis]


def cast(program: Program, op: upstream.CastOp) -> None:
    """`tensor.cast`: sizes are known here at least as well."""
    view = program.view(op.source)
    sizes = sizes_of(op.dest, view.sizes)
    for known, size in zip(sizes, view.sizes, strict=True):
        program.meet(known, size)
    program.views[op.dest] = replace(view, sizes=sizes)


def _groups(op: upstream.CollapseShapeOp | upstream.ExpandShapeOp) -> list[list[int]]:
    return [[axis.value.data for axis in group] for group in op.reassociation]


def collapse(program: Program, op: upstream.CollapseShapeOp) -> None:
    """`tensor.collapse_shape`."""
    view, groups = program.view(op.src), _groups(op)
    merged = view.collapsed(groups)
    if merged is None:
        merged = packed(program, view).collapsed(groups)
        assert merged is not None
    program.views[op.result] = merged


def expand(program: Program, op: upstream.ExpandShapeOp) -> None:
    """`tensor.expand_shape`."""
    sizes = _list(program, op.static_output_shape.get_values(), op.dynamic_output_shape)
    view, groups = program.view(op.src), _groups(op)
    for axis, group in enumerate(groups):
        program.meet(product(sizes[a] for a in group), view.sizes[axis])
    program.views[op.result] = view.expanded(groups, sizes)


def reshape(program: Program, op: upstream.ReshapeOp) -> None:
    """`tensor.reshape`: the sizes are listed in a tensor."""
    sizes = program.lists.get(op.shape)
    if sizes is None:
        raise RefusedError("takes its shape from data")
    view = packed(program, program.view(op.source))
    program.meet(product(view.sizes), product(sizes))
    result = whole_view(view.buffer, sizes)
    program.views[op.result] = View(view.buffer, result.sizes, result.strides, view.offset)


def extract_slice(program: Program, op: upstream.ExtractSliceOp) -> None:
    """`tensor.extract_slice`."""
    offsets = _list(program, op.static_offsets.get_values(), op.offsets)
    sizes = _list(program, op.static_sizes.get_values(), op.sizes)
    steps = _list(program, op.static_strides.get_values(), op.strides)
    source = program.view(op.source)
    cut = source.cut(offsets, sizes, steps)
    ends = zip(source.sizes, offsets, sizes, steps, strict=True)
    rest = (whole - start - part for whole, start, part, step in ends if step == ONE)
    program.needs.update((size, None) for size in rest)
    if tensor_type(op.result).get_num_dims() != cut.rank:
        raise RefusedError("drops axes")
    program.views[op.result] = cut


def insert_slice(program: Program, op: upstream.InsertSliceOp) -> None:
    """`tensor.insert_slice`: in place where nothing else needs what was there."""
    offsets = _list(program, op.static_offsets.get_values(), op.offsets)
    sizes = _list(program, op.static_sizes.get_values(), op.sizes)
    steps = _list(program, op.static_strides.get_values(), op.strides)
    source, target = program.view(op.source), program.view(op.dest)
    if source.rank != target.rank:
        raise RefusedError("adds axes")
    joined = op.attributes.get(JOINED_AXIS)
    for axis, (whole, start, part) in enumerate(zip(target.sizes, offsets, sizes, strict=True)):
        if isinstance(joined, IntegerAttr) and axis != joined.value.data:
            program.meet(whole, part)
        elif steps[axis] == ONE:
            program.needs[whole - start - part] = None
    if not program.writable(op.dest, op):
        copied = program.new(target.element, target.sizes)
        if not isinstance(op.dest.owner, upstream.EmptyOp):
            add_copy(program, target, copied)
        target = copied
    program.views[op.result] = target
    add_copy(program, source, target.cut(offsets, sizes, steps))


def extract(program: Program, op: upstream.ExtractOp) -> None:
    """`tensor.extract` outside of loops: a view without axes."""
    view = program.view(op.tensor)
    places = [program.size(index) for index in op.indices]
    cut = view.cut(places, [ONE] * view.rank, [ONE] * view.rank)
    program.views[op.result] = View(cut.buffer, (), (), cut.offset)


def from_elements(program: Program, op: upstream.FromElementsOp) -> None:
    """`tensor.from_elements`: of sizes, or of elements of tensors."""
    values = op.elements
    type = tensor_type(op.result)
    if isinstance(type.element_type, IndexType):
        program.lists[op.result] = tuple(program.size(value) for value in values)
        return
    sizes = tuple(Size.of(n) for n in type.get_shape())
    if len(values) == 1:
        source = program.view(values[0])
        program.views[op.result] = View(source.buffer, sizes, (ONE,) * len(sizes), source.offset)
        return
    target = program.new(type.element_type, sizes)
    program.views[op.result] = target
    for place, value in enumerate(values):
        part = View(target.buffer, (), (), target.offset + Size.of(place))
        add_copy(program, program.view(value), part)


def constant(program: Program, op: arith.ConstantOp) -> None:
    """`arith.constant`: a tensor stands among the constants, a scalar in the code."""
    if not isinstance(op.result.type, TensorType):
        return
    if not isinstance(op.value, DenseIntOrFPElementsAttr):
        raise RefusedError("has its values in a resource")
    value = op.value
    program.literals[op.result] = lambda: _read(program, tensor.ConstantOp(value))


def literal(program: Program, op: Literal) -> None:
    """Parameters and constants; trits as int8, unsigned integers as signless ones."""
    program.literals[op.result] = lambda: _read(program, op)


def _read(program: Program, op: Literal) -> View:
    values = constant_value(op)
    assert values is not None
    return program.constant(values, LinalgBuilder.signless(tensor_type(op.result).element_type))


def retyped(program: Program, op: UnrealizedConversionCastOp) -> None:
    """The same elements, unsigned, signless or as trits."""
    source, result = op.inputs[0], op.results[0]
    if source in program.views:
        program.views[result] = program.views[source]
    else:
        program.literals[result] = lambda: program.view(source)


_Arithmetic = Callable[[Program, Size, Size], "Size | None"]


def _quotient(_: Program, a: Size, b: Size) -> Size | None:
    return None if b.number is None or b.number < 1 else a.over(b.number)


def _most(program: Program, a: Size, b: Size) -> Size | None:
    """The larger one, which may follow from what free sizes need be."""
    ones = {n for n in {*a.depends, *b.depends} if Size.free(n) - ONE in program.needs}
    difference = (a - b).raised(ones)
    if difference.natural:
        return a
    return b if (ZERO - difference).natural else a.most(b)


def _least(program: Program, a: Size, b: Size) -> Size | None:
    """The smaller one. Of 1 and a product of free sizes that is 1: none of these may be 0."""
    if ONE in (a, b):
        match (b if a == ONE else a).terms:
            case ((monomial, _),) if monomial and all(isinstance(s, int) for s in monomial):
                free = {s for s in monomial if isinstance(s, int)}
                program.needs.update((Size.free(number) - ONE, None) for number in sorted(free))
                return ONE
            case _:
                pass
    return a.least(b)


def _sizes(compute: _Arithmetic) -> Planner:
    """The rule of an op on two sizes."""

    def rule(program: Program, op: Operation) -> None:
        if not isinstance(op.results[0].type, IndexType):
            raise RefusedError("computes with single numbers outside of tensors")
        a, b = (program.size(operand) for operand in op.operands)
        result = compute(program, a, b)
        if result is None:
            raise RefusedError(
                f"the sizes {a} and {b} do not give one that follows from free sizes; run "
                "'infer-shapes{batch=…}' first"
            )
        program.sizes[op.results[0]] = result

    return rule


RULES: dict[type[Operation], Planner] = {
    upstream.EmptyOp: empty,
    upstream.DimOp: dim,
    upstream.CastOp: cast,
    upstream.CollapseShapeOp: collapse,
    upstream.ExpandShapeOp: expand,
    upstream.ReshapeOp: reshape,
    upstream.ExtractSliceOp: extract_slice,
    upstream.InsertSliceOp: insert_slice,
    upstream.ExtractOp: extract,
    upstream.FromElementsOp: from_elements,
    arith.ConstantOp: constant,
    tensor.ParameterOp: literal,
    tensor.ConstantOp: literal,
    ternary.ParameterOp: literal,
    ternary.ConstantOp: literal,
    UnrealizedConversionCastOp: retyped,
    arith.AddiOp: _sizes(lambda _, a, b: a + b),
    arith.SubiOp: _sizes(lambda _, a, b: a - b),
    arith.MuliOp: _sizes(lambda _, a, b: a * b),
    arith.DivUIOp: _sizes(_quotient),
    arith.DivSIOp: _sizes(_quotient),
    arith.FloorDivSIOp: _sizes(_quotient),
    arith.MaxSIOp: _sizes(_most),
    arith.MaxUIOp: _sizes(_most),
    arith.MinSIOp: _sizes(_least),
    arith.MinUIOp: _sizes(_least),
}
