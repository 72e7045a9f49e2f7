"""The forms that a product can take in hardware, and the attribute that says which one it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Operation

from .....dialects import tensor, ternary
from .....ir.attribute_data import data_of, dictionary_of
from .....ir.errors import OptionError
from .....passes.adder_graph.optimize_adder_graph import HARDWARE_FORM
from .product import Folding

ProductOp = ternary.MatmulOp | ternary.ConvOp | tensor.MatmulOp | tensor.ConvOp
"""A product with trits or integers, nothing else; a `linear` is split into one and other ops."""

FORM = HARDWARE_FORM
"""The attribute of a product with trits that says what becomes of it."""


@dataclass(frozen=True)
class Unrolled:
    """Every addition in hardware of its own: a beat a cycle."""

    def __str__(self) -> str:
        return "unrolled"


@dataclass(frozen=True)
class Serial:
    """Every addition in hardware of its own, for some bits of the numbers a cycle.

    Attributes:
        digit: how many.
    """

    digit: int

    def __str__(self) -> str:
        return f"digit={self.digit}"


@dataclass(frozen=True)
class Folded:
    """Some columns and inputs of the product a cycle, with weights from a memory.

    Attributes:
        folding: how many.
        loadable: whether other weights can be loaded into the memory.
    """

    folding: Folding
    loadable: bool = False

    def __str__(self) -> str:
        return f"pe={self.folding.pe},simd={self.folding.simd}"


Form = Unrolled | Serial | Folded


def noted_form(op: Operation) -> Form:
    """The form that an op was given; unrolled where nobody chose."""
    noted = op.attributes.get(FORM)
    if not isinstance(noted, DictionaryAttr):
        return Unrolled()
    numbers = data_of(noted)
    if "digit" in numbers:
        return Serial(numbers["digit"])
    return Folded(Folding(numbers["pe"], numbers["simd"]), "loadable" in numbers)


def has_form(op: Operation) -> TypeGuard[ProductOp]:
    """Whether an op is a product that takes several cycles a beat."""
    return FORM in op.attributes and isinstance(op, ProductOp)


def note_form(op: Operation, form: Form) -> None:
    """Give an op a form."""
    match form:
        case Unrolled():
            op.attributes.pop(FORM, None)
        case Serial(digit):
            op.attributes[FORM] = dictionary_of({"kind": "serial", "digit": digit})
        case Folded(folding, loadable):
            more = {"loadable": 1} if loadable else {}
            op.attributes[FORM] = dictionary_of({"kind": "folded", **vars(folding), **more})


def parsed_forms(text: str) -> dict[str, Form]:
    """Forms by layer from `fc1:pe=8,simd=16;fc2:unrolled;fc3:digit=2`.

    Raises:
        OptionError: it is not written so, or names a layer twice.
    """
    forms: dict[str, Form] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, colon, words = part.rpartition(":")
        form = _parsed(words) if colon else None
        if form is None or name in forms:
            raise OptionError(
                "folding expects LAYER:unrolled, LAYER:digit=D or LAYER:pe=P,simd=S, each layer "
                f"once, with ';' between, got '{part}'"
            )
        forms[name] = form
    return forms


def _parsed(words: str) -> Form | None:
    if words == "unrolled":
        return Unrolled()
    pairs = [word.partition("=")[::2] for word in words.split(",")]
    if not all(number.isdecimal() and int(number) > 0 for _, number in pairs):
        return None
    numbers = {key: int(number) for key, number in pairs}
    if len(pairs) != len(numbers):
        return None
    if numbers.keys() == {"digit"}:
        return Serial(numbers["digit"])
    if numbers.keys() == {"pe", "simd"}:
        return Folded(Folding(numbers["pe"], numbers["simd"]))
    return None
