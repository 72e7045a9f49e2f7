"""The BitNet of the example: it learns, and is the same model in every form."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from xdsl.ir import Operation

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.from_checkpoint import import_checkpoint, open_model
from triton_dsl.lowering.from_checkpoint.checkpoint import read_checkpoint
from triton_dsl.lowering.generation import open_tokenizer
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
    example.save_gguf(model, tokenizer, folder / "model.gguf")
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
    text = open_tokenizer(tmp_path, None).decode(tokens)
    assert open_tokenizer(tmp_path / "model.gguf", None).encode(text) == tokens


def test_equal_activations_give_equal_integers_and_logits(
    example: ModuleType, tmp_path: Path
) -> None:
    """All that differs between engines are roundings to int8 that float noise turns."""
    sizes = {"layers": 2, "hidden": 256, "heads": 4, "groups": 2, "vocabulary": 300}
    model, tokens = trained(example, tmp_path, 12, **sizes)
    assert isinstance(model, torch.nn.Module)
    inputs = list[torch.Tensor]()
    linear = [m for m in model.modules() if isinstance(m, example.BitLinear)]
    for layer in linear:
        layer.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    check_with_forced_activations(tmp_path, tokens[:48], logits_of(model, tokens[:48]), inputs)


def check_with_forced_activations(
    folder: Path, tokens: list[int], expected: np.ndarray, inputs: list[torch.Tensor]
) -> None:
    """Give the interpreter another engine's activations, rounded; integers and logits are its.

    Args:
        folder: of the model.
        tokens: of a text.
        expected: the other engine's logits.
        inputs: of its linear layers, in their order.
    """
    checkpoint = read_checkpoint(open_model(folder))
    weights: dict[str, np.ndarray] = {
        f"layers.{i}.{name}": value
        for i, block in enumerate(checkpoint.blocks)
        for name, value in block
        if name.endswith("proj.weight")
    }
    factors = [127 / x.abs().amax(-1, keepdim=True).clamp(min=1e-5) for x in inputs]
    rounded = [(x * f).round().to(torch.int8).numpy() for x, f in zip(inputs, factors, strict=True)]
    order, turned = iter(rounded), list[int]()
    given, products = list[np.ndarray](), list[tuple[np.ndarray, np.ndarray]]()

    def observe(op: Operation, _: Any, results: Any) -> tuple[Any, ...] | None:
        if op.name == "tensor.convert" and results[0].dtype == np.int8:
            given.append(next(order))
            turned.append(int((given[-1] != results[0]).sum()))
            return (given[-1],)
        if op.name == "ternary.matmul":
            products.append((given[-1], results[0]))
        return None

    decoder = checkpoint.decoder
    cache = np.zeros((1, 0, decoder.groups, decoder.head_dim), np.float32)
    state = [cache] * (2 * decoder.layers)
    found, *_ = run_module(
        import_checkpoint(folder), [np.array([tokens]), *state], observer=observe
    )
    assert next(order, None) is None and len(products) == len(weights)
    for layer in range(decoder.layers):
        matrices = [v for key, v in weights.items() if key.startswith(f"layers.{layer}.")]
        for x, product in products[7 * layer : 7 * layer + 7]:
            alike = [
                m for m in matrices if (m.shape[1], len(m)) == (x.shape[-1], product.shape[-1])
            ]
            exact = [x.astype(np.int64) @ m.astype(np.int64).T for m in alike]
            assert any(np.array_equal(product, each) for each in exact)
    assert sum(turned) < 1e-3 * sum(x.size for x in rounded)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=2e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("transformers")
def test_all_engines_and_transformers_choose_the_same(example: ModuleType, tmp_path: Path) -> None:
    """Ten million parameters, 256 tokens."""
    model, tokens = trained(example, tmp_path, 60)
    theirs = open_session(tmp_path, "transformers")
    start = tokens[:16]
    inputs = list[torch.Tensor]()
    network: Any = theirs._model  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    hooks = [
        module.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
        for module in network.modules()
        if type(module).__name__ == "AutoBitLinear"
    ]
    check_with_forced_activations(tmp_path, tokens[:48], theirs.feed_all(tokens[:48]), inputs)
    for hook in hooks:
        hook.remove()
    theirs.reset()
    chosen = list(generate(theirs, start, 256))
    theirs.reset()
    expected = theirs.feed_all(tokens[:128])
    assert np.abs(logits_of(model, tokens[:128]) - expected).mean() < 1e-2
    for path, engine in (
        *((tmp_path, engine) for engine in ("native", "onnx", "pytorch")),
        *((tmp_path / "model.gguf", engine) for engine in ("native", "onnx")),
    ):
        session = open_session(path, engine)
        assert list(generate(session, start, 256)) == chosen
        session.reset()
        difference = np.abs(session.feed_all(tokens[:128]) - expected)
        # A float of 1e-7 more or less turns a rounding to int8, and logits by hundredths.
        assert difference.max() < 0.1 and difference.mean() < 1e-2
