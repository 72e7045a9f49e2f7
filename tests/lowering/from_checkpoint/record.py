"""Record what Transformers computes for each small checkpoint: logits, tokens chosen greedily, and
perplexities; and what it makes of chats.

    pip install transformers==5.24.0 accelerate==1.15.0 ml_dtypes
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

from checkpoints import (  # noqa: E402
    KINDS,
    MESSAGES,
    SPECIAL,
    STRIDE,
    TEMPLATES,
    WINDOW,
    long_text,
    tokens,
    write_folder,
)

GREEDY = 12


def recorded() -> dict[str, np.ndarray]:
    """`KIND.logits`, float32 [2, 9, vocabulary]; `KIND.greedy`, int64 [4 + GREEDY]; `KIND.nats`,
    the negative log-probability of the tokens of `long_text`; `chat.TEMPLATE.MESSAGES`, texts."""
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    import torch

    load: Any = resolve_name("transformers:AutoModelForCausalLM.from_pretrained")
    results: dict[str, np.ndarray] = {}
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            path = write_folder(kind, Path(folder))
            model = load(path, dtype=torch.float32, attn_implementation="eager").eval()
            results |= computed(kind, model, tokens())
            results[f"{kind}.nats"] = np.array(nats(model, torch.from_numpy(long_text()[None])))
    render: Any = resolve_name("transformers.utils.chat_template_utils:render_jinja_template")
    for name, template in TEMPLATES.items():
        for chat, messages in MESSAGES.items():
            (text,), _ = render(
                [messages], chat_template=template, add_generation_prompt=True, **SPECIAL
            )
            results[f"chat.{name}.{chat}"] = np.array(text)
    return results


def computed(name: str, model: Any, texts: np.ndarray) -> dict[str, np.ndarray]:
    """`NAME.logits` of texts, and `NAME.greedy`, what follows the beginning of the first one."""
    import torch

    given = torch.from_numpy(texts)
    with torch.no_grad():
        chosen = model.generate(
            given[:1, :4],
            max_new_tokens=GREEDY,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        return {f"{name}.logits": model(given).logits.numpy(), f"{name}.greedy": chosen[0].numpy()}


def nats(model: Any, text: Any) -> float:
    """The loop of https://huggingface.co/docs/transformers/perplexity, its losses as a sum."""
    import torch

    total, before = 0.0, 0
    for begin in range(0, text.size(1), STRIDE):
        end = min(begin + WINDOW, text.size(1))
        given = text[:, begin:end]
        target = given.clone()
        target[:, : -(end - before)] = -100
        with torch.no_grad():
            loss = model(given, labels=target).loss
        total += float(loss) * int((target[:, 1:] != -100).sum())
        before = end
        if end == text.size(1):
            return total
    return total


if __name__ == "__main__":
    np.savez_compressed(HERE / "records.npz", allow_pickle=False, **recorded())
