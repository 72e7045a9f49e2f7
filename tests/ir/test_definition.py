"""Op classes whose assembly formats are read late: they are sound all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest
from xdsl.irdl import IRDLOperation, operand_def, result_def
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.utils.exceptions import ParseError

from triton_dsl.dialects.spike import Spike
from triton_dsl.dialects.tensor import OPERATIONS
from triton_dsl.dialects.ternary import Ternary
from triton_dsl.ir.definition import irdl_op_definition

OURS = [
    op
    for op in (*OPERATIONS, *Spike.operations, *Ternary.operations)
    if issubclass(op, IRDLOperation) and op.assembly_format is not None
]


@pytest.mark.parametrize("op", OURS, ids=lambda op: op.name)
def test_the_format_of_an_op_can_be_read(op: type[IRDLOperation]) -> None:
    definition = op.get_irdl_definition()
    assert definition.assembly_format is not None
    FormatProgram.from_str(definition.assembly_format, definition)


def test_a_faulty_format_is_told_when_it_is_needed() -> None:
    @irdl_op_definition
    class FaultyOp(IRDLOperation):
        name = "test.faulty"
        operand = operand_def()
        result = result_def()
        assembly_format = "$operand attr-dict `:` type($nothing)"

    with pytest.raises(ParseError, match="nothing"):
        FaultyOp.create().print(None)  # pyright: ignore[reportArgumentType]


def test_loading_a_dialect_reads_no_format() -> None:
    program = (
        "from xdsl.irdl.declarative_assembly_format import FormatProgram as Program\n"
        "read, names = Program.from_str, []\n"
        "def from_str(text, op):\n"
        "    names.append(op.name)\n"
        "    return read(text, op)\n"
        "Program.from_str = from_str\n"
        "import triton_dsl.dialects.spike, triton_dsl.dialects.tensor, xdsl.dialects.tensor\n"
        "print(*(set(names) - {op.name for op in xdsl.dialects.tensor.Tensor.operations}))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    names = done.stdout.decode().split()
    assert not {name for name in names if name.partition(".")[0] in ("spike", "tensor", "ternary")}
