"""What PyTorch computes while a program is read: operators on parameters, buffers and constants.

Not here: which nodes there are (`importer`), what a known tensor is (`torch_builder`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import SymInt, Tensor
from torch.fx import Node
from torch.fx.node import Argument, map_arg
from torch.utils import _pytree as pytree

from ...ir.errors import first_line
from ..problems import ProblemError
from .calls import Call, is_tensor, overload_name
from .in_place import is_written
from .sizes import is_free, size_of, sizes_of
from .torch_builder import Builder, Known
from .torch_operators import ELEMENTWISE, QUANTIZING, SPREADING, UNCOMPUTED

T = TypeVar("T", "tuple[Argument, ...]", "dict[str, Argument]")

MOST_ELEMENTS = 1 << 28
"""What is computed while a program is read has at most this many elements, and four times those of
its parameters."""

_UNCHANGING = {
    "aten::alias", "aten::clone", "aten::contiguous", "aten::detach", "aten::detach_",
    "aten::lift_fresh_copy", "aten::to", "aten::_to_copy", "aten::type_as", "aten::dropout",
}  # fmt: skip
"""Operators that give what they take, so that a parameter stays one."""


def known_result(builder: Builder, call: Call, most: int) -> Known | Sequence[Known] | None:
    """The result of a call that depends on known tensors alone; `None` where it does not.

    Args:
        builder: knows the tensors.
        call: of an operator.
        most: elements that a result may have.

    Raises:
        ProblemError: the result has more, or PyTorch does not compute it.
    """
    sources = [node for node in call.node.all_input_nodes if not is_number(node)]
    values = [builder.values.get(node) for node in sources]
    name = call.name
    if name in UNCOMPUTED or name in QUANTIZING or not name.startswith(("aten::", "prims::")):
        return None
    if name in SPREADING:
        spread = SPREADING[name](builder, call)
        if spread is not None:
            return spread
    known = [value for value in values if isinstance(value, Known)]
    if len(known) < len(values):
        return None
    if any(value.is_spread for value in known) and name not in ELEMENTWISE:
        return None
    args, kwargs = _real(call.node.args, builder), _real(call.node.kwargs, builder)
    if args is None or kwargs is None:
        return None
    if _elements(call.node, args, kwargs) > most:
        raise ProblemError(f"it makes more than {most} elements before the program runs")
    try:
        result = _evaluated(call.node, args, kwargs)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        reason = first_line(error)
        raise ProblemError(f"PyTorch does not compute it: {reason}") from None
    keys = tuple(dict.fromkeys(key for value in known for key in value.keys))
    if isinstance(result, Sequence):
        return [Known(part, sizes_of(part.shape), keys) for part in result]
    is_same = name in _UNCHANGING and known and result.dtype == known[0].tensor.dtype
    if is_same and not is_written(call.node):
        return known[0]
    return Known(result, call.sizes, keys)


def is_number(node: Node) -> bool:
    """Whether a node gives a number, or a size."""
    numbers = (bool, int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
    return isinstance(node.meta.get("val"), numbers)


def _real(arguments: T, builder: Builder) -> T | None:
    """Arguments with tensors and numbers for nodes; `None` where a size is free."""
    missing = False

    def real(node: Node) -> Argument:
        nonlocal missing
        value = builder.values.get(node)
        if isinstance(value, Known):
            return value.tensor
        number: int | float | SymInt = node.meta["val"]
        if isinstance(number, int | float):
            return number
        if is_tensor(node) or is_free(size := size_of(number)):
            missing = True
            return None
        return size

    mapped = map_arg(arguments, real)
    return None if missing else mapped


def _evaluated(
    node: Node, args: tuple[Argument, ...], kwargs: dict[str, Argument]
) -> Tensor | Sequence[Tensor]:
    """What a node's operator gives for real tensors."""
    # Constants may have other strides than the tensors that were exported.
    is_view = overload_name(node) in ("aten::view", "aten::_unsafe_view")
    target = torch.ops.aten.reshape if is_view and not kwargs else node.target
    assert callable(target)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return target(*args, **kwargs)


def _elements(node: Node, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> int:
    """How many elements an operator gives; 0 where only its values tell."""

    def bare(leaf: object) -> object:
        return leaf.to("meta") if isinstance(leaf, torch.Tensor) else leaf

    args, kwargs = pytree.tree_map(bare, (args, kwargs))
    if "device" in kwargs:
        kwargs = {**kwargs, "device": torch.device("meta")}
    try:
        results = pytree.tree_leaves(_evaluated(node, args, kwargs))
    except (RuntimeError, ValueError, TypeError, NotImplementedError):
        return 0
    return sum(part.numel() for part in results if isinstance(part, torch.Tensor))
