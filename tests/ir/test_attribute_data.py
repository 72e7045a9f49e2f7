"""Plain data as attributes, and back."""

import json

from xdsl.dialects.builtin import DictionaryAttr, StringAttr, UnitAttr, i8

from triton_dsl.ir.attribute_data import attribute_of, data_of, dictionary_of

DATA = {"name": "x", "sizes": [1, -2], "scale": 0.5, "free": 1, "steps": [{"op": "a"}, {}]}


def test_data_come_back() -> None:
    noted = attribute_of(DATA)
    assert isinstance(noted, DictionaryAttr)
    assert data_of(noted) == DATA == json.loads(json.dumps(data_of(noted)))
    assert str(noted) == (
        '{name = "x", sizes = [1 : i64, -2 : i64], scale = 5.000000e-01 : f64, '
        'free = 1 : i64, steps = [{op = "a"}, {}]}'
    )


def test_truth_values_are_numbers_and_attributes_stay() -> None:
    noted = dictionary_of({"type": i8, "unit": UnitAttr(), "text": StringAttr("y"), "is": True})
    assert data_of(noted) == {"type": i8, "unit": UnitAttr(), "text": "y", "is": 1}
