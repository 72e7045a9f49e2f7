"""What a compiled program takes and gives, as its caller must know it; JSON beside the code.

`lowering.to_native` writes it, `runtime.native.program` calls by it; neither imports the other. Not
here: what kernels agree on (`linear`).

A program is two functions of the C calling convention:

    void forward(inputs…, outputs…, const void *constants, void *workspace, int64_t batch)
    int64_t forward_workspace_bytes(int64_t batch)

Every tensor is contiguous and row-major, of any alignment; a boolean is one byte, a trit an int8.
`constants` and `workspace` are aligned to 64. `batch` is the one free size of a program, and is not
looked at where there is none.

In an object for others the first is `NAME(inputs…, outputs…, workspace, batch)`, where `workspace`
may have any alignment, the second `NAME_workspace_bytes`, and the interface stands as a string, in
JSON, under `NAME_interface`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from ....ir.errors import BackendError

FORWARD = "forward"
WORKSPACE_BYTES = "forward_workspace_bytes"
WORKSPACE_SUFFIX, INTERFACE_SUFFIX = "_workspace_bytes", "_interface"
ARRAYS = "forward_arrays"
"""Only in programs for this process: does what `forward` does, told the address of its arguments,
eight bytes each, where inputs and outputs are addresses of NumPy's array objects; these hold the
address of their data `abi.linear.ARRAY_DATA` bytes further."""
KEPT = "forward_kept"
"""Only in programs that keep weights: the memory that the first call fills, of zeros before."""
CONSTANTS = "forward.constants"
"""The key of the constants in the parameter store."""

ALIGNMENT = 64
"""Bytes to which constants and workspace are aligned."""


@dataclass(frozen=True)
class TensorInterface:
    """One input or output.

    Attributes:
        name: what the program calls it, an identifier.
        dtype: NumPy's name of the element: `float32`, `int8`, `bool`, `bfloat16`.
        shape: sizes as polynomials in the batch, the constant first: (784,) is 784, (0, 2) twice
            the batch.
    """

    name: str
    dtype: str
    shape: tuple[tuple[int, ...], ...]

    def sizes(self, batch: int) -> tuple[int, ...]:
        """The shape for one size of the batch."""
        return tuple(
            sum(factor * batch**power for power, factor in enumerate(size)) for size in self.shape
        )

    @property
    def batched(self) -> bool:
        """Whether a size depends on the batch."""
        return any(len(size) > 1 for size in self.shape)

    @property
    def rows(self) -> int | None:
        """Elements of one row of the batch, where it lies outermost; `None` elsewhere."""
        if not self.shape or any(len(size) > 1 for size in self.shape[1:]):
            return None
        factors = self.shape[0]
        if len(factors) != 2 or factors[0]:
            return None
        return factors[1] * prod(self.sizes(0)[1:])

    def shown(self) -> str:
        """The shape as text: `[batch, 784]`, `[4*batch]`."""
        return f"[{', '.join(size_text(size) for size in self.shape)}]"


@dataclass(frozen=True)
class Interface:
    """Inputs and outputs of a program, and what a caller can make of it.

    Attributes:
        name: of the model, an identifier.
        inputs: in the order of the arguments.
        outputs: in the order of the results.
        recipe: the instruction set of the kernels.
        batched: whether there is a free size.
        row_wise: whether each row of the batch is computed from the same row of the inputs alone,
            and batches lie outermost: then parts of a batch can be computed apart.
        work: multiplications of one row of the batch, about; tells whether a thread is worth it.
        held: names of arrays that are not the program's, and where in the constants the address of
            each must be written before a call.
        shared: outputs, and inputs that they begin with, in the same memory: whoever calls puts the
            input there.
        phases: for one sample in several threads, how many things each has (`abi.phases`); none
            where the program has no such function.
        apart: bytes of workspace behind that of the program, of each thread but the first.
        kept: bytes of memory of the program's own, which its first call fills.
        least: the least batch: for less a tensor in between would have less than no elements.
    """

    name: str
    inputs: tuple[TensorInterface, ...]
    outputs: tuple[TensorInterface, ...]
    recipe: str
    batched: bool
    row_wise: bool
    work: int
    held: tuple[tuple[str, int], ...] = ()
    shared: tuple[tuple[int, int], ...] = ()
    phases: tuple[int, ...] = ()
    apart: int = 0
    kept: int = 0
    least: int = 0

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return asdict(self)

    def to_json(self) -> str:
        """One line of JSON; the same interface gives the same text."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Interface:
        """The inverse of `to_dict`.

        Raises:
            BackendError: the data has another form.
        """
        try:
            return Interface(
                str(data["name"]),
                _tensors(data["inputs"]),
                _tensors(data["outputs"]),
                str(data["recipe"]),
                bool(data["batched"]),
                bool(data["row_wise"]),
                int(data["work"]),
                tuple((str(name), int(offset)) for name, offset in data.get("held", ())),
                tuple((int(output), int(source)) for output, source in data.get("shared", ())),
                tuple(map(int, data.get("phases", ()))),
                int(data.get("apart", 0)),
                int(data.get("kept", 0)),
                int(data.get("least", 0)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BackendError(f"this is no interface of a native program: {error!r}") from None


def _tensors(rows: Sequence[Mapping[str, Any]]) -> tuple[TensorInterface, ...]:
    return tuple(
        TensorInterface(
            str(row["name"]),
            str(row["dtype"]),
            tuple(tuple(int(factor) for factor in size) for size in row["shape"]),
        )
        for row in rows
    )


def size_text(size: Sequence[int], batch: str = "batch") -> str:
    """A size as an expression of C, Python and people: `2*batch + 5`."""
    terms = [
        "*".join(([] if factor == 1 and power else [str(factor)]) + [batch] * power)
        for power, factor in reversed(list(enumerate(size)))
        if factor
    ]
    return " + ".join(terms) or "0"
