"""Record what Transformers computes for each small checkpoint: logits, and tokens chosen greedily.

    pip install transformers==5.24.0 accelerate==1.15.0
    python tests/lowering/from_checkpoint/record.py

writes `records.npz` beside this file. Runs on its own: the package is not imported.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from checkpoints import KINDS, tokens, write_folder  # noqa: E402

GREEDY = 12


def recorded() -> dict[str, np.ndarray]:
    """`KIND.logits`, float32 [2, 9, vocabulary], and `KIND.greedy`, int64 [4 + GREEDY]."""
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    import torch

    load: Any = resolve_name("transformers:AutoModelForCausalLM.from_pretrained")
    results: dict[str, np.ndarray] = {}
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            path = write_folder(kind, Path(folder))
            model = load(path, dtype=torch.float32, attn_implementation="eager").eval()
            given = torch.from_numpy(tokens())
            with torch.no_grad():
                results[f"{kind}.logits"] = model(given).logits.numpy()
                chosen = model.generate(
                    given[:1, :4],
                    max_new_tokens=GREEDY,
                    do_sample=False,
                    eos_token_id=None,
                    pad_token_id=0,
                )
            results[f"{kind}.greedy"] = chosen[0].numpy()
    return results


if __name__ == "__main__":
    np.savez_compressed(HERE / "records.npz", allow_pickle=False, **recorded())
