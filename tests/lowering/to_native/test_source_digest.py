"""Objects are kept under the source that made them: each file of it counts."""

import hashlib
import shutil
from pathlib import Path

import pytest

from triton_dsl.lowering.to_native import source_digest as module
from triton_dsl.lowering.to_native.source_digest import COMPILER, KERNELS, PROGRAM, source_digest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("places", [KERNELS, COMPILER])
def test_every_file_counts(
    places: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in places:
        source = ROOT / place
        if source.is_dir():
            shutil.copytree(source, tmp_path / place, ignore=lambda *_: ["__pycache__"])
        else:
            (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, tmp_path / place)
    monkeypatch.setattr(module, "_ROOT", tmp_path)
    monkeypatch.setattr(module, "_STARTED", float("inf"))
    seen = {source_digest.__wrapped__(*places), source_digest.__wrapped__(*places)}
    files = sorted(tmp_path.rglob("*.py"))
    for file in files:
        with file.open("a", encoding="utf-8") as text:
            text.write("#")
        seen.add(source_digest.__wrapped__(*places))
    assert len(seen) == len(files) + 1


def test_sources_that_change_while_code_of_them_runs_are_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process makes after an update is kept under no key that another will ask for."""
    (tmp_path / "a.py").write_text("one")
    monkeypatch.setattr(module, "_ROOT", tmp_path)
    assert len({source_digest.__wrapped__("a.py") for _ in range(3)}) == 3
    monkeypatch.setattr(module, "_STARTED", (tmp_path / "a.py").stat().st_ctime)
    assert len({source_digest.__wrapped__("a.py") for _ in range(3)}) == 1


def test_files_of_another_clock_are_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("one")
    monkeypatch.setattr(module, "_ROOT", tmp_path)
    monkeypatch.setattr(module, "_STARTED", -1.0)
    monkeypatch.setattr(module.time, "time", lambda: 0.0)
    assert len({source_digest.__wrapped__("a.py") for _ in range(3)}) == 1


def test_it_is_sha256_of_names_and_content() -> None:
    name = "runtime/native/processor.py"
    digest = hashlib.sha256(name.encode() + b"\0" + (ROOT / name).read_bytes() + b"\0").digest()
    assert source_digest(name) == digest


def test_a_place_without_source_is_no_place() -> None:
    with pytest.raises(FileNotFoundError, match="no source"):
        source_digest("lowering/to_nowhere")


def test_a_program_comes_of_more_than_its_kernels() -> None:
    assert {place.split("/")[0] for place in (*KERNELS, *COMPILER)} <= {
        place.split("/")[0] for place in PROGRAM
    }
    assert len(source_digest(*PROGRAM)) == 32
