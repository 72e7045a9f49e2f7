"""IR under upstream's names: read back it is the same module, also when `mlir-opt` wrote it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from filecheck_modules import SEPARATOR, canonical, context, modules
from fuzz.module_rules import generate
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.ir import Operation

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import SourceError, TritonError
from triton_dsl.ir.printing import PrintOptions, module_text
from triton_dsl.ir.upstream import SAME_MEANING, our_name, upstream_name
from triton_dsl.lowering.to_mlir import FORM as WIDEST
from triton_dsl.passes.universe import everything

PLAIN = PrintOptions(upstream_names=True)
OFFERED = {op.name for op in everything().all_dialects["tensor"]().operations}

RequireTool = Callable[[str, str], str]


def through_mlir_opt(texts: list[str], tool: str, *options: str) -> list[str]:
    """What `mlir-opt` prints of each text."""
    command = [tool, "--allow-unregistered-dialect", "--split-input-file", *options]
    done = subprocess.run(
        command, input=SEPARATOR.join(texts), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:2000]
    return re.split(f"^{SEPARATOR}", done.stdout, flags=re.MULTILINE)


def places(module: ModuleOp) -> list[str]:
    return [f"{op.name} {op.location}" for op in module.walk() if op is not module]


def test_all_ir_reads_back_as_the_same_module() -> None:
    assert len(modules()) > 100
    known = context()
    located = replace(PLAIN, locations=True)
    for module in modules():
        again = parse_module(module_text(module, located), "again.mlir", known)
        assert module_text(again) == module_text(module)
        assert places(again) == places(module)


@pytest.mark.parametrize(
    "options", [PLAIN, pytest.param(WIDEST, marks=pytest.mark.slow)], ids=["plain", "widest"]
)
def test_all_ir_passes_through_mlir_opt(options: PrintOptions, require_tool: RequireTool) -> None:
    tool = require_tool("mlir-opt-19", "apt-get install mlir-19-tools")
    texts = [module_text(module, options) for module in modules()]
    known = context()
    for module, text in zip(modules(), through_mlir_opt(texts, tool), strict=True):
        assert canonical(parse_module(text, "again.mlir", known)) == canonical(module)


@given(st.integers(0, 2**32 - 1), st.sampled_from([PLAIN, WIDEST]))
def test_any_module_reads_back_as_the_same(seed: int, options: PrintOptions) -> None:
    module = generate(seed).module()
    again = parse_module(module_text(module, options))
    assert canonical(again) == canonical(module)


def test_names_have_an_inverse() -> None:
    for dialect in ("tensor", "ternary", "spike"):
        known = everything().all_dialects[dialect]()
        for name in [member.name for member in (*known.operations, *known.attributes)]:
            foreign = upstream_name(name)
            assert our_name(foreign) == name
            assert our_name(f"tf.{foreign}") in (name, f"tf.{name}")
    assert our_name("tf.relu") == "tf.relu", "no op of ours"


INSIDE = [0.25, 0.5, 1.0]
"""Where most functions of one number have a value: upstream folds all elements or none."""
CASES = {
    "f32": [0.0, -0.0, 1.0, -2.5, 0.5, 1.5, 1e30, 3e38, np.inf, -np.inf, np.nan, 7.0],
    "f64": [0.0, 1e-300, 1.0, -2.5, 3.5, 1e300, np.inf, -np.inf, np.nan],
    "i8": [0, 1, -1, 127, -128, 5],
    "i64": [0, 1, -1, 2**63 - 1, -(2**63), 5],
    "i1": [0, 1],
}


def dense(values: list[Any], element: str) -> str:
    words = []
    for value in values:
        if element[0] == "f":
            width = np.float32 if element == "f32" else np.float64
            words.append(f"0x{width(value).tobytes()[::-1].hex()}")
        else:
            words.append(str(value) if element != "i1" else str(bool(value)).lower())
    return f"dense<[{', '.join(words)}]> : tensor<{len(values)}x{element}>"


def programs() -> Iterator[tuple[str, str]]:
    """Each op that upstream has too on constants, by the name that upstream gives it."""
    for name, (floats, integers) in SAME_MEANING.items():
        if name not in OFFERED or name in ("tensor.constant", "tensor.where"):
            continue
        logical = integers in ("arith.andi", "arith.ori")
        for element, values in CASES.items():
            theirs = floats if element[0] == "f" else integers
            if theirs is None or logical != (element == "i1"):
                continue
            binary = theirs.startswith("arith.") or theirs == "math.powf"
            binary = binary and theirs != "arith.negf"
            pairs = list(product(values, repeat=2)) if binary else [(v,) for v in values]
            yield theirs, program(name, element, pairs[:: len(pairs) // 48 + 1])
            if theirs.startswith("math.") and not binary:
                yield theirs, program(name, element, [(value,) for value in INSIDE])


def program(name: str, element: str, operands: list[tuple[Any, ...]]) -> str:
    """An op on constants: one tuple of operands for each element."""
    columns = [dense(list(column), element) for column in zip(*operands, strict=True)]
    type = f"tensor<{len(operands)}x{element}>"
    lines = [f"%{i} = tensor.constant {column}" for i, column in enumerate(columns)]
    values = ", ".join(f"%{i}" for i in range(len(columns)))
    lines.append(f"%y = {name} {values} : ({', '.join([type] * len(columns))}) -> {type}")
    body = "\n".join([*lines, f"func.return %y : {type}"])
    return f"func.func @forward() -> {type} {{\n{body}\n}}"


def test_what_upstream_has_too_means_the_same(require_tool: RequireTool) -> None:
    """Upstream's own folding of constants is the engine that says what its ops compute."""
    tool = require_tool("mlir-opt-19", "apt-get install mlir-19-tools")
    names, sources = zip(*programs(), strict=True)
    texts = [module_text(parse_module(source), PLAIN) for source in sources]
    assert all(f'"{name}"' in text for name, text in zip(names, texts, strict=True))
    folded = set[str]()
    outputs = through_mlir_opt(texts, tool, "--canonicalize")
    for name, source, output in zip(names, sources, outputs, strict=True):
        ops: list[Operation] = [*parse_module(output).walk()]
        constants = [op for op in ops if op.name == "tensor.constant"]
        if len(ops) != 4 or not constants:
            continue
        folded.add(name)
        value = constants[0].properties["value"]
        assert isinstance(value, DenseIntOrFPElementsAttr)
        expected = np.array(value.get_values())
        (ours,) = run_module(parse_module(source), [])
        if name.startswith("math."):
            np.testing.assert_allclose(ours, expected, rtol=1e-6, err_msg=source)
        else:
            np.testing.assert_array_equal(ours, expected.astype(ours.dtype), err_msg=source)
    assert set(names) - folded == {"math.rsqrt"}, "the one that it does not fold"


SOURCE = """
func.func @forward(%x: tensor<?x4xf32>, %y: tensor<4xf32>) -> tensor<?x4xf32> {
  %sum = tensor.add %x, %y : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %twice = tensor.add %y, %y {tensor.range = 1 : i64}
    : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %same = tensor.add %x, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %e = tensor.exp %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %theirs = arith.addf %y, %y : tensor<4xf32>
  %cast = tensor.cast %e : tensor<?x4xf32> to tensor<2x4xf32>
  func.return %e : tensor<?x4xf32>
}
"""


def test_an_op_of_upstream_stands_only_for_the_same_meaning() -> None:
    text = module_text(parse_module(SOURCE), PLAIN)
    assert '%sum = "triton_tensor.add"' in text, "arith.addf does not broadcast"
    assert '%same = "triton_tensor.add"' in text, "? may be 1 in one operand alone"
    assert '%twice = "arith.addf"(%y, %y) {triton_tensor.range = 1 : i64} :' in text
    assert '%e = "math.exp"(%x) :' in text
    assert re.search(r'%theirs = "arith.addf"\(%y, %y\) <.*> {triton_tensor.upstream} :', text)
    assert text.endswith("}) {triton_tensor.upstream_names} : () -> ()\n")
    assert '%cast = "tensor.cast"' in text
    assert module_text(parse_module(text)) == module_text(parse_module(SOURCE))


def test_ops_of_a_dialect_that_a_reader_knows_alone_are_not_moved() -> None:
    text = module_text(parse_module(SOURCE), WIDEST)
    assert '"tf.triton_tensor.exp"' in text and '"tensor.cast"' in text and '"func.func"' in text
    assert '%twice = "arith.addf"' in text


def test_what_a_pass_of_upstream_makes_is_ours(require_tool: RequireTool) -> None:
    tool = require_tool("mlir-opt-19", "apt-get install mlir-19-tools")
    source = """func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = tensor.constant dense<1.5> : tensor<4xf32>
      %b = tensor.add %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %y = tensor.mul %x, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      func.return %y : tensor<4xf32>
    }"""
    (text,) = through_mlir_opt([module_text(parse_module(source), PLAIN)], tool, "--canonicalize")
    module = parse_module(text)
    names = [op.name for op in module.walk()][2:]
    assert names == ["tensor.constant", "tensor.mul", "func.return"]
    np.testing.assert_array_equal(run_module(module, [np.ones(4, np.float32)])[0], [3.0] * 4)


def test_an_op_that_ours_does_not_take_stays_upstreams() -> None:
    text = """builtin.module attributes {triton_tensor.upstream_names} {
      func.func @f(%x: tensor<2xi1>, %y: f32) {
        %m = arith.maxsi %x, %x : tensor<2xi1>
        %s = arith.addf %y, %y : f32
        func.return
      }
    }"""
    module = parse_module(text)
    assert [op.name for op in module.walk()][2:] == ["arith.maxsi", "arith.addf", "func.return"]
    assert not module.attributes


def test_printing_leaves_the_module_as_it_was() -> None:
    module = parse_module('%0 = "foreign.op"() {a.b} : () -> f32', "", context())
    before = module_text(module)
    assert '"foreign.op"() {a.b}' in module_text(module, PLAIN)
    assert module_text(module) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"triton_tensor.ad"() : () -> ()', r"1:2: error: Operation triton_tensor.ad is not"),
        ('"tf.spike.lift"() : () -> ()', "Operation tf.spike.lift is not registered"),
        ('"tf.relu"() : () -> ()', "Operation tf.relu is not registered"),
        ("builtin.module attributes {a = #triton_tensor.stor<unsaved>} {}", "'triton_tensor.stor'"),
        (
            "builtin.module attributes {tensor.a, triton_tensor.a} {}",
            "Duplicate key 'tensor.a' in dictionary",
        ),
        (
            "builtin.module attributes {triton_tensor.upstream_names} {\n"
            '%0 = "arith.constant"() : () -> tensor<2xf32>\n}',
            "2:1: error: .*property 'value'",
        ),
    ],
)
def test_what_is_not_ours_gets_one_message(text: str, message: str) -> None:
    with pytest.raises((SourceError, TritonError), match=message):
        parse_module(text)
