"""What folders and GGUF files say about text, in all the forms that published ones have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import pytest

from triton_dsl.ir.errors import SourceError
from triton_dsl.lowering.from_checkpoint import open_model


def folder(path: Path, **files: Any) -> Path:
    """Each file is an object, or a text."""
    path.mkdir(exist_ok=True)
    for name, content in {"config.json": {}, **files}.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (path / name).write_text(text, encoding="utf-8")
    return path


def test_a_folder_that_says_nothing(tmp_path: Path) -> None:
    facts = open_model(folder(tmp_path)).facts
    assert not facts.ends and facts.template is None and not facts.special and facts.context is None


def test_all_that_a_folder_says(tmp_path: Path) -> None:
    chat = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "unk_token": None}
    config = {"eos_token_id": 2, "max_position_embeddings": 4096}
    files: dict[str, Any] = {
        "config.json": config,
        "tokenizer_config.json": {**chat, "chat_template": "a"},
    }
    facts = open_model(folder(tmp_path, **files)).facts
    assert facts.ends == {2} and facts.context == 4096 and facts.template == "a"
    assert facts.special == {"bos_token": "<s>", "eos_token": "</s>"}
    files["generation_config.json"] = {"eos_token_id": [2, 7]}
    several = [{"name": "tool_use", "template": "c"}, {"name": "default", "template": "b"}]
    files["tokenizer_config.json"] = {"chat_template": several}
    facts = open_model(folder(tmp_path, **files)).facts
    assert facts.ends == {2, 7} and facts.template == "b"
    assert open_model(folder(tmp_path, **{"chat_template.jinja": "é"})).facts.template == "é"


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("generation_config.json", {"eos_token_id": [True]}, "expected numbers of tokens"),
        ("tokenizer_config.json", {"chat_template": 3}, "chat template is no text"),
        ("tokenizer_config.json", {"bos_token": [1]}, "'bos_token' is"),
        ("config.json", {"max_position_embeddings": -1}, "'max_position_embeddings' is -1"),
    ],
)
def test_what_is_something_else(file: str, content: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=words):
        assert not open_model(folder(tmp_path, **{file: content})).facts


def test_a_gguf_file(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_context_length(2048)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["<s>", "a", "</s>"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(9)
    writer.add_chat_template("{{ messages }}")
    for step in (
        writer.write_header_to_file,
        writer.write_kv_data_to_file,
        writer.write_tensors_to_file,
        writer.close,
    ):
        step()
    facts = open_model(tmp_path / "model.gguf").facts
    assert facts.ends == {2} and facts.context == 2048 and facts.template == "{{ messages }}"
    assert facts.special == {"bos_token": "<s>", "eos_token": "</s>"}
