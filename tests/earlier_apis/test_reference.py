"""The examples of an earlier API reference, as its users type them: code generation and export.

Imports are those of the table in `docs/earlier_interfaces.md`. Not here: examples of tensors,
layers and profiles (`tests/runtime/test_api_snippets.py`), of backends of one's own
(`tests/lowering/test_compile_model.py`), and of FPGAs (`tests/lowering/to_verilog`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.models import import_model

from .test_calls import HOMES, named


def run(source: str, **names: Any) -> dict[str, Any]:
    """Execute a program in which names of earlier interfaces stand for those of here."""
    told = {name: named(name) for name in HOMES if re.search(rf"\b{name}\b", source)}
    scope = {**told, **names}
    exec(compile(source, "<snippet>", "exec"), scope)
    return scope


def test_a_layer_becomes_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    left = run('''
source = """
layer LinearClassifier {
    param weights: TernaryTensor[784, 10]
    param bias: Tensor[10]

    fn forward(x: Tensor[N, 784]) -> Tensor[N, 10] {
        return x @ weights + bias
    }
}
"""

parser = TritonParser()
ast = parser.parse(source)
type_checker = TypeChecker()
typed_ast = type_checker.check(ast)

# Generate PyTorch code
codegen = PyTorchCodeGenerator()
pytorch_code = codegen.generate_module(typed_ast.layers[0])
print(pytorch_code)
''')
    code = capsys.readouterr().out
    assert code == left["pytorch_code"] + "\n"
    scope: dict[str, Any] = {}
    exec(compile(code, "<generated>", "exec"), scope)
    module = scope["LinearClassifier"]()
    assert module.weights.dtype == torch.uint8 and module.weights.shape == (1960,)
    assert isinstance(module.bias, nn.Parameter) and module.bias.shape == (10,)
    # Code 01 is +1 and 10 is -1, four a byte.
    module.weights.fill_(0b00_00_10_01)
    weight = torch.tensor([1.0, -1.0, 0.0, 0.0]).repeat(1960).reshape(784, 10)
    x = torch.randn(3, 784)
    torch.testing.assert_close(module(x), x @ weight + module.bias, rtol=1e-4, atol=1e-4)


def test_a_module_of_packed_trits_runs() -> None:
    left = run("""
class LinearClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        # Ternary parameters stored as packed uint8
        self.register_buffer('weights', torch.zeros(1960, dtype=torch.uint8))
        self.bias = nn.Parameter(torch.zeros(10))

    def forward(self, x):
        # Unpack and apply ternary operations
        weights_unpacked = unpack_ternary(self.weights, (784, 10)).float()
        return torch.matmul(x, weights_unpacked) + self.bias
""", torch=torch, nn=nn)  # fmt: skip
    assert torch.equal(left["LinearClassifier"]()(torch.randn(2, 784)), torch.zeros(2, 10))


@pytest.fixture(scope="module")
def resnet() -> nn.Module:
    torch.manual_seed(0)
    return named("ternary_resnet18")(num_classes=10).eval()


@pytest.mark.slow
def test_a_residual_network_goes_through_onnx(
    resnet: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    torch.save(resnet.state_dict(), "resnet18_ternary.pth")
    left = run('''
from pathlib import Path

# Create and load trained model
model = ternary_resnet18(num_classes=10)
model.load_state_dict(torch.load('resnet18_ternary.pth'))
model.eval()

# Export to ONNX
success = export_to_onnx(
    model=model,
    output_path=Path("resnet18_ternary.onnx"),
    input_shape=(1, 3, 32, 32),
    input_names=['image'],
    output_names=['logits'],
    opset_version=13,
    dynamic_axes={
        'image': {0: 'batch_size'},
        'logits': {0: 'batch_size'}
    },
    verbose=True
)

if success:
    print("ONNX export successful!")

import onnx
import onnxruntime as ort
import numpy as np

# Load and verify ONNX model
onnx_model = onnx.load("resnet18_ternary.onnx")
onnx.checker.check_model(onnx_model)

# Run inference
session = ort.InferenceSession("resnet18_ternary.onnx")
input_data = np.random.randn(1, 3, 32, 32).astype(np.float32)
outputs = session.run(None, {'image': input_data})
print(f"Output shape: {outputs[0].shape}")

# Optimize ONNX model for inference
optimize_onnx_model(
    input_path="resnet18_ternary.onnx",
    output_path="resnet18_ternary_optimized.onnx",
    optimization_level="all"  # basic, extended, all
)
again = ort.InferenceSession("resnet18_ternary_optimized.onnx").run(None, {'image': input_data})
''', torch=torch)  # fmt: skip
    told = capsys.readouterr().out
    assert "ONNX export successful!" in told and "Output shape: (1, 10)" in told
    with torch.no_grad():
        expected = resnet(torch.from_numpy(left["input_data"])).numpy()
    for found in (left["outputs"], left["again"]):
        np.testing.assert_allclose(found[0], expected, rtol=1e-3, atol=1e-3)


def test_a_model_goes_to_tflite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    ).eval()
    torch.save(model, "model.pth")
    images = torch.rand(16, 3, 32, 32)
    run('''
# Load PyTorch model
model = torch.load('model.pth', weights_only=False)
model.eval()

# Convert to TFLite
export_to_tflite(
    model=model,
    output_path="model.tflite",
    input_shape=(1, 3, 32, 32),
    quantize=True,  # Apply int8 quantization
    optimize_for_size=True
)

config = TFLiteQuantizationConfig(
    mode='int8',  # int8, float16, or dynamic
    representative_dataset=train_loader,  # For calibration
    inference_input_type='uint8',
    inference_output_type='uint8'
)

export_to_tflite(model, "model_int8.tflite", quantization_config=config)
''', torch=torch, train_loader=[images])  # fmt: skip
    with torch.no_grad():
        expected = model(images[:1]).numpy()
    (found,) = run_module(import_model("model.tflite"), [images[:1].numpy()])
    np.testing.assert_allclose(found, expected, atol=0.05)
    (argument,) = [a for a in import_model("model_int8.tflite").walk() if a.name == "func.func"]
    assert "ui8" in str(argument.attributes) or "i8" in str(argument)


def test_a_model_goes_to_a_phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    torch.save(
        nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.ReLU(), nn.Linear(8, 2)), "model.pth"
    )
    left = run('''
model = torch.load('model.pth', weights_only=False)
model.eval()

# Optimize for mobile deployment
optimized_model = optimize_for_mobile(
    model,
    input_shape=(1, 3, 4, 4),
    backend='onnx',  # or 'tflite'
    optimization_options={
        'constant_folding': True,
        'dead_code_elimination': True,
        'operator_fusion': True,
        'quantization': 'dynamic'  # dynamic, static, or None
    }
)

# Save optimized model
torch.save(optimized_model, 'model_optimized.pth')
again = torch.load('model_optimized.pth', weights_only=False)
''', torch=torch)  # fmt: skip
    x = torch.rand(1, 3, 4, 4)
    torch.testing.assert_close(left["again"](x), left["optimized_model"](x))
    torch.testing.assert_close(left["again"](x), left["model"](x), atol=0.05, rtol=0.05)


def test_training_asks_for_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    left = run('''
# --- Device resolution -----------------------------------------------------
# Resolve and validate the execution device.
backend = "auto"
try:
    device = resolve_torch_device(backend)
except BackendError as exc:
    raise SystemExit(f"Invalid backend: {exc}") from exc

# --- Runtime tuning --------------------------------------------------------
# Apply backend-specific tuning and print diagnostics.
configure_torch_backend(backend, device, verbose=True)

# --- AMP policy ------------------------------------------------------------
# Read AMP/autocast/scaler policy for the selected device.
amp_config = resolve_amp_config(device)
''')  # fmt: skip
    assert left["amp_config"]["enabled"] == (left["device"].type != "cpu")
    assert left["device"].type in capsys.readouterr().err
