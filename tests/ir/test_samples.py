"""Reading sample files."""

from pathlib import Path

import numpy as np
import pytest

from triton_dsl.ir.errors import OptionError
from triton_dsl.ir.samples import batches, read_samples
from triton_dsl.ir.store import save_arrays

X = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_every_kind_of_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", x=X, y=X + 1)
    save_arrays(tmp_path / "x.safetensors", {"x": X})
    np.testing.assert_array_equal(read_samples(tmp_path / "x.npy")[""], X)
    np.testing.assert_array_equal(read_samples(tmp_path / "x.npz")["y"], X + 1)
    np.testing.assert_array_equal(read_samples(tmp_path / "x.safetensors")["x"], X)


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors"])
@pytest.mark.parametrize("content", [None, b"", b"not an array at all"])
def test_bad_files_are_one_line_errors(tmp_path: Path, kind: str, content: bytes | None) -> None:
    path = tmp_path / f"x.{kind}"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OptionError) as caught:
        read_samples(path)
    assert f"x.{kind}" in str(caught.value)
    assert "\n" not in str(caught.value) and "allow_pickle" not in str(caught.value)


def test_pickles_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(OptionError, match=r"x\.npy"):
        read_samples(tmp_path / "x.npy")


def damaged(content: bytes, old: bytes, new: bytes) -> bytes:
    assert content.count(old) in (1, 2)
    return content.replace(old, new)


def test_broken_headers_and_members_are_one_line_errors(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", x=X)
    header = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "type.npy").write_bytes(damaged(header, b"'<f4'", b"',f4'"))
    (tmp_path / "name.npy").write_bytes(damaged(header, b"'<f4'", b"'zzz'"))
    (tmp_path / "text.npy").write_bytes(damaged(header, b"'shape'", b"'sha\x00e"))
    (tmp_path / "size.npy").write_bytes(damaged(header, b"(3, 2), }   ", b"(3, 2**9), }"))
    (tmp_path / "huge.npy").write_bytes(
        damaged(header, b"(3, 2), }          ", b"(3, 99999999999), }")
    )
    archive = (tmp_path / "x.npz").read_bytes()
    entry = archive.rindex(b"PK\x01\x02")
    method = archive[: entry + 10] + b"\x90\x00" + archive[entry + 12 :]
    (tmp_path / "method.npz").write_bytes(method)
    secret = archive[: entry + 8] + b"\x01\x00" + archive[entry + 10 :]
    (tmp_path / "encrypted.npz").write_bytes(secret)
    names = [path.name for path in tmp_path.iterdir() if path.stem != "x"]
    assert len(names) == 7
    for name in names:
        with pytest.raises(OptionError) as caught:
            read_samples(tmp_path / name)
        assert name in str(caught.value) and "\n" not in str(caught.value), name


def test_an_archive_that_fills_the_memory_is_refused_by_its_sizes(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros(1 << 25), y=np.zeros(1 << 25))
    assert (tmp_path / "bomb.npz").stat().st_size < 1 << 20
    with pytest.raises(OptionError, match=r"bomb\.npz' has \d+ bytes and would unpack to 53687"):
        read_samples(tmp_path / "bomb.npz")


def test_a_compressed_archive_of_common_size_is_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros((1000, 784), np.float32))
    assert read_samples(tmp_path / "x.npz")["x"].shape == (1000, 784)


def test_unknown_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"expected \.npy, \.npz or \.safetensors"):
        read_samples(tmp_path / "x.csv")


def test_batches_keep_the_rest() -> None:
    sizes = [(len(a), len(b)) for a, b in batches([X, X * 2], 2)]
    assert sizes == [(2, 2), (1, 1)]
