"""The pass `fuse-elementwise`: chains of loops over single elements become one loop.

Not here: fusing layers (`fuse_linear`), reductions into what follows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass

from .analysis.replacement import erase, replace

_PARALLEL = IteratorTypeAttr.parallel()


@dataclass(frozen=True)
class FuseElementwisePass(ModulePass):
    """Merge a `linalg.generic` over single elements into the only `linalg.generic` that reads it.

    Nothing is computed twice: the consumer must read each element once. What only moves elements
    is merged into any consumer.

        %0 = linalg.generic {…} ins(%x) outs(%e) {^0(%a: f32, %_: f32): exp, yield}
        %1 = linalg.generic {…} ins(%0) outs(%e) {^0(%a: f32, %_: f32): negf, yield}
        // becomes
        %1 = linalg.generic {…} ins(%x) outs(%e) {^0(%a: f32, %_: f32): exp, negf, yield}
    """

    name = "fuse-elementwise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for consumer in list(op.walk()):
            current = consumer
            while isinstance(current, linalg.GenericOp):
                producer = _mergeable(current)
                if producer is None:
                    break
                current = _merge(producer, current)


def _mergeable(consumer: linalg.GenericOp) -> linalg.GenericOp | None:
    """The maker of an operand that can be merged, if there is one."""
    for operand in consumer.inputs:
        producer = operand.owner
        if isinstance(producer, linalg.GenericOp) and _fits(producer, operand, consumer):
            return producer
    return None


def _fits(producer: linalg.GenericOp, value: SSAValue, consumer: linalg.GenericOp) -> bool:
    if producer.parent is not consumer.parent or len(producer.results) != 1:
        return False
    if any(kind != _PARALLEL for kind in producer.iterator_types):
        return False
    body = producer.body.block
    written = _maps(producer)[-1]
    loops = {expr.position for expr in written if isinstance(expr, AffineDimExpr)}
    if len(loops) != len(written) or len(loops) != len(producer.iterator_types):
        return False
    if body.args[-1].first_use is not None or value in consumer.outputs:
        return False
    if any(use.operation is not consumer for use in value.uses):
        return False
    read = _reads(consumer, value)
    if any(exprs != read[0] for exprs in read):
        return False
    moves = len(list(body.ops)) == 1
    return (moves or _once(read[0], len(consumer.iterator_types))) and _sized(
        producer, value, consumer
    )


def _maps(op: linalg.GenericOp) -> list[tuple[AffineExpr, ...]]:
    return [entry.data.results for entry in op.indexing_maps]


def _reads(consumer: linalg.GenericOp, value: SSAValue) -> list[tuple[AffineExpr, ...]]:
    """Where a consumer reads a value, once for each operand."""
    maps = _maps(consumer)
    return [maps[i] for i, operand in enumerate(consumer.inputs) if operand is value]


def _once(exprs: Sequence[AffineExpr], loops: int) -> bool:
    """Whether each iteration reads an element of its own."""
    named = {expr.position for expr in exprs if isinstance(expr, AffineDimExpr)}
    return len(named) == len(exprs) == loops


def _composed(
    producer: linalg.GenericOp, read: Sequence[AffineExpr], loops: int
) -> list[AffineMap]:
    """Where the consumer reads the producer's operands."""
    *inputs, written = _maps(producer)
    places: dict[int, AffineExpr] = {
        expr.position: place
        for expr, place in zip(written, read, strict=True)
        if isinstance(expr, AffineDimExpr)
    }
    dims = [places[d] for d in range(len(places))]
    return [
        AffineMap(loops, 0, tuple(e.replace_dims_and_symbols(dims, []) for e in exprs))
        for exprs in inputs
    ]


def _sized(producer: linalg.GenericOp, value: SSAValue, consumer: linalg.GenericOp) -> bool:
    """Whether every loop of the merged op still runs over an axis of an operand."""
    loops = len(consumer.iterator_types)
    maps = [
        m
        for m, operand in zip(_maps(consumer), consumer.operands, strict=True)
        if operand is not value
    ]
    maps += [m.results for m in _composed(producer, _reads(consumer, value)[0], loops)]
    named = {e.position for exprs in maps for e in exprs if isinstance(e, AffineDimExpr)}
    indexed = any(isinstance(op, linalg.IndexOp) for op in producer.body.block.ops)
    plain = all(isinstance(e, AffineDimExpr) for e in _reads(consumer, value)[0])
    return len(named) == loops and (plain or not indexed)


def _merge(producer: linalg.GenericOp, consumer: linalg.GenericOp) -> linalg.GenericOp:
    """Put one op in the place of both."""
    value = producer.results[0]
    loops = len(consumer.iterator_types)
    read = _reads(consumer, value)[0]
    own = [i for i, operand in enumerate(consumer.inputs) if operand is not value]
    maps = [entry.data for entry in consumer.indexing_maps]
    count = len(consumer.inputs)
    inner, outer = producer.body.block, consumer.body.block
    arguments = [*(outer.args[i] for i in own), *inner.args[:-1], *outer.args[count:]]
    block = Block(arg_types=[argument.type for argument in arguments])
    values: dict[SSAValue, SSAValue] = dict(zip(arguments, block.args, strict=True))
    fused = _copy(inner, block, values, _loops_of(producer, read))
    for position, operand in enumerate(consumer.inputs):
        if operand is value:
            values[outer.args[position]] = fused[0]
    block.add_op(linalg.YieldOp(*_copy(outer, block, values, range(loops))))
    merged = linalg.GenericOp(
        [*(consumer.inputs[i] for i in own), *producer.inputs],
        consumer.outputs,
        Region(block),
        [
            AffineMapAttr(entry)
            for entry in (
                *(maps[i] for i in own),
                *_composed(producer, read, loops),
                *maps[count:],
            )
        ],
        ArrayAttr(consumer.iterator_types),
        list(consumer.result_types),
    )
    replace(consumer, merged)
    erase(producer)
    return merged


def _loops_of(producer: linalg.GenericOp, read: Sequence[AffineExpr]) -> dict[int, int]:
    """The consumer's loop for each of the producer's, where the op's index is asked for."""
    written = _maps(producer)[-1]
    return {
        own.position: other.position
        for own, other in zip(written, read, strict=True)
        if isinstance(own, AffineDimExpr) and isinstance(other, AffineDimExpr)
    }


def _copy(
    source: Block,
    target: Block,
    values: dict[SSAValue, SSAValue],
    loops: dict[int, int] | range,
) -> list[SSAValue]:
    """Append copies of the ops of a body; what it yields."""
    results: list[SSAValue] = []
    for op in source.ops:
        if isinstance(op, linalg.YieldOp):
            results = [values.get(operand, operand) for operand in op.operands]
        elif isinstance(op, linalg.IndexOp):
            moved = linalg.IndexOp(loops[op.dim.value.data])
            _append(target, moved, op)
            values[op.results[0]] = moved.results[0]
        else:
            _append(target, op.clone(values), op)
    return results


def _append(block: Block, op: Operation, source: Operation) -> None:
    op.location = source.location
    block.add_op(op)
