"""`FPGABackend`: a layer as Verilog, with its weights in it or as ports."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl import FPGABackend, compile_model, import_model, register_backend
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import LoweringError, OptionError, UnsupportedError
from triton_dsl.ir.language.checker import TypeChecker
from triton_dsl.ir.language.nodes import LayerDef
from triton_dsl.lowering import compile_model as compilation
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.stages import apply_passes
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.simulation import run_verilog
from triton_dsl.passes.quantize_activations.integer_pipeline import integer_pipeline

RequireTool = Callable[[str, str], str]

FLOATS = """
layer LinearClassifier {
    param weights: TernaryTensor[784, 10]
    param bias: Tensor[10]

    fn forward(x: Tensor[N, 784]) -> Tensor[N, 10] {
        return x @ weights + bias
    }
}
"""

INTEGERS = """
layer Net {
    param weights: TernaryTensor[8, 3]

    fn forward(x: Tensor<int8>[N, 8]) -> Tensor<int32>[N, 3] {
        return x @ weights
    }
}
"""


@pytest.fixture
def registered() -> Iterator[None]:
    """The name `fpga` for `FPGABackend`, as long as a test runs."""
    register_backend("fpga", FPGABackend)
    yield
    del compilation._backends["fpga"]  # pyright: ignore[reportPrivateUsage]


def layer(source: str) -> LayerDef:
    program = TypeChecker().check_source(source)
    keep.append(program)
    return program.layers[0]


keep: list[object] = []
"""Programs, without which their layers are not known any more."""


@pytest.mark.usefixtures("registered")
def test_the_snippet_of_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, iverilog: str
) -> None:
    (tmp_path / "model.tri").write_text(FLOATS)
    monkeypatch.chdir(tmp_path)
    compiled = compile_model(
        source_file="model.tri", backend="fpga", backend_options={"target_device": "xcvu9p"}
    )
    assert isinstance(compiled, Artifact)
    assert compiled.main_file == "LinearClassifier.v"
    code = compiled.text()
    assert code.startswith("// Target: xcvu9p\n")
    assert "module LinearClassifier (\n    input wire [15679:0] weights," in code
    ports = dict(re.findall(r"wire \[(\d+):0\] (\w+)", code))
    assert {int(bits) + 1 for bits in ports} == {2 * 7840, 32 * 10, 32 * 784}
    (tmp_path / "out.v").write_text(code)
    subprocess.run([iverilog, "-Wall", "-o", "out", "out.v"], cwd=tmp_path, check=True)


@pytest.mark.usefixtures("registered")
def test_with_weights_it_is_a_circuit(tmp_path: Path) -> None:
    source = tmp_path / "model.tri"
    source.write_text(INTEGERS)
    weights = {"weights": np.random.default_rng(0).integers(-1, 2, (8, 3)).astype(np.int8)}
    given = {"target_device": "xc7a35t", "weights": weights, "input_bits": 4}
    compiled = compile_model(source, "fpga", given)
    direct = compile_model(
        source, "verilog", {"device": "xc7a35t", "input_bits": 4, "form": "file"}, weights=weights
    )
    assert compiled.text() == "// Target: xc7a35t\n" + direct.artifact.text()
    assert compiled.main_file == direct.artifact.main_file
    assert "s_axis_tdata" in compiled.text()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(OptionError, match="unknown device 'xcvu9'; did you mean 'xcvu9p'"):
        FPGABackend("xcvu9")
    weights = {"weights": np.zeros((784, 10), np.int8), "bias": np.zeros(10, np.float32)}
    with pytest.raises(UnsupportedError, match="quantise"):
        FPGABackend(weights=weights).generate_code(layer(FLOATS))
    program = TypeChecker().check_source(INTEGERS)
    lost = program.layers[0]
    del program
    with pytest.raises(LoweringError, match="is of no checked program"):
        FPGABackend().generate_code(lost)


CLASSIFIER = FLOATS.replace("784", "24").replace("10", "5")


@pytest.mark.parametrize("by", ["calibration", pytest.param("input_range", marks=pytest.mark.slow)])
def test_a_float_classifier_is_a_circuit(by: str, tmp_path: Path, iverilog: str) -> None:
    rng = np.random.default_rng(3)
    weights = {
        "weights": rng.integers(-1, 2, (24, 5)).astype(np.int8),
        "bias": rng.normal(size=5).astype(np.float32),
    }
    x = rng.uniform(0, 1, (40, 24)).astype(np.float32)
    given: dict[str, Any] = {"calibration": x} if by == "calibration" else {"input_range": (0, 1)}
    backend = FPGABackend("xc7a35t", weights=weights, **given)
    code = backend.generate_code(layer(CLASSIFIER))
    assert code == backend.generate_code(layer(CLASSIFIER))
    assert "blackbox" not in code and "s_axis_tdata" in code
    # The same circuit as a folder has a test bench, and runs.
    samples = x if by == "calibration" else np.stack([np.zeros(24), *x[2:], np.ones(24)])
    path = tmp_path / "samples.npy"
    np.save(path, samples.astype(np.float32))
    (tmp_path / "model.tri").write_text(CLASSIFIER)
    module = import_model(tmp_path / "model.tri", weights=weights)
    options = {"calibration": str(path), "device": "xc7a35t"}
    direct = compile_to_target(module.clone(), "verilog", {**options, "form": "file"})
    text = direct.text().replace(str(tmp_path / "model.tri"), "<string>")
    assert code == f"// Target: xc7a35t\n{text}"
    folder = compile_to_target(module.clone(), "verilog", options)
    _, (found,) = run_verilog(folder, [x[:8]])
    apply_passes(module, integer_pipeline(str(path)))
    (expected,) = run_module(module, [x[:8]])
    np.testing.assert_array_equal(found, expected)
    floats = x[:8] @ weights["weights"] + weights["bias"]
    assert np.abs(found - floats).max() < 24 / 255 / 2
    (tmp_path / "out.v").write_text(code)
    subprocess.run([iverilog, "-Wall", "-o", "out", "out.v"], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input_range": (0, 1)}, "give weights="),
        ({"weights": {}, "input_range": (1, 0)}, "low < high"),
        ({"weights": {}, "input_range": (0, float("inf"))}, "low < high"),
        ({"weights": {}, "input_range": (0, 1), "calibration": "x.npy"}, "in the place of"),
    ],
)
def test_ranges_are_checked(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        FPGABackend(**given)
