"""`triton generate`: a language model continues a text, or answers in a chat."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ...ir.errors import OptionError
from ...lowering.generation import open_language_model
from ...runtime.chat_template import Message
from ...runtime.generation import Pace, Sampling
from ...runtime.language_model import LanguageModel
from ..console import note, print_json, progress, warn
from .options.language import Generate


def generate(options: Generate) -> None:
    """Print the text as it comes, and how quickly it came."""
    sampling = Sampling(options.temperature, options.top_k, options.top_p, options.seed)
    if options.prompt is None and (options.json or not options.chat):
        raise OptionError("give --prompt; with --chat alone, lines of standard input are the chat")
    if options.system is not None and not options.chat:
        raise OptionError("--system goes with --chat")
    with progress() as bar:
        bar.add_task(f"Compiling {options.model} for {options.engine}", total=None)
        model = open_language_model(options.model, options.engine, tokenizer=options.tokenizer)
    messages: list[Message] = []
    if options.system is not None:
        messages.append({"role": "system", "content": options.system})
    for line in _lines() if options.prompt is None else [options.prompt]:
        messages.append({"role": "user", "content": line})
        prompt = model.prompt(messages if options.chat else line)
        answer = _answer(model, prompt, options, sampling)
        messages.append({"role": "assistant", "content": answer})


def _lines() -> Iterator[str]:
    """What a person says, line by line."""
    while True:
        if sys.stdin.isatty():
            print("> ", end="", file=sys.stderr, flush=True)
        if not (line := sys.stdin.readline()):
            return
        if line.strip():
            yield line.rstrip("\n")


def _answer(
    model: LanguageModel, prompt: Sequence[int], options: Generate, sampling: Sampling
) -> str:
    """Print what follows a prompt, and give it."""
    pace, text_of = Pace(len(prompt)), model.tokenizer.text_after(prompt)
    tokens: list[int] = []
    parts: list[str] = []
    for token in pace.watch(model.tokens_after(prompt, options.max_tokens, sampling)):
        tokens.append(token)
        parts.append(text_of(token))
        if not options.json:
            print(parts[-1], end="", flush=True)
    text, engine = "".join(parts), model.session.name
    if options.json:
        facts: dict[str, Any] = {"engine": engine, "prompt": prompt, "tokens": tokens, "text": text}
        print_json({**facts, "pace": asdict(pace)})
    else:
        print()
        note("triton", f"{pace.words()}, on {engine}")
    told, context = len(prompt) + len(tokens), model.facts.context
    if context is not None and told > context:
        warn("triton", f"{told} tokens, where the model was made for {context}")
    return text
