"""A decoder in the language, whole or a block at a time, with a cache as input and output.

    forward(tokens: int64 [N, T], keys0, values0, …: float32 [N, P, groups, head_dim])
        -> logits [N, T, vocabulary], keys0, values0, …: [N, P + T, groups, head_dim]

T tokens follow P others, whose keys and values the cache holds; P may be 0. Not here: weights.
"""

from __future__ import annotations

from .decoder import Decoder


def decoder_text(
    decoder: Decoder, *, batch: int | str = "N", tokens: int | str = "T", places: bool = False
) -> str:
    """The program, as text of the language.

    Args:
        decoder: of which model.
        batch, tokens: sizes of the first input; a name leaves one free.
        places: logits of some tokens alone, [N, S, vocabulary]; a second input, int64 [S], says
            which.
    """
    lines = [
        f"layer {decoder.name} {{",
        f"    let embed_tokens = {_embedding(decoder)}",
        "    let layers = [",
        ",\n".join(f"        {_block(decoder, window)}" for window in decoder.windows),
        "    ]",
        f"    let norm = RMSNorm({decoder.features}, {decoder.eps!r})",
        *([] if decoder.tied else [f"    let lm_head = {_embedding(decoder)}"]),
        "",
        "    fn forward(",
        f"        tokens: Tensor<int64>[{batch}, {tokens}],",
        *(["        places: Tensor<int64>[S],"] if places else []),
    ]
    cache = f"Tensor[{batch}, P, {decoder.groups}, {decoder.head_dim}]"
    count = decoder.layers
    for i in range(count):
        comma = "," if i < count - 1 else ""
        lines.append(f"        keys{i}: {cache}, values{i}: {cache}{comma}")
    lines += ["    ) {"]
    before = "embed_tokens(tokens)"
    for i in range(count):
        lines.append(f"        let block{i} = layers[{i}]({before}, keys{i}, values{i})")
        before = f"block{i}[0]"
    shown = f"gather({before}, places, axis=1)" if places else before
    head = "embed_tokens" if decoder.tied else "lm_head"
    lines += ["        return [", f"            {head}.logits(norm({shown})),"]
    for i in range(count):
        comma = "," if i < count - 1 else ""
        lines.append(f"            block{i}[1], block{i}[2]{comma}")
    lines += ["        ]", "    }", "}", ""]
    return "\n".join(lines)


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
    x = f"x: Tensor[1, {tokens}, {decoder.features}]"
    means = f"means: Tensor[1, {tokens}, {decoder.heads * decoder.head_dim}]"
    parts = (
        (f"{x}, places: Tensor<int64>[{tokens}]", "before(x, places)"),
        (f"{x}, {means}", "behind(x, means)"),
    )
    before, behind = (
        f"""layer Block {{
    let block = {_block(decoder, 0)}

    fn forward({given}) {{
        return block.{call}
    }}
}}
"""
        for given, call in parts
    )
    return before, behind


def _embedding(decoder: Decoder) -> str:
    return f'TokenEmbedding({decoder.vocabulary}, {decoder.features}, "{decoder.element}")'


def _block(decoder: Decoder, window: int) -> str:
    given = {
        "activation": f'"{decoder.activation}"',
        "bias": decoder.bias,
        "out_bias": decoder.out_bias,
        "mlp_bias": decoder.mlp_bias,
        "kind": f'"{decoder.kind}"',
        "head_norm": decoder.head_norm,
        "sub_norm": decoder.sub_norm,
        "eps": repr(decoder.eps),
        "window": window,
        "attention_scaling": repr(decoder.attention_scaling),
    }
    sizes = (decoder.features, decoder.hidden, decoder.heads, decoder.groups, decoder.head_dim)
    words = [*map(str, sizes), *(f"{name}={_word(value)}" for name, value in given.items())]
    return f"DecoderBlock({', '.join(words)})"


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
