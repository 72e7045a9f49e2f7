"""The table of ONNX operators: their rules, and those that are refused, each with its reason."""

from __future__ import annotations

from . import (
    rules_activation,
    rules_bits,
    rules_control,
    rules_conversion,
    rules_deformed,
    rules_elementwise,
    rules_filling,
    rules_index,
    rules_linear,
    rules_pooling,
    rules_quantization,
    rules_recurrent,
    rules_reduction,
    rules_regions,
    rules_resize,
    rules_sampling,
    rules_selection,
    rules_shape,
    rules_spectra,
    rules_window,
)
from .onnx_builder import Rule
from .rules_foreign import FOREIGN

__all__ = ["FOREIGN", "REFUSED", "RULES"]

_FILES = (
    rules_activation, rules_bits, rules_control, rules_conversion, rules_deformed,
    rules_elementwise, rules_filling, rules_index, rules_linear, rules_pooling,
    rules_quantization, rules_recurrent, rules_reduction, rules_regions, rules_resize,
    rules_sampling, rules_selection, rules_shape, rules_spectra, rules_window,
)  # fmt: skip

RULES: dict[str, Rule] = {name: rule for file in _FILES for name, rule in file.RULES.items()}
"""Operators of the standard by their type."""

_RANDOM = "it draws random numbers; pass them as an input"
_TEXT = "it works on text; the IR has numbers alone"

REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
         "RandomUniformLike"), _RANDOM),
    **dict.fromkeys(
        ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"), _TEXT),
    "ai.onnx.preview.training.Gradient": "it derives the graph around it; train in PyTorch",
    "ImageDecoder": "it reads compressed images; pass pixels as an input",
}  # fmt: skip
"""Operators without a meaning, with the reason; those of other domains stand behind its name. What
is in neither table is a function of the standard, which is inlined, or not known."""
