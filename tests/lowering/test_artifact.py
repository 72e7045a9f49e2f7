"""Artefacts on disk: one file, a file with siblings, a folder; whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from triton_dsl.ir.errors import LoweringError, OptionError
from triton_dsl.lowering.artifact import Artifact, manifest_bytes, write_artifact
from triton_dsl.tools import cli, translate

ONE = Artifact("net", {"net.onnx": b"model"})
PAIR = Artifact("net", {"net.py": b"source", "net.safetensors": b"weights"}, primary="net.py")
FOLDER = Artifact("net", {"top.v": b"module", "lib/adder.v": b"adder"}).with_manifest(target="t")


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_single_file_goes_to_the_path_itself(tmp_path: Path) -> None:
    assert write_artifact(ONE, tmp_path / "out.onnx") == [tmp_path / "out.onnx"]
    assert tree(tmp_path) == {"out.onnx": b"model"}


def test_a_single_file_goes_into_a_folder_that_exists(tmp_path: Path) -> None:
    assert write_artifact(ONE, tmp_path) == [tmp_path / "net.onnx"]


def test_siblings_share_the_stem_of_the_output(tmp_path: Path) -> None:
    paths = write_artifact(PAIR, tmp_path / "deep" / "model.py")
    assert paths == [tmp_path / "deep" / name for name in ("model.py", "model.safetensors")]
    assert tree(tmp_path / "deep") == {"model.py": b"source", "model.safetensors": b"weights"}


@pytest.mark.parametrize("command", ["compile", "translate"])
def test_a_separator_at_the_end_makes_a_folder(tmp_path: Path, command: str) -> None:
    source = tmp_path / "net.mlir"
    type = "tensor<3xf32>"
    source.write_text(f"func.func @forward(%x: {type}) -> {type} {{func.return %x : {type}}}")
    main = cli.main if command == "compile" else translate.main
    words = ["compile"] if command == "compile" else []
    folder = f"{tmp_path / 'made'}{os.sep}"
    assert main([*words, str(source), "-t", "pytorch", "-o", folder]) == 0
    assert [path.suffix for path in Path(folder).iterdir()] == [".py"]


def test_several_files_make_a_folder_with_a_manifest(tmp_path: Path) -> None:
    write_artifact(FOLDER, tmp_path / "out")
    files = tree(tmp_path / "out")
    assert files.keys() == {"top.v", "lib/adder.v", "net.manifest.json"}
    manifest = json.loads(files["net.manifest.json"])
    assert manifest["target"] == "t"
    assert manifest["files"]["top.v"] == {
        "bytes": 6,
        "sha256": hashlib.sha256(b"module").hexdigest(),
    }


def test_a_manifest_is_written_on_request(tmp_path: Path) -> None:
    write_artifact(ONE.with_manifest(), tmp_path / "out.onnx", manifest=True)
    assert set(tree(tmp_path)) == {"out.onnx", "out.manifest.json"}


def test_writing_again_replaces_own_files_and_keeps_others(tmp_path: Path) -> None:
    write_artifact(FOLDER, tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    smaller = Artifact("net", {"top.v": b"new", "b.v": b"b"}).with_manifest()
    write_artifact(smaller, tmp_path / "out")
    files = tree(tmp_path / "out")
    assert files.keys() == {"top.v", "b.v", "notes.txt", "net.manifest.json"}
    assert files["top.v"] == b"new"


def test_a_forged_manifest_deletes_nothing_outside(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep")
    (tmp_path / "out").mkdir()
    names = {"../victim": {}, str(victim): {}}
    (tmp_path / "out" / "net.manifest.json").write_text(json.dumps({"files": names}))
    write_artifact(FOLDER, tmp_path / "out")
    assert victim.read_text() == "keep"


def test_without_force_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("old")
    with pytest.raises(OptionError, match=r"model\.safetensors' exists already"):
        write_artifact(PAIR, tmp_path / "model.py", force=False)
    assert tree(tmp_path) == {"model.safetensors": b"old"}


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(OptionError, match="it is a folder"):
        write_artifact(PAIR, tmp_path / "model.py")
    assert tree(tmp_path) == {}
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="cannot write"):
        write_artifact(ONE, tmp_path / "file" / "out.onnx")


def test_a_sibling_may_not_take_the_main_name(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="choose another file name"):
        write_artifact(PAIR, tmp_path / "model.safetensors")


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", "a\\b"])
def test_paths_stay_inside(name: str) -> None:
    with pytest.raises(LoweringError, match="no relative path"):
        Artifact("net", {name: b""})


def test_artefacts_that_make_no_sense_are_refused() -> None:
    with pytest.raises(LoweringError, match="holds no file"):
        Artifact("net", {})
    with pytest.raises(LoweringError, match=r"has no file 'b\.py'"):
        Artifact("net", {"a.py": b""}, primary="b.py")
    with pytest.raises(LoweringError, match="has no file"):
        FOLDER.text()


def test_manifests_are_deterministic() -> None:
    again = Artifact("net", dict(reversed(list(FOLDER.files.items())))).with_manifest(target="t")
    assert manifest_bytes(again.manifest) == manifest_bytes(FOLDER.manifest)
