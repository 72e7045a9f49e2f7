"""A decoder in the language, whole or a block at a time, with a cache as input and output.

    forward(tokens: int64 [N, T], keys0, values0, …: float32 [N, P, groups, head_dim])
        -> logits [N, T, vocabulary], keys0, values0, …: [N, P + T, groups, head_dim]

T tokens follow P others, whose keys and values the cache holds; P may be 0. Not here: weights.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from .decoder import Decoder

_SIZES = ("features", "hidden", "heads", "groups", "head_dim")
"""What `DecoderBlock` of the standard layers takes first."""


def decoder_text(decoder: Decoder, *, places: bool = False) -> str:
    """The program, as text of the language.

    Args:
        decoder: of which model.
        places: logits of some tokens alone, [N, S, vocabulary]; a second input, int64 [S], says
            which.
    """
    cache = f"Tensor[N, P, {decoder.groups}, {decoder.head_dim}]"
    count = decoder.layers
    embedded = "embed_tokens(tokens)"
    if decoder.embedding_scale != 1:
        embedded += f" * {decoder.embedding_scale!r}"
    if "embed_positions.weight" in decoder.outer:
        embedded += f" + embed_positions({_POSITIONS})"
    before = [embedded, *(f"block{i}[0]" for i in range(count))]
    shown = f"gather({before[-1]}, places, axis=1)" if places else before[-1]

    def lines(parts: Iterable[str]) -> str:
        return "\n        ".join(parts)

    blocks = (f"{_block(decoder, window)}," for window in decoder.windows)
    caches = (f"keys{i}: {cache}, values{i}: {cache}," for i in range(count))
    calls = (f"let block{i} = layers[{i}]({before[i]}, keys{i}, values{i})" for i in range(count))
    results = ", ".join(f"block{i}[1], block{i}[2]" for i in range(count))
    return f"""layer {decoder.name} {{
    let embed_tokens = TokenEmbedding({decoder.embeddings})
    let lm_head = {f"TokenEmbedding({decoder.head})" if decoder.head else "embed_tokens"}
    let norm = {_last_norm(decoder)}
    {lines(_outer(decoder))}
    let layers = [
        {lines(blocks)}
    ]

    fn forward(
        tokens: Tensor<int64>[N, T],{" places: Tensor<int64>[S]," if places else ""}
        {lines(caches)}
    ) {{
        {lines(calls)}
        let logits = {_logits(decoder, shown)}
        return [{_capped(decoder)}, {results}]
    }}
}}
"""


_POSITIONS = "positions(tokens, axis=1) + sum(positions(keys0, axis=1) * 0 + 1)"


def _last_norm(decoder: Decoder) -> str:
    block, size = decoder.block, f"{decoder.features}, {decoder.eps!r}"
    if not block["centred"]:
        return f"RMSNorm({size})"
    return f"LayerNorm({size}, {json.dumps(block['norm_bias'])})"


def _outer(decoder: Decoder) -> Iterable[str]:
    """Declarations of what few models have."""
    for name, shape in decoder.outer.items():
        if name == "logits_bias":
            yield f"param logits_bias: Tensor[{decoder.vocabulary}]"
        elif name == "embed_positions.weight":
            yield f"let embed_positions = Embedding({shape[0]}, {shape[1]})"


def _logits(decoder: Decoder, shown: str) -> str:
    bias = " + logits_bias" if "logits_bias" in decoder.outer else ""
    scale = "" if decoder.logit_scale == 1 else f" * {decoder.logit_scale!r}"
    return f"(lm_head.logits(norm({shown})){bias}){scale}"


def _capped(decoder: Decoder) -> str:
    cap = decoder.logit_cap
    return f"tanh(logits / {cap!r}) * {cap!r}" if cap else "logits"


def block_texts(decoder: Decoder, tokens: int) -> tuple[str, str]:
    """A block of a batch of one in two programs, before and behind attention to a cache.

    forward(x: float32 [1, tokens, features], places: int64 [tokens])
        -> queries [1, tokens, heads, head_dim], keys, values [1, tokens, groups, head_dim]
    forward(x, means: float32 [1, tokens, heads * head_dim]) -> x

    Their parameters are called as those of the block, behind `block.`.

    Args:
        decoder: of which model.
        tokens: how many come together.
    """

    def text(given: str, result: str) -> str:
        return f"""layer Block {{
    let block = {_block(decoder, 0)}

    fn forward(x: Tensor[1, {tokens}, {decoder.features}], {given}) {{
        return {result}
    }}
}}
"""

    return (
        text(
            f"places: Tensor<int64>[{tokens}]",
            "block.self_attn.projected(block.before(x), places)",
        ),
        text(
            f"means: Tensor[1, {tokens}, {decoder.heads * decoder.head_dim}]",
            "block.behind(x, block.self_attn.joined(means))",
        ),
    )


def _block(decoder: Decoder, window: int) -> str:
    sizes = [str(getattr(decoder, name)) for name in _SIZES]
    named = {**decoder.block, "kind": decoder.kind, "eps": decoder.eps, "window": window}
    options = [f"{name}={json.dumps(value)}" for name, value in named.items()]
    return f"DecoderBlock({', '.join(sizes + options)})"
