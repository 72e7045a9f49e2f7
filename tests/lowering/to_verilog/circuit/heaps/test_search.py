"""What is counted of ways to sum a heap is what their rows are, and these are its sum."""

import numpy as np
import pytest

from triton_dsl.dialects.fabric import row_values
from triton_dsl.lowering.to_verilog.circuit.heaps.rows import FALSE_NET, TRUE_NET, Nets
from triton_dsl.lowering.to_verilog.circuit.heaps.search import Problem, ways
from triton_dsl.lowering.to_verilog.circuit.heaps.summing import Heap, Summing, waiting


def problem_of(heap: Heap, nets: Nets, constant: int, width: int) -> Problem:
    counts = np.zeros((2, 4, width), np.int32)
    for weight, bits in heap.items():
        for literal in bits:
            counts[literal & 1, nets.levels[literal >> 1], weight] += 1
    return Problem(counts[1], counts[0], constant, width)


@pytest.mark.parametrize("seed", range(4))
def test_each_way_is_what_is_counted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    heaps: list[tuple[Heap, int, int]] = []
    nets = Nets()
    for _ in range(6):
        weights = int(rng.integers(1, 7))
        heap: Heap = {
            weight: [
                2 * nets.new(int(rng.integers(0, 4)) * seed // 3) + int(rng.random() < 0.4)
                for _ in range(int(rng.integers(0, 14)))
            ]
            for weight in range(weights)
        }
        constant = int(rng.integers(0, 99))
        most = constant + sum(len(bits) << weight for weight, bits in heap.items())
        heaps.append((heap, constant - (seed << most.bit_length()), most.bit_length()))
    given = {n: int(rng.integers(0, 2)) for n in range(1, len(nets.levels))}
    given |= {FALSE_NET: 0, TRUE_NET: 1}
    found = ways([problem_of(heap, nets, *rest) for heap, *rest in heaps], 9, seed)
    assert sum(map(len, found)) > 40
    for (heap, constant, width), options in zip(heaps, found, strict=True):
        total = constant + sum(
            (given[literal >> 1] ^ (literal & 1)) << weight
            for weight, bits in heap.items()
            for literal in bits
        )
        for way in options:
            own = Nets(list(nets.levels))
            result = Summing(own, constant, width).run(heap, way)
            assert result.sites == way.sites
            assert waiting(result.rows, result.word, way.level) == way.waiting
            assert max((level for level, _ in result.rows), default=way.level) == way.level
            values = dict(given)
            for level, row in result.rows:
                assert all(own.levels[net] < level for net in row.reads())
                word = sum(values[net] << place for place, net in enumerate(row.inputs))
                gives = row_values(row.tables, row.direct, row.linked, word, values[row.carry_in])
                values |= {net: gives >> place & 1 for net, place in row.gives()}
            bits = [values[literal >> 1] ^ (literal & 1) for literal in result.word]
            number = sum(bit << place for place, bit in enumerate(bits))
            assert number == total % (1 << width)
