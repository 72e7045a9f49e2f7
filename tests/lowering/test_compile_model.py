"""`compile_model`, registered back ends, and a plug-in that is really installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl import BackendBase, compile_model, register_backend
from triton_dsl.ir.errors import CompilationError, OptionError, SourceError
from triton_dsl.ir.language.nodes import LayerDef
from triton_dsl.lowering.compile_model import CompiledModel

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """
layer LinearClassifier {
    param weights: TernaryTensor[784, 10]
    param bias: Tensor[10]

    fn forward(x: Tensor[N, 784]) -> Tensor[N, 10] {
        return x @ weights + bias
    }
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "model.tri"
    path.write_text(SOURCE)
    return path


class FPGABackend(BackendBase):
    """The custom back end of the API reference: ports from parameter shapes."""

    def __init__(self, target_device: str = "xcvu9p") -> None:
        self.target_device = target_device

    def generate_code(self, layer_def: LayerDef) -> str:
        lines = [f"// Target: {self.target_device}", f"module {layer_def.name} ("]
        for param in layer_def.params:
            if param.param_type == "TernaryTensor":
                lines.append(f"    input wire [{self._bit_width(param)}:0] {param.name},")
        return "\n".join([*lines, "endmodule"])

    def _bit_width(self, param: Any) -> int:
        numel = 1
        for dim in param.shape:
            numel *= dim
        return numel * 2 - 1

    def compile(self, code: str) -> list[str]:
        return code.splitlines()

    def optimize(self, compiled_model: list[str]) -> list[str]:
        return [line.strip() for line in compiled_model]


def test_a_registered_back_end_compiles_the_checked_layer(program: Path) -> None:
    register_backend("fpga-ports", FPGABackend)
    compiled = compile_model(
        source_file=str(program),
        backend="fpga-ports",
        backend_options={"target_device": "xcvu9p"},
    )
    assert compiled == [
        "// Target: xcvu9p",
        "module LinearClassifier (",
        "input wire [15679:0] weights,",
        "endmodule",
    ]


def test_a_back_end_gets_the_entry_layer(program: Path) -> None:
    program.write_text(SOURCE + "layer Sized(n: int) { fn forward(x: Tensor[n]) { return x } }\n")
    register_backend("fpga-ports", FPGABackend)
    assert compile_model(program, "fpga-ports")[1] == "module LinearClassifier ("
    assert compile_model(program, "fpga-ports", layer="Sized")[1] == "module Sized ("


def test_a_compiled_model_is_shown_in_one_line(program: Path) -> None:
    text = repr(compile_model(program, "pytorch"))
    assert text.startswith("CompiledModel('pytorch', ") and text.endswith(" bytes)")
    assert "\n" not in text and "tensor<" in text


def test_wrong_options_and_names_are_told(program: Path) -> None:
    register_backend("fpga-ports", FPGABackend)
    with pytest.raises(OptionError, match="target_devise"):
        compile_model(program, "fpga-ports", {"target_devise": "x"})
    with pytest.raises(OptionError, match="takes no weights"):
        compile_model(program, "fpga-ports", weights={})
    with pytest.raises(OptionError, match="did you mean 'pytorch'"):
        compile_model(program, "pytorh")
    with pytest.raises(OptionError, match="has no layer 'Other'"):
        compile_model(program, "fpga-ports", layer="Other")
    with pytest.raises(OptionError, match="is the name of a target"):
        register_backend("onnx", FPGABackend)


def test_errors_of_the_program_carry_their_place(program: Path) -> None:
    program.write_text(SOURCE.replace("@ weights", "@ wieghts"))
    with pytest.raises(CompilationError) as caught:
        compile_model(program)
    assert (caught.value.line, caught.value.column) == (7, 20)
    assert caught.value.suggestion is not None and "weights" in caught.value.suggestion
    with pytest.raises(SourceError, match="no such file"):
        compile_model(program.with_name("missing.tri"))


def test_a_target_gives_files(program: Path, tmp_path: Path) -> None:
    compiled = compile_model(program, "pytorch")
    assert isinstance(compiled, CompiledModel)
    (written, *_) = compiled.save(tmp_path / "model.py")
    assert "class LinearClassifier(nn.Module)" in written.read_text()


@pytest.fixture(scope="module")
def plugin_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which `examples/plugin` is installed by pip."""
    pytest.importorskip("setuptools", reason="pip install setuptools")
    folder = tmp_path_factory.mktemp("plugin")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "triton_census.py"):
        (source / name).write_bytes((ROOT / "examples" / "plugin" / name).read_bytes())
    site = folder / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
               "--no-build-isolation", "--disable-pip-version-check", "--target", str(site),
               str(source)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, text=True)
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def run_tool(environment: dict[str, str], module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"triton_dsl.tools.{module}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_target_is_a_target(plugin_environment: dict[str, str], program: Path) -> None:
    listed = run_tool(plugin_environment, "translate", "--list-targets", "--json")
    assert '"census"' in listed
    text = run_tool(plugin_environment, "translate", str(program), "-t", "census{header=true}")
    assert text.startswith(" count op\n")
    assert "1 ternary.linear\n" in text


def test_an_installed_pass_is_a_pass(
    plugin_environment: dict[str, str], program: Path, tmp_path: Path
) -> None:
    module = tmp_path / "m.mlir"
    run_tool(plugin_environment, "translate", str(program), "--import", "-o", str(module))
    text = run_tool(plugin_environment, "opt", str(module), "-p", "name-products{suffix=acc}")
    assert "%weights_acc = ternary.matmul" in text


def test_an_installed_front_end_is_a_front_end(
    plugin_environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "matrix.csv").write_text("1,-2\n0,3\n4,0.5\n")
    np.save(tmp_path / "x.npy", np.array([[1, 2, 3]], np.float32))
    inputs = ["-i", str(tmp_path / "x.npy")]
    text = run_tool(plugin_environment, "cli", "run", str(tmp_path / "matrix.csv"), *inputs)
    assert "[[13.   5.5]]" in text
    assert "tensor<?x3xf32>" in run_tool(plugin_environment, "opt", str(tmp_path / "matrix.csv"))


def test_an_installed_back_end_is_a_back_end(
    plugin_environment: dict[str, str], program: Path
) -> None:
    code = (
        "from triton_dsl import compile_model\n"
        f"print(compile_model({str(program)!r}, 'ports', {{'prefix': 'top_'}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=plugin_environment,
        check=True,
    )
    assert "module top_LinearClassifier" in done.stdout
    assert "[15679:0] weights" in done.stdout


def test_a_back_end_may_only_write_text(tmp_path: Path) -> None:
    class Outline(BackendBase):
        def generate_code(self, layer_def: LayerDef) -> str:
            return f"outline of {layer_def.name}"

    register_backend("outline", Outline)
    path = tmp_path / "net.tri"
    path.write_text("layer Net { fn forward(x: Tensor[N, 2]) -> Tensor[N, 2] { return relu(x) } }")
    assert compile_model(path, backend="outline") == "outline of Net"
