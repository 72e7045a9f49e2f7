"""The names under which upstream's tools read our IR, one table for printing and for reading.

`mlir-opt`, IREE and viewers know `tensor` as a dialect of theirs, and refuse what we add to it;
with `--allow-unregistered-dialect` they take any op, attribute and type of a dialect that they have
never heard of. So `tensor.relu`, `#tensor.store` and the attribute `tensor.range` are written as
`triton_tensor.relu`, `#triton_tensor.store` and `triton_tensor.range`, while upstream's own
`tensor.cast` keeps its name, and so do `ternary` and `spike`. An op that upstream has too, with the
same meaning, is written as upstream's: `tensor.add` of equal types as `arith.addf`, which reads as
`tensor.add` again, also where a pass of upstream's made it. The module says so by `NAMES`, and an
`arith.addf` of tensors that is no `tensor.add` says so by `THEIRS`.

Not here: the text (`printing`) and its reading (`dialects.registry`).
"""

from __future__ import annotations

from functools import cache
from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation

SHARED = "tensor."
"""How names start in the dialect that we share with upstream."""
OURS = "triton_tensor."
"""How ours among them start for upstream's tools."""
UNDER = "tf."
"""Before our ops, for readers that take unknown ops in TensorFlow's dialect alone."""
OUR_DIALECTS = (OURS, "ternary.", "spike.")

_MATH = """acos acosh asin asinh atan atanh ceil cos cosh erf exp exp2 expm1 floor log log1p log2
    rsqrt sin sinh sqrt tan tanh trunc"""
SAME_MEANING: dict[str, tuple[str | None, str | None]] = {
    **{f"tensor.{name}": (f"math.{name}", None) for name in _MATH.split()},
    "tensor.abs": ("math.absf", None),
    "tensor.add": ("arith.addf", "arith.addi"),
    "tensor.and": (None, "arith.andi"),
    "tensor.constant": ("arith.constant", "arith.constant"),
    "tensor.div": ("arith.divf", None),
    "tensor.maximum": ("arith.maximumf", "arith.maxsi"),
    "tensor.minimum": ("arith.minimumf", "arith.minsi"),
    "tensor.mul": ("arith.mulf", "arith.muli"),
    "tensor.neg": ("arith.negf", None),
    "tensor.or": (None, "arith.ori"),
    "tensor.pow": ("math.powf", None),
    "tensor.round": ("math.roundeven", None),
    "tensor.sub": ("arith.subf", "arith.subi"),
    "tensor.where": ("arith.select", "arith.select"),
}
"""Ours: upstream's for floats, and for integers. Left out is what upstream leaves undefined:
integer `div` by 0, `abs` of the least integer, `convert` of what does not fit."""

NAMES = "tensor.upstream_names"
"""The attribute of a module in which upstream's ops stand for ours."""
THEIRS = "tensor.upstream"
"""The attribute of an op in it that stands for itself."""

CUSTOM_FORM = frozenset(
    f"llvm.{name}" for name in ("add", "getelementptr", "mul", "shl", "sub", "trunc")
) | {"vector.shuffle"}
"""Upstream's ops whose custom form alone reads everywhere: xDSL keeps flags of `llvm` as numbers,
and the type of a mask hangs on upstream's version."""

_FROM_UPSTREAM = {theirs: ours for ours, both in SAME_MEANING.items() for theirs in both if theirs}


@cache
def _upstream_ops() -> frozenset[str]:
    """The ops of `tensor` that are upstream's."""
    from xdsl.dialects.tensor import Tensor

    return frozenset(op.name for op in Tensor.operations)


def upstream_name(name: str) -> str:
    """What upstream's tools call our op, attribute or attribute key `name`."""
    shared = name.startswith(SHARED) and name not in _upstream_ops()
    return OURS + name.removeprefix(SHARED) if shared else name


def our_name(name: str) -> str:
    """The name that `upstream_name` was given, with or without `UNDER` before it."""
    if name.startswith(UNDER) and name.removeprefix(UNDER).startswith(OUR_DIALECTS):
        name = name.removeprefix(UNDER)
    return SHARED + name.removeprefix(OURS) if name.startswith(OURS) else name


def upstream_op(op: Operation, under: bool) -> tuple[str, str | None]:
    """What upstream's tools call an op, and the attribute that it needs to be read back.

    `under` puts ours under `UNDER`, for readers that know no `math` either.
    """
    name = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
    theirs = _same_meaning(op)
    if theirs is not None and not (under and theirs.startswith("math.")):
        return theirs, None
    if isinstance(op, ModuleOp) and op.parent is None:
        return name, NAMES
    foreign = upstream_name(name)
    foreign = UNDER + foreign if under and foreign.startswith(OUR_DIALECTS) else foreign
    return foreign, THEIRS if _is_of_tensors(op) else None


def restored_names(module: Operation) -> list[tuple[Operation, str]]:
    """The ops in a module with `NAMES` that stand for ours, which; the attributes are gone then."""
    del module.attributes[NAMES]
    ops = [op for op in module.walk() if _is_of_tensors(op)]
    return [(op, _FROM_UPSTREAM[op.name]) for op in ops if op.attributes.pop(THEIRS, None) is None]


def _is_of_tensors(op: Operation) -> bool:
    """Whether an op of upstream's may stand for ours."""
    return op.name in _FROM_UPSTREAM and all(isinstance(v.type, TensorType) for v in op.results)


def _same_meaning(op: Operation) -> str | None:
    """Upstream's op that computes the same on these types."""
    names = SAME_MEANING.get(op.name)
    if names is None or any("." not in key for key in op.attributes):
        return None
    # Upstream's ops do not broadcast, which sizes known at run time alone may ask for.
    types = [value.type for value in (*op.operands, *op.results)]
    if len(types) > 2 and not all(_is_static(type) for type in types):
        return None
    values = types[1:] if op.name == "tensor.where" else types
    shapes = {type.get_shape() for type in types if isinstance(type, TensorType)}
    if len(set(values)) > 1 or len(shapes) > 1 or not isinstance(values[-1], TensorType):
        return None
    element = cast("TensorType[Attribute]", values[-1]).element_type
    if isinstance(element, AnyFloat):
        return names[0]
    signless = isinstance(element, IntegerType) and element.signedness.data is Signedness.SIGNLESS
    return names[1] if signless else None


def _is_static(type: Attribute) -> bool:
    return isinstance(type, TensorType) and type.has_static_shape()
