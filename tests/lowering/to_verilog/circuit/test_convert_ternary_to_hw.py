"""The circuit as IR: exact widths, balanced registers, and text that can be read again.

What it computes is tested by simulation, in `tests/lowering/to_verilog`.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.to_verilog.circuit.interface import noted_interface
from triton_dsl.lowering.to_verilog.printer import modules, verilog

Apply = Callable[[ModuleOp, str], str]
Filled = Callable[..., ModuleOp]
Array = NDArray[Any]

LAYERS = """builtin.module @net {
func.func @forward(%x: tensor<?x6xi8>) -> tensor<?x3xi32> {
  %w1 = ternary.parameter "fc1.weight" : tensor<6x5x!ternary.trit>
  %w2 = ternary.parameter "fc2.weight" : tensor<5x3x!ternary.trit>
  %t = tensor.constant dense<[[-3, 0, 9]]> : tensor<1x3xi32>
  %h = ternary.linear %x, %w1 thresholds(%t : tensor<1x3xi32>) {activation = "none"}
       : tensor<?x6xi8>, tensor<6x5x!ternary.trit> -> tensor<?x5xi8>
  %y = ternary.matmul %h, %w2 : tensor<?x5xi8>, tensor<5x3x!ternary.trit> -> tensor<?x3xi32>
  func.return %y : tensor<?x3xi32>
}
}"""


def circuit(apply_passes: Apply, filled: Filled, options: str, seed: int = 1) -> ModuleOp:
    module = filled(LAYERS, seed)
    adders = "optimize-adder-graph{time-budget=0.002}"
    apply_passes(module, f"{adders},convert-ternary-to-hw{{{options}}}")
    return module


@pytest.mark.parametrize("pipeline", [0, 1, 2])
def test_text_can_be_read_again(apply_passes: Apply, filled: Filled, pipeline: int) -> None:
    module = circuit(apply_passes, filled, f"input-bits=4 pipeline={pipeline}")
    again = parse_module(str(module))
    assert str(again) == str(module)
    assert noted_interface(again) == noted_interface(module)
    before, after = ([verilog(m) for m in modules(found)] for found in (module, again))
    assert before == after


@pytest.mark.parametrize("pipeline", [1, 2, 3])
def test_all_ways_have_the_same_registers(
    apply_passes: Apply, filled: Filled, pipeline: int
) -> None:
    module = circuit(apply_passes, filled, f"input-bits=4 pipeline={pipeline}")
    (core,) = (m for m in modules(module) if m.sym_name.data == "net_core")
    assert isinstance(core, hw.HWModuleOp)
    latency = noted_interface(module).latency
    assert latency > 0
    data = core.body.block.args[2]
    stages: dict[SSAValue, set[int]] = {data: {0}}
    for op in core.body.block.ops:
        if isinstance(op, hw.ConstantOp):
            stages[op.result] = set()
            continue
        operands = [v for v in op.operands if v in stages]
        if isinstance(op, comb.MuxOp) and op.cond is core.body.block.args[1]:
            operands = [op.true_value]
        found = set[int]().union(*(stages[v] for v in operands))
        assert len(found) <= 1, f"{op} mixes cycles {found}"
        if isinstance(op, seq.CompRegOp):
            found = {n + 1 for n in found}
        if isinstance(op, hw.OutputOp):
            assert found == {latency}
        for result in op.results:
            stages[result] = found


def test_widths_are_exact(apply_passes: Apply, filled: Filled) -> None:
    module = filled(
        """func.func @forward(%x: tensor<?x3xi8>) -> tensor<?x4xi32> {
  %w = ternary.parameter "w" : tensor<3x4x!ternary.trit>
  %y = ternary.matmul %x, %w : tensor<?x3xi8>, tensor<3x4x!ternary.trit> -> tensor<?x4xi32>
  func.return %y : tensor<?x4xi32>
}""",
        values={"w": np.array([[1, -1, 0, 1], [1, 0, 0, -1], [1, 0, 0, 0]], np.int8)},
    )
    apply_passes(module, "convert-ternary-to-hw{input-bits=3}")
    (output,) = noted_interface(module).outputs
    # x in [-4, 3]: the sum of three, -x, nothing, and a difference.
    assert list(zip(output.low, output.high, strict=True)) == [(-12, 9), (-3, 4), (0, 0), (-7, 7)]
    assert output.widths == [5, 4, 1, 4]


def test_biases_before_thresholds_cost_nothing(apply_passes: Apply, filled: Filled) -> None:
    text = """func.func @forward(%x: tensor<?x2xi8>) -> tensor<?x1xi8> {
  %w = ternary.constant [1, 1] : tensor<2x1x!ternary.trit>
  %b = tensor.constant dense<7> : tensor<1xi32>
  %t = tensor.constant dense<[[1, 5]]> : tensor<1x2xi32>
  %y = ternary.linear %x, %w bias(%b : tensor<1xi32>) thresholds(%t : tensor<1x2xi32>)
       {activation = "relu"} : tensor<?x2xi8>, tensor<2x1x!ternary.trit> -> tensor<?x1xi8>
  func.return %y : tensor<?x1xi8>
}"""
    plain = re.sub(r" bias\(.*?\)", "", text).replace("[[1, 5]]", "[[-6, -2]]")
    plain = plain.replace('{activation = "relu"}', "")
    kinds: list[list[str]] = []
    for module in (filled(text), filled(plain)):
        apply_passes(module, "convert-ternary-to-hw")
        kinds.append([op.name for op in module.walk() if op.dialect_name() == "comb"])
    assert kinds[0] == kinds[1] and kinds[0].count("comb.add") == 1


def test_the_function_stays_when_asked(apply_passes: Apply, filled: Filled) -> None:
    names = {op.name for op in circuit(apply_passes, filled, "keep-function=true").ops}
    assert names == {"func.func", "hw.module"}
    assert {op.name for op in circuit(apply_passes, filled, "").ops} == {"hw.module"}


def test_a_refused_program_keeps_its_function(apply_passes: Apply) -> None:
    module = parse_module(
        """func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = tensor.exp %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}"""
    )
    before = str(module)
    with pytest.raises(UnsupportedError, match=r"(?s)tensor\.exp at .*quantize-activations"):
        apply_passes(module, "convert-ternary-to-hw")
    assert str(module) == before


def test_names_survive(apply_passes: Apply, filled: Filled) -> None:
    module = circuit(apply_passes, filled, "input-bits=4")
    names = [
        name.data
        for op in module.walk()
        if isinstance(name := op.attributes.get("sv.namehint"), StringAttr)
    ]
    assert len(set(names)) == len(names)
    assert "x_5" in names and any(name.startswith("fc2_acc_") for name in names)


CONVOLVED = """builtin.module @net {
func.func @forward(%x: tensor<?x4x6x5xi8>) -> tensor<?x8x3x3xi32> {
  %w = ternary.parameter "conv.weight" : tensor<8x1x3x3x!ternary.trit>
  %v = ternary.parameter "last.weight" : tensor<8x8x1x1x!ternary.trit>
  %h = ternary.conv %x, %w {strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>,
       dilation = array<i64: 1, 1>, groups = 4 : i64}
       : tensor<?x4x6x5xi8>, tensor<8x1x3x3x!ternary.trit> -> tensor<?x8x3x3xi32>
  %c = tensor.clamp %h {min = -7.0 : f64, max = 8.0 : f64}
       : (tensor<?x8x3x3xi32>) -> tensor<?x8x3x3xi32>
  %y = ternary.conv %c, %v {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>, groups = 1 : i64}
       : tensor<?x8x3x3xi32>, tensor<8x8x1x1x!ternary.trit> -> tensor<?x8x3x3xi32>
  func.return %y : tensor<?x8x3x3xi32>
}
}"""


@pytest.mark.parametrize("folding", ["", "conv:pe=4,simd=9", "conv:pe=1,simd=2;last:digit=1"])
def test_nothing_is_left_that_no_output_needs(
    apply_passes: Apply, filled: Filled, folding: str
) -> None:
    module = filled(CONVOLVED, 2)
    chosen = f'choose-folding{{folding="{folding}"}},' if folding else ""
    apply_passes(module, f"{chosen}convert-ternary-to-hw{{time-budget=0.001}}")
    every = list(module.body.block.ops)
    used = {"net"}
    for circuit_module in every:
        if not isinstance(circuit_module, hw.HWModuleOp):
            continue
        ops = list(circuit_module.body.block.ops)
        reached: set[Operation | Block] = {ops[-1]}
        while (
            more := {
                value.owner
                for op in ops
                if op in reached
                for value in op.operands
                if value.owner in ops
            }
            - reached
        ):
            reached |= more
        assert reached == set(ops)
        used |= {op.module_name.string_value() for op in ops if isinstance(op, hw.InstanceOp)}
    assert used == {
        op.sym_name.data for op in every if isinstance(op, hw.HWModuleOp | hw.HWModuleExternOp)
    }
