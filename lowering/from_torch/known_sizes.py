"""Sizes that depend on values which are known: those of parameters, buffers and constants.

`torch.export` leaves them open. A size that PyTorch bounds from below alone (`bincount`) is read as
that bound, which a warning says. Not here: what is computed while a program is read
(`known_results`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import sympy
import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.node import Argument, map_arg

from .calls import Call, fake_tensor, is_tensor, nodes_of, operator_name, schema_of
from .hopeless import example
from .sizes import depends_on_values, sizes_of

_DECIDING: dict[str, Callable[[Call], list[Node]]] = {
    "aten::index": lambda call: [
        node for node in cast("Sequence[Node | None]", call.arguments["indices"]) if node
    ],
    "aten::masked_select": lambda call: [call["mask"]],
    "aten::repeat_interleave": lambda call: [call["repeats"]],
    **dict.fromkeys(
        ("aten::argwhere", "aten::bincount", "aten::nonzero", "aten::nonzero_numpy"),
        lambda call: [call["self"]],
    ),
}
"""The tensors whose values decide about the size of a result."""


def settle_sizes(program: ExportedProgram, stored: Mapping[str, Tensor]) -> Iterator[str]:
    """Put numbers in the place of such sizes, in the types of the whole graph.

    Args:
        program: as it is exported.
        stored: parameters, buffers and constants by the names of their placeholders.

    Yields:
        What the program is read for, where a size is a bound.
    """
    values, fixed = dict["Node", "Tensor"](), set["Node"]()
    for node in nodes_of(program):
        is_call = node.op == "call_function" and schema_of(node) is not None and is_tensor(node)
        if node.name in stored or (is_call and fixed.issuperset(node.all_input_nodes)):
            fixed.add(node)
        deciding = _DECIDING.get(operator_name(node))
        if deciding is None or not is_tensor(node):
            continue
        open_axes = [
            axis for axis, size in enumerate(sizes_of(fake_tensor(node).shape))
            if depends_on_values(size)
        ]  # fmt: skip
        if len(open_axes) != 1:
            continue
        (axis,), call = open_axes, Call.of(node)
        if fixed.issuperset(deciding(call)):
            with torch.no_grad():
                _settle(node, axis, _evaluated(node, stored, values, fixed).shape[axis])
        elif call.name == "aten::bincount" and (least := call.integer("minlength", 0)):
            _settle(node, axis, least)
            yield f"integers below {least}, the 'minlength' of a bincount"


def _settle(node: Node, axis: int, size: int) -> None:
    """Say in the whole graph how large an axis is."""
    open_size: Any = fake_tensor(node).shape[axis]
    expression = open_size.node.expr
    (symbol,) = expression.free_symbols
    (number,) = cast("Any", sympy).solve(expression - size, symbol)
    open_size.node.shape_env._set_replacement(symbol, number, "its values are known")


def _evaluated(
    node: Node, stored: Mapping[str, Tensor], values: dict[Node, Tensor], fixed: set[Node]
) -> Tensor:
    """The result for known tensors, and for zeros of the sizes of the example for others."""

    def real(source: Node) -> Argument:
        if source not in fixed:
            fake = fake_tensor(source)
            return torch.zeros([cast("int", example(size)) for size in fake.shape],
                               dtype=fake.dtype)  # fmt: skip
        if source not in values:
            values[source] = (
                stored[source.name] if source.name in stored
                else _evaluated(source, stored, values, fixed)
            )  # fmt: skip
        return values[source]

    args, kwargs = map_arg(node.args, real), map_arg(node.kwargs, real)
    return cast("Callable[..., Tensor]", node.target)(*args, **kwargs)
