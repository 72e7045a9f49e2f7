"""From a module and example inputs to a graph of ATen operators that have rules.

Free sizes get names, an example batch of one is doubled (`torch.export` takes a size of one for a
constant), and operators without a rule are decomposed where PyTorch knows how. Not here: reading
the graph (`importer`).
"""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from ...ir.errors import LoweringError, OptionError, TritonError
from ...runtime.spiking.export_recording import recording
from .library_neurons import recognized
from .rolling import roll_steps
from .standard_layers import FRESH, settled, shortened

BATCH = "N"
"""The name of the free size that is found where nobody names any."""

DynamicSizes = Mapping[str, Mapping[int, str]]
"""For an argument of `forward` the names of its free sizes, by axis."""

_DECOMPOSITIONS = 4
"""How often operators are decomposed: a decomposition may make others."""

_FAILURES = (
    RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError, AssertionError,
    NotImplementedError,
)  # fmt: skip
"""What the module's own code and `torch.export` raise."""


class _Axes(NamedTuple):
    """The free axes of one tensor, and their names."""

    names: dict[int, str]


class Exported(NamedTuple):
    """A graph, and what its free sizes are called, by the placeholder's name and axis.

    Before it is decomposed it has the operators that the module calls.
    """

    program: Any
    names: dict[tuple[str, int], str]
    is_decomposed: bool


def export(
    module: Any,
    example_inputs: Any,
    dynamic: DynamicSizes | None,
    has_rule: Callable[[Any], bool],
    keep: Collection[str],
) -> Exported:
    """Export a module in evaluation mode; the module stays as it is.

    Args:
        module: an `nn.Module`.
        example_inputs: a tensor, a sequence of arguments, or a mapping of keyword arguments.
        dynamic: the free sizes; by default axis 0 of every tensor that agrees with the first.
        has_rule: whether a node of the graph can be read.
        keep: operators that are not decomposed, by name without overload.

    Raises:
        OptionError: inputs or free sizes that do not fit `forward`.
        LoweringError: the module cannot be exported.
    """
    import torch

    inputs = _bind(module, example_inputs)
    shapes = _dynamic_shapes(inputs, dynamic)
    _double(inputs, shapes)
    dimensions = _dimensions(shapes)
    try:
        with (
            evaluating(module), recording(), torch.no_grad(), warnings.catch_warnings(),
        ):  # fmt: skip
            # torch.export copies its own trees by a name that it deprecates.
            warnings.filterwarnings("ignore", "`isinstance\\(treespec", FutureWarning)
            program = _traced(module, inputs, dimensions)
            roll_steps(program)
            readable = _is_readable(program, has_rule)
    except TritonError:
        raise
    except _FAILURES as error:
        raise LoweringError(_explained(module, error)) from error
    exported = Exported(program, _named_axes(program, inputs, shapes), is_decomposed=False)
    return exported if readable else decomposed(module, exported, has_rule, keep)


def _traced(module: Any, inputs: inspect.BoundArguments, dimensions: dict[str, Any]) -> Any:
    """The program as `torch.export` gives it: with layers as single operators where that goes."""
    import torch

    def trace() -> Any:
        with recognized(module):
            return torch.export.export(
                module, inputs.args, inputs.kwargs, dynamic_shapes=dimensions, strict=False
            )

    try:
        with shortened(module):
            program = trace()
    except TritonError:
        raise
    except _FAILURES:
        return trace()  # PyTorch's reason is about its own operators then
    return program if settled(program) else trace()


def decomposed(
    module: Any,
    exported: Exported,
    has_rule: Callable[[Any], bool],
    keep: Collection[str],
) -> Exported:
    """The graph in fewer operators, without those that change a tensor; see `export`.

    Raises:
        LoweringError: PyTorch cannot decompose it.
    """
    import torch

    try:
        with recording(), torch.no_grad(), warnings.catch_warnings():
            # torch.export copies its own trees by a name that it deprecates.
            warnings.filterwarnings("ignore", "`isinstance\\(treespec", FutureWarning)
            exported.program.graph_module.recompile()  # operators have been replaced
            program = _decomposed(exported.program.run_decompositions({}), has_rule, keep)
    except TritonError:
        raise
    except _FAILURES as error:
        raise LoweringError(_explained(module, error)) from error
    return Exported(program, exported.names, is_decomposed=True)


def _bind(module: Any, example_inputs: Any) -> inspect.BoundArguments:
    import torch

    if not isinstance(module, torch.nn.Module):
        raise OptionError(f"expected an nn.Module, got {type(module).__name__}")
    if example_inputs is None:
        raise OptionError("example_inputs: expected a tensor or the arguments of 'forward'")
    if isinstance(example_inputs, Mapping):
        args, kwargs = (), dict(example_inputs)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    elif isinstance(example_inputs, Sequence):
        args, kwargs = tuple(example_inputs), {}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    else:
        args, kwargs = (example_inputs,), {}
    try:
        return inspect.signature(module.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise OptionError(f"example_inputs do not fit 'forward': {error}") from None


def _dynamic_shapes(inputs: inspect.BoundArguments, dynamic: DynamicSizes | None) -> dict[str, Any]:
    """For each argument a tree like its own, with `_Axes` in the place of each tensor."""
    import torch
    from torch.utils import _pytree as pytree

    tensors = [
        leaf for leaf in pytree.tree_leaves(inputs.arguments) if isinstance(leaf, torch.Tensor)
    ]
    if dynamic is None:
        batch = next((leaf.shape[0] for leaf in tensors if leaf.dim()), None)

        def first_axis(leaf: Any) -> _Axes | None:
            has_batch = isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] == batch
            return _Axes({0: BATCH}) if has_batch else None

        return {
            name: pytree.tree_map(first_axis, value) for name, value in inputs.arguments.items()
        }
    unknown = sorted(set(dynamic) - set(inputs.arguments))
    if unknown:
        known = ", ".join(inputs.arguments) or "none"
        raise OptionError(f"dynamic: 'forward' has no argument '{unknown[0]}'; given are {known}")

    def wanted(name: str) -> Callable[[Any], _Axes | None]:
        def axes(leaf: Any) -> _Axes | None:
            if not isinstance(leaf, torch.Tensor):
                return None
            sizes = dynamic.get(name, {})
            wrong = [axis for axis in sizes if not -leaf.dim() <= axis < leaf.dim()]
            if wrong:
                raise OptionError(
                    f"dynamic: '{name}' has no axis {wrong[0]}: it is {list(leaf.shape)}"
                )
            return _Axes({axis % leaf.dim(): size for axis, size in sizes.items()})

        return axes

    return {name: pytree.tree_map(wanted(name), value) for name, value in inputs.arguments.items()}


def _double(inputs: inspect.BoundArguments, shapes: dict[str, Any]) -> None:
    """Double the free axes of one element."""
    import torch

    def doubled(leaf: Any, axes: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            for axis in axes.names if isinstance(axes, _Axes) else ():
                leaf = torch.cat([leaf, leaf], axis) if leaf.shape[axis] == 1 else leaf
        return leaf

    for name, value in inputs.arguments.items():
        inputs.arguments[name] = _map_pairs(doubled, value, shapes[name])


def _map_pairs(function: Callable[[Any, Any], Any], value: Any, shape: Any) -> Any:
    """`function` of each leaf of `value` and what stands in its place in `shape`."""
    from torch.utils import _pytree as pytree

    leaves, spec = pytree.tree_flatten(value)
    return pytree.tree_unflatten(
        [function(a, b) for a, b in zip(leaves, _leaves(spec, shape), strict=True)], spec
    )


def _leaves(spec: Any, shape: Any) -> list[Any]:
    """The entries of `shape` in the places of the leaves of `spec`."""
    if spec.num_leaves == 1 and not spec.num_children:
        return [shape]
    return spec.flatten_up_to(shape)


def _dimensions(shapes: dict[str, Any]) -> dict[str, Any]:
    from torch.export import Dim

    made: dict[str, Any] = {}

    def dimensions(value: Any) -> Any:
        if isinstance(value, _Axes):
            return {a: made.setdefault(name, Dim(name)) for a, name in value.names.items()}
        if isinstance(value, dict):
            parts = cast("dict[Any, Any]", value)
            return {key: dimensions(part) for key, part in parts.items()}
        if isinstance(value, list | tuple):
            parts = [dimensions(part) for part in cast("Sequence[Any]", value)]
            return tuple(parts) if isinstance(value, tuple) else parts
        return None

    return {name: dimensions(value) for name, value in shapes.items()}


@contextmanager
def evaluating(module: Any) -> Generator[None]:
    """The module in evaluation mode; each part's own mode comes back."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _is_readable(program: Any, has_rule: Callable[[Any], bool]) -> bool:
    """Whether the graph can be read as it is exported; decomposing costs more than exporting.

    Operators that change a tensor which nobody else reads, such as the `relu_` behind a
    convolution, become those that give a new one.
    """
    for node in program.graph.nodes:
        if node.op == "get_attr":  # the body of an operator with bodies
            return False
        if node.op != "call_function":
            continue
        if not hasattr(node.target, "_schema"):
            if node.target is not operator.getitem and hasattr(node.meta.get("val"), "shape"):
                return False
        elif _learns(node) or (node.target._schema.is_mutable and not _becomes_functional(node)):
            return False
    return all(map(has_rule, _computed(program)))


def _learns(node: Any) -> bool:
    """Whether a normalisation takes its statistics from the batch, and may keep them."""
    arguments = {
        argument.name: place for place, argument in enumerate(node.target._schema.arguments)
    }
    for name in ("training", "use_input_stats", "train"):
        place = arguments.get(name)
        if place is not None:
            given = node.args[place] if place < len(node.args) else node.kwargs.get(name)
            if given is not False:
                return True
    return False


def _becomes_functional(node: Any) -> bool:
    """Whether an operator that changes its first operand was put in the form that does not."""
    import torch

    name, _, overload = node.target.name().removeprefix("aten::").partition(".")
    made: Any = getattr(torch.ops.aten, name.removesuffix("_"), None)
    functional = getattr(made, overload or "default", None)
    tensors = [value for value in node.args if hasattr(value, "users")]
    if not name.endswith("_") or functional is None or not tensors or node.kwargs:
        return False
    changed = tensors[0]
    # What is written keeps the type of the tensor; a new one might not.
    types = {value.meta["val"].dtype for value in (*tensors, node) if "val" in value.meta}
    if changed is not node.args[0] or len(changed.users) > 1 or len(types) > 1:
        return False
    if changed.op != "call_function" or not hasattr(changed.target, "_schema"):
        return False
    if changed.target.name() not in FRESH:
        return False
    node.target = functional
    return True


def _decomposed(program: Any, has_rule: Callable[[Any], bool], keep: Collection[str]) -> Any:
    import torch

    for _ in range(_DECOMPOSITIONS):
        missing: set[Any] = {
            node.target
            for node in _computed(program)
            if not has_rule(node) and node.target.name().split(".")[0] not in keep
        }
        known: Any = torch.export.default_decompositions() if missing else {}
        table: dict[Any, Any] = {target: known[target] for target in missing if target in known}
        if not table:
            break
        program = program.run_decompositions(table)
    return program


def _computed(program: Any) -> list[Any]:
    """The operators that depend on inputs, and not on parameters alone; not sizes."""
    import torch

    inputs = set(map(str, program.graph_signature.user_inputs))
    depending: set[Any] = set()
    found: list[Any] = []
    for node in program.graph.nodes:
        if node.name in inputs or any(source in depending for source in node.all_input_nodes):
            depending.add(node)
            is_size = isinstance(node.meta.get("val"), torch.SymInt | int)
            if node.op == "call_function" and hasattr(node.target, "_schema") and not is_size:
                found.append(node)
    return found


def _explained(module: Any, error: Exception) -> str:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    text = f"{type(module).__name__} cannot be exported: {first}"
    if any(word in str(error) for word in ("Constraint", "dynamic_shapes", "specialized", "Dim(")):
        return (
            f"{text}\nThe module fixes a size that was to be free; name those that are, as "
            "dynamic={'x': {0: 'N'}}, or none with dynamic={}"
        )
    return f"{text}\nControl flow must not depend on values, and no module may be changed"


def _named_axes(
    program: Any, inputs: inspect.BoundArguments, shapes: dict[str, Any]
) -> dict[tuple[str, int], str]:
    """The names of free sizes by placeholder and axis."""
    from torch.utils import _pytree as pytree

    ordered = [
        axes
        for name, value in inputs.arguments.items()
        for axes in _leaves(pytree.tree_flatten(value)[1], shapes[name])
    ]
    names: dict[tuple[str, int], str] = {}
    for placeholder, axes in zip(program.graph_signature.user_inputs, ordered, strict=True):
        if isinstance(axes, _Axes):
            names.update({(str(placeholder), axis): name for axis, name in axes.names.items()})
    return names
