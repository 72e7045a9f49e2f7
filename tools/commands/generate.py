"""`triton generate`: a language model continues a text."""

from __future__ import annotations

from dataclasses import asdict

from ...ir.errors import OptionError
from ...lowering.from_checkpoint.folder import end_tokens
from ...lowering.from_checkpoint.gguf_file import end_tokens_of_gguf
from ...lowering.generation import open_session
from ...runtime.generation import Pace, Sampling, Tokenizer
from ...runtime.generation import generate as tokens_after
from ..console import note, print_json, progress
from .options import Generate


def generate(options: Generate) -> None:
    """Print the text as it comes, and how quickly it came."""
    sampling = Sampling(options.temperature, options.top_k, options.top_p, options.seed)
    one_file = options.model.suffix == ".gguf"
    if one_file and options.tokenizer is None:
        raise OptionError("tokens of a .gguf file need a tokenizer: --tokenizer tokenizer.json")
    tokenizer = Tokenizer(options.tokenizer or options.model / "tokenizer.json")
    prompt = tokenizer.encode(options.prompt)
    with progress() as bar:
        bar.add_task(f"Compiling {options.model} for {options.engine}", total=None)
        session = open_session(options.model, options.engine)
    stop = (end_tokens_of_gguf if one_file else end_tokens)(options.model)
    pace = Pace(len(prompt))
    chosen = tokens_after(session, prompt, options.max_tokens, sampling=sampling, stop=stop)
    parts: list[tuple[int, str]] = []
    for token, text in tokenizer.stream(pace.watch(chosen)):
        parts.append((token, text))
        if not options.json:
            print(text, end="", flush=True)
    if options.json:
        text = "".join(text for _, text in parts)
        tokens = [token for token, _ in parts]
        facts = {"engine": session.name, "prompt": prompt, "tokens": tokens, "text": text}
        print_json({**facts, "pace": asdict(pace)})
        return
    print()
    note("triton", f"{pace.words()}, on {session.name}")
