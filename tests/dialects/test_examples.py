"""Every op has an example in its docstring that parses and round-trips, and an interpreter rule."""

from io import StringIO
from pathlib import Path

import pytest
from op_examples import example_of, function_around
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation
from xdsl.printer import Printer

from triton_dsl.dialects import interpret, spike, tensor
from triton_dsl.dialects.inference import InferredOp
from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.ternary import Ternary

STRUCTURE: set[type[Operation]] = {
    spike.YieldOp,
    spike.NetworkOp,
    spike.InputOp,
    spike.PopulationOp,
    spike.ProjectionOp,
    spike.ProbeOp,
}
"""Ops that stand inside another or are run by another, whose rule computes them."""

OPERATIONS: list[type[Operation]] = [
    *tensor.OPERATIONS,
    *Ternary.operations,
    *(op for op in spike.Spike.operations if op not in STRUCTURE),
]

# That of `spike.simulate` needs the network around it: see `test_spike_network`.
WITH_EXAMPLE = [op for op in OPERATIONS if op is not spike.SimulateOp]


def text_of(module: ModuleOp) -> str:
    stream = StringIO()
    Printer(stream).print_op(module)
    return stream.getvalue() + "\n"


@pytest.mark.parametrize("kind", WITH_EXAMPLE, ids=lambda kind: kind.name)
def test_the_example_round_trips(kind: type[Operation]) -> None:
    module = parse_module(function_around(example_of(kind)))
    assert any(type(op) is kind for op in module.walk())
    printed = text_of(module)
    again = parse_module(printed)
    assert again.is_structurally_equivalent(module)
    assert text_of(again) == printed
    generic = StringIO()
    Printer(generic, print_generic_format=True).print_op(module)
    assert parse_module(generic.getvalue()).is_structurally_equivalent(module)


@pytest.mark.parametrize("kind", OPERATIONS, ids=lambda kind: kind.name)
def test_no_field_has_the_name_of_a_method(kind: type[Operation]) -> None:
    """An operand called as a method of all ops would take its place, in that op alone."""
    assert issubclass(kind, IRDLOperation)
    definition = kind.get_irdl_definition()
    fields = [name for name, _ in (*definition.operands, *definition.results)]
    fields += definition.accessor_names
    assert not {*fields} & {*vars(InferredOp), *vars(Operation)}


@pytest.mark.parametrize("kind", OPERATIONS, ids=lambda kind: kind.name)
def test_the_interpreter_has_a_rule(kind: type[Operation]) -> None:
    assert kind in interpret.RULES


def test_the_lists_are_whole() -> None:
    assert len(set(OPERATIONS)) == len(OPERATIONS)
    assert set(interpret.RULES) == set(OPERATIONS)


def test_the_reference_lists_every_op() -> None:
    reference = (Path(__file__).parents[2] / "docs" / "dialects.md").read_text(encoding="utf-8")
    everything = {*OPERATIONS, *STRUCTURE}
    assert [op.name for op in everything if f"| `{op.name}` |" not in reference] == []
