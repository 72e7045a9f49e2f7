"""`linalg` ops and copies as nests of loops; generics that only permute are views.

Not here: which operands are turned first (`operand_axes`), `tensor.pad` (`padding`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects import tensor as upstream
from xdsl.dialects.builtin import AnyFloat, IndexType
from xdsl.dialects.func import CallOp
from xdsl.dialects.linalg import abstract_ops
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr
from xdsl.rewriter import InsertPoint

from ....runtime.native.abi.sizes import ONE, ZERO, Size, product
from ..linalg.linalg_builder import PARALLEL
from ..llvm.types import width
from .combiners import fuse_products
from .conv_costs import places_of
from .nests import (
    Access,
    Captured,
    Nest,
    RefusedError,
    access,
    loop_sizes,
    mapping,
    simplified,
)
from .operand_axes import Maps, wanted_axes
from .program import Padded, Planner, Program, Step
from .schedule import Schedule, movable
from .views import View

_LEAST_CHANNELS = 8
"""Channels from which on a convolution is worth channels that lie in a row."""


@dataclass(eq=False)
class NestStep(Step):
    """A nest of loops, with how it shall run.

    Attributes:
        nest: its loops simplified.
        plan: how it runs.
        given: the same nest with the loops of its op, where something may still join it.
    """

    nest: Nest
    plan: Schedule
    given: Nest | None = None

    @property
    def kind(self) -> Hashable:
        """What its code depends on besides."""
        return None

    @property
    def reads(self) -> Sequence[View]:
        """Operands, tensors read elsewhere, and outputs that hold their start."""
        views = [a.view for a in self.nest.read] + self.nest.views()
        for output, a in enumerate(self.nest.writes):
            if self.nest.read_back(output) and self.nest.starts[output] is None:
                views.append(a.view)
        return views

    @property
    def writes(self) -> Sequence[View]:
        """The outputs."""
        return [a.view for a in self.nest.writes]


def add_nest(program: Program, nest: Nest) -> None:
    """Add a nest as a step; constants are stored in the order in which they are read."""
    if any(size == ZERO for a in nest.writes for size in a.view.sizes):
        return
    if nest.reductions:
        fuse_products(nest)
    program.steps.append(planned(program, nest))


def planned(program: Program, nest: Nest) -> NestStep:
    """A nest as a step; constants stand in the order in which they are read, which merges loops."""
    given, nest = nest, simplified(nest)
    while True:
        plan = program.scheduled(nest)
        order = [*plan.outer]
        order += [d for d in (plan.rows,) if d is not None]
        order += [d for d in plan.reductions if d != plan.vector]
        order += [d for d in (plan.vector,) if d is not None]
        reads = {v: _reordered(program, nest, a, order) for v, a in nest.reads.items()}
        nest = replace(nest, reads=reads)
        merged = simplified(nest)
        if len(merged.sizes) == len(nest.sizes):
            reads = {v: _in_panels(program, nest, a, plan) for v, a in nest.reads.items()}
            return NestStep(replace(nest, reads=reads), plan, given)
        nest = merged


def in_lanes_of(step: NestStep, element: Attribute) -> NestStep:
    """A step as it is, or in vectors of as many elements as a register has."""
    if step.plan.vector is not None:
        lanes = step.plan.lanes * 32 // width(element)
        step.plan = replace(step.plan, lanes=lanes)
    return step


def _reordered(program: Program, nest: Nest, a: Access, order: Sequence[int]) -> Access:
    """A constant so that the last loop in `order` reads one element after the other."""
    loops = [d for d in order if a.depends_on(d)]
    content = a.view.buffer.content
    if content is None or not loops or a.strides[loops[-1]] == ONE or not movable(a):
        return a
    sizes = [nest.sizes[d].number for d in loops]
    strides = [a.strides[d].number for d in loops]
    start = a.offset.number
    if None in sizes or None in strides or start is None:
        return a
    shape = [size for size in sizes if size is not None]
    if int(np.prod(shape)) > content.size:
        return a
    steps = [stride * content.itemsize for stride in strides if stride is not None]
    turned = np.lib.stride_tricks.as_strided(content[start:], shape, steps)
    view = program.constant(turned, a.view.element)
    stride_of = dict(zip(loops, view.strides, strict=True))
    strides_now = tuple(stride_of.get(d, ZERO) for d in range(len(nest.sizes)))
    return Access(view, ZERO, strides_now)


def _in_panels(program: Program, nest: Nest, a: Access, plan: Schedule) -> Access:
    """A constant, put in order, so that what one tile after the other reads lies in a row."""
    vector, step = plan.vector, plan.lanes * plan.columns
    loops = [d for d in range(len(nest.sizes)) if a.depends_on(d)]
    if not program.blocked or not nest.reductions or plan.across or not movable(a):
        return a
    if vector is None or len(loops) < 2 or a.strides[vector] != ONE:
        return a
    loops = sorted((d for d in loops if d != vector), key=lambda d: -a.strides[d].at(1))
    sizes = [nest.sizes[d].number or 0 for d in (*loops, vector)]
    content, start = a.view.buffer.content, a.offset.number
    if content is None or start is None or content.size - start != int(np.prod(sizes)):
        return a
    *rest, count = sizes
    panels = -(-count // step)
    padded = np.zeros((*rest, panels * step), content.dtype)
    padded[..., :count] = content[start:].reshape(sizes)
    view = program.constant(np.moveaxis(padded.reshape(*rest, panels, step), -2, 0), a.view.element)
    stride_of = dict(zip(loops, view.strides[1:-1], strict=True))
    stride_of[vector] = Size.of(int(np.prod(rest)))
    strides = tuple(stride_of.get(d, ZERO) for d in range(len(nest.sizes)))
    return Access(view, ZERO, strides, panels=True)


def generic(program: Program, op: abstract_ops.LinalgStructuredOperation) -> None:
    """`linalg.generic` and the named ops."""
    loops = op.get_num_loops()
    maps: Maps = [m.data.results for m in op.get_indexing_maps()]
    parallel = tuple(kind == PARALLEL for kind in op.get_iterator_types())
    body = _body(op)
    if _is_view(program, op, body, maps, parallel):
        return
    operands = [*op.inputs, *op.outputs]
    views = [program.view(value) for value in operands]
    in_places = next(filter(None, (places_of(program, op, value) for value in op.inputs)), None)
    for position in range(len(op.inputs)):
        last = wanted_axes(program, op, views, maps, position)
        if not last:
            continue
        # What comes in has no narrow type, nor room behind it.
        copied = in_places and views[position].buffer.place != "workspace"
        if copied or not views[position].ends_with(last):
            # What several ops want so is turned once.
            known = (op.parent, operands[position], tuple(last))
            if known not in program.turned:
                rows = len(last) if in_places else 0
                program.turned[known] = _turned(program, views[position], last, rows)
            views[position] = program.turned[known]
    sizes = loop_sizes(views, maps, loops, program.meet)
    if in_places:
        image, trits = (view.buffer for view in (views[0], views[1]))
        program.added |= {(image, trits), (trits, image)}
    inputs, outputs = len(op.inputs), len(op.outputs)
    reduces = not all(parallel)
    reading = [access(view, m, loops) for view, m in zip(views, maps[:inputs], strict=False)]
    place = None
    if in_places:
        outer = [d for d, kind in enumerate(parallel) if kind and d not in in_places.loops]
        place = [*outer, *in_places.loops]
    elif program.blocked:
        place = _place_of_loops(reading, sizes, parallel)
    starts: list[arith.ConstantOp | None] = []
    written: list[View] = []
    for position, value in enumerate(op.outputs):
        needed = reduces or body.args[inputs + position].first_use is not None
        start = filled_with(value) if needed and reduces else None
        starts.append(start)
        exprs = maps[inputs + position]
        _check_output(exprs, parallel)
        if needed and start is None:
            written.append(_started(program, op, value))
        else:
            begun, result = views[inputs + position], op.results[position]
            written.append(new_result(program, result, begun, exprs, place))
    reads: dict[SSAValue, Access] = {
        body.args[position]: reading[position]
        for position in range(inputs)
        if body.args[position].first_use is not None
    }
    writes = tuple(
        access(view, maps[inputs + position], loops) for position, view in enumerate(written)
    )
    captured = captured_values(program, body)
    nest = Nest(sizes, parallel, reads, writes, tuple(starts), body, captured, tuple(range(loops)))
    for result, view in zip(op.results, written, strict=True):
        program.views[result] = view
    assert outputs == len(written)
    add_nest(program, nest)


def _turned(program: Program, view: View, last: Sequence[int], rows: int) -> View:
    """A copy of a view in which the elements along some axes lie in a row; see `Program.new`."""
    order = [axis for axis in range(view.rank) if axis not in last]
    target = program.new(view.element, view.sizes, [*order, *last], rows)
    add_copy(program, view, target)
    return target


def _body(op: abstract_ops.LinalgStructuredOperation) -> Block:
    """What is done in each iteration.

    xDSL gives a pooling a body that compares with the window, of which only the size counts.
    """
    body = op.regions[0].block
    if not isinstance(op, linalg.PoolingNchwMaxOp):
        return body
    own = Block(arg_types=[argument.type for argument in body.args])
    floats = isinstance(own.args[0].type, AnyFloat)
    builder = Builder(InsertPoint.at_end(own))
    most = builder.insert((arith.MaximumfOp if floats else arith.MaxSIOp)(own.args[2], own.args[0]))
    builder.insert(linalg.YieldOp(most.results[0]))
    return own


def _check_output(exprs: Sequence[AffineExpr], parallel: Sequence[bool]) -> None:
    """Every parallel loop must move along an axis of the output."""
    named = {expr.position for expr in exprs if isinstance(expr, AffineDimExpr)}
    if named != {d for d, p in enumerate(parallel) if p} or len(named) != len(exprs):
        raise RefusedError("writes elsewhere than at the position of its parallel loops")


def _is_view(
    program: Program,
    op: abstract_ops.LinalgStructuredOperation,
    body: Block,
    maps: Maps,
    parallel: Sequence[bool],
) -> bool:
    """Note the result of a generic that gives an operand as it is, permuted or stretched."""
    end = body.last_op
    if len(op.inputs) != 1 or len(op.outputs) != 1 or not all(parallel) or end is None:
        return False
    if not isinstance(op, linalg.GenericOp) or end.operands[0] is not body.args[0]:
        return False
    loops = len(parallel)
    source, target = program.view(op.inputs[0]), program.view(op.outputs[0])
    sizes = loop_sizes([source, target], maps, loops, program.meet)
    read = access(source, maps[0], loops)
    axes = [expr.position for expr in maps[1] if isinstance(expr, AffineDimExpr)]
    program.views[op.results[0]] = View(
        source.buffer,
        tuple(sizes[d] for d in axes),
        tuple(read.strides[d] for d in axes),
        read.offset,
    )
    return True


def filled_with(value: SSAValue) -> arith.ConstantOp | None:
    """The number that a tensor is filled with, if its maker says so."""
    fill = value.owner
    if not isinstance(fill, linalg.FillOp):
        return None
    number = fill.inputs[0].owner
    return number if isinstance(number, arith.ConstantOp) else None


def _place_of_loops(
    reads: Sequence[Access], sizes: Sequence[Size], parallel: Sequence[bool]
) -> list[int] | None:
    """The parallel loops as the axes of a result shall lie in memory, from outside to inside.

    What weights make goes last: the channels of a convolution, unless it keeps those of floats
    apart that do not lie in a row. Else a result lies as the first of those operands does of which
    every element is met as often. `None` says: as the axes come.
    """
    loops = [d for d, kind in enumerate(parallel) if kind]
    fixed = [a for a in reads if movable(a)]
    moving = [a for a in reads if not movable(a)]
    if not all(parallel):
        if len(moving) != 1 or len(fixed) > 1:
            return None
        if fixed:
            made = [d for d in loops if fixed[0].depends_on(d)]
            if product(sizes[d] for d in made).at(1) < _LEAST_CHANNELS:
                return None
            if not _stay_apart(moving[0], [d for d in made if sizes[d] != ONE]):
                return [*(d for d in loops if d not in made), *made]
    for a in moving:
        strides = [a.strides[d].number for d in loops]
        used = [d for d in loops if a.depends_on(d) or sizes[d] == ONE]
        if used == loops and None not in strides:
            return sorted(loops, key=lambda d: -(a.strides[d].number or 0))
    return None


def _stay_apart(read: Access, made: Sequence[int]) -> bool:
    """Whether all that weights make has floats of its own, and these do not lie in a row."""
    floats = isinstance(read.view.element, AnyFloat)
    return floats and all(read.depends_on(d) and read.strides[d] != ONE for d in made)


def new_result(
    program: Program,
    value: SSAValue,
    start: View,
    exprs: Sequence[AffineExpr],
    place: Sequence[int] | None,
) -> View:
    """Where a result goes; what only has to be padded stands in its padding at once.

    Args:
        program: that is planned.
        value: the result.
        start: has its sizes.
        exprs: the loop of each axis.
        place: of `_place_of_loops`.
    """
    order = None
    if place is not None:
        axes = {e.position: axis for axis, e in enumerate(exprs) if isinstance(e, AffineDimExpr)}
        order = [axes[d] for d in place]
    room = _room(value) if program.blocked else None
    if room is None:
        added = (places_of(program, use.operation, value) for use in value.uses)
        axes = next((places.axes for places in added if places), ())
        rows = len(axes) if order and order[len(order) - len(axes) :] == [*axes] else 0
        return program.new(start.element, start.sizes, order, rows)
    low, high = room
    sizes = [s + Size.of(a + b) for s, a, b in zip(start.sizes, low, high, strict=True)]
    around = program.new(start.element, sizes, order)
    program.padded[value] = Padded(around, low, high)
    return around.cut([Size.of(a) for a in low], start.sizes, [ONE] * start.rank)


def _room(value: SSAValue) -> tuple[Sequence[int], Sequence[int]] | None:
    """By how much a tensor is padded, if it is."""
    for use in value.uses:
        if isinstance(use.operation, upstream.PadOp) and not use.operation.low:
            pad = use.operation
            low, high = pad.static_low.get_values(), pad.static_high.get_values()
            if not pad.high and min(*low, *high) >= 0:
                return low, high
    return None


def _started(program: Program, op: Operation, value: SSAValue) -> View:
    """Where a result goes that begins with what `value` holds."""
    view = program.view(value)
    if program.writable(value, op) and view.whole:
        return view
    target = program.new(view.element, view.sizes)
    add_copy(program, view, target)
    return target


def captured_values(program: Program, body: Block) -> Mapping[SSAValue, Captured]:
    """Sizes and tensors from outside that a body uses."""
    captured: dict[SSAValue, Captured] = {}
    for op in body.walk():
        for operand in op.operands:
            inside = operand.owner is body or getattr(operand.owner, "parent", None) is body
            if inside or isinstance(operand.owner, arith.ConstantOp):
                continue
            if isinstance(operand.type, IndexType):
                captured[operand] = program.size(operand)
            elif program.holds(operand):
                captured[operand] = program.view(operand)
            else:
                raise RefusedError(f"uses a value of type {operand.type} from outside")
    return captured


def check_body(program: Program, op: Operation) -> str | None:
    """Why the body of an op cannot be compiled, `None` if it can."""
    for inner in op.regions[0].block.ops:
        known = isinstance(
            inner, linalg.YieldOp | linalg.IndexOp | upstream.ExtractOp | arith.ConstantOp | CallOp
        )
        if not known and type(inner) not in program.scalars:
            return f"its body has the op '{inner.name}'"
    return None


def fill(program: Program, op: linalg.FillOp) -> None:
    """`linalg.fill`: done when somebody reads it from memory."""
    number = op.inputs[0].owner
    if not isinstance(number, arith.ConstantOp):
        raise RefusedError("fills with a number that is not a constant")
    view = program.view(op.outputs[0])
    target = program.new(view.element, view.sizes)
    program.views[op.results[0]] = target
    if any(not _starts_reduction(use.operation, op.results[0]) for use in op.results[0].uses):
        add_fill(program, target, number)


def _starts_reduction(op: Operation, value: SSAValue) -> bool:
    if not isinstance(op, abstract_ops.LinalgStructuredOperation) or value in op.inputs:
        return False
    return any(kind != PARALLEL for kind in op.get_iterator_types())


def add_fill(program: Program, target: View, number: arith.ConstantOp) -> None:
    """Put a number in every element."""
    block = Block(arg_types=[target.element])
    Builder(InsertPoint.at_end(block)).insert(linalg.YieldOp(number.result))
    add_nest(program, _plain({}, target, block))


def add_copy(program: Program, source: View, target: View) -> None:
    """Put the elements of a view in another of the same sizes."""
    block = Block(arg_types=[source.element, target.element])
    Builder(InsertPoint.at_end(block)).insert(linalg.YieldOp(block.args[0]))
    read = Access(source, source.offset, source.strides)
    for size, wanted in zip(source.sizes, target.sizes, strict=True):
        program.meet(size, wanted)
    add_nest(program, _plain({block.args[0]: read}, target, block))


def _plain(reads: Mapping[SSAValue, Access], target: View, body: Block) -> Nest:
    write = Access(target, target.offset, target.strides)
    return mapping(target.sizes, reads, (write,), body)


def packed(program: Program, view: View) -> View:
    """The elements of a view one after the other: itself, or a copy."""
    if view.contiguous:
        return view
    target = program.new(view.element, view.sizes)
    add_copy(program, view, target)
    return target


RULES: dict[type[Operation], Planner] = {
    linalg.GenericOp: generic,
    linalg.MatmulOp: generic,
    linalg.Conv2DNchwFchwOp: generic,
    linalg.PoolingNchwMaxOp: generic,
    linalg.FillOp: fill,
}
