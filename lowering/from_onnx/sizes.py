"""Sizes of tensors while a model is read: numbers, and polynomials of named free sizes.

Not here: shapes of types in the IR, where every free size is `?` (`dialects.shapes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ...dialects.shapes import DYNAMIC
from ..problems import ProblemError, refuse

Monomial = tuple[str, ...]
"""Names of free sizes that are multiplied, sorted."""


MOST_TERMS = 64
"""A size with more terms than this is refused."""


@dataclass(frozen=True)
class Free:
    """A polynomial of free sizes with whole coefficients; `terms` is sorted and without zeros."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def named(name: str) -> Free:
        """The free size `name`."""
        return Free((((name,), 1),))

    def __add__(self, other: object) -> Size:
        return _collected([*self.terms, *_terms(other)])

    __radd__ = __add__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + other * -1

    def __rsub__(self, other: Size) -> Size:
        return self * -1 + other

    def __mul__(self, other: object) -> Size:
        products = [
            (tuple(sorted((*a, *b))), m * n) for a, m in self.terms for b, n in _terms(other)
        ]
        return _collected(products)

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        """The quotient where it is exact for every value of the free sizes.

        Raises:
            ProblemError: it is not.
        """
        names = sorted({n for m, _ in (*self.terms, *_terms(other)) for n in m})

        def place(term: tuple[Monomial, int]) -> tuple[int, ...]:
            return tuple(term[0].count(name) for name in names)

        refuse(other == 0, f"it divides the size {self} by 0")
        lead, factor = max(_terms(other), key=place)
        rest: Size = self
        quotient: list[tuple[Monomial, int]] = []
        # Long division: each turn takes the greatest term away.
        while rest != 0:
            monomial, coefficient = max(_terms(rest), key=place)
            left = list(monomial)
            for name in lead:
                if name in left:
                    left.remove(name)
            if len(left) != len(monomial) - len(lead) or coefficient % factor:
                raise ProblemError(f"it divides the size {self} by {other}; fix these sizes")
            term = (tuple(left), coefficient // factor)
            quotient.append(term)
            rest = rest - _collected([term]) * other
        return _collected(quotient)

    def at(self, values: Mapping[str, int]) -> int:
        """The size for given values of the free ones."""
        return sum(n * prod(values[name] for name in names) for names, n in self.terms)

    @property
    def names(self) -> set[str]:
        """The free sizes it is made of."""
        return {name for monomial, _ in self.terms for name in monomial}

    def __str__(self) -> str:
        parts: list[str] = []
        for monomial, coefficient in self.terms:
            factors = [*([] if coefficient == 1 and monomial else [str(coefficient)]), *monomial]
            parts.append("*".join(factors))
        return "+".join(parts).replace("+-", "-")


Size = int | Free
Sizes = tuple[Size, ...]


def _terms(value: object) -> Sequence[tuple[Monomial, int]]:
    if isinstance(value, Free):
        return value.terms
    assert isinstance(value, int)
    return [((), int(value))] if value else []


def _collected(terms: Sequence[tuple[Monomial, int]]) -> Size:
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    left = tuple(sorted((m, n) for m, n in sums.items() if n))
    refuse(len(left) > MOST_TERMS, f"its sizes have more than {MOST_TERMS} terms; fix some of them")
    if not left:
        return 0
    if len(left) == 1 and left[0][0] == ():
        return left[0][1]
    return Free(left)


def ir_shape(sizes: Sequence[Size]) -> list[int]:
    """Sizes as the shape of a type; free ones become dynamic."""
    return [DYNAMIC if isinstance(size, Free) else size for size in sizes]


def show(sizes: Sequence[object]) -> str:
    """Sizes for a message."""
    return f"[{', '.join(map(str, sizes))}]"


def static(sizes: Sequence[Size], what: str = "sizes") -> list[int]:
    """Sizes that must be numbers.

    Raises:
        ProblemError: one is free.
    """
    if any(isinstance(size, Free) for size in sizes):
        raise ProblemError(f"its {what} {show(sizes)} must be fixed; give the inputs fixed shapes")
    return [int(size) for size in sizes if not isinstance(size, Free)]


def product(sizes: Sequence[Size]) -> Size:
    """The product of sizes."""
    result: Size = 1
    for size in sizes:
        result = result * size
    return result


def reshape_target(sizes: Sequence[object], wanted: Sequence[object]) -> list[int]:
    """The `shape` of `tensor.reshape_to` that takes `sizes` to `wanted`; what is no number is free.

    Raises:
        ProblemError: two free sizes come out that did not go in.
    """
    target: list[int] = []
    used: set[int] = set()
    for size in wanted:
        if isinstance(size, int):
            target.append(size)
            continue
        axes = [axis for axis, other in enumerate(sizes) if other == size and axis not in used]
        used.update(axes[:1])
        target.append(-2 - axes[0] if axes else -1)
    if target.count(-1) > 1:
        raise ProblemError(
            f"a reshape of {show(sizes)} to {show(wanted)} makes two free sizes of others; "
            "fix one of them"
        )
    return target


_PROBES, _PRIME = 4, 999_983
"""Sizes at the probes are powers of a number modulo a prime: large, and in no simple relation."""


def probes(names: Sequence[str]) -> list[dict[str, int]]:
    """Values of free sizes at which a shape rule is asked what it makes of them."""
    return [
        {
            name: 1009 + pow(5, 17 + 31 * index + 7 * probe, _PRIME)
            for index, name in enumerate(names)
        }
        for probe in range(_PROBES)
    ]


def fitted(
    values: Sequence[int], candidates: Sequence[Size], at: Sequence[Mapping[str, int]]
) -> Size | None:
    """The size a·p + b, p one of `candidates` or a product of two, with these values at `at`."""
    basis = [size for size in candidates if isinstance(size, Free)]
    basis += [p for a in basis for b in basis if isinstance(p := a * b, Free)]
    for size in dict.fromkeys(basis):
        known = [size.at(assignment) for assignment in at]
        run = known[1] - known[0]
        factor, rest = divmod(values[1] - values[0], run)
        if rest or not factor:
            continue
        offset = values[0] - factor * known[0]
        if all(factor * k + offset == v for k, v in zip(known, values, strict=True)):
            return size * factor + offset
    return None
