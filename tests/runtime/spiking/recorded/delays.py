"""Convolutions with learnable spacings by their authors' package: `delays.npz`.

In DCLS a kernel has D+1 places and a position P, from -D/2 to D/2, is the delay D/2 - P: with D
zeros before the train the last place is the newest step.
"""

from __future__ import annotations

from typing import Any

import DCLS.construct.modules as package  # pyright: ignore[reportMissingImports]
import numpy as np
import torch

modules: Any = package
torch.manual_seed(0)
D, INPUTS, OUTPUTS, T, N = 6, 5, 4, 20, 3
x = (torch.rand(T, N, INPUTS) < 0.3).double()
result: dict[str, Any] = {"x": x.numpy()}
for name, version, sigma in (("linear", "v1", None), ("gauss", "gauss", 1.3)):
    conv = modules.Dcls1d(
        INPUTS, OUTPUTS, kernel_count=1, dilated_kernel_size=D + 1, bias=False, version=version
    ).double()
    delays = torch.rand(OUTPUTS, INPUTS).double() * D
    conv.P.data[0, :, :, 0] = D // 2 - delays
    if sigma:
        conv.SIG.data.fill_(sigma - 0.27)
    series = torch.nn.functional.pad(x.permute(1, 2, 0), (D, 0))
    y = conv(series)
    (y.square().sum()).backward()
    result[f"{name}_weight"] = conv.weight.detach()[..., 0].numpy()
    result[f"{name}_delay"] = delays.numpy()
    result[f"{name}_y"] = y.detach().permute(2, 0, 1).numpy()
    result[f"{name}_weight_gradient"] = conv.weight.grad[..., 0].numpy()
    result[f"{name}_delay_gradient"] = -conv.P.grad[0, :, :, 0].numpy()
np.savez_compressed("delays.npz", **result)
