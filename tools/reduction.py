"""Making what fails smaller: one greedy search, and the ways in which a module can be smaller.

`smallest` knows nothing of what it reduces; `smaller_modules` gives it modules of IR with the
inputs that they are run on. Not here: what it means to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import TypeVar

Candidate = TypeVar("Candidate")


def smallest(
    candidate: Candidate,
    smaller: Callable[[Candidate], Iterable[Candidate]],
    fails: Callable[[Candidate], bool],
    *,
    tries: int = 1000,
    seconds: float = 60.0,
) -> Candidate:
    """The candidate that is left when nothing smaller fails any more.

    Greedy: the first of the smaller ones that fails takes the place, and the search starts again
    from there (Regehr et al. 2012, "Test-case reduction for C compiler bugs"). Deterministic but
    for the time limit.

    Args:
        candidate: something that fails.
        smaller: simpler forms of a candidate, the boldest first; each must be simpler in an order
            without infinite descent, or `tries` ends the search.
        fails: whether a candidate still shows the failure.
        tries: calls of `fails`, at most.
        seconds: when to stop, at the latest after the call that is running.
    """
    end = monotonic() + seconds
    while True:
        for proposal in smaller(candidate):
            if tries <= 0 or monotonic() > end:
                return candidate
            tries -= 1
            if fails(proposal):
                candidate = proposal
                break
        else:
            return candidate
