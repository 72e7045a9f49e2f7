"""`ternarize` makes the trits and scales of the literature, in the layers it is asked to."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import parameters, store_of
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.passes.ternarize.ternarize import TernarizePass

Apply = Callable[[ModuleOp, str], str]
Filled = Callable[..., ModuleOp]
Array = NDArray[Any]

MLP = """
func.func @forward(%x: tensor<?x12xf32>) -> tensor<?x5xf32> {
  %w1 = tensor.parameter "fc1.weight" : tensor<12x9xf32>
  %b1 = tensor.parameter "fc1.bias" : tensor<9xf32>
  %0 = tensor.linear %x, %w1, %b1
    : (tensor<?x12xf32>, tensor<12x9xf32>, tensor<9xf32>) -> tensor<?x9xf32>
  %1 = tensor.relu %0 : (tensor<?x9xf32>) -> tensor<?x9xf32>
  %w2 = tensor.parameter "fc2.weight" : tensor<9x7xf32>
  %2 = tensor.matmul %1, %w2 : (tensor<?x9xf32>, tensor<9x7xf32>) -> tensor<?x7xf32>
  %w3 = tensor.parameter "fc3.weight" : tensor<7x5xf32>
  %3 = tensor.linear %2, %w3 : (tensor<?x7xf32>, tensor<7x5xf32>) -> tensor<?x5xf32>
  func.return %3 : tensor<?x5xf32>
}
"""


def dequantized(w: Array, rule: str, scale: str, threshold: float | None) -> Array:
    """A weight [in, out] as trits times scale, in float64, from the formulas of the papers."""
    w = w.astype(np.float64)
    magnitude = np.abs(w)
    axes = 0 if scale == "channel" else None
    if rule == "absmean":
        trits = np.clip(np.rint(w / magnitude.mean(axis=axes)), -1, 1)
    else:
        delta = threshold if threshold is not None else 0.7 * magnitude.mean(axis=axes)
        trits = np.sign(w) * (magnitude > delta)
    if scale == "none":
        return trits
    kept = np.abs(trits)
    return trits * (magnitude * kept).sum(axis=axes) / np.maximum(kept.sum(axis=axes), 1)


@pytest.mark.parametrize("scale", ["none", "tensor", "channel"])
@pytest.mark.parametrize(("rule", "threshold"), [("twn", None), ("absmean", None), ("fixed", 0.5)])
def test_the_rules(
    filled: Filled, apply_passes: Apply, rule: str, threshold: float | None, scale: str
) -> None:
    module = filled(MLP, seed=3)
    store = store_of(module)
    x = np.random.default_rng(0).normal(size=(4, 12)).astype(np.float32)
    given_threshold = "" if threshold is None else f" threshold={threshold}"
    text = apply_passes(module, f"ternarize{{rule={rule} scale={scale}{given_threshold}}}")
    assert text.count("ternary.linear") == 3 and "ternarize" not in text

    w1, w2, w3 = (
        dequantized(store.read(f"fc{i}.weight"), rule, scale, threshold) for i in (1, 2, 3)
    )
    hidden = np.maximum(x @ w1 + store.read("fc1.bias"), 0)
    np.testing.assert_allclose(run_module(module, [x])[0], hidden @ w2 @ w3, rtol=1e-4, atol=1e-4)


def test_a_threshold_alone_means_the_fixed_rule(filled: Filled, apply_passes: Apply) -> None:
    first, second = (
        apply_passes(filled(MLP), f"ternarize{{{options}}}")
        for options in ("threshold=1", "threshold=1.0 rule=fixed")
    )
    assert first == second


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ("", []),
        ("keep-first=true", ["fc1.weight"]),
        ("keep-last=true", ["fc3.weight"]),
        ("keep-first=true keep-last=true", ["fc1.weight", "fc3.weight"]),
        ('skip="fc2.weight"', ["fc2.weight"]),
        ('skip="fc1.weight","fc3.weight"', ["fc1.weight", "fc3.weight"]),
    ],
)
def test_layers_kept_in_float(
    filled: Filled, apply_passes: Apply, options: str, kept: list[str]
) -> None:
    module = filled(MLP)
    text = apply_passes(module, f"ternarize{{{options}}}")
    keys = {op.key.data for op in parameters(module)}
    assert sorted(k for k in keys if k.endswith(".weight")) == kept
    assert apply_passes(module, f"ternarize{{{options}}}") == text


def test_weights_given_later_give_the_same_program(filled: Filled, apply_passes: Apply) -> None:
    at_once, later = filled(MLP), parse_module(MLP)
    apply_passes(at_once, "ternarize")
    text = apply_passes(later, "ternarize")
    assert text.count("ternary.ternarize") == 3
    later.attributes.update(filled(MLP).attributes)
    apply_passes(later, "fold-constants")
    x = np.random.default_rng(0).normal(size=(4, 12)).astype(np.float32)
    np.testing.assert_array_equal(run_module(at_once, [x])[0], run_module(later, [x])[0])


def test_a_shared_weight_is_ternarized_once(filled: Filled, apply_passes: Apply) -> None:
    module = filled(
        """
        func.func @forward(%x: tensor<?x9xf32>) -> tensor<?x9xf32> {
          %w = tensor.parameter "w" : tensor<9x9xf32>
          %0 = tensor.matmul %x, %w : (tensor<?x9xf32>, tensor<9x9xf32>) -> tensor<?x9xf32>
          %1 = tensor.matmul %0, %w : (tensor<?x9xf32>, tensor<9x9xf32>) -> tensor<?x9xf32>
          func.return %1 : tensor<?x9xf32>
        }
        """
    )
    assert apply_passes(module, "ternarize").count("ternary.parameter") == 1


@given(st.integers(1, 3), st.integers(0, 2), st.sampled_from(["none", "tensor", "channel"]))
def test_convolutions(
    filled: Filled, apply_passes: Apply, groups: int, padding: int, scale: str
) -> None:
    """A ternarized convolution is a convolution with the dequantised weight, by torch."""
    import torch

    size = 5 + 2 * padding - 2
    module = filled(
        f"""
        func.func @forward(%x: tensor<?x{2 * groups}x5x5xf32>) -> tensor<?x6x{size}x{size}xf32> {{
          %w = tensor.parameter "w" : tensor<6x2x3x3xf32>
          %b = tensor.parameter "b" : tensor<6xf32>
          %y = tensor.conv %x, %w, %b {{strides = array<i64: 1, 1>, dilation = array<i64: 1, 1>,
            padding = array<i64: {padding}, {padding}, {padding}, {padding}>,
            groups = {groups} : i64}}
            : (tensor<?x{2 * groups}x5x5xf32>, tensor<6x2x3x3xf32>, tensor<6xf32>)
            -> tensor<?x6x{size}x{size}xf32>
          func.return %y : tensor<?x6x{size}x{size}xf32>
        }}
        """,
        seed=groups,
    )
    w, b = (store_of(module).read(key) for key in ("w", "b"))
    apply_passes(module, f"ternarize{{scale={scale}}}")
    x = np.random.default_rng(0).normal(size=(2, 2 * groups, 5, 5)).astype(np.float32)
    weight = dequantized(w.reshape(6, -1).T, "twn", scale, None).T.reshape(w.shape)
    image, kernel, bias = (torch.from_numpy(a.astype(np.float64)) for a in (x, weight, b))
    expected = torch.nn.functional.conv2d(image, kernel, bias, padding=padding, groups=groups)
    np.testing.assert_allclose(run_module(module, [x])[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "nearest"}, "rule one of fixed, twn, absmean, got 'nearest'"),
        ({"scale": "row"}, "scale one of none, tensor, channel, got 'row'"),
        ({"rule": "fixed"}, "a threshold with the rule 'fixed'"),
        ({"rule": "twn", "threshold": 0.1}, "no threshold with the rule 'twn'"),
        ({"threshold": -0.5}, "a threshold of at least 0, got -0.5"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        TernarizePass(**options)


def test_a_key_to_skip_must_exist(filled: Filled, apply_passes: Apply) -> None:
    with pytest.raises(OptionError, match=r"no parameter .* did you mean 'fc2\.weight'\?"):
        apply_passes(filled(MLP), 'ternarize{skip="fc2.wieght"}')
