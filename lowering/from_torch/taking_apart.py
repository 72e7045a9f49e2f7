"""Single operators of an exported graph, taken apart where they stand.

`ExportedProgram.run_decompositions` runs the whole graph again, which takes longer than exporting.
Where a few operators without a rule are all that keeps a graph from being read, these alone are
traced. Not here: operators that change a tensor or have bodies, for which the whole graph is run
(`exporting`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

from torch._guards import detect_fake_mode
from torch._ops import OperatorBase, OpOverload
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import Argument, map_arg
from torch.utils import _pytree as pytree

from .calls import is_composite, schema_of

Decompositions: TypeAlias = "Mapping[OperatorBase, Callable[..., object]]"
"""What PyTorch has in the place of an operator."""


def take_apart(node: Node, known: Decompositions) -> bool:
    """Put the operators that a node stands for in its place; whether that goes.

    Args:
        node: calls an operator that changes no tensor.
        known: decompositions of operators.
    """
    inner = _traced(node, known)
    if inner is None:
        return False
    graph, places = node.graph, dict[Node, Node]()
    *parts, end = inner.nodes
    sources = iter(node.all_input_nodes)
    with graph.inserting_before(node):
        for part in parts:
            if part.op == "placeholder":
                places[part] = next(sources)
                continue
            places[part] = copied = graph.node_copy(part, places.__getitem__)
            copied.meta = {**node.meta, "val": part.meta["val"]}
    result = map_arg(end.args[0], places.__getitem__)
    if isinstance(result, Node):
        node.replace_all_uses_with(result)
    else:
        for user in list(node.users):
            index = cast("int", user.args[1])
            user.replace_all_uses_with(cast("Sequence[Node]", result)[index])
            graph.erase_node(user)
    graph.erase_node(node)
    return True


def _traced(node: Node, known: Decompositions) -> Graph | None:
    """The operators that a node stands for, with the results of others as placeholders in order.

    None where PyTorch has none, where one of them changes a tensor or makes sizes that hang on
    values, and where a result is no tensor of its own.

    Raises:
        RuntimeError: they hold for some sizes alone.
    """
    operator = cast("OpOverload", node.target)
    if operator not in known and not is_composite(node):
        return None
    # PyTorch's own kernel of a composite operator may fix sizes that its decomposition does not.
    compute = known.get(operator, operator)
    sources = node.all_input_nodes

    def call(*inputs: object) -> object:
        given = dict(zip(sources, cast("tuple[Argument, ...]", inputs), strict=True))
        args, kwargs = map_arg((node.args, node.kwargs), given.__getitem__)
        return compute(*args, **kwargs)

    table = {operator: known[operator]} if operator in known else {}
    values = [source.meta["val"] for source in sources]
    with _any_sizes(detect_fake_mode(values)):
        graph = make_fx(call, decomposition_table=table)(*values).graph
    graph.eliminate_dead_code()
    *parts, end = graph.nodes
    is_whole = all(
        part.op in ("placeholder", "call_function")
        and part.target is not operator
        and "val" in part.meta
        and not ((schema := schema_of(part)) and schema.is_mutable)
        and "unbacked_bindings" not in part.meta
        for part in parts
    )
    leaves = pytree.tree_leaves(end.args)
    return graph if is_whole and all(isinstance(leaf, Node) for leaf in leaves) else None


@contextmanager
def _any_sizes(mode: Any) -> Generator[None]:
    """What is traced in a `with` block holds for all sizes, or ends with a `RuntimeError`.

    Args:
        mode: PyTorch's mode of tensors without values; numbers become such tensors too.
    """
    sizes = getattr(mode, "shape_env", None)
    if mode is None or sizes is None:
        yield
        return

    def refuse(condition: object, _: object) -> None:
        raise RuntimeError(f"{condition} would be decided")

    sizes._check_frozen = refuse  # called where an expression of free sizes would be a number
    try:
        with mode:
            yield
    finally:
        del sizes._check_frozen
