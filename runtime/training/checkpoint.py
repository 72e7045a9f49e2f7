"""Checkpoints: nested dictionaries with tensors in one safetensors file, written whole or not.

The tensors stand in the file as such, all else as JSON in its metadata; there is no pickle, and
nothing in a file is run. Not here: what a trainer keeps (`trainer`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from ...ir.errors import ParameterError
from ...ir.safe_write import PendingFiles
from ...ir.store import written_by
from ..tensor_file import read_tensor_file

KEY = "triton_dsl.checkpoint"
FORMAT = 1

_MARKS = ("$tensor", "$tuple", "$pairs")


def save_tree(path: str | Path, tree: Mapping[str, Any]) -> None:
    """Write `tree` to the file `path`, which is replaced when all of it is written.

    Args:
        path: of the file; its folder exists.
        tree: dictionaries, lists, tuples, numbers, texts, truth values, `None` and tensors; keys
            are numbers, texts, truth values or `None`.

    Raises:
        ParameterError: something else is in it.
        OSError: the file cannot be written.
    """
    from safetensors import torch as safetensors

    library: Any = safetensors

    tensors: dict[str, Tensor] = {}
    facts = {"format": FORMAT, "tree": _encoded(tree, (), tensors)}
    text = json.dumps(facts, separators=(",", ":"))

    def write(place: Path) -> None:
        written_by(lambda: library.save_file(tensors, place, {KEY: text}))

    with PendingFiles() as files:
        files.add_written(Path(path), write)


def load_tree(path: str | Path) -> dict[str, Any]:
    """What `save_tree` wrote, its tensors on the processor.

    Raises:
        ParameterError: the file is missing, or is no checkpoint.
    """
    tensors, facts = read_tensor_file(path, "checkpoint", KEY)
    if not isinstance(facts, dict) or cast(Any, facts).get("format") != FORMAT:
        raise ParameterError(f"checkpoint '{path}' is not one of format {FORMAT}")
    try:
        tree = _decoded(cast(Any, facts)["tree"], tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise ParameterError(f"checkpoint '{path}' is damaged: {error!r}") from None
    if not isinstance(tree, dict):
        raise ParameterError(f"checkpoint '{path}' is damaged: it holds no dictionary")
    return cast("dict[str, Any]", tree)


def _encoded(value: Any, path: tuple[str, ...], tensors: dict[str, Tensor]) -> Any:
    """`value` as JSON has it; what JSON lacks is a dictionary with one mark for its key."""
    if isinstance(value, Tensor):
        name = ".".join(path)
        # Two paths may be written alike, and one name is the format's own.
        while name in tensors or name == "__metadata__":
            name += "'"
        # A copy for each name: safetensors refuses memory that two names share.
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"$tensor": name}
    if isinstance(value, Mapping):
        items = list(cast("Mapping[Any, Any]", value).items())
        encoded = [(key, _encoded(part, (*path, str(key)), tensors)) for key, part in items]
        for key, _ in items:
            if key is not None and type(key) not in (bool, int, float, str):
                raise ParameterError(f"a checkpoint cannot hold the key {key!r}")
        is_plain = all(type(key) is str and key not in _MARKS for key, _ in items)
        return dict(encoded) if is_plain else {"$pairs": [list(pair) for pair in encoded]}
    if isinstance(value, tuple | list):
        parts = [
            _encoded(part, (*path, str(index)), tensors)
            for index, part in enumerate(cast("list[Any]", value))
        ]
        return {"$tuple": parts} if isinstance(value, tuple) else parts
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise ParameterError(f"a checkpoint cannot hold {'.'.join(path)}: {type(value).__name__}")


def _decoded(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_decoded(part, tensors) for part in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if "$tensor" in fields:
        return tensors[fields["$tensor"]]
    if "$tuple" in fields:
        return tuple(_decoded(part, tensors) for part in fields["$tuple"])
    if "$pairs" in fields:
        return {key: _decoded(part, tensors) for key, part in fields["$pairs"]}
    return {key: _decoded(part, tensors) for key, part in fields.items()}
