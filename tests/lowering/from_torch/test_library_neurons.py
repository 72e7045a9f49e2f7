"""Neurons of snnTorch and SpikingJelly become ops of `spike`, spike for spike; others are unrolled.

Weights and inputs are small multiples of 2^-k, so that sums are exact in any order.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import LoweringError, UnsupportedError
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.targets import compile_to_target

needs_snntorch = pytest.mark.skipif(find_spec("snntorch") is None, reason="needs snntorch")
needs_spikingjelly = pytest.mark.skipif(
    find_spec("spikingjelly") is None, reason="needs spikingjelly"
)

TIME_FIRST = {"x": {1: "N"}}


def quarters(*shape: int) -> Tensor:
    """Numbers whose sums and halves are exact."""
    return torch.randint(-8, 9, shape) / 4


def exact(module: nn.Module) -> nn.Module:
    """The module with weights of quarters, in evaluation mode."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            for parameter in part.parameters():
                parameter.data = quarters(*parameter.shape)
    return module.eval()


def kinds(made: Any) -> list[str]:
    return [op.name for op in made.walk() if op.name.startswith("spike.")]


def equal(module: nn.Module, made: Any, *inputs: Tensor) -> None:
    """The interpreter gives the bits of PyTorch, and some neuron fires."""
    with torch.no_grad():
        wanted = pytree.tree_leaves(module(*inputs))
    found = run_module(made, [value.numpy() for value in inputs])
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b.numpy())
    assert wanted[0].any()


def snn() -> Any:
    return import_module("snntorch")


class Loop(nn.Module):
    """Two layers of snnTorch's neurons in a loop over time: spikes, and the last potentials."""

    def __init__(self, first: Any, second: Any, states: int = 1, shown: bool = True) -> None:
        super().__init__()
        self.fc1, self.lif1 = nn.Linear(6, 8), first
        self.fc2, self.lif2 = nn.Linear(8, 4), second
        self.states, self.shown = states, shown

    def forward(self, x: Tensor) -> Any:
        before, after = self.lif1.reset_mem(), self.lif2.reset_mem()
        one = before if self.states > 1 else (before,)
        two = after if self.states > 1 else (after,)
        spikes: list[Tensor] = []
        potentials: list[Tensor] = []
        for t in range(x.size(0)):
            fired, *one = self.lif1(self.fc1(x[t]), *one)
            fired, *two = self.lif2(self.fc2(fired), *two)
            spikes.append(fired)
            potentials.append(two[-1])
        stacked = torch.stack(spikes)
        return (stacked, torch.stack(potentials)) if self.shown else stacked


@needs_snntorch
@pytest.mark.parametrize(
    ("settings", "wanted", "shown"),
    [
        ({}, ["spike.recurrent", "spike.recurrent", "spike.leaky_integrator"], True),
        ({"threshold": torch.tensor(0.5), "learn_threshold": True}, ["spike.recurrent"], True),
        ({"reset_mechanism": "zero"}, ["spike.lif"], False),
        ({"reset_mechanism": "zero", "reset_delay": False}, ["spike.lif"], False),
        ({"reset_mechanism": "none"}, ["spike.lif", "spike.leaky_integrator"], True),
        ({"surrogate_disable": True}, ["spike.recurrent"], True),
    ],
)
def test_leaky(settings: dict[str, Any], wanted: list[str], shown: bool) -> None:
    """Linear layers take all steps at once, and one op stands for all steps of a layer."""
    torch.manual_seed(0)
    leaky = snn().Leaky
    net = exact(Loop(leaky(beta=0.5, **settings), leaky(beta=0.75, **settings), shown=shown))
    made = from_torch(net, (quarters(7, 2, 6),), dynamic=TIME_FIRST)
    found = kinds(made)
    assert set(wanted) <= set(found)
    assert found.count("spike.linear") == 1
    assert found.count("spike.lif") == 2
    equal(net, made, quarters(7, 3, 6))


@needs_snntorch
@pytest.mark.parametrize("reset", ["subtract", "none"])
def test_synaptic(reset: str) -> None:
    torch.manual_seed(1)
    make = snn().Synaptic
    pair = [make(alpha=0.5, beta=0.75, reset_mechanism=reset) for _ in range(2)]
    net = exact(Loop(*pair, states=2))
    made = from_torch(net, (quarters(6, 2, 6),), dynamic=TIME_FIRST)
    assert ("spike.cuba_lif" in kinds(made)) == (reset == "none")
    equal(net, made, quarters(6, 3, 6))


@needs_snntorch
def test_values_for_each_neuron() -> None:
    torch.manual_seed(2)
    leaky = snn().Leaky
    first = leaky(beta=torch.arange(8) / 8, threshold=torch.arange(1, 9) / 4)
    net = exact(Loop(first, leaky(beta=1.5)))
    made = from_torch(net, (quarters(7, 2, 6),), dynamic=TIME_FIRST)
    equal(net, made, quarters(7, 3, 6))


class Hidden(nn.Module):
    """Neurons that keep their state, on images that stay the same; the sum of the spikes."""

    def __init__(self) -> None:
        super().__init__()
        leaky = snn().Leaky
        self.net = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.MaxPool2d(2), leaky(beta=0.5, init_hidden=True),
            nn.Flatten(), nn.Linear(64, 5), leaky(beta=0.5, init_hidden=True),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        neurons: list[Any] = [part for part in self.net if hasattr(part, "reset_mem")]
        for neuron in neurons:
            neuron.reset_mem()
        total = torch.zeros(x.shape[0], 5)
        for _ in range(4):
            total = total + self.net(x)
        return total


@needs_snntorch
def test_constant_inputs_and_hidden_states() -> None:
    """What is before the first neuron is computed once."""
    torch.manual_seed(3)
    net = exact(Hidden())
    made = from_torch(net, (quarters(2, 1, 8, 8),))
    names = [op.name for op in made.walk()]
    assert names.count("tensor.conv") == names.count("spike.linear") == 1
    equal(net, made, quarters(3, 1, 8, 8))


class Alone(nn.Module):
    """One neuron of any kind in a loop over time, its states handed on."""

    def __init__(self, neuron: Any) -> None:
        super().__init__()
        self.fc, self.neuron = nn.Linear(6, 4), neuron

    def forward(self, x: Tensor) -> Tensor:
        states = self.neuron.reset_mem()
        states = states if isinstance(states, tuple) else (states,)
        outputs: list[Tensor] = []
        for current in x:
            output, *states = self.neuron(self.fc(current), *states)
            outputs.append(output)
        return torch.stack(outputs)


@needs_snntorch
@pytest.mark.filterwarnings("ignore:Inhibition is an unstable feature")
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("Alpha", {"alpha": 0.75, "beta": 0.5}),
        ("Lapicque", {"beta": 0.5}),
        ("RLeaky", {"beta": 0.5, "all_to_all": False, "V": 0.5}),
        ("RSynaptic", {"alpha": 0.75, "beta": 0.5, "all_to_all": False, "V": 0.5}),
        ("Synaptic", {"alpha": 0.75, "beta": 0.5, "reset_mechanism": "zero"}),
        ("Leaky", {"beta": 0.5, "inhibition": True}),
        ("Leaky", {"beta": 0.5, "graded_spikes_factor": 0.5}),
    ],
)
def test_neurons_that_no_op_is_are_unrolled(kind: str, settings: dict[str, Any]) -> None:
    """Again after a run, which leaves states of its size in the module."""
    torch.manual_seed(9)
    net, x = exact(Alone(getattr(snn(), kind)(**settings))), quarters(5, 3, 6)
    for dynamic in ({} if "inhibition" in settings else TIME_FIRST, {}):
        equal(net, from_torch(net, (x,), dynamic=dynamic), x)


@needs_snntorch
def test_what_snntorch_has_and_the_ir_has_not() -> None:
    leaky = snn().Leaky
    x = (quarters(3, 2, 6),)
    for bad, reason in (
        (leaky(beta=0.5, reset_delay=False), "twice its threshold"),
        (leaky(beta=0.5, spike_grad=lambda v: torch.sigmoid(v)), "step function"),
    ):
        with pytest.raises(LoweringError, match=reason):
            from_torch(exact(Loop(leaky(beta=0.5), bad)), x, dynamic=TIME_FIRST)
    shown = Loop(*(leaky(beta=0.5, reset_mechanism="zero") for _ in range(2)))
    with pytest.raises(LoweringError, match="'lif2' is read after a step"):
        from_torch(exact(shown), x, dynamic=TIME_FIRST)


class Feedback(nn.Module):
    """Spikes go back to their own neurons."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.lif = nn.Linear(6, 6), snn().Leaky(beta=0.5)

    def forward(self, x: Tensor) -> Tensor:
        potential, fired = self.lif.reset_mem(), x[0]
        for t in range(x.size(0)):
            fired, potential = self.lif(x[t] + self.fc(fired), potential)
        return fired


class Halving(Feedback):
    """The potential is changed between the steps."""

    def forward(self, x: Tensor) -> Tensor:
        potential, fired = self.lif.reset_mem(), x[0]
        for t in range(x.size(0)):
            fired, potential = self.lif(x[t], potential)
            potential = potential / 2
        return fired


@needs_snntorch
def test_feedback_and_changed_states_are_refused() -> None:
    for kind, reason in ((Feedback, "feed back to 'lif'"), (Halving, "'lif' is changed")):
        with pytest.raises((LoweringError, UnsupportedError), match=reason):
            from_torch(exact(kind()), (quarters(3, 2, 6),), dynamic=TIME_FIRST)


@needs_snntorch
def test_modules_stay_as_they_are() -> None:
    torch.manual_seed(4)
    pair = [snn().Leaky(beta=0.5) for _ in range(2)]
    net = exact(Loop(*pair))
    x = quarters(5, 2, 6)
    with torch.no_grad():
        before = net(x)
        for neuron in pair:
            neuron.reset_mem()
        from_torch(net, (x,), dynamic=TIME_FIRST)
        after = net(x)
    assert all(map(torch.equal, before, after))
    equal(net, from_torch(net, (x,), dynamic=TIME_FIRST), x)  # it resets what that run left


@needs_snntorch
def test_a_state_that_nothing_resets_is_refused() -> None:
    used = snn().Leaky(beta=0.5, init_hidden=True)
    used(torch.ones(2, 6))
    with pytest.raises(LoweringError, match="holds a state; call reset_mem"):
        from_torch(used, (torch.ones(2, 6),))


@needs_snntorch
def test_targets_run_them() -> None:
    """ONNX Runtime gives the spikes of snnTorch."""
    pytest.importorskip("onnxruntime")
    import onnxruntime

    torch.manual_seed(5)
    net = exact(Loop(snn().Leaky(beta=0.5), snn().Leaky(beta=0.75), shown=False))
    made = from_torch(net, (quarters(7, 2, 6),), dynamic=TIME_FIRST)
    (data,) = compile_to_target(made, "onnx").files.values()
    session: Any = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    x = quarters(7, 3, 6)
    with torch.no_grad():
        wanted = net(x).numpy()
    np.testing.assert_array_equal(session.run(None, {"x": x.numpy()})[0], wanted)


# SpikingJelly.


def jelly(name: str) -> Any:
    return import_module(f"spikingjelly.activation_based.{name}")


def neurons() -> Any:
    return jelly("neuron")


class Reset(nn.Module):
    """A network of SpikingJelly that starts anew in each run."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        jelly("functional").reset_net(self.net)
        return self.net(x)


@needs_spikingjelly
@pytest.mark.parametrize(
    ("kind", "settings", "wanted"),
    [
        ("IFNode", {}, "spike.integrate_fire"),
        ("IFNode", {"v_reset": None, "v_threshold": 2.0}, "spike.integrate_fire"),
        ("LIFNode", {"tau": 2.0}, "spike.lif"),
        ("LIFNode", {"tau": 4.0, "v_reset": None}, "spike.lif"),
        ("LIFNode", {"tau": 2.0, "v_reset": -0.5, "decay_input": False}, "spike.lif"),
        ("ParametricLIFNode", {"init_tau": 2.0}, "spike.lif"),
    ],
)
def test_multi_step(kind: str, settings: dict[str, Any], wanted: str) -> None:
    layer = jelly("layer")
    torch.manual_seed(6)
    make = getattr(neurons(), kind)
    net = exact(Reset(nn.Sequential(
        layer.Conv2d(1, 4, 3, padding=1, step_mode="m"), make(step_mode="m", **settings),
        layer.Flatten(step_mode="m"),
        layer.Linear(64, 5, step_mode="m"), make(step_mode="m", **settings),
    )))  # fmt: skip
    made = from_torch(net, (quarters(6, 2, 1, 4, 4),), dynamic=TIME_FIRST)
    found = kinds(made)
    assert found.count(wanted) == 2
    assert found.count("spike.linear") == 1
    equal(net, made, quarters(6, 3, 1, 4, 4))


class Steps(nn.Module):
    """Single steps in a loop, batch first; the share of spikes."""

    def __init__(self) -> None:
        super().__init__()
        make = neurons().LIFNode
        self.net = nn.Sequential(nn.Linear(6, 8), make(), nn.Linear(8, 4), make(tau=4.0))

    def forward(self, x: Tensor) -> Tensor:
        jelly("functional").reset_net(self)
        return torch.stack([self.net(x[:, t]) for t in range(8)]).mean(0)


@needs_spikingjelly
def test_single_steps() -> None:
    torch.manual_seed(7)
    net = exact(Steps())
    made = from_torch(net, (quarters(2, 8, 6),))
    assert [name for name in kinds(made) if name != "spike.to_tensor"] == [
        "spike.lif", "spike.linear", "spike.lif",
    ]  # fmt: skip
    equal(net, made, quarters(3, 8, 6))


@needs_spikingjelly
@pytest.mark.parametrize("kind", ["KLIFNode", "GatedLIFNode", "PSN"])
def test_nodes_that_no_op_is_are_unrolled(kind: str) -> None:
    torch.manual_seed(8)
    settings: dict[str, Any] = {"step_mode": "m"} if kind == "KLIFNode" else {"T": 4}
    settings |= {"step_mode": "m"} if kind == "GatedLIFNode" else {}
    net, x = exact(Reset(getattr(neurons(), kind)(**settings))), quarters(4, 3, 6)
    made = from_torch(net, (x,), dynamic=TIME_FIRST)
    assert not kinds(made)
    equal(net, made, x)


@needs_spikingjelly
def test_what_spikingjelly_has_and_the_ir_has_not() -> None:
    with pytest.raises(UnsupportedError, match=r"qif.*; use layers of PyTorch's own operators"):
        from_torch(neurons().QIFNode(step_mode="m"), (quarters(3, 2, 4),), dynamic={})
    for kind in ("IFNode", "KLIFNode"):
        used = getattr(neurons(), kind)(step_mode="m")
        used(quarters(3, 2, 4))
        with pytest.raises(LoweringError, match=r"holds a state; call functional\.reset_net"):
            from_torch(used, (quarters(3, 2, 4),), dynamic={})

    class Reset(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.neuron = used

        def forward(self, x: Tensor) -> Tensor:
            self.neuron.reset()
            return self.neuron(x)

    equal(Reset(), from_torch(Reset(), (quarters(3, 2, 4),), dynamic={}), quarters(3, 2, 4))
