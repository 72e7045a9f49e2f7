"""The table of operators in the documents is the one that the rules give."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_dsl.lowering.from_tflite.schema import OPERATORS
from triton_dsl.lowering.from_tflite.tflite_operators import ELEMENTWISE, INTEGER, REFUSED, RULES
from triton_dsl.lowering.to_tflite.kernels import KERNELS

from ..from_onnx.onnx_coverage import written
from .tflite_coverage import TABULATED, arithmetic, table

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "tflite_import.md"


def test_the_document_has_the_table() -> None:
    text = GUIDE.read_text("utf-8")
    assert written(text, table()) == text


def test_every_rule_is_of_an_operator() -> None:
    known = set(OPERATORS)
    assert set(RULES) <= known and set(INTEGER) <= set(RULES) and set(REFUSED) <= known
    assert not set(RULES) & set(REFUSED)
    assert set(RULES) >= ELEMENTWISE and set(INTEGER) >= TABULATED


def test_all_that_the_target_writes_is_read() -> None:
    assert set(KERNELS) <= set(RULES)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("CONV_2D", "integers"), ("TANH", "table of 256 values"), ("PAD", "moved as they are"),
     ("LOG_SOFTMAX", "through floats")],
)  # fmt: skip
def test_arithmetic_of_integers(kind: str, expected: str) -> None:
    assert arithmetic(kind) == expected
