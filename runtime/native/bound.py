"""A compiled program over fixed arrays: `NativeProgram.bind` makes it.

Not here: calls on arrays that change (`program`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import BackendError


class BoundProgram:
    """Runs a program on what its inputs then hold; every call writes to the same outputs.

    It has its own workspace: no two threads may call one at a time.

    Attributes:
        inputs, outputs: the arrays.
    """

    __slots__ = ("_argument", "_held", "_result", "_run", "inputs", "outputs")

    def __init__(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        run: Callable[[Any], None],
        argument: object,
        held: object,
    ) -> None:
        """Make the callable; `NativeProgram.bind` does.

        Args:
            inputs, outputs: the arrays.
            run: runs the program, given `argument`.
            argument: what `run` takes.
            held: what must live as long as this.
        """
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self._run = run
        self._argument = argument
        self._held = held
        self._result: Any = outputs[0] if len(outputs) == 1 else list(outputs)

    def __call__(self) -> Any:
        """Run the program: the array of a single output, else a list of them."""
        self._run(self._argument)
        return self._result


def check_bound(
    inputs: Sequence[Array], outputs: Sequence[Array], shared: Mapping[int, int]
) -> None:
    """Refuse arrays that a program cannot work on where they stand.

    Args:
        inputs, outputs: the arrays.
        shared: outputs that begin with an input, and which.

    Raises:
        BackendError: an array that is not contiguous, an output that is read-only or shares memory
            with another array.
    """
    for name, arrays in (("input", inputs), ("output", outputs)):
        for number, array in enumerate(arrays):
            if not array.flags.c_contiguous:
                raise BackendError(
                    f"{name} {number} is not contiguous and cannot be used in place: bind a copy "
                    "made by numpy.ascontiguousarray"
                )
    for number, array in enumerate(outputs):
        if not array.flags.writeable:
            raise BackendError(f"output {number} is read-only")
        first = shared.get(number)
        if first is not None and inputs[first].ctypes.data != array.ctypes.data:
            raise BackendError(f"output {number} does not begin with input {first}, in its memory")
        others = [x for place, x in enumerate(inputs) if place != first] + [*outputs[:number]]
        if any(np.may_share_memory(array, other) for other in others):
            raise BackendError(
                f"output {number} shares memory with another array: give it memory of its own"
            )
