"""GGUF files, written by the package `gguf`, beside what Transformers computed from the weights."""

from __future__ import annotations

import re
import struct
import tracemalloc
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects import ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import ParameterError, SourceError, TritonError
from triton_dsl.lowering.from_checkpoint.gguf_header import Header
from triton_dsl.lowering.generation import native_session, open_session
from triton_dsl.lowering.models import import_model
from triton_dsl.runtime.generation import generate

from .checkpoints import GROUPS, HEADS, config_of, tensors_of, tokens
from .test_folder import RECORDS, empty_cache

gguf: Any = pytest.importorskip("gguf")

NAMES = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "attn_sub_norm": "attn_sub_norm",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
    "ffn_sub_norm": "ffn_sub_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "bitnet": "bitnet-b1.58"}


def named(name: str) -> str:
    """A tensor of Transformers as `convert_hf_to_gguf.py` calls it."""
    *_, stem, end = name.split(".")
    layer = f"blk.{name.split('.')[2]}." if ".layers." in name else ""
    return f"{layer}{NAMES[stem]}.{end}"


def paired(rows: np.ndarray, heads: int) -> np.ndarray:
    """What `LlamaModel.permute` of that program does."""
    split = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return split.swapaxes(1, 2).reshape(rows.shape)


def write(
    path: Path,
    config: dict[str, Any],
    tensors: dict[str, np.ndarray],
    types: dict[str, Any] | None = None,
    more: dict[str, str] | None = None,
) -> Path:
    """A GGUF file; `types` names the block types of tensors by the end of their names."""
    architecture = ARCHITECTURES.get(config["model_type"], config["model_type"])
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_token_list(["a", "b"])
    for key, value in (more or {}).items():
        writer.add_string(key, value)
    for name, values in tensors.items():
        array = values
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
            array = paired(
                array, config[f"num_{'attention' if 'q_' in name else 'key_value'}_heads"]
            )
        kind = next((t for end, t in (types or {}).items() if name.endswith(end)), None)
        if kind is None:
            writer.add_tensor(named(name), np.ascontiguousarray(array))
        else:
            packed = array if array.dtype == np.uint8 else blocks_of(kind, array)
            writer.add_tensor(named(name), packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def floats_of(kind: str) -> dict[str, np.ndarray]:
    """The tensors of a checkpoint, with BitNet's matrices as the floats that trits stand for."""
    tensors = tensors_of(kind)
    if not kind.startswith("bitnet"):
        return tensors
    result: dict[str, np.ndarray] = {}
    for name, values in tensors.items():
        if "_proj.weight" in name:
            scale = np.float32(np.abs(values).mean(dtype=np.float64))
            result[name] = (np.clip(np.rint(values / scale), -1, 1) * scale).astype(np.float32)
        else:
            result[name] = values
    return result


@pytest.mark.parametrize("kind", ["llama", "llama-trits", "qwen2", "qwen3", "bitnet-online"])
def test_logits_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    module = import_model(write(tmp_path / "model.gguf", config_of(kind), floats_of(kind)))
    logits, *_ = run_module(module, [tokens(), *empty_cache(kind, 2)])
    np.testing.assert_allclose(logits, RECORDS[f"{kind}.logits"], rtol=1e-4, atol=2e-5)
    trits = sum(isinstance(op, ternary.ParameterOp) for op in module.walk())
    assert trits == (14 if kind in ("llama-trits", "bitnet-online") else 0)


def test_text_is_that_of_transformers(tmp_path: Path) -> None:
    kind = "bitnet-online"
    path = write(tmp_path / "model.gguf", config_of(kind), floats_of(kind))
    greedy = RECORDS[f"{kind}.greedy"].tolist()
    session = open_session(path, "interpreter")
    assert list(generate(session, greedy[:4], len(greedy) - 4)) == greedy[4:]


WIDE = {
    "model_type": "bitnet",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS - 2,
    "num_key_value_heads": GROUPS,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}


def wide_tensors() -> dict[str, np.ndarray]:
    """A block whose rows are whole blocks of ternary types, with scales that float16 has."""
    rng = np.random.default_rng(0)
    shapes = {
        "self_attn.q_proj": (256, 256),
        "self_attn.k_proj": (128, 256),
        "self_attn.v_proj": (128, 256),
        "self_attn.o_proj": (256, 256),
        "mlp.gate_proj": (512, 256),
        "mlp.up_proj": (512, 256),
        "mlp.down_proj": (256, 512),
    }
    tensors: dict[str, np.ndarray] = {
        f"model.layers.0.{name}.weight": rng.integers(-1, 2, shape).astype(np.float32) / 16
        for name, shape in shapes.items()
    }
    norms = ("input_layernorm", "post_attention_layernorm", "self_attn.attn_sub_norm")
    for name in norms:
        tensors[f"model.layers.0.{name}.weight"] = rng.uniform(0.5, 1.5, 256).astype(np.float32)
    tensors["model.layers.0.mlp.ffn_sub_norm.weight"] = np.ones(512, np.float32)
    tensors["model.norm.weight"] = np.ones(256, np.float32)
    tensors["model.embed_tokens.weight"] = rng.standard_normal((40, 256)).astype(np.float16)
    return tensors


@pytest.mark.parametrize("kind", ["TQ1_0", "TQ2_0", "F16", "BF16"])
def test_ternary_blocks_are_exact(kind: str, tmp_path: Path) -> None:
    tensors = wide_tensors()
    plain = import_model(write(tmp_path / "plain.gguf", WIDE, tensors))
    types = {"_proj.weight": getattr(gguf.GGMLQuantizationType, kind)}
    packed = import_model(write(tmp_path / "plain2.gguf", WIDE, tensors, types))
    cache = [np.zeros((1, 0, GROUPS, 64), np.float32)] * 2
    inputs = [np.array([[3, 17, 39, 0]]), *cache]
    for actual, expected in zip(run_module(packed, inputs), run_module(plain, inputs), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("kind", "times"),
    [("F16", 1.3), ("Q8_0", 1.3), ("Q6_K", 1.6)],  # bytes for six bits are 1.3 times already
)
def test_no_float_and_no_second_copy_of_a_file_is_made(
    kind: str, times: float, tmp_path: Path
) -> None:
    head, name = getattr(gguf.GGMLQuantizationType, kind), "model.embed_tokens.weight"
    types = {"_proj.weight": gguf.GGMLQuantizationType.TQ2_0, name: head}
    small = wide_tensors()
    small[name] = blocks_of(head, small[name])
    large = small | {name: np.resize(small[name], (1 << 16, small[name].shape[1]))}
    path = write(tmp_path / "large.gguf", WIDE, large, types)
    import_model(write(tmp_path / "small.gguf", WIDE, small, types))  # loads what it needs
    tracemalloc.start()
    import_model(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < times * path.stat().st_size


def i2_s(trits: np.ndarray, scale: float) -> np.ndarray:
    """What `quantize_i2_s` of bitnet.cpp makes of a matrix, value by value."""
    content = bytearray(trits.size // 4)
    for place, trit in enumerate(trits.reshape(-1).tolist()):
        block, within = divmod(place, 128)
        content[32 * block + within % 32] |= (int(trit) + 1) << (6 - 2 * (within // 32))
    return np.frombuffer(bytes(content) + struct.pack("<f28x", scale), np.int8)


class Fork(IntEnum):
    """Types that the package does not know."""

    I2_S = 36


def test_trits_of_bitnet_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = wide_tensors()
    plain = import_model(write(tmp_path / "plain.gguf", WIDE, tensors))
    added = gguf.GGUFWriter.add_tensor

    def add(self: Any, name: str, values: np.ndarray) -> None:
        if any(part in name for part in ("attn_q.", "ffn_")) and values.ndim == 2:
            packed = i2_s(values * 16, 1 / 16)
            added(self, name, packed, raw_shape=values.shape, raw_dtype=Fork.I2_S)
        else:
            added(self, name, values)

    monkeypatch.setattr(gguf.GGUFWriter, "add_tensor", add)
    path = write(tmp_path / "packed.gguf", WIDE, tensors)
    assert path.stat().st_size < (tmp_path / "plain.gguf").stat().st_size / 2
    inputs = [np.array([[3, 17, 39, 0]]), *[np.zeros((1, 0, GROUPS, 64), np.float32)] * 2]
    packed = import_model(path)
    for actual, expected in zip(run_module(packed, inputs), run_module(plain, inputs), strict=True):
        np.testing.assert_array_equal(actual, expected)


FILES = ("a.gguf", "b.gguf")


def blocks_of(kind: Any, values: np.ndarray) -> np.ndarray:
    """Rows in blocks; those of Q6_K, which the package does not make, are at random."""
    if kind != gguf.GGMLQuantizationType.Q6_K:
        return gguf.quants.quantize(np.asarray(values, np.float32), kind)
    rng = np.random.default_rng(len(values))
    blocks = rng.integers(0, 256, (len(values), values.shape[1] // 256, 210), np.uint8)
    factors = rng.uniform(-1e-3, 1e-3, blocks.shape[:2]).astype(np.float16)
    blocks[:, :, 208:] = factors[:, :, None].view(np.uint8)
    return blocks.reshape(len(values), -1)


@pytest.mark.parametrize(
    ("kind", "head"),
    [("Q8_0", None), ("Q6_K", None), ("Q4_0", None), ("Q5_1", None), ("F16", "Q6_K")],
)
@pytest.mark.usefixtures("compiled_here")
def test_embeddings_in_blocks_are_what_they_stand_for(
    kind: str, head: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_session, "COUNTS", {1: 1})  # token by token
    packed = wide_tensors()
    packed |= {"lm_head.weight": packed["model.embed_tokens.weight"][::-1]} if head else {}
    floats, types = dict(packed), dict[str, Any]()
    for name, asked in (("model.embed_tokens.weight", kind), ("lm_head.weight", head)):
        if asked:
            type = types[name] = getattr(gguf.GGMLQuantizationType, asked)
            packed[name] = blocks_of(type, packed[name])
            floats[name] = gguf.quants.dequantize(packed[name], type)
    for name, tensors, given in ((FILES[0], packed, types), (FILES[1], floats, None)):
        write(tmp_path / name, WIDE, tensors, given)
    inputs = [np.array([[3, 17]]), *[np.zeros((1, 0, GROUPS, 64), np.float32)] * 2]
    ours, plain = (run_module(import_model(tmp_path / name), inputs)[0] for name in FILES)
    np.testing.assert_array_equal(ours, plain)
    # What each engine gets is the same tensor, whatever the blocks were.
    for engine in ("native", "onnx") if kind == "Q8_0" else ("native",):
        logits, same = (open_session(tmp_path / name, engine).feed([3, 17]) for name in FILES)
        np.testing.assert_allclose(logits, same, rtol=0, atol=1e-4 * np.abs(same).max())


def test_a_matrix_with_two_scales_is_not_one_of_bitnet(tmp_path: Path) -> None:
    tensors = wide_tensors()
    tensors["model.layers.0.mlp.up_proj.weight"][100:] *= 2
    with pytest.raises(SourceError, match=r"'layers.0.mlp.up_proj' has several scales"):
        import_model(write(tmp_path / "model.gguf", WIDE, tensors))


@pytest.mark.parametrize(
    ("change", "more", "words"),
    [
        ({"model_type": "bloom"}, {}, "architecture 'bloom' are not read; known are gemma"),
        ({}, {"bitnet-b1.58.rope.scaling.type": "yarn"}, "rotary embedding scaled by 'yarn'"),
        ({"num_attention_heads": 3}, {}, "hidden_size 256 is no multiple of 3 heads"),
    ],
)
def test_what_is_not_known(
    change: dict[str, Any], more: dict[str, str], words: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "model.gguf", {**WIDE, **change}, wide_tensors(), more=more)
    with pytest.raises(SourceError) as caught:
        import_model(path)
    assert words in str(caught.value) and "model.gguf" in str(caught.value)


def test_a_tensor_that_is_missing(tmp_path: Path) -> None:
    tensors = wide_tensors()
    del tensors["model.layers.0.mlp.ffn_sub_norm.weight"]
    with pytest.raises(ParameterError, match=r"no tensor 'blk.0.ffn_sub_norm.weight'"):
        import_model(write(tmp_path / "model.gguf", WIDE, tensors))


def header(*fields: bytes, tensors: bytes = b"", count: int = 0, described: int = 0) -> bytes:
    return (
        b"GGUF"
        + struct.pack("<IQQ", 3, count, described or len(fields))
        + b"".join(fields)
        + tensors
    )


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"ggml" + bytes(60), "is no GGUF file"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(60), "their first byte last"),
        (header(described=1 << 62), f"{1 << 62} entries of metadata"),
        (header(described=9), "ends too soon"),
        (header(count=1 << 62), f"{1 << 62} tensors"),
        (header(count=9), "ends too soon"),
        (header(struct.pack("<Q", (1 << 64) - 1)), "ends too soon"),
        (header(text("a") + struct.pack("<IIQ", 9, 8, 1 << 61)), "is damaged"),
        (header(text("a") + struct.pack("<IIQ", 9, 4, 1 << 61)), "ends too soon"),
        (header(text("a") + struct.pack("<IIQQ", 9, 8, 1, 99)), "ends too soon"),
        (header(text("a") + struct.pack("<IIQQ", 9, 8, 2, (1 << 64) - 1)), "is damaged"),
        (
            header(text("general.architecture") + struct.pack("<IQ", 8, 2) + b"\xff\xfe"),
            "architecture '\ufffd\ufffd'",
        ),
        (header(text("a") + struct.pack("<IIQ", 9, 9, 1)), "is damaged"),
        (header(text("a") + struct.pack("<I", 77)), "is not a valid"),
        (header(*[text("a\n") + struct.pack("<II", 4, 1)] * 2), "a name that is none"),
        (
            header(tensors=text("a\n") + struct.pack("<IQIQ", 1, 4, 0, 0), count=1),
            "a name that is none",
        ),
        (header(tensors=text("t") + struct.pack("<I", 99), count=1), "ends too soon"),
        (
            header(tensors=text("t") + struct.pack("<I5QIQ", 5, *[1] * 5, 0, 0), count=1),
            "tensor 't' has the shape (1, 1, 1, 1, 1)",
        ),
        (
            header(tensors=text("t") + struct.pack("<IQQIQ", 2, 1 << 40, 1 << 40, 0, 0), count=1),
            "tensor 't' has the shape",
        ),
        (
            header(tensors=2 * (text("t") + struct.pack("<IQIQ", 1, 4, 0, 0)) + bytes(64), count=2),
            "'t' twice",
        ),
        (
            header(tensors=text("t") + struct.pack("<IQIQ", 1, 1 << 39, 0, 0), count=1),
            "ends within tensor 't'",
        ),
        (
            header(tensors=text("t") + struct.pack("<IQIQ", 1, 4, 0, (1 << 64) - 1), count=1),
            "ends within tensor 't'",
        ),
        (
            header(tensors=text("t") + struct.pack("<IQIQ", 1, 4, 3000, 0), count=1),
            "tensor 't' is of type 3000",
        ),
        (
            header(tensors=text("t") + struct.pack("<IQIQ", 1, 100, 35, 0), count=1),
            "rows of tensor 't' are no whole blocks",
        ),
    ],
)
def test_hostile_headers(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=rf"model\.gguf.*{re.escape(words)}"):
        import_model(path)


def test_a_trit_that_is_none(tmp_path: Path) -> None:
    types = {"_proj.weight": gguf.GGMLQuantizationType.TQ2_0}
    path = write(tmp_path / "model.gguf", WIDE, wide_tensors(), types)
    content = bytearray(path.read_bytes())
    place = Header(path).places["blk.0.ffn_up.weight"]
    content[place.start + 17] = 0xFF
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"'blk.0.ffn_up.weight' is damaged: a trit has the code"):
        import_model(path)


@pytest.mark.parametrize("size", [0, 3, 4, 24, 100, 900])
def test_a_file_that_ends_too_soon(size: int, tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf", WIDE, wide_tensors())
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(TritonError, match=r"model\.gguf"):
        import_model(path)


def test_damaged_files_give_one_error_or_a_model(tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf", config_of("qwen2"), tensors_of("qwen2"))
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, 2500, 60).tolist():
        broken = bytearray(content)
        broken[place] ^= int(rng.integers(1, 256))
        path.write_bytes(broken)
        try:
            import_model(path)
        except TritonError as error:
            assert str(error)
