"""Truth values and numbers that a module takes from tensors whose elements are all one number.

`torch.export` knows no value of `torch.ones(n, 8)`, so `if (mask > 0).any()` depends on values to
it, also where the module makes the mask itself. Not here: values of parameters and buffers
(`known_branches`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses import fake_tensor as fakes
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree
from torch.utils._mode_utils import no_dispatch
from torch.utils.weak import WeakIdKeyDictionary

_FILLED = {"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0}
"""The places of the number in the arguments of what fills a tensor with it."""

_FILLING: Mapping[str, int] = {
    **dict.fromkeys(("new_ones", "ones", "ones_like"), 1),
    **dict.fromkeys(("new_zeros", "zeros", "zeros_like"), 0),
}
"""What always fills with one number."""

_MOVING = frozenset({
    "_unsafe_view", "alias", "amax", "amin", "clone", "detach", "expand", "flatten", "flip",
    "lift_fresh_copy", "permute", "repeat", "reshape", "roll", "select", "slice", "squeeze", "t",
    "transpose", "unflatten", "unsqueeze", "view",
})  # fmt: skip
"""Operators whose result has elements of their first operand alone, and no others."""

_EACH = frozenset({
    "_to_copy", "abs", "add", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "clamp",
    "eq", "ge", "gt", "le", "logical_and", "logical_not", "logical_or", "lt", "maximum", "minimum",
    "mul", "ne", "neg", "rsub", "sub", "to", "where",
})  # fmt: skip
"""Operators that compute each element from those of the operands at its place."""

_OVER = frozenset({"all", "any", "max", "min"})
"""What these give of many equal elements, they give of one."""

_READING = frozenset({"_local_scalar_dense", "equal", "is_nonzero", "item"})
"""Operators whose result is no tensor."""

_KNOWN = _MOVING | _EACH | _OVER | _READING


@contextmanager
def uniform_values() -> Generator[None]:
    """What the numbers in tensors of one number decide is decided in a `with` block.

    A PyTorch that names its parts otherwise knows no such number.
    """
    mode: Any = fakes.FakeTensorMode
    dispatch: Callable[..., Any] | None = getattr(mode, "dispatch", None)
    if dispatch is None:
        yield
        return
    numbers = _Numbers()

    def told(self: object, func: object, types: object, args: Any = (), kwargs: Any = None) -> Any:
        number = numbers.result(func, args, cast("dict[str, Any]", kwargs or {}))
        if number is not None and _name(func) in _READING:
            return number.item()
        result = dispatch(self, func, types, args, kwargs)
        if number is not None and isinstance(result, Tensor):
            numbers.keep(result, number)
        return result

    mode.dispatch = told
    try:
        yield
    finally:
        mode.dispatch = dispatch


def _name(func: object) -> str:
    """An operator's name without its overload; empty for those of other libraries."""
    if not isinstance(func, OpOverload) or func.namespace != "aten":
        return ""
    return func._schema.name.partition("::")[2]  # pyright: ignore[reportPrivateUsage]


class _Numbers:
    """Tensors of one element for those of one number, until something is written to their memory.

    They have as many axes as what they stand for, so that PyTorch gives them the same types.
    """

    def __init__(self) -> None:
        self.known = WeakIdKeyDictionary()

    def keep(self, tensor: Tensor, number: Tensor) -> None:
        """Note the number of a tensor, whose version counts what is written to its memory."""
        element = number.reshape((1,) * tensor.dim()).to(tensor.dtype)
        self.known[tensor] = (element, tensor._version)

    def _of(self, tensor: Tensor) -> Tensor | None:
        pair = cast("tuple[Tensor, int] | None", self.known.get(tensor))
        return pair[0] if pair and pair[1] == tensor._version else None

    def result(self, func: object, args: Sequence[Any], named: Mapping[str, Any]) -> Tensor | None:
        """The number in what an operator gives."""
        name = _name(func)
        if name in _FILLED or name in _FILLING:
            value = _FILLING[name] if name in _FILLING else args[_FILLED[name]]
            return torch.tensor(value) if isinstance(value, bool | int | float) else None
        if name not in _KNOWN:
            return None
        leaves = cast("list[object]", pytree.tree_leaves((args, named)))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        numbers = [number for number in map(self._of, tensors) if number is not None]
        if not tensors or len(numbers) < len(tensors):
            return None
        if name in _MOVING:
            return numbers[0]
        if name not in _EACH and not all(map(_has_elements, tensors)):
            return None
        left = iter(numbers)
        args, named = pytree.tree_map_only(Tensor, lambda _: next(left), (args, named))
        with no_dispatch():
            result = cast("Callable[..., object]", func)(*args, **named)
        return result if isinstance(result, Tensor) else torch.tensor(result)


def _has_elements(tensor: Tensor) -> bool:
    return all(statically_known_true(size > 0) for size in tensor.shape)
