"""Which look-up tables cover gates."""

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
