"""The schema of the reader is that of LiteRT."""

from __future__ import annotations

import ai_edge_litert.schema_py_generated as schema
import flatbuffers
import numpy as np
import pytest

from triton_dsl.lowering.from_tflite.flatbuffer import Buffer
from triton_dsl.lowering.from_tflite.schema import (
    ELEMENTS,
    OPERATORS,
    TABLES,
    read_options,
)
from triton_dsl.lowering.to_tflite.graph import Element
from triton_dsl.lowering.to_tflite.kernels import OPTIONS


def test_operators_have_their_numbers() -> None:
    numbers = {k: v for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int)}
    assert {name: place for place, name in enumerate(OPERATORS)} == numbers
    assert set(OPTIONS) <= set(numbers)


def test_element_types_have_their_numbers() -> None:
    numbers = {k.lower(): v for k, v in vars(schema.TensorType).items() if isinstance(v, int)}
    numbers["text"] = numbers.pop("string")
    known = dict(zip(ELEMENTS, range(len(ELEMENTS)), strict=True))
    # Later versions of the schema have more of them.
    assert {name: known[name] for name in numbers if name in known} == {
        name: number for name, number in numbers.items() if name in known
    }
    assert all(ELEMENTS[element] == element.name.lower() for element in Element)


@pytest.mark.parametrize("table", TABLES)
def test_options_are_read_as_they_were_written(table: str) -> None:
    number, text = TABLES[table]
    assert getattr(schema.BuiltinOptions, table) == number
    kind = next(kind for kind, name in OPTIONS.items() if name == table)
    made, wanted = getattr(schema, f"{table}T")(), {}
    for place, part in enumerate(p for p in text.split() if p != "-"):
        name, _, rest = part.partition(":")
        assert hasattr(made, name)
        values = {"?": True, "f": 1.5 + place, "i": -7 - place, "b": 1 + place % 2}
        wanted[name] = [3, place] if rest.endswith("[]") else values[rest[0]]
        setattr(made, name, wanted[name])
        if not rest.endswith("[]"):
            default = read_options(kind, 0, None)[name]
            assert default == getattr(schema, f"{table}T")().__dict__[name]
    builder = flatbuffers.Builder(0)
    builder.Finish(made.Pack(builder))
    root = Buffer(bytes(builder.Output()), "test").root()
    assert read_options(kind, number, root) == wanted
    other = read_options(kind, number + 1, root)
    assert other == read_options(kind, 0, None)
    assert np.size(list(wanted)) == len(wanted)
