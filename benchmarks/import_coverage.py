"""How much of torchvision, timm and transformers comes in through `from_torch`.

    python benchmarks/import_coverage.py torchvision|timm|transformers [--only NAME,…] [--workers N]
        [--seconds 120] [--verify] [--json FILE]

Of torchvision every classification and segmentation model; of timm a small model of every
module; of transformers every architecture of text and vision that can be made of its configuration
with every size shrunk. Weights are random: what counts is whether a network comes in, how long that
takes, and how it is refused. Each model runs in a process of its own, so that none can stop the
others. With `--json` an interrupted run goes on, and a further one takes what did not come in.
`--verify` also runs the interpreter against the module in PyTorch.

Needs those packages beside ours (`pip install --no-deps torchvision timm transformers` and what
they ask for). A torchvision built for another PyTorch has no compiled operators; they are declared
here without meaning, since none of these models calls them.
"""

from __future__ import annotations

import argparse
import inspect
import json
import multiprocessing
import os
import re
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

FORK = multiprocessing.get_context("fork")

SMALL: Mapping[str, int] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 99, "max_position_embeddings": 64, "head_dim": 8,
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "n_embd": 32,
    "n_layer": 2, "n_head": 4, "n_positions": 64, "d_ff": 48, "d_kv": 8, "num_layers": 2,
    "num_heads": 4, "num_decoder_layers": 2, "embedding_size": 32, "ffn_dim": 48, "dim": 32,
    "hidden_dim": 48, "n_layers": 2, "n_heads": 4, "image_size": 32, "patch_size": 8,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 16, "word_embed_proj_dim": 32, "d_inner": 48, "d_head": 8,
    "rotary_dim": 4, "mlp_dim": 48, "type_vocab_size": 2, "max_2d_position_embeddings": 64,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "q_lora_rank": 16,
    "kv_lora_rank": 16, "n_group": 1, "topk_group": 1, "num_kv_shared_layers": 0,
    "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_num_heads": 4, "mamba_head_dim": 16,
}  # fmt: skip
"""Sizes of a shrunken configuration, by the names that the library uses."""


def declared() -> object:
    """Operators of torchvision, declared where its compiled part does not fit this PyTorch."""
    import torch

    try:
        import torchvision  # noqa: F401  # pyright: ignore[reportMissingImports, reportUnusedImport]
    except RuntimeError:
        for name in [key for key in sys.modules if key.split(".")[0] == "torchvision"]:
            del sys.modules[name]
    else:
        return None
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def names(of: str) -> list[str]:
    """What there is to import."""
    if of == "torchvision":
        from torchvision import models  # pyright: ignore[reportMissingImports]

        parts = ("detection", "optical_flow", "quantization", "video")
        wanted = [models, models.segmentation]
        return sorted({n for module in wanted for n in models.list_models(module)
                       if not any(part in models.get_model_builder(n).__module__
                                  for part in parts)})  # fmt: skip
    if of == "timm":
        import timm  # pyright: ignore[reportMissingImports]

        families = [timm.list_models(module=module) for module in timm.list_modules()]
        return [min(models, key=likely_size) for models in families if models]
    from transformers.models.auto import modeling_auto  # pyright: ignore[reportMissingImports]

    listed: dict[str, None] = {}
    for table in ("CAUSAL_LM", "MASKED_LM", "IMAGE_CLASSIFICATION", "SEQ_TO_SEQ_CAUSAL_LM",
                  "SEMANTIC_SEGMENTATION", *OTHERS):  # fmt: skip
        kinds = {name.partition(":")[0] for name in listed} if table in OTHERS else set[str]()
        for kind, made in getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES").items():
            if kind not in kinds:
                listed[f"{kind}:{made if isinstance(made, str) else made[0]}"] = None
    return list(listed)


OTHERS = (
    "OBJECT_DETECTION", "INSTANCE_SEGMENTATION", "UNIVERSAL_SEGMENTATION", "DEPTH_ESTIMATION",
    "IMAGE_TO_IMAGE", "KEYPOINT_DETECTION", "POSE_ESTIMATION", "IMAGE_MATTING", "TEXT_RECOGNITION",
    "VIDEO_CLASSIFICATION", "ZERO_SHOT_IMAGE_CLASSIFICATION", "QUESTION_ANSWERING",
    "TOKEN_CLASSIFICATION", "TEXT_ENCODING", "BACKBONE", "IMAGE",
)  # fmt: skip
"""Further tasks of text and vision, for architectures that do none of the first."""


SMALLER = (
    "test_", "zepto", "atto", "femto", "pico", "nano", "xxtiny", "xxs", "xtiny", "tiny", "_xs",
    "mini", "lite", "small", "_t", "_s", "b0", "_m0", "18", "_0", "_b",
)  # fmt: skip
"""What small models are called, the smallest first."""


def likely_size(name: str) -> tuple[int, int]:
    """The place of a model among those of its module, from its name: making all takes minutes."""
    return next((i for i, word in enumerate(SMALLER) if word in name), len(SMALLER)), len(name)


def model_of(of: str, name: str) -> tuple[Any, Any]:
    """A model with random weights and its example inputs."""
    import torch

    torch.manual_seed(0)
    if of == "torchvision":
        from torchvision import models  # pyright: ignore[reportMissingImports]

        options: dict[str, Any] = {"weights": None}
        if "segmentation" in models.get_model_builder(name).__module__:
            options["weights_backbone"] = None
        made = models.get_model(name, **options)
        return made, torch.randn(2, 3, *((299, 299) if "inception" in name else (224, 224)))
    if of == "timm":
        import timm  # pyright: ignore[reportMissingImports]

        made = timm.create_model(name)
        return made, torch.randn(2, *made.default_cfg["input_size"])
    return shrunken(name)


def shrunken(name: str) -> tuple[Any, Any]:
    """An architecture of transformers with small sizes."""
    import torch
    import transformers  # pyright: ignore[reportMissingImports]
    from transformers.models.auto import configuration_auto  # pyright: ignore[reportMissingImports]

    kind, made = name.split(":")
    model_class = getattr(transformers, made)
    # One part of an architecture has a configuration of its own.
    config_class = model_class.config_class or configuration_auto.CONFIG_MAPPING[kind]
    problem: Exception = ValueError("every configuration is too large")
    for left in LEFT:
        try:
            config = config_class(**shrunken_sizes(config_class(), left))
            for part in (config, *(p for p in vars(config).values() if hasattr(p, "to_dict"))):
                part.use_cache = False
            config.return_dict = True
            with torch.device("meta"):
                counted = sum(p.numel() for p in model_class(config).parameters())
            if counted > LARGEST:
                continue
            module = model_class(config).eval()
            for parameter in module.parameters():
                # A router of zeros takes all experts for equal, and top-k any of them.
                if parameter.dim() > 1 and not parameter.any():
                    torch.nn.init.normal_(parameter, 0, 0.02)
            inputs = inputs_of(module, config)
            with torch.no_grad():
                module(**inputs)
            return module, inputs
        except Exception as error:  # sizes that do not fit each other
            problem = error
    raise problem


LEFT = ("^$", "head_dim", "layer", "hidden_size|head", "^(?!.*layer)", ".")
"""Sizes that stay as they are, one pattern after the other, where others do not fit them."""

LARGEST = 400_000_000
"""Parameters of what is still tried."""


def shrunken_sizes(config: Any, left: str) -> dict[str, Any]:
    """Small sizes for what a configuration and those within it have, but for `left`."""
    sizes: dict[str, Any] = {}
    of_layers: dict[str, list[Any]] = {}
    heads = getattr(config, "num_attention_heads", 0)
    for key, value in vars(config).items():
        if hasattr(value, "to_dict") and not key.startswith("_"):
            sizes[key] = shrunken_sizes(value, left)
            if key == "backbone_config":  # of any kind, and not as that is by itself
                sizes[key] = value.to_dict() | sizes[key]
        elif re.search(left, key) or is_range(value):
            continue
        elif value is None and key in ("head_dim", "num_experts_per_tok", "vocab_size"):
            sizes[key] = SMALL[key]
        elif key == "num_key_value_heads" and value in (None, heads):
            sizes[key] = min(SMALL["num_attention_heads"], heads)
        elif key == "depths" and isinstance(value, list):
            sizes[key] = [1] * len(value)
        elif isinstance(value, list) and len(value) == getattr(config, "num_hidden_layers", None):
            kinds = [value[list(map(str, value)).index(kind)] for kind in {*map(str, value)}]
            of_layers[key] = sorted(kinds, key=value.index)
        elif isinstance(value, int) and not isinstance(value, bool) and key in SMALL:
            sizes[key] = min(SMALL[key], value)
        elif key.endswith("_token_id") and isinstance(value, int) and value >= SMALL["vocab_size"]:
            sizes[key] = 1
    if of_layers:
        # Two of each kind at least: some tie the weights of those of one kind.
        layers = 2 * max(map(len, of_layers.values()))
        sizes |= {key: [kinds[i % len(kinds)] for i in range(layers)]
                  for key, kinds in of_layers.items()}  # fmt: skip
        sizes["num_hidden_layers"] = layers
    return sizes


def is_range(value: object) -> bool:
    """Whether a list has the indices of all layers, and not a kind for each."""
    return isinstance(value, list) and len(value) > 1 and value == [*range(len(value))]


def inputs_of(module: Any, config: Any) -> dict[str, Any]:
    """What a model of transformers takes: an image, or tokens."""
    import torch

    name = getattr(module, "main_input_name", "")
    taken = inspect.signature(module.forward).parameters
    if hasattr(config, "vision_config") and "pixel_values" in taken:  # texts beside images
        name, config = "pixel_values", config.vision_config
    if name.startswith("pixel_values"):
        size = getattr(config, "image_size", 0) or (
            224 if hasattr(config, "backbone_config") else 32
        )
        pair = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
        counts = (getattr(config, key, None) for key in ("num_frames", "frames_per_clip"))
        frames = [count for count in counts if count]
        image = torch.randn(2, *frames, getattr(config, "num_channels", 3), *pair)
        ids = {"input_ids": torch.randint(5, 60, (2, 8))} if "input_ids" in taken else {}
        return {**ids, name: image}
    ids = torch.randint(5, 60, (2, 8))
    inputs = {"input_ids": ids}
    if hasattr(config, "visual_feat_dim"):  # features of parts of an image, and their places
        inputs["visual_feats"] = torch.randn(2, 6, config.visual_feat_dim)
        inputs["visual_pos"] = torch.rand(2, 6, config.visual_pos_dim)
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = ids
        if "attention_mask" in taken:
            inputs["attention_mask"] = torch.ones_like(ids)  # some make it from values otherwise
    return inputs


def attempt(of: str, name: str, verify: bool) -> dict[str, Any]:
    """Import one model; what came of it."""
    import torch

    from triton_dsl import from_torch
    from triton_dsl.ir.errors import TritonError

    torch.set_num_threads(1)
    try:
        module, inputs = model_of(of, name)
        module.eval()
        arguments = inputs if isinstance(inputs, dict) else {}
        with torch.no_grad():
            expected = verify and (module(**arguments) if arguments else module(inputs))
    except Exception as error:  # a model that PyTorch itself cannot run says nothing about us
        return {"name": name, "result": "no model", "why": f"{type(error).__name__}: {error}"[:300]}
    start = time.process_time()
    try:
        program = from_torch(module, inputs)
        result = {"result": "yes", "why": ""}
    except TritonError as error:
        result = {"result": "refused", "why": str(error)[:1500]}
    except Exception as error:  # what must not happen
        result = {"result": "raw error", "why": f"{type(error).__name__}: {error}"[:600]}
    else:
        if verify:
            result |= compared(program, inputs, expected)
    return {"name": name, "seconds": round(time.process_time() - start, 2), **result}


def compared(program: Any, inputs: Any, expected: Any) -> dict[str, Any]:
    """Whether the interpreter computes what PyTorch does."""
    import numpy as np

    from triton_dsl.dialects.interpret import run_module
    from triton_dsl.ir.interpreter import entry_function
    from triton_dsl.ir.value_names import argument_names

    order = argument_names(entry_function(program, "forward"))  # that of the signature
    named: dict[str, Any] = inputs if isinstance(inputs, dict) else dict.fromkeys(order, inputs)
    arrays = [named[name].numpy() for name in order]
    first = run_module(program, arrays)[0]
    wanted = expected
    while not hasattr(wanted, "numpy"):
        wanted = next(iter(wanted.values())) if isinstance(wanted, Mapping) else wanted[0]
    wanted = wanted.detach().numpy()
    far = float(np.abs(first - wanted).max() / max(np.abs(wanted).max(), 1e-9))
    return {"far": far, **({} if far < 1e-3 else {"result": "differs"})}


def answered(of: str, name: str, verify: bool, seconds: int, answer: Connection) -> None:
    """`attempt`, sent to another process, within so many seconds of processor time."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    answer.send(attempt(of, name, verify))


def run(of: str, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """`attempt` in a process of its own, a copy of this one with everything loaded."""
    here, there = FORK.Pipe(duplex=False)
    worker = FORK.Process(target=answered, args=(of, name, options.verify, options.seconds, there))
    worker.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        worker.join()
        if worker.exitcode in (-signal.SIGXCPU, -signal.SIGKILL):
            return {"name": name, "result": "too long", "why": f"over {options.seconds} s"}
        return {"name": name, "result": "crash", "why": "its process ended without an answer"}
    finally:
        worker.kill()
        worker.join()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("of", choices=["torchvision", "timm", "transformers"])
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--workers", type=int, default=max((os.cpu_count() or 2) // 2, 1))
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    library = declared()  # an operator lives as long as its library
    import torch

    from triton_dsl import from_torch

    # What every import loads is loaded once, before the processes part.
    torch.set_num_threads(1)
    from_torch(torch.nn.Linear(2, 2), torch.ones(2, 2))
    wanted = options.only.split(",") if options.only else names(options.of)
    found: dict[str, dict[str, Any]] = {}
    if options.json and options.json.exists():
        earlier = json.loads(options.json.read_text(encoding="utf-8"))
        found = {row["name"]: row for row in earlier if row["result"] == "yes"}
    missing = [name for name in wanted if name not in found]
    with ThreadPoolExecutor(options.workers) as pool:
        results = pool.map(lambda name: run(options.of, name, options), missing)
        for row in track(results, "importing", len(missing), console=Console(stderr=True)):
            found[row["name"]] = row
            if options.json:
                rows = [found[name] for name in wanted if name in found]
                options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    rows = [found[name] for name in wanted]
    del library
    table = Table("model", "result", "seconds", "why", title=options.of)
    for row in rows:
        if row["result"] != "yes":
            why = str(row["why"]).strip().replace("\n", " ")[:200]
            table.add_row(row["name"], row["result"], str(row.get("seconds", "")), why)
    console = Console()
    console.print(table)
    counts = Counter(row["result"] for row in rows)
    made = len(rows) - counts["no model"]
    share = 100 * counts["yes"] / max(made, 1)
    console.print(f"{counts['yes']} of {made} come in ({share:.1f} %): {dict(counts)}")


if __name__ == "__main__":
    main()
