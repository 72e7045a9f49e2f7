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


def test_unknown_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"expected \.npy, \.npz or \.safetensors"):
        read_samples(tmp_path / "x.csv")


def test_batches_keep_the_rest() -> None:
    sizes = [(len(a), len(b)) for a, b in batches([X, X * 2], 2)]
    assert sizes == [(2, 2), (1, 1)]
