"""The cache of compiled objects: whole entries or none, and nothing another user could write."""

import os
import threading
from pathlib import Path

import pytest

from triton_dsl.runtime.native.cache import VARIABLE, ObjectCache, default_folder

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of POSIX")


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "objects")


def entry(cache: ObjectCache) -> Path:
    assert cache.folder is not None
    [path] = cache.folder.iterdir()
    return path


def test_gives_back_what_was_written(cache: ObjectCache) -> None:
    assert cache.read("key") is None
    assert cache.write("key", b"content")
    assert cache.read("key") == b"content"
    assert cache.read("another key") is None
    assert cache.write("key", b"newer")
    assert cache.read("key") == b"newer"


def test_leaves_only_the_entry(cache: ObjectCache) -> None:
    cache.write("key", b"content")
    assert entry(cache).suffix == ".o"


@pytest.mark.parametrize("length", [0, 10, 47, 48, 54])
def test_a_truncated_entry_is_absent(cache: ObjectCache, length: int) -> None:
    cache.write("key", b"content")
    path = entry(cache)
    path.write_bytes(path.read_bytes()[:length])
    assert cache.read("key") is None


@pytest.mark.parametrize("place", [0, 20, 47, 48, -1])
def test_a_changed_byte_is_noticed(cache: ObjectCache, place: int) -> None:
    cache.write("key", b"content")
    path = entry(cache)
    whole = bytearray(path.read_bytes())
    whole[place] ^= 1
    path.write_bytes(whole)
    assert cache.read("key") is None
    assert cache.write("key", b"content")
    assert cache.read("key") == b"content"


def test_an_entry_of_another_key_is_absent(cache: ObjectCache) -> None:
    cache.write("key", b"content")
    first = entry(cache)
    cache.write("other", b"content of the other")
    assert cache.folder is not None
    [second] = set(cache.folder.iterdir()) - {first}
    os.replace(second, first)
    assert cache.read("key") is None


@posix
def test_an_entry_that_is_a_link_or_a_folder_is_absent(cache: ObjectCache, tmp_path: Path) -> None:
    cache.write("key", b"content")
    path = entry(cache)
    elsewhere = tmp_path / "elsewhere"
    os.replace(path, elsewhere)
    path.symlink_to(elsewhere)
    assert cache.read("key") is None
    path.unlink()
    os.mkfifo(path)
    assert cache.read("key") is None
    path.unlink()
    path.mkdir()
    assert cache.read("key") is None
    assert not cache.write("key", b"content")


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_entry_that_others_may_write_is_absent(cache: ObjectCache, mode: int) -> None:
    cache.write("key", b"content")
    entry(cache).chmod(mode)
    assert cache.read("key") is None


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write_is_not_used(cache: ObjectCache, mode: int) -> None:
    cache.write("key", b"content")
    assert cache.folder is not None
    cache.folder.chmod(mode)
    assert "can be written by other users" in str(cache.problem())
    assert cache.read("key") is None
    assert not cache.write("key", b"content")


@posix
def test_a_folder_below_one_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    cache = ObjectCache(shared / "objects")
    assert not cache.write("key", b"content")
    shared.chmod(0o1777)
    assert cache.write("key", b"content")


@posix
def test_a_folder_that_is_a_link_is_not_used(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to(real)
    cache = ObjectCache(link)
    assert "symbolic link" in str(cache.problem())
    assert not cache.write("key", b"content")


@posix
def test_a_folder_of_another_user_is_not_used(
    cache: ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write("key", b"content")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert "belongs to another user" in str(cache.problem())
    assert cache.read("key") is None


@posix
def test_a_new_folder_is_private(cache: ObjectCache) -> None:
    cache.write("key", b"content")
    assert cache.folder is not None
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert entry(cache).stat().st_mode & 0o777 == 0o600


def test_a_place_that_cannot_be_a_folder_reads_as_empty(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ObjectCache(tmp_path / "file" / "objects")
    assert cache.read("key") is None
    assert not cache.write("key", b"content")


def test_concurrent_writers_and_readers_see_whole_entries(cache: ObjectCache) -> None:
    contents = [bytes([i]) * 100_000 for i in range(4)]
    wrong: list[object] = []

    def work(content: bytes) -> None:
        for _ in range(20):
            cache.write("key", content)
            if cache.read("key") not in contents:
                wrong.append(content[:1])

    threads = [threading.Thread(target=work, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert entry(cache).suffix == ".o"


def test_the_folder_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.setenv(VARIABLE, "off")
    assert default_folder() is None
    assert not ObjectCache(default_folder()).write("key", b"content")
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "triton-dsl" / "native"
