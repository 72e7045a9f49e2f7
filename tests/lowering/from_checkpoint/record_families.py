"""Record what Transformers computes for each architecture of `families`: names and shapes of its
tensors, logits, and tokens chosen greedily.

    pip install transformers==5.24.0 accelerate==1.15.0 ml_dtypes
    python tests/lowering/from_checkpoint/record_families.py

writes `families.npz` beside this file. Runs on its own: the package is not imported.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import safetensors.numpy

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from families import FAMILIES, TOKENS, config_of, write_family  # noqa: E402
from record import computed  # noqa: E402


def recorded() -> dict[str, np.ndarray]:
    """`FAMILY.shapes`, JSON; `FAMILY.logits`, float32 [2, 9, 61]; `FAMILY.greedy`, int64 [16]."""
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    import torch

    load: Any = resolve_name("transformers:AutoModelForCausalLM")
    configured: Any = resolve_name("transformers:AutoConfig.for_model")
    results: dict[str, np.ndarray] = {}
    for family in FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            load.from_config(configured(**config_of(family))).save_pretrained(folder)
            tensors = safetensors.numpy.load_file(Path(folder) / "model.safetensors")
        shapes = {name: list(values.shape) for name, values in tensors.items()}
        results[f"{family}.shapes"] = np.array(json.dumps(shapes))
        with tempfile.TemporaryDirectory() as folder:
            path = write_family(family, Path(folder), shapes)
            options = {"dtype": torch.float32, "attn_implementation": "eager"}
            model, told = load.from_pretrained(path, output_loading_info=True, **options)
            wrong = {key: found for key, found in told.items() if found}
            if wrong:
                raise RuntimeError(f"{family}: {wrong}")
            results |= computed(family, model.eval(), TOKENS)
    return results


if __name__ == "__main__":
    np.savez_compressed(HERE / "families.npz", allow_pickle=False, **recorded())
