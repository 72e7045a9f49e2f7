"""Known samples of a free batch in native code: as in PyTorch, and no fewer samples than that."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from triton_dsl.ir.errors import BackendError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_torch import TorchWarning, from_torch


class Samples(nn.Module):
    """The first, the third and the last but one."""

    def forward(self, x: Tensor) -> Tensor:
        return x[0] + 2 * x[2] - x[-2] * x


def test_known_samples_of_a_free_batch() -> None:
    with pytest.warns(TorchWarning, match="N from 3"):
        program = from_torch(Samples(), torch.randn(4, 3, 5), dynamic={"x": {0: "N"}})
    for batch in (3, 6):
        x = torch.randn(batch, 3, 5)
        _, (found,), _ = run_target(program, "native", [x.numpy()])
        np.testing.assert_allclose(found, Samples()(x).numpy(), rtol=1e-5)
    with pytest.raises(BackendError, match="batch must be at least 3"):
        run_target(program, "native", [np.zeros((2, 3, 5), np.float32)])
