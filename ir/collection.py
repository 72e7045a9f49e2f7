"""How often Python looks for garbage while something large is made.

IR refers to itself everywhere and nearly all of it lives: looking through it whenever a few hundred
objects more are there takes a fifth of the time of a compilation, and of what loads a package.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_USUAL = gc.get_threshold()

_RARE = 2_000_000, 10, 100
"""New objects before they are looked through, by default 700; and how often the older ones are. The
IR of a circuit of 20,000 look-up tables has a million, all of which live."""


@contextmanager
def rare_collection() -> Generator[None]:
    """Look for garbage less often, in all threads; what is as rare already stays."""
    usual = gc.get_threshold()
    if not 0 < usual[0] < _RARE[0]:
        yield
        return
    gc.set_threshold(*_RARE)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@contextmanager
def usual_collection() -> Generator[None]:
    """Look for garbage as often as Python does: within `rare_collection`, for what runs long."""
    rare = gc.get_threshold()
    gc.set_threshold(*_USUAL)
    try:
        yield
    finally:
        gc.set_threshold(*rare)
