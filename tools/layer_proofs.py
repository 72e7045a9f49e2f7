"""Proofs that the circuit of a layer is right for every input, by its plain form.

Not here: the plain form (`to_verilog.plain`), and how two modules are compared
(`runtime.verilog_equivalence`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ..ir.errors import UnsupportedError
from ..lowering.to_verilog.formal import Port as StreamPort
from ..lowering.to_verilog.formal import ports_of, stream_properties
from ..lowering.to_verilog.layer_circuits import LayerCircuit
from ..lowering.to_verilog.plain import PlainForm, plain_form
from ..lowering.to_verilog.printer import modules
from ..runtime.verilog_equivalence import Registers, check_provers, prove_equal
from ..runtime.verilog_properties import prove_assertions

MOST_BITS = 10_000
"""Bits of adders in the plain form of layers that are tried."""

Time = Literal["function", "cycles", "for ever"]
"""What is proved of a pipeline: the function, as all paths through it have as many registers; the
first cycles, as many as it has registers and two more, with a halt in any of them; or all."""


@dataclass(frozen=True)
class Proof:
    """What became of a proof.

    Attributes:
        equal: whether the layer is right for every input; `None` where that is not known.
        reason: why not, in words; where it is proved how far, empty for every input at any time.
        seconds: that it took.
    """

    equal: bool | None
    reason: str
    seconds: float

    def __str__(self) -> str:
        if self.equal is None:
            return self.reason
        what = f" ({self.reason})" if self.reason else ""
        return f"{'proved' if self.equal else 'REFUTED'}{what} in {self.seconds:.1f} s"


def prove_layer(circuit: LayerCircuit, seconds: float, time: Time = "function") -> Proof:
    """Prove that a circuit gives what its layer means, for every input within the bounds.

    Args:
        circuit: of a layer on vectors; others are left alone, and so are large ones.
        seconds: that may pass.
        time: what is proved of its registers.

    Raises:
        BackendError: a tool is missing.
    """
    check_provers()
    if circuit.interface.staged:
        return _prove_stages(circuit, seconds)
    try:
        form = plain_form(circuit.layer.module, circuit.interface)
    except UnsupportedError as error:
        return Proof(None, f"not tried: no plain form of {error.problems[0][0]}", 0.0)
    if form.bits > MOST_BITS:
        return Proof(None, f"too large: {form.bits:,} bits of adders", 0.0)
    latency = circuit.interface.latency
    registers: Registers = "none"
    if latency and time == "function":
        if not is_pipeline(circuit.hardware, circuit.interface.name, latency):
            return Proof(None, "not tried: paths differ in their registers", 0.0)
        registers = "wires"
    elif latency:
        registers = latency + 2 if time == "cycles" else "for ever"
    files = {
        **circuit.rtl,
        "sides.v": _sides(circuit, form, 0 if registers == "wires" else latency),
    }
    with TemporaryDirectory() as folder:
        outcome = prove_equal(
            files, ("plain", "circuit"), Path(folder), seconds=seconds, registers=registers
        )
    reason = f"undecided in {seconds:g} s" if outcome.equal is None else ""
    return Proof(outcome.equal, reason, round(outcome.seconds, 3))


def _prove_stages(circuit: LayerCircuit, seconds: float) -> Proof:
    """That no frame is lost or changes while it waits, for all time; and for the first frames of
    layers on vectors that they are right, with waits of sender and receiver in any cycle."""
    interface = circuit.interface
    ports = ports_of(circuit.rtl[f"{interface.name}.v"])
    about = stream_properties(interface, ports)
    files = {**circuit.rtl, f"{about.name}.v": about.text}
    cycles = interface.latency + interface.interval + 2
    spent, said = 0.0, f"handshake undecided in {seconds:g} s"
    with TemporaryDirectory() as folder:
        control = prove_assertions(
            files, about.harness, Path(folder), seconds=seconds / 3, defines=["CONTROL_ALONE"]
        )
        spent = control.seconds
        if control.holds is None:
            control = prove_assertions(
                files, about.harness, Path(folder), seconds=seconds / 4, cycles=cycles
            )
            spent += control.seconds
        if control.holds is False:
            return Proof(False, "", round(spent, 3))
        if control.holds:
            lasts = "all time" if spent == control.seconds else f"{cycles} cycles"
            said = f"handshake for {lasts}"
        try:
            form = plain_form(circuit.layer.module, interface)
        except UnsupportedError as error:
            return Proof(None, f"{said}; no plain form of {error.problems[0][0]}", round(spent, 3))
        if interface.beats_in != 1 or interface.beats_out != 1 or form.bits > MOST_BITS:
            return Proof(None, f"{said}; results not tried", round(spent, 3))
        checks = {**circuit.rtl, "frames.v": _frames(circuit, form, ports)}
        first = prove_assertions(
            checks, "frames", Path(folder), seconds=seconds - spent, cycles=cycles
        )
    spent += first.seconds
    if first.holds is False or not (first.holds and control.holds):
        more = f"{said}; results undecided" if first.holds is None else said
        return Proof(None if first.holds is not False else False, more, round(spent, 3))
    return Proof(True, f"{said}, results for {cycles} cycles", round(spent, 3))


_FRAMES = """\
module frames (
{given}
);
{wires}  {name} circuit ({all});
  wire [{top}:0] x = s_axis_tdata[{top}:0], near;
  near_form near_i (.x(x), .y(near));
  wire [{end}:0] wanted;
  plain_form form_i (.x(x), .y(wanted));
  wire [{end}:0] result = {{{result}}};
  reg started = 0, waits = 0;
  reg [{top}:0] before = 0;
  reg [1:0] came = 0, left = 0;
  reg [{end}:0] first = 0, second = 0;
  wire takes = aresetn && s_axis_tvalid && s_axis_tready;
  wire leaves = aresetn && m_axis_tvalid && m_axis_tready;
  always @(posedge aclk) begin
    started <= 1;
    waits <= aresetn && s_axis_tvalid && !s_axis_tready;
    before <= x;
    if (takes && came == 0) first <= wanted;
    if (takes && came == 1) second <= wanted;
    if (takes && came != 2) came <= came + 1;
    if (leaves && left != 2) left <= left + 1;
  end
  always @* begin
    assume (aresetn == started);
    assume (near == x);
    if (waits) assume (s_axis_tvalid && x == before);
    if (aresetn && m_axis_tvalid && left == 0) assert (came != 0 && result == first);
    if (aresetn && m_axis_tvalid && left == 1) assert (came == 2 && result == second);
  end
endmodule
"""


def _frames(circuit: LayerCircuit, form: PlainForm, ports: Sequence[StreamPort]) -> str:
    """The circuit beside its plain form, for the first two frames."""
    interface = circuit.interface
    parts: list[str] = []
    wanted, low = iter(form.widths), 0
    for port in interface.outputs:
        for least, width in zip(port.low, port.widths, strict=True):
            sign = f"m_axis_tdata[{low + width - 1}]" if least < 0 else "1'b0"
            missing = next(wanted) - width
            parts.append(f"{{{{{missing}{{{sign}}}}}, m_axis_tdata[{low} +: {width}]}}")
            low += width

    def declared(word: str, is_input: bool) -> list[str]:
        return [
            f"  {word} {'' if bits == 1 else f'[{bits - 1}:0] '}{name}"
            for name, given, bits in ports
            if given == is_input
        ]

    return form.text + _FRAMES.format(
        given=",\n".join(declared("input wire", True)),
        wires="".join(f"{line};\n" for line in declared("wire", False)),
        name=interface.name,
        all=", ".join(f".{name}({name})" for name, _, _ in ports),
        top=sum(sum(port.widths) for port in interface.inputs) - 1,
        end=sum(form.widths) - 1,
        result=", ".join(reversed(parts)),
    )


def is_pipeline(module: ModuleOp, name: str, latency: int) -> bool:
    """Whether all ways through the arithmetic of a circuit have so many registers, all with the
    same enable: then its results are a function of what came in so many enabled cycles before."""
    (core,) = [m for m in modules(module) if m.sym_name.data == f"{name}_core"]
    assert isinstance(core, hw.HWModuleOp)
    block = core.body.block
    _, enable, *inputs = block.args
    depths: dict[SSAValue, int | None] = dict.fromkeys(inputs, 0)
    next_values: dict[Operation, SSAValue] = {}
    for op in block.ops:
        if isinstance(op, comb.MuxOp) and op.cond is enable:
            users = [use.operation for use in op.result.uses]
            if len(users) != 1 or op.false_value.owner is not users[0]:
                return False
            next_values[users[0]] = op.true_value
            continue
        if isinstance(op, seq.CompRegOp):
            value = next_values.get(op)
            before = None if value is None else depths.get(value)
            if before is None:
                return False
            depths[op.data] = before + 1
            continue
        if any(value not in depths for value in op.operands):
            return False
        operand_depths = {depths[value] for value in op.operands} - {None}
        if isinstance(op, hw.OutputOp):
            return operand_depths <= {latency}
        if len(operand_depths) > 1:
            return False
        depths |= dict.fromkeys(op.results, operand_depths.pop() if operand_depths else None)
    return False


_SIDES = """\
module plain (input clock, input enable, input [{top}:0] x, output [{end}:0] y);
  wire [{end}:0] d0;
  plain_form form_i (.x(x), .y(d0));
{delays}
endmodule

module circuit (input clock, input enable, input [{top}:0] x, output [{end}:0] y);
  wire [{top}:0] near;
  near_form near_i (.x(x), .y(near));
{wires}
  {name}_core core_i ({ports});
  wire [{end}:0] result = {{{result}}};
{filled}
endmodule
"""


def _sides(circuit: LayerCircuit, form: PlainForm, latency: int) -> str:
    """The modules to compare: results of as many bits as the plain form has.

    Without latency the circuit is enabled all the time; else both are 0 for so many cycles.
    """
    interface = circuit.interface
    end = sum(form.widths) - 1
    enable = "enable" if latency else "1'b1"
    ports = [".clock(clock)", f".enable({enable})"]
    place = 0
    for port in interface.inputs:
        size = sum(port.widths)
        ports.append(f".{port.name}(near[{place} +: {size}])")
        place += size
    wires: list[str] = []
    parts: list[str] = []
    wanted = iter(form.widths)
    for index, port in enumerate(interface.outputs):
        wires.append(f"  wire [{sum(port.widths) - 1}:0] core{index};")
        ports.append(f".{port.name}(core{index})")
        low = 0
        for least, width in zip(port.low, port.widths, strict=True):
            sign = f"core{index}[{low + width - 1}]" if least < 0 else "1'b0"
            parts.append(f"{{{{{next(wanted) - width}{{{sign}}}}}, core{index}[{low} +: {width}]}}")
            low += width
    delays = [
        f"  reg [{end}:0] d{cycle} = 0;\n"
        f"  always @(posedge clock) if (enable) d{cycle} <= d{cycle - 1};"
        for cycle in range(1, latency + 1)
    ]
    return form.text + _SIDES.format(
        top=place - 1,
        end=end,
        delays="\n".join([*delays, _filled(f"d{latency}", latency)]),
        wires="\n".join(wires),
        name=interface.name,
        ports=", ".join(ports),
        result=", ".join(reversed(parts)),
        filled=_filled("result", latency),
    )


def _filled(value: str, cycles: int) -> str:
    """An output that is 0 until so many cycles with an enable have passed."""
    if not cycles:
        return f"  assign y = {value};"
    return f"""\
  reg [{cycles - 1}:0] age = 0;
  always @(posedge clock) if (enable) age <= {{age, 1'b1}};
  assign y = age[{cycles - 1}] ? {value} : 0;"""
