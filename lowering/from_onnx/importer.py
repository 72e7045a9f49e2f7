"""`from_onnx`: an ONNX model as IR. Walks graphs, inlines functions, gathers what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp, NameLoc, StringAttr
from xdsl.ir import Block, BlockArgument, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...ir.errors import OptionError, SourceError, UnsupportedError, VerifyError
from ...ir.locations import file_location
from ...ir.printing import value_name
from ...ir.store import ParameterStore
from ..problems import ProblemError, refuse
from .assembly import assembled
from .calls import AttributeValue
from .formats import FORMAT_ATTRIBUTE
from .inputs import InputValue, dtype_of_value, input_value, sizes_of, type_of_proto, type_of_value
from .onnx_builder import Builder, Call, Results, UnknownValueError, Value
from .onnx_operators import FOREIGN, REFUSED, RULES
from .reading import ModelSource, attributes_of, read_model, require_text, tensor_array
from .schemas import OPSETS, body_of
from .scopes import FAILED, FailedError, Scope
from .sizes import Free

if TYPE_CHECKING:
    import onnx


class OnnxWarning(UserWarning):
    """A node whose meaning depends on free sizes, and that is read for most of them."""


MALFORMED = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What rules raise at attributes of another kind or number than the standard says."""

MOST_NODES = 500_000
"""A model with more nodes, functions inlined and loops unrolled, is refused."""


def from_onnx(
    source: ModelSource,
    *,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    constants: Mapping[str, InputValue] | None = None,
    recognize_ternary: bool = True,
    name: str | None = None,
) -> ModuleOp:
    """An ONNX model as IR.

    Named and unnamed free dimensions stay free. Model-local functions are inlined; what depends
    on initialisers and fixed sizes alone is computed. Every op carries the name of its node.

    Args:
        source: a path, the bytes of a file, or an `onnx.ModelProto`.
        shapes: for some inputs the sizes that the program is for; text names a free one.
        constants: values of inputs that are part of the program, such as the sizes of a reshape;
            they are no arguments of it.
        recognize_ternary: turn weights whose values are -s, 0 and +s, for one s or one an output
            channel, into trits with a scale, exactly.
        name: what the IR calls the module; by default the file's name or the graph's.

    Returns:
        A module with `func.func @forward`, whose arguments and results are named as in the model.

    Raises:
        SourceError: no ONNX model, or one that does not fit together.
        UnsupportedError: names every node without a meaning in the IR.
        OptionError: no such input, or shapes that do not fit the model's.
        BackendError: the `onnx` package is missing.

    Warns:
        OnnxWarning: names each `Squeeze` without axes that keeps a free size.
    """
    imported = import_model(
        source, shapes=shapes, constants=constants, recognize_ternary=recognize_ternary, name=name
    )
    if imported.problems:
        raise UnsupportedError("IR", imported.problems)
    for note in imported.notes:
        warnings.warn(note, OnnxWarning, stacklevel=2)
    return imported.module


@dataclass
class Imported:
    """What reading a model gave.

    Attributes:
        module: the program; without a meaning where there are problems.
        problems: one `(operator, place, reason)` for each node that is refused.
        needed: inputs whose values must be known, by name.
        groups: for each output of the model how many results it has; `None` for a tensor.
        notes: what holds only for some sizes, with the names of nodes.
    """

    module: ModuleOp
    problems: list[tuple[str, str, str]]
    needed: list[str]
    groups: list[int | None]
    notes: list[str]


def import_model(
    source: ModelSource,
    *,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    constants: Mapping[str, InputValue] | None = None,
    recognize_ternary: bool = True,
    name: str | None = None,
) -> Imported:
    """`from_onnx`, with problems as values."""
    model, where, folder = read_model(source)
    if name is None:
        name = Path(where).stem if folder is not None else str(model.graph.name or "model")
    reader = _Importer(model, where, folder, recognize_ternary)
    imported = reader.run(name, dict(shapes or {}), dict(constants or {}))
    if not imported.problems:
        try:
            imported.module.verify()
        except VerifyException as error:
            raise VerifyError(f"{where}: {error}") from None
    return imported


class _Importer:
    """Reads one model."""

    def __init__(
        self, model: onnx.ModelProto, where: str, folder: Path | None, recognize_ternary: bool
    ) -> None:
        self.model, self.where, self.folder = model, where, folder
        self.block = Block()
        self.builder = Builder(self.block, ParameterStore.unsaved(), recognize_ternary)
        self.functions = {(_domain(f.domain), f.name): f for f in model.functions}
        self.problems: list[tuple[str, str, str]] = []
        self.notes: list[str] = []
        self.needed: dict[str, None] = {}
        self.arguments: list[tuple[str, BlockArgument]] = []
        self.count = 0

    def run(
        self, name: str, shapes: dict[str, Sequence[int | str]], constants: dict[str, InputValue]
    ) -> Imported:
        """The module."""
        graph = self.model.graph
        if not graph.output:
            raise SourceError(f"{self.where}: no ONNX model: its graph has no outputs")
        require_text(self.where, name, *(info.name for info in (*graph.input, *graph.output)))
        scope = Scope(self, self._opsets(self.model.opset_import))
        self.builder.location = self._location("model", 0)
        self.initializers(graph, scope)
        self.builder.budget += 256 * sum(a.nbytes for a in self.builder.arrays.values())
        known = {info.name for info in graph.input}
        for entries in (shapes, constants):
            if unknown := sorted(set(entries) - known):
                raise OptionError(f"{self.where} has no input '{unknown[0]}'")
        for info in graph.input:
            self._input(info, scope, shapes, constants)
        self.nodes(graph.node, scope)
        groups: list[int | None] = []
        results: list[tuple[str, SSAValue]] = []
        for info in graph.output:
            is_list, values = self._output(info, scope)
            groups.append(len(values) if is_list else None)
            for key, value in enumerate(values or []):
                shown = info.name if groups[-1] is None else f"{info.name}.{key}"
                results.append((shown, value))
        formats = {
            value: {FORMAT_ATTRIBUTE: StringAttr(format.shown)}
            for value, format in self.builder.formats.items()
        }
        module = assembled(
            self.builder, name, self.arguments, results, self._location("results", 0), formats
        )
        return Imported(module, self.problems, list(self.needed), groups, self.notes)

    def _opsets(self, entries: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
        opsets = {_domain(entry.domain): int(entry.version) for entry in entries}
        version = opsets.setdefault("", 1)
        low, high = OPSETS
        if not low <= version <= high:
            raise SourceError(
                f"{self.where}: opset {version} is not supported; convert the model to one of "
                f"{low} to {high} with onnx.version_converter"
            )
        return opsets

    # What a graph takes.

    def initializers(self, graph: onnx.GraphProto, scope: Scope) -> None:
        """Values that a graph brings along."""
        for proto in graph.initializer:
            require_text(self.where, proto.name)
            builder = self.builder
            try:
                array = tensor_array(proto, self.folder, self.where)
                value = builder.known(array)
            except ProblemError as problem:
                self._problem("initializer", f"'{proto.name}'", str(problem))
                scope.values[proto.name] = FAILED
                continue
            builder.names[value] = proto.name
            builder.stored.add(value)
            scope.values[proto.name] = value
        for proto in graph.sparse_initializer:
            self._problem("initializer", f"'{proto.values.name}'", "it is sparse; store it dense")
            scope.values[proto.values.name] = FAILED

    def _input(
        self,
        info: onnx.ValueInfoProto,
        scope: Scope,
        shapes: dict[str, Sequence[int | str]],
        constants: dict[str, InputValue],
    ) -> None:
        name = info.name
        if name in constants:
            try:
                scope.values[name] = input_value(self.builder, constants[name], name)
            except ProblemError as problem:
                self._fail(scope, [name], "input", f"'{name}'", problem)
            return
        if name in scope.values:
            return
        try:
            kind = info.type.WhichOneof("value")
            refuse(kind != "tensor_type", "it is no tensor; give its value with 'constants'")
            type = info.type.tensor_type
            sizes = sizes_of(name, type, shapes.get(name), self.where)
            value = self.builder.argument(sizes, *type_of_proto(type.elem_type))
        except ProblemError as problem:
            self._fail(scope, [name], "input", f"'{name}'", problem)
            self.needed[name] = None
            return
        value.name_hint = value_name(name)
        scope.values[name] = value
        self.arguments.append((name, value))

    # Nodes.

    def nodes(self, nodes: Iterable[onnx.NodeProto], scope: Scope) -> None:
        """The nodes of a graph or function, in order."""
        for index, node in enumerate(nodes):
            self.count += 1
            if self.count > MOST_NODES:
                raise SourceError(f"{self.where}: more than {MOST_NODES} nodes when unrolled")
            require_text(
                self.where, *node.input, *node.output, node.name, node.op_type, node.domain
            )
            outputs = list(node.output)
            shown = node.name or next(filter(None, outputs), node.op_type)
            place = f"'{scope.path}/{shown}'" if scope.path else f"'{shown}'"
            if scope.depth == 0:
                self.builder.location = self._location(shown, index + 1)
            try:
                inputs = [scope.result(name) for name in node.input]
                answer = self._node(node, inputs, scope, shown)
                for note in self.builder.notes:
                    self.notes.append(f"{node.op_type} at {place} of {self.where}: {note}")
                self.builder.notes.clear()
                results = answer if isinstance(answer, tuple) else (answer,)
                for name, value in zip(outputs, results, strict=False):
                    again = bool(name) and name in scope.values
                    refuse(again, f"it gives '{name}', which is there before it")
                    scope.values[name] = value
                if len(results) < len(outputs) and any(outputs[len(results) :]):
                    raise ProblemError(f"it gives {len(results)} results, not {len(outputs)}")
            except FailedError:
                scope.values.update(dict.fromkeys(filter(None, outputs), FAILED))
            except (ProblemError, VerifyException) as problem:
                self._fail(scope, outputs, node.op_type, place, problem)
            except MALFORMED as error:
                problem = ProblemError(f"its inputs or attributes do not fit it: {error}")
                self._fail(scope, outputs, node.op_type, place, problem)

    def _node(self, node: onnx.NodeProto, inputs: list[Value], scope: Scope, shown: str) -> Results:
        domain = _domain(node.domain)
        key = (domain, node.op_type)
        attributes = attributes_of(node.attribute, self.folder, self.where)
        for entry in node.attribute:
            if entry.ref_attr_name:
                attributes.pop(entry.name, None)
                if scope.attributes is not None and entry.ref_attr_name in scope.attributes:
                    attributes[entry.name] = scope.attributes[entry.ref_attr_name]
        while inputs and inputs[-1] is None:
            inputs.pop()
        if key in self.functions:
            return self._inlined(self.functions[key], inputs, attributes, scope, shown)
        call = Call(node.op_type, domain, scope.opsets.get(domain, 1), inputs, attributes,
                    len(node.output), scope)  # fmt: skip
        rule = RULES.get(node.op_type) if domain == "" else FOREIGN.get(key)
        if rule is not None:
            return rule(self.builder, call)
        if node.op_type not in REFUSED:
            types = [self._proto_type(value) for value in inputs]
            body = body_of(_resolved(node, attributes), call.opset, types)
            if body is not None:
                defaults = attributes_of(body[1], self.folder, self.where)
                return self._inlined(body[0], inputs, {**defaults, **attributes}, scope, shown)
        name = ".".join(filter(None, key))
        raise ProblemError(REFUSED.get(name) or f"the operator {name} is not known")

    def _proto_type(self, value: Value) -> onnx.TypeProto:
        """The type of a value, for functions of the standard that depend on types."""
        from onnx import TypeProto, helper

        if not isinstance(value, SSAValue):
            return TypeProto()
        elem = helper.np_dtype_to_tensor_dtype(dtype_of_value(self.builder, value))
        shape = [None if isinstance(s, Free) else s for s in self.builder.sizes(value)]
        return helper.make_tensor_type_proto(elem, shape)

    def _inlined(
        self,
        function: onnx.FunctionProto,
        inputs: list[Value],
        own: dict[str, AttributeValue],
        outer: Scope,
        shown: str,
    ) -> tuple[Value, ...]:
        attributes = attributes_of(function.attribute_proto, self.folder, self.where)
        path = f"{outer.path}/{shown}" if outer.path else shown
        opsets = self._opsets(function.opset_import) if function.opset_import else outer.opsets
        known = {**attributes, **own}
        inner = Scope(self, opsets, None, {}, known, outer.depth + 1, path)
        inner.check_depth()
        for index, name in enumerate(function.input):
            inner.values[name] = inputs[index] if index < len(inputs) else None
        self.nodes(function.node, inner)
        return tuple(
            inner.result(name) if name in inner.values else None for name in function.output
        )

    # What is refused.

    def _fail(
        self, scope: Scope, outputs: list[str], what: str, place: str, problem: Exception
    ) -> None:
        self._problem(what, place, str(problem))
        if isinstance(problem, UnknownValueError):
            for name, argument in self.arguments:
                if argument in problem.arguments:
                    self.needed[name] = None
        scope.values.update(dict.fromkeys(filter(None, outputs), FAILED))

    def _problem(self, what: str, place: str, reason: str) -> None:
        self.problems.append((what, f"{place} of {self.where}", " ".join(reason.split())))

    def _location(self, name: str, index: int) -> NameLoc:
        return NameLoc(StringAttr(name), file_location(self.where, index))

    # Results.

    def _output(self, info: onnx.ValueInfoProto, scope: Scope) -> tuple[bool, list[SSAValue]]:
        """Whether an output is a sequence, and its values; none where it is refused."""
        name = info.name
        self.builder.location = self._location(name, 0)
        try:
            value = scope.result(name)
            if isinstance(value, list):
                return True, [self.builder.real(part) for part in value]
            if value is None:
                raise ProblemError("it is an optional value that is absent")
            if info.type.WhichOneof("value") == "tensor_type":
                self._check_type(info.type.tensor_type, value)
            return False, [self.builder.real(value)]
        except FailedError:
            return False, []
        except ProblemError as problem:
            self._fail(scope, [name], "output", f"'{name}'", problem)
            return False, []

    def _check_type(self, type: onnx.TypeProto.Tensor, value: SSAValue) -> None:
        if type.elem_type:
            stated, have = type_of_proto(type.elem_type), type_of_value(self.builder, value)
            if stated != have:
                names = [str(e if f is None else f.shown) for e, f in (stated, have)]
                raise ProblemError(
                    f"the model states elements of {names[0]}, its nodes give {names[1]}"
                )


def _resolved(node: onnx.NodeProto, attributes: Mapping[str, AttributeValue]) -> onnx.NodeProto:
    """A node with values for attributes that name those of the function around it."""
    from onnx import NodeProto, helper

    if not any(entry.ref_attr_name for entry in node.attribute):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for entry in node.attribute:
        if not entry.ref_attr_name:
            copy.attribute.append(entry)
        elif entry.name in attributes:
            copy.attribute.append(helper.make_attribute(entry.name, attributes[entry.name]))
    return copy


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name
