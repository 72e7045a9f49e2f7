"""`Array`: a NumPy array of the element type that a program says, which no checker knows."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

Dtype: TypeAlias = np.dtype[Any]
"""The element type of an `Array`."""
