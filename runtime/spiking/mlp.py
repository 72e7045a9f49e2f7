"""`SpikingMLP`: linear layers with neurons between them, run over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn

from ...ir.errors import OptionError, check_choice
from .config import SpikingConfig
from .neuron import Neuron
from .neurons import LeakyIntegrator, make_neuron
from .normalization import TemporalBatchNorm
from .steps import State, Value

READOUTS = ("spikes", "membrane")


class SpikingMLP(nn.Module):
    """A stack of layers, each a product with weights, perhaps tdBN, and neurons.

    Args:
        features: the sizes of the input, of the hidden layers and of the output.
        config: the neurons; how inputs are encoded is up to the caller, see `coding.encode`.
        bias: add a bias in each layer.
        normalize: put a `TemporalBatchNorm` of kind `tdbn` before the neurons of each layer.
        readout: `spikes`, or `membrane`: the last layer has leaky integrators in the place of
            neurons, without tdBN.
        neuron: parameters of the neurons, see `make_neuron`.
        layer: makes the product, called as `layer(inputs, outputs, bias=bias)`; such as
            `runtime.layers.TernaryLinear`.

    Raises:
        OptionError: fewer than two sizes, or a value that is not allowed.
    """

    def __init__(
        self,
        features: Sequence[int],
        config: SpikingConfig | None = None,
        *,
        bias: bool = True,
        normalize: bool = False,
        readout: str = "spikes",
        neuron: Mapping[str, Value] | None = None,
        layer: Callable[..., nn.Module] = nn.Linear,
    ) -> None:
        super().__init__()
        if len(features) < 2 or any(size < 1 for size in features):
            raise OptionError(f"features: expected two sizes or more, from 1, got {list(features)}")
        check_choice("readout", readout, READOUTS)
        config = SpikingConfig() if config is None else config
        self.features, self.readout = tuple(features), readout
        self.layers, self.norms, self.neurons = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for index, outputs in enumerate(features[1:]):
            is_trace = readout == "membrane" and index == len(features) - 2
            norm: nn.Module = nn.Identity()
            if normalize and not is_trace:
                norm = TemporalBatchNorm(outputs, threshold=config.threshold)
            neuron_of_layer: Neuron = make_neuron(config, **(neuron or {}))
            self.layers.append(layer(features[index], outputs, bias=bias))
            self.norms.append(norm)
            self.neurons.append(
                LeakyIntegrator(getattr(neuron_of_layer, "beta", 1.0))
                if is_trace
                else neuron_of_layer
            )

    def forward(
        self, x: Tensor, state: tuple[State, ...] | None = None
    ) -> tuple[Tensor, tuple[State, ...]]:
        """The output of all steps [T, N, out], and the states of all layers after the last one.

        Args:
            x: spikes or currents as floats [T, N, in].
            state: for each layer the states of its neurons before the first step; zeros by default.

        Raises:
            OptionError: a shape or type that does not fit.
        """
        if x.dim() != 3 or x.shape[-1] != self.features[0]:
            raise OptionError(f"expected [T, N, {self.features[0]}], got {list(x.shape)}")
        states = (None,) * len(self.layers) if state is None else state
        if len(states) != len(self.layers):
            raise OptionError(f"expected states of {len(self.layers)} layers, got {len(states)}")
        after: list[State] = []
        for layer, norm, neuron, before in zip(
            self.layers, self.norms, self.neurons, states, strict=True
        ):
            x, last = neuron(norm(layer(x)), before)
            after.append(last)
        return x, tuple(after)
