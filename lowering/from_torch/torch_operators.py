"""The table of all rules, and the operators that are refused, each with its reason."""

from __future__ import annotations

from . import (
    rules_activation,
    rules_attention,
    rules_bags,
    rules_complex,
    rules_counting,
    rules_elementwise,
    rules_index,
    rules_linear,
    rules_matrices,
    rules_onnx,
    rules_pooling,
    rules_quantization,
    rules_reduction,
    rules_running,
    rules_scatter,
    rules_shape,
    rules_special,
    rules_spiking,
)
from .torch_builder import Rule

_ATEN = (
    rules_elementwise.RULES,
    rules_matrices.RULES,
    rules_special.RULES,
    rules_activation.RULES,
    rules_pooling.RULES,
    rules_reduction.RULES,
    rules_running.RULES,
    rules_shape.RULES,
    rules_index.RULES,
    rules_counting.RULES,
    rules_scatter.RULES,
    rules_bags.RULES,
    rules_onnx.RULES,
)

SPREADING = {f"aten::{name}": rule for name, rule in rules_shape.SPREADING.items()}
"""See `rules_shape.SPREADING`."""

ELEMENTWISE = frozenset(f"aten::{name}" for name in rules_elementwise.RULES)
"""Operators that compute each element by itself."""

RULES: dict[str, Rule] = {
    **{f"aten::{name}": rule for table in _ATEN for name, rule in table.items()},
    **rules_linear.RULES,
    **rules_onnx.LAYERS,
    **rules_attention.RULES,
    **rules_quantization.RULES,
    **rules_spiking.RULES,
}
"""By the name of an operator without its overload."""

COMPLEX = rules_complex.COMPLEX
"""Rules of operators that take or give complex numbers, by the same names."""

QUANTIZING = frozenset(rules_quantization.RULES)
"""Operators whose rules keep the integers that known floats stand for."""

_RANDOM = "it draws random numbers; pass them as an input"

REFUSED: dict[str, str] = {
    **{f"aten::{name}": _RANDOM for name in
       ("rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "bernoulli",
        "binomial", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal",
        "poisson", "random", "uniform", "native_dropout", "randperm", "_sample_dirichlet",
        "_standard_gamma", "alpha_dropout", "feature_dropout")},
    **{f"aten::{name}": "the size of its result depends on values" for name in
       ("argwhere", "nonzero", "nonzero_numpy", "unique",
        "unique_consecutive", "unique_dim", "_unique2")},
}  # fmt: skip
"""Operators that are not decomposed, with the reason why they have no meaning."""

UNCOMPUTED = frozenset(name for name, reason in REFUSED.items() if reason is _RANDOM)
"""Operators whose result differs from run to run."""
