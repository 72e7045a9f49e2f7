"""Models of neurons, each said once, for the language, ops, layers and targets.

A model is a file: its step, written with an `arithmetic`, and its declaration, a `model`, under its
name in capitals. Not here: ops (`dialects.spike`), runs over time and what computes them.
"""

from collections.abc import Mapping
from importlib import import_module

from .model import NeuronModel

_FILES = {
    "lif": "fixed_threshold",
    "integrate_fire": "fixed_threshold",
    "cuba_lif": "fixed_threshold",
    "leaky_integrator": "fixed_threshold",
    "integer_lif": "fixed_threshold",
    "adaptive_lif": "adaptive",
    "sigma_delta": "adaptive",
    "refractory_lif": "refractory",
    "izhikevich": "izhikevich",
    "adaptive_exponential": "adaptive_exponential",
    "loihi_lif": "loihi",
    "loihi_ternary_lif": "loihi",
    "loihi_sigma_delta": "loihi",
}

MODELS: Mapping[str, NeuronModel] = {
    name: vars(import_module(f"{__name__}.{file}"))[name.upper()] for name, file in _FILES.items()
}
"""The models by name."""
