"""Symbolic dimension arithmetic: integer expressions over names, in a normal form.

A `Dim` is a sum of terms, each a rational coefficient times a product of atoms with integer
exponents (a Laurent polynomial). Division is exact: `N*4/2` is `2*N`, `H/2` stays `H/2` and means
that `H` is even. Rounding division, which the output size of a convolution needs, makes a `Floor`
atom unless the assumptions of the program settle it: with `H/2` known to be whole,
`(H - 1)//2 + 1` is `H/2`.

Not for run-time shapes: a dimension that is no constant becomes a dynamic one in the IR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import floor, lcm, prod

MAX_TERMS = 64
MAX_MAGNITUDE = 2**63


class DimError(ValueError):
    """An operation that gives no whole dimension; the message is a full sentence."""


@dataclass(frozen=True)
class Floor:
    """The atom `numerator // denominator`, rounded towards minus infinity."""

    numerator: Dim
    denominator: Dim

    def __str__(self) -> str:
        return f"{self.numerator.grouped()}//{self.denominator.grouped()}"


@dataclass(frozen=True)
class Group:
    """The atom `(a + b)`: a divisor of several terms."""

    inner: Dim

    def __str__(self) -> str:
        return f"({self.inner})"


Atom = str | Floor | Group
Monomial = tuple[tuple[Atom, int], ...]


def _monomial_key(monomial: Monomial) -> tuple[int, tuple[tuple[str, int], ...]]:
    return (
        -sum(exponent for _, exponent in monomial),
        tuple((str(atom), -exponent) for atom, exponent in monomial),
    )


def _multiply_monomials(a: Monomial, b: Monomial) -> Monomial:
    if not a:
        return b
    if not b:
        return a
    exponents: dict[Atom, int] = dict(a)
    for atom, exponent in b:
        exponents[atom] = exponents.get(atom, 0) + exponent
    factors = [(atom, exponent) for atom, exponent in exponents.items() if exponent]
    return tuple(sorted(factors, key=lambda item: str(item[0])))


@dataclass(frozen=True)
class Dim:
    """A dimension: `terms` holds `(monomial, coefficient)` pairs in a fixed order.

    Build one with `Dim.of(3)`, `Dim.symbol("N")` or `UNKNOWN` and the operators `+ - * /`. `/` is
    exact and raises `DimError` where two constants do not divide. Anything computed from
    `UNKNOWN` (written `?`) is `UNKNOWN`.
    """

    terms: tuple[tuple[Monomial, Fraction], ...]
    is_unknown: bool = False

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(value: int) -> Dim:
        """The constant `value`."""
        return Dim((((), Fraction(value)),) if value else ())

    @staticmethod
    @lru_cache(maxsize=4096)
    def symbol(name: str) -> Dim:
        """The dimension called `name`."""
        return Dim.atom(name)

    @staticmethod
    def atom(atom: Atom) -> Dim:
        """The dimension that is an atom alone."""
        return Dim(((((atom, 1),), Fraction(1)),))

    @staticmethod
    def lift(value: int | Dim) -> Dim:
        """`value` as a dimension."""
        return value if isinstance(value, Dim) else Dim.of(value)

    def constant(self) -> int | None:
        """The value where it is a whole number known now, else `None`."""
        if self.is_unknown:
            return None
        if not self.terms:
            return 0
        monomial, coefficient = self.terms[0]
        if monomial or len(self.terms) > 1 or coefficient.denominator != 1:
            return None
        return coefficient.numerator

    def simplified(self) -> int | Dim:
        """An `int` where the value is known, else the dimension itself."""
        value = self.constant()
        return self if value is None else value

    def symbols(self) -> frozenset[str]:
        """The names it depends on."""
        names: set[str] = set()
        for monomial, _ in self.terms:
            for atom, _ in monomial:
                match atom:
                    case str():
                        names.add(atom)
                    case Floor():
                        names |= atom.numerator.symbols() | atom.denominator.symbols()
                    case Group():
                        names |= atom.inner.symbols()
        return frozenset(names)

    def is_simple(self) -> bool:
        """Whether it is a constant or a whole multiple of a product of names."""
        if self.is_unknown or len(self.terms) > 1:
            return False
        return all(
            coefficient.denominator == 1
            and all(isinstance(atom, str) and exponent > 0 for atom, exponent in monomial)
            for monomial, coefficient in self.terms
        )

    def __add__(self, other: Dim | int) -> Dim:
        other = Dim.lift(other)
        if self.is_unknown or other.is_unknown:
            return UNKNOWN
        return _from_terms([*self.terms, *other.terms])

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim | int) -> Dim:
        return self + Dim.lift(other) * -1

    def __mul__(self, other: Dim | int) -> Dim:
        other = Dim.lift(other)
        if self.is_unknown or other.is_unknown:
            return UNKNOWN
        if len(self.terms) * len(other.terms) > MAX_TERMS**2:
            raise DimError("the dimension has too many terms")
        return _from_terms(
            [(_multiply_monomials(m, n), a * b) for m, a in self.terms for n, b in other.terms]
        )

    def __truediv__(self, other: Dim | int) -> Dim:
        other = Dim.lift(other)
        if not other.terms and not other.is_unknown:
            raise DimError(f"division of {self} by zero")
        if self.is_unknown or other.is_unknown:
            return UNKNOWN
        quotient = divide(self, other)
        value = quotient.terms[0][1] if quotient.terms else Fraction(0)
        if not quotient.symbols() and value.denominator != 1:
            raise DimError(f"{self} is not divisible by {other}")
        return quotient

    def substitute(self, values: Mapping[str, Dim]) -> Dim:
        """The dimension with names replaced.

        Raises:
            DimError: a quotient of constants that is not whole comes out.
        """
        if self.is_unknown or not (self.symbols() & values.keys()):
            return self
        result = _substitute(self, values)
        rest = result.terms[0][1] if result.terms else Fraction(0)
        if not result.is_unknown and not result.symbols() and rest.denominator != 1:
            raise DimError(f"{self} is {rest}, which is not a whole number")
        return result

    def grouped(self) -> str:
        """The text, in brackets where it is a sum or a product."""
        text = str(self)
        return text if text.isalnum() or text.isidentifier() else f"({text})"

    def __str__(self) -> str:
        if self.is_unknown:
            return "?"
        if not self.terms:
            return "0"
        scale = lcm(*(coefficient.denominator for _, coefficient in self.terms))
        divisors: dict[Atom, int] = {}
        for monomial, _ in self.terms:
            for atom, exponent in monomial:
                divisors[atom] = min(divisors.get(atom, 0), exponent)
        below: Monomial = tuple(
            (atom, -exponent) for atom, exponent in divisors.items() if exponent
        )
        above = [(_multiply_monomials(m, below), c * scale) for m, c in self.terms]
        text = _sum_text(above)
        if not below and scale == 1:
            return text
        bottom = _product_text(below, scale)
        if len(above) > 1:
            text = f"({text})"
        return f"{text}/({bottom})" if "*" in bottom else f"{text}/{bottom}"

    def __repr__(self) -> str:
        return f"Dim({self})"


UNKNOWN = Dim((), is_unknown=True)
"""The dimension `?`: agrees with every other."""


def _from_terms(terms: list[tuple[Monomial, Fraction]]) -> Dim:
    if all(not monomial for monomial, _ in terms):
        total = sum((coefficient for _, coefficient in terms), Fraction(0))
        if abs(total) >= MAX_MAGNITUDE:
            raise DimError("the dimension does not fit in 64 bits")
        return Dim((((), total),) if total else ())
    sums: dict[Monomial, Fraction] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, Fraction(0)) + coefficient
    nonzero = [(monomial, coefficient) for monomial, coefficient in sums.items() if coefficient]
    if len(nonzero) > MAX_TERMS:
        raise DimError("the dimension has too many terms")
    if any(
        abs(c.numerator) >= MAX_MAGNITUDE or c.denominator >= MAX_MAGNITUDE for _, c in nonzero
    ) or any(abs(exponent) > MAX_TERMS for monomial, _ in nonzero for _, exponent in monomial):
        raise DimError("the dimension does not fit in 64 bits")
    return Dim(tuple(sorted(nonzero, key=lambda term: _monomial_key(term[0]))))


def divide(a: Dim, b: Dim) -> Dim:
    """`a / b` over the rationals; `b` is neither zero nor unknown."""
    if len(b.terms) == 1:
        monomial, coefficient = b.terms[0]
        inverse: Monomial = tuple((atom, -exponent) for atom, exponent in monomial)
        return _from_terms([(_multiply_monomials(m, inverse), c / coefficient) for m, c in a.terms])
    quotient: list[tuple[Monomial, Fraction]] = []
    rest = a
    lead, lead_coefficient = b.terms[0]
    lead_inverse: Monomial = tuple((atom, -exponent) for atom, exponent in lead)
    while rest.terms:
        monomial, coefficient = rest.terms[0]
        step = _multiply_monomials(monomial, lead_inverse)
        if len(quotient) >= MAX_TERMS or any(exponent < 0 for _, exponent in step):
            scale = Dim((((), 1 / lead_coefficient),))
            group: Monomial = ((Group(b * scale), -1),)
            return a * Dim(((group, 1 / lead_coefficient),))
        term = Dim(((step, coefficient / lead_coefficient),))
        quotient.extend(term.terms)
        rest = rest - term * b
    return _from_terms(quotient)


def _power(base: Dim, exponent: int) -> Dim:
    result = prod([base] * abs(exponent), start=Dim.of(1))
    if exponent >= 0 or base.is_unknown:
        return result
    if not result.terms:
        raise DimError("division by zero in a dimension")
    return divide(Dim.of(1), result)


def product(dims: Iterable[Dim]) -> Dim:
    """The product of several sizes."""
    return prod(dims, start=Dim.of(1))


def rebuilt(dim: Dim, of_atom: Callable[[Atom], Dim]) -> Dim:
    """The same sum of products of what stands for each atom."""
    total = Dim.of(0)
    for monomial, coefficient in dim.terms:
        powers = (_power(of_atom(atom), exponent) for atom, exponent in monomial)
        total = total + prod(powers, start=Dim((((), coefficient),)))
    return total


def _substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    def replaced(atom: Atom) -> Dim:
        match atom:
            case str():
                return values.get(atom, Dim.symbol(atom))
            case Floor():
                top = _substitute(atom.numerator, values)
                return floor_divide(top, _substitute(atom.denominator, values))
            case Group():
                return _substitute(atom.inner, values)

    return rebuilt(dim, replaced)


def _is_whole_term(monomial: Monomial, coefficient: Fraction) -> bool:
    return coefficient.denominator == 1 and all(exponent > 0 for _, exponent in monomial)


def floor_divide(a: Dim, b: Dim, whole: frozenset[Dim] = frozenset()) -> Dim:
    """`a // b`; `whole` are quotients known to be whole numbers.

    Raises:
        DimError: `b` is zero.
    """
    if a.is_unknown or b.is_unknown:
        return UNKNOWN
    if not b.terms:
        raise DimError(f"division of {a} by zero")
    if b == Dim.of(1):
        return a
    integer, rest = _split_whole(divide(a, b), whole)
    if not rest.terms:
        return integer
    if not rest.symbols():
        return integer + floor(rest.terms[0][1])
    if len(rest.terms) == 1:
        monomial, coefficient = rest.terms[0]
        # -1/s lies in [-1, 0) for every size s >= 1.
        if coefficient == -1 and all(isinstance(x, str) and e < 0 for x, e in monomial):
            return integer - 1
    return integer + Dim.atom(Floor(a - integer * b, b))


def _split_whole(quotient: Dim, whole: frozenset[Dim]) -> tuple[Dim, Dim]:
    integer = Dim(tuple(term for term in quotient.terms if _is_whole_term(*term)))
    rest = quotient - integer
    for fact in whole:
        if not fact.terms or not rest.terms:
            continue
        monomial, coefficient = fact.terms[0]
        for candidate, value in rest.terms:
            ratio = value / coefficient
            if candidate == monomial and ratio.denominator == 1:
                integer = integer + fact * ratio.numerator
                rest = rest - fact * ratio.numerator
                break
    extra = Dim(tuple(term for term in rest.terms if _is_whole_term(*term)))
    return integer + extra, rest - extra


def _product_text(monomial: Monomial, scale: int) -> str:
    parts = [str(scale)] if scale != 1 else []
    for atom, exponent in monomial:
        text = f"({atom})" if isinstance(atom, Floor) and exponent != 1 else str(atom)
        parts.extend([text] * exponent)
    return "*".join(parts) if parts else "1"


def _sum_text(terms: list[tuple[Monomial, Fraction]]) -> str:
    text = ""
    for monomial, coefficient in sorted(terms, key=lambda term: _monomial_key(term[0])):
        size = abs(coefficient.numerator)
        if len(monomial) + (size != 1) > 1:
            wrapped: Monomial = tuple(
                (
                    Group(Dim((((item,), Fraction(1)),)))
                    if isinstance(item[0], Floor)
                    else item[0],
                    item[1],
                )
                for item in monomial
            )
        else:
            wrapped = monomial
        piece = _product_text(wrapped, size)
        if not text:
            text = f"-{piece}" if coefficient < 0 else piece
        else:
            text += f" - {piece}" if coefficient < 0 else f" + {piece}"
    return text


def solve(expression: Dim, name: str, value: Dim) -> Dim | None:
    """The value of `name` for which `expression` equals `value`, or `None`.

    Only expressions linear in `name` are solved.
    """
    rest: list[tuple[Monomial, Fraction]] = []
    factor: list[tuple[Monomial, Fraction]] = []
    for monomial, coefficient in expression.terms:
        exponents = dict(monomial)
        exponent = exponents.pop(name, 0)
        if any(not isinstance(a, str) and name in Dim.atom(a).symbols() for a in exponents):
            return None
        if exponent == 0:
            rest.append((monomial, coefficient))
        elif exponent == 1:
            factor.append((tuple(exponents.items()), coefficient))
        else:
            return None
    if not factor:
        return None
    if value.is_unknown:
        return UNKNOWN
    try:
        return (value - _from_terms(rest)) / _from_terms(factor)
    except DimError:
        return None
