"""The BitNet of the example: it learns, and is the same model in every form."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from triton_dsl.runtime import generate
from triton_dsl.targets import open_session

FILE = Path(__file__).parents[2] / "examples" / "bitnet_text.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bitnet_text", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bitnet_text"] = module  # its dataclasses look for it
    spec.loader.exec_module(module)
    return module


def trained(
    example: ModuleType, folder: Path, steps: int, **sizes: int
) -> tuple[object, list[int]]:
    """A model, written; and the tokens of a page that it has not seen."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    text, kept = example.pages()
    text = text if steps > 50 else text[:20_000]
    chosen = example.Sizes(**sizes)
    tokenizer = example.tokenizer_of(text, chosen.vocabulary)
    model = example.BitNet(chosen)
    tokens = torch.tensor(tokenizer.encode(text).ids)
    losses = list(example.train(model, tokens, steps, length=32 if steps <= 50 else 128))
    torch.set_num_threads(threads)
    assert losses[0] > np.mean(losses[-5:]) + 0.3
    example.save_folder(model, tokenizer, folder)
    example.save_gguf(model, folder / "model.gguf")
    return model, tokenizer.encode(kept[:4000]).ids


def logits_of(model: object, tokens: list[int]) -> np.ndarray:
    """What PyTorch computes of the weights that were trained, float32 [T, vocabulary]."""
    assert isinstance(model, torch.nn.Module)
    with torch.no_grad():
        return model(torch.tensor([tokens]))[0].numpy()


def test_a_small_one_learns_and_is_written(example: ModuleType, tmp_path: Path) -> None:
    sizes = {"layers": 1, "hidden": 256, "heads": 4, "groups": 2, "vocabulary": 300}
    model, tokens = trained(example, tmp_path, 12, **sizes)
    tokens = tokens[:40]
    expected = logits_of(model, tokens)
    for path, engine in ((tmp_path, "interpreter"), (tmp_path / "model.gguf", "pytorch")):
        session = open_session(path, engine)
        np.testing.assert_allclose(session.feed_all(tokens), expected, atol=0.02)
        session.reset()
        assert np.abs(session.feed_all(tokens) - expected).mean() < 1e-3


@pytest.mark.slow
def test_all_engines_and_transformers_choose_the_same(example: ModuleType, tmp_path: Path) -> None:
    """Ten million parameters, 256 tokens."""
    model, tokens = trained(example, tmp_path, 60)
    theirs = open_session(tmp_path, "transformers")
    start = tokens[:16]
    chosen = list(generate(theirs, start, 256))
    theirs.reset()
    expected = theirs.feed_all(tokens[:128])
    assert np.abs(logits_of(model, tokens[:128]) - expected).mean() < 1e-2
    for path, engine in (
        *((tmp_path, engine) for engine in ("native", "onnx", "pytorch")),
        (tmp_path / "model.gguf", "native"),
    ):
        session = open_session(path, engine)
        assert list(generate(session, start, 256)) == chosen
        session.reset()
        difference = np.abs(session.feed_all(tokens[:128]) - expected)
        # A float of 1e-7 more or less turns a rounding to int8, and logits by hundredths.
        assert difference.max() < 0.1 and difference.mean() < 1e-2
