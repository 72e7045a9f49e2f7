"""Reading safetensors files that hold one tensor of ours, written by whoever.

Not here: what the entries mean (`ternary_tensor`, `spiking.spike_tensor`), parameter stores
(`ir.store`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..ir.errors import ParameterError


def read_tensor_file(
    path: str | Path, what: str, key: str, device: torch.device | str = "cpu"
) -> tuple[dict[str, Tensor], Any]:
    """The entries of a file, and the JSON that its metadata has under `key` (`None` without).

    Args:
        path: of the file. No code in it is run.
        what: is in the file, for messages: `ternary tensor`.
        key: of the metadata.
        device: of the entries.

    Raises:
        ParameterError: the file is missing, or not safetensors.
    """
    from safetensors import SafetensorError, safe_open

    try:
        opened: Any = safe_open(str(path), framework="pt", device=str(device))
        with opened as file:
            metadata: dict[str, str] = file.metadata() or {}
            facts: Any = json.loads(metadata.get(key, "null"))
            entries: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise ParameterError(f"{what} '{path}': no such file") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise ParameterError(f"{what} '{path}' is not safetensors: {error}") from None
    return entries, facts
