"""Where kernels are looked for."""

import sys
from pathlib import Path

import pytest

from triton_dsl.runtime.native.provider import (
    BITPLANES,
    CONV,
    GROUP,
    LINEAR,
    SCAN,
    KernelSource,
)

ENTRIES = """[triton_dsl.kernels]
given = provider_for_test:given
broken = provider_for_test:broken
missing = no_such_module:given
"""
MODULE = """
from triton_dsl.ir.errors import BackendError
calls = []
def given():
    calls.append(None)
    return "kernels"
def broken():
    raise BackendError("nothing here")
"""


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution with entry points of the group."""
    info = tmp_path / "provider_for_test-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: provider-for-test\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "provider_for_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "provider_for_test", raising=False)


@pytest.mark.usefixtures("entries")
def test_kernels_are_looked_for_once() -> None:
    source: KernelSource[str] = KernelSource("given")
    assert [source.get(), source.get()] == ["kernels", "kernels"]
    assert len(sys.modules["provider_for_test"].calls) == 1


@pytest.mark.usefixtures("entries")
@pytest.mark.parametrize("name", ["broken", "missing", "unknown"])
def test_absence_is_no_error(name: str) -> None:
    source: KernelSource[str] = KernelSource(name)
    assert source.get() is None
    source.set("others")
    assert source.get() == "others"


def test_own_kernels_are_found() -> None:
    pytest.importorskip("llvmlite")
    assert GROUP == "triton_dsl.kernels"
    assert LINEAR.get() is not None
    assert BITPLANES.get() is not None
    assert CONV.get() is not None
    assert SCAN.get() is not None
