"""Lava for the tests that run it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lava_peer import environment

from triton_dsl.runtime import lava


@pytest.fixture
def lava_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lava is found in the environment that `lava_peer` makes."""
    python = environment.make()
    if python is None:
        pytest.skip("no Python 3.10 here, which Lava 0.10 needs")
    monkeypatch.setenv(lava.VARIABLE, str(python))
    lava.lava_python.cache_clear()
    yield
    lava.lava_python.cache_clear()
