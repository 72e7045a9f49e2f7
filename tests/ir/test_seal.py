"""Files that carry their SHA-256: readers of their kinds take them, damage is noticed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors.numpy

from triton_dsl import compile_model, from_onnx, import_model
from triton_dsl.ir.errors import IntegrityError
from triton_dsl.ir.seal import check_file, is_whole, sealed
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.to_pytorch.load import load_module
from triton_dsl.lowering.weights import load_weights

PROGRAM = """
layer Linear {
    param weights: TernaryTensor[12, 5]
    param bias: Tensor[5]

    fn forward(x: Tensor[N, 12]) -> Tensor[N, 5] { return x @ weights + bias }
}
"""


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("model")
    (folder / "linear.tri").write_text(PROGRAM)
    values = {
        "weights": rng.integers(-1, 2, (12, 5)).astype(np.int8),
        "bias": rng.standard_normal(5).astype(np.float32),
    }
    return {
        target: compile_model(folder / "linear.tri", target, weights=values).artifact
        for target in ("pytorch", "onnx", "tflite")
    }


def sealed_files(artifacts: dict[str, Artifact]) -> dict[str, bytes]:
    files = {name: data for a in artifacts.values() for name, data in a.files.items()}
    found = {Path(name).suffix: data for name, data in files.items()}
    return {suffix: found[suffix] for suffix in (".onnx", ".tflite", ".safetensors")}


def test_the_digest_is_that_of_the_file_with_noughts_for_it(artifacts: dict[str, Artifact]) -> None:
    for suffix, data in sealed_files(artifacts).items():
        at = data.index(b"triton_dsl.sha256") + len("triton_dsl.sha256")
        at += {".onnx": 2, ".tflite": 1, ".safetensors": 3}[suffix]
        stated = data[at : at + 64]
        without = data.replace(stated, b"0" * 64)
        assert hashlib.sha256(without).hexdigest().encode() == stated
        assert is_whole(suffix, data, "it")


def test_every_kind_is_read_by_its_own_library(artifacts: dict[str, Artifact]) -> None:
    files = sealed_files(artifacts)
    model = onnx.load_from_string(files[".onnx"])
    onnx.checker.check_model(model, full_check=True)
    assert next(entry.key for entry in model.metadata_props) == "triton_dsl.sha256"
    assert safetensors.numpy.load(files[".safetensors"])["bias"].shape == (5,)
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(model_content=files[".tflite"])
    interpreter.allocate_tensors()


@pytest.mark.parametrize("suffix", [".onnx", ".tflite", ".safetensors"])
def test_each_of_3000_flipped_bits_is_noticed(artifacts: dict[str, Artifact], suffix: str) -> None:
    data = sealed_files(artifacts)[suffix]
    rng = np.random.default_rng(1)
    missed: list[int] = []
    for bit in rng.integers(8 * len(data), size=3000).tolist():
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            is_whole(suffix, changed, "it")
        except IntegrityError:
            continue
        missed.append(bit)
    assert not missed


def test_readers_refuse_damaged_files(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    for suffix, data in sealed_files(artifacts).items():
        path = tmp_path / f"model{suffix}"
        path.write_bytes(data[:-9] + bytes([data[-9] ^ 4]) + data[-8:])
        read = load_weights if suffix == ".safetensors" else import_model
        with pytest.raises(IntegrityError, match="not what was written"):
            read(path)
        path.write_bytes(data)
        read(path)
    generated = artifacts["pytorch"].text()
    weights = sealed_files(artifacts)[".safetensors"]
    with pytest.raises(IntegrityError, match="not what was written"):
        load_module(generated, weights[:-1] + bytes([weights[-1] ^ 1]))


def test_generated_modules_refuse_damaged_weights(
    artifacts: dict[str, Artifact], tmp_path: Path
) -> None:
    weights = sealed_files(artifacts)[".safetensors"]
    namespace: dict[str, object] = {"__file__": str(tmp_path / "m.py"), "__name__": "m"}
    exec(compile(artifacts["pytorch"].text(), "m.py", "exec"), namespace)
    load: object = namespace["load"]
    assert callable(load)
    (tmp_path / "m.safetensors").write_bytes(weights)
    load()
    for at in (20, 60, len(weights) - 2):
        (tmp_path / "m.safetensors").write_bytes(
            weights[:at] + bytes([weights[at] ^ 1]) + weights[at + 1 :]
        )
        with pytest.raises(ValueError, match="not what was written"):
            load()


def test_what_another_tool_wrote_anew_is_its_own(
    artifacts: dict[str, Artifact], tmp_path: Path
) -> None:
    files = sealed_files(artifacts)
    model = onnx.load_from_string(files[".onnx"])
    model.doc_string = "changed on purpose"
    onnx.save(model, tmp_path / "changed.onnx")
    assert not check_file(tmp_path / "changed.onnx")
    from_onnx(tmp_path / "changed.onnx")
    tensors = safetensors.numpy.load(files[".safetensors"])
    tensors["bias"] = tensors["bias"] + 1
    safetensors.numpy.save_file(tensors, tmp_path / "trained.safetensors")
    assert not check_file(tmp_path / "trained.safetensors")


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}])
def test_metadata_stays_beside_the_seal(metadata: dict[str, str] | None) -> None:
    plain = safetensors.numpy.save({"a": np.arange(3.0)}, metadata)
    data = sealed(".safetensors", plain)
    assert is_whole(".safetensors", data, "it")
    np.testing.assert_array_equal(safetensors.numpy.load(data)["a"], np.arange(3.0))
    empty = sealed(".safetensors", safetensors.numpy.save({}))
    assert is_whole(".safetensors", empty, "it") and not safetensors.numpy.load(empty)


@pytest.mark.parametrize("suffix", [".onnx", ".tflite", ".safetensors", ".py"])
def test_short_and_foreign_files_carry_nothing(suffix: str, tmp_path: Path) -> None:
    for content in (b"", b"x", bytes(30), bytes(500)):
        path = tmp_path / f"f{suffix}"
        path.write_bytes(content)
        assert not check_file(path)
    assert not check_file(tmp_path / f"missing{suffix}")
