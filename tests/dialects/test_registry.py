"""Reading text: laziness, locations, and one clear message for whatever is wrong."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp

from triton_dsl.dialects.registry import get_all_dialects, parse_module, triton_context
from triton_dsl.ir.errors import ParameterError, SourceError, TritonError, VerifyError
from triton_dsl.ir.locations import location_text

TEXT = """\
module {
  func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %y = tensor.relu %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
    func.return %y : tensor<?x4xf32>
  }
}
"""


def test_every_dialect_can_be_loaded() -> None:
    dialects = get_all_dialects()
    assert {"builtin", "func", "arith", "linalg", "tensor", "ternary", "spike"} <= set(dialects)
    assert all(getter().name == name for name, getter in dialects.items() if name in OURS)
    names = {op.name for op in dialects["tensor"]().operations}
    assert {"tensor.empty", "tensor.extract_slice", "tensor.parameter"} <= names


OURS = {"tensor", "ternary", "spike", "func", "arith", "linalg"}


def test_dialects_are_imported_when_first_used() -> None:
    program = (
        "import sys\n"
        "from triton_dsl.dialects.registry import parse_module\n"
        "parse_module('module {}')\n"
        "print(*(m for m in sys.modules if m.startswith('triton_dsl.dialects.t') "
        "or m in ('numpy', 'xdsl.dialects.linalg', 'safetensors')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_ops_know_where_they_come_from() -> None:
    module = parse_module(TEXT, "dir/m.mlir", first_line=101)
    places = {op.name: location_text(op) for op in module.walk()}
    assert places == {
        "builtin.module": "dir/m.mlir:101:1",
        "func.func": "dir/m.mlir:102:3",
        "tensor.relu": "dir/m.mlir:103:5",
        "func.return": "dir/m.mlir:104:5",
    }


def test_written_locations_stay() -> None:
    line = "%y = tensor.relu %x : (tensor<?x4xf32>) -> tensor<?x4xf32>"
    module = parse_module(TEXT.replace(line, f'{line} loc("net.tri":7:9)'))
    (relu,) = (op for op in module.walk() if op.name == "tensor.relu")
    assert location_text(relu) == "net.tri:7:9"


def test_an_op_without_a_place_takes_that_around_it() -> None:
    module = parse_module(TEXT, "m.mlir")
    (function,) = module.ops
    op = function.regions[0].block.first_op
    assert op is not None
    copy = type(op).create(operands=op.operands, result_types=[r.type for r in op.results])
    function.regions[0].block.insert_op_before(copy, op)
    assert location_text(copy) == "m.mlir:2:3"
    assert location_text(ModuleOp([])) == "unknown"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", SourceError, "m.mlir:1:1: error: "),
        ("\0", SourceError, r"m.mlir:1:1: error: Unexpected character: \x00"),
        ("module {\n  tensor.nope\n}", SourceError, "m.mlir:2:"),
        ("%y = tensor.relu %x : (tensor<4", SourceError, "m.mlir:1:"),
        ("func.func @f(%x: !ternary.bit) {\n}", SourceError, "'ternary.bit' is not registered"),
        ("module {" * 5000, SourceError, "m.mlir: error: the text nests too deeply"),
        ("%c = tensor.constant dense<1.5> : tensor<4xi32>", SourceError, "Expected integer value"),
        ("%c = ternary.constant [300] : tensor<1x!ternary.trit>", SourceError, "m.mlir:1:"),
        ('"tensor.relu"() : () -> ()', VerifyError, "'tensor.relu' Expected 1 operand, but got 0"),
        (
            "func.func @f() -> tensor<4xf32> {\n  func.return\n}",
            VerifyError,
            "m.mlir:2:3: error: 'func.return' ",
        ),
        (
            "func.func @f(%x: tensor<4xf32>) {\n"
            "  %y = tensor.relu %z : (tensor<4xf32>) -> tensor<4xf32>\n"
            "  %z = tensor.relu %x : (tensor<4xf32>) -> tensor<4xf32>\n  func.return\n}",
            VerifyError,
            "m.mlir:2:3: error: 'tensor.relu' uses %z before its definition",
        ),
        (
            'module attributes {tensor.parameters = #tensor.store<"../w", sha256 = "">} {}',
            ParameterError,
            "m.mlir:1:",
        ),
    ],
)
def test_bad_text_gives_one_message(text: str, kind: type[TritonError], message: str) -> None:
    with pytest.raises(kind) as refused:
        parse_module(text, "m.mlir")
    first, *rest = str(refused.value).splitlines()
    assert message in first and ": error: " in first
    assert not rest or (len(rest) == 2 and rest[1].strip() == "^")


@pytest.mark.parametrize(
    ("element", "infinity", "nan"),
    [
        ("f16", "0xFC00", "0x7E01"),
        ("bf16", "0xFF80", "0x7FC1"),
        ("f32", "0xFF800000", "0x7FC00001"),
        ("f64", "0xFFF0000000000000", "0x7FF8000000000001"),
    ],
)
def test_floats_of_dense_constants_read_as_they_were_written(
    element: str, infinity: str, nan: str
) -> None:
    text = (
        f"%0 = arith.constant dense<[1.5, 1536.0, {infinity}, {nan}]> : tensor<4x{element}>\n"
        f"%1 = arith.constant dense<12582912.0> : tensor<2xf32>"
    )
    once = parse_module(text)
    first, second = (op.properties["value"] for op in once.body.block.ops)
    assert isinstance(first, DenseIntOrFPElementsAttr)
    assert isinstance(second, DenseIntOrFPElementsAttr)
    one, large, low, none = first.get_values()
    assert (one, large, low) == (1.5, 1536.0, float("-inf")) and none != none
    assert second.get_values() == (12582912.0, 12582912.0)
    again = [op.properties["value"] for op in parse_module(str(once)).body.block.ops]
    assert again == [first, second]


def test_too_many_bits_for_a_float_are_refused() -> None:
    with pytest.raises(SourceError, match="f32 has not so many bits"):
        parse_module("%0 = arith.constant dense<0x1FFFFFFFF> : tensor<2xf32>")


def test_verification_can_wait() -> None:
    parse_module('"tensor.relu"() : () -> ()', verify=False)


def test_unregistered_ops_on_request() -> None:
    context = triton_context(allow_unregistered=True)
    parse_module('"foo.bar"() : () -> ()', ctx=context)


@given(st.data())
def test_mutated_text_gives_a_module_or_an_error(data: st.DataObject) -> None:
    text = TEXT
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 6))
        inserted = data.draw(st.text('%@#!<>{}()[]:,=-?x 0123abtensor."\n\\\0é', max_size=5))
        text = text[:start] + inserted + text[start + length :]
    try:
        module = parse_module(text)
    except TritonError as error:
        assert ": error: " in str(error)
    else:
        module.verify()
