"""Steps of neurons on symbols: what they are made of, and what their gradients are.

Not here: how what symbols stand for is computed for all steps (`through_time`, `native_steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .surrogate import SurrogateGradient


class Symbol:
    """What a function gives for symbols and other arguments; without a function, what is given.

    It has the operators and methods of tensors that `TensorArithmetic` and slopes of spikes use.
    """

    def __init__(self, function: Callable[..., Any] | None = None, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, arguments: Any = (), named: Any = None
    ) -> Symbol:
        return cls(function, *arguments)

    def __getattr__(self, name: str) -> Callable[..., Symbol]:
        return partial(Symbol, getattr(Tensor, name), self)

    @property
    def dtype(self) -> Symbol:
        """What `to` takes: the symbol itself."""
        return self

    def to(self, like: Symbol) -> Symbol:
        """In the type of another one."""
        return Symbol(Tensor.type_as, self, like)

    def __add__(self, other: Any) -> Symbol:
        if isinstance(other, Symbol) and other.function is torch.neg:
            return self - other.arguments[0]
        return Symbol(torch.add, self, other)

    def __sub__(self, other: Any) -> Symbol:
        return Symbol(torch.sub, self, other)

    def __rsub__(self, other: Any) -> Symbol:
        return Symbol(torch.rsub, self, other)

    def __mul__(self, other: Any) -> Symbol:
        if self.function is torch.neg:
            return -(self.arguments[0] * other)
        return Symbol(torch.mul, self, other)

    def __truediv__(self, other: Any) -> Symbol:
        return Symbol(torch.div, self, other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return Symbol(torch.reciprocal, self) * other

    def __pow__(self, exponent: Any) -> Symbol:
        if exponent != 2:
            return NotImplemented
        return self * self

    def __lt__(self, other: Any) -> Symbol:
        return Symbol(torch.lt, self, other)

    def __neg__(self) -> Symbol:
        return Symbol(torch.neg, self)

    def __eq__(self, other: object) -> Any:
        return Symbol(torch.eq, self, other)

    def __ne__(self, other: object) -> Any:
        return Symbol(torch.ne, self, other)

    __radd__, __rmul__, __hash__ = __add__, __mul__, object.__hash__


def fire(potential: Any, threshold: Any, compare: str) -> Any:
    """The spikes of a potential, as symbol or at once; no gradient flows through the latter."""
    if isinstance(potential, Symbol) or isinstance(threshold, Symbol):
        return Symbol(fire, potential, threshold, compare)
    function = torch.gt if compare == "gt" else torch.ge
    # Several times as quick as truth values that become floats.
    return function(potential, threshold, out=torch.empty_like(potential))


def rounded_to(value: Tensor, dtype: torch.dtype) -> Tensor:
    return value.to(dtype).to(value.dtype)


def _where(condition: Any, chosen: Any, other: Any) -> Any:
    return Symbol(torch.where, condition, chosen, other)


def _least(g: Symbol, a: Any, b: Any) -> tuple[Symbol, Symbol]:
    shared = _where(Symbol(torch.eq, a, b), g * 0.5, 0)
    of_a, of_b = (_where(Symbol(torch.lt, *pair), g, shared) for pair in ((a, b), (b, a)))
    return of_a, of_b


_Rule = Callable[[Symbol, Symbol, Any, Any, Any], Sequence[Symbol | None]]

_RULES: Mapping[Any, _Rule] = {
    torch.add: lambda g, y, a, b, c: (g, g),
    torch.sub: lambda g, y, a, b, c: (g, -g),
    torch.rsub: lambda g, y, a, b, c: (-g, g),
    torch.mul: lambda g, y, a, b, c: (g * b, g * a),
    torch.div: lambda g, y, a, b, c: (g / b, -(g * (y / b))),
    torch.where: lambda g, y, a, b, c: (None, _where(a, g, 0), _where(a, 0, g)),
    torch.minimum: lambda g, y, a, b, c: _least(g, a, b),
    Tensor.exp: lambda g, y, a, b, c: (g * y,),
    Tensor.relu: lambda g, y, a, b, c: (_where(Symbol(torch.gt, y, 0), g, 0),),
    Tensor.abs: lambda g, y, a, b, c: (g * Symbol(torch.sign, a),),
    rounded_to: lambda g, y, a, b, c: (Symbol(rounded_to, g, b),),
}
"""The gradients of the arguments a, b and c of y, for that of y."""

_FLAT = {torch.eq, torch.ne, Tensor.isfinite, Tensor.type_as, Tensor.detach}
"""Functions without a gradient."""


def ordered(wanted: Iterable[Symbol], given: Iterable[Symbol] = ()) -> list[Symbol]:
    """The symbols that others are made of and those themselves, each behind its arguments.

    What is `given` is not looked into.
    """
    known, order = set(given), list[Symbol]()
    seen, waiting = set[Symbol](), [(symbol, False) for symbol in wanted]
    while waiting:
        symbol, entered = waiting.pop()
        if entered:
            order.append(symbol)
        elif symbol not in seen:
            seen.add(symbol)
            waiting.append((symbol, True))
            if symbol not in known:
                waiting += [(a, False) for a in symbol.arguments if isinstance(a, Symbol)]
    return order


def gradients(
    results: Mapping[Symbol, Symbol], wanted: Sequence[Symbol], surrogate: SurrogateGradient
) -> list[Symbol | None]:
    """The gradients of leaves, for those of results."""
    order, follows = ordered(results), set(wanted)
    for symbol in order:
        if symbol.function not in _FLAT and used([symbol]) & follows:
            follows.add(symbol)
    found = dict(results)
    for symbol in reversed(order):
        if symbol not in follows or symbol not in found or symbol.function is None:
            continue
        gradient, arguments = found[symbol], symbol.arguments
        if symbol.function is fire:
            slope = Symbol(surrogate.derivative, arguments[0] - arguments[1])
            parts = (gradient * slope, -(gradient * slope), None)
        else:
            parts = _RULES[symbol.function](
                gradient, symbol, *arguments, *[None] * (3 - len(arguments))
            )
        for argument, part in zip(arguments, parts, strict=False):
            if isinstance(argument, Symbol) and argument in follows and part is not None:
                found[argument] = found[argument] + part if argument in found else part
    return [found.get(symbol) for symbol in wanted]


def used(symbols: Iterable[Symbol], others: Iterable[Symbol] = ()) -> set[Symbol]:
    """The arguments of symbols, and others."""
    return {a for s in symbols for a in s.arguments if isinstance(a, Symbol)}.union(others)
