"""Checkpoints: what goes in comes out, whole or not at all, and nothing in a file is run."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from triton_dsl.ir.errors import ParameterError
from triton_dsl.runtime.training.checkpoint import KEY, load_tree, save_tree

TENSORS = st.sampled_from(
    [
        torch.arange(6).reshape(2, 3),
        torch.arange(6.0).reshape(2, 3).T,
        torch.tensor(1.5, dtype=torch.bfloat16),
        torch.zeros(0, 3, dtype=torch.uint8),
        torch.tensor([True, False]),
        torch.tensor([math.inf, -0.0], dtype=torch.float64),
    ]
)
KEYS = st.one_of(st.text(max_size=5), st.sampled_from(["$tensor", "$tuple", "$pairs"]))
LEAVES = st.one_of(
    TENSORS, st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()
)
TREES = st.dictionaries(
    KEYS,
    st.recursive(
        LEAVES,
        lambda parts: st.one_of(
            st.lists(parts, max_size=3),
            st.tuples(parts, parts),
            st.dictionaries(st.one_of(KEYS, st.integers(0, 9)), parts, max_size=3),
        ),
        max_leaves=8,
    ),
    max_size=4,
)


def is_same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        same_kind = a.dtype == b.dtype and a.shape == b.shape
        return same_kind and a.contiguous().reshape(-1).view(torch.uint8).equal(
            b.contiguous().reshape(-1).view(torch.uint8)
        )
    if isinstance(a, dict):
        return list(a) == list(b) and all(is_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(is_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return bool(a == b)


@settings(deadline=None)
@given(tree=TREES)
def test_through_a_file(tree: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "tree.safetensors"
    save_tree(path, tree)
    first = path.read_bytes()
    assert is_same(load_tree(path), tree)
    save_tree(path, tree)
    assert path.read_bytes() == first


def test_the_file_is_safetensors(tmp_path: Path) -> None:
    """Any reader of the format finds the tensors by their names."""
    weight = torch.randn(2, 2)
    path = tmp_path / "a.safetensors"
    save_tree(path, {"module": {"0.weight": weight}, "tied": [weight, weight]})
    opened: Any = safe_open(str(path), framework="pt")
    with opened as file:
        assert set(file.keys()) == {"module.0.weight", "tied.0", "tied.1"}
        assert torch.equal(file.get_tensor("module.0.weight"), weight)
        assert json.loads(file.metadata()[KEY])["format"] == 1
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(path.read_bytes())


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_tree(path, {"step": 1})
    with pytest.raises(ParameterError, match=r"a checkpoint cannot hold made\.1: object"):
        save_tree(path, {"made": [torch.zeros(1), object()]})
    with pytest.raises(OSError, match=r"No such file|Not a directory"):
        save_tree(tmp_path / "missing" / "a", {"step": 2})
    assert load_tree(path) == {"step": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.safetensors"]


def test_names_that_meet(tmp_path: Path) -> None:
    """Paths that are written alike keep their own tensors."""
    numbered = {"b": torch.ones(1), 1: torch.ones(2), "1": torch.ones(3)}
    tree = {"a.b": torch.zeros(1), "a": numbered, "__metadata__": torch.ones(4)}
    save_tree(tmp_path / "t", tree)
    assert is_same(load_tree(tmp_path / "t"), tree)


@pytest.mark.parametrize(
    "facts",
    [
        None,
        [],
        {"format": 2, "tree": {}},
        {"format": 1},
        {"format": 1, "tree": [1]},
        {"format": 1, "tree": {"a": {"$tensor": "b"}}},
        {"format": 1, "tree": {"a": {"$pairs": [1]}}},
        {"format": 1, "tree": {"a": {"$tensor": {}}}},
    ],
)
def test_damaged_files(facts: Any, tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    save_file({}, path, {KEY: json.dumps(facts)})
    with pytest.raises(ParameterError, match=r"is not one of format 1|is damaged"):
        load_tree(path)


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no such file"):
        load_tree(tmp_path / "none")
    (tmp_path / "text").write_text("epoch 3", encoding="utf-8")
    with pytest.raises(ParameterError, match="is not safetensors"):
        load_tree(tmp_path / "text")


@pytest.mark.parametrize("tree", [{"a": {(1, 2): 3}}, {"a": {b"x": 1}}, {"a": [object()]}])
def test_what_does_not_come_back_is_refused(tree: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="a checkpoint cannot hold"):
        save_tree(tmp_path / "t", tree)
    assert not any(tmp_path.iterdir())
