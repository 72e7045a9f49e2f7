"""Train a ternary ResNet-18 in mixed precision, and see that float32 learns the same.

Products run in bfloat16 on processors and float16 on GPUs; latents, their gradients and the
ternarization stay in float32. Small coloured squares and stripes stand in for photographs. Run:
`python examples/mixed_precision.py [--steps N] [--batch N] [--device cpu|cuda]`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from triton_dsl.runtime import TernaryResNet18

CLASSES = 4


def batches(count: int, size: int, device: str) -> Iterator[dict[str, Tensor]]:
    """Noisy 16x16 images of four patterns: a square, stripes in two directions, a ring."""
    axis = torch.arange(16)
    row, column = axis[:, None].expand(16, 16), axis[None, :].expand(16, 16)
    distance = torch.maximum((row - 7).abs(), (column - 7).abs())
    patterns = torch.stack([distance < 4, row % 4 < 2, column % 4 < 2, distance == 6]).float()
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        labels = torch.randint(0, CLASSES, (size,), generator=generator)
        noise = torch.randn(size, 3, 16, 16, generator=generator)
        image = patterns[labels][:, None] + 0.5 * noise
        yield {"image": image.to(device), "label": labels.to(device)}


def train(arguments: argparse.Namespace, mixed: bool) -> tuple[float, float]:
    """Train from the same start; mean loss of the last quarter of the steps, and seconds."""
    device: str = arguments.device
    torch.manual_seed(0)
    model = TernaryResNet18(num_classes=CLASSES).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # bfloat16 has the range of float32, and needs no scaling of gradients.
    dtype = torch.float16 if device == "cuda" else torch.bfloat16
    scaler = torch.amp.GradScaler(device, enabled=mixed and dtype == torch.float16)
    losses: list[float] = []
    started = time.monotonic()
    for batch in batches(arguments.steps, arguments.batch, device):
        with torch.amp.autocast(device, dtype=dtype, enabled=mixed):
            output = model(batch["image"])
            loss = criterion(output, batch["label"])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    last = losses[-max(1, len(losses) // 4) :]
    return sum(last) / len(last), time.monotonic() - started


def main() -> None:
    """Train twice and print both losses and times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    for name, mixed in (("float32", False), ("mixed precision", True)):
        loss, seconds = train(arguments, mixed)
        print(f"{name:16} loss {loss:.3f}  {seconds:.1f} s")


if __name__ == "__main__":
    main()
