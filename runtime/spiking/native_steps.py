"""Steps on symbols as what native code computes.

Not here: the code (`to_native.kernels.scan`), and its calls (`runtime.native.torch_scan`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..native.abi.scan import FUNCTIONS, TRUTHS, ScanCode
from .surrogate import SurrogateGradient
from .symbols import Symbol, fire, ordered

_NAMES: Mapping[Any, str] = {
    torch.add: "add",
    torch.sub: "sub",
    torch.rsub: "rsub",
    torch.mul: "mul",
    torch.div: "div",
    torch.minimum: "minimum",
    torch.neg: "neg",
    torch.sign: "sign",
    torch.reciprocal: "reciprocal",
    torch.where: "where",
    torch.zeros_like: "zero",
    torch.ones_like: "one",
    torch.eq: "eq",
    torch.ne: "ne",
    torch.lt: "lt",
    torch.gt: "gt",
    Tensor.abs: "abs",
    Tensor.relu: "relu",
    Tensor.isfinite: "isfinite",
    Tensor.type_as: "number",
    Tensor.detach: "copy",
    fire: "reaches",
}


class _Writer:
    """Numbers the values of a step, and lists its calls."""

    def __init__(self, inputs: Sequence[Symbol]) -> None:
        self.numbers: dict[Symbol, int] = {symbol: i for i, symbol in enumerate(inputs)}
        self.count = len(inputs)
        self.calls: list[tuple[str, tuple[int | float, ...]]] = []
        self.truths: set[int] = set()

    def put(self, name: str, *operands: int | float) -> int:
        """The number of the value of a call."""
        if name == "rsub":
            return self.put("sub", *operands[1::-1])
        if name == "reciprocal":
            return self.put("div", 1.0, *operands)
        if name == "number" and operands[0] not in self.truths:
            name = "copy"
        operands = operands[: FUNCTIONS[name]]
        self.calls.append((name, operands))
        self.count += 1
        if name in TRUTHS:
            self.truths.add(self.count - 1)
        return self.count - 1

    def write(self, symbol: Symbol) -> bool:
        """Put what a symbol stands for, whose arguments have numbers; not if there is no name."""
        function, arguments = symbol.function, symbol.arguments
        owner = getattr(function, "__self__", None)
        if isinstance(owner, SurrogateGradient):
            return self._traced(symbol, function, arguments)
        name = _NAMES.get(function)
        if name is None:
            return False
        if name == "reaches":
            name, arguments = f"reaches_{arguments[2]}", arguments[:2]
        operands = [self.numbers[a] if isinstance(a, Symbol) else float(a) for a in arguments]
        self.numbers[symbol] = self.put(name, *operands)
        return True

    def _traced(
        self, symbol: Symbol, function: Callable[..., Any] | None, arguments: Sequence[Any]
    ) -> bool:
        """The same for a function of tensors, by what it does to a symbol."""
        assert function is not None
        result = function(*arguments)
        known = list(self.numbers)
        parts = [s for s in ordered([result], known) if s not in self.numbers]
        if not all(self.write(part) for part in parts):
            return False
        self.numbers[symbol] = self.numbers[result]
        return True


def scan_code(
    inputs: tuple[Sequence[Symbol], Sequence[Symbol], Sequence[Symbol]],
    made: Sequence[Symbol],
    after: Sequence[Symbol],
    results: Sequence[Symbol],
) -> ScanCode | None:
    """A run over steps for native code; `None` where that has no such function.

    Args:
        inputs: the rows, what is carried, and what is the same for all steps.
        made: what is computed of them, each behind its arguments.
        after: what goes to the next step.
        results: what is wanted of all steps.
    """
    writer = _Writer([symbol for group in inputs for symbol in group])
    if not all(writer.write(symbol) for symbol in made):
        return None
    following = tuple(writer.numbers[symbol] for symbol in after)
    wanted = tuple(writer.numbers[symbol] for symbol in results)
    if not writer.truths.isdisjoint(following + wanted):
        return None
    rows, carried, scalars = (len(group) for group in inputs)
    return ScanCode(rows, carried, scalars, tuple(writer.calls), following, wanted)
