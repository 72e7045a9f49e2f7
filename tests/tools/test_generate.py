"""`triton generate`: text that a small model continues, as `tokenizers` decodes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from triton_dsl.lowering.models import import_model
from triton_dsl.tools.cli import main

from ..lowering.from_checkpoint.checkpoints import VOCABULARY, write_folder
from ..lowering.from_checkpoint.test_folder import greedy

tokenizers: Any = pytest.importorskip("tokenizers")

TEXT = "the adder adds the trits and the sums are exact; spikes add up, and no product is needed. "


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BitNet with a byte-pair tokenizer of as many tokens as it has."""
    folder = write_folder("bitnet-packed", tmp_path_factory.mktemp("model") / "small")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<unk>", "<s>", "</s>"]
    )
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    assert tokenizer.get_vocab_size() == VOCABULARY
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def expected(model: Path, prompt: str, count: int) -> tuple[list[int], str]:
    """Tokens of the interpreter, and their text by the tokenizer at once."""
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    start = tokenizer.encode(prompt).ids
    chosen = greedy(import_model(model), "bitnet-packed", start, count)[len(start) :]
    if 2 in chosen:
        chosen = chosen[: chosen.index(2)]
    whole = tokenizer.decode([*start, *chosen])
    return chosen, whole.removeprefix(tokenizer.decode(start))


@pytest.mark.usefixtures("few_counts", "compiled_here")
@pytest.mark.parametrize("engine", ["native", pytest.param("onnx", marks=pytest.mark.slow)])
def test_the_text_comes_as_tokens_do(
    model: Path, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens, text = expected(model, "the sums are", 20)
    arguments = ["generate", str(model), "--prompt", "the sums are", "-n", "20"]
    assert main([*arguments, "--engine", engine]) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() == text.strip()
    assert "tokens told" in printed.err
    assert main([*arguments, "--engine", engine, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["tokens"] == tokens and report["text"].strip() == text.strip()


def test_draws_are_repeatable(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def drawn(seed: int) -> list[int]:
        options = ["--temperature", "1.5", "--top-k", "20", "--top-p", "0.9", "--seed", str(seed)]
        arguments = ["generate", str(model), "--prompt", "spikes add", "-n", "6", "--json"]
        assert main([*arguments, *options, "--engine", "interpreter"]) == 0
        return list(json.loads(capsys.readouterr().out)["tokens"])

    first = drawn(1)
    assert drawn(1) == first
    assert any(drawn(seed) != first for seed in (0, 2, 3))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tokenizer.json": None}, "no such file; a tokenizer"),
        ({"tokenizer.json": "{}"}, "is no tokenizer"),
        ({"tokenizer.json": f'{{"version": "{"x" * 10**5}"}}'}, "is no tokenizer: "),
        ({"model.safetensors": None, "pytorch_model.bin": "x"}, "'pytorch_model.bin' may run code"),
        ({"model.safetensors": "x" * 5000}, "is not safetensors"),
        ({"config.json": None}, "config.json"),
        ({"generation_config.json": '{"eos_token_id": "x"}'}, "expected numbers of tokens"),
    ],
)
def test_what_is_missing_or_broken(
    change: dict[str, str | None],
    words: str,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for file in model.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    for name, text in change.items():
        (tmp_path / name).unlink(missing_ok=True)
        if text is not None:
            (tmp_path / name).write_text(text)
    arguments = ["generate", str(tmp_path), "--prompt", "the", "--engine", "interpreter"]
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert words in printed.err and not printed.out and "Traceback" not in printed.err
    assert len(printed.err) < 2000


def test_a_draw_out_of_range(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", str(model), "--prompt", "the", "--top-p", "1.5"]
    assert main(arguments) == 2
    assert "top_p must be above 0 and at most 1" in capsys.readouterr().err


def test_odd_prompts(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Texts that no file can hold, none, and more than the model was made for, which is told."""
    arguments = ["generate", str(model), "--engine", "interpreter", "-n", "2", "--prompt"]
    for prompt, words in (("\udcff", "not of Unicode's characters"), ("", "prompt is empty")):
        assert main([*arguments, prompt]) == 2
        assert words in capsys.readouterr().err
    assert main([*arguments, "the sums are exact; " * 20]) == 0
    printed = capsys.readouterr()
    warned, told = printed.err.split("tokens, where the model was made for 64")
    assert " told in " in told and " told in " not in warned and printed.out.strip()


def test_a_file_without_a_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(tmp_path / "model.gguf"), "--prompt", "the"]) == 1
    assert "model.gguf': No such file" in capsys.readouterr().err
