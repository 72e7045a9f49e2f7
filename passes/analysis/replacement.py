"""One op in the place of another: location, attributes, result types and name hints stay."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from ...dialects.inference import keep_result_types
from ..calibration.ranges import RANGE


def insert_before(anchor: Operation, op: Operation, source: Operation | None = None) -> None:
    """Insert `op` before `anchor`; it gets the location of `source` (of `anchor` by default)."""
    block = anchor.parent
    assert block is not None
    op.location = (anchor if source is None else source).location
    block.insert_op_before(op, anchor)


def replace(old: Operation, new: Operation, *, source: Operation | None = None) -> None:
    """Put `new`, not yet inserted, in the place of `old`; results correspond one to one.

    Args:
        old: the op to erase.
        new: the op that computes the same results.
        source: the op whose location and discardable attributes `new` takes; `old` by default.
            Ranges of results (`tensor.range`) are those of `old` in any case.
    """
    source = old if source is None else source
    insert_before(old, new, source)
    described = {RANGE: old.attributes[RANGE]} if RANGE in old.attributes else {}
    others = {name: value for name, value in source.attributes.items() if name != RANGE}
    for name, value in (others | described).items():
        new.attributes.setdefault(name, value)
    keep_result_types(new, old)
    replace_results(old, new.results)


def replace_results(old: Operation, values: Sequence[SSAValue]) -> None:
    """Use `values` in the place of the results of `old`, and erase it."""
    for result, value in zip(old.results, values, strict=True):
        if value.name_hint is None:
            value.name_hint = result.name_hint
        result.replace_all_uses_with(value)
    erase(old)


def erase(op: Operation) -> None:
    """Remove an op whose results are not used."""
    block = op.parent
    assert block is not None
    block.erase_op(op)


def erase_unused(ops: Sequence[Operation]) -> None:
    """Remove those of `ops`, pure ones in program order, whose results are not used."""
    for op in reversed(ops):
        if op.parent is not None and not any(result.first_use for result in op.results):
            erase(op)


def unused_ops(block: Block) -> set[Operation]:
    """The ops of `block` whose results nobody uses."""
    return {op for op in block.ops if not any(result.first_use for result in op.results)}


def erase_unused_except(block: Block, live: Collection[Operation]) -> None:
    """Remove the pure ops of `block` whose results are not used, but for those in `live`."""
    for op in reversed(list(block.ops)):
        used = any(result.first_use for result in op.results)
        if not used and op not in live and op.has_trait(Pure):
            erase(op)
