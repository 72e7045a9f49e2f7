"""Names of values: whatever a model calls them, the text has a name that can be read and copied."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, i32

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.printing import value_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fc1.weight", "fc1_weight"),
        ("input/x:0", "input_x_0"),
        ("größe", "gr__e"),
        ("_0", None),
        ("_0_1", None),
        ("0", None),
        ("", None),
        ("_", "_"),
    ],
)
def test_names(name: str, expected: str | None) -> None:
    assert value_name(name) == expected


@given(st.text())
def test_a_module_can_be_copied_and_read_again(name: str) -> None:
    op = test.TestOp(result_types=[i32])
    op.results[0].name_hint = value_name(name)
    module = ModuleOp([op])
    for _ in range(3):
        module = module.clone()
    assert parse_module(str(module)).is_structurally_equivalent(module)
