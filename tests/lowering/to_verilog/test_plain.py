"""The plain form of layers, simulated, gives what NumPy and the interpreter give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.to_verilog.circuit.interface import Interface
from triton_dsl.lowering.to_verilog.layer_circuits import LayerCircuits
from triton_dsl.lowering.to_verilog.options import VerilogOptions
from triton_dsl.lowering.to_verilog.plain import PlainForm, check_plain, plain_form
from triton_dsl.lowering.to_verilog.testbench import golden, random_inputs
from triton_dsl.runtime.verilog import simulate

from .images import ImageProgram
from .test_verilog_target import SOURCES, by_numpy, network, random_values

Array = NDArray[Any]
Program = Callable[..., ModuleOp]

BENCH = """\
module bench;
  reg [{top}:0] inputs [0:{last}];
  reg [{top}:0] x;
  wire [{top}:0] near;
  wire [{end}:0] y;
  integer i, results;
  near_form near_i (.x(x), .y(near));
  plain_form form_i (.x(x), .y(y));
  initial begin
    $readmemh("inputs.mem", inputs);
    results = $fopen("results.mem");
    for (i = 0; i <= {last}; i = i + 1) begin
      x = inputs[i];
      #1 $fdisplay(results, "%h %h", near, y);
    end
    $finish;
  end
endmodule
"""


def simulated(form: PlainForm, interface: Interface, words: list[int]) -> tuple[list[int], Array]:
    """What both modules give: words, and numbers int64 [words, elements]."""
    top = sum(sum(port.widths) for port in interface.inputs) - 1
    bench = BENCH.format(top=top, end=sum(form.widths) - 1, last=len(words) - 1)
    memory = "".join(f"{word:x}\n" for word in words)
    with TemporaryDirectory() as folder:
        files = {"plain.v": form.text, "bench.v": bench, "inputs.mem": memory}
        simulate(files, "bench", Path(folder), "iverilog")
        lines = (Path(folder) / "results.mem").read_text().split()
    near, found = ([int(line, 16) for line in lines[side::2]] for side in (0, 1))
    numbers = np.zeros((len(words), len(form.widths)), np.int64)
    low = 0
    for column, width in enumerate(form.widths):
        for row, word in enumerate(found):
            number = (word >> low) % (1 << width)
            numbers[row, column] = number - (number >> (width - 1) << width)
        low += width
    return near, numbers


@settings(max_examples=20)
@given(
    sizes=st.lists(st.integers(1, 7), min_size=2, max_size=4),
    source=st.sampled_from(SOURCES),
    after=st.sampled_from(["none", "relu", "relu thresholds", "thresholds"]),
    argmax=st.booleans(),
    bits=st.integers(1, 8),
    seed=st.integers(0, 10_000),
)
def test_plain_networks_are_what_numpy_computes(
    iverilog: str,
    program: Program,
    sizes: list[int],
    source: str,
    after: str,
    argmax: bool,
    bits: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    values = random_values(rng, sizes)
    module = program(network(sizes, source, after, argmax), values)
    options = VerilogOptions(
        input_bits=None if source == "!ternary.trit" else bits, time_budget=0.001
    )
    (circuit,) = LayerCircuits(module, options, whole=True)
    inputs = random_inputs(circuit.interface, 9, seed)
    form = plain_form(circuit.layer.module, circuit.interface)
    words = circuit.interface.sent(inputs)
    near, found = simulated(form, circuit.interface, words)
    expected = by_numpy(inputs[0], values, len(sizes) - 1, after, argmax)
    assert np.array_equal(found, expected.reshape(9, -1))
    assert near == words, "numbers within the bounds stay"


OPS = """builtin.module @net {
func.func @forward(%a: tensor<?x2x3xi8>, %b: tensor<?x2x3xi8>) -> (tensor<?x3x2xi32>,
    tensor<?x2xi32>, tensor<?x1x3xi32>, tensor<?x2x3xi1>, tensor<?x2x1xi64>, tensor<?x6xi32>) {
  %c = tensor.constant dense<[[3, -2, 1], [0, 7, -5]]> : tensor<2x3xi32>
  %x = tensor.convert %a : (tensor<?x2x3xi8>) -> tensor<?x2x3xi32>
  %y = tensor.convert %b : (tensor<?x2x3xi8>) -> tensor<?x2x3xi32>
  %m = tensor.mul %x, %c : (tensor<?x2x3xi32>, tensor<2x3xi32>) -> tensor<?x2x3xi32>
  %d = tensor.sub %m, %y : (tensor<?x2x3xi32>, tensor<?x2x3xi32>) -> tensor<?x2x3xi32>
  %n = tensor.neg %d : (tensor<?x2x3xi32>) -> tensor<?x2x3xi32>
  %k = tensor.clamp %n {min = -9.0 : f64, max = 11.0 : f64}
       : (tensor<?x2x3xi32>) -> tensor<?x2x3xi32>
  %p = tensor.permute %k {perm = array<i64: 0, 2, 1>}
       : (tensor<?x2x3xi32>) -> tensor<?x3x2xi32>
  %g = tensor.maximum %x, %y : (tensor<?x2x3xi32>, tensor<?x2x3xi32>) -> tensor<?x2x3xi32>
  %l = tensor.minimum %g, %c : (tensor<?x2x3xi32>, tensor<2x3xi32>) -> tensor<?x2x3xi32>
  %s = tensor.reduce_sum %l {axes = array<i64: 2>, keepdims = false}
       : (tensor<?x2x3xi32>) -> tensor<?x2xi32>
  %h = tensor.reduce_max %d {axes = array<i64: 1>, keepdims = true}
       : (tensor<?x2x3xi32>) -> tensor<?x1x3xi32>
  %t = tensor.compare %x, %y {predicate = "ne"}
       : (tensor<?x2x3xi32>, tensor<?x2x3xi32>) -> tensor<?x2x3xi1>
  %i = tensor.argmax %d {axis = 2 : i64, keepdims = true}
       : (tensor<?x2x3xi32>) -> tensor<?x2x1xi64>
  %f = tensor.flatten %x {start = 1 : i64, end = 2 : i64}
       : (tensor<?x2x3xi32>) -> tensor<?x6xi32>
  func.return %p, %s, %h, %t, %i, %f : tensor<?x3x2xi32>, tensor<?x2xi32>, tensor<?x1x3xi32>,
    tensor<?x2x3xi1>, tensor<?x2x1xi64>, tensor<?x6xi32>
}
}"""


def test_other_ops_are_what_the_interpreter_computes(iverilog: str, program: Program) -> None:
    (circuit,) = LayerCircuits(program(OPS, {}), VerilogOptions(input_bits=4), whole=True)
    inputs = random_inputs(circuit.interface, 40, 1)
    form = plain_form(circuit.layer.module, circuit.interface)
    _, found = simulated(form, circuit.interface, circuit.interface.sent(inputs))
    expected = golden(circuit.layer.module, circuit.interface, inputs)
    assert np.array_equal(found, np.concatenate(expected, axis=1))


def test_bits_that_no_number_has_mean_the_nearest(iverilog: str, program: Program) -> None:
    values = random_values(np.random.default_rng(0), [1, 1])
    values |= {"fc1.weight": np.ones((1, 1)), "fc1.bias": np.zeros(1)}
    module = program(network([1, 1], "!ternary.trit", "none", False), values)
    (circuit,) = LayerCircuits(module, VerilogOptions())
    form = plain_form(circuit.layer.module, circuit.interface)
    near, found = simulated(form, circuit.interface, [0b00, 0b01, 0b10, 0b11])
    assert near == [0b00, 0b01, 0b11, 0b11], "-2 is no trit"
    assert found[:, 0].tolist() == [0, 1, -1, -1]


def test_images_have_no_plain_form(program: Program) -> None:
    written = ImageProgram(1, 1, 4, 4, "ui8")
    written.conv(2, (2, 2))
    with pytest.raises(UnsupportedError, match=r"ternary\.conv"):
        check_plain(program(written.text(), written.values))
