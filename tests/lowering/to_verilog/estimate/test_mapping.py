"""Which look-up tables cover gates."""

import pytest

from triton_dsl.dialects.registry import parse_module
from triton_dsl.lowering.to_verilog.estimate.estimate import estimate
from triton_dsl.lowering.to_verilog.estimate.families import family_of
from triton_dsl.lowering.to_verilog.estimate.mapping import cover
from triton_dsl.lowering.to_verilog.estimate.netlist import Netlist


def test_paths_end_at_tables_that_stay_as_they_are() -> None:
    net = Netlist()
    # Logic before a table of a ROM, and two bits of a sum: abc sees one level, and takes no table
    # for the carry between, though three tables of three inputs would be cheaper.
    address = [net.both(*net.leaves(2)) for _ in range(3)]
    word = net.table(address)
    carry = net.leaf()
    sums: list[int] = []
    for _ in range(2):
        x, y = net.leaves(2)
        half = net.differ(x, y)
        sums.append(net.differ(half, carry))
        carry = net.either(net.both(x, y), net.both(half, carry))
    roots = [literal >> 1 for literal in (word, *sums, carry)]
    tables, _ = cover(net, roots, family_of("ultrascale+"))
    assert sorted(map(len, tables.values())) == [2, 2, 2, 3, 3, 5, 5]


def test_tables_that_are_there_are_taken_again() -> None:
    # Two bits of a sum in logic: two tables each, as `synth_ecp5 -nowidelut` of Yosys 0.23 has.
    net = Netlist()
    carry, roots = net.leaf(), list[int]()
    for _ in range(2):
        x, y = net.leaves(2)
        half = net.differ(x, y)
        roots.append(net.differ(half, carry) >> 1)
        carry = net.choose(half, carry, x)
    tables, _ = cover(net, [*roots, carry >> 1], family_of("ecp5"))
    assert len(tables) == 4


@pytest.mark.parametrize(("ways", "luts"), [(2, 1), (4, 2), (8, 5)])
def test_a_selection_from_four_takes_two_tables_of_four_inputs(ways: int, luts: int) -> None:
    # As many as Yosys' own tests want of iCE40 (tests/arch/ice40/mux.ys).
    places = ways.bit_length() - 1
    lines = [f"%v{i} = comb.extract %x from {i} : (i{ways}) -> i1" for i in range(ways)]
    lines += [f"%s{i} = comb.extract %s from {i} : (i{places}) -> i1" for i in range(places)]
    names = [f"%v{i}" for i in range(ways)]
    for place in range(places):
        pairs = list(zip(names[::2], names[1::2], strict=True))
        names = [f"%m{place}_{i}" for i in range(len(pairs))]
        lines += [
            f"{name} = comb.mux %s{place}, {high}, {low} : i1"
            for name, (low, high) in zip(names, pairs, strict=True)
        ]
    body = "\n".join(lines)
    module = parse_module(f"""builtin.module {{
  hw.module @m(in %x: i{ways}, in %s: i{places}, out y: i1) {{
    {body}
    hw.output {names[0]} : i1
  }}
}}""")
    assert estimate(module, "ice40-hx").total.luts == luts
