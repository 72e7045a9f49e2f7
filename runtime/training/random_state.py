"""The random numbers of a process: seeded for a run, kept in checkpoints, given back after it.

PyTorch's on the processor and on the device of the run, NumPy's old global ones and Python's own,
since datasets draw from all of them.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from ...ir.errors import ParameterError
from .data import derived_seed

_PYTHON_WORDS, _NUMPY_WORDS = 625, 624


def get_random_state(device: torch.device) -> Tensor:
    """The states of all generators as bytes, uint8, of one length for one kind of device.

    Four numbers (Python's version, NumPy's place, whether either has a normal number left), the two
    normal numbers, the words of Python and NumPy, and PyTorch's bytes: processor, then device.
    """
    version, words, gauss = random.getstate()
    numpy: Any = np.random.get_state(legacy=False)
    place, has_gauss = numpy["state"]["pos"], numpy["has_gauss"]
    parts = [
        torch.tensor([version, place, has_gauss, gauss is not None]),
        torch.tensor([gauss or 0.0, numpy["gauss"]], dtype=torch.float64),
        torch.tensor(words),
        torch.from_numpy(numpy["state"]["key"].astype(np.int64)),
        torch.get_rng_state(),
    ]
    if device.type != "cpu":
        parts.append(_library(device).get_rng_state().cpu())
    return torch.cat([part.view(torch.uint8) for part in parts])


def set_random_state(state: Tensor, device: torch.device) -> None:
    """Bring all generators to a state of `get_random_state`; that of another device is left out.

    Raises:
        ParameterError: the bytes are no such state.
    """
    lengths = [32, 16, 8 * _PYTHON_WORDS, 8 * _NUMPY_WORDS, len(torch.get_rng_state())]
    rest = state.numel() - sum(lengths)
    if state.dtype != torch.uint8 or state.dim() != 1 or rest < 0:
        raise ParameterError(f"expected the bytes of random states, got {list(state.shape)}")
    # Copies, since a part of a tensor need not be aligned for longer numbers.
    parts: list[Tensor] = [part.clone() for part in cast(Any, state.cpu()).split([*lengths, rest])]
    numbers, floats, words, key, main, other = parts
    version, place, has_gauss, has_python = _numbers(numbers, torch.int64)
    python_gauss, numpy_gauss = _numbers(floats, torch.float64)
    try:
        python_words = tuple(_numbers(words, torch.int64))
        random.setstate((version, python_words, python_gauss if has_python else None))
        numpy_words = key.view(torch.int64).numpy().astype(np.uint32)
        np.random.set_state(("MT19937", numpy_words, place, has_gauss, numpy_gauss))
        torch.set_rng_state(main)
        if device.type != "cpu" and rest == len(_library(device).get_rng_state()):
            _library(device).set_rng_state(other)
    except (RuntimeError, ValueError, OverflowError) as error:
        raise ParameterError(f"these are no random states: {error}") from error


@contextmanager
def seeded(seed: int, rank: int, device: torch.device) -> Generator[None]:
    """A block whose random numbers follow from `seed` and `rank`; after it all are as before."""
    before = get_random_state(device)
    try:
        start = derived_seed(seed, 0, rank)
        random.seed(start)
        np.random.seed(start % 2**32)
        torch.default_generator.manual_seed(start)
        if device.type != "cpu":
            _library(device).manual_seed(start)
        yield
    finally:
        set_random_state(before, device)


def _numbers(values: Tensor, dtype: torch.dtype) -> list[Any]:
    return cast(Any, values.view(dtype)).tolist()


def _library(device: torch.device) -> Any:
    return torch.cuda if device.type == "cuda" else torch.mps
