"""The key stream is that of OpenSSL; the numbers are normal by SciPy's tests."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from triton_dsl.runtime.training.privacy import key_stream, normal


def test_the_stream_is_that_of_openssl(require_tool: Callable[[str, str], str]) -> None:
    pytest.importorskip("cryptography")
    openssl = require_tool("openssl", "apt-get install openssl")
    seed, step = 7**90, 11  # more than 64 bits
    stream = key_stream(seed, step)
    key = hashlib.sha256(str(seed).encode()).hexdigest()
    command = [openssl, "enc", "-aes-256-ctr", "-K", key, "-iv", f"{step:016x}{0:016x}"]
    done = subprocess.run(command, input=bytes(1000), capture_output=True, check=True)
    assert stream(300) + stream(700) == done.stdout


def test_the_numbers_are_normal() -> None:
    stats: Any = pytest.importorskip("scipy.stats")
    pytest.importorskip("cryptography")
    like = torch.zeros(200, 500)
    found = normal(key_stream(3, 0), 2.5, like)
    assert found.shape == like.shape and found.dtype is like.dtype
    values = found.double().numpy().ravel() / 2.5
    assert stats.kstest(values, "norm").pvalue > 0.01
    # Neither a number and the next nor one step and the next have to do with each other.
    other = normal(key_stream(3, 1), 2.5, like).double().numpy().ravel()
    for a, b in ((values[:-1], values[1:]), (values, other)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / len(values) ** 0.5
    assert torch.equal(normal(key_stream(3, 0), 2.5, like), found)
    assert len(np.unique(values)) > 0.97 * len(values)
