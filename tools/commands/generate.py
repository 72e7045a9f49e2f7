"""`triton generate`: a language model continues a text, or answers in a chat."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence

from ...ir.errors import OptionError
from ...lowering.generation import open_language_model
from ...runtime.chat_template import Message
from ...runtime.generation import Sampling
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
    is_long = _warn_of_length(model, len(prompt))  # before it takes its time
    text_of, start = model.tokenizer.text_after(prompt), time.perf_counter()
    tokens, parts, times = list[int](), list[str](), [0.0]
    for token in model.tokens_after(prompt, options.max_tokens, sampling):
        times.append(time.perf_counter() - start)
        tokens.append(token)
        parts.append(text_of(token))
        if not options.json:
            print(parts[-1], end="", flush=True)
    text, engine, first = "".join(parts), model.session.name, times[:2][-1]
    rest = times[-1] - first
    if options.json:
        pace = {"prompt": len(prompt), "tokens": len(tokens), "first": first, "rest": rest}
        facts = {"engine": engine, "prompt": prompt, "tokens": tokens, "text": text}
        print_json({**facts, "pace": pace})
    else:
        print()
        speed = f", {len(tokens)} chosen, {(len(tokens) - 1) / rest:.1f} a second" if rest else ""
        note("triton", f"{len(prompt)} tokens told in {first:.2f} s{speed}, on {engine}")
    if not is_long:
        _warn_of_length(model, len(prompt) + len(tokens))
    return text


def _warn_of_length(model: LanguageModel, told: int) -> bool:
    """Say so, and give whether, where a model is told more than it was made for."""
    context = model.facts.context
    is_long = context is not None and told > context
    if is_long:
        warn("triton", f"{told} tokens, where the model was made for {context}")
    return is_long
