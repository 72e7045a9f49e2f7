"""What a served model takes and gives: names, types, sizes, and which axis counts samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import OptionError, refuse

FREE = -1
"""A size that a request may choose."""


@dataclass(frozen=True)
class Port:
    """An input or a result.

    Attributes:
        name: in requests.
        dtype: of the array.
        shape: sizes, `FREE` where requests choose.
        batch_axis: along which samples are; `None` where they cannot be put together.
    """

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    batch_axis: int | None

    def check(self, array: Array) -> None:
        """Refuse an array of another type or shape.

        Raises:
            OptionError: it does not fit.
        """
        fits = len(array.shape) == len(self.shape) and all(
            want in (FREE, have) for want, have in zip(self.shape, array.shape, strict=True)
        )
        if array.dtype != self.dtype or not fits:
            raise OptionError(
                f"input '{self.name}' is {self.dtype.name}{list(self.shape)}, "
                f"got {array.dtype.name}{list(array.shape)}"
            )


@dataclass(frozen=True)
class Signature:
    """The ports of a model, in order."""

    inputs: Sequence[Port]
    outputs: Sequence[Port]

    @property
    def takes_batches(self) -> bool:
        """Whether the samples of several requests can go through at once."""
        return all(port.batch_axis is not None for port in (*self.inputs, *self.outputs))

    def samples(self, inputs: Sequence[Array]) -> int:
        """How many samples a request holds; 1 where the model takes no batches.

        Raises:
            OptionError: its inputs hold different numbers.
        """
        if not self.takes_batches:
            return 1
        counts = {
            array.shape[port.batch_axis or 0]
            for port, array in zip(self.inputs, inputs, strict=True)
        }
        refuse(len(counts) != 1, f"inputs hold different numbers of samples: {sorted(counts)}")
        return counts.pop()
