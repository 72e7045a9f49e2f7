"""`from_torch`: a PyTorch module as IR, `func.func @forward` with the module's parameters."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from sympy import Symbol
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import _pytree as pytree
from torch.utils._pytree import MappingKey, TreeSpec
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...dialects.parameters import attach_store
from ...ir.errors import LoweringError, UnsupportedError, VerifyError
from ...ir.printing import value_name
from ...ir.store import ParameterStore
from ...ir.value_names import DIMENSIONS_ATTRIBUTE, NAME_ATTRIBUTE
from ...passes.analysis.replacement import erase_unused
from ..problems import ProblemError, refuse
from .calls import (
    Call,
    fake_tensor,
    is_tensor,
    nodes_of,
    operator_name,
    schema_of,
)
from .chosen_rows import all_rows
from .control_flow import STAYS, unwritten, write_out_bodies
from .exporting import (
    Exported,
    computed,
    decomposed,
    export,
    is_statement,
    limits,
    readable,
)
from .failures import DATA_DEPENDENT_ERROR
from .free_sizes import DynamicSizes
from .hopeless import hopeless, sized_by_values
from .known_results import MOST_ELEMENTS, is_number, known_result
from .known_sizes import settle_sizes
from .places import location, place_of
from .rules_complex import is_complex
from .rules_shape import read
from .sizes import Sizes, ir_shape, is_free, is_node, is_of_values, named, sizes_of
from .torch_builder import Builder, Known, Value, element_type, refined
from .torch_operators import COMPLEX, ELEMENTWISE, REFUSED, RULES, SPREADING, UNCOMPUTED

if TYPE_CHECKING:
    from ..models import ExampleInputs


class TorchWarning(UserWarning):
    """A module that is read for fewer sizes than usual, or than its free sizes say."""


def from_torch(
    module: nn.Module,
    example_inputs: ExampleInputs,
    *,
    dynamic: DynamicSizes | None = None,
    recognize_ternary: bool = True,
    name: str | None = None,
) -> ModuleOp:
    """A PyTorch module as IR, as it computes in evaluation mode.

    Parameters keep their names of `state_dict`; weights of linear layers are stored [in, out].
    Every op carries the path of its module and the line of its source. The layers of
    `runtime.spiking` become ops of the dialect `spike`.

    Args:
        module: an `nn.Module`; it stays as it is.
        example_inputs: a tensor, a sequence of arguments, or a mapping of keyword arguments, of the
            types and fixed sizes that the program is for.
        dynamic: for each argument the names of its free sizes by axis, such as `{"x": {0: "N"}}`;
            `{}` for none. By default axis 0 of all tensors that agree with the first, as `N`;
            where the module fixes that, none, with a `TorchWarning`.
        recognize_ternary: turn weights whose values are -s, 0 and +s, for one s or one an output
            channel, into trits with a scale, exactly.
        name: what the IR calls the module; by default its class.

    Returns:
        A module with `func.func @forward`; arguments are named as in `forward`, results `output`,
        or `output0`, `output1`, … in the order of nested results, or by the keys of a dictionary.

    Raises:
        OptionError: inputs or sizes that do not fit `forward`.
        LoweringError: PyTorch cannot export the module, or it changes its buffers.
        UnsupportedError: names every operator without a meaning in the IR, by module and line.
    """
    name = name or type(module).__name__
    try:
        return _program(module, example_inputs, dynamic, recognize_ternary, name)
    except LoweringError as error:
        if dynamic is not None or not _may_be_sizes(error):
            raise
        fixed = _program(module, example_inputs, {}, recognize_ternary, name)
        reason = str(error).splitlines()[1 if isinstance(error, UnsupportedError) else 0].strip()
        warnings.warn(
            f"{name} is read for the sizes of the example alone, since its batch cannot be free: "
            f"{reason}", TorchWarning, stacklevel=2,
        )  # fmt: skip
        return fixed


def _may_be_sizes(error: LoweringError) -> bool:
    """Whether a module may come in when all sizes are fixed: its operators all have rules.

    Nothing helps where sizes or control flow depend on values.
    """
    known = (*RULES, *STAYS, "output")
    if not isinstance(error, UnsupportedError):
        return DATA_DEPENDENT_ERROR not in str(error)
    return not _is_of_values(error) and all(name in known for name, _, _ in error.problems)


def _is_of_values(error: UnsupportedError) -> bool:
    """Whether sizes depend on values, which no other reading of a module changes."""
    return any(is_of_values(reason) for _, _, reason in error.problems)


def _program(
    module: nn.Module, example_inputs: ExampleInputs, dynamic: DynamicSizes | None,
    recognize_ternary: bool, name: str,
) -> ModuleOp:  # fmt: skip
    exported = export(module, example_inputs, dynamic)
    if dynamic is None and (bounds := limits(exported)):
        raise LoweringError(f"{name} does this for {bounds} alone")
    return program_of(exported, name, recognize_ternary)


def program_of(exported: Exported, name: str, recognize_ternary: bool) -> ModuleOp:
    """An exported graph as IR, with a `TorchWarning` where it bounds free sizes."""
    if bounds := limits(exported):
        warnings.warn(
            f"{name} is read for {bounds}: beyond, the module may do something else",
            TorchWarning, stacklevel=4,
        )  # fmt: skip
    write_out_bodies(exported.program)
    _settle(exported.program, name)
    all_rows(exported.program, ELEMENTWISE)
    _refuse_hopeless(exported)
    exported = readable(name, exported, _has_rule, REFUSED)
    try:
        program = _Importer(exported, recognize_ternary).run(name)
    except UnsupportedError as problem:
        if exported.is_decomposed or _is_of_values(problem):
            raise
        try:
            exported = decomposed(name, exported, _has_rule, REFUSED)
        except LoweringError:
            raise problem from None
        program = _Importer(exported, recognize_ternary).run(name)
    try:
        program.verify()
    except VerifyException as error:
        raise VerifyError(f"{name}: {error}") from None
    return program


def _settle(program: ExportedProgram, name: str) -> None:
    """Sizes that known values decide are numbers, with a `TorchWarning` where one is a bound."""
    stored = {key: known.tensor for key, known in _stored(program)}
    for bound in settle_sizes(program, stored):
        warnings.warn(f"{name} is read for {bound}", TorchWarning, stacklevel=5)


def _refuse_hopeless(exported: Exported) -> None:
    """Refuse what no decomposition helps before any is tried."""
    nodes = hopeless(exported.program, computed(exported.program), _has_rule, REFUSED, UNCOMPUTED)
    problems = [(node, _reason(operator_name(node))) for node in nodes]
    problems += [*unwritten(exported.program), *sized_by_values(exported.program)]
    if problems:
        raise UnsupportedError(
            "IR", [(operator_name(node), _place(node), reason) for node, reason in problems]
        )


def _reason(name: str) -> str:
    """Why an operator without a rule is refused."""
    return REFUSED.get(name) or _unmatched(name)


def _place(node: Node) -> str:
    """Where a node stands, for messages."""
    path, file, line = place_of(node)
    place = f"{file}:{line}" if file else "unknown location"
    return f"'{path}' ({place})" if path else place


def _has_rule(node: Node) -> bool:
    name = operator_name(node)
    return name in COMPLEX if is_complex(node) else name in RULES or name in SPREADING


class _Importer:
    """Reads one exported graph."""

    def __init__(self, exported: Exported, recognize_ternary: bool) -> None:
        self.program, self.axis_names = exported.program, exported.names
        self.signature = self.program.graph_signature
        self.block = Block()
        buffers = {str(target) for target in self.signature.inputs_to_buffers.values()}
        self.stored = dict(_stored(self.program))
        held = sum(known.tensor.numel() for known in self.stored.values())
        self.most = MOST_ELEMENTS + 4 * held
        self.builder = Builder(
            self.block, ParameterStore.unsaved(), recognize_ternary, frozenset(buffers)
        )
        self.names: dict[Symbol, str] = {}
        self.arguments: list[tuple[str, Sizes]] = []
        self.problems: list[tuple[str, str, str]] = []
        self.failed: set[Node] = set()

    def run(self, name: str) -> ModuleOp:
        """The module."""
        written = self.signature.buffers_to_mutate
        changed = sorted({*map(str, written.values())} & {*self._read_buffers()})
        if changed or self.signature.user_inputs_to_mutate:
            what = ", ".join(changed) or "an input"
            raise LoweringError(f"{name} changes {what} when it runs; return the new value instead")
        results: list[Node | None] = []
        for node in nodes_of(self.program):
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "output":
                results = [*cast("Sequence[Node | None]", node.args[0])][len(written) :]
            else:
                self._operator(node)
        outputs = [self._output(index, node) for index, node in enumerate(results)]
        if self.problems:
            raise UnsupportedError("IR", self.problems)
        values = [value for value in outputs if value is not None]
        return self._module(name, results, values)

    # Inputs and parameters.

    def _placeholder(self, node: Node) -> None:
        if node.name in self.stored:
            self.builder.values[node] = self.stored[node.name]
            return
        if not is_tensor(node):
            return
        sizes = self.builder.sizes(node)
        for axis, size in enumerate(sizes):
            if is_free(size) and (node.name, axis) in self.axis_names:
                for symbol in size.free_symbols:
                    self.names.setdefault(symbol, self.axis_names[node.name, axis])
        try:
            type = TensorType(element_type(fake_tensor(node).dtype), ir_shape(sizes))
        except ProblemError as problem:
            self._fail(node, "argument", str(problem))
            return
        argument = self.block.insert_arg(type, len(self.block.args))
        argument.name_hint = value_name(node.name)
        self.builder.values[node] = argument
        self.arguments.append((node.name, sizes))

    # Operators.

    def _operator(self, node: Node) -> None:
        if any(source in self.failed for source in node.all_input_nodes):
            self.failed.add(node)
            return
        builder = self.builder
        builder.location = location(node)
        try:
            if node.target is operator.getitem:
                source, index = cast("tuple[Node, int]", node.args)
                parts = builder.values[source]
                if not isinstance(parts, Sequence):
                    raise ProblemError("it takes a part of a single tensor")
                builder.values[node] = parts[index]
                return
            if is_number(node):
                if operator_name(node) == "aten::item":
                    read(builder, Call.of(node))
                return
            if schema_of(node) is None:
                raise ProblemError("the IR has nothing like it")
            builder.values[node] = self._value(node)
        except (ProblemError, VerifyException) as problem:
            self._fail(node, operator_name(node), str(problem))

    def _value(self, node: Node) -> Value:
        call = Call.of(node)
        if is_statement(node):
            return None
        known = known_result(self.builder, call, self.most)
        if known is not None:
            return known
        rule = (COMPLEX if is_complex(node) else RULES).get(call.name)
        if rule is None:
            raise ProblemError(_reason(call.name))
        result = rule(self.builder, call)
        if isinstance(result, Known):
            return result
        if isinstance(result, SSAValue):
            return refined(result, call.sizes)
        if call.value.is_complex():
            return [part and refined(part, call.sizes) for part in result]
        tensors = cast("Sequence[Tensor]", node.meta["val"])
        return [
            None if part is None else refined(part, sizes_of(like.shape))
            for part, like in zip(result, tensors, strict=False)
        ]

    def _fail(self, node: Node, name: str, reason: str) -> None:
        self.problems.append((name, _place(node), reason))
        self.failed.add(node)

    # Results.

    def _read_buffers(self) -> Iterator[str]:
        """Buffers with values that are read; what is written anew each time carries nothing on."""
        for node in nodes_of(self.program):
            buffer = self.signature.inputs_to_buffers.get(node.name)
            if buffer is not None and not all(
                operator_name(user) == "aten::copy" and node not in user.args[1:]
                for user in node.users
            ):
                yield str(buffer)

    def _output(self, index: int, node: Node | None) -> SSAValue | None:
        if node is None or node in self.failed:
            return None
        if not is_node(node) or is_number(node):
            self.problems.append(("output", f"result {index}", "it is no tensor"))
            return None
        self.builder.location = location(node)
        try:
            refuse(fake_tensor(node).is_complex(), "it is complex; return torch.view_as_real of it")
            return self.builder.value(node)
        except ProblemError as problem:
            self._fail(node, "output", str(problem))
            return None

    def _module(
        self, name: str, results: Sequence[Node | None], outputs: Sequence[SSAValue]
    ) -> ModuleOp:
        present = [node for node in results if node is not None]
        end = ReturnOp(*outputs)
        self.builder.end(end)
        shown = _result_names(cast("TreeSpec", self.program.call_spec.out_spec), results)
        function = FuncOp(
            "forward",
            FunctionType.from_lists(
                [value.type for value in self.block.args], [value.type for value in outputs]
            ),
            Region(self.block),
            arg_attrs=ArrayAttr([self._named(*argument) for argument in self.arguments]),
            res_attrs=ArrayAttr(
                [self._named(text, self.builder.sizes(node))
                 for text, node in zip(shown, present, strict=True)]
            ),
        )  # fmt: skip
        module = ModuleOp([function], sym_name=StringAttr(name))
        for op in (function, module):
            op.location = end.location
        attach_store(module, self.builder.store)
        erase_unused([op for op in module.walk() if op.results])
        return module

    def _named(self, name: str, sizes: Sizes) -> DictionaryAttr:
        dimensions = ArrayAttr([StringAttr(named(size, self.names)) for size in sizes])
        return DictionaryAttr({NAME_ATTRIBUTE: StringAttr(name), DIMENSIONS_ATTRIBUTE: dimensions})


def _stored(program: ExportedProgram) -> Iterator[tuple[str, Known]]:
    """Parameters, buffers and constants by the names of their placeholders."""
    signature, state = program.graph_signature, cast("Mapping[str, Tensor]", program.state_dict)
    constants = cast("Mapping[str, Tensor]", program.constants)
    for table, values, is_constant in (
        (signature.inputs_to_lifted_tensor_constants, constants, True),
        (signature.inputs_to_buffers, {**constants, **state}, False),
        (signature.inputs_to_parameters, state, False),
    ):
        for name, key in table.items():
            tensor = values[key].detach()
            keys = () if is_constant else (key,)
            yield name, Known(tensor, sizes_of(tensor.shape), keys, not is_constant)


def _unmatched(name: str) -> str:
    if name.startswith("aten::"):
        return "no op of the IR computes it; write it with other operators"
    return "operators of other libraries are not known; use layers of PyTorch's own operators"


def _result_names(spec: TreeSpec, results: Sequence[Node | None]) -> list[str]:
    """Names for all results but `None`s."""
    paths = [path for path, _ in pytree.tree_leaves_with_path(pytree.tree_unflatten(
        list(range(len(results))), spec))]  # fmt: skip
    pairs = [(path, i) for i, (path, node) in enumerate(zip(paths, results, strict=True))
             if node is not None]  # fmt: skip
    if len(pairs) == 1 and not pairs[0][0]:
        return ["output"]
    names: list[str] = []
    for path, index in pairs:
        keys = [
            cast("MappingKey[str, object]", entry).key for entry in path if hasattr(entry, "key")
        ]
        only = len(pairs) == 1 and not keys
        default = "output" if only else f"output{index}"
        names.append(str(keys[-1]) if keys and len(path) == 1 else default)
    return names
