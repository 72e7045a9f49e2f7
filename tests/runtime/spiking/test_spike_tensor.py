"""`SpikeTensor`: both layouts hold the same, and files bring it back."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.torch import save_file
from torch import Tensor

from triton_dsl.ir.errors import OptionError, ParameterError
from triton_dsl.runtime.spiking.spike_tensor import SpikeTensor

SHAPES = st.tuples(
    st.integers(0, 3), st.integers(0, 6), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)
)
SPIKES = arrays.arrays(np.bool_, SHAPES)
FACTS = st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.booleans()))
LAYOUTS = st.sampled_from(["dense", "sparse"])


def random(*shape: int, seed: int = 0, rate: float = 0.2) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < rate


def tensor_of(spikes: Any, layout: str, **options: Any) -> SpikeTensor:
    made = SpikeTensor(torch.from_numpy(spikes), **options)
    return made if layout == "dense" else made.to_sparse()


@given(SPIKES, FACTS, st.floats(1e-9, 1e3))
def test_layouts_hold_the_same(spikes: Any, facts: dict[str, Any], dt: float) -> None:
    dense = SpikeTensor(torch.from_numpy(spikes), dt, facts)
    sparse = dense.to_sparse()
    assert (dense.layout, sparse.layout) == ("dense", "sparse")
    assert dense == sparse and sparse == dense and sparse.to_dense() == dense
    for made in (dense, sparse, sparse.to_dense(), dense.to_sparse().to_sparse()):
        np.testing.assert_array_equal(made.data.numpy(), spikes)
        np.testing.assert_array_equal(made.events.numpy(), np.argwhere(spikes))
        assert (made.shape, made.dt, made.metadata) == (spikes.shape, dt, facts)
    again = SpikeTensor.from_events(dense.events, spikes.shape, dt, facts)
    assert again == dense and again.layout == "sparse"


@given(SPIKES, LAYOUTS, FACTS, st.floats(1e-9, 1e3))
@settings(max_examples=50)
def test_files(
    tmp_path_factory: pytest.TempPathFactory, spikes: Any, layout: str, facts: Any, dt: float
) -> None:
    path = tmp_path_factory.mktemp("spikes") / "spikes.safetensors"
    made = tensor_of(spikes, layout, dt=dt, metadata=facts)
    made.save(path)
    again = SpikeTensor.load(path)
    assert again == made and again.layout == layout and again.metadata == facts
    first = path.read_bytes()
    again.save(path)
    assert path.read_bytes() == first


@given(SPIKES, LAYOUTS, st.integers(-8, 8), st.none() | st.integers(-8, 8))
def test_slices_over_time(spikes: Any, layout: str, start: int, stop: int | None) -> None:
    part = tensor_of(spikes, layout, dt=0.5, metadata={"a": 1}).steps(start, stop)
    expected = spikes[:, start:stop]
    np.testing.assert_array_equal(part.data.numpy(), expected)
    assert (part.layout, part.timesteps) == (layout, expected.shape[1])
    assert (part.dt, part.metadata, part.duration) == (0.5, {"a": 1}, expected.shape[1] / 2)


@given(SPIKES, LAYOUTS, st.sets(st.sampled_from([0, 1, 2, 3, 4])))
def test_counts(spikes: Any, layout: str, kept: set[int]) -> None:
    names = ("batch", "time", "channels", "height", "width")
    made = tensor_of(spikes, layout)
    found = made.counts(*(names[axis] for axis in kept))
    expected = spikes.sum(axis=tuple({0, 1, 2, 3, 4} - kept), dtype=np.int64)
    assert found.dtype == torch.int64
    np.testing.assert_array_equal(found.numpy(), expected)
    assert made.count() == spikes.sum()
    assert made.rate() == (spikes.mean() if spikes.size else 0)


@given(SPIKES, SPIKES, LAYOUTS, LAYOUTS)
def test_equality(a: Any, b: Any, first: str, second: str) -> None:
    assert (tensor_of(a, first) == tensor_of(b, second)) == np.array_equal(a, b)


def test_equality_sees_everything() -> None:
    data = random(1, 2, 3, 1, 1)
    made = SpikeTensor(data, 1e-3, {"a": 1})
    assert made == SpikeTensor(data.float(), 1e-3, {"a": 1})
    other = data.clone()
    other[0, 1, 2] ^= True
    for changed in (
        SpikeTensor(data, 2e-3, {"a": 1}),
        SpikeTensor(data, 1e-3, {"a": 2}),
        SpikeTensor(data.reshape(1, 2, 1, 3, 1), 1e-3, {"a": 1}),
        SpikeTensor(other, 1e-3, {"a": 1}),
        data,
    ):
        assert made != changed


def test_storage() -> None:
    made = SpikeTensor(random(2, 10, 3, 4, 5, rate=0.01))
    assert made.nbytes == 1200 and made.to_sparse().nbytes == 8 * made.count()
    assert made.count() > 0 and f"{made.count()} spikes" in repr(made)


def test_nothing_given_is_kept() -> None:
    data, facts = random(1, 2, 3, 1, 1), {"a": [1]}
    made = SpikeTensor(data, metadata=facts)
    before = made.data.clone()
    data ^= True
    facts["a"].append(2)
    made.metadata["a"].append(3)
    assert torch.equal(made.data, before) and made.metadata == {"a": [1]}
    assert copy.deepcopy(made) == made


@pytest.mark.parametrize("shape", [(5, 2), (5, 2, 3), (5, 2, 3, 4), (5, 2, 3, 4, 2)])
def test_trains(shape: tuple[int, ...]) -> None:
    train = random(*shape).float()
    made = SpikeTensor.from_train(train, 0.01)
    assert made.shape[:2] == (2, 5) and made.timesteps == 5 and made.duration == 0.05
    assert torch.equal(made.to_train(len(shape)), train)
    assert torch.equal(made.data[:, 3].reshape(train[3].shape), train[3] > 0)
    assert made.to_train(dtype=torch.bool).shape == (*shape, *[1] * (5 - len(shape)))


def test_events_come_in_any_order() -> None:
    events = torch.tensor([[1, 2, 0, 0, 1], [0, 3, 0, 1, 0], [0, 0, 0, 1, 1]])
    made = SpikeTensor.from_events(events.to(torch.int32), (2, 4, 1, 2, 2))
    assert made.events.tolist() == [[0, 0, 0, 1, 1], [0, 3, 0, 1, 0], [1, 2, 0, 0, 1]]
    assert made.to_dense().data.nonzero().tolist() == made.events.tolist()


def test_moves() -> None:
    made = SpikeTensor(random(1, 2, 3, 1, 1))
    for layout in (made, made.to_sparse()):
        assert layout.cpu() == made and layout.cpu().device.type == "cpu"
        assert layout.to("meta").device.type == "meta" and layout.to("meta").shape == made.shape
        assert "device='meta'" in repr(layout.to("meta"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_moves_to_a_gpu() -> None:
    made = SpikeTensor(random(1, 2, 3, 1, 1))
    for layout in (made, made.to_sparse()):
        assert layout.cuda().device.type == "cuda" and layout.cuda() == made


EVENT = [0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpikeTensor(torch.zeros(2, 3)), r"expected \[batch, time, channels"),
        (lambda: SpikeTensor(torch.full((1, 1, 1, 1, 1), 2.0)), "as 0 and 1, got 2.0"),
        (lambda: SpikeTensor(torch.full((1, 1, 1, 1, 1), torch.nan)), "as 0 and 1, got nan"),
        (lambda: SpikeTensor(torch.zeros(1, 1, 1, 1, 1), 0), "dt: expected seconds above 0"),
        (lambda: SpikeTensor(torch.zeros(1, 1, 1, 1, 1), metadata={"a": {1}}), "metadata: expec"),
        (
            lambda: SpikeTensor(torch.zeros(1, 1, 1, 1, 1), metadata={"a": torch.nan}),
            "metadata: expected",
        ),
        (lambda: SpikeTensor.from_events(torch.tensor([EVENT]), (1, 1)), "expected five sizes"),
        (lambda: SpikeTensor.from_events(torch.tensor([[0]]), (1,) * 5), "expected integer events"),
        (lambda: SpikeTensor.from_events(torch.tensor([EVENT]) + 0.5, (1,) * 5), "integer events"),
        (lambda: SpikeTensor.from_events(torch.tensor([EVENT]) + 1, (1,) * 5), "is outside of"),
        (lambda: SpikeTensor.from_events(torch.tensor([EVENT]) - 1, (1,) * 5), "is outside of"),
        (lambda: SpikeTensor.from_events(torch.tensor([EVENT] * 2), (1,) * 5), "two events at"),
        (lambda: SpikeTensor.from_train(torch.zeros(3)), "of rank 2 to 5, got 1"),
    ],
)
def test_wrong_values(make: Callable[[], object], message: str) -> None:
    with pytest.raises((ParameterError, OptionError), match=message):
        make()


def test_wrong_questions() -> None:
    made = SpikeTensor(torch.zeros(1, 2, 3, 4, 1))
    with pytest.raises(OptionError, match="expected a rank from 2 to 5"):
        made.to_train(3)
    with pytest.raises(OptionError, match="expected different axes of batch"):
        made.counts("steps")
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)


GOOD: dict[str, Any] = {"shape": [1, 2, 1, 1, 3], "dt": 0.001, "metadata": {}}


@pytest.mark.parametrize(
    ("entries", "facts", "message"),
    [
        ({"spikes": torch.zeros(2, dtype=torch.uint8)}, {}, "expected uint8\\[1\\] for 6 places"),
        ({"spikes": torch.full((1,), 64, dtype=torch.uint8)}, {}, "padding bits"),
        ({"events": torch.tensor([6])}, {}, "no indices of"),
        ({"events": torch.tensor([-1])}, {}, "no indices of"),
        ({"events": torch.tensor([1.0])}, {}, "no indices of"),
        ({"events": torch.tensor([3, 1])}, {}, "not in order"),
        ({"events": torch.tensor([3, 3])}, {}, "two events at \\[0, 1, 0, 0, 0\\]"),
        ({"packed": torch.tensor([3])}, {}, "expected 'spikes' or 'events'"),
        ({"events": torch.tensor([3])}, {"shape": [1, 2]}, "expected five sizes"),
        ({"events": torch.tensor([3])}, {"shape": None}, "expected five sizes"),
        ({"events": torch.tensor([3])}, {"dt": -1}, "dt: expected"),
        ({"events": torch.tensor([3])}, {"metadata": [1]}, "metadata: expected"),
        ({"events": torch.tensor([3])}, {"more": 1}, "expected shape, dt and metadata"),
    ],
)
def test_wrong_files(
    tmp_path: Path, entries: dict[str, Tensor], facts: dict[str, Any], message: str
) -> None:
    path = tmp_path / "spikes.safetensors"
    save_file(entries, path, {"spike_tensor": json.dumps({**GOOD, **facts})})
    with pytest.raises(ParameterError, match=message) as raised:
        SpikeTensor.load(path)
    assert str(path) in str(raised.value)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no such file"):
        SpikeTensor.load(tmp_path / "none")
    (tmp_path / "text").write_text(json.dumps(GOOD))
    with pytest.raises(ParameterError, match="is not safetensors"):
        SpikeTensor.load(tmp_path / "text")
    for facts in (None, {"spike_tensor": "{"}):
        save_file({"events": torch.tensor([3])}, tmp_path / "other", facts)
        with pytest.raises(ParameterError, match=r"expected shape|is not safetensors"):
            SpikeTensor.load(tmp_path / "other")
