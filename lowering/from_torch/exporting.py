"""From a module and example inputs to a graph of ATen operators that have rules.

Operators without a rule are decomposed where PyTorch knows how. Not here: which sizes are free
(`free_sizes`), reading the graph (`importer`).
"""

from __future__ import annotations

import inspect
import io
import logging
import operator
import sys
import warnings
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import torch
from torch import FunctionSchema, nn
from torch._ops import OperatorBase
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import _pytree as pytree
from torch.utils._pytree import PyTree

from ...ir.errors import LoweringError, OptionError, TritonError
from ...runtime.spiking.export_recording import recording
from .calls import Call, fake_tensor, is_tensor, nodes_of, operator_name, schema_of
from .failures import DATA_DEPENDENT_ERROR, explained
from .fake_quantization import fake_quantization
from .flex_attention import written_out_scores
from .free_sizes import (
    DynamicSizes,
    bounded,
    conditional,
    dimensions_of,
    double,
    dynamic_shapes,
    free_axes,
    named_axes,
    unbounded,
)
from .in_place import becomes_functional, becomes_scattered, written_constants
from .known_branches import known_branches
from .library_neurons import recognized
from .padded_sequences import padded_sequences
from .rolling import roll_steps
from .sizes import is_free, sizes_of
from .standard_layers import batched_experts, masks_as_given, settled, shortened
from .taking_apart import Decompositions, take_apart
from .uniform_values import uniform_values

if TYPE_CHECKING:
    from ..models import ExampleInputs

HasRule: TypeAlias = "Callable[[Node], bool]"
"""Whether a node of the graph can be read."""

_DECOMPOSITIONS = 5
"""How often operators are decomposed: a decomposition may make others."""

_LEAST, _MOST = 2, 1 << 24
"""A free size is no less to `torch.export`, and a bound beyond says what memory holds."""

_REFINEMENTS = 4
"""How often bounds are put on free sizes."""

_FAILURES = (
    RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError, AssertionError,
    NotImplementedError,
)  # fmt: skip
"""What the module's own code and `torch.export` raise."""


class Exported(NamedTuple):
    """A graph, and what its free sizes are called, by the placeholder's name and axis.

    Before it is decomposed it has the operators that the module calls. `conditions` say for which
    free sizes it is, beside their bounds.
    """

    program: ExportedProgram
    names: dict[tuple[str, int], str]
    is_decomposed: bool
    conditions: tuple[str, ...] = ()


def export(
    module: nn.Module,
    example_inputs: ExampleInputs,
    dynamic: DynamicSizes | None,
) -> Exported:
    """Export a module in evaluation mode; the module stays as it is.

    Args:
        module: the module.
        example_inputs: what it is called with.
        dynamic: the free sizes; by default axis 0 of every tensor that agrees with the first.

    Raises:
        OptionError: inputs or free sizes that do not fit `forward`.
        LoweringError: the module cannot be exported.
    """
    inputs = _bind(module, example_inputs)
    shapes = dynamic_shapes(inputs, dynamic)
    double(inputs, shapes)
    dimensions = dimensions_of(shapes)
    try:
        with (
            evaluating(module), batched_experts(module), fake_quantization(module),
            masks_as_given(), padded_sequences(), recording(), written_out_scores(),
            known_branches(), uniform_values(), _unvalidated(), torch.no_grad(),
            # Its order of products hangs on sizes, which would be fixed for that.
            torch.backends.opt_einsum.flags(enabled=False), warnings.catch_warnings(),
        ):  # fmt: skip
            # torch.export copies its own trees by a name that it deprecates.
            warnings.filterwarnings("ignore", "`isinstance\\(treespec", FutureWarning)
            # Recurrent layers of PyTorch keep a list of their weights.
            warnings.filterwarnings("ignore", ".*_flat_weights.*were assigned", UserWarning)
            # It traces our own functions in the bodies of branches.
            warnings.filterwarnings("ignore", ".*`functools.lru_cache`-wrapped", UserWarning)
            conditions: list[str] = []
            with _unprinted():
                program = _traced(module, inputs, dimensions, conditions)
            roll_steps(program)
    except TritonError:
        raise
    except _FAILURES as error:
        raise LoweringError(explained(type(module).__name__, error)) from error
    names = named_axes(program, inputs, shapes)
    return Exported(program, names, is_decomposed=False, conditions=tuple(conditions))


def limits(exported: Exported) -> str:
    """What sizes the graph is for, where PyTorch found that a free size is bounded: `L up to 64`.

    A module that goes another way beyond, and a table that ends there, look the same.
    """
    ranges = cast("Mapping[Any, Any]", exported.program.range_constraints)
    found: dict[str, None] = {}
    for node in nodes_of(exported.program):
        for axis, size in enumerate(
            sizes_of(fake_tensor(node).shape)
            if node.op == "placeholder" and is_tensor(node)
            else ()
        ):
            name = exported.names.get((node.name, axis))
            if name is None or not is_free(size):
                continue
            bounds = [ranges[symbol] for symbol in size.free_symbols if symbol in ranges]
            found |= dict.fromkeys(
                f"{name} from {bound.lower}" for bound in bounds if bound.lower > _LEAST
            )
            found |= dict.fromkeys(
                f"{name} up to {bound.upper}" for bound in bounds if bound.upper < _MOST
            )
    return " and ".join((*found, *exported.conditions))


def readable(name: str, exported: Exported, has_rule: HasRule, keep: Collection[str]) -> Exported:
    """The graph where it can be read as it is, or when single operators are taken apart.

    Else in fewer operators; see `decomposed`.
    """
    if not _is_readable(exported.program, has_rule, keep):
        return decomposed(name, exported, has_rule, keep)
    _check_free(name, exported, exported.program)
    return exported


def _traced(
    module: nn.Module, inputs: inspect.BoundArguments, dimensions: dict[str, PyTree],
    conditions: list[str],
) -> ExportedProgram:  # fmt: skip
    """The program as `torch.export` gives it: with layers as single operators where that goes.

    Where free sizes meet what no bound says, it is for those that do, and `conditions` says so.
    """
    from torch._dynamo.exc import UserError, UserErrorType

    def trace() -> ExportedProgram:
        # Without free sizes any signature goes, also one that takes names it does not list.
        shapes = dimensions if any(pytree.tree_leaves(dimensions)) else None
        for _ in range(_REFINEMENTS):
            with recognized(module):
                try:
                    return torch.export.export(
                        module, inputs.args, inputs.kwargs, dynamic_shapes=shapes, strict=False
                    )
                except UserError as error:
                    known = shapes and bounded(shapes, str(error))
                    found = conditional(str(error)) if known is None else []
                    if found is None:
                        raise
                    conditions[:] = found
                    shapes = known or unbounded(dimensions)
        raise LoweringError("its free sizes have bounds that do not end")

    try:
        with shortened(module):
            program = trace()
    except TritonError:
        raise
    except _FAILURES as error:
        kind = getattr(error, "error_type", None)
        if DATA_DEPENDENT_ERROR in str(error) or kind is UserErrorType.CONSTRAINT_VIOLATION:
            raise  # operators of PyTorch's own give the same sizes
        return trace()  # PyTorch's reason is about its own operators then
    return program if settled(program) else trace()


@contextmanager
def _unvalidated() -> Generator[None]:
    """Without the checks of `torch.distributions`, whose outcome hangs on values."""
    from torch.distributions import Distribution

    default = Distribution._validate_args  # pyright: ignore[reportPrivateUsage]
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(default)


@contextmanager
def errors_alone(name: str) -> Generator[None]:
    """Without what the logger of this name says below errors."""
    log = logging.getLogger(name)
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


@contextmanager
def _unprinted() -> Generator[None]:
    """Without the graph that `torch.export` prints on stderr where sizes depend on values.

    What else is written there stands there when this ends.
    """
    written, printed = io.StringIO(), ""
    try:
        with errors_alone("torch.fx.experimental.symbolic_shapes"), redirect_stderr(written):
            yield
    except Exception as error:
        graph = getattr(error, "partial_fx_graph", None)
        printed = "" if graph is None else f"{graph}\n"
        raise
    finally:
        told = written.getvalue()
        sys.stderr.write(told.replace(printed, "") if printed else told)


def decomposed(name: str, exported: Exported, has_rule: HasRule, keep: Collection[str]) -> Exported:
    """The graph in fewer operators, without those that change a tensor.

    Args:
        name: of the program, for messages.
        exported: the graph.
        has_rule: which operators have a rule; the others are decomposed.
        keep: operators that are not decomposed, by name without overload.

    Raises:
        LoweringError: PyTorch cannot decompose it.
    """
    try:
        with recording(), uniform_values(), torch.no_grad(), warnings.catch_warnings():
            # torch.export copies its own trees by a name that it deprecates.
            warnings.filterwarnings("ignore", "`isinstance\\(treespec", FutureWarning)
            exported.program.graph_module.recompile()  # operators have been replaced
            program = _decomposed(exported.program, has_rule, keep)
    except TritonError:
        raise
    except _FAILURES as error:
        raise LoweringError(explained(name, error)) from error
    _check_free(name, exported, program)
    return exported._replace(program=program, is_decomposed=True)


def _check_free(name: str, exported: Exported, program: ExportedProgram) -> None:
    """Refuse what operators were taken apart to where that fixed sizes."""
    fixed = exported.names.keys() - free_axes(program)
    if fixed:
        names = ", ".join(sorted({exported.names[place] for place in fixed}))
        raise LoweringError(
            f"{name}: operators that must be taken apart fix sizes that were to be free: {names}\n"
            "Fix them, as with dynamic={} for all"
        )


def _bind(module: nn.Module, example_inputs: ExampleInputs) -> inspect.BoundArguments:
    if not isinstance(module, torch.nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OptionError(f"expected an nn.Module, got {type(module).__name__}")
    if example_inputs is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise OptionError("example_inputs: expected a tensor or the arguments of 'forward'")
    args, kwargs = (), {}
    if isinstance(example_inputs, Mapping):
        kwargs = example_inputs
    else:
        args = example_inputs if isinstance(example_inputs, Sequence) else (example_inputs,)
    try:
        inputs = inspect.signature(module.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise OptionError(f"example_inputs do not fit 'forward': {error}") from None
    _part(inputs)
    return inputs


def _part(inputs: inspect.BoundArguments) -> None:
    """A tensor that is given twice as two: to `torch.export` it would be one input."""
    seen: set[int] = set()

    def own(leaf: object) -> object:
        if isinstance(leaf, torch.Tensor) and id(leaf) in seen:
            return leaf.clone()
        seen.add(id(leaf))
        return leaf

    for name, value in inputs.arguments.items():
        inputs.arguments[name] = pytree.tree_map(own, value)


@contextmanager
def evaluating(module: nn.Module) -> Generator[None]:
    """The module in evaluation mode; each part's own mode comes back.

    A graph of `torch.export` has the mode that it was traced in, and refuses another.
    """
    training = [part for part in module.modules() if part.training]
    with suppress(NotImplementedError):
        module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _is_readable(program: ExportedProgram, has_rule: HasRule, keep: Collection[str]) -> bool:
    """Whether the graph can be read without running it again, which costs more than exporting.

    Operators that change a tensor which nobody else reads, such as the `relu_` behind a
    convolution, become those that give a new one; what is written to constants is computed.
    Operators without a rule are taken apart.
    """
    for node in nodes_of(program):
        if operator_name(node) == "aten::dropout" and not Call.of(node).flag("train"):
            node.replace_all_uses_with(Call.of(node)["input"], lambda user: user.op != "output")
    written = written_constants(program)
    for node in nodes_of(program):
        if node.op == "get_attr":  # the body of an operator with bodies
            return False
        if node.op != "call_function":
            continue
        schema = schema_of(node)
        if schema is None:
            if node.target is not operator.getitem and is_tensor(node):
                return False
        elif _learns(node) or not (
            not schema.is_mutable
            or node in written
            or becomes_functional(node)
            or becomes_scattered(program, node)
        ):
            return False
    known: Decompositions = {}
    for _ in range(_DECOMPOSITIONS):
        missing = [node for node in computed(program) if not has_rule(node) and node not in written]
        if not missing:
            return True
        if any(operator_name(node) in keep for node in missing):
            break
        known = known or cast("Decompositions", torch.export.default_decompositions())
        try:
            with uniform_values(), torch.no_grad():
                if not all(take_apart(node, known) for node in missing):
                    break
        except _FAILURES:  # PyTorch says more about the whole graph
            break
    return False


def _learns(node: Node) -> bool:
    """Whether a normalisation takes its statistics from the batch, and may keep them."""
    call = Call.of(node)
    return any(map(call.flag, ("training", "use_input_stats", "train")))


def _decomposed(
    program: ExportedProgram, has_rule: HasRule, keep: Collection[str]
) -> ExportedProgram:
    known: Decompositions = {}
    for turn in range(_DECOMPOSITIONS):
        missing = {
            cast("OperatorBase", node.target)
            for node in computed(program)
            if not has_rule(node) and operator_name(node) not in keep
            and not cast("FunctionSchema", schema_of(node)).is_mutable
        }  # fmt: skip
        if missing and not known:  # which takes long to look for them all
            known = cast("Decompositions", torch.export.default_decompositions())
        table = {target: known[target] for target in missing if target in known}
        if turn and not table:
            break
        # The first turn also takes away what changes tensors and operators with bodies.
        program = program.run_decompositions(table)
    return program


def computed(program: ExportedProgram) -> list[Node]:
    """The operators that depend on inputs, and not on parameters alone; not sizes."""
    inputs = set(map(str, program.graph_signature.user_inputs))
    depending: set[Node] = set()
    operators: list[Node] = []
    for node in nodes_of(program):
        if node.name in inputs or any(source in depending for source in node.all_input_nodes):
            depending.add(node)
            is_size = isinstance(node.meta.get("val"), torch.SymInt | int)
            is_call = node.op == "call_function" and schema_of(node) is not None
            if is_call and not is_size and not is_statement(node):
                operators.append(node)
    return operators


def is_statement(node: Node) -> bool:
    """Whether an operator only says something of tensors and sizes, and computes nothing."""
    return node.meta.get("val") is None or operator_name(node) == "aten::_assert_tensor_metadata"
