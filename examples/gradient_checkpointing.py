"""Train a ternary ResNet-18 with less memory: stages are run again in the backward pass.

Prints how many bytes each way keeps for the backward pass, and that the gradients are the same.
Run: `python examples/gradient_checkpointing.py [--steps N] [--batch N] [--device cpu|cuda]`.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from triton_dsl.runtime import TernaryResNet18


class TernaryResNetWithCheckpointing(TernaryResNet18):
    """A ResNet-18 that keeps only what stands between its stages."""

    def forward(self, x: Tensor) -> Tensor:
        """Images `[N, 3, H, W]` to logits `[N, num_classes]`."""
        x = self.conv1(x)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = checkpoint(stage, x, use_reentrant=False)
        x = self.avgpool(x)
        return self.fc(torch.flatten(x, 1))


def kept_bytes(model: nn.Module, image: Tensor) -> int:
    """The memory of all tensors that one forward pass keeps, without the parameters."""
    known = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = model(image)
    total = sum(kept.values())
    output.sum().backward()
    return total


def main() -> None:
    """Compare memory, time and gradients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    image = torch.randn(arguments.batch, 3, 32, 32, device=arguments.device)
    plain = TernaryResNet18(num_classes=10).to(arguments.device)
    saving = TernaryResNetWithCheckpointing(num_classes=10).to(arguments.device)
    saving.load_state_dict(plain.state_dict())
    for name, model in (("plain", plain), ("checkpoints", saving)):
        kept = kept_bytes(model, image) / 2**20
        started = time.monotonic()
        for _ in range(arguments.steps):
            model.zero_grad()
            model(image).square().mean().backward()
        milliseconds = (time.monotonic() - started) / arguments.steps * 1000
        print(f"{name:12} keeps {kept:7.1f} MiB  {milliseconds:.0f} ms a step")
    pairs = zip(plain.parameters(), saving.parameters(), strict=True)
    gradients = [(p.grad, q.grad) for p, q in pairs if p.grad is not None and q.grad is not None]
    largest = max(float((p - q).abs().max() / p.abs().max()) for p, q in gradients)
    print(f"largest relative difference of gradients: {largest:.1e}")


if __name__ == "__main__":
    main()
