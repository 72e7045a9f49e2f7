"""Options of commands for language models."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from .common import Json, LanguageModel, TextEngine, TokenizerFile, flag, number, option


# fmt: off
@dataclass(frozen=True)
class Generate:
    """Continue a text with a language model: a Hugging Face folder or a .gguf file.

    Example: triton generate BitNet-b1.58-2B4T --prompt 'Ternary weights' --max-tokens 64
    """

    model: LanguageModel
    prompt: Annotated[str | None, option("TEXT", "What to continue, or to answer.",
        "--prompt")] = None
    chat: Annotated[bool, flag("--chat",
        "Answer, by the model's chat template. Without --prompt, line by line of stdin.")] = False
    system: Annotated[str | None, option("TEXT", "What a chat begins with, for the model.")] = None
    tokenizer: TokenizerFile = None
    max_tokens: Annotated[int, number("Tokens at most.", 1, 1_000_000, "--max-tokens", "-n")] = 128
    engine: TextEngine = "native"
    temperature: Annotated[float, number("Of the draw; 0 takes the likeliest token.", 0)] = 0.0
    top_k: Annotated[int, number("Draw from so many tokens; 0: from all.", 0)] = 0
    top_p: Annotated[float, option("P",
        "Draw from the likeliest tokens of this probability.")] = 1.0
    seed: Annotated[int, number("Seed of the draw.", 0)] = 0
    json: Json = False


@dataclass(frozen=True)
class Evaluate:
    """Tell how well a language model foretells a text, and whether two engines agree on it.

    Perplexity and bits a byte, over windows of tokens. With --against the same on another engine,
    such as transformers: the largest difference of two logits, and how many tokens are the same
    when each continues the text. Exits with 1 where they part.

    Example: triton evaluate BitNet-b1.58-2B4T --text pages.txt --against transformers
    """

    model: LanguageModel
    text: Annotated[Path, option("FILE", "A text in UTF-8.", "--text", show_default=False)]
    tokenizer: TokenizerFile = None
    engine: TextEngine = "native"
    against: Annotated[str | None, option("TARGET", "Another engine to compare with.")] = None
    window: Annotated[int, number("Tokens that are told together.", 2, 1_000_000)] = 512
    stride: Annotated[int, number("Tokens from one window to the next, below --window.", 1)] = 256
    tokens: Annotated[int | None, number("Take so many tokens of the text.", 2,
        show_default="all")] = None
    max_tokens: Annotated[int, number("Tokens to continue with --against.", 1, None, "--max-tokens",
        "-n")] = 256
    tolerance: Annotated[float, number("By how much logits may differ with --against.", 0)] = 0.1
    json: Json = False
