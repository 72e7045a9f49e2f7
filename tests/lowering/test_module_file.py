"""Modules and their parameters on disk."""

import stat
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.parameters import (
    add_parameter,
    attach_store,
    parameter_value,
    parameters,
    store_of,
)
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import ParameterError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.module_file import ModuleFile, save_module, unsaved_entries

W = np.arange(6, dtype=np.float32).reshape(2, 3)
V = np.array([7, 8], dtype=np.int32)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def read(path: Path) -> ModuleOp:
    return parse_module(path.read_text(), str(path))


def values(module: ModuleOp) -> dict[str, list[float]]:
    return {op.key.data: parameter_value(op).ravel().tolist() for op in parameters(module)}


def module_in_memory() -> ModuleOp:
    module = ModuleOp([])
    module.body.block.add_op(add_parameter(module, "w", W))
    return module


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A module in `in/m.mlir` with its parameter file, which holds an entry more than it needs."""
    folder = tmp_path / "in"
    folder.mkdir()
    save_file({"w": W, "other": V}, folder / "m.safetensors")
    module = module_in_memory()
    attach_store(module, ParameterStore.open(folder / "m.safetensors"))
    save_module(module, folder / "m.mlir")
    assert names(folder) == ["m.mlir", "m.safetensors"]
    return folder / "m.mlir"


def test_a_module_without_parameters_is_text_alone(tmp_path: Path) -> None:
    save_module(ModuleOp([]), tmp_path / "m.mlir")
    assert names(tmp_path) == ["m.mlir"]
    assert (tmp_path / "m.mlir").read_text() == "builtin.module {\n}\n"


def test_entries_in_memory_are_saved_beside_the_text(tmp_path: Path) -> None:
    module = module_in_memory()
    assert unsaved_entries(module) == ["w"]
    save_module(module, tmp_path / "m.mlir")
    assert names(tmp_path) == ["m.mlir", "m.safetensors"]
    assert values(read(tmp_path / "m.mlir")) == {"w": W.ravel().tolist()}
    assert unsaved_entries(read(tmp_path / "m.mlir")) == []
    assert stat.S_IMODE((tmp_path / "m.safetensors").stat().st_mode) & 0o444


def test_the_module_itself_keeps_its_store(tmp_path: Path) -> None:
    module = module_in_memory()
    store = store_of(module)
    save_module(module, tmp_path / "m.mlir")
    assert store_of(module) is store
    assert unsaved_entries(module) == ["w"]


def test_entries_that_no_op_names_are_not_saved(tmp_path: Path) -> None:
    module = module_in_memory()
    store_of(module).add("unused", V)
    save_module(module, tmp_path / "m.mlir")
    assert list(load_file(tmp_path / "m.safetensors")) == ["w"]


def test_a_module_whose_parameters_have_no_values_stays_unsaved(tmp_path: Path) -> None:
    module = module_in_memory()
    attach_store(module, ParameterStore.unsaved())
    save_module(module, tmp_path / "m.mlir")
    assert names(tmp_path) == ["m.mlir"]
    assert "#tensor.store<unsaved>" in (tmp_path / "m.mlir").read_text()


def test_a_file_beside_is_named_again(stored: Path) -> None:
    save_module(read(stored), stored.with_name("n.mlir"))
    assert names(stored.parent) == ["m.mlir", "m.safetensors", "n.mlir"]
    assert stored.with_name("n.mlir").read_text() == stored.read_text()


def test_a_file_out_of_reach_is_copied(stored: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    save_module(read(stored), out / "n.mlir")
    assert names(out) == ["m.safetensors", "n.mlir"]
    stored.with_name("m.safetensors").unlink()
    assert values(read(out / "n.mlir")) == {"w": W.ravel().tolist()}


def test_a_file_below_is_named_by_its_path(stored: Path, tmp_path: Path) -> None:
    save_module(read(stored), tmp_path / "n.mlir")
    assert names(tmp_path) == ["in", "n.mlir"]
    assert '"in/m.safetensors"' in (tmp_path / "n.mlir").read_text()
    assert values(read(tmp_path / "n.mlir")) == {"w": W.ravel().tolist()}


def test_stored_and_new_entries_are_saved_together(stored: Path) -> None:
    module = read(stored)
    module.body.block.add_op(add_parameter(module, "v", V))
    save_module(module, stored.with_name("n.mlir"))
    assert values(read(stored.with_name("n.mlir"))) == {"w": W.ravel().tolist(), "v": V.tolist()}
    assert sorted(load_file(stored.with_name("n.safetensors"))) == ["v", "w"]


def test_the_input_s_parameter_file_is_never_overwritten(stored: Path) -> None:
    before = stored.with_name("m.safetensors").read_bytes()
    module = read(stored)
    module.body.block.add_op(add_parameter(module, "v", V))
    save_module(module, stored)
    assert names(stored.parent) == ["m.1.safetensors", "m.mlir", "m.safetensors"]
    assert stored.with_name("m.safetensors").read_bytes() == before
    assert values(read(stored)) == {"w": W.ravel().tolist(), "v": V.tolist()}


def test_a_stranger_s_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(b"precious")
    save_module(module_in_memory(), tmp_path / "m.mlir")
    assert names(tmp_path) == ["m.1.safetensors", "m.mlir", "m.safetensors"]
    assert (tmp_path / "m.safetensors").read_bytes() == b"precious"


def test_writing_again_replaces_what_was_written_before(tmp_path: Path) -> None:
    for value in (W, W + 1):
        module = ModuleOp([])
        module.body.block.add_op(add_parameter(module, "w", value))
        save_module(module, tmp_path / "m.mlir")
    assert names(tmp_path) == ["m.mlir", "m.safetensors"]
    assert values(read(tmp_path / "m.mlir")) == {"w": (W + 1).ravel().tolist()}


def test_writing_the_same_again_makes_no_second_file(tmp_path: Path) -> None:
    for _ in range(2):
        save_module(module_in_memory(), tmp_path / "m.mlir")
        save_module(module_in_memory(), tmp_path / "m.mlir")
    assert names(tmp_path) == ["m.mlir", "m.safetensors"]


def test_several_modules_in_a_file_have_a_parameter_file_each(tmp_path: Path) -> None:
    with ModuleFile(tmp_path / "m.mlir") as file:
        for value in (W, W + 1):
            module = ModuleOp([])
            module.body.block.add_op(add_parameter(module, "w", value))
            file.add(module)
        file.add(ModuleOp([]))
    assert names(tmp_path) == ["m.1.safetensors", "m.mlir", "m.safetensors"]
    parts = (tmp_path / "m.mlir").read_text().split("// -----\n")
    found = [values(parse_module(part, str(tmp_path / "m.mlir"))) for part in parts]
    assert found == [{"w": W.ravel().tolist()}, {"w": (W + 1).ravel().tolist()}, {}]


def test_a_failure_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text("old")
    with pytest.raises(KeyError), ModuleFile(tmp_path / "m.mlir") as file:
        file.add(module_in_memory())
        raise KeyError
    assert names(tmp_path) == ["m.mlir"]
    assert (tmp_path / "m.mlir").read_text() == "old"


def test_a_printer_that_fails_writes_nothing_and_restores_the_store(tmp_path: Path) -> None:
    def fail(module: ModuleOp) -> str:
        raise KeyError

    module = module_in_memory()
    store = store_of(module)
    with pytest.raises(KeyError):
        save_module(module, tmp_path / "m.mlir", fail)
    assert names(tmp_path) == []
    assert store_of(module) is store


def test_a_missing_parameter_file_matters_only_when_it_must_be_read(stored: Path) -> None:
    stored.with_name("m.safetensors").unlink()
    save_module(read(stored), stored.with_name("n.mlir"))
    assert stored.with_name("n.mlir").read_text() == stored.read_text()
    module = read(stored)
    module.body.block.add_op(add_parameter_unread(module))
    with pytest.raises(ParameterError, match=r"m\.safetensors"):
        save_module(module, stored.with_name("o.mlir"))
    assert names(stored.parent) == ["m.mlir", "n.mlir"]


def add_parameter_unread(module: ModuleOp):
    """As `add_parameter`, without looking the key up in the missing file."""
    store = store_of(module)
    store._added["v"] = V  # pyright: ignore[reportPrivateUsage]
    return add_parameter(module, "v", V)


def test_a_device_gets_the_text_alone() -> None:
    save_module(module_in_memory(), Path("/dev/null"))
    assert not Path("/dev/null.safetensors").exists()
