"""Weights that fit, and everything that does not."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
import torch

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import store_of
from triton_dsl.ir.errors import ParameterError
from triton_dsl.ir.store import save_arrays
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.from_tri import import_tri

SOURCE = """
layer L {
    param weight: TernaryTensor[6, 3]
    param bias: Tensor[3]
    fn forward(x: Tensor[N, 6]) -> Tensor[N, 3] { return x @ weight + bias }
}
"""
RNG = np.random.default_rng(3)
TRITS = RNG.integers(-1, 2, (6, 3)).astype(np.int8)
BIAS = RNG.standard_normal(3).astype(np.float32)
X = RNG.standard_normal((4, 6)).astype(np.float32)
EXPECTED = X @ TRITS + BIAS


def check(weights: Any) -> None:
    np.testing.assert_allclose(
        run_module(import_tri(SOURCE, weights=weights), [X])[0], EXPECTED, rtol=1e-5, atol=1e-6
    )


def test_arrays_tensors_and_packed_bytes_fit() -> None:
    check({"weight": TRITS, "bias": BIAS})
    check({"weight": TRITS.astype(np.float32), "bias": BIAS})
    check({"weight": pack_trits(TRITS), "bias": BIAS})
    check({"weight": torch.from_numpy(TRITS), "bias": torch.nn.Parameter(torch.from_numpy(BIAS))})


def test_every_kind_of_file_fits(tmp_path: Path) -> None:
    save_arrays(tmp_path / "w.safetensors", {"weight": TRITS, "bias": BIAS})
    np.savez(tmp_path / "w.npz", weight=TRITS, bias=BIAS)
    state = {"weight": torch.from_numpy(TRITS), "bias": torch.from_numpy(BIAS)}
    torch.save(state, tmp_path / "w.pt")
    for name in ("w.safetensors", "w.npz", "w.pt"):
        check(tmp_path / name)


def test_a_stored_form_is_referenced_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    digest = save_arrays(path, {"weight": pack_trits(TRITS), "bias": BIAS})
    store = store_of(import_tri(SOURCE, weights=path))
    assert store.reference is not None
    assert (store.reference.location, store.reference.sha256) == (path, digest)
    assert store.added_names == []
    check(path)


def test_all_that_does_not_fit_is_one_error() -> None:
    wrong = {"weight": TRITS.T, "extra": BIAS, "another": BIAS}
    with pytest.raises(ParameterError) as caught:
        import_tri(SOURCE, weights=wrong)
    message = str(caught.value)
    assert "missing 'bias' (tensor<3xf32>)" in message
    assert "extra 'extra'" in message and "extra 'another'" in message
    assert "'weight': expected trits of shape [6, 3] or 5 packed bytes, got int8[3, 6]" in message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bias": np.array([1, np.nan, 0], np.float32)}, "'bias': holds NaN"),
        ({"bias": BIAS.astype(np.float64)}, r"'bias': expected float32\[3\], got float64\[3\]"),
        ({"bias": BIAS[:2]}, r"'bias': expected float32\[3\], got float32\[2\]"),
        ({"weight": TRITS * 2}, r"'weight': expected trits in \{-1, 0, 1\}"),
        ({"weight": TRITS * 0.5}, r"'weight': expected trits in \{-1, 0, 1\}"),
        ({"weight": np.full(5, 255, np.uint8)}, "'weight': reserved trit code 0b11 at element 0"),
        ({"weight": np.array([0, 0, 0, 0, 64], np.uint8)}, "'weight': padding bits"),
    ],
)
def test_wrong_values_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        import_tri(SOURCE, weights={"weight": TRITS, "bias": BIAS, **changes})


class Hostile:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("pwned"),))


def test_hostile_and_broken_files_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hostile.pt").write_bytes(pickle.dumps({"weight": Hostile()}, protocol=2))
    torch.save({"weight": Hostile()}, tmp_path / "zip.pt")
    np.savez(tmp_path / "object.npz", weight=np.array([Hostile()], dtype=object), bias=BIAS)
    for name in ("cut.safetensors", "cut.npz", "cut.pt"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 not really")
    for name in ("hostile.pt", "zip.pt", "object.npz", "cut.safetensors", "cut.npz", "cut.pt"):
        with pytest.raises(ParameterError) as caught:
            import_tri(SOURCE, weights=tmp_path / name)
        assert name in str(caught.value) and "\n" not in str(caught.value)
        assert "weights_only" not in str(caught.value)  # nobody is told to run it all the same
    assert not (tmp_path / "pwned").exists()


def test_an_archive_that_fills_the_memory_is_refused_by_its_sizes(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(300 << 20, dtype=torch.uint8)}, tmp_path / "plain.pt")
    with (
        ZipFile(tmp_path / "plain.pt") as plain,
        ZipFile(tmp_path / "bomb.pt", "w", ZIP_DEFLATED) as bomb,
    ):
        for name in plain.namelist():
            bomb.writestr(name, plain.read(name))
    (tmp_path / "plain.pt").unlink()
    with pytest.raises(ParameterError, match=r"bomb\.pt' has \d+ bytes and would unpack to 3145"):
        import_tri(SOURCE, weights=tmp_path / "bomb.pt")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_huge_view_of_one_number_takes_no_memory(tmp_path: Path, dtype: torch.dtype) -> None:
    huge = torch.zeros(1, dtype=dtype).expand(10**6, 10**6)
    torch.save({"weight": huge, "bias": torch.zeros(3)}, tmp_path / "view.pt")
    with pytest.raises(ParameterError, match=r"'weight': expected .* got .*\[1000000, 1000000\]"):
        import_tri(SOURCE, weights=tmp_path / "view.pt")


def test_missing_and_unknown_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no such file"):
        import_tri(SOURCE, weights=tmp_path / "none.safetensors")
    (tmp_path / "w.bin").write_bytes(b"")
    with pytest.raises(ParameterError, match=r"unknown kind '\.bin'"):
        import_tri(SOURCE, weights=tmp_path / "w.bin")
