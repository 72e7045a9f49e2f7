"""Other converters of trained float networks: SpikingJelly and Sinabs, where they are installed.

Each takes a PyTorch module and calibration images and gives, for test images, the predicted class
and the spikes of hidden neurons a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Images: TypeAlias = NDArray[np.float32]
Run: TypeAlias = Callable[[Images, int], tuple[NDArray[np.int64], float]]
"""From images and T to predicted classes and the mean number of spikes a sample."""

BATCH = 500


def installed_converters(module: Any, calibration: Images) -> Iterator[tuple[str, Run]]:
    """Every installed converter in each of its ways, by name.

    Args:
        module: a `torch.nn.Sequential` of layers and ReLUs.
        calibration: training images.
    """
    if find_spec("spikingjelly") is not None:
        yield "SpikingJelly, rate 99.9 %", _spikingjelly(module, calibration, "rate")
        yield "SpikingJelly, best share, θ/2", best_share(module, calibration)
        yield "SpikingJelly, local thresholds", _spikingjelly(module, calibration, "local")
    if find_spec("sinabs") is not None:
        yield "Sinabs, 99.9 %", _sinabs(module, calibration)


def _spikingjelly(module: Any, calibration: Images, kind: str) -> Run:
    import copy

    import torch

    ann2snn: Any = import_module("spikingjelly.activation_based.ann2snn")
    functional: Any = import_module("spikingjelly.activation_based.functional")
    neuron: Any = import_module("spikingjelly.activation_based.neuron")

    loader = [
        (torch.from_numpy(calibration[i : i + BATCH]), torch.zeros(1))
        for i in range(0, len(calibration), BATCH)
    ]
    if kind == "local":
        recipe = ann2snn.LocalThresholdBalancingRecipe(loader)
    elif kind == "rate":
        recipe = ann2snn.RateCodingRecipe(loader, mode="99.9%")
    else:
        recipe = ann2snn.RateCodingRecipe(
            loader, mode=float(kind), neuron_factory=lambda _scale: neuron.HalfThresholdIFNode()
        )
    converted = ann2snn.FXConverter(recipe=recipe).convert(copy.deepcopy(module)).eval()

    def run(images: Images, timesteps: int) -> tuple[NDArray[np.int64], float]:
        counted: list[float] = []
        hooks = [
            node.register_forward_hook(lambda _m, _i, out: counted.append(float((out != 0).sum())))
            for node in converted.modules()
            if isinstance(node, neuron.BaseNode)
        ]
        found: list[NDArray[np.int64]] = []
        with torch.no_grad():
            for start in range(0, len(images), BATCH):
                functional.reset_net(converted)
                batch = torch.from_numpy(images[start : start + BATCH])
                total = torch.stack([converted(batch) for _ in range(timesteps)]).sum(0)
                found.append(total.argmax(1).numpy())
        for hook in hooks:
            hook.remove()
        return np.concatenate(found), sum(counted) / len(images)

    return run


def best_share(module: Any, calibration: Images) -> Run:
    """Thresholds at a share of the greatest activation and neurons that start at half of them: for
    each T the share with which most calibration images get the class that the float network gives.
    """
    import torch

    runs = [_spikingjelly(module, calibration, f"{share / 10}") for share in range(2, 9)]
    with torch.no_grad():
        wanted = module(torch.from_numpy(calibration[:BATCH])).argmax(1).numpy()

    def run(images: Images, timesteps: int) -> tuple[NDArray[np.int64], float]:
        agreement = [
            int((found(calibration[:BATCH], timesteps)[0] == wanted).sum()) for found in runs
        ]
        return runs[int(np.argmax(agreement))](images, timesteps)

    return run


def _sinabs(module: Any, calibration: Images) -> Run:
    """Weights normalised by percentiles first, as its guide advises; one spike a step at most."""
    import copy

    import torch

    activation: Any = import_module("sinabs.activation")
    from_torch: Any = import_module("sinabs.from_torch")
    spiking: Any = import_module("sinabs.layers")
    scaled = copy.deepcopy(module)
    with torch.no_grad():
        images, before = torch.from_numpy(calibration[:BATCH]), 1.0
        layers = list(scaled)
        for index, layer in enumerate(layers):
            weighted = hasattr(layer, "weight")
            if weighted:
                layer.bias /= before
            images = layer(images)
            if weighted and any(isinstance(x, torch.nn.ReLU) for x in layers[index + 1 :]):
                top = float(np.quantile(images[images > 0].numpy(), 0.999))
                layer.weight /= top
                layer.bias /= top
                images, before = images / top, before * top

    def run(images: Images, timesteps: int) -> tuple[NDArray[np.int64], float]:
        found: list[NDArray[np.int64]] = []
        spikes = 0.0
        with torch.no_grad():
            for start in range(0, len(images), BATCH):
                batch = torch.from_numpy(images[start : start + BATCH])
                network = from_torch.from_model(
                    copy.deepcopy(scaled),
                    batch_size=len(batch),
                    spike_fn=activation.SingleSpike,
                ).spiking_model
                counted: list[float] = []
                for node in network.modules():
                    if isinstance(node, spiking.IAFSqueeze):
                        node.register_forward_hook(
                            lambda _m, _i, out, counted=counted: counted.append(float(out.sum()))
                        )
                steps = batch.repeat_interleave(timesteps, 0)
                total = network(steps).reshape(len(batch), timesteps, -1).sum(1)
                found.append(total.argmax(1).numpy())
                spikes += sum(counted)
        return np.concatenate(found), spikes / len(images)

    return run
