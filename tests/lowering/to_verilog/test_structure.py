"""The verifier of circuits: every fault is told with its place, and no Verilog is written."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from triton_dsl.dialects.shapes import bit_width
from triton_dsl.ir.errors import VerifyError
from triton_dsl.lowering.to_verilog.circuit.interface import noted_interface
from triton_dsl.lowering.to_verilog.circuit.memories import MEMORY
from triton_dsl.lowering.to_verilog.circuit.structure import check_structure
from triton_dsl.lowering.to_verilog.options import VerilogOptions
from triton_dsl.lowering.to_verilog.target import VerilogTarget

from .designs import DESIGNS, hardware

Program = Callable[..., ModuleOp]
Fault = Callable[[ModuleOp], object]


def modules(circuit: ModuleOp) -> list[hw.HWModuleOp]:
    return [op for op in circuit.body.block.ops if isinstance(op, hw.HWModuleOp)]


def memories(circuit: ModuleOp) -> list[hw.HWModuleExternOp]:
    return [op for op in circuit.body.block.ops if isinstance(op, hw.HWModuleExternOp)]


def instances(circuit: ModuleOp) -> list[hw.InstanceOp]:
    return [op for op in circuit.walk() if isinstance(op, hw.InstanceOp)]


def first(circuit: ModuleOp, kind: type[Operation]) -> Operation:
    return next(op for op in circuit.walk() if isinstance(op, kind))


def retyped(value: SSAValue, bits: int = 1) -> None:
    """Other bits for a value, as a builder with a wrong width leaves it."""
    value._type = IntegerType((bit_width(value.type) or 0) + bits)  # pyright: ignore


def ports_of(module: hw.HWModuleOp, change: Callable[[hw.ModulePort], hw.ModulePort]) -> None:
    module.module_type = hw.ModuleType(ArrayAttr([change(p) for p in module.module_type.ports]))


def renamed(port: hw.ModulePort, old: str, new: str) -> hw.ModulePort:
    name = StringAttr(new) if port.port_name.data == old else port.port_name
    return hw.ModulePort(name, port.type, port.dir)


def missing_module(circuit: ModuleOp) -> None:
    instances(circuit)[0].module_name = SymbolRefAttr("nowhere")


def two_of_a_name(circuit: ModuleOp) -> None:
    one, other, *_ = modules(circuit)
    other.sym_name = one.sym_name


def unknown_port(circuit: ModuleOp) -> None:
    op = instances(circuit)[0]
    op.arg_names = ArrayAttr([StringAttr("nothing"), *op.arg_names.data[1:]])


def port_twice(circuit: ModuleOp) -> None:
    op = instances(circuit)[0]
    op.arg_names = ArrayAttr([op.arg_names.data[1], *op.arg_names.data[1:]])


def wider_result(circuit: ModuleOp) -> None:
    op = next(op for op in instances(circuit) if len(op.results) == 3)
    retyped(op.results[1])


def wider_module(circuit: ModuleOp) -> None:
    of = next(op for op in instances(circuit) if len(op.results) == 3).module_name.string_value()
    module = next(m for m in modules(circuit) if m.sym_name.data == of)

    def wider(port: hw.ModulePort) -> hw.ModulePort:
        grows = port.port_name.data == "in_data"
        type = IntegerType((bit_width(port.type) or 0) + 8) if grows else port.type
        return hw.ModulePort(port.port_name, type, port.dir)

    ports_of(module, wider)


def keyword_port(circuit: ModuleOp) -> None:
    module = modules(circuit)[-1]
    ports_of(module, lambda port: renamed(port, "s_axis_tlast", "always"))


def same_ports(circuit: ModuleOp) -> None:
    module = modules(circuit)[-1]
    ports_of(module, lambda port: renamed(port, "s_axis_tlast", "s_axis_tvalid"))


def other_stream(circuit: ModuleOp) -> None:
    retype = {"s_axis_tdata": IntegerType(1024)}

    def changed(port: hw.ModulePort) -> hw.ModulePort:
        return hw.ModulePort(port.port_name, retype.get(port.port_name.data, port.type), port.dir)

    ports_of(modules(circuit)[-1], changed)


def lost_top(circuit: ModuleOp) -> None:
    modules(circuit)[-1].sym_name = StringAttr("somebody")


def foreign_driver(circuit: ModuleOp) -> None:
    op = first(circuit, comb.AndOp)
    other = next(m for m in modules(circuit) if not m.body.block.is_ancestor(op))
    driver = next(
        o for o in other.body.block.ops if o.results and o.results[0].type == op.operands[0].type
    )
    op.operands[0] = driver.results[0]


def undriven(circuit: ModuleOp) -> None:
    module = next(m for m in modules(circuit) if any(isinstance(o, comb.AndOp) for o in m.walk()))
    op = first_in(module, comb.AndOp)
    module.body.block.erase_op(op, safe_erase=False)


def first_in(module: hw.HWModuleOp, kind: type[Operation]) -> Operation:
    return next(op for op in module.body.block.ops if isinstance(op, kind))


def wide_sum(circuit: ModuleOp) -> None:
    retyped(first(circuit, comb.AddOp | comb.SubOp).results[0])  # pyright: ignore


def far_extract(circuit: ModuleOp) -> None:
    op = first(circuit, comb.ExtractOp)
    assert isinstance(op, comb.ExtractOp)
    op.low_bit = IntegerAttr(bit_width(op.input.type) or 0, i32)


def wide_register(circuit: ModuleOp) -> None:
    retyped(first(circuit, seq.CompRegOp).results[0])


def short_concat(circuit: ModuleOp) -> None:
    retyped(first(circuit, comb.ConcatOp).results[0], -1)


def loop(circuit: ModuleOp) -> None:
    """A handshake without its register: valid waits for itself."""
    for module in modules(circuit):
        for op in list(module.body.block.ops):
            if isinstance(op, seq.CompRegOp) and op.reset is not None:
                op.data.replace_all_uses_with(op.input)
                module.body.block.erase_op(op)


def memory_entry(name: str, value: Attribute) -> Fault:
    def change(circuit: ModuleOp) -> None:
        memory = memories(circuit)[0]
        entries = memory.attributes[MEMORY]
        assert isinstance(entries, DictionaryAttr)
        memory.attributes[MEMORY] = DictionaryAttr({**entries.data, name: value})

    return change


FAULTS: dict[str, tuple[Fault, str]] = {
    "missing module": (missing_module, "there is no module 'nowhere'"),
    "two of a name": (two_of_a_name, "another module has the same name"),
    "unknown port": (unknown_port, "inputs .*nothing.* are not those of"),
    "port twice": (port_twice, "inputs .* are not those of"),
    "wider result": (wider_result, "'out_data' of '.*' is i[0-9]+, gets i[0-9]+"),
    "wider module": (wider_module, "'in_data' of '.*' is i[0-9]+, gets i[0-9]+"),
    "keyword": (keyword_port, "Verilog does not take the name 'always'"),
    "same ports": (same_ports, "two ports are called 's_axis_tvalid'"),
    "other stream": (other_stream, "port 's_axis_tdata' is of type i1024, expected i"),
    "no top": (lost_top, "there is no module 'net'"),
    "foreign driver": (foreign_driver, "an operand is driven outside of the module"),
    "undriven": (undriven, "an operand is driven outside of the module"),
    "wide sum": (wide_sum, "comb.(add|sub).*widths do not fit"),
    "far extract": (far_extract, "comb.extract.*widths do not fit"),
    "wide register": (wide_register, "seq.compreg.*widths do not fit"),
    "short concat": (short_concat, "comb.concat.*widths do not fit"),
    "loop": (loop, "depends on itself without a register"),
    "memory depth": (memory_entry("depth", IntegerAttr(900, i64)), "not those of 900 words"),
    "memory width": (memory_entry("width", IntegerAttr(99, i64)), "not those of .* 99 bits"),
    "memory kind": (memory_entry("kind", StringAttr("rom")), "is no memory: 0 words for a rom"),
}  # fmt: skip


def check(circuit: ModuleOp) -> None:
    interface = noted_interface(circuit)
    check_structure(circuit, interface.name, interface.streams)


@pytest.fixture(scope="module")
def circuit(program: Program) -> ModuleOp:
    return hardware(program, "conv")[0]


@pytest.mark.parametrize("name", DESIGNS)
def test_circuits_are_well_formed(program: Program, name: str) -> None:
    """`emit` checks each; and xDSL has nothing to say of what is let through."""
    hardware(program, name)[0].verify()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_and_nothing_is_written(circuit: ModuleOp, name: str) -> None:
    broken = circuit.clone()
    fault, message = FAULTS[name]
    check(broken)
    fault(broken)
    with pytest.raises(VerifyError) as found:
        check(broken)
    assert re.search(message, str(found.value)), str(found.value)
    assert "circuit 'net' is not well formed" in str(found.value)
    assert name == "no top" or "module '" in str(found.value)
    with pytest.raises(VerifyError):
        VerilogTarget().emit(broken, VerilogOptions(vectors=4))


def test_a_module_in_itself_is_no_circuit(circuit: ModuleOp) -> None:
    broken = circuit.clone()
    inner = next(m for m in modules(broken) if m.sym_name.data == "net_stages")
    op = next(o for o in instances(broken) if o.instance_name.data == "stages")
    body = inner.body.block
    again = hw.InstanceOp(
        "again",
        SymbolRefAttr("net_stages"),
        [(n.data, v) for n, v in zip(op.arg_names, body.args, strict=True)],
        [(n.data, v.type) for n, v in zip(op.result_names, op.results, strict=True)],  # pyright: ignore
    )
    body.insert_op_before(again, body.first_op)  # pyright: ignore
    with pytest.raises(VerifyError, match="'net_stages': it is a part of itself"):
        check(broken)
