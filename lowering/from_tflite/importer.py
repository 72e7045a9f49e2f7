"""`from_tflite`: a TFLite model as IR. Walks the operators and gathers what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from xdsl.dialects.builtin import (
    ModuleOp,
    NameLoc,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...dialects.inference import tensor_type
from ...dialects.shapes import is_integer
from ...ir.errors import OptionError, SourceError, UnsupportedError, VerifyError
from ...ir.locations import file_location
from ...ir.printing import value_name
from ...ir.store import ParameterStore
from ...passes.calibration.stored_grids import Grid, record_grid
from ..from_onnx.assembly import assembled
from ..from_onnx.calls import element_type, tensor_of
from ..from_onnx.importer import MALFORMED
from ..from_onnx.sizes import Free, Size
from ..problems import ProblemError, refuse
from .model import Model, StoredOperator, StoredTensor, read_model
from .tflite_builder import Builder, Node, Results
from .tflite_operators import ELEMENTWISE, REFUSED, rule_for

BATCH = "batch"
"""What a free first size is called."""

DynamicRange = Literal["integers", "floats"]
Rounding = Literal["reference", "xnnpack", "once"]


def from_tflite(
    source: Path | str | bytes | bytearray,
    *,
    signature: str | None = None,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    dynamic_range: DynamicRange = "integers",
    rounding: Rounding = "reference",
    recognize_ternary: bool = True,
    name: str | None = None,
) -> ModuleOp:
    """A TFLite model as IR.

    Arguments and results are those of the file, images channels last; between them images stand
    channels first. Integers that stand for real numbers stay integers: sums of i32, rescaled by
    multiplier and shift as LiteRT's reference kernels do. Every op carries the name of the tensor
    it computes.

    Args:
        source: a path, or the bytes of a file.
        signature: the one to import, where the file has several.
        shapes: for some inputs the sizes that the program is for; text names a free one.
        dynamic_range: what products of floats by stored integers are. `integers`: LiteRT's
            arithmetic, which rounds activations to 8 bits in each run. `floats`: products by the
            real numbers that the integers stand for.
        rounding: how integers are rescaled. `reference`: bit for bit as LiteRT's reference kernels
            do, most of them in two steps. `xnnpack`: as the kernels that LiteRT takes by default,
            which multiply by a float and round once. `once`: one `tensor.requantize` each, at most
            a step off.
        recognize_ternary: turn weights whose values are -s, 0 and +s, for one s or one an output
            channel, into trits with a scale, exactly.
        name: what the IR calls the module; by default the file's name.

    Returns:
        A module with `func.func @forward`, whose arguments and results are named as in the
        signature; those that stand for real numbers have `tensor.scale` and `tensor.zero_point`.
        Tensors that the file keeps from run to run are arguments behind these; what they are then
        are results behind these, with `.next` behind their names.

    Raises:
        SourceError: no TFLite model, or a broken one.
        UnsupportedError: names every operator without a meaning in the IR.
        OptionError: no such input, or shapes that do not fit the model's.
    """
    if dynamic_range not in ("integers", "floats"):
        raise OptionError(f"expected dynamic_range 'integers' or 'floats', got '{dynamic_range}'")
    if rounding not in (known := get_args(Rounding)):
        raise OptionError(f"expected rounding {' or '.join(map(repr, known))}, got '{rounding}'")
    model = read_model(source, signature)
    builder = Builder(Block(), ParameterStore.unsaved(), recognize_ternary)
    builder.rounds_activations = dynamic_range == "integers"
    builder.rounding = rounding
    module = _Importer(model, builder).run(name or model.name or "model", dict(shapes or {}))
    try:
        module.verify()
    except VerifyException as error:
        raise VerifyError(f"{model.where}: {error}") from None
    return module


class _Importer:
    """Reads one model; a tensor whose operator is refused has the value `None`."""

    def __init__(self, model: Model, builder: Builder) -> None:
        self.model, self.builder = model, builder
        self.values: dict[int, SSAValue | None] = {}
        self.problems: list[tuple[str, str, str]] = []

    def run(self, name: str, shapes: dict[str, Sequence[int | str]]) -> ModuleOp:
        """The module."""
        model, builder = self.model, self.builder
        builder.location = self._location("model", 0)
        builder.budget += 256 * len(model.buffer.data)
        if unknown := sorted(set(shapes) - {port for port, _ in model.inputs}):
            raise OptionError(f"{model.where} has no input '{unknown[0]}'")
        arguments = [self._input(port, index, shapes.get(port)) for port, index in model.inputs]
        variables = self._variables()
        arguments += [self._input(port, index, None) for port, index in variables]
        for index, operator in enumerate(model.operators):
            self._operator(operator, index)
        results: list[tuple[str, SSAValue]] = []
        outputs = [*model.outputs, *((f"{port}.next", index) for port, index in variables)]
        for port, index in outputs:
            builder.location = self._location(port, 0)
            try:
                value = self._value(index)
                if value is not None:
                    results.append((port, builder.real(value)))
            except ProblemError as problem:
                self._problem("output", port, problem)
        if self.problems:
            raise UnsupportedError("IR", self.problems)
        more = {
            value: self._grid(index)
            for ports, values in (([*model.inputs, *variables], arguments), (outputs, results))
            for (_, index), (_, value) in zip(ports, values, strict=True)
        }
        named = [(port, value) for port, value in arguments if value in builder.block.args]
        return assembled(builder, name, named, results, self._location("results", 0), more)

    def _grid(self, index: int) -> dict[str, Attribute]:
        """How the integers of an argument or result stand for real numbers, as attributes."""
        scales = self.model.tensors[index].integers
        if scales is None or scales.is_per_axis:
            return {}
        return Grid(float(scales.scale[0]), scales.zero).attributes

    def _variables(self) -> list[tuple[str, int]]:
        """The tensors that operators read and keep from run to run, with names of their own."""
        read = {n: None for operator in self.model.operators for n in operator.inputs if n >= 0}
        taken = {port for port, _ in (*self.model.inputs, *self.model.outputs)}
        found: list[tuple[str, int]] = []
        for index in read:
            stored = self.model.tensors[index]
            if stored.variable:
                named = stored.name and not taken & {stored.name, f"{stored.name}.next"}
                name = stored.name if named else f"state{index}"
                taken |= {name, f"{name}.next"}
                found.append((name, index))
        return found

    # What goes in.

    def _input(
        self, name: str, index: int, shape: Sequence[int | str] | None
    ) -> tuple[str, SSAValue]:
        stored = self.model.tensors[index]
        try:
            refuse(index in self.values, "it is an input twice")
            element = element_type(stored.element.dtype)
            if stored.element.bits < 8:
                raise ProblemError(f"inputs of {stored.element.bits} bits have no type in the IR")
        except ProblemError as problem:
            self._problem("input", name, problem)
            self.values[index] = None
            return name, self.builder.number(0, i64)
        value = self.builder.argument(self._sizes(name, stored, shape), element)
        value.name_hint = value_name(name)
        self.values[index] = value
        return name, value

    def _sizes(
        self, name: str, stored: StoredTensor, shape: Sequence[int | str] | None
    ) -> tuple[Size, ...]:
        if shape is not None:
            if len(shape) != len(stored.shape):
                raise OptionError(
                    f"{self.model.where}: input '{name}' has {len(stored.shape)} axes, "
                    f"not {len(shape)}"
                )
            if any(isinstance(size, int) and size < 0 for size in shape):
                raise OptionError(f"{self.model.where}: sizes of '{name}' must be at least 0")
            return tuple(Free.named(n) if isinstance(n, str) else int(n) for n in shape)
        return tuple(
            Free.named(f"{name}_{axis}" if axis else BATCH) if size == -1 else size
            for axis, size in enumerate(stored.shape)
        )

    def _value(self, index: int) -> SSAValue | None:
        """The value of a tensor; one that is stored is read when it is first used."""
        if index in self.values:
            return self.values[index]
        stored = self.model.tensors[index]
        array = self.model.values(stored)
        if array is None:
            raise SourceError(
                f"{self.model.where}: a broken file: tensor '{stored.name}' is used before an "
                "operator computes it"
            )
        value = self.builder.known(array, element_type(array.dtype))
        self.builder.names[value] = stored.name or f"tensor{index}"
        self.builder.stored.add(value)
        self.values[index] = value
        return value

    # Operators.

    def _operator(self, operator: StoredOperator, index: int) -> None:
        tensors = self.model.tensors
        outputs = [tensors[n] for n in operator.outputs]
        shown = next((t.name for t in outputs if t.name), operator.kind)
        self.builder.location = self._location(shown, index + 1)
        try:
            inputs = [None if n < 0 else self._value(n) for n in operator.inputs]
            failed = any(
                n >= 0 and value is None for n, value in zip(operator.inputs, inputs, strict=True)
            )
            results: tuple[SSAValue | None, ...] = (None,) * len(outputs)
            if not failed:
                operands = [None if n < 0 else tensors[n] for n in operator.inputs]
                between = [tensors[n] for n in operator.intermediates]
                node = Node(
                    operator.kind, inputs, operands, outputs, operator.options, self.model, between
                )
                values = self._results(node)
                results = values if isinstance(values, tuple) else (values,)
            if len(results) < len(outputs):
                raise ProblemError(f"it gives {len(results)} results, not {len(outputs)}")
            kept = [n for n in operator.inputs if n >= 0 and tensors[n].variable]
            places = [*operator.outputs, *kept]
            for place, value in zip(places, results, strict=False):
                self.values[place] = None if value is None else self._typed(place, value)
                self._record_grid(place)
        except (ProblemError, VerifyException) as problem:
            self._refused(operator, shown, problem)
        except MALFORMED as error:
            problem = ProblemError(f"its inputs or options do not fit it: {error}")
            self._refused(operator, shown, problem)

    def _results(self, node: Node) -> Results:
        integers = any(t is not None and t.integers is not None for t in node.stored)
        rule = rule_for(node.kind, integers=integers)
        if rule is None:
            raise ProblemError(REFUSED.get(node.kind) or f"{node.kind} is not known")
        refuse(not node.outputs, "it has no result")
        node = node.with_inputs(self._sizes_alike(node.inputs))
        if node.kind not in ELEMENTWISE:
            return rule(self.builder, node)
        inputs, perm = self.builder.shared_order(node.inputs)
        result = tensor_of(rule(self.builder, node.with_inputs(inputs)))
        return result if perm is None else self.builder.permute(result, perm)

    def _sizes_alike(self, inputs: Sequence[SSAValue | None]) -> list[SSAValue | None]:
        """Operands with the known ones as i64, where another is a tensor of free sizes."""
        builder = self.builder
        if not any(value in builder.symbolic for value in inputs if value is not None):
            return list(inputs)
        return [
            builder.convert(value, i64)
            if value is not None and value in builder.arrays and is_integer(tensor_type(value))
            else value
            for value in inputs
        ]

    def _typed(self, index: int, value: SSAValue) -> SSAValue:
        """`value` with the element type that the file states; sizes are counted in any."""
        if value in self.builder.symbolic:
            return value
        have, wanted = tensor_type(value), element_type(self.model.tensors[index].element.dtype)
        if have.element_type == wanted:
            return value
        if not is_integer(have):
            raise ProblemError(
                f"the file states elements of {wanted}, its operator gives {have.element_type}"
            )
        return self.builder.convert(value, wanted)

    def _record_grid(self, index: int) -> None:
        """Say on the op of a tensor how its integers stand for real numbers, for targets."""
        value, scales = self.values[index], self.model.tensors[index].integers
        if value is None or scales is None or scales.is_per_axis or value in self.builder.arrays:
            return
        before = self.builder.permuted(value)
        for owner in (value.owner, *([] if before is None else [before[0].owner])):
            if isinstance(owner, Operation):
                record_grid(owner, Grid(float(scales.scale[0]), scales.zero))

    def _refused(self, operator: StoredOperator, shown: str, problem: Exception) -> None:
        self._problem(operator.kind, shown, problem)
        self.values.update(dict.fromkeys(operator.outputs))

    def _problem(self, what: str, name: str, problem: Exception) -> None:
        reason = " ".join(str(problem).split())
        name = name.partition(";")[0]
        self.problems.append((what, f"'{name}' of {self.model.where}", reason))

    def _location(self, name: str, index: int) -> NameLoc:
        # Fused operators are named after all that went into them; the first is enough for a place.
        name = name.partition(";")[0]
        return NameLoc(StringAttr(name), file_location(self.model.where, index))
