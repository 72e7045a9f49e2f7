"""Copies of ops with other operands, and with results that they did not have before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation

Op = TypeVar("Op", bound=IRDLOperation)


def rebuilt(
    op: Op,
    operands: Mapping[str, Sequence[SSAValue]] | None = None,
    results: Mapping[str, Sequence[Attribute]] | None = None,
    properties: Mapping[str, Attribute | None] | None = None,
) -> Op:
    """A copy of `op`, not inserted, with some fields changed; regions move to it.

    Args:
        op: the op, which must not be used any more if it has regions.
        operands: for each field of operands to change, its values; none for an absent one.
        results: for each field of results to change, the types.
        properties: those to change; `None` removes one.
    """
    definition = op.get_irdl_definition()
    changed, types = dict(operands or {}), dict(results or {})
    others = {n: v for n, v in op.properties.items() if not n.endswith("SegmentSizes")}
    new = type(op).build(
        operands=[changed.get(name, _values(op, name)) for name, _ in definition.operands],
        result_types=[
            types.get(name, [value.type for value in _values(op, name)])
            for name, _ in definition.results
        ],
        properties={**others, **(properties or {})},
        attributes=op.attributes,
        regions=[op.detach_region(region) for region in list(op.regions)],
    )
    new.location = op.location
    for name, _ in definition.results:
        for old, value in zip(_values(op, name), _values(new, name), strict=False):
            value.name_hint = old.name_hint
    return new


def _values(op: IRDLOperation, field: str) -> Sequence[SSAValue]:
    """The values of a field, of one, none or several."""
    value: SSAValue | Sequence[SSAValue] | None = getattr(op, field)
    if value is None:
        return ()
    return (value,) if isinstance(value, SSAValue) else tuple(value)
