"""Faults that are put into circuits: the whole circuit, verified, shows every one of them.

A fault is a change of one op of the `hw` of a compiled network, which the target then checks and
writes as always. It is found by the verifier of circuits or by simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import (
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    i32,
    i64,
)
from xdsl.ir import Operation, SSAValue

from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.shapes import bit_width
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.to_verilog.circuit.memories import MEMORY
from triton_dsl.lowering.to_verilog.options import VerilogOptions
from triton_dsl.lowering.to_verilog.target import VerilogTarget
from triton_dsl.runtime.random_values import fill_parameters
from triton_dsl.tools.layer_results import LayerChecks, LayerResult
from triton_dsl.tools.whole_circuit import check_whole

RequireTool = Callable[[str, str], str]
Fault = Callable[[ModuleOp], None]

NETWORK = """builtin.module @net {
func.func @forward(%x: tensor<?x2x4x4xi8>) -> tensor<?x3xi32> {
  %w1 = ternary.parameter "one" : tensor<2x2x2x2x!ternary.trit>
  %w2 = ternary.parameter "two" : tensor<2x2x2x2x!ternary.trit>
  %w3 = ternary.parameter "three" : tensor<2x2x2x2x!ternary.trit>
  %w4 = ternary.parameter "four" : tensor<8x3x!ternary.trit>
  %t = tensor.constant dense<[[-2, 1, 3], [-4, -1, 2]]> : tensor<2x3xi32>
  %b = tensor.constant dense<[5, -6, 7]> : tensor<3xi32>
  %h = ternary.conv %x, %w1 thresholds(%t : tensor<2x3xi32>)
    {strides = array<i64: 1, 1>, padding = array<i64: 1, 0, 0, 1>, dilation = array<i64: 1, 1>}
    : tensor<?x2x4x4xi8>, tensor<2x2x2x2x!ternary.trit> -> tensor<?x2x4x4xi8>
  %l = ternary.conv %h, %w2 thresholds(%t : tensor<2x3xi32>)
    {strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>}
    : tensor<?x2x4x4xi8>, tensor<2x2x2x2x!ternary.trit> -> tensor<?x2x2x2xi8>
  %r = ternary.conv %h, %w3 thresholds(%t : tensor<2x3xi32>)
    {strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>}
    : tensor<?x2x4x4xi8>, tensor<2x2x2x2x!ternary.trit> -> tensor<?x2x2x2xi8>
  %s = tensor.sub %l, %r : (tensor<?x2x2x2xi8>, tensor<?x2x2x2xi8>) -> tensor<?x2x2x2xi8>
  %f = tensor.flatten %s {start = 1 : i64, end = 3 : i64}
    : (tensor<?x2x2x2xi8>) -> tensor<?x8xi8>
  %y = ternary.linear %f, %w4 bias(%b : tensor<3xi32>)
    : tensor<?x8xi8>, tensor<8x3x!ternary.trit> -> tensor<?x3xi32>
  func.return %y : tensor<?x3xi32>
}
}
"""

VECTORS = """builtin.module @net {
func.func @forward(%x: tensor<?x6xi8>) -> tensor<?x3xi32> {
  %w1 = ternary.parameter "one" : tensor<6x4x!ternary.trit>
  %w2 = ternary.parameter "two" : tensor<4x3x!ternary.trit>
  %t = tensor.constant dense<[[-90, 11, 60], [-44, -1, 52], [0, 3, 70], [-7, 8, 9]]>
    : tensor<4x3xi32>
  %h = ternary.linear %x, %w1 thresholds(%t : tensor<4x3xi32>)
    : tensor<?x6xi8>, tensor<6x4x!ternary.trit> -> tensor<?x4xi8>
  %y = ternary.linear %h, %w2 : tensor<?x4xi8>, tensor<4x3x!ternary.trit> -> tensor<?x3xi32>
  func.return %y : tensor<?x3xi32>
}
}
"""

VECTORS_SENT = {NETWORK: 256, VECTORS: 2000}
SAMPLE = {NETWORK: (2, 4, 4), VECTORS: (6,)}
QUICKLY = VerilogOptions(time_budget=0.01, vectors=4)
OPTIONS = {
    NETWORK: replace(QUICKLY, input_bits=3, folding="one:pe=1,simd=2;four:pe=1,simd=4"),
    VECTORS: QUICKLY,
}


def bits(value: SSAValue) -> int:
    return bit_width(value.type) or 0


def ops(circuit: ModuleOp, within: str, kind: Any) -> Iterator[Any]:
    """The ops of a kind in modules whose name has that part."""
    for module in circuit.body.block.ops:
        if isinstance(module, hw.HWModuleOp) and within in module.sym_name.data:
            yield from (op for op in module.body.block.ops if isinstance(op, kind))


def replaced(op: Operation, by: Operation) -> None:
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(by, op)
    op.results[0].replace_all_uses_with(by.results[0])
    block.erase_op(op)


def middle(found: Iterator[Any]) -> Any:
    every = list(found)
    assert every, "no place for this fault"
    return every[len(every) // 2]


def adder_subtracts(circuit: ModuleOp) -> None:
    op = middle(op for op in ops(circuit, "_core", comb.AddOp) if len(op.operands) == 2)
    replaced(op, comb.SubOp(*op.operands))


def subtractor_adds(circuit: ModuleOp) -> None:
    op = middle(ops(circuit, "_core", comb.SubOp))
    replaced(op, comb.AddOp(list(op.operands)))


def operands_change_places(circuit: ModuleOp) -> None:
    op = middle(ops(circuit, "_core", comb.SubOp))
    op.operands = op.operands[::-1]


def accumulator_subtracts(circuit: ModuleOp) -> None:
    op = middle(op for op in ops(circuit, "net_one", comb.AddOp) if bits(op.result) > 4)
    replaced(op, comb.SubOp(*op.operands))


def constant(name: str, within: str, kind: Any, change: Callable[[int], int]) -> Fault:
    """Another constant as an operand of ops of a kind."""

    def fault(circuit: ModuleOp) -> None:
        found = [
            (op, index)
            for op in ops(circuit, within, kind)
            for index, value in enumerate(op.operands)
            if isinstance(value.owner, hw.ConstantOp) and bits(value) > 1
        ]
        assert found, name
        op, index = found[len(found) // 2]
        old = op.operands[index].owner
        new = change(old.value.value.data) % (1 << bits(old.result))
        made = hw.ConstantOp(new, IntegerType(bits(old.result)), truncate_bits=True)
        op.parent_block().insert_op_before(made, op)
        op.operands[index] = made.result

    return fault


def _roms(circuit: ModuleOp) -> list[hw.HWModuleExternOp]:
    externs = (op for op in circuit.body.block.ops if isinstance(op, hw.HWModuleExternOp))
    return [op for op in externs if "rom" in op.sym_name.data]


def _flip(circuit: ModuleOp, word: int, rom: int) -> None:
    memory = _roms(circuit)[rom]
    entries = memory.attributes[MEMORY]
    assert isinstance(entries, DictionaryAttr)
    text = entries.data["contents"]
    assert isinstance(text, StringAttr)
    words = text.data.split()
    words[word] = f"{int(words[word], 16) ^ 1:x}"
    memory.attributes[MEMORY] = DictionaryAttr(
        {**entries.data, "contents": StringAttr(" ".join(words))}
    )


def rom_bit(rom: int, word: int) -> Fault:
    """The lowest bit of a word of a ROM, the other way."""
    return lambda circuit: _flip(circuit, word, rom)


def shift_wrong(circuit: ModuleOp) -> None:
    """A number of a beat is taken from one bit further up."""
    op = middle(
        op
        for op in ops(circuit, "two_core", comb.ExtractOp)
        if op.low_bit.value.data + bits(op.result) < bits(op.input)
    )
    op.low_bit = IntegerAttr(op.low_bit.value.data + 1, i32)


def register_left_out(circuit: ModuleOp) -> None:
    op = middle(op for op in ops(circuit, "_core", seq.CompRegOp))
    op.data.replace_all_uses_with(op.input.owner.operands[1])
    op.parent_block().erase_op(op, safe_erase=False)


def register_always_enabled(circuit: ModuleOp) -> None:
    op = middle(op for op in ops(circuit, "_core", seq.CompRegOp))
    op.operands[0] = op.input.owner.operands[1]


def valid_without_reset(circuit: ModuleOp) -> None:
    op = middle(op for op in ops(circuit, "_window", seq.CompRegOp) if op.reset is not None)
    replaced(op, seq.CompRegOp(op.input, op.clk))


def modules_change_places(circuit: ModuleOp) -> None:
    """Two stages of equal ports, each where the other one should be."""
    found = list(ops(circuit, "net_stages", hw.InstanceOp))
    a, b = (op for op in found if op.instance_name.data in ("net_two", "net_three"))
    a.module_name, b.module_name = b.module_name, a.module_name


def selection_the_other_way(circuit: ModuleOp) -> None:
    op = middle(
        op
        for op in ops(circuit, "_core", comb.MuxOp)
        if not isinstance(op.false_value.owner, seq.CompRegOp)
    )
    op.operands[1], op.operands[2] = op.operands[2], op.operands[1]


def elements_change_places(circuit: ModuleOp) -> None:
    """Two channels of a beat."""
    op = next(
        op
        for op in ops(circuit, "three_core", comb.ConcatOp)
        if any(isinstance(use.operation, hw.OutputOp) for use in op.result.uses)
    )
    op.operands[0], op.operands[1] = op.operands[1], op.operands[0]


def handshake_or(circuit: ModuleOp) -> None:
    op = middle(op for op in ops(circuit, "_window", comb.AndOp) if bits(op.result) == 1)
    replaced(op, comb.OrOp(list(op.operands)))


def join_forgets_a_channel(circuit: ModuleOp) -> None:
    op = list(ops(circuit, "_join", comb.AndOp))[-1]
    op.operands = [op.operands[0]] * len(op.operands)


def comparison_beside(circuit: ModuleOp) -> None:
    op = middle(ops(circuit, "_window", comb.ICmpOp))
    op.properties["predicate"] = IntegerAttr(1 - op.predicate.value.data % 2, i64)


def inverse_forgotten(circuit: ModuleOp) -> None:
    op = list(ops(circuit, "net", comb.XorOp))[-1]
    op.result.replace_all_uses_with(op.operands[0])
    op.parent_block().erase_op(op)


def sign_lost(circuit: ModuleOp) -> None:
    """A number is extended by zeros."""
    op = middle(op for op in ops(circuit, "_core", comb.ReplicateOp))
    replaced(op, hw.ConstantOp(0, IntegerType(bits(op.result))))


def results_change_places(circuit: ModuleOp) -> None:
    op = list(ops(circuit, "net_one", hw.OutputOp))[-1]
    same = [i for i, value in enumerate(op.operands) if bits(value) == 1]
    op.operands[same[0]], op.operands[same[1]] = op.operands[same[1]], op.operands[same[0]]


def width_changed(circuit: ModuleOp) -> None:
    op = next(op for op in ops(circuit, "net_stages", hw.InstanceOp) if len(op.results) == 3)
    op.results[1]._type = IntegerType(bits(op.results[1]) + 1)


def module_missing(circuit: ModuleOp) -> None:
    middle(ops(circuit, "net_stages", hw.InstanceOp)).module_name = SymbolRefAttr("net_five")


def port_forgotten(circuit: ModuleOp) -> None:
    op = middle(ops(circuit, "net_stages", hw.InstanceOp))
    names = op.arg_names.data
    op.arg_names = type(op.arg_names)([names[1], *names[1:]])


def memory_shallow(circuit: ModuleOp) -> None:
    memory = next(op for op in circuit.walk() if isinstance(op, hw.HWModuleExternOp))
    entries = memory.attributes[MEMORY]
    assert isinstance(entries, DictionaryAttr)
    memory.attributes[MEMORY] = DictionaryAttr({**entries.data, "depth": IntegerAttr(2, i64)})


FAULTS: dict[str, Fault] = {
    "module swapped": modules_change_places,
    "adder subtracts": adder_subtracts,
    "width changed": width_changed,
    "ROM bit": rom_bit(0, 0),
    "shift wrong": shift_wrong,
    "register left out": register_left_out,
    "subtractor adds": subtractor_adds,
    "operands swapped": operands_change_places,
    "accumulator subtracts": accumulator_subtracts,
    "threshold off by one": constant("threshold", "_core", comb.ICmpOp, lambda n: n + 1),
    "other ROM bit": rom_bit(1, 1),
    "last ROM bit": rom_bit(-1, 0),
    "register enabled": register_always_enabled,
    "no reset": valid_without_reset,
    "selection inverted": selection_the_other_way,
    "elements swapped": elements_change_places,
    "and is or": handshake_or,
    "join of one": join_forgets_a_channel,
    "comparison beside": comparison_beside,
    "no inverse": inverse_forgotten,
    "sign lost": sign_lost,
    "results swapped": results_change_places,
    "counter short": constant("counter", "_window", comb.ICmpOp, lambda n: n - 1),
    "module missing": module_missing,
    "port forgotten": port_forgotten,
    "memory shallow": memory_shallow,
}
QUICK = list(FAULTS)[:6]

OF_VECTORS = (
    "threshold off by one",
    "register enabled",
    "no inverse",
    "sign lost",
    "selection inverted",
)
"""Faults of a network that takes a vector a cycle: in the other one nothing waits for the receiver,
and numbers are too short for comparators."""


def verified(text: str) -> LayerResult:
    module = fill_parameters(parse_module(text), 3)
    x = np.random.default_rng(0).integers(-4, 4, (3, *SAMPLE[text])).astype(np.int8)
    return check_whole(
        module, [x], OPTIONS[text], LayerChecks(VECTORS_SENT[text], simulator="iverilog")
    )


@pytest.mark.parametrize("text", SAMPLE, ids=["images", "vectors"])
def test_without_a_fault_it_agrees(text: str, require_tool: RequireTool) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    found = verified(text)
    assert found.agrees and found.samples == 3, found.fault


@pytest.mark.parametrize(
    "name",
    [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in FAULTS],
)
def test_a_fault_is_caught(
    name: str, require_tool: RequireTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    emit = VerilogTarget.emit

    def emit_broken(self: VerilogTarget, module: ModuleOp, options: VerilogOptions) -> Artifact:
        FAULTS[name](module)
        return emit(self, module, options)

    monkeypatch.setattr(VerilogTarget, "emit", emit_broken)
    found = verified(VECTORS if name in OF_VECTORS else NETWORK)
    assert not found.agrees and found.fault
