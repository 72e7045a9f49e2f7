"""Plain data as attributes, and back: what a pass notes for those after it.

Not here: arrays of numbers (`dialects.parameters`), and values that ops hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute


def attribute_of(data: object) -> Attribute:
    """Strings, numbers (`i64`, `f64`), lists and mappings of them; attributes stay as they are."""
    match data:
        case Attribute():
            return data
        case str():
            return StringAttr(data)
        case int():
            return IntegerAttr(int(data), i64)
        case float():
            return FloatAttr(data, f64)
        case Mapping():
            return dictionary_of(cast("Mapping[str, object]", data))
        case _:
            return ArrayAttr(map(attribute_of, cast("Iterable[object]", data)))


def dictionary_of(data: Mapping[str, object]) -> DictionaryAttr:
    """The same of a mapping."""
    return DictionaryAttr({key: attribute_of(value) for key, value in data.items()})


def data_of(value: Attribute) -> Any:
    """The inverse of `attribute_of`: JSON data, with arrays as lists; types stay as they are."""
    match value:
        case StringAttr():
            return value.data
        case IntegerAttr() | FloatAttr():
            return value.value.data
        case ArrayAttr():
            return [data_of(item) for item in value]
        case DictionaryAttr():
            return {key: data_of(item) for key, item in value.data.items()}
        case DenseIntOrFPElementsAttr():
            values = list(value.get_values())
            return values if value.get_shape() else values[0]
        case _:
            return value
