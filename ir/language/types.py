"""Types of run-time values, and the rules that combine them.

Element types promote as in PyTorch: bool < integers < floats; between two integers or two floats
the wider wins, and `float16` with `bfloat16` gives `float32`. A compile-time number is weak: it
takes the tensor's type, except that a float beside an integer tensor makes `float32`. A trit takes
the other operand's type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .assumptions import Assumptions
from .dims import Dim, DimError

TensorKind = Literal["dense", "ternary", "spike"]

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64")
DENSE_ELEMENTS = (*FLOATS, *INTEGERS, "bool")
COMPILE_TIME = ("int", "float", "string")
SCALARS = ("trit", *DENSE_ELEMENTS, *COMPILE_TIME)

KEYWORDS = {"dense": "Tensor", "ternary": "TernaryTensor", "spike": "SpikeTensor"}

MAX_ELEMENTS = 2**48
"""A tensor of more elements than this is refused."""

_WIDTH = {name: i for i, name in enumerate(("bool", *INTEGERS, *FLOATS))}


class TypeMismatch(ValueError):
    """Two types that do not go together; the message is a full sentence."""


@dataclass(frozen=True)
class ScalarType:
    """A scalar type as declared: an element type, or the compile-time `int float string`."""

    name: str

    @property
    def is_compile_time(self) -> bool:
        """Whether values of the type exist only while compiling."""
        return self.name in COMPILE_TIME

    @property
    def tensor(self) -> TensorType:
        """What holds a run-time value of the type."""
        return TensorType("ternary" if self.name == "trit" else "dense", self.name, ())

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TensorType:
    """A tensor: its kind, element type and shape.

    A ternary tensor has elements `trit`, a spike train `bool` and its time axis first. A run-time
    scalar is a dense tensor of rank 0.
    """

    kind: TensorKind
    element: str
    shape: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        """Whether the elements are floating-point numbers."""
        return self.element in FLOATS

    @property
    def is_integer(self) -> bool:
        """Whether the elements are integers; a trit and a bool are not."""
        return self.element in INTEGERS

    @property
    def is_dense_bool(self) -> bool:
        """Whether it is a dense tensor of bools."""
        return self.kind == "dense" and self.element == "bool"

    def static_shape(self) -> tuple[int | None, ...]:
        """The sizes, `None` where one is not known while compiling."""
        return tuple(d.constant() for d in self.shape)

    def with_shape(self, shape: Sequence[Dim]) -> TensorType:
        """The type with another shape."""
        return TensorType(self.kind, self.element, tuple(shape))

    def with_element(self, element: str) -> TensorType:
        """The dense type of the same shape with another element type."""
        return TensorType("dense", element, self.shape)

    def __str__(self) -> str:
        dims = ", ".join(str(d) for d in self.shape)
        if self.kind == "dense":
            if not self.shape:
                return self.element
            element = "" if self.element == "float32" else f"<{self.element}>"
            return f"Tensor{element}[{dims}]"
        if not self.shape and self.kind == "ternary":
            return "trit"
        return f"{KEYWORDS[self.kind]}[{dims}]"


Type = ScalarType | TensorType


def dense(element: str, *shape: int | str | Dim) -> TensorType:
    """A dense type; a string is a symbolic dimension."""
    return TensorType("dense", element, _dims(shape))


def ternary(*shape: int | str | Dim) -> TensorType:
    """A ternary type; a string is a symbolic dimension."""
    return TensorType("ternary", "trit", _dims(shape))


def spike(*shape: int | str | Dim) -> TensorType:
    """A spike train's type, time first; a string is a symbolic dimension."""
    return TensorType("spike", "bool", _dims(shape))


def _dims(shape: Sequence[int | str | Dim]) -> tuple[Dim, ...]:
    return tuple(Dim.symbol(d) if isinstance(d, str) else Dim.lift(d) for d in shape)


def promote(a: str, b: str) -> str:
    """The common element type of `a` and `b`; two trits give `int8`."""
    if a == "trit" or b == "trit":
        other = b if a == "trit" else a
        return "int8" if other in ("trit", "bool") else other
    if a == b:
        return a
    if {a, b} == {"float16", "bfloat16"}:
        return "float32"
    return a if _WIDTH[a] >= _WIDTH[b] else b


def promote_number(element: str, number: bool | int | float) -> str:
    """The common element type of a tensor of `element` and a compile-time number."""
    if element in FLOATS:
        return element
    if isinstance(number, float):
        return "float32"
    if isinstance(number, bool):
        return "int8" if element == "trit" else element
    if element == "bool":
        return "int64"
    return (
        "int8"
        if element == "trit" and -128 <= number < 128
        else ("int64" if element == "trit" else element)
    )


def fits(number: int, element: str) -> bool:
    """Whether an integer element type can hold `number`."""
    bits = int(element.removeprefix("int"))
    return -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)


def broadcast_shapes(
    a: Sequence[Dim], b: Sequence[Dim], assumptions: Assumptions
) -> tuple[Dim, ...]:
    """The common shape under NumPy's rules.

    Raises:
        TypeMismatch: two sizes differ and neither is 1.
    """
    rank = max(len(a), len(b))
    one = Dim.of(1)
    left = (*[one] * (rank - len(a)), *a)
    right = (*[one] * (rank - len(b)), *b)
    result: list[Dim] = []
    for axis, (x, y) in enumerate(zip(left, right, strict=True)):
        try:
            result.append(assumptions.broadcast(x, y))
        except DimError as error:
            raise TypeMismatch(f"{error} (axis {axis - rank})") from None
    return tuple(result)


def shapes_equal(a: Sequence[Dim], b: Sequence[Dim], assumptions: Assumptions) -> bool:
    """Whether the shapes have one rank and pairwise equal sizes."""
    return len(a) == len(b) and all(assumptions.equal(x, y) for x, y in zip(a, b, strict=True))


def element_count(shape: Sequence[Dim]) -> int:
    """The product of the sizes that are known."""
    count = 1
    for dim in shape:
        value = dim.constant()
        count *= 1 if value is None else value
    return count
