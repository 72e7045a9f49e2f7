"""Loihi's neurons and netx networks beside Lava, bit by bit; `lava_peer` has the recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lava_peer.record import EVERY, NEURONS, currents, digest, trains
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, i32
from xdsl.ir import Block, Region

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module, verify_module
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_netx import import_netx
from triton_dsl.lowering.simulator import simulator

RECORDED = Path(__file__).parents[2] / "lava_peer" / "recorded"
NETX = ("models", "netx", "mnist_784_128_64_10.net")


def recorded(name: str) -> tuple[Any, Any, Any]:
    with np.load(RECORDED / "neurons.npz") as file:
        return file[f"{name}.s"], file[f"{name}.u"], file[f"{name}.v"]


def neuron_module(name: str, steps: int) -> ModuleOp:
    """One of the recorded neurons: its spikes, and its states after the last step."""
    p = dict(NEURONS[name])
    options: dict[str, Any] = {"du": p["du"], "dv": p["dv"], "final": True}
    options["bias"] = p.get("bias_mant", 0) << p.get("bias_exp", 0)
    kind: Any = spike.LoihiLifOp
    options["threshold"] = p.get("vth", p.get("vth_hi"))
    if "vth_lo" in p:
        kind, options["threshold_low"] = spike.LoihiTernaryLifOp, p["vth_lo"]
    type = TensorType(i32, (steps, 5))
    block = Block(arg_types=[type])
    op = kind(block.args[0], **options)
    block.add_ops([op, func.ReturnOp(*op.results)])
    types = FunctionType.from_lists([type], [r.type for r in op.results])
    module = ModuleOp([func.FuncOp("forward", types, Region(block))])
    verify_module(module)
    return module


@pytest.mark.parametrize("name", NEURONS)
def test_the_interpreter_is_lava_in_every_step(name: str) -> None:
    x = currents(name)
    s, u, v = recorded(name)
    assert name == "biased" or np.unique(s).size > 1
    for steps in (1, 2, 7, 100, 299, 300):
        spikes, *states = run_module(neuron_module(name, steps), [x[:steps]])
        np.testing.assert_array_equal(spikes.astype(np.int32), s[:steps])
        np.testing.assert_array_equal(states[0], u[steps - 1])
        np.testing.assert_array_equal(states[1], v[steps - 1])


@pytest.mark.parametrize("name", NEURONS)
@pytest.mark.parametrize("target", ["pytorch", "onnx", "tflite", "native"])
def test_every_engine_is_lava(target: str, name: str) -> None:
    steps = 20 if target == "tflite" else 300  # which has each step in the file
    x = currents(name)[:steps]
    s, u, v = (part[:steps] for part in recorded(name))
    _, (spikes, *states), _ = run_target(neuron_module(name, len(x)), target, [x])
    np.testing.assert_array_equal(np.asarray(spikes).astype(np.int32), s)
    np.testing.assert_array_equal(states, [u[-1], v[-1]])


def test_states_wrap_and_clip_in_the_recordings() -> None:
    _, u, v = recorded("wide")
    assert np.abs(v).max() == 2**23 - 1
    assert (np.abs(np.diff(u.astype(np.int64), axis=0)) > 2**23).any()


def test_a_network_of_lava_dl_is_lava(shared_data: Any) -> None:
    """Spikes, u and v of three layers over 1,000 steps, by the simulator, one step a call."""
    simulate = simulator(import_netx(shared_data.path(*NETX)), "event")
    x = trains()[:, None]
    names = [port.name for port in simulate.signature.states]
    traces: dict[str, list[Any]] = {name: [] for name in names}
    spikes: list[Any] = []
    for step in x:
        spikes.append(simulate.run([step[None]])[0])
        for name in names:
            traces[name].append(simulate.state[name])
    whole = simulator(import_netx(shared_data.path(*NETX)), "event").run([x])[0]
    np.testing.assert_array_equal(np.concatenate(spikes), whole)
    with np.load(RECORDED / "mnist.npz") as file:
        fired = np.packbits(whole[:, 0], axis=1)
        np.testing.assert_array_equal(fired, file["layer2.s"])
        for part in "uv":
            mine = [np.concatenate(traces[n]) for n in names if f".{part}." in n]
            for layer, trace in enumerate(mine):
                key = f"layer{layer}.{part}"
                np.testing.assert_array_equal(trace[EVERY - 1 :: EVERY], file[key])
                assert digest(trace) == str(file[f"{key}.sha256"])


def test_the_interpreter_is_lava_on_the_network(shared_data: Any) -> None:
    spikes = run_module(import_netx(shared_data.path(*NETX)), [trains()[:, None]])[0]
    with np.load(RECORDED / "mnist.npz") as file:
        np.testing.assert_array_equal(np.packbits(spikes[:, 0], axis=1), file["layer2.s"])


def test_the_neuron_of_a_chip(shared_data: Any) -> None:
    """Real Loihi on the first task of the NIR paper: its potential and spikes in every step."""
    path = shared_data.path("reference", "lif_lava_loihi_fixed.csv")
    x, v, s = np.loadtxt(path, delimiter=",").T
    module = parse_module(
        """
func.func @forward(%x: !spike.train<1x1>, %d: !spike.train<1x1>, %u: tensor<1xi32>,
    %v: tensor<1xi32>) -> (!spike.train<1x1>, !spike.train<1x1>, tensor<1xi32>, tensor<1xi32>) {
  %w = tensor.constant dense<10> : tensor<1x1xi8>
  %late, %buffer = spike.delay %x initial(%d : !spike.train<1x1>) {steps = 1 : i64}
    : (!spike.train<1x1>) -> (!spike.train<1x1>, !spike.train<1x1>)
  %i = spike.linear %late, %w : !spike.train<1x1>, tensor<1x1xi8> -> tensor<1x1xi32>
  %s, %u1, %v1 = spike.loihi_lif %i initial(%u, %v : tensor<1xi32>, tensor<1xi32>)
    {du = 4095.0 : f64, dv = 163.0 : f64, threshold = 25.0 : f64}
    : (tensor<1x1xi32>) -> (!spike.train<1x1>, tensor<1xi32>, tensor<1xi32>)
  func.return %s, %buffer, %u1, %v1
    : !spike.train<1x1>, !spike.train<1x1>, tensor<1xi32>, tensor<1xi32>
}"""
    )
    state = [np.zeros((1, 1), bool), np.zeros(1, np.int32), np.zeros(1, np.int32)]
    fired: list[int] = []
    potentials: list[int] = []
    for t, value in enumerate(x):
        spikes, *state = run_module(module, [np.full((1, 1), value > 0), *state])
        fired += [t] if spikes[0, 0] else []
        potentials.append(int(state[2][0]))
    assert fired == [461, 511, 711, 761] == np.flatnonzero(s).tolist()
    assert v[fired].tolist() == [128.0] * 4  # what the chip's register holds where it fires
    v[fired] = 0
    np.testing.assert_array_equal(potentials, v)
