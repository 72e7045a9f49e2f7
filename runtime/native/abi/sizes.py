"""Sizes of a compiled program: polynomials in its free sizes, and in quotients, minima and maxima.

Not here: sizes as values of generated code (`lowering.to_native.program.writer`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

_BEYOND = 1 << 62
"""Numbers from here on mean "to the end"."""
_NAMES = ("batch",)
_MOST_EXTREMES = 4
"""Minima and maxima in a sum of which all cases are looked at."""


@dataclass(frozen=True)
class Quotient:
    """⌊numerator / divisor⌋, where the numerator has no negative coefficient."""

    numerator: Size
    divisor: int


@dataclass(frozen=True)
class Extreme:
    """The larger or the smaller of two sizes, which is not negative."""

    larger: bool
    sizes: tuple[Size, Size]


Symbol = int | Quotient | Extreme
"""What is not known before a program runs, and is not negative: a free size, by its number, or what
is computed of them."""

Monomial = tuple[Symbol, ...]
"""A product of symbols, in order; of none it is 1."""


@dataclass(frozen=True)
class Size:
    """A sum of products of symbols, each with a factor; no free size is negative.

    Attributes:
        terms: products and their factors, in order, none of which is 0.
    """

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(*coefficients: int) -> Size:
        """A polynomial in the first free size, the constant first."""
        return _sum({(0,) * power: c for power, c in enumerate(coefficients)})

    @staticmethod
    def free(number: int) -> Size:
        """The free size of that number."""
        return Size((((number,), 1),))

    @property
    def number(self) -> int | None:
        """The size if it does not depend on a free one."""
        if not self.terms:
            return 0
        return self.terms[0][1] if self.terms[0][0] == () else None

    @property
    def bare(self) -> int | None:
        """The number of the free size that this is, if it is one."""
        match self.terms:
            case (((int(number),), 1),):
                return number
            case _:
                return None

    @property
    def depends(self) -> Sequence[int]:
        """The free sizes that it depends on."""
        found: dict[int, None] = {}
        for symbol in (symbol for monomial, _ in self.terms for symbol in monomial):
            match symbol:
                case int():
                    found[symbol] = None
                case Quotient():
                    found |= dict.fromkeys(symbol.numerator.depends)
                case Extreme():
                    found |= dict.fromkeys(n for size in symbol.sizes for n in size.depends)
        return sorted(found)

    @property
    def natural(self) -> bool:
        """Whether it is seen to be not negative: it has no negative factor, or that follows from
        what minima and maxima are."""
        if all(c > 0 for _, c in self.terms):
            return True
        extremes = [term for term in self.terms if _of_extreme(term[0]) is not None]
        return len(extremes) <= _MOST_EXTREMES and any(self._natural_by(*term) for term in extremes)

    def _natural_by(self, monomial: Monomial, factor: int) -> bool:
        """Whether it is seen to be not negative by what a minimum or maximum in it may be."""
        extreme = _of_extreme(monomial)
        if extreme is None:
            return False
        rest = Size(tuple(term for term in self.terms if term[0] != monomial))
        cases = ((rest + size * Size.of(factor)).natural for size in extreme.sizes)
        # It is one of both, and not beyond either.
        return any(cases) if extreme.larger == (factor > 0) else all(cases)

    def raised(self, ones: Container[int]) -> Size:
        """The size with 1 added to these free sizes."""
        total = ZERO
        for monomial, c in self.terms:
            total = total + product(_raised(symbol, ones) for symbol in monomial) * Size.of(c)
        return total

    def coefficient(self, monomial: Monomial) -> int:
        """The factor of a product of symbols."""
        return next((c for known, c in self.terms if known == monomial), 0)

    def at(self, *free: int) -> int:
        """The size for free sizes; the last one given is that of all behind it too."""
        return sum(c * prod(_value(symbol, free) for symbol in m) for m, c in self.terms)

    def __add__(self, other: Size) -> Size:
        if not other.terms:
            return self
        total = dict(self.terms)
        for monomial, c in other.terms:
            total[monomial] = total.get(monomial, 0) + c
        return _sum(total)

    def __sub__(self, other: Size) -> Size:
        return self + other * Size.of(-1)

    def __mul__(self, other: Size) -> Size:
        total: dict[Monomial, int] = {}
        for m, a in self.terms:
            for n, b in other.terms:
                both = tuple(sorted((*m, *n), key=_place)) if m and n else m or n
                total[both] = total.get(both, 0) + a * b
        return _sum(total)

    def over(self, divisor: int) -> Size:
        """⌊self / divisor⌋, for a positive divisor."""
        whole = _sum({m: c // divisor for m, c in self.terms})
        rest = _sum({m: c % divisor for m, c in self.terms})
        if rest.number is not None:
            return whole
        (symbols, factor), *others = rest.terms
        inner = symbols[0]
        if isinstance(inner, Quotient) and (symbols, factor) == ((inner,), 1):
            added = _sum(dict(others))
            if added.number is not None:  # ⌊(⌊a / b⌋ + c) / d⌋ = ⌊(a + c·b) / (b·d)⌋
                numerator = inner.numerator + added * Size.of(inner.divisor)
                return whole + numerator.over(inner.divisor * divisor)
        common = gcd(divisor, *(c for monomial, c in rest.terms if monomial))
        if common > 1:  # ⌊(g·a + c) / (g·d)⌋ = ⌊(a + ⌊c / g⌋) / d⌋
            return whole + rest.over(common).over(divisor // common)
        return whole + Size((((Quotient(rest, divisor),), 1),))

    def most(self, other: Size) -> Size | None:
        """The larger of two sizes; `None` where both may be negative. None reaches `_BEYOND`."""
        return self._extreme(other, True)

    def least(self, other: Size) -> Size | None:
        """The smaller of two sizes; `None` where one may be negative and need not be it."""
        return self._extreme(other, False)

    def _extreme(self, other: Size, larger: bool) -> Size | None:
        difference = self - other
        for size, rest in ((self, difference), (other, other - self)):
            beyond = size.number is not None and size.number >= _BEYOND
            if beyond or rest.natural:
                return size if larger else other if size is self else self
        return _extreme_of(larger, self, other)

    def bound(self, other: Size) -> Size:
        """A size that is below neither."""
        both = {m: None for m, _ in (*self.terms, *other.terms)}
        return _sum({m: max(self.coefficient(m), other.coefficient(m)) for m in both})

    def aligned(self, multiple: int) -> Size:
        """The least size above whose factors are all multiples."""
        return _sum({m: -(-c // multiple) * multiple for m, c in self.terms})

    def shown(self, names: Sequence[str] = _NAMES) -> str:
        """As an expression of C and people, in the names of the free sizes: `2*batch + 5`."""
        text = ""
        for monomial, c in sorted(self.terms, key=lambda term: -len(term[0])):
            factors = [str(abs(c))] if abs(c) != 1 or not monomial else []
            word = "*".join([*factors, *(_shown(symbol, names) for symbol in monomial)])
            sign = ("-" if c < 0 else "") if not text else " - " if c < 0 else " + "
            text += sign + word
        return text or "0"

    def __str__(self) -> str:
        return self.shown()

    def to_data(self) -> list[Any]:
        """JSON data: a list for each term, of its factor and its symbols."""
        return [[c, *map(_symbol_data, m)] for m, c in self.terms]

    @staticmethod
    def from_data(data: Sequence[Sequence[Any]]) -> Size:
        """The inverse of `to_data`.

        Raises:
            TypeError, ValueError: the data has another form.
        """
        return _sum({tuple(map(_symbol, symbols)): int(c) for c, *symbols in data})


def _of_extreme(monomial: Monomial) -> Extreme | None:
    """The minimum or maximum that a product is."""
    match monomial:
        case (Extreme() as extreme,):
            return extreme
        case _:
            return None


def _sum(terms: Mapping[Monomial, int]) -> Size:
    known = [term for term in terms.items() if term[1]]
    if len(known) > 1:
        known.sort(key=lambda term: (-len(term[0]), *map(_place, term[0])))
    match known:
        case [((Extreme() as extreme,), 1), ((), number)]:
            first, second = (size + Size.of(number) for size in extreme.sizes)
            found = _extreme_of(extreme.larger, first, second)
            if found is not None:
                return found
        case _:
            pass
    return Size(tuple(known))


def _extreme_of(larger: bool, first: Size, second: Size) -> Size | None:
    """The larger or the smaller size, unless that may be negative."""
    known = first.natural, second.natural
    if not (any(known) if larger else all(known)):
        return None
    first, second = sorted((first, second), key=str)
    return Size((((Extreme(larger, (first, second)),), 1),))


def _place(symbol: Symbol) -> tuple[int, str]:
    """Where a symbol stands among others."""
    return (symbol, "") if isinstance(symbol, int) else (1 << 30, _shown(symbol, ()))


def _value(symbol: Symbol, free: Sequence[int]) -> int:
    match symbol:
        case int():
            return free[min(symbol, len(free) - 1)]
        case Quotient():
            return symbol.numerator.at(*free) // symbol.divisor
        case Extreme():
            chosen = max if symbol.larger else min
            return chosen(size.at(*free) for size in symbol.sizes)


def _raised(symbol: Symbol, ones: Container[int]) -> Size:
    match symbol:
        case int():
            return Size.free(symbol) + ONE if symbol in ones else Size.free(symbol)
        case Quotient():
            return symbol.numerator.raised(ones).over(symbol.divisor)
        case Extreme():
            first, second = (size.raised(ones) for size in symbol.sizes)
            found = first.most(second) if symbol.larger else first.least(second)
            assert found is not None  # what was not negative is not
            return found


def _shown(symbol: Symbol, names: Sequence[str]) -> str:
    match symbol:
        case int():
            return names[symbol] if symbol < len(names) else f"size{symbol}"
        case Quotient():
            numerator = symbol.numerator.shown(names)
            alone = len(symbol.numerator.terms) == 1
            return f"({numerator if alone else f'({numerator})'}/{symbol.divisor})"
        case Extreme():
            first, second = (size.shown(names) for size in symbol.sizes)
            return f"({first} {'>' if symbol.larger else '<'} {second} ? {first} : {second})"


def _symbol_data(symbol: Symbol) -> Any:
    match symbol:
        case int():
            return symbol
        case Quotient():
            return ["quotient", symbol.numerator.to_data(), symbol.divisor]
        case Extreme():
            return ["most" if symbol.larger else "least", *(s.to_data() for s in symbol.sizes)]


def _symbol(data: Any) -> Symbol:
    match data:
        case int():
            return data
        case ["quotient", numerator, divisor]:
            return Quotient(Size.from_data(numerator), int(divisor))
        case ["most" | "least" as word, first, second]:
            return Extreme(word == "most", (Size.from_data(first), Size.from_data(second)))
        case _:
            raise ValueError(f"no symbol of a size: {data!r}")


def free_in(
    shapes: Iterable[Sequence[Size]], given: Iterable[Sequence[int]], count: int
) -> tuple[int, ...]:
    """The free sizes, `count` of them, of arrays of the shapes `given`; 1 where none says."""
    free = [1] * count
    for shape, sizes in zip(shapes, given, strict=False):
        for size, have in zip(shape, sizes, strict=False):
            if size.bare is not None:
                free[size.bare] = have
    return tuple(free)


def needs_of(sizes: Iterable[Size]) -> list[Size]:
    """What must not be negative so that no size is: of those with a number and one free size that
    grow together, for each free size the one that wants most."""
    needs: dict[Size, None] = {}
    least: dict[int, tuple[int, Size]] = {}
    for size in dict.fromkeys(sizes):
        if size.natural:
            continue
        wanted = least_of(size)
        if wanted is None:
            needs[size] = None
        elif wanted[1] > least.get(wanted[0], (0, size))[0]:
            least[wanted[0]] = (wanted[1], size)
    return [*(size for _, size in least.values()), *needs]


def least_of(size: Size) -> tuple[int, int] | None:
    """For a·free + b with a > 0 the number of the free size, and the least for which this is not
    negative; `None` for other sizes."""
    match size.terms:
        case (((int(number),), a), ((), b)) if a > 0:
            return number, max(0, -(b // a))
        case _:
            return None


ZERO, ONE, TWO, BATCH = Size.of(), Size.of(1), Size.of(2), Size.free(0)


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes, 1 of none."""
    result = ONE
    for size in sizes:
        result = result * size
    return result
