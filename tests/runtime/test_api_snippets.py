"""The examples of the API reference for PyTorch, as users type them, and what they print."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(source: str, **names: Any) -> dict[str, Any]:
    """Execute a snippet; the names that it leaves."""
    scope = dict(names)
    exec(compile(source, "<snippet>", "exec"), scope)
    return scope


def test_a_ternary_tensor_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    left = run("""
from triton_dsl.runtime.ternary_tensor import TernaryTensor
import torch

# Create regular tensor
weights = torch.randn(256, 128)

# Convert to ternary
ternary_weights = TernaryTensor(weights)

print(f"Original size: {weights.numel() * 4} bytes")  # float32
print(f"Ternary size: {ternary_weights.numel() // 4} bytes")  # 2-bit packed
print(f"Compression ratio: {weights.numel() * 4 / (ternary_weights.numel() // 4):.1f}x")

# Convert back to float for computation
float_weights = ternary_weights.to_float()
""")
    assert capsys.readouterr().out.splitlines() == [
        "Original size: 131072 bytes",
        "Ternary size: 8192 bytes",
        "Compression ratio: 16.0x",
    ]
    assert left["ternary_weights"].nbytes == 8192
    assert left["float_weights"].unique().tolist() == [-1, 0, 1]


def test_tensors_are_ternarized() -> None:
    left = run("""
from triton_dsl.runtime.quantization import ternarize, ternarize_stochastic
import torch

# Deterministic ternarization
tensor = torch.randn(100, 100)
ternary = ternarize(tensor, threshold=0.05)

# Stochastic ternarization (better gradient flow)
ternary_stochastic = ternarize_stochastic(tensor)
""")
    tensor = left["tensor"]
    assert torch.equal(left["ternary"], torch.where(tensor.abs() <= 0.05, 0, tensor.sign()))
    kept = left["ternary_stochastic"] != 0
    assert torch.equal(left["ternary_stochastic"][kept], tensor.sign()[kept])


def test_ternary_matrices_are_multiplied(capsys: pytest.CaptureFixture[str]) -> None:
    left = run("""
from triton_dsl.runtime.ternary_tensor import ternary_matmul
import torch

A = torch.tensor([[-1, 0, 1], [1, -1, 0]], dtype=torch.float32)
B = torch.tensor([[1, -1], [0, 1], [-1, 0]], dtype=torch.float32)

# Optimized ternary multiplication
result = ternary_matmul(A, B, a_ternary=True, b_ternary=True)
print(result)
# Output: [[-2, 1], [1, -2]]
""")
    assert left["result"].tolist() == [[-2, 1], [1, -2]]
    assert "".join(capsys.readouterr().out.split()) == "tensor([[-2.,1.],[1.,-2.]])"


def test_a_ternary_layer_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    run("""
from triton_dsl.runtime.layers import TernaryLinear
import torch

layer = TernaryLinear(in_features=784, out_features=256)
x = torch.randn(32, 784)  # batch_size=32
output = layer(x)
print(output.shape)  # torch.Size([32, 256])

# Access quantized weights
ternary_weights = layer.get_ternary_weights()
print(f"Unique values: {ternary_weights.unique()}")  # [-1, 0, 1]
""")
    assert capsys.readouterr().out.splitlines() == [
        "torch.Size([32, 256])",
        "Unique values: tensor([-1.,  0.,  1.])",
    ]


def test_a_model_is_stored_and_restored(tmp_path: Path, monkeypatch: Any) -> None:
    from triton_dsl.runtime.models.resnet import ternary_resnet18

    monkeypatch.chdir(tmp_path)
    torch.save(ternary_resnet18(num_classes=10).state_dict(), "resnet18_ternary.pth")
    left = run("""
from triton_dsl.runtime.models.resnet import ternary_resnet18
import torch

# Create and load trained model
model = ternary_resnet18(num_classes=10)
model.load_state_dict(torch.load('resnet18_ternary.pth'))
model.eval()
""")
    assert left["model"](torch.randn(1, 3, 32, 32)).shape == (1, 10)


def test_a_model_is_analysed(capsys: pytest.CaptureFixture[str]) -> None:
    from triton_dsl.runtime.models.small import TernaryMNISTNet

    run(
        """
from triton_dsl.runtime.analysis import analyze_model_size

analysis = analyze_model_size(model)
print(f"Total parameters: {analysis['total_params']:,}")
print(f"Ternary parameters: {analysis['ternary_params']:,}")
print(f"Float parameters: {analysis['float_params']:,}")
print(f"Model size (float32): {analysis['size_float32_mb']:.2f} MB")
print(f"Model size (ternary): {analysis['size_ternary_mb']:.2f} MB")
print(f"Compression ratio: {analysis['compression_ratio']:.1f}x")
""",
        model=TernaryMNISTNet(),
    )
    assert capsys.readouterr().out.splitlines() == [
        "Total parameters: 235,540",
        "Ternary parameters: 234,752",
        "Float parameters: 788",
        "Model size (float32): 0.90 MB",
        "Model size (ternary): 0.06 MB",
        "Compression ratio: 15.2x",
    ]


@pytest.mark.slow
def test_a_model_is_profiled(capsys: pytest.CaptureFixture[str]) -> None:
    from triton_dsl.runtime.models.resnet import ternary_resnet18

    run(
        """
from triton_dsl.runtime.profiler import profile_model
import torch

input_tensor = torch.randn(1, 3, 32, 32)

# Profile model execution
profile = profile_model(model, input_tensor, num_iterations=2)

print(f"Average inference time: {profile['avg_time_ms']:.2f} ms")
print(f"Throughput: {profile['throughput_fps']:.1f} FPS")
print(f"Memory usage: {profile['memory_mb']:.2f} MB")

# Layer-by-layer breakdown
for layer_name, layer_stats in profile['layer_times'].items():
    print(f"{layer_name}: {layer_stats['time_ms']:.2f} ms")
""",
        model=ternary_resnet18(num_classes=10, small_images=False),
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:4]] == [
        "Average inference time",
        "Throughput",
        "Memory usage",
        "conv1.0",
    ]
    assert "layer4.1.conv2.0" in [line.split(":")[0] for line in lines]


def test_a_subclass_keeps_few_activations() -> None:
    from triton_dsl.runtime.models.resnet import TernaryResNet18

    left = run(
        """
import torch
from torch.utils.checkpoint import checkpoint

class TernaryResNetWithCheckpointing(TernaryResNet18):
    def forward(self, x):
        x = self.conv1(x)
        # Checkpoint memory-intensive blocks
        x = checkpoint(self.layer1, x, use_reentrant=False)
        x = checkpoint(self.layer2, x, use_reentrant=False)
        x = checkpoint(self.layer3, x, use_reentrant=False)
        x = checkpoint(self.layer4, x, use_reentrant=False)
        x = self.avgpool(x)
        x = torch.flatten(x, 1)
        x = self.fc(x)
        return x
""",
        TernaryResNet18=TernaryResNet18,
    )
    torch.manual_seed(0)
    model, plain = left["TernaryResNetWithCheckpointing"](10), TernaryResNet18(10)
    plain.load_state_dict(model.state_dict())
    x = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(model(x), plain(x))


def test_mixed_precision_trains() -> None:
    from triton_dsl.runtime.models.small import TernaryCIFAR10Net

    generator = torch.Generator().manual_seed(0)
    images = torch.randn(4, 3, 32, 32, generator=generator)
    model = TernaryCIFAR10Net()
    left = run(
        """
scaler = torch.amp.GradScaler(device)

for batch in train_loader:
    with torch.amp.autocast(device, dtype=torch.bfloat16):
        output = model(batch['image'])
        loss = criterion(output, batch['label'])

    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
        torch=torch,
        device="cpu",
        model=model,
        criterion=nn.CrossEntropyLoss(),
        optimizer=torch.optim.SGD(model.parameters(), 0.01),
        train_loader=[{"image": images, "label": torch.tensor([0, 1, 2, 3])}] * 2,
    )
    assert left["output"].dtype == torch.bfloat16 and left["loss"].isfinite()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixed_precision", "gradient_checkpointing"])
def test_the_examples_run(name: str) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--steps", "2", "--batch", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
