"""What a compiled program takes and gives, as its caller must know it; JSON beside the code.

`lowering.to_native` writes it, `runtime.native.program` calls by it; neither imports the other. Not
here: what kernels agree on (`linear`).

A program is two functions of the C calling convention:

    void forward(inputs…, outputs…, const void *constants, void *workspace, int64_t size…)
    int64_t forward_workspace_bytes(int64_t size…)

Every tensor is contiguous and row-major, of any alignment; a boolean is one byte, a trit an int8.
`constants` and `workspace` are aligned to 64. The sizes are those that the program leaves free;
where it leaves none there is one, `batch`, which is not looked at.

In an object for others the first is `NAME(inputs…, outputs…, workspace, size…)`, where `workspace`
may have any alignment, the second `NAME_workspace_bytes`, and the interface stands as a string, in
JSON, under `NAME_interface`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any

from ....ir.errors import BackendError
from .sizes import Size, least_of

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
        shape: its sizes.
    """

    name: str
    dtype: str
    shape: tuple[Size, ...]

    def sizes(self, *free: int) -> tuple[int, ...]:
        """The shape for free sizes."""
        return tuple(size.at(*free) for size in self.shape)

    @property
    def rows(self) -> int | None:
        """Elements of one row of the batch, where it lies outermost; `None` elsewhere."""
        match [size.terms for size in self.shape[:1]]:
            case [(((0,), factor),)] if None not in [size.number for size in self.shape[1:]]:
                return factor * prod(self.sizes(0)[1:])
            case _:
                return None

    def shown(self, names: Sequence[str]) -> str:
        """The shape as text, in the names of the free sizes: `[batch, 784]`, `[4*batch]`."""
        return f"[{', '.join(size.shown(names) for size in self.shape)}]"


@dataclass(frozen=True)
class Interface:
    """Inputs and outputs of a program, and what a caller can make of it.

    Attributes:
        name: of the model, an identifier.
        inputs: in the order of the arguments.
        outputs: in the order of the results.
        recipe: the instruction set of the kernels.
        free: the names of the free sizes, identifiers; one alone is `batch`.
        row_wise: whether that one size is a batch, each row of which is computed from the same row
            of the inputs alone, and lies outermost: then parts of a batch can be computed apart.
        work: multiplications of one row of the batch, about; tells whether a thread is worth it.
        held: names of arrays that are not the program's, and where in the constants the address of
            each must be written before a call.
        shared: outputs, and inputs that they begin with, in the same memory: whoever calls puts the
            input there.
        phases: for one sample in several threads, how many things each has (`abi.phases`); none
            where the program has no such function.
        apart: bytes of workspace behind that of the program, of each thread but the first.
        kept: bytes of memory of the program's own, which its first call fills.
        needs: what must not be negative: a tensor in between would have less than no elements.
        equal: what must be equal, since it meets.
    """

    name: str
    inputs: tuple[TensorInterface, ...]
    outputs: tuple[TensorInterface, ...]
    recipe: str
    free: tuple[str, ...]
    row_wise: bool
    work: int
    held: tuple[tuple[str, int], ...] = ()
    shared: tuple[tuple[int, int], ...] = ()
    phases: tuple[int, ...] = ()
    apart: int = 0
    kept: int = 0
    needs: tuple[Size, ...] = ()
    equal: tuple[tuple[Size, Size], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sizes that the functions take."""
        return self.free or ("batch",)

    def unmet(self, free: Sequence[int]) -> str | None:
        """What must hold for free sizes and does not, as text."""
        met = [size.at(*free) >= 0 for size in self.needs]
        met += [a.at(*free) == b.at(*free) for a, b in self.equal]
        return next((text for text, ok in zip(self.conditions, met, strict=True) if not ok), None)

    @property
    def conditions(self) -> list[str]:
        """What must hold for free sizes, as text: first `needs`, then `equal`."""
        return [
            *map(self._need, self.needs),
            *(f"{a.shown(self.names)} must be {b.shown(self.names)}" for a, b in self.equal),
        ]

    def _need(self, size: Size) -> str:
        match least_of(size):
            case number, least:
                return f"{self.names[number]} must be at least {least}"
            case None:
                return f"{size.shown(self.names)} must not be negative"

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "inputs": [_data(tensor) for tensor in self.inputs],
            "outputs": [_data(tensor) for tensor in self.outputs],
            "needs": [size.to_data() for size in self.needs],
            "equal": [[a.to_data(), b.to_data()] for a, b in self.equal],
        }

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
                tuple(map(str, data["free"])),
                bool(data["row_wise"]),
                int(data["work"]),
                tuple((str(name), int(offset)) for name, offset in data.get("held", ())),
                tuple((int(output), int(source)) for output, source in data.get("shared", ())),
                tuple(map(int, data.get("phases", ()))),
                int(data.get("apart", 0)),
                int(data.get("kept", 0)),
                tuple(map(Size.from_data, data.get("needs", ()))),
                tuple((Size.from_data(a), Size.from_data(b)) for a, b in data.get("equal", ())),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BackendError(f"this is no interface of a native program: {error!r}") from None


def _data(tensor: TensorInterface) -> dict[str, Any]:
    shape = [size.to_data() for size in tensor.shape]
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": shape}


def _tensors(rows: Sequence[Mapping[str, Any]]) -> tuple[TensorInterface, ...]:
    return tuple(
        TensorInterface(
            str(row["name"]), str(row["dtype"]), tuple(map(Size.from_data, row["shape"]))
        )
        for row in rows
    )
