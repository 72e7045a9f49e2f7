"""`ternarize{method=gptq}` on whole programs: layer after layer, biases, refusals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import parameters, store_of
from triton_dsl.dialects.registry import verify_module
from triton_dsl.ir.errors import OptionError, PassError
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.passes.analysis.layers import PlainLayer, weight_of
from triton_dsl.passes.ternarize.compensated_layers import Plan, compensate, plain
from triton_dsl.passes.ternarize.ternarize import TernarizePass

Apply = Callable[[ModuleOp, str], str]
Filled = Callable[..., ModuleOp]
Array = NDArray[Any]

MLP = """
func.func @forward(%x: tensor<?x12xf32>) -> tensor<?x5xf32> {
  %w1 = tensor.parameter "fc1.weight" : tensor<12x40xf32>
  %b1 = tensor.parameter "fc1.bias" : tensor<40xf32>
  %0 = tensor.linear %x, %w1, %b1
    : (tensor<?x12xf32>, tensor<12x40xf32>, tensor<40xf32>) -> tensor<?x40xf32>
  %1 = tensor.relu %0 : (tensor<?x40xf32>) -> tensor<?x40xf32>
  %w2 = tensor.parameter "fc2.weight" : tensor<40x30xf32>
  %2 = tensor.matmul %1, %w2 : (tensor<?x40xf32>, tensor<40x30xf32>) -> tensor<?x30xf32>
  %3 = tensor.relu %2 : (tensor<?x30xf32>) -> tensor<?x30xf32>
  %w3 = tensor.parameter "fc3.weight" : tensor<30x5xf32>
  %4 = tensor.linear %3, %w3 : (tensor<?x30xf32>, tensor<30x5xf32>) -> tensor<?x5xf32>
  func.return %4 : tensor<?x5xf32>
}
"""

CONV = """
func.func @forward(%x: tensor<?x4x8x7xf32>) -> tensor<?x6x4x7xf32> {{
  %w = tensor.parameter "w" : tensor<6x{inputs}x3x2xf32>
  %y = tensor.conv %x, %w {{strides = array<i64: 2, 1>, padding = array<i64: 1, 1, 1, 1>,
      dilation = array<i64: 1, 2>, groups = {groups} : i64}}
      : (tensor<?x4x8x7xf32>, tensor<6x{inputs}x3x2xf32>) -> tensor<?x6x4x7xf32>
  func.return %y : tensor<?x6x4x7xf32>
}}
"""


def inputs(*shape: int, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).normal(size=shape) + 0.5).astype(np.float32)


def compensated(module: ModuleOp, x: Array, size: int = 50, **options: Any) -> ModuleOp:
    made = module.clone()
    batches = [(x[start : start + size],) for start in range(0, len(x), size)]
    TernarizePass(method="gptq", **options).compensate(made, batches)
    verify_module(made)
    return made


def error(module: ModuleOp, approximate: ModuleOp, x: Array) -> float:
    (wanted,), (found,) = run_module(module, [x]), run_module(approximate, [x])
    return float(np.mean((wanted - found) ** 2) / np.var(wanted))


def test_nearer_than_rounding(filled: Filled, apply_passes: Apply) -> None:
    module, rule = filled(MLP), filled(MLP)
    apply_passes(rule, "ternarize")
    made = compensated(module, inputs(1000, 12))
    assert sum(isinstance(op, ternary.LinearOp) for op in made.walk()) == 3
    assert "tensor.parameter" not in [op.name for op in made.walk()], "nothing unused is left"
    fresh = inputs(500, 12, seed=1)
    assert error(module, made, fresh) < error(module, rule, fresh) / 3


def test_mean_results_are_kept(filled: Filled) -> None:
    module, x = filled(MLP), inputs(300, 12)
    (wanted,), (found,) = run_module(module, [x]), run_module(compensated(module, x), [x])
    np.testing.assert_allclose(found.mean(axis=0), wanted.mean(axis=0), atol=1e-3)
    (plain,) = run_module(compensated(module, x, correct_bias=False), [x])
    assert np.abs(plain.mean(axis=0) - wanted.mean(axis=0)).max() > 0.01


def test_without_new_biases(filled: Filled) -> None:
    made = compensated(filled(MLP), inputs(100, 12), correct_bias=False)
    layers = [op for op in made.walk() if isinstance(op, ternary.LinearOp)]
    assert [op.bias is not None for op in layers] == [True, False, False]


def test_biases_that_stay_count_in_the_error(filled: Filled, apply_passes: Apply) -> None:
    """Where biases are left as they are, errors of the mean results are errors too."""
    module, x = filled(MLP), inputs(1000, 12) + 3
    made = compensated(module, x, correct_bias=False, skip=("fc2.weight", "fc3.weight"))
    apply_passes(one := filled(MLP), 'ternarize{skip="fc2.weight","fc3.weight"}')
    assert error(module, made, x) < error(module, one, x) / 3


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_are_products_of_windows(filled: Filled, groups: int) -> None:
    """The trits are those of the least error of the convolution itself, as torch computes it."""
    torch = pytest.importorskip("torch")
    module = filled(CONV.format(groups=groups, inputs=4 // groups))
    x = inputs(24, 4, 8, 7)
    made = compensated(module, x, damping=1e-6)
    (op,) = (op for op in made.walk() if isinstance(op, ternary.ConvOp))
    store = store_of(made)
    trits = ternary_weight(made, op)
    conv = torch.nn.functional.conv2d

    def result(weight: Array) -> Array:
        return conv(
            torch.from_numpy(x.astype(np.float64)),
            torch.from_numpy(weight.astype(np.float64)),
            stride=(2, 1),
            padding=1,
            dilation=(1, 2),
            groups=groups,
        ).numpy()

    wanted = result(store.read("w"))
    wanted -= wanted.mean(axis=(0, 2, 3), keepdims=True)
    scaled = result(trits)
    scaled -= scaled.mean(axis=(0, 2, 3), keepdims=True)
    scale = (wanted * scaled).sum(axis=(0, 2, 3)) / (scaled**2).sum(axis=(0, 2, 3))
    (y,) = run_module(made, [x])
    y = y - y.mean(axis=(0, 2, 3), keepdims=True)
    np.testing.assert_allclose(y, scaled * scale[:, None, None], atol=1e-3)
    # No other value of a single trit is better.
    least = ((wanted - scaled * scale[:, None, None]) ** 2).sum(axis=(0, 2, 3))
    for place in np.ndindex(*trits.shape[1:]):
        for value in (-1, 0, 1):
            other = trits.copy()
            other[(slice(None), *place)] = value
            moved = result(other)
            moved -= moved.mean(axis=(0, 2, 3), keepdims=True)
            off = ((wanted - moved * scale[:, None, None]) ** 2).sum(axis=(0, 2, 3))
            assert (off >= least * (1 - 1e-4)).all()


def ternary_weight(module: ModuleOp, op: ternary.ConvOp) -> Array:
    from triton_dsl.passes.analysis.compile_time import literal_value

    trits = literal_value(op.weight)
    assert trits is not None
    return trits.astype(np.float64)


def test_ternary_weights_come_through_exactly(filled: Filled) -> None:
    rng = np.random.default_rng(5)
    values = {
        "fc1.weight": rng.integers(-1, 2, (12, 40)) * rng.uniform(0.5, 2, 40),
        "fc2.weight": rng.integers(-1, 2, (40, 30)) * rng.uniform(0.5, 2, 30),
        "fc3.weight": rng.integers(-1, 2, (30, 5)) * rng.uniform(0.5, 2, 5),
    }
    module = filled(MLP, values={k: v.astype(np.float32) for k, v in values.items()})
    x = inputs(400, 12)
    made = compensated(module, x)
    np.testing.assert_allclose(
        run_module(made, [x])[0], run_module(module, [x])[0], rtol=1e-4, atol=1e-4
    )


def test_batches_and_runs_do_not_matter(filled: Filled) -> None:
    module, x = filled(MLP), inputs(240, 12)
    texts = [str(compensated(module, x, size)) for size in (40, 40, 240)]
    assert texts[0] == texts[1]
    stores = [
        {key: store_of(made).read(key) for key in ("fc1.weight.trits", "fc3.weight.trits")}
        for made in (compensated(module, x, 40), compensated(module, x, 40))
    ]
    for key, array in stores[0].items():
        np.testing.assert_array_equal(array, stores[1][key])


def test_a_shared_weight_is_chosen_once(filled: Filled) -> None:
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
    made = compensated(module, inputs(100, 9))
    assert sum(isinstance(op, ternary.ParameterOp) for op in made.walk()) == 1


def test_layers_kept_in_float(filled: Filled) -> None:
    made = compensated(filled(MLP), inputs(60, 12), keep_first=True, skip=("fc3.weight",))
    keys = {op.key.data for op in parameters(made)}
    assert {"fc1.weight", "fc2.weight.trits", "fc3.weight"} <= keys
    assert "fc2.weight" not in keys


def test_by_pipeline(filled: Filled, apply_passes: Apply, tmp_path: Path) -> None:
    module, x = filled(MLP), inputs(300, 12)
    np.save(tmp_path / "samples.npy", x)
    made = compensated(module, x[:200], size=20)
    apply_passes(
        module, f'ternarize{{method=gptq data="{tmp_path / "samples.npy"}" samples=200 batch=20}}'
    )
    np.testing.assert_array_equal(run_module(module, [x])[0], run_module(made, [x])[0])


def test_samples_that_overflow_are_refused(filled: Filled) -> None:
    with pytest.raises(PassError, match="gets or gives infinite values or NaN on the samples"):
        compensated(filled(MLP), np.full((4, 12), np.inf, np.float32))
    with pytest.raises(PassError, match="at least one sample"):
        TernarizePass(method="gptq").compensate(filled(MLP), [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "obq"}, "expects method one of rule, gptq, got 'obq'"),
        ({"method": "gptq", "rule": "twn"}, "leave out 'rule', 'threshold' and 'scale'"),
        ({"method": "gptq", "scale": "tensor"}, "leave out 'rule', 'threshold' and 'scale'"),
        ({"method": "gptq", "damping": 0}, "damping above 0"),
        ({"method": "gptq", "sweeps": -1}, "sweeps of at least 0"),
        ({"method": "gptq", "samples": 0}, "samples of at least 1"),
    ],
)
def test_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        TernarizePass(**options)


def test_data_are_needed(filled: Filled, apply_passes: Apply) -> None:
    with pytest.raises(PassError, match="ternarize needs sample inputs"):
        apply_passes(filled(MLP), "ternarize{method=gptq}")


BLOCK = """
func.func @forward(%x: tensor<?x12xf32>) -> tensor<?x9xf32> {
  %a = tensor.parameter "a" : tensor<12x9xf32>
  %b = tensor.parameter "b" : tensor<12x9xf32>
  %0 = tensor.matmul %x, %a : (tensor<?x12xf32>, tensor<12x9xf32>) -> tensor<?x9xf32>
  %1 = tensor.matmul %x, %b : (tensor<?x12xf32>, tensor<12x9xf32>) -> tensor<?x9xf32>
  %2 = tensor.add %0, %1 : (tensor<?x9xf32>, tensor<?x9xf32>) -> tensor<?x9xf32>
  func.return %2 : tensor<?x9xf32>
}
"""


def rounded(module: ModuleOp, x: Array, most: dict[str, int], **options: Any) -> Any:
    """A copy with layers rounded to levels, and what each got."""
    made = module.clone()
    function = entry_function(made, "forward")
    layers = {op: weight_of(op).owner for op in made.walk() if isinstance(op, PlainLayer)}
    keys = {op: w.key.data for op, w in layers.items() if isinstance(w, tensor.ParameterOp)}
    plan = Plan(
        {op: key for op, key in keys.items() if key in most},
        most={op: most[key] for op, key in keys.items() if key in most},
        **options,
    )
    found = dict(compensate(made, function, plan, [(x,)], progress=False))
    verify_module(made)
    return made, found


def test_layers_may_have_different_levels(filled: Filled) -> None:
    module, x = filled(MLP), inputs(500, 12)
    most = {"fc1.weight": 7, "fc2.weight": 1, "fc3.weight": 64}
    made, found = rounded(module, x, most)
    store = {op.key.data: op for op in parameters(module)}
    for key, got in found.items():
        assert np.abs(got.levels).max() <= most[key] == got.most
        assert got.levels.shape == tensor_type(store[key].results[0]).get_shape()
    assert sum(isinstance(op, ternary.LinearOp) for op in made.walk()) == 1
    fewer, _ = rounded(module, x, dict.fromkeys(most, 1))
    fresh = inputs(500, 12, seed=1)
    assert error(module, made, fresh) < error(module, fewer, fresh) / 2


def test_a_branch_makes_up_for_the_other(filled: Filled) -> None:
    """The trits of each alone leave errors that add up in the sum."""
    module, x = filled(BLOCK), inputs(2000, 12)
    together, _ = rounded(module, x, {"a": 1, "b": 1})
    _, alone = rounded(module, x, {"a": 1, "b": 1}, alone=True)
    (wanted,) = run_module(module, [x])
    dense = {key: got.levels * got.scale for key, got in alone.items()}
    separate = x @ dense["a"] + x @ dense["b"] + alone["a"].bias + alone["b"].bias
    apart = float(np.mean((wanted - separate) ** 2) / np.var(wanted))
    assert error(module, together, x) < 0.75 * apart


def test_plain_rounding_is_the_nearest(filled: Filled) -> None:
    module = filled(BLOCK)
    op = next(op for op in module.walk() if isinstance(op, PlainLayer))
    weight = np.random.default_rng(3).normal(size=(12, 9)).astype(np.float32)
    got = plain(op, weight, 7)
    step = np.abs(weight).max(axis=0) / 7
    nearest = np.rint(weight / step) * step
    off = (got.dense(op) - weight) ** 2
    assert (off.sum(axis=0) <= ((nearest - weight) ** 2).sum(axis=0) * (1 + 1e-5)).all()
    assert np.abs(got.levels).max() <= 7 and got.bias is None
