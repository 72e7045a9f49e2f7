"""What a program states about its dimensions, and when two of them can be one.

Not here: the arithmetic of dimensions (`dims`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .dims import UNKNOWN, Atom, Dim, DimError, Floor, floor_divide, rebuilt


@dataclass
class Assumptions:
    """What a program states about its dimensions, and how strictly two are compared.

    Attributes:
        whole: quotients that a type wrote with `/`, so known to be whole.
        generics: names that stand for generic arguments not known yet. Compound sizes that depend
            on them are given the benefit of the doubt; the call that fixes them is checked again.
        doubt: above zero inside a branch whose condition is not known yet: everything that depends
            on a generic is then believed.
        values: what a condition such as `stride == 1` fixes inside its branch.
    """

    whole: frozenset[Dim] = frozenset()
    generics: frozenset[str] = frozenset()
    doubt: int = 0
    values: dict[str, Dim] = field(default_factory=dict[str, Dim])
    _floors: dict[Dim, Dim] = field(default_factory=dict[Dim, Dim], repr=False)

    def assume_whole(self, quotient: Dim) -> None:
        """Record that `quotient`, written with `/`, is a whole number."""
        if not quotient.is_simple() and not quotient.is_unknown and quotient not in self.whole:
            self.whole |= {quotient}
            self._floors.clear()

    def floor_divide(self, a: Dim, b: Dim) -> Dim:
        """`a // b` under the assumptions."""
        return floor_divide(a, b, self.whole)

    def normalise(self, dim: Dim) -> Dim:
        """`dim` with every name that is fixed and every `//` that is settled replaced."""
        if self.values:
            try:
                dim = dim.substitute(self.values)
            except DimError:
                # No call can take this branch with such sizes.
                return UNKNOWN
        if dim.is_unknown or not any(
            isinstance(atom, Floor) for monomial, _ in dim.terms for atom, _ in monomial
        ):
            return dim
        known = self._floors.get(dim)
        if known is not None:
            return known

        def settled(atom: Atom) -> Dim:
            if not isinstance(atom, Floor):
                return Dim.atom(atom)
            top = self.normalise(atom.numerator)
            return self.floor_divide(top, self.normalise(atom.denominator))

        known = self._floors[dim] = rebuilt(dim, settled)
        return known

    def equal(self, a: Dim, b: Dim) -> bool:
        """Whether `a` and `b` can be one dimension; `?` agrees with everything."""
        if a == b or a.is_unknown or b.is_unknown:
            return True
        a, b = self.normalise(a), self.normalise(b)
        return a == b or self.is_doubtful(a, b)

    def is_doubtful(self, a: Dim, b: Dim) -> bool:
        """Whether a difference of `a` and `b` may vanish once the generics are known."""
        if not self.generics:
            return False
        if not (a - b).symbols() & self.generics:
            return False
        return self.doubt > 0 or not (a.is_simple() and b.is_simple())

    def broadcast(self, a: Dim, b: Dim) -> Dim:
        """The common size of `a` and `b` under NumPy's rules.

        Raises:
            DimError: the sizes differ and neither is 1.
        """
        if a == b:
            return a
        if self.values:
            a, b = self.normalise(a), self.normalise(b)
        if a.constant() == 1:
            return b
        if b.constant() == 1:
            return a
        if a.is_unknown or b.is_unknown:
            known = b if a.is_unknown else a
            return known if known.constant() is not None else UNKNOWN
        if self.equal(a, b):
            return self.normalise(a)
        raise DimError(f"sizes {a} and {b} differ and neither is 1")
