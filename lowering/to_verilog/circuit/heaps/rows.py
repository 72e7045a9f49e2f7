"""Rows of look-up tables before a carry chain, made of positions of few kinds.

The kinds, for fabrics of AMD's (LUT6_2 with CARRY4 or CARRY8); a *site* is one look-up table:

- `T`, one site: three bits, and one more that passes the table by. Between two of them the majority
  of the first one's bits goes on (the ternary adder).
- `A`, two sites: six bits of one weight, and at the start of a row a seventh (Preusser 2017,
  "Generic and universal parallel matrix summation with a flexible compression goal for Xilinx
  FPGAs").
- `B`, one site: two bits; `X`, the last site of a number: the parity of up to six.

A full `T` or `A` makes two bits fewer for each site, an adder of two numbers one. A literal is
twice a net, plus one where its bit is inverted. What a site does with its inputs is said by
`dialects.fabric`. Not here: which bits meet in a row (`summing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from .....dialects.fabric import INPUTS

FALSE_NET = 0
"""The net of the constant 0."""

TRUE_NET = -1
"""The net of the constant 1."""

FALSE = 0
"""The literal of the constant 0."""

TRUE = 1
"""The literal of the constant 1."""


class Row(NamedTuple):
    """A carry chain with a look-up table before each bit, as `fabric.row`.

    Attributes:
        literals: six a site, the lowest site first.
        functions, linked: of each site.
        carry_in: a net.
        sums: the net of each site's sum.
        carry: the net of the last carry; `None` where nothing reads it.
        majority: the net of the last site's second output, likewise.
    """

    literals: tuple[int, ...]
    functions: tuple[_Function, ...]
    linked: tuple[bool, ...]
    carry_in: int
    sums: tuple[int, ...]
    carry: int | None
    majority: int | None

    @property
    def sites(self) -> int:
        """The look-up tables."""
        return len(self.functions)

    @property
    def inputs(self) -> list[int]:
        """Six nets a site; the last one of a site with two functions chooses the first."""
        nets = [literal >> 1 for literal in self.literals]
        for site, function in enumerate(self.functions):
            if function.second is not None:
                nets[INPUTS * site + INPUTS - 1] = TRUE_NET
        return nets

    @property
    def direct(self) -> list[bool]:
        """Of each site, whether a bit passes its table by."""
        return [function.direct for function in self.functions]

    @property
    def tables(self) -> list[int]:
        """The 64 bits of each site's look-up table."""
        codes = [literal if literal <= TRUE else 2 + (literal & 1) for literal in self.literals]
        for site, (function, linked) in enumerate(zip(self.functions, self.linked, strict=True)):
            if linked:
                codes[INPUTS * site + (4 if function.direct else 5)] = 2
        return [
            _table(function, tuple(codes[INPUTS * site : INPUTS * (site + 1)]))
            for site, function in enumerate(self.functions)
        ]

    def reads(self) -> set[int]:
        """The nets that go in, constants not among them."""
        return {net for net in (self.carry_in, *(x >> 1 for x in self.literals)) if net > 0}

    def outputs(self) -> list[int]:
        """The nets that come out."""
        ends = [net for net in (self.carry, self.majority) if net is not None]
        return [*self.sums, *ends]

    def gives(self) -> Iterator[tuple[int, int]]:
        """The nets that come out, each with its place in the result of `fabric.row`."""
        yield from zip(self.sums, range(self.sites), strict=True)
        for place, net in enumerate((self.carry, self.majority), self.sites):
            if net is not None:
                yield net, place

    def renamed(self, new: Mapping[int, int]) -> Row:
        """The row with other nets in the place of some."""
        return self._replace(
            literals=tuple([2 * new.get(x >> 1, x >> 1) + (x & 1) for x in self.literals]),
            carry_in=new.get(self.carry_in, self.carry_in),
            sums=tuple([new.get(net, net) for net in self.sums]),
            carry=None if self.carry is None else new.get(self.carry, self.carry),
            majority=None if self.majority is None else new.get(self.majority, self.majority),
        )


@dataclass
class Nets:
    """Numbers for nets, and the level of the row that gives each: 0 for those that are given."""

    levels: list[int] = field(default_factory=lambda: [0])

    def new(self, level: int) -> int:
        """Another net."""
        return self.several(1, level)[0]

    def several(self, count: int, level: int) -> range:
        """So many others."""
        first = len(self.levels)
        self.levels += [level] * count
        return range(first, first + count)

    def level(self, literals: Sequence[int]) -> int:
        """The latest of them."""
        return max((self.levels[literal >> 1] for literal in literals), default=0)


class RowWriter:
    """A row, position by position.

    Args:
        nets: where its outputs are numbered.
        level: of the row.
    """

    def __init__(self, nets: Nets, level: int) -> None:
        self.nets = nets
        self.level = level
        self.literals: list[int] = []
        self.functions: list[_Function] = []
        self.linked: list[bool] = []
        self.carry_in = FALSE_NET
        self.has_majority = False

    def __len__(self) -> int:
        return len(self.functions)

    def ternary(self, bits: Sequence[int], extra: int | None = None) -> None:
        """A `T` of up to three bits; a majority from before is the fourth, or `extra` as it is."""
        assert len(bits) <= 3 and not (self.has_majority and extra)
        self._site(_TERNARY, (*bits, *(FALSE,) * (4 - len(bits)), extra or FALSE))
        self.has_majority = True

    def atom(self, bits: Sequence[int], extra: int | None = None) -> None:
        """An `A` of five bits and `extra`, in whose place a majority from before comes."""
        assert len(bits) == 5 and self.has_majority != (extra is not None)
        self._site(_PARITY, [*bits, extra or FALSE])
        self.has_majority = False
        self._site(_COUNT, bits)

    def binary(self, bits: Sequence[int]) -> None:
        """A `B` of up to two bits, a majority from before among them."""
        assert len(bits) + self.has_majority <= 2
        self._site(_PARITY if self.has_majority else _PAIR, bits)
        self.has_majority = False

    def last(self, bits: Sequence[int]) -> None:
        """An `X`: the parity of up to six bits, a majority from before among them."""
        assert len(bits) + self.has_majority <= INPUTS
        self._site(_PARITY, bits)
        self.has_majority = False

    def shared(self, nets: Sequence[int], functions: Sequence[tuple[int, ...]]) -> None:
        """One site of two functions of three nets, without a carry.

        A function is the majority of the nets, of which those are inverted that have a 1; or their
        parity, which is empty.
        """
        first, *second = (_of_three(signs) for signs in functions)
        self._site(_Function(first, second[0] if second else first), [2 * net for net in nets])
        self.has_majority = True

    def _site(self, function: _Function, pins: Sequence[int]) -> None:
        """A site with literals at its inputs, or constants; missing ones are 0."""
        self.literals += (*pins, *(FALSE,) * (INPUTS - len(pins)))
        self.functions.append(function)
        self.linked.append(self.has_majority)

    def finished(self, *, carry: bool, majority: bool = True) -> Row:
        """The row; whether its last carry is wanted, and the majority of a last `T`."""
        sites, majority = len(self.functions), majority and self.has_majority
        sums = self.nets.several(sites + carry + majority, self.level)
        return Row(
            tuple(self.literals),
            tuple(self.functions),
            tuple(self.linked),
            self.carry_in,
            tuple(sums[:sites]),
            sums[sites] if carry else None,
            sums[-1] if majority else None,
        )


@dataclass(frozen=True)
class _Function:
    """What a look-up table computes of six bits; with a second function, of the first five.

    With `direct`, the fifth input goes on by the carry chain.
    """

    first: Callable[[Sequence[int]], int]
    second: Callable[[Sequence[int]], int] | None = None
    direct: bool = False


@cache
def _of_three(inverted: tuple[int, ...]) -> Callable[[Sequence[int]], int]:
    if not inverted:
        return lambda v: sum(v[:3]) & 1
    return lambda v: sum(v[i] ^ inverted[i] for i in range(3)) >> 1


_TERNARY = _Function(lambda v: (sum(v[:3]) + v[4]) & 1, lambda v: sum(v[:3]) >> 1, direct=True)
_PARITY = _Function(lambda v: sum(v) & 1)
_COUNT = _Function(lambda v: sum(v[:5]) >> 1 & 1, lambda v: sum(v[:5]) >> 2)
_PAIR = _Function(lambda v: (v[0] + v[1]) & 1, lambda v: v[0])


@cache
def _table(function: _Function, codes: tuple[int, ...]) -> int:
    """The 64 bits of a function of inputs that are 0, 1, as they are (2) or inverted (3).

    A second function is chosen by a sixth input of 0.
    """
    table = 0
    for place in range(1 << INPUTS):
        values = [code & 1 if code < 2 else (place >> i ^ code) & 1 for i, code in enumerate(codes)]
        chosen = function.first
        if function.second is not None and not place >> 5:
            chosen = function.second
        table |= chosen(values) << place
    return table
