"""Files written whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from triton_dsl.ir.safe_write import PendingFiles, check_writable


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_appear_together_at_the_end(tmp_path: Path) -> None:
    with PendingFiles() as pending:
        pending.add(tmp_path / "a", b"1")
        pending.add_written(tmp_path / "b", lambda path: path.write_bytes(b"2"))
        assert not (tmp_path / "a").exists()
        assert not (tmp_path / "b").exists()
    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == b"1"
    assert (tmp_path / "b").read_bytes() == b"2"


def test_an_exception_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(KeyError), PendingFiles() as pending:
        pending.add(tmp_path / "a", b"new")
        raise KeyError
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


class Full(list[tuple[str, str]]):
    """A list that cannot grow."""

    def append(self, item: tuple[str, str], /) -> None:
        raise MemoryError


def test_a_file_that_is_not_placed_for_want_of_memory_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MemoryError), PendingFiles() as pending:
        monkeypatch.setattr(pending, "_staged", Full())
        pending.add(tmp_path / "a", b"new")
    assert names(tmp_path) == []


def test_a_failing_writer_leaves_nothing(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device", str(path))

    with pytest.raises(OSError, match="No space left") as caught, PendingFiles() as pending:
        pending.add_written(tmp_path / "a", write)
    assert caught.value.filename == str(tmp_path / "a")
    assert names(tmp_path) == []


def test_new_files_follow_the_umask_and_old_ones_keep_their_mode(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"")
    (tmp_path / "old").chmod(0o751)
    mask = os.umask(0o027)
    try:
        with PendingFiles() as pending:
            pending.add(tmp_path / "new", b"")
            pending.add(tmp_path / "old", b"x")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o751


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    with PendingFiles() as pending:
        pending.add(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_device_is_written_to_and_stays(tmp_path: Path) -> None:
    with PendingFiles() as pending:
        pending.add(Path("/dev/null"), b"gone")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("folder", IsADirectoryError),
        ("absent/file", FileNotFoundError),
        ("file/below", NotADirectoryError),
    ],
)
def test_impossible_places_are_refused(place: str, error: type[OSError], tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(error) as caught:
        check_writable(tmp_path / place)
    assert caught.value.filename == str(tmp_path / place)
    with pytest.raises(error), PendingFiles() as pending:
        pending.add(tmp_path / place, b"")
