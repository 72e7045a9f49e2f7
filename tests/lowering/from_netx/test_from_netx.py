"""What comes of netx files: layers, weights, and files that are broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import TritonError
from triton_dsl.lowering.from_netx import NetxWarning, import_netx
from triton_dsl.lowering.models import import_model

CUBA = {
    "type": "CUBA",
    "iDecay": 4096,
    "vDecay": 0,
    "vThMant": 1,
    "refDelay": 1,
    "gradedSpike": False,
}


def dense(weight: Any, **others: Any) -> dict[str, Any]:
    weight = np.asarray(weight, np.float32)
    return {"type": "dense", "shape": [len(weight)], "weight": weight, "neuron": CUBA, **others}


def conv(weight: Any, shape: Any, **others: Any) -> dict[str, Any]:
    weight = np.asarray(weight, np.float32)[..., None]
    return {"type": "conv", "shape": shape, "weight": weight, "neuron": CUBA, **others}


def write(path: Path, layers: list[dict[str, Any]]) -> Path:
    """A file as lava-dl lays it out."""

    def put(group: Any, content: dict[str, Any]) -> None:
        for key, value in content.items():
            if isinstance(value, dict):
                put(group.create_group(key), value)
            elif key == "type" and isinstance(value, str):
                group.create_dataset(key, data=[value.encode()])
            else:
                group.create_dataset(key, data=value)

    with h5py.File(path, "w") as file:
        put(file, {"layer": {str(i): layer for i, layer in enumerate(layers)}})
    return path


def spikes_of(path: Path, x: Any) -> Any:
    return run_module(import_netx(path), [np.asarray(x, bool)[:, None]])[0][:, 0]


def test_a_layer_fires_a_step_after_what_it_hears(tmp_path: Path) -> None:
    path = write(tmp_path / "a.net", [dense([[2, 0], [1, 0], [4, -3]])])
    x = [[1, 0], [0, 0], [1, 1], [0, 0], [0, 0]]
    # v > 1·64 after a step: 2 fires at once, 1 after two spikes, which make 2, and 4 - 3 = 1 not.
    expected = [[0, 0, 0], [1, 0, 1], [0, 0, 0], [1, 1, 0], [0, 0, 0]]
    np.testing.assert_array_equal(spikes_of(path, x), expected)


def test_models_are_imported_by_their_suffix(tmp_path: Path) -> None:
    path = write(tmp_path / "a.net", [dense(np.eye(3))])
    module = import_model(path)
    assert str(module.sym_name) == '"a"'
    assert [op.name for op in module.walk()].count("spike.loihi_lif") == 1


@pytest.mark.parametrize(
    ("weights", "meant", "told"),
    [
        ([[127, -128]], [[127, -128]], None),
        ([[254, -256]], [[254, -256]], None),
        ([[131, -129, 2]], [[130, -130, 2]], "2 odd weights"),
        ([[300, -700]], [[254, -256]], "2 weights are beyond"),
        ([[255, 3]], [[255, 3]], None),
        ([[-255, -3]], [[-255, -3]], None),
    ],
)
def test_weights_are_what_the_chip_holds(
    weights: Any, meant: Any, told: str | None, tmp_path: Path
) -> None:
    neuron = {**CUBA, "vThMant": 131071}
    path = write(tmp_path / "a.net", [dense(weights, neuron=neuron, bias=[0.0])])
    if told is None:
        module = import_netx(path)
    else:
        with pytest.warns(NetxWarning, match=told):
            module = import_netx(path)
    neurons = next(op for op in module.walk() if op.name == "spike.loihi_lif")
    gain: Any = neurons.parameter("gain")  # pyright: ignore[reportAttributeAccessIssue]
    x = np.eye(len(meant[0]), dtype=bool)[:, None]
    block: Any = neurons.parent_block()
    block.last_op.operands = [neurons.operands[0]]
    function: Any = block.parent_op()
    function.update_function_type()
    currents = run_module(module, [np.concatenate([x, x[:1]])])[0][1:, 0]
    np.testing.assert_array_equal(currents.T * int(gain), meant)


def test_convolutions_are_those_of_pytorch(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kernels = [rng.integers(-9, 10, (4, 2, 3, 2)), rng.integers(-9, 10, (2, 2, 1, 3))]
    window = {"stride": [2, 1], "padding": [1, 0], "dilation": [1, 2]}
    layers = [
        {"type": "input", "shape": [2, 5, 6]},
        conv(kernels[0], [4, 3, 4], **window, groups=1, bias=[1, -2, 0, 0]),
        conv(kernels[1], [2, 3, 2], groups=2),
        {"type": "flatten", "shape": [12]},
        dense(rng.integers(-9, 10, (3, 12))),
    ]
    path = write(tmp_path / "a.net", layers)
    x = rng.random((9, 2, 5, 6)) < 0.4
    spikes = np.zeros((9, 2, 5, 6))
    spikes[:] = x
    sizes = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}
    for index, layer in ((1, kernels[0]), (2, kernels[1]), (4, layers[4]["weight"])):
        late = np.concatenate([spikes[:1] * 0, spikes[:-1]])
        if index == 4:
            currents = late.reshape(9, -1) @ np.asarray(layer, np.float64).T
        else:
            options: Any = {**sizes, "groups": 1} if index == 1 else {"groups": 2}
            weight = torch.tensor(np.asarray(layer, np.float64))
            currents = torch.conv2d(torch.tensor(late), weight, **options).numpy()
        bias = np.array([1, -2, 0, 0]).reshape(4, 1, 1) if index == 1 else 0
        v, spikes = np.zeros(currents.shape[1:]), np.zeros(currents.shape)
        for t, current in enumerate(currents):
            v = v + current + bias  # a bias has the exponent 6, and a current too
            spikes[t] = v > 1
            v[v > 1] = 0
    assert 0 < spikes.mean() < 1
    np.testing.assert_array_equal(spikes_of(path, x), spikes)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "expected layers '0', '1'"),
        ([{"type": "input", "shape": [3]}], "expected a layer with neurons"),
        ([{"type": "pool", "shape": [3]}], "layer/0: layers 'pool' are not read"),
        ([{"type": "input", "shape": [3], "neuron": CUBA}], "input layers with neurons"),
        ([dense(np.eye(3), delay=np.array([0, 2, 0]))], "delays of neurons are not read"),
        ([dense(np.eye(3), neuron={**CUBA, "type": "SDNN"})], "neurons 'SDNN' are not read"),
        ([dense(np.eye(3), neuron={**CUBA, "refDelay": 4})], "refDelay above 1"),
        ([dense(np.eye(3), neuron={**CUBA, "iDecay": 0})], "iDecay expects 1 to 4096, got 0"),
        ([dense(np.eye(3), neuron={**CUBA, "vThMant": [1, 2]})], "vThMant expects one number"),
        ([dense(np.eye(3) / 2)], "weight expects whole numbers"),
        ([dense(np.eye(3) * np.nan)], "weight is not finite"),
        ([dense(np.eye(3), bias=[1, 2])], "bias expects 3 numbers"),
        ([dense(np.eye(3)), dense(np.eye(4))], r"weight expects \[4, 3\]"),
        ([conv(np.ones((1, 1, 3, 3)), [1, 3, 3])], "expects an input layer"),
        (
            [{"type": "input", "shape": [1, 5, 5]}, conv(np.ones((1, 1, 3, 3)), [1, 4, 3])],
            r"shape expects \[1, 3, 3\]",
        ),
    ],
)
def test_what_is_not_read(layers: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(TritonError, match=message):
        import_netx(write(tmp_path / "a.net", layers))


@given(data=st.data())
def test_broken_files_are_refused(data: Any, tmp_path_factory: Any) -> None:
    """Values of other kinds and shapes, and bytes that are cut or changed."""
    folder = tmp_path_factory.mktemp("net")
    layers: list[dict[str, Any]] = [
        {"type": "input", "shape": [1, 4, 4]},
        conv(np.ones((2, 1, 3, 3)), [2, 2, 2], neuron=dict(CUBA)),
        {"type": "flatten", "shape": [8]},
        dense(np.ones((3, 8)), neuron=dict(CUBA), bias=[1, 2, 3]),
    ]
    layer = data.draw(st.sampled_from(layers))
    group = layer["neuron"] if "neuron" in layer and data.draw(st.booleans()) else layer
    key = data.draw(st.sampled_from(sorted(group)))
    odd = st.sampled_from(
        [-1, 0, 1 << 40, 1e300, np.inf, b"x", "conv", [], [[3]], np.zeros((0, 2))]
    )
    group[key] = data.draw(odd)
    path = write(folder / "a.net", layers)
    if data.draw(st.booleans()):
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.integers(at, len(content)))])
    try:
        import_netx(path)
    except TritonError as error:
        assert "a.net" in str(error)
