"""Ops whose result types follow from their operands and properties.

`InferredOp` states the rule once, in `infer`; the builder, the verifier and the `infer-shapes` pass
all use it. Shape arithmetic itself stands in `shapes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Self, cast

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, operand_def, result_def, traits_def
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import Rewriter
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .fields import Value as Value
from .fields import parts
from .shapes import AnyTensor, ShapeError, compatible


class InferredOp(IRDLOperation, ABC):
    """An op without effects that can compute its result types.

    Subclasses define `infer`. A declared result type is legal when it agrees with the inferred one
    in rank, element type and every dimension that both know. In text its properties stand among the
    attributes, and unless a subclass says otherwise its operands in the order of their definition.
    """

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "operands attr-dict `:` functional-type(operands, results)"

    @abstractmethod
    def infer(self) -> Sequence[Attribute]:
        """The result types, from operand types and properties alone.

        Raises:
            ShapeError: the operands or properties do not fit together.
        """

    def on_operands(self, operands: Mapping[SSAValue, SSAValue]) -> Self:
        """A copy on other operands, not inserted, whose results have the types that follow."""
        copy = self.clone(dict(operands))
        for result, type in zip(copy.results, copy.infer(), strict=True):
            Rewriter.replace_value_with_new_type(result, type)
        return copy

    def __init__(self, *given: Any, **named: Any) -> None:
        """The op of its operands and properties, as `fields.parts` takes them.

        Raises:
            TypeError: a field is missing, given twice or not there.
            VerifyException: the result types cannot be inferred.
        """
        self.build_inferred(*parts(self, given, named))

    def build_inferred(
        self,
        operands: Sequence[Value | Sequence[Value] | None],
        properties: Mapping[str, Attribute | None],
        results: Sequence[int] = (),
    ) -> None:
        """Initialise the op and infer its result types; for use in `__init__`.

        Args:
            operands: one entry an operand definition; `None` for an absent optional one, a
                sequence for a variadic one.
            properties: values by name; `None` leaves a property out.
            results: for an op with a variadic or optional result, the number of values of each
                result definition; empty for the usual single result.
        """
        absent: list[SSAValue | Operation] = []
        placeholder = TensorType(f32, [])
        IRDLOperation.__init__(
            self,
            operands=[absent if operand is None else operand for operand in operands],
            result_types=[[placeholder] * n for n in results] if results else [placeholder],
            properties=properties,
        )
        for result, inferred in zip(self.results, self._checked_infer(), strict=True):
            Rewriter.replace_value_with_new_type(result, inferred)

    def _checked_infer(self) -> Sequence[Attribute]:
        try:
            return self.infer()
        except ShapeError as error:
            raise VerifyException(f"'{self.name}' {error}") from None

    def verify_(self) -> None:
        inferred = self._checked_infer()
        if len(inferred) != len(self.results):
            raise VerifyException(
                f"'{self.name}' has {len(self.results)} results, expected {len(inferred)}"
            )
        for index, (result, expected) in enumerate(zip(self.results, inferred, strict=True)):
            if not compatible(result.type, expected):
                raise VerifyException(
                    f"'{self.name}' result {index} has type {result.type}, expected {expected}"
                )


class OneOperandOp(InferredOp, ABC):
    """An op on one tensor, with one result."""

    operand = operand_def(TensorType)
    result = result_def(TensorType)


def keep_result_types(new: Operation, old: Operation) -> None:
    """Give the results of `new` the types that those of `old` were declared with.

    A declared type may know more dimensions than the inferred one, or fewer; users and the function
    type rely on it.
    """
    for value, previous in zip(new.results, old.results, strict=True):
        if value.type != previous.type:
            Rewriter.replace_value_with_new_type(value, previous.type)


def replace_with(op: Operation, new: Operation, rewriter: PatternRewriter) -> None:
    """Put `new` in the place of `op`; location, discardable attributes and result types stay."""
    new.location = op.location
    new.attributes.update(op.attributes)
    keep_result_types(new, op)
    rewriter.replace(op, new)


def tensor_type(value: SSAValue) -> AnyTensor:
    """The type of `value`, which must be a ranked tensor (`ShapeError` otherwise)."""
    if not isinstance(value.type, TensorType):
        raise ShapeError(f"expects a tensor, got {value.type}")
    return cast(AnyTensor, value.type)


def fail(message: str) -> NoReturn:
    """Refuse operands or properties inside `infer`; the op's name is put in front."""
    raise ShapeError(message)
