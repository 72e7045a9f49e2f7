"""Gates compute what the ops of `comb` mean, on Python's integers, for every family."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.hw import HWModuleOp

from triton_dsl.dialects.registry import parse_module
from triton_dsl.lowering.to_verilog.estimate.elaborate import elaborate
from triton_dsl.lowering.to_verilog.estimate.families import FAMILIES, Family
from triton_dsl.lowering.to_verilog.estimate.netlist import AND, LEAF, XOR, Chain, Netlist

WIDTH = 7


def signed(x: int) -> int:
    return x - (1 << WIDTH) if x >> (WIDTH - 1) else x


PREDICATES: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: signed(a) < signed(b),
    "sle": lambda a, b: signed(a) <= signed(b),
    "sgt": lambda a, b: signed(a) > signed(b),
    "sge": lambda a, b: signed(a) >= signed(b),
    "ult": lambda a, b: a < b,
    "ule": lambda a, b: a <= b,
    "ugt": lambda a, b: a > b,
    "uge": lambda a, b: a >= b,
}

BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def evaluate(netlist: Netlist, family: Family, inputs: dict[int, int]) -> int:
    """The outputs as a number, by the meaning of gates and carry chains."""
    given = {n: chain for chain in netlist.chains for n in (*chain.outputs, chain.top) if n >= 0}
    values = {0: 0} | inputs

    def bit(literal: int) -> int:
        node = literal >> 1
        if node not in values:
            if netlist.kinds[node] == LEAF:
                carried(given[node])
            else:
                x = [bit(i) for i in netlist.inputs[node]]
                kind = netlist.kinds[node]
                values[node] = (
                    x[0] & x[1] if kind == AND else x[0] ^ x[1] if kind == XOR
                    else x[1] if x[0] else x[2]
                )  # fmt: skip
        return values[node] ^ literal & 1

    def carried(chain: Chain) -> None:
        carry = bit(chain.carry)
        for first, second, output in zip(chain.first, chain.second, chain.outputs, strict=True):
            a, b = bit(first), bit(second)
            goes_on = a ^ b if family.own_adder else a
            if output >= 0:
                values[output] = goes_on ^ carry
            carry = carry if goes_on else b
        if chain.top >= 0:
            values[chain.top] = carry

    return sum(bit(literal) << i for i, literal in enumerate(netlist.outputs))


def computed(text: str, family: Family, a: int, b: int) -> int:
    module = parse_module(text)
    (top,) = module.ops
    assert isinstance(top, HWModuleOp)
    netlist, _ = elaborate(module, top, family)
    netlist.remove_dead()
    # The inputs are the first nodes behind the constant.
    bits = [(value >> i) & 1 for value in (a, b) for i in range(WIDTH)]
    return evaluate(netlist, family, {i + 1: bit for i, bit in enumerate(bits)})


def program(body: str, width: int) -> str:
    return f"""builtin.module {{
  hw.module @m(in %a: i{WIDTH}, in %b: i{WIDTH}, out y: i{width}) {{
    {body}
    hw.output %y : i{width}
  }}
}}"""


numbers = st.integers(0, (1 << WIDTH) - 1)


@settings(max_examples=60)
@given(
    name=st.sampled_from(sorted(BINARY)),
    family=st.sampled_from(sorted(FAMILIES)),
    a=numbers,
    b=numbers,
    known=st.booleans(),
)
def test_arithmetic(name: str, family: Any, a: int, b: int, known: bool) -> None:
    second = f"%c = hw.constant {b} : i{WIDTH}" if known else ""
    types = f" : i{WIDTH}"
    text = program(f"{second}\n%y = comb.{name} %a, {'%c' if known else '%b'}{types}", WIDTH)
    assert computed(text, FAMILIES[family], a, b) == BINARY[name](a, b) % (1 << WIDTH)


@settings(max_examples=80)
@given(
    predicate=st.sampled_from(sorted(PREDICATES)),
    family=st.sampled_from(sorted(FAMILIES)),
    a=numbers,
    b=numbers,
    known=st.booleans(),
)
def test_comparisons(predicate: str, family: Any, a: int, b: int, known: bool) -> None:
    second = f"%c = hw.constant {b} : i{WIDTH}" if known else ""
    other = "%c" if known else "%b"
    body = f"""{second}
%p = comb.icmp {predicate} %a, {other} : i{WIDTH}
%chosen = comb.mux %p, %a, {other} : i{WIDTH}
%y = comb.concat %p, %chosen : i1, i{WIDTH}"""
    holds = PREDICATES[predicate](a, b)
    wanted = (holds << WIDTH) + (a if holds else b)
    assert computed(program(body, WIDTH + 1), FAMILIES[family], a, b) == wanted


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_cut_sums(family: Any, width: int) -> None:
    """Dead top bits of a sum shorten its chain."""
    body = f"%s = comb.add %a, %b : i{WIDTH}\n%y = comb.extract %s from 0 : (i{WIDTH}) -> i{width}"
    for a, b in [(0, 0), (127, 1), (85, 42), (99, 77)]:
        found = computed(program(body, width), FAMILIES[family], a, b)
        assert found == (a + b) % (1 << width)
