"""Element types of a file format, and in which of them an engine computes an operator.

Not here: which types a format has, and what its kernels take (`to_onnx`, `to_tflite`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import TypeVar

import numpy as np

from ..ir.arrays import Dtype

_NAMES = {"FLOAT": "float32", "DOUBLE": "float64", "INT2": "int8", "INT4": "int8"}
"""What NumPy calls types that formats name otherwise; values of less than a byte are int8."""


class StoredElement(IntEnum):
    """Element types by their number in a format, named as the format names them."""

    @property
    def dtype_name(self) -> str:
        """The name of the NumPy dtype."""
        return _NAMES.get(self.name, self.name.lower())

    @property
    def dtype(self) -> Dtype:
        """The NumPy dtype."""
        if self.dtype_name == "bfloat16":
            import ml_dtypes

            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype(self.dtype_name)

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return "float" in self.dtype_name


Element = TypeVar("Element", bound=StoredElement)


def nearest_type(
    element: Element, supported: Collection[Element], wider: Mapping[Element, Sequence[Element]]
) -> Element | None:
    """The type to compute in: `element` itself, else the best wider one; `None` without any.

    Args:
        element: of the operands.
        supported: what the kernel takes.
        wider: types that hold every value of a type, best first.
    """
    return next((e for e in (element, *wider.get(element, ())) if e in supported), None)
