"""Sizes of small circuits that can be counted by hand."""

from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import LoweringError, OptionError, UnsupportedError
from triton_dsl.lowering.to_verilog.estimate.devices import DEVICES, check_fits, find_device, needs
from triton_dsl.lowering.to_verilog.estimate.estimate import Resources, estimate
from triton_dsl.lowering.to_verilog.estimate.families import FAMILIES, delay


def circuit(body: str, ports: str, results: str) -> ModuleOp:
    outs = ", ".join(f"out y{i}: {type}" for i, type in enumerate(results.split(", ")))
    names = ", ".join(f"%y{i}" for i in range(len(results.split(", "))))
    return parse_module(f"""builtin.module {{
  hw.module @m(in %clock: !seq.clock, in %enable: i1, in %reset: i1, {ports}, {outs}) {{
    {body}
    hw.output {names} : {results}
  }}
}}""")


def register(name: str, value: str, width: int) -> str:
    return (
        f"%{name}_next = comb.mux %enable, {value}, %{name} : i{width}\n"
        f"%{name} = seq.compreg %{name}_next, %clock : i{width}\n"
    )


def test_an_adder_takes_a_table_a_bit() -> None:
    body = "%s = comb.add %a, %b : i8\n" + register("y0", "%s", 8)
    size = estimate(circuit(body, "in %a: i8, in %b: i8", "i8")).total
    assert size == Resources(luts=8, flip_flops=8, carry_bits=8, carries=1)
    size = estimate(circuit(body, "in %a: i8, in %b: i8", "i8"), "7-series").total
    assert size.carries == 2
    size = estimate(circuit(body, "in %a: i8, in %b: i8", "i8"), "ecp5").total
    assert size == Resources(luts=8, flip_flops=8, carry_bits=8, carries=4)


@pytest.mark.parametrize("order", ["%m, %w", "%w, %m"])
def test_the_narrower_number_of_a_sum_goes_into_the_chain(order: str) -> None:
    # Yosys 0.23 takes a table a bit in either order, eight: the selection is in no other one.
    body = (
        "%m = comb.mux %reset, %a, %b : i8\n%z = hw.constant 0 : i5\n"
        f"%w = comb.concat %z, %c : i5, i3\n%y0 = comb.add {order} : i8"
    )
    size = estimate(circuit(body, "in %a: i8, in %b: i8, in %c: i3", "i8")).total
    assert size == Resources(luts=8, carry_bits=8, carries=1)


@pytest.mark.parametrize("chosen", ["%t, %z", "%z, %t"])
def test_a_reset_that_waits_for_the_enable_is_made_for_each_register(chosen: str) -> None:
    # Yosys 0.23 takes six LUT2 and nineteen FDRE, of twelve bits that wait for `enable`.
    masked = (
        "%z = hw.constant 0 : i6\n"
        "%inside = seq.compreg %a, %clock : i1\n%t = seq.compreg %x, %clock : i6\n"
        f"%n = comb.mux %inside, {chosen} : i6\n%d = comb.concat %x, %n : i6, i6\n"
    )
    body = masked + register("y0", "%d", 12)
    size = estimate(circuit(body, "in %a: i1, in %x: i6", "i12")).total
    assert (size.luts, size.flip_flops) == (6, 19)


@pytest.mark.parametrize(("bits", "luts"), [(1, 6), (3, 18)])
def test_a_reset_for_each_register_takes_what_it_waits_for_into_its_table(
    bits: int, luts: int
) -> None:
    # Digits of two bits of six numbers. Yosys 0.23 takes six LUT4 of numbers of one bit; of three
    # bits twelve LUT3 and six LUT4.
    lines = ["%z = hw.constant 0 : i1\n%f = seq.compreg %fold, %clock : i3\n"]
    lines += [f"%f{k} = comb.extract %f from {k} : (i3) -> i1\n" for k in range(3)]
    lines.append(f"%b = seq.compreg %a, %clock : i{6 * bits}\n")
    for i in range(6):
        for k in range(bits):
            lines.append(f"%b{i}_{k} = comb.extract %b from {i * bits + k} : (i{6 * bits}) -> i1\n")
        word = [f"%b{i}_{k}" if k < bits else "%z" for k in range(6)]
        for name, k in (("low", 0), ("middle", 2), ("high", 4)):
            lines.append(f"%{name}{i} = comb.concat {word[k + 1]}, {word[k]} : i1, i1\n")
        lines.append(f"%p{i} = comb.mux %f0, %middle{i}, %low{i} : i2\n")
        lines.append(f"%q{i} = comb.mux %f1, %high{i}, %p{i} : i2\n")
        lines.append(f"%r{i} = comb.mux %f2, %high{i}, %q{i} : i2\n")
        lines.append(register(f"y{i}", f"%r{i}", 2))
    module = circuit("".join(lines), f"in %fold: i3, in %a: i{6 * bits}", ", ".join(["i2"] * 6))
    assert estimate(module).total.luts == luts


@pytest.mark.parametrize(
    ("length", "luts", "flip_flops"),
    [(1, 0, 1), (2, 0, 2), (3, 1, 0), (16, 1, 0), (17, 1, 1), (32, 1, 0), (33, 1, 1), (40, 2, 0)],
)
def test_registers_in_a_row_become_shift_registers(length: int, luts: int, flip_flops: int) -> None:
    lines = [register("r0" if length > 1 else "y0", "%a", 1)]
    for i in range(1, length):
        lines.append(register("y0" if i == length - 1 else f"r{i}", f"%r{i - 1}", 1))
    module = circuit("".join(lines), "in %a: i1", "i1")
    size = estimate(module).total
    assert (size.luts, size.shift_luts, size.flip_flops) == (luts, luts, flip_flops)
    assert estimate(module, "ecp5").total.flip_flops == length


def test_a_row_is_broken_where_somebody_reads() -> None:
    rows = [register("r0", "%a", 1), register("r1", "%r0", 1), register("y1", "%r1", 1)]
    rows += [register("r2", "%y1", 1), register("y0", "%r2", 1)]
    size = estimate(circuit("".join(rows), "in %a: i1", "i1, i1")).total
    assert (size.shift_luts, size.flip_flops) == (1, 2)


MASKED = "%0 = hw.constant 0 : i8\n%masked = comb.mux %s, %0, %a : i8\n"


def test_a_selection_of_a_constant_that_two_registers_read_is_no_reset() -> None:
    # Yosys 0.23: 8 LUT2, 16 FDRE.
    body = MASKED + register("y0", "%masked", 8) + "%y1 = seq.compreg %masked, %clock : i8\n"
    size = estimate(circuit(body, "in %a: i8, in %s: i1", "i8, i8")).total
    assert (size.luts, size.flip_flops) == (8, 16)


def test_an_enable_stays_a_selection_where_something_else_reads_what_is_selected() -> None:
    # A buffer of two beats; Yosys 0.23: 8 LUT4, 16 FDRE.
    body = (
        MASKED
        + "%first = comb.mux %room, %masked, %second : i8\n"
        + register("y0", "%first", 8)
        + "%held = comb.mux %room, %masked, %second : i8\n"
        + "%second = seq.compreg %held, %clock : i8\n"
    )
    size = estimate(circuit(body, "in %a: i8, in %s: i1, in %room: i1", "i8")).total
    assert (size.luts, size.flip_flops) == (8, 16)


CLEARED = "%0 = hw.constant 0 : i8\n%n = comb.mux %s, %0, %a : i8\n"

CONTROLLED = """%0 = hw.constant 0 : i1
%1 = hw.constant 1 : i1
%inverted = comb.xor %reset, %1 : i1
%both = comb.and %enable, %s : i1
%d = comb.xor {inputs} : i1
%n = comb.mux {enable}, %d, %y0 : i1
%y0 = seq.compreg %n, %clock{reset} : i1"""


@pytest.mark.parametrize(
    ("body", "type", "luts"),
    [
        (CLEARED + "%y0 = seq.compreg %n, %clock : i8", "i8", 0),
        (CLEARED + "%y0 = seq.compreg %n, %clock reset %reset, %0 : i8", "i8", 1),
        (
            CONTROLLED.format(inputs="%b, %c", enable="%enable", reset=" reset %inverted, %0"),
            "i1",
            1,
        ),
        (
            CONTROLLED.format(
                inputs="%b, %c, %e, %f", enable="%enable", reset=" reset %inverted, %0"
            ),
            "i1",
            2,
        ),
        (CONTROLLED.format(inputs="%b, %c", enable="%both", reset=""), "i1", 1),
        (CONTROLLED.format(inputs="%b, %c, %e, %f", enable="%both", reset=""), "i1", 2),
    ],
    ids=["a reset", "two resets", "reset in table", "own reset", "enable in table", "own enable"],
)
def test_resets_and_enables_take_the_tables_that_yosys_gives_them(
    body: str, type: str, luts: int
) -> None:
    # As many as Yosys 0.23 takes.
    ports = "in %a: i8, in %b: i1, in %c: i1, in %e: i1, in %f: i1, in %s: i1"
    size = estimate(circuit(body, ports, type)).total
    assert (size.luts, size.flip_flops) == (luts, 8 if type == "i8" else 1)


@pytest.mark.parametrize(
    ("width", "predicate", "constant", "luts", "carries"),
    [
        (8, "sge", 60, 12, 7),
        (8, "sle", -29, 10, 5),
        (12, "sge", -612, 17, 11),
        (12, "sge", 929, 16, 10),
        (12, "sle", 42, 17, 11),
        (14, "sge", 1313, 19, 12),
    ],
)
def test_comparisons_with_constants_take_what_yosys_leaves_of_a_chain(
    width: int, predicate: str, constant: int, luts: int, carries: int
) -> None:
    # As many as `synth_ice40` of Yosys 0.23 takes, whose `ice40_opt` leaves out a carry that two
    # constants decide.
    body = f"""%c = hw.constant {constant} : i{width}
%n = comb.icmp {predicate} %a, %c : i{width}
%y0 = seq.compreg %n, %clock : i1"""
    size = estimate(circuit(body, f"in %a: i{width}", "i1"), "ice40-hx").total
    assert (size.luts, size.carries) == (luts, carries)


def test_ecp5_takes_what_yosys_gives_it() -> None:
    # As many as `synth_ecp5 -nowidelut` of Yosys 0.23 takes: a function of seven inputs is two
    # tables, and narrow comparisons have no carry chain.
    names = [f"%x{i}" for i in range(7)]
    body, ports = f"%y0 = comb.and {', '.join(names)} : i1", [f"in {name}: i1" for name in names]
    assert estimate(circuit(body, ", ".join(ports), "i1"), "ecp5").total == Resources(luts=2)
    body = "%y0 = comb.icmp uge %a, %b : i4"
    assert estimate(circuit(body, "in %a: i4, in %b: i4", "i1"), "ecp5").total.carries == 0


RESET = """%1 = hw.constant 1 : i1
%0 = hw.constant 0 : i8
%inverted = comb.xor %reset, %1 : i1
%next = comb.mux %enable, %a, %y0 : i8
%y0 = seq.compreg %next, %clock reset %inverted, %0 : i8"""

MASKED_SUM = """%sum = comb.add %a, %b : i8
%mask = comb.replicate %s : (i1) -> i8
%n = comb.and %sum, %mask : i8
%y0 = seq.compreg %n, %clock : i8"""


LARGER = """%c = comb.icmp uge %a, %b : i8
%m = comb.mux %c, %a, %b : i8
%y0 = seq.compreg %m, %clock : i8"""


@pytest.mark.parametrize(
    ("body", "luts"),
    [(RESET, 2), (MASKED_SUM, 8), (LARGER, 16)],
    ids=["one inverter and an enable", "masks in tables of sums", "equality that chooses nothing"],
)
def test_ice40_shares_tables_as_yosys_does(body: str, luts: int) -> None:
    # As many as `synth_ice40` of Yosys 0.23 takes.
    size = estimate(circuit(body, "in %a: i8, in %b: i8, in %s: i1", "i8"), "ice40-hx").total
    assert (size.luts, size.flip_flops) == (luts, 8)


@pytest.mark.parametrize(("ways", "luts"), [(4, 2), (8, 5), (16, 11)])
def test_selections_of_tables_of_four_inputs_are_those_of_yosys(ways: int, luts: int) -> None:
    # As many as `synth_ice40` of Yosys 0.23 takes.
    bits = (ways - 1).bit_length()
    lines = [f"%s{i} = comb.extract %s from {i} : (i{bits}) -> i1" for i in range(bits)]
    lines += [f"%x0_{i} = comb.extract %a from {i} : (i{ways}) -> i1" for i in range(ways)]
    for i in range(bits):
        lines += [
            f"%x{i + 1}_{j} = comb.mux %s{i}, %x{i}_{2 * j + 1}, %x{i}_{2 * j} : i1"
            for j in range(ways >> i + 1)
        ]
    body = "\n".join(lines).replace(f"%x{bits}_0", "%y0")
    found = estimate(circuit(body, f"in %a: i{ways}, in %s: i{bits}", "i1"), "ice40-hx")
    assert found.total.luts == luts


def test_equal_parts_and_dead_ones_cost_nothing() -> None:
    body = """%s = comb.and %a, %b : i8
%t = comb.and %b, %a : i8
%dead = comb.sub %a, %b : i8
%unread = seq.compreg %dead, %clock : i8
%y0 = comb.xor %s, %t, %a : i8
%y1 = comb.and %a, %b : i8"""
    size = estimate(circuit(body, "in %a: i8, in %b: i8", "i8, i8")).total
    assert size == Resources(luts=8)


def test_constants_shorten_adders() -> None:
    body = """%0 = hw.constant 0 : i3
%wide = comb.concat %b, %0 : i5, i3
%y0 = comb.add %a, %wide : i8"""
    size = estimate(circuit(body, "in %a: i8, in %b: i5", "i8")).total
    assert (size.luts, size.carry_bits) == (5, 5)


@pytest.mark.parametrize(
    ("op", "inputs", "luts"),
    [("and", 2, 1), ("and", 5, 1), ("and", 6, 1), ("and", 7, 1), ("xor", 7, 2), ("xor", 8, 4)],
)
def test_functions_of_many_bits_take_multiplexers(op: str, inputs: int, luts: int) -> None:
    # As Yosys 0.23 makes them: half of what seven bits AND is a constant.
    names = [f"%x{i}" for i in range(inputs)]
    body = f"%y0 = comb.{op} {', '.join(names)} : i1"
    ports = ", ".join(f"in {name}: i1" for name in names)
    assert estimate(circuit(body, ports, "i1")).total.luts == luts


def test_a_loop_through_a_register_is_found() -> None:
    body = "%1 = hw.constant 1 : i4\n%n = comb.add %y0, %1 : i4\n" + register("y0", "%n", 4)
    assert estimate(circuit(body, "in %a: i1", "i4")).total.flip_flops == 4


def test_a_loop_through_a_module_without_registers_counts_what_is_in_it() -> None:
    module = parse_module("""builtin.module {
  hw.module @inside(in %a: i8, in %b: i8, out y: i8) {
    %y = comb.xor %a, %b : i8
    hw.output %y : i8
  }
  hw.module @m(in %clock: !seq.clock, in %a: i8, out y: i8) {
    %n = hw.instance "i" @inside(a: %y: i8, b: %a: i8) -> (y: i8)
    %y = seq.compreg %n, %clock : i8
    hw.output %y : i8
  }
}""")
    assert estimate(module).total == Resources(luts=8, flip_flops=8)


def test_a_selection_that_says_twice_what_a_bit_is_takes_nothing() -> None:
    # Nothing is left where `%b` is 1 in one selection and 0 in the other.
    body = "%t = comb.mux %a, %b, %a : i1\n%0 = hw.constant 0 : i1\n%y0 = comb.mux %b, %0, %t : i1"
    assert estimate(circuit(body, "in %a: i1, in %b: i1", "i1")).total == Resources()


def test_a_loop_without_a_register_is_refused() -> None:
    body = "%y0 = comb.and %a, %n : i1\n%n = comb.or %a, %y0 : i1"
    with pytest.raises(LoweringError, match="depends on itself without a register"):
        estimate(circuit(body, "in %a: i1", "i1"))


def test_what_is_not_known_is_named() -> None:
    body = "%y0 = comb.divu %a, %b : i8"
    with pytest.raises(UnsupportedError, match=r"comb\.divu"):
        estimate(circuit(body, "in %a: i8, in %b: i8", "i8"))
    with pytest.raises(LoweringError, match=r"no hw\.module to"):
        estimate(parse_module("builtin.module {}"))
    with pytest.raises(OptionError, match="no delays are known for 'max10'"):
        estimate(parse_module("builtin.module {}"), "max10")


def test_delays_grow_with_the_width() -> None:
    for grade in FAMILIES:
        times = [delay(grade, "add", width) for width in (1, 4, 8, 16, 32)]
        assert times == sorted(times)
        assert delay(grade, "logic", 20) > delay(grade, "logic", 4) > 0
        assert delay(grade, "mux") > 0
    with pytest.raises(OptionError, match="no delays are known"):
        delay("max10", "add")


def test_the_clock_follows_the_longest_path() -> None:
    ports = "in %a: i16, in %b: i16, in %c: i16"
    one = "%s = comb.add %a, %b : i16\n" + register("y0", "%s", 16)
    two = "%s = comb.add %a, %b : i16\n%t = comb.add %s, %c : i16\n" + register("y0", "%t", 16)
    for grade in ("ultrascale+", "7-series", "ecp5", "ice40-hx"):
        short, long = (estimate(circuit(body, ports, "i16"), grade) for body in (one, two))
        assert 0 < short.period < long.period < 2 * short.period + 1
        assert long.frequency == pytest.approx(1e3 / long.period)


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("xcvu9p", "xcvu9p"),
        ("XCVU9P-flga2104-2L-e", "xcvu9p"),
        ("xc7a35ticsg324-1L", "xc7a35t"),
        ("LFE5U-25F-8BG381C", "ecp5-25"),
        ("hx8k", "ice40-hx8k"),
        ("iCE40UP5K", "ice40-up5k"),
    ],
)
def test_devices_by_name(name: str, device: str) -> None:
    assert find_device(name).name == device


@pytest.mark.parametrize(
    ("name", "part", "flags"),
    [
        ("xcvu9p", "xcvu9p-flga2104-2-e", ""),
        ("xcvu9p-flga2577-1-i", "xcvu9p-flga2577-1-i", ""),
        ("XCVU9P-FLGA2104-2L-E", "xcvu9p-flga2104-2L-e", ""),
        ("xck26-sfvc784-2LV-i", "xck26-sfvc784-2LV-i", ""),
        ("xcu250", "xcu250-figd2104-2L-e", ""),
        ("xc7z010clg225-2", "xc7z010clg225-2", ""),
        ("xc7a35ticsg324-1L", "xc7a35ticsg324-1L", ""),
        ("xc7k325tffg900", "xc7k325tffg900-2", ""),
        ("lfe5u-45f", "LFE5U-45F-6BG381C", "--45k --package CABGA381 --speed 6"),
        ("LFE5U-85F-8MG285I", "LFE5U-85F-8MG285I", "--85k --package CSFBGA285 --speed 8"),
        ("ice40hx8k-cb132", "iCE40HX8K-CB132", "--hx8k --package cb132"),
        ("up5k", "iCE40UP5K-SG48", "--up5k --package sg48"),
    ],
)
def test_packages_and_grades_are_those_that_are_asked_for(name: str, part: str, flags: str) -> None:
    device = find_device(name)
    assert (device.part, " ".join(device.flags)) == (part, flags)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("xcvu9p-flga2576-1-i", r"'flga25761i' is no package .* comes in flga2104, flga2577"),
        ("xcvu9p-flga2577-4-i", "is no package and grade of xcvu9p"),
        ("xc7z010clg484-1", "comes in clg225, clg400"),
        ("LFE5U-25F-6BG756C", "is no package and grade of ecp5-25"),
        ("ecp5-2500", "is no package and grade of ecp5-25"),
    ],
)
def test_packages_that_there_are_not_are_refused(name: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        find_device(name)


def test_every_device_has_its_source_and_package() -> None:
    for device in DEVICES:
        assert device.source
        assert find_device(device.part) == device == find_device(device.name)


def test_unknown_devices_are_refused() -> None:
    with pytest.raises(OptionError, match=r"unknown device 'xczu3e'.*did you mean 'xczu3eg'"):
        find_device("xczu3e")
    with pytest.raises(OptionError, match="there are xcvu9p"):
        find_device("stratix")


def test_what_does_not_fit_is_told_with_numbers() -> None:
    body = "%y0 = comb.add %a, %b : i6000"
    module = circuit(body, "in %a: i6000, in %b: i6000", "i6000")
    device = find_device("up5k")
    found = estimate(module, device.grade)
    with pytest.raises(LoweringError) as error:
        check_fits(found, device, "circuit 'm'", lambda: "take fewer bits")
    assert f"logic cells: needs {found.total.cells:,}, has 5,280" in str(error.value)
    assert "flip-flops" not in str(error.value)
    assert str(error.value).endswith("take fewer bits")
    check_fits(found, find_device("ecp5-85"), "circuit 'm'")


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_empty_circuits_fit_everywhere(device: Any) -> None:
    assert all(need.fits for need in needs(Resources(), device))
    assert device.memory_kbits > 0


def test_the_page_lists_every_device() -> None:
    page = Path(__file__).parents[4] / "docs/targets/verilog.md"
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
    for device in DEVICES:
        (row,) = [row for row in rows if row.startswith(f"| `{device.name}` |")]
        cells = [cell.strip().split()[0].replace(",", "") for cell in row.split("|")[3:7]]
        numbers = (device.luts, device.flip_flops, device.memory_kbits, device.dsps)
        assert cells == [str(number) for number in numbers]
