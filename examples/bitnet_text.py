"""Train a small BitNet b1.58 on the pages of Python's own manual, and take it everywhere.

    python examples/bitnet_text.py OUT [--steps 400] [--layers 10]

writes a Hugging Face folder (trits packed as those of BitNet 2B4T, a tokenizer) and the same model
as OUT/model.gguf (TQ2_0), continues a text on three engines, and tells the perplexity of pages that
it was not trained on. The text is `pydoc_data`, which every Python has; nothing is downloaded.
Needs the extras torch, language, onnx and native.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pydoc_data import topics

import gguf
import numpy as np
import safetensors.numpy
import tokenizers
import torch
from torch import Tensor, nn

from triton_dsl.runtime import Perplexity, Sampling, foretold
from triton_dsl.targets import open_language_model

END = "<|end|>"
EPS = 1e-5

GGUF_NAMES = {
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "attn_sub_norm": "attn_sub_norm",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
    "ffn_sub_norm": "ffn_sub_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
"""Of the parts of a block."""


@dataclass(frozen=True)
class Sizes:
    """Of the model; widths are multiples of 256, the block of TQ2_0."""

    layers: int = 10
    features: int = 256
    hidden: int = 1024
    heads: int = 8
    groups: int = 4
    vocabulary: int = 2048

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.features // self.heads


def pages() -> tuple[str, str]:
    """Text to train on, and every tenth page, which is kept apart."""
    texts = [text for _, text in sorted(topics.topics.items())]
    kept = texts[5::10]
    return "\n".join(text for text in texts if text not in kept), "\n".join(kept)


def tokenizer_of(text: str, size: int) -> tokenizers.Tokenizer:
    """Byte pairs, as GPT-2 has them."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(text.split("\n\n"), trainer)
    return tokenizer


def straight(x: Tensor, rounded: Tensor) -> Tensor:
    """The rounded values, with the gradient of those that were rounded."""
    return x + (rounded - x).detach()


def trits_of(weight: Tensor) -> tuple[Tensor, Tensor]:
    """round(w / mean |w|) and the mean (Ma et al. 2024); the mean has a float16, as GGUF has it."""
    scale = weight.abs().mean().clamp(min=EPS).half().float()
    return (weight / scale).round().clamp(-1, 1), scale


class BitLinear(nn.Linear):
    """Trits, and activations rounded to int8 token by token, both through their gradients."""

    def __init__(self, ins: int, outs: int) -> None:
        super().__init__(ins, outs, bias=False)
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, input: Tensor) -> Tensor:
        """[…, ins] to […, outs]."""
        x = input
        trits, scale = trits_of(self.weight)
        factor = 127 / x.abs().amax(-1, keepdim=True).clamp(min=EPS)
        rounded = (x * factor).round().clamp(-128, 127) / factor
        return nn.functional.linear(straight(x, rounded), straight(self.weight, trits * scale))


class Attention(nn.Module):
    """Causal, with rotary positions and groups of heads."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.q_proj = BitLinear(sizes.features, sizes.features)
        self.k_proj = BitLinear(sizes.features, sizes.groups * sizes.head_dim)
        self.v_proj = BitLinear(sizes.features, sizes.groups * sizes.head_dim)
        self.o_proj = BitLinear(sizes.features, sizes.features)
        self.attn_sub_norm = nn.RMSNorm(sizes.features, EPS)

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, features]."""
        count, length, _ = x.shape
        width = self.sizes.head_dim
        frequencies = 10000.0 ** (-torch.arange(0, width, 2) / width)
        angles = torch.arange(length)[:, None] * frequencies

        def heads(y: Tensor) -> Tensor:
            return y.view(count, length, -1, width).transpose(1, 2)

        def turned(y: Tensor) -> Tensor:
            left, right = y.chunk(2, -1)
            cosines, sines = angles.cos(), angles.sin()
            return torch.cat([left * cosines - right * sines, right * cosines + left * sines], -1)

        query, key = turned(heads(self.q_proj(x))), turned(heads(self.k_proj(x)))
        value = heads(self.v_proj(x))
        joined = nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )
        return self.o_proj(self.attn_sub_norm(joined.transpose(1, 2).reshape(x.shape)))


class FeedForward(nn.Module):
    """Squared ReLU behind a gate."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.gate_proj = BitLinear(sizes.features, sizes.hidden)
        self.up_proj = BitLinear(sizes.features, sizes.hidden)
        self.down_proj = BitLinear(sizes.hidden, sizes.features)
        self.ffn_sub_norm = nn.RMSNorm(sizes.hidden, EPS)

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, features]."""
        gate = self.gate_proj(x).relu().square()
        return self.down_proj(self.ffn_sub_norm(gate * self.up_proj(x)))


class Block(nn.Module):
    """Attention, then the feed-forward part, each behind a normalisation."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(sizes), FeedForward(sizes)
        self.input_layernorm = nn.RMSNorm(sizes.features, EPS)
        self.post_attention_layernorm = nn.RMSNorm(sizes.features, EPS)

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, features]."""
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class BitNet(nn.Module):
    """BitNet b1.58, its parts called as in the files of Hugging Face."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.embed_tokens = nn.Embedding(sizes.vocabulary, sizes.features)
        nn.init.normal_(self.embed_tokens.weight, std=0.02)
        self.layers = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.features, EPS)

    def forward(self, tokens: Tensor) -> Tensor:
        """int64 [N, T] to logits [N, T, vocabulary]."""
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.embed_tokens.weight.T


def train(
    model: BitNet, tokens: Tensor, steps: int, *, batch: int = 4, length: int = 128
) -> Iterator[float]:
    """The loss of each step, in nats a token."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-3, betas=(0.9, 0.95), weight_decay=0)
    ramp = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 20, 1) * (1 - 0.9 * step / steps)
    )
    for _ in range(steps):
        starts = torch.randint(len(tokens) - length, (batch,))
        rows = torch.stack([tokens[start : start + length + 1] for start in starts.tolist()])
        logits = model(rows[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ramp.step()
        yield loss.item()


def save_folder(model: BitNet, tokenizer: tokenizers.Tokenizer, folder: Path) -> None:
    """A folder that `transformers` reads too: rows in quarters, two bits each."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes, tensors = model.sizes, dict[str, np.ndarray]()
    for name, weight in model.state_dict().items():
        if "_proj" not in name:
            tensors[f"model.{name}"] = weight.numpy()
            continue
        trits, scale = trits_of(weight)
        quarters = (trits + 1).byte().numpy().reshape(4, -1, weight.shape[1])
        packed = sum(part << 2 * place for place, part in enumerate(quarters))
        tensors[f"model.{name}"] = np.asarray(packed, np.uint8)
        tensors[f"model.{name}_scale"] = scale.reshape(1).numpy()
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    quantization = {
        "quant_method": "bitnet",
        "linear_class": "autobitlinear",
        "quantization_mode": "offline",
        "modules_to_not_convert": ["lm_head"],
    }
    config = {
        "model_type": "bitnet",
        "architectures": ["BitNetForCausalLM"],
        "vocab_size": sizes.vocabulary,
        "hidden_size": sizes.features,
        "intermediate_size": sizes.hidden,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.groups,
        "max_position_embeddings": 2048,
        "rms_norm_eps": EPS,
        "hidden_act": "relu2",
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "quantization_config": quantization,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = json.dumps({"eos_token": END})
    (folder / "tokenizer_config.json").write_text(settings, encoding="utf-8")


def save_gguf(model: BitNet, tokenizer: tokenizers.Tokenizer, file: Path) -> None:
    """The same model as bitnet.cpp calls it, with its tokenizer."""
    sizes, architecture = model.sizes, "bitnet-b1.58"
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_context_length(2048)
    writer.add_embedding_length(sizes.features)
    writer.add_feed_forward_length(sizes.hidden)
    writer.add_block_count(sizes.layers)
    writer.add_head_count(sizes.heads)
    writer.add_head_count_kv(sizes.groups)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_rope_freq_base(10000.0)
    pairs = json.loads(tokenizer.to_str())["model"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(sorted(pairs["vocab"], key=pairs["vocab"].get))
    writer.add_token_merges([" ".join(pair) for pair in pairs["merges"]])
    writer.add_token_types([3, *[1] * (len(pairs["vocab"]) - 1)])
    writer.add_eos_token_id(0)
    for name, weight in model.state_dict().items():
        part = name.split(".")[-2]
        own = {"embed_tokens": "token_embd.weight", "norm": "output_norm.weight"}.get(part)
        own = own or f"blk.{name.split('.')[1]}.{GGUF_NAMES[part]}.weight"
        if "_proj" not in name:
            writer.add_tensor(own, weight.numpy())
            continue
        trits, scale = trits_of(weight)
        kind = gguf.GGMLQuantizationType.TQ2_0
        writer.add_tensor(own, gguf.quants.quantize((trits * scale).numpy(), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Train, write, and run what was written."""
    parser = argparse.ArgumentParser(description="Train a small BitNet b1.58.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--layers", type=int, default=Sizes.layers)
    parser.add_argument("--hidden", type=int, default=Sizes.hidden)
    options = parser.parse_args()
    torch.manual_seed(0)
    text, kept = pages()
    sizes = Sizes(layers=options.layers, hidden=options.hidden)
    tokenizer = tokenizer_of(text, sizes.vocabulary)
    tokens = torch.tensor(tokenizer.encode(text).ids)
    model = BitNet(sizes)
    count = sum(weight.numel() for weight in model.parameters())
    print(f"{count:,} parameters, {len(tokens):,} tokens of {len(text):,} letters")
    recent: list[float] = []
    for step, loss in enumerate(train(model, tokens, options.steps), 1):
        recent = [*recent[-19:], loss]
        if step % 20 == 0 or step == options.steps:
            print(f"step {step}: loss {sum(recent) / len(recent):.3f}", flush=True)
    save_folder(model, tokenizer, options.out)
    save_gguf(model, tokenizer, options.out / "model.gguf")
    prompt, answers = "The for statement is used to", dict[str, str]()
    for engine in ("native", "onnx", "pytorch"):
        opened = open_language_model(options.out, engine)
        answers[engine] = "".join(opened.generate(prompt, 64))
    print(f"{prompt}{answers['native']}")
    print(f"the same text on every engine: {len(set(answers.values())) == 1}")
    native, score = open_language_model(options.out), Perplexity()
    for part in foretold(native.session, tokenizer.encode(kept).ids[:2000]):
        score.add(part)
    print(f"perplexity of pages it has not seen: {score.value:.1f} ± {score.error:.1f}")
    drawn = native.generate("Exceptions", 64, sampling=Sampling(temperature=0.8, top_p=0.9, seed=1))
    print("Exceptions" + "".join(drawn))


if __name__ == "__main__":
    main()
