"""What the writers of all targets share: unsupported ops, places in the source, and names.

A name comes from what the program calls a thing: a parameter's key, the `tensor.name` of an
argument, an SSA name hint; it is a valid identifier in Python, ONNX and Verilog, and unique.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    ModuleOp,
    NameLoc,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ..dialects import tensor, ternary
from ..dialects.parameters import parameters, store_of
from ..ir.errors import LoweringError, UnsupportedError
from ..ir.identifiers import identifier

STORED = (tensor.ParameterOp, tensor.ConstantOp, ternary.ParameterOp, ternary.ConstantOp)
"""Ops of stored values, which no target writes by themselves."""


class Inexpressible(Exception):
    """An op, or a combination of types, that a target has no form for; says why."""


def no_form(op: Operation, where: str) -> str:
    """Why a target has no rule for an op, in one clause."""
    if isinstance(op, ternary.TernarizeOp) and op.seed is not None:
        return "stochastic trits are drawn by NumPy; run 'fold-constants' first"
    return f"the op has no form in {where}"


class UnsupportedOps:
    """Collects the ops a target cannot express, so that all are named at once."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._problems: list[tuple[str, str, str]] = []

    def add(self, op: Operation, reason: str) -> None:
        """Note that `op` cannot be expressed, and why (one clause)."""
        self._problems.append((op.name, location_text(op), reason))

    def raise_if_any(self, hint: str = "") -> None:
        """Raise an `UnsupportedError` that lists everything noted, and says what to do about it."""
        if self._problems:
            raise UnsupportedError(self.target, self._problems, hint=hint)


def require_elements(root: Operation, target: str, known: Callable[[Attribute], object]) -> None:
    """Refuse tensors of element types that there are not.

    Args:
        root: the program.
        target: what refuses.
        known: raises a VerifyException or LoweringError for an element type, with the reason.

    Raises:
        UnsupportedError: names every op that makes such a tensor, or takes one as an argument.
    """
    unsupported = UnsupportedOps(target)
    for op in root.walk():
        arguments = (a for region in op.regions for block in region.blocks for a in block.args)
        for value in (*op.results, *arguments):
            if isinstance(value.type, TensorType):
                try:
                    known(cast("TensorType[Attribute]", value.type).element_type)
                except (VerifyException, LoweringError) as error:
                    unsupported.add(op, str(error))
                    break
    unsupported.raise_if_any()


def require_values(module: ModuleOp, what: str) -> None:
    """Refuse parameters without values for `what`, a file that holds them.

    Raises:
        LoweringError: names the first ten.
    """
    wanted = list(dict.fromkeys(op.key.data for op in parameters(module)))
    known = set(store_of(module).names()) if wanted else set[str]()
    missing = [key for key in wanted if key not in known]
    if missing:
        shown = ", ".join(f"'{key}'" for key in missing[:10])
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        raise LoweringError(
            f"{what} holds the weights, and {shown}{more} have no values; "
            "give --weights FILE (.safetensors, .npz, .pt)"
        )


def write_within(write: Callable[[Operation], None], op: Operation) -> None:
    """Write an op of the body of another.

    Raises:
        Inexpressible: it has no form; names it.
    """
    try:
        write(op)
    except Inexpressible as reason:
        raise Inexpressible(f"'{op.name}' in its body: {reason}") from None


def location_text(op: Operation) -> str:
    """`file:line:column` of an op, or `unknown location`."""
    return source_place(op.location) or "unknown location"


def source_place(location: Attribute) -> str | None:
    """The first file position that a location holds, as `file:line:column`."""
    match location:
        case FileLineColLoc():
            return f"{location.filename.data}:{location.line.data}:{location.column.data}"
        case NameLoc():
            return source_place(location.location)
        case CallSiteLoc():
            return source_place(location.callee) or source_place(location.caller)
        case FusedLoc():
            inner = cast("ArrayAttr[Attribute]", location.locations)
            return next(filter(None, map(source_place, inner)), None)
        case _:
            return None


def entry_function(module: ModuleOp, target: str) -> func.FuncOp:
    """The public `@forward` of a module.

    Raises:
        LoweringError: there is none, or it has no body.
    """
    for op in module.body.block.ops:
        if isinstance(op, func.FuncOp) and op.sym_name.data == "forward" and op.body.blocks:
            return op
    raise LoweringError(
        f"target '{target}' needs a module with a function @forward; this one has none"
    )


class Names:
    """Unique identifiers: the wish itself where it is free, else with a number.

    Args:
        reserved: identifiers that must not be given out.
    """

    def __init__(self, reserved: Collection[str] = ()) -> None:
        self._taken = set(reserved)
        self._next: dict[str, int] = {}

    def reserve(self, name: str) -> None:
        """Take `name` out of circulation."""
        self._taken.add(name)

    def new(self, wish: str) -> str:
        """A free identifier as close to `wish` as can be."""
        base = identifier(wish)
        name, number = base, self._next.get(base, 1)
        while name in self._taken:
            name = f"{base}_{number}"
            number += 1
        self._next[base] = number
        self._taken.add(name)
        return name

    def of_value(self, value: SSAValue, default: str) -> str:
        """A free identifier for an SSA value: its name hint, else `default`."""
        return self.new(value.name_hint or default)
