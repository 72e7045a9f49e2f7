"""Parameter stores: what is read, what is refused and what the message names."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_tensors

from triton_dsl.ir.errors import ParameterError
from triton_dsl.ir.store import ParameterStore, file_sha256, read_arrays, save_arrays

WEIGHTS = {
    "fc1.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "fc1.bias": np.array([1, -1], np.int8),
}


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights.safetensors"
    save_file(WEIGHTS, path)
    return path


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def referenced(weights: Path, digest: str | None = None) -> ParameterStore:
    """The store that a module beside `weights` names."""
    module = weights.with_name("model.mlir")
    module.write_text("")
    return ParameterStore.referenced(weights.name, digest or digest_of(weights), beside=str(module))


def test_reading_through_a_reference(weights: Path) -> None:
    store = referenced(weights)
    assert store.names() == ["fc1.bias", "fc1.weight"]
    assert "fc1.bias" in store and "fc2.bias" not in store
    for name, array in WEIGHTS.items():
        read = store.read(name)
        assert read.dtype == array.dtype
        np.testing.assert_array_equal(read, array)
        assert not read.flags.writeable


def test_nothing_is_opened_before_it_is_read(tmp_path: Path) -> None:
    store = ParameterStore.referenced("absent.safetensors", "0" * 64, beside=str(tmp_path / "m"))
    with pytest.raises(ParameterError, match=r"absent\.safetensors': No such file or directory"):
        store.read("x")


def test_a_wrong_hash_is_refused(weights: Path) -> None:
    store = referenced(weights, "ab" * 32)
    with pytest.raises(ParameterError) as refused:
        store.read("fc1.weight")
    message = str(refused.value)
    assert str(weights) in message and digest_of(weights) in message and "ab" * 32 in message


def test_a_changed_file_is_refused(weights: Path) -> None:
    store = referenced(weights)
    save_file({**WEIGHTS, "more": np.zeros(1)}, weights)
    with pytest.raises(ParameterError, match="it is not the file the module was written with"):
        store.read("fc1.weight")


def test_an_upper_case_hash_is_the_same_hash(weights: Path) -> None:
    referenced(weights, digest_of(weights).upper()).read("fc1.weight")


def test_a_missing_key_suggests_a_close_one(weights: Path) -> None:
    message = re.escape(f"'{weights}' has no entry 'fc1.wieght'; did you mean 'fc1.weight'?")
    with pytest.raises(ParameterError, match=message):
        referenced(weights).read("fc1.wieght")
    with pytest.raises(ParameterError, match=r"has no entry 'zzz'$"):
        referenced(weights).read("zzz")


@pytest.mark.parametrize(
    "path",
    ["../w.safetensors", "/etc/passwd", "a/../../w", "..", "", "a\\..\\w", "a\0b"],
)
def test_paths_that_leave_the_folder_are_refused(path: str) -> None:
    with pytest.raises(ParameterError, match="must be a relative path inside the folder"):
        ParameterStore.referenced(path, "0" * 64, beside="model.mlir")


def test_a_path_into_a_folder_below_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    weights = tmp_path / "sub" / "w.safetensors"
    save_file(WEIGHTS, weights)
    module = tmp_path / "m.mlir"
    module.write_text("")
    digest = digest_of(weights)
    store = ParameterStore.referenced("sub/w.safetensors", digest, beside=str(module))
    np.testing.assert_array_equal(store.read("fc1.bias"), WEIGHTS["fc1.bias"])


@pytest.mark.parametrize("keep", [0, 4, 8, 40, -1])
def test_truncated_files_are_refused(weights: Path, keep: int) -> None:
    weights.write_bytes(weights.read_bytes()[:keep])
    with pytest.raises(ParameterError, match=r"weights\.safetensors' is not safetensors: "):
        referenced(weights).read("fc1.weight")
    with pytest.raises(ParameterError, match=r"weights\.safetensors' is not safetensors: "):
        read_arrays(weights)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"parameter file '.*': Is a directory$"):
        read_arrays(tmp_path)


def test_a_type_that_numpy_lacks_is_refused(tmp_path: Path) -> None:
    header = json.dumps({"x": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}).encode()
    path = tmp_path / "f8.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0")
    with pytest.raises(ParameterError, match=r"entry 'x' of '.*' cannot be read"):
        ParameterStore.open(path).read("x")


def test_a_store_without_a_file_says_what_to_do() -> None:
    with pytest.raises(ParameterError, match=r"'w' is in no file: give weights .*with '-o FILE'"):
        ParameterStore.unsaved().read("w")


def test_opening_a_missing_file() -> None:
    with pytest.raises(ParameterError, match=r"'nowhere\.safetensors': No such file"):
        ParameterStore.open(Path("nowhere.safetensors"))


def test_adding_keeps_every_entry() -> None:
    store = ParameterStore.unsaved()
    assert store.add("w", np.zeros(2, np.float32)) == "w"
    assert store.add("w", np.zeros(2, np.float32)) == "w"
    assert store.add("w", np.ones(2, np.float32)) == "w.1"
    assert store.add("w", np.zeros(2, np.int32)) == "w.2"
    assert store.add("w", np.ones(2, np.float32)) == "w.1"
    assert store.names() == ["w", "w.1", "w.2"] == store.added_names


def test_an_added_entry_does_not_hide_the_file_s(weights: Path) -> None:
    store = referenced(weights)
    assert store.add("fc1.bias", np.zeros(2, np.int8)) == "fc1.bias.1"
    assert store.add("fc1.bias", WEIGHTS["fc1.bias"]) == "fc1.bias"
    np.testing.assert_array_equal(store.read("fc1.bias"), WEIGHTS["fc1.bias"])
    assert store.names() == ["fc1.bias", "fc1.bias.1", "fc1.weight"]
    assert store.added_names == ["fc1.bias.1"]


def test_saving_gives_the_hash_and_a_plain_file(tmp_path: Path) -> None:
    store = ParameterStore.of({**WEIGHTS, "unused": np.zeros(3)})
    path = tmp_path / "out.safetensors"
    digest = store.save(path, WEIGHTS)
    assert digest == digest_of(path) == file_sha256(path)
    loaded = load_file(path)
    assert set(loaded) == set(WEIGHTS)
    for name, array in WEIGHTS.items():
        np.testing.assert_array_equal(loaded[name], array)
    assert [p.name for p in tmp_path.iterdir()] == ["out.safetensors"]


def test_the_same_entries_give_the_same_file(tmp_path: Path) -> None:
    forward = save_arrays(tmp_path / "a", WEIGHTS)
    backward = save_arrays(tmp_path / "b", dict(reversed(list(WEIGHTS.items()))))
    assert forward == backward


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.safetensors"
    save_arrays(path, WEIGHTS)
    before = path.read_bytes()
    with pytest.raises(Exception):  # noqa: B017 (whatever safetensors raises for such a dtype)
        save_arrays(path, {"x": np.array(["text"])})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["out.safetensors"]


def test_a_scalar_stays_a_scalar(tmp_path: Path) -> None:
    path = tmp_path / "scalar.safetensors"
    save_arrays(path, {"steps": np.array(7)})
    assert load_file(path)["steps"].shape == ()


def test_entries_are_the_same_only_bit_for_bit() -> None:
    store = ParameterStore.of({"w": np.array([0.0, np.nan], np.float32)})
    assert store.add("w", np.array([0.0, np.nan], np.float32)) == "w"
    assert store.add("w", np.array([-0.0, np.nan], np.float32)) == "w.1"
    assert store.add("w", np.array([0.0, np.nan])) == "w.2"


def test_the_names_of_a_file_are_listed_once(weights: Path) -> None:
    """Listing them for every entry made large models quadratic."""
    store = referenced(weights)
    store.names()
    listed = 0

    class Counted:
        def keys(self) -> list[str]:
            nonlocal listed
            listed += 1
            return list(WEIGHTS)

        def get_tensor(self, name: str) -> NDArray[Any]:
            return WEIGHTS[name].copy()

    store._file = Counted()  # pyright: ignore[reportPrivateUsage]
    for name in WEIGHTS:
        assert name in store and store.read(name).shape == WEIGHTS[name].shape
    store.add("new", np.zeros(1))
    assert listed == 0


BFLOAT16 = """import sys
from pathlib import Path
from triton_dsl.ir.store import parse_arrays, read_arrays
path = Path(sys.argv[1])
for arrays in (read_arrays, lambda path: parse_arrays(path.read_bytes())):
    print(arrays(path)["w"].astype("float32").tolist())
"""


def test_bfloat16_is_read_by_a_process_that_reads_nothing_else(tmp_path: Path) -> None:
    """The type is NumPy's only once `ml_dtypes` is imported."""
    path = tmp_path / "w.safetensors"
    save_tensors({"w": torch.tensor([1.5, -2.25]).bfloat16()}, path)
    done = subprocess.run(
        [sys.executable, "-c", BFLOAT16, path], capture_output=True, text=True, check=False
    )
    assert done.stdout == "[1.5, -2.25]\n" * 2, done.stderr
