"""What other packages bring."""

from pathlib import Path

import pytest

from triton_dsl.ir.extras import plug_ins


def test_packages_are_found_that_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    assert plug_ins("a.group") == []
    info = tmp_path / "late-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: late\nVersion: 1\n", encoding="utf-8")
    entries = "[a.group]\nlast = math:tau\nfirst = math:pi\n"
    (info / "entry_points.txt").write_text(entries, encoding="utf-8")
    assert [point.name for point in plug_ins("a.group")] == ["first", "last"]
    assert [point.value for point in plug_ins("a.group", "last")] == ["math:tau"]
