"""The values of a model while it is read, and what is computed before the program runs.

Every tensor is an SSA value. One whose elements are known belongs to an op outside the program:
ops on such values alone are computed by the reference interpreter, and a value becomes a constant
or parameter where an op of the program takes it. Tensors of sizes (what `Shape` gives) are known
too, with `Free` sizes as elements. So one rule for each operator serves constants, shapes and data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import (
    LocationAttr,
    TensorType,
    UnknownLoc,
    UnrealizedConversionCastOp,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from ...dialects import tensor, ternary
from ...dialects.elements import holds_nan, numpy_dtype
from ...dialects.inference import InferredOp, tensor_type
from ...dialects.interpret import evaluate
from ...dialects.parameters import dense_constant
from ...dialects.shapes import DYNAMIC, ShapeError, is_float
from ...dialects.tensor.storage import INLINE_LIMIT
from ...dialects.traits import SelectsElements, has
from ...ir.arrays import Array
from ...ir.errors import TritonError
from ...ir.printing import value_name
from ...ir.store import ParameterStore
from ...ir.trits import pack_trits
from ..problems import ProblemError, refuse
from .calls import UnknownValueError, element_type
from .formats import Format, format_of, moved
from .sizes import Free, Size, Sizes, fitted, ir_shape, probes, static
from .symbolic import NoSizeError, compute

LARGEST_KNOWN = 1 << 24
"""Nothing with more elements than this is computed before the program runs, unless it is made of
something as large."""

MOST_OPS = 200_000
"""A model that becomes more ops than this is refused."""


@dataclass(frozen=True)
class Levels:
    """Operands and axis of a `tensor.dequantize` of stored integers; all are known."""

    stored: SSAValue
    scale: SSAValue
    zero: SSAValue
    axis: int


@dataclass
class Values:
    """Inserts ops at the end of `block`, each with the location of the node being read.

    Attributes:
        budget: how many elements may still be computed before the program runs.
        arrays: values whose elements are known numbers.
        symbolic: values whose elements are sizes, some of them free.
        names: what known values are called in the parameter store.
        stored: known values that are initialisers of the model itself.
        buffers: those of them that are not learned.
        written: constants and parameters of the program, with their elements.
        exact: floats that hold integers, with the op that gives these.
        levels: known floats that stored integers stand for.
        signed: of unsigned bytes, the same less 128, as i8.
        formats: values whose elements the IR holds in bytes.
        notes: what the node being read means only for some sizes.
    """

    block: Block
    store: ParameterStore
    recognize_ternary: bool = True
    budget: int = 1 << 28
    location: LocationAttr = field(default_factory=UnknownLoc)
    arrays: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    symbolic: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    stored: set[SSAValue] = field(default_factory=set[SSAValue])
    buffers: set[SSAValue] = field(default_factory=set[SSAValue])
    written: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    exact: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    levels: dict[SSAValue, Levels] = field(default_factory=dict[SSAValue, Levels])
    signed: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    formats: dict[SSAValue, Format] = field(default_factory=dict[SSAValue, Format])
    notes: list[str] = field(default_factory=list[str])
    _sizes: dict[SSAValue, Sizes] = field(default_factory=dict[SSAValue, Sizes])
    _written: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    _count: int = 0
    _free: int = 0

    # Ops.

    def add(self, op: Operation) -> SSAValue:
        """Insert `op`, or compute it where its operands are known; its first result."""
        return self.add_all(op)[0]

    def add_all(self, op: Operation) -> list[SSAValue]:
        """`add` for an op with several results.

        Raises:
            ProblemError: it computes with sizes that are free, or with codes of floats.
        """
        operands = list(op.operands)
        format = moved(op, [self.formats.get(value) for value in operands])
        results = self._inserted(op, operands)
        if format is not None:
            self.formats.update(dict.fromkeys(results, format))
        return results

    def _inserted(self, op: Operation, operands: list[SSAValue]) -> list[SSAValue]:
        if all(value in self.arrays for value in operands):
            results = self._computed(op, [self.arrays[value] for value in operands])
            if results is not None:
                return results
        elif all(value in self.arrays or value in self.symbolic for value in operands):
            tables = [self.symbolic[v] if v in self.symbolic else self.arrays[v] for v in operands]
            with suppress(NoSizeError):
                values = compute(op, tables)
                op.drop_all_references()
                if values.dtype == np.bool_:
                    return [self.known(values)]
                return [self.sizes_value(values, tensor_type(op.results[0]).element_type)]
        between = isinstance(op, _PRODUCTS) and isinstance(operands[0].owner, tensor.DequantizeOp)
        for index, value in enumerate(operands):
            op.operands[index] = self.integers(value) if between else self.real(value)
        self._count += 1
        refuse(self._count > MOST_OPS, f"the model becomes more than {MOST_OPS} operations")
        op.location = self.location
        self.block.add_op(op)
        self._note_sizes(op)
        self._note_signed(op, operands)
        return list(op.results)

    def _note_signed(self, op: Operation, operands: list[SSAValue]) -> None:
        """Select elements of unsigned integers among the signed ones that these are, too."""
        known = [value for value in operands if value in self.signed]
        if not known or not has(op, SelectsElements) or isinstance(op, tensor.PadToOp):
            return
        unsigned, element = (tensor_type(v).element_type for v in (known[0], self.signed[known[0]]))
        others = [v for v in operands if tensor_type(v).element_type == unsigned]
        if any(value not in self.signed for value in others):
            return
        types = [TensorType(element, tensor_type(r).get_shape()) for r in op.results]
        twin = type(op).create(
            operands=[self.signed.get(*pair) for pair in zip(operands, op.operands, strict=True)],
            result_types=types, properties=dict(op.properties),
        )  # fmt: skip
        twin.location = op.location
        self.block.add_op(twin)
        for result, signed in zip(op.results, twin.results, strict=True):
            self.signed[result], self._sizes[signed] = signed, self._sizes[result]

    def _computed(self, op: Operation, arrays: list[Array]) -> list[SSAValue] | None:
        types = [tensor_type(result) for result in op.results]
        if any(not type.has_static_shape() for type in types):
            return None
        size = sum(prod(type.get_shape()) for type in types)
        work = size + sum(array.size for array in arrays)
        if isinstance(op, tensor.MatmulOp | tensor.LinearOp | tensor.ConvOp | tensor.EinsumOp):
            work += size * max(array.size for array in arrays) // max(_smallest(arrays), 1) // 64
        largest = max((array.size for array in arrays), default=0)
        if size > max(LARGEST_KNOWN, 2 * largest) or work > self.budget:
            return None
        self.budget -= work
        try:
            results = evaluate(op, arrays)
        except (TritonError, ValueError) as error:
            raise ProblemError(f"it cannot be computed: {error}") from None
        names = {self.names[v] for v in op.operands if v in self.names}
        values = [
            self.known(np.asarray(array, order="C"), type.element_type)
            for array, type in zip(results, types, strict=True)
        ]
        for value in values if len(names) == 1 else []:
            self.names[value] = next(iter(names))
            if isinstance(op, _LAYOUT) and op.operands[0] in self.stored:
                self.stored.add(value)
        if isinstance(op, tensor.PermuteOp) and op.operand in self.levels:
            before, perm = self.levels[op.operand], list(op.perm.get_values())
            turned = self.add(tensor.PermuteOp(before.stored, perm))
            axis = perm.index(before.axis % len(perm))
            self.levels[values[0]] = Levels(turned, before.scale, before.zero, axis)
        op.drop_all_references()
        return values

    # Known values.

    def known(self, array: Array, element: Attribute | None = None) -> SSAValue:
        """A value whose elements are `array`; it is written where an op needs it."""
        if element is None and (format := format_of(array.dtype)) is not None:
            value = self.known(format.stored(array), format.element)
            self.formats[value] = format
            return value
        if element is None:
            element = element_type(array.dtype)
        dtype = numpy_dtype(element)
        if array.dtype != dtype:
            array = array.astype(dtype)
        value = _outside(TensorType(element, array.shape))
        self.arrays[value] = array
        self._sizes[value] = tuple(int(size) for size in array.shape)
        return value

    def number(self, value: float | int | bool, like: SSAValue | Attribute) -> SSAValue:
        """A known scalar of the element type of `like`."""
        element = tensor_type(like).element_type if isinstance(like, SSAValue) else like
        return self.known(np.asarray(value).astype(numpy_dtype(element)), element)

    def numbers(self, values: Array, element: Attribute) -> SSAValue:
        """Known numbers of a type."""
        return self.known(np.asarray(values).astype(numpy_dtype(element)), element)

    def indices(self, values: ArrayLike) -> SSAValue:
        """Known i64 numbers."""
        return self.known(np.asarray(values, np.int64), i64)

    def sizes_value(self, values: Array, element: Attribute = i64) -> SSAValue:
        """A tensor of sizes, as integers, some of them free."""
        if all(not isinstance(size, Free) for size in values.reshape(-1)):
            return self.known(values.astype(np.int64), element)
        value = _outside(TensorType(element, values.shape))
        self.symbolic[value] = values
        self._sizes[value] = tuple(values.shape)
        return value

    def array(self, value: SSAValue, what: str = "values") -> Array:
        """The elements of a value.

        Raises:
            UnknownValueError: they are known only when the program runs.
            ProblemError: they are sizes that are.
        """
        if value in self.arrays:
            return self.arrays[value]
        if value in self.symbolic:
            shown = [*self.symbolic[value].reshape(-1)]
            raise ProblemError(f"its {what} are free sizes: {', '.join(map(str, shown))}")
        raise UnknownValueError(what, _arguments_of(value))

    def is_known(self, value: SSAValue) -> bool:
        """Whether the elements of a value are known numbers."""
        return value in self.arrays

    def size_list(self, value: SSAValue, what: str = "sizes") -> list[Size]:
        """The elements of a tensor of sizes."""
        if value in self.symbolic:
            return [*self.symbolic[value].reshape(-1)]
        return [int(size) for size in self.array(value, what).reshape(-1)]

    def int_list(self, value: SSAValue, what: str) -> list[int]:
        """Known whole numbers."""
        return static(self.size_list(value, what), what)

    def real(self, value: SSAValue) -> SSAValue:
        """`value` as one of the program: a known one is written as a constant or parameter."""
        if value not in self.arrays:
            return value
        if value not in self._written:
            self._written[value] = written = self._write(value)
            self.written[written] = self.arrays[value]
            if value in self.formats:
                self.formats[written] = self.formats[value]
        return self._written[value]

    def integers(self, value: SSAValue) -> SSAValue:
        """`real`; floats that stored integers stand for stay integers in the program."""
        levels = self.levels.get(value)
        if levels is None or value in self._written:
            return self.real(value)
        parts = [self.real(part) for part in (levels.stored, levels.scale, levels.zero)]
        floats = self._placed(tensor.DequantizeOp(*parts, axis=levels.axis), None)
        self._written[value], self.written[floats] = floats, self.arrays[value]
        return floats

    def _write(self, value: SSAValue) -> SSAValue:
        array, element = self.arrays[value], tensor_type(value).element_type
        key = self.names.get(value, "constant")
        is_parameter = value in self.stored and is_float(tensor_type(value)) and array.ndim > 0
        uniform = array.size > 0 and bool((array == array.reshape(-1)[0]).all())
        if not is_parameter and (array.size <= INLINE_LIMIT or uniform):
            return self._placed(dense_constant(array, element), None)
        refuse(holds_nan(array), f"its constant '{key}' holds NaN")
        name = self.store.add(key, array)
        type = TensorType(element, array.shape)
        is_buffer = not is_parameter or value in self.buffers
        return self._placed(tensor.ParameterOp(name, type, buffer=is_buffer), name)

    def trits(self, array: Array, key: str) -> SSAValue:
        """A ternary parameter of the program."""
        name = self.store.add(key, pack_trits(np.ascontiguousarray(array)))
        return self._placed(ternary.ParameterOp(name, array.shape), name)

    def _placed(self, op: Operation, name: str | None) -> SSAValue:
        op.location = self.location
        self.block.add_op(op)
        if name is not None:
            op.results[0].name_hint = value_name(name)
        self._note_sizes(op)
        return op.results[0]

    # Sizes.

    def argument(
        self, sizes: Sizes, element: Attribute, format: Format | None = None
    ) -> BlockArgument:
        """A new argument of the program."""
        type = TensorType(element, ir_shape(sizes))
        value = self.block.insert_arg(type, len(self.block.args))
        self._sizes[value] = sizes
        if format is not None:
            self.formats[value] = format
        return value

    def sizes(self, value: SSAValue) -> Sizes:
        """The sizes of a value."""
        return self._sizes[value]

    def rank(self, value: SSAValue) -> int:
        """The number of axes."""
        return len(self._sizes[value])

    def shape(self, value: SSAValue, what: str = "sizes") -> list[int]:
        """The sizes of a value that must be fixed."""
        return static(self._sizes[value], what)

    def refine(self, value: SSAValue, sizes: Sequence[Size]) -> SSAValue:
        """Note that `value` has these sizes."""
        self._sizes[value] = tuple(sizes)
        type = tensor_type(value)
        wanted = ir_shape(sizes)
        merged = [
            w if have == DYNAMIC else have for have, w in zip(type.get_shape(), wanted, strict=True)
        ]
        if isinstance(value, OpResult) and list(type.get_shape()) != merged:
            noted = self._sizes.pop(value)
            value = Rewriter.replace_value_with_new_type(
                value, TensorType(type.element_type, merged)
            )
            self._sizes[value] = noted
        return value

    def unknown_size(self) -> Free:
        """A free size of which nothing is known."""
        self._free += 1
        return Free.named(f"size{self._free}")

    def _note_sizes(self, op: Operation) -> None:
        shapes = [list(tensor_type(result).get_shape()) for result in op.results]
        noted: list[list[Size]] = [
            [self.unknown_size() if size == DYNAMIC else size for size in shape] for shape in shapes
        ]
        if any(DYNAMIC in shape for shape in shapes) and isinstance(op, InferredOp):
            self._fit(op, shapes, noted)
        for result, sizes in zip(op.results, noted, strict=True):
            self._sizes[result] = tuple(sizes)

    def _fit(self, op: InferredOp, shapes: list[list[int]], noted: list[list[Size]]) -> None:
        operands = [self._sizes[value] for value in op.operands]
        free = [size for sizes in operands for size in sizes if isinstance(size, Free)]
        names = sorted({name for size in free for name in size.names})
        at = probes(names)
        inferred = [_inferred(op, operands, assignment) for assignment in at]
        for index, shape in enumerate(shapes):
            for axis, size in enumerate(shape):
                if size != DYNAMIC or any(there is None for there in inferred):
                    continue
                values = [there[index][axis] for there in inferred if there is not None]
                candidates = [s for sizes in operands for s in sizes]
                if DYNAMIC not in values and (fit := fitted(values, candidates, at)) is not None:
                    noted[index][axis] = fit


_LAYOUT = (tensor.PermuteOp, tensor.ReshapeToOp, tensor.SqueezeOp, tensor.UnsqueezeOp)
"""Ops after which a stored parameter is still that parameter, laid out in another way."""


_PRODUCTS = (tensor.ConvOp, tensor.LinearOp, tensor.MatmulOp)
"""Ops whose weights stay integers where their first operand was restored from integers."""


def _smallest(arrays: Sequence[Array]) -> int:
    return min(array.shape[-1] if array.ndim else 1 for array in arrays)


def _outside(type: TensorType[Attribute]) -> SSAValue:
    """A value of an op that is no part of the program."""
    return UnrealizedConversionCastOp.get([], [type]).results[0]


def _arguments_of(value: SSAValue) -> list[BlockArgument]:
    """The arguments that a value depends on."""
    arguments: dict[BlockArgument, None] = {}
    pending, seen = [value], set[SSAValue]()
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        if isinstance(current, BlockArgument):
            arguments[current] = None
        elif isinstance(current, OpResult):
            pending += current.op.operands
    return list(arguments)


def _inferred(
    op: InferredOp, operand_sizes: Sequence[Sizes], assignment: Mapping[str, int]
) -> list[tuple[int, ...]] | None:
    """The result shapes of `op` for given values of the free sizes; `None` if it refuses."""
    types = [
        TensorType(
            tensor_type(value).element_type,
            [s.at(assignment) if isinstance(s, Free) else s for s in sizes],
        )
        for value, sizes in zip(op.operands, operand_sizes, strict=True)
    ]
    block = Block(arg_types=types)
    copy = op.clone(value_mapper=dict(zip(op.operands, block.args, strict=True)))
    assert isinstance(copy, InferredOp)
    try:
        inferred = copy.infer()
    except (ShapeError, VerifyException):
        return None
    finally:
        copy.drop_all_references()
    return [type.get_shape() for type in inferred if isinstance(type, TensorType)]
