"""Packages: the same bytes again, what they hold, and that nothing in them changes unnoticed."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2

from triton_dsl import build_package, import_model, load_package
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import IntegrityError, OptionError
from triton_dsl.lowering.artifact import Artifact, write_artifact
from triton_dsl.lowering.packages.archive import from_archive, from_folder, to_archive
from triton_dsl.lowering.packages.package import read_package
from triton_dsl.tools import cli

PROGRAM = """
layer Linear {
    param weights: TernaryTensor[12, 5]
    param bias: Tensor[5]

    fn forward(x: Tensor[N, 12]) -> Tensor[N, 5] { return x @ weights + bias }
}
"""


@pytest.fixture(scope="module")
def weights() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "weights": rng.integers(-1, 2, (12, 5)).astype(np.int8),
        "bias": rng.standard_normal(5).astype(np.float32),
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "linear.tri"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(scope="module")
def built(model: Path, weights: dict[str, Any]) -> Artifact:
    return build_package(
        model, ["onnx", "pytorch", "onnx{opset=17}"], weights=weights, license="MIT"
    )


@pytest.fixture(scope="module")
def content(built: Artifact) -> bytes:
    return to_archive(built)


def refused(content: bytes, match: str | None = None) -> None:
    with pytest.raises(IntegrityError, match=match):
        from_archive(content, "it")


def test_the_same_model_gives_the_same_bytes(
    model: Path, weights: dict[str, Any], content: bytes
) -> None:
    again = build_package(
        model, ["onnx", "pytorch", "onnx{opset=17}"], weights=weights, license="MIT"
    )
    assert to_archive(again) == content


def test_each_target_gives_what_the_layer_of_pytorch_gives(
    content: bytes, weights: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "linear.tpk").write_bytes(content)
    package = load_package(tmp_path / "linear.tpk")
    assert list(package.targets) == ["onnx", "onnx-2", "pytorch"]
    assert package.targets["onnx-2"]["target"] == "onnx{opset=17}"
    x = np.random.default_rng(2).standard_normal((7, 12)).astype(np.float32)
    wanted = x @ weights["weights"].astype(np.float64) + weights["bias"]
    for target in package.targets:
        np.testing.assert_allclose(package.run([x], target)[0], wanted, atol=1e-5)
    result = package.torch_module()(torch.from_numpy(x))
    np.testing.assert_allclose(result.detach().numpy(), wanted, atol=1e-5)
    with pytest.raises(OptionError, match="it has onnx, onnx-2, pytorch"):
        package.target("native")
    assert str(import_model(tmp_path / "linear.tpk")) == str(package.module())


def test_programs_of_the_system_unpack_and_check_it(content: bytes, tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path)
    manifest = json.loads((tmp_path / "linear.manifest.json").read_text())
    assert manifest["license"] == "MIT" and manifest["source"]["file"] == "linear.tri"
    sums = "".join(f"{facts['sha256']}  {name}\n" for name, facts in manifest["files"].items())
    subprocess.run(["sha256sum", "-c", "--strict"], input=sums, cwd=tmp_path, text=True, check=True)
    assert from_folder(tmp_path).files == from_archive(content, "it").files


def test_the_provenance_is_an_in_toto_statement_of_slsa(built: Artifact) -> None:
    empty: Any = vars(statement_pb2)["Statement"]()
    statement: Any = json_format.Parse(built.files["provenance.json"], empty)
    assert statement.type == "https://in-toto.io/Statement/v1"
    assert statement.predicate_type == "https://slsa.dev/provenance/v1"
    subjects = {subject.name: subject.digest["sha256"] for subject in statement.subject}
    others = {name: data for name, data in built.files.items() if name != "provenance.json"}
    assert subjects == {name: hashlib.sha256(data).hexdigest() for name, data in others.items()}
    definition = json.loads(built.files["provenance.json"])["predicate"]["buildDefinition"]
    assert definition["resolvedDependencies"][0]["name"] == "linear.tri"
    passes = [stage["passes"] for stage in definition["internalParameters"]["pipelines"]["onnx"]]
    assert any("fold-constants" in text for text in passes)


def test_each_of_2500_flipped_bits_is_noticed(content: bytes) -> None:
    rng = np.random.default_rng(3)
    missed: list[int] = []
    for bit in rng.integers(8 * len(content), size=2500).tolist():
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            from_archive(bytes(changed), "it")
        except IntegrityError:
            continue
        missed.append(bit)
    assert not missed


def test_flipped_bits_of_a_folder_are_noticed(built: Artifact, tmp_path: Path) -> None:
    paths = write_artifact(built, tmp_path / "p", manifest=True)
    rng = np.random.default_rng(4)
    for index in range(300):
        path = paths[index % len(paths)]
        data = path.read_bytes()
        bit = int(rng.integers(8 * len(data)))
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(IntegrityError):
            from_folder(tmp_path / "p")
        path.write_bytes(data)
    (tmp_path / "p" / "notes.txt").write_text("left alone")
    assert from_folder(tmp_path / "p").files == built.files
    paths[0].unlink()
    with pytest.raises(IntegrityError, match="No such file"):
        from_folder(tmp_path / "p")


def test_truncated_and_lengthened_packages_are_refused(content: bytes) -> None:
    for size in (0, 1, 21, 22, 1000, len(content) // 2, len(content) - 1):
        refused(content[:size])
    refused(content + b"\0")
    refused(b"#!/bin/sh\n" + content)


def test_archives_that_are_no_packages_are_refused(content: bytes, built: Artifact) -> None:
    def rewritten(kind: int, more: dict[str, bytes]) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", kind) as archive:
            for name, data in {**dict(built.files), **more}.items():
                archive.writestr(name, data)
        return buffer.getvalue()

    refused(rewritten(zipfile.ZIP_STORED, {}), "no manifest")
    refused(rewritten(zipfile.ZIP_DEFLATED, {"bomb": bytes(50_000_000)}), "compressed")
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        for index in range(5000):
            archive.writestr(str(index), b"")
    refused(many.getvalue(), "more than 4096")
    # Entries that say they are larger than the file, or that share their bytes.
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        last = archive.infolist()[-1].header_offset
    at = content.index(b"PK\x01\x02")
    lying = content[: at + 20] + struct.pack("<II", 1 << 31, 1 << 31) + content[at + 28 :]
    refused(lying)
    shared = content[: at + 42] + struct.pack("<I", last) + content[at + 46 :]
    refused(shared)


@pytest.mark.parametrize(
    "name", ["/etc/x", "../x", "a/../../x", "a\\b", "", "a//b", "./a", "a/", ".", "c:x", "a\nb"]
)
def test_paths_that_lead_out_are_refused(name: str) -> None:
    facts = {"bytes": 1, "sha256": hashlib.sha256(b"x").hexdigest()}
    manifest = {"name": "m", "files": {name: facts}}
    artifact = Artifact("m", {"x": b"x"}, manifest)
    object.__setattr__(artifact, "files", {name: b"x"})
    refused(to_archive(artifact))


@pytest.mark.parametrize("names", [("A", "a"), ("q/a", "q/A"), ("q", "q/a"), ("Q/a", "q/b")])
def test_files_that_are_one_on_some_disks_are_refused(names: tuple[str, str]) -> None:
    artifact = Artifact("m", dict.fromkeys(names, b"x")).with_manifest(name="m")
    refused(to_archive(artifact), "one on some disks")


@pytest.mark.parametrize(
    "said",
    [
        {"targets": 5}, {"targets": [["a"]]}, {"targets": {"a": 5}}, {"targets": {"a": {}}},
        {"targets": {"a": {"target": "onnx", "name": "../x"}}}, {"versions": 5},
        {"versions": {"a": []}}, {"source": [["a"]]}, {"accuracy": {"a": "b"}}, {"name": "c:x"},
        {"format": "triton-dsl package 2"},
    ],
)  # fmt: skip
def test_manifests_that_no_package_has_are_refused(said: dict[str, Any], built: Artifact) -> None:
    """Whoever computes all hashes anew gets no further than these words."""
    manifest = {**built.manifest, **said}
    content = to_archive(Artifact(str(manifest["name"]), built.files, manifest))
    with pytest.raises(IntegrityError):
        read_package(io.BytesIO(content), "it")


def test_a_manifest_must_name_every_file_and_no_other(built: Artifact) -> None:
    fewer = Artifact(built.name, {k: v for k, v in built.files.items() if k != "program.mlir"})
    object.__setattr__(fewer, "manifest", built.manifest)
    refused(to_archive(fewer), "not those of its manifest")
    more = Artifact(built.name, {**built.files, "extra": b""}, built.manifest)
    refused(to_archive(more), "not those of its manifest")


def test_measured_shares_are_those_of_the_labels(
    model: Path, weights: dict[str, Any], tmp_path: Path
) -> None:
    x = np.random.default_rng(5).standard_normal((40, 12)).astype(np.float32)
    scores = x @ weights["weights"].astype(np.float64) + weights["bias"]
    labels = scores.argmax(axis=1)
    labels[:10] = (labels[:10] + 1) % 5
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "labels.npy", labels)
    np.savez(tmp_path / "w.npz", **weights)
    out = tmp_path / "m.tpk"
    words = ["package", str(model), "-w", str(tmp_path / "w.npz"), "-t", "onnx", "-o", str(out)]
    samples = ["-i", str(tmp_path / "x.npy"), "--labels", str(tmp_path / "labels.npy")]
    assert cli.main([*words, *samples]) == 0
    assert load_package(out).manifest["accuracy"] == {"onnx": 0.75}


@pytest.mark.parametrize("type", ["bf16", "f16", "f64", "i8", "ui16", "i1"])
def test_weights_of_any_type_come_back(type: str, tmp_path: Path) -> None:
    names = {"bf16": "bfloat16", "i1": "bool", "f16": "float16", "f64": "float64"}
    dtype = np.dtype(names.get(type) or type.replace("ui", "uint").replace("i8", "int8"))
    values = np.array([[1, 0, 3]]).astype(dtype)
    tensor = f"tensor<1x3x{type}>"
    path = tmp_path / "m.mlir"
    path.write_text(
        f"func.func @forward(%x: {tensor}) -> {tensor} {{\n"
        f'  %w = tensor.parameter "w" : {tensor}\n  func.return %w : {tensor}\n}}'
    )
    archive = to_archive(build_package(path, weights={"w": values}))
    module = read_package(io.BytesIO(archive), "it").module()
    (result,) = run_module(module, [values])
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, values)


@pytest.mark.parametrize("name", ["a/b", "a\\b", "a\nb", "c:x"])
def test_names_stay_in_their_folder(name: str, model: Path, weights: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="cannot be named"):
        build_package(model, weights=weights, name=name)


def test_a_terminal_obeys_no_package(
    built: Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"license": "\x1b]0;title\x07[/b]", "versions": {"a": "\x1b[2J\u202etxt"}}
    path = tmp_path / "m.tpk"
    path.write_bytes(to_archive(Artifact(built.name, built.files, {**built.manifest, **said})))
    assert cli.main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert r"\x1b]0;title\x07[/b]" in shown and r"\x1b[2J\u202etxt" in shown
    assert cli.main(["inspect", str(tmp_path / "\x1b[2J.tpk")]) == 1
    assert not set("\x1b\x07\u202e") & set(shown + capsys.readouterr().err)


def test_commands_tell_and_refuse(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.tpk"
    path.write_bytes(content)
    assert cli.main(["inspect", str(path), "--json", "--extract", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out)["license"] == "MIT"
    assert cli.main(["verify-package", str(path), str(tmp_path / "out")]) == 0
    assert cli.main(["verify-package", str(tmp_path / "out/onnx/Linear.onnx")]) == 0
    capsys.readouterr()
    assert cli.main(["verify-package", str(tmp_path / "out/pytorch/linear.py")]) == 1
    assert "carries no SHA-256" in capsys.readouterr().err
    path.write_bytes(content[:-5] + b"\1" + content[-4:])
    for command in (["inspect"], ["verify-package"], ["run"], ["verify"]):
        assert cli.main([*command, str(path)]) == 1
        err = capsys.readouterr().err
        assert err.startswith("triton: error: ") and "Traceback" not in err
