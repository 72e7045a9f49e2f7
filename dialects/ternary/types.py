"""The element type of ternary tensors."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition

from ..inference import fail
from ..shapes import AnyTensor


@irdl_attr_definition
class TritType(ParametrizedAttribute, TypeAttribute):
    """One ternary digit: -1, 0 or +1; an element type of builtin tensors.

    tensor<784x10x!ternary.trit>
    """

    name = "ternary.trit"


trit = TritType()


def is_trit(type: AnyTensor) -> bool:
    """Whether the elements are trits."""
    return isinstance(type.element_type, TritType)


def require_trit(type: AnyTensor, what: str) -> None:
    """Refuse elements that are no trits."""
    if not is_trit(type):
        fail(f"expects trits as {what}, got {type}")


def trit_tensor(*shape: int) -> TensorType[TritType]:
    """`tensor<shape x !ternary.trit>`."""
    return TensorType(trit, shape)
