"""Where weights come from: `tensor.parameter`, `tensor.constant` and the store attribute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import (
    AnyAttr,
    BaseAttr,
    IRDLOperation,
    ParamAttrConstraint,
    VarConstraint,
    irdl_attr_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from ...ir.definition import irdl_op_definition
from ...ir.store import ParameterStore
from ..inference import tensor_type
from ..shapes import AnyTensor, check_element
from ..traits import BitExact

INLINE_LIMIT = 64
"""Constants above this number of elements belong in the parameter store."""

STORE_ATTRIBUTE = "tensor.parameters"
"""The module attribute that holds the `StoreAttr`."""


@irdl_attr_definition
class StoreAttr(Data[ParameterStore]):
    """The parameter store of a module: a safetensors file and its SHA-256.

        module attributes {tensor.parameters = #tensor.store<"m.safetensors", sha256 = "9f86…">}

    A store whose entries are in memory alone prints as `#tensor.store<unsaved>`; writing the
    module with `-o` saves it. Equality is that of the store object, so a module and its clone
    share one store; entries are only ever added.
    """

    name = "tensor.store"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ParameterStore:
        with parser.in_angle_brackets():
            if parser.parse_optional_keyword("unsaved") is not None:
                return ParameterStore.unsaved()
            path = parser.parse_str_literal(" store path")
            parser.parse_punctuation(",")
            parser.parse_keyword("sha256")
            parser.parse_punctuation("=")
            digest = parser.parse_str_literal(" SHA-256 of the file")
        return ParameterStore.referenced(path, digest, beside=parser.lexer.input.name)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            reference = self.data.reference
            if reference is None:
                printer.print_string("unsaved")
                return
            printer.print_string_literal(reference.path)
            printer.print_string(", sha256 = ")
            printer.print_string_literal(reference.sha256)


@irdl_op_definition
class ParameterOp(IRDLOperation):
    """A named entry of the module's parameter store.

    `buffer` marks a stored value that is not learned (running statistics).

        %w = tensor.parameter "fc1.weight" : tensor<784x256xf32>
    """

    name = "tensor.parameter"

    key = prop_def(StringAttr)
    buffer = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure(), BitExact())

    assembly_format = "$key (`buffer` $buffer^)? attr-dict `:` type($result)"

    def __init__(self, key: str, type: AnyTensor, *, buffer: bool = False) -> None:
        super().__init__(
            result_types=[type],
            properties={"key": StringAttr(key), "buffer": UnitAttr() if buffer else None},
        )

    def verify_(self) -> None:
        verify_parameter(self.name, self.key.data, self.result)
        check_element(tensor_type(self.result))


def verify_parameter(name: str, key: str, result: SSAValue) -> None:
    """A parameter has a name and a static shape."""
    if not key:
        raise VerifyException(f"'{name}' expects a name, got an empty string")
    if isinstance(result.type, TensorType) and not result.type.has_static_shape():
        raise VerifyException(f"'{name}' expects a static shape, got {result.type}")


@irdl_op_definition
class ConstantOp(IRDLOperation, HasFolderInterface):
    """A small constant written in the text.

    At most 64 elements, unless it is a splat; larger ones belong in the parameter store.

        %c = tensor.constant dense<[1.0, 2.0]> : tensor<2xf32>
    """

    name = "tensor.constant"

    _T: ClassVar = VarConstraint("T", BaseAttr(TensorType))

    value = prop_def(ParamAttrConstraint(DenseIntOrFPElementsAttr, (_T, AnyAttr())))
    result = result_def(_T)

    traits = traits_def(Pure(), ConstantLike(), BitExact())

    assembly_format = "$value attr-dict"

    def __init__(self, value: DenseIntOrFPElementsAttr) -> None:
        super().__init__(result_types=[value.type], properties={"value": value})

    def verify_(self) -> None:
        if len(self.value) > INLINE_LIMIT and not self.value.is_splat():
            raise VerifyException(
                f"'{self.name}' holds {len(self.value)} elements, expected at most "
                f"{INLINE_LIMIT}; put it in the parameter store"
            )

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return (self.value,)
