"""`skip-zeros` removes exactly what no input or no output needs, and changes no result."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import ternary
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import parameter_value, parameters
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.passes.skip_zeros.skip_zeros import SkipZerosPass, zero_block_share

Apply = Callable[[ModuleOp, str], str]
Filled = Callable[..., ModuleOp]
Array = NDArray[Any]
Samples = Callable[..., list[Array]]

AFTER = {
    "requantize": (
        '%m{i} = tensor.parameter "m{i}" : tensor<{n}xi32>\n'
        "%h{i} = tensor.requantize %a{i}, %m{i}, %shift, %zero {{axis = 1 : i64}}"
        " : (tensor<?x{n}xi32>, tensor<{n}xi32>, tensor<i32>, tensor<i8>) -> tensor<?x{n}xi8>"
    ),
    "requantize_all": (
        "%h{i} = tensor.requantize %a{i}, %one, %shift, %zero {{axis = 1 : i64}}"
        " : (tensor<?x{n}xi32>, tensor<i32>, tensor<i32>, tensor<i8>) -> tensor<?x{n}xi8>"
    ),
    "thresholds": (
        '%t{i} = tensor.parameter "t{i}" : tensor<{n}x3xi32>\n'
        "%h{i} = tensor.multi_threshold %a{i}, %t{i}"
        " : (tensor<?x{n}xi32>, tensor<{n}x3xi32>) -> tensor<?x{n}xi8>"
    ),
    "relu": (
        "%r{i} = tensor.relu %a{i} : (tensor<?x{n}xi32>) -> tensor<?x{n}xi32>\n"
        "%h{i} = tensor.convert %r{i} : (tensor<?x{n}xi32>) -> tensor<?x{n}xi8>"
    ),
}


def integer_mlp(sizes: list[int], biases: list[bool], after: list[str]) -> str:
    """An integer network: trits in i8, sums in i32, back to i8."""
    lines = [
        "%one = tensor.constant dense<1> : tensor<i32>",
        "%shift = tensor.constant dense<2> : tensor<i32>",
        "%zero = tensor.constant dense<3> : tensor<i8>",
    ]
    for i, (k, n) in enumerate(pairwise(sizes)):
        bias = ""
        if biases[i]:
            lines.append(f'%b{i} = tensor.parameter "b{i}" : tensor<{n}xi32>')
            bias = f" bias(%b{i} : tensor<{n}xi32>)"
        source = f"%h{i - 1}" if i else "%x"
        lines.append(f'%w{i} = ternary.parameter "w{i}" : tensor<{k}x{n}x!ternary.trit>')
        lines.append(
            f"%a{i} = ternary.linear {source}, %w{i}{bias}"
            f" : tensor<?x{k}xi8>, tensor<{k}x{n}x!ternary.trit> -> tensor<?x{n}xi32>"
        )
        if i < len(sizes) - 2:
            lines.append(AFTER[after[i]].format(i=i, n=n))
    last = len(sizes) - 2
    body = "\n".join(lines)
    result = f"tensor<?x{sizes[-1]}xi32>"
    return (
        f"func.func @forward(%x: tensor<?x{sizes[0]}xi8>) -> {result} {{\n"
        f"{body}\nfunc.return %a{last} : {result}\n}}"
    )


def sparse_trits(rng: np.random.Generator, shape: tuple[int, ...], zeros: float) -> Array:
    """Random trits with whole rows and columns of zeros."""
    trits = rng.integers(-1, 2, shape)
    for axis in (0, 1):
        gone = rng.random(shape[axis]) < zeros
        trits[(slice(None),) * axis + (gone,)] = 0
    return trits.astype(np.int8)


def live_sizes(weights: list[Array]) -> list[int]:
    """For each hidden layer the channels that an input reaches and that reach an output."""
    forward = [np.ones(weights[0].shape[0], bool)]
    for weight in weights:
        forward.append((weight[forward[-1]] != 0).any(axis=0))
    backward = [np.ones(weights[-1].shape[1], bool)]
    for weight in reversed(weights):
        backward.append((weight[:, backward[-1]] != 0).any(axis=1))
    backward.reverse()
    return [int((f & b).sum()) for f, b in zip(forward, backward, strict=True)][1:-1]


@given(st.data())
def test_integer_networks(
    filled: Filled, apply_passes: Apply, samples: Samples, data: st.DataObject
) -> None:
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=2, max_size=5), label="sizes")
    count = len(sizes) - 1
    biases = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    steps = st.sampled_from(sorted(AFTER))
    after = data.draw(st.lists(steps, min_size=count, max_size=count))
    seed = data.draw(st.integers(0, 1000))
    zeros = data.draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    rng = np.random.default_rng(seed)
    weights = [sparse_trits(rng, s, zeros) for s in pairwise(sizes)]
    values = {f"w{i}": w for i, w in enumerate(weights)}
    fuse = data.draw(st.booleans())

    module = filled(integer_mlp(sizes, biases, after), seed, values)
    inputs = samples(module, seed, 8)
    before = run_module(module, inputs)[0]
    if fuse:
        apply_passes(module, "fuse-linear")
    text = apply_passes(module, "skip-zeros")
    # The interpreter checks the recorded facts against the weights too.
    np.testing.assert_array_equal(run_module(module, inputs)[0], before)
    assert apply_passes(module, "skip-zeros") == text

    live = live_sizes(weights)
    if 0 not in live:
        layers = [op for op in module.walk() if isinstance(op, ternary.LinearOp)]
        assert [tensor_type(op.weight).get_shape()[1] for op in layers[:-1]] == live


CNN = """
func.func @forward(%x: tensor<?x2x8x8xf32>) -> tensor<?x3xf32> {{
  %w0 = ternary.parameter "w0" : tensor<6x2x3x3x!ternary.trit>
  %s0 = tensor.parameter "s0" : tensor<6xf32>
  %b0 = tensor.parameter "b0" : tensor<6xf32>
  %0 = ternary.conv %x, %w0 scale(%s0 : tensor<6xf32>) bias(%b0 : tensor<6xf32>)
    {{activation = "{activation}", strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
    dilation = array<i64: 1, 1>}}
    : tensor<?x2x8x8xf32>, tensor<6x2x3x3x!ternary.trit> -> tensor<?x6x8x8xf32>
  %g = tensor.parameter "g" : tensor<6xf32>
  %c = tensor.parameter "c" : tensor<6xf32>
  %m = tensor.parameter "m" : tensor<6xf32>
  %v = tensor.parameter "var" : tensor<6xf32>
  %1 = tensor.batch_norm %0, %g, %c, %m, %v : (tensor<?x6x8x8xf32>, tensor<6xf32>, tensor<6xf32>,
    tensor<6xf32>, tensor<6xf32>) -> tensor<?x6x8x8xf32>
  %2 = tensor.{pool} %1 {{kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
    padding = array<i64: {pad}, {pad}, {pad}, {pad}>}}
    : (tensor<?x6x8x8xf32>) -> tensor<?x6x{size}x{size}xf32>
  %w1 = ternary.parameter "w1" : tensor<5x6x3x3x!ternary.trit>
  %s1 = tensor.parameter "s1" : tensor<5xf32>
  %3 = ternary.conv %2, %w1 scale(%s1 : tensor<5xf32>)
    {{strides = array<i64: 1, 1>, dilation = array<i64: 1, 1>,
    padding = array<i64: {border}, {border}, {border}, {border}>}}
    : tensor<?x6x{size}x{size}xf32>, tensor<5x6x3x3x!ternary.trit> -> tensor<?x5x{last}x{last}xf32>
  %4 = tensor.hard_swish %3 : (tensor<?x5x{last}x{last}xf32>) -> tensor<?x5x{last}x{last}xf32>
  %5 = {flatten} : (tensor<?x5x{last}x{last}xf32>) -> tensor<?x{features}xf32>
  %w2 = tensor.parameter "w2" : tensor<{features}x3xf32>
  %y = tensor.linear %5, %w2
    : (tensor<?x{features}xf32>, tensor<{features}x3xf32>) -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}}
"""


@given(
    activation=st.sampled_from(["none", "relu", "relu6"]),
    pool=st.sampled_from(["max_pool", "avg_pool"]),
    pad=st.integers(0, 1),
    border=st.integers(0, 1),
    reshape=st.booleans(),
    seed=st.integers(0, 1000),
    zeros=st.sampled_from([0.0, 0.4, 0.8]),
)
def test_float_convolutions(
    filled: Filled,
    apply_passes: Apply,
    samples: Samples,
    activation: str,
    pool: str,
    pad: int,
    border: int,
    reshape: bool,
    seed: int,
    zeros: float,
) -> None:
    size = 4 + pad
    last = size - 2 + 2 * border
    features = 5 * last * last
    flatten = "tensor.flatten %4"
    if reshape:
        flatten = f"tensor.reshape_to %4 {{shape = array<i64: -1, {features}>}}"
    rng = np.random.default_rng(seed)
    values = {
        "w0": sparse_trits(rng, (6, 2, 3, 3), zeros),
        "w1": sparse_trits(rng, (5, 6, 3, 3), zeros),
    }
    text = CNN.format(
        activation=activation,
        pool=pool,
        pad=pad,
        border=border,
        size=size,
        last=last,
        features=features,
        flatten=flatten,
    )
    module = filled(text, seed, values)
    inputs = samples(module, seed)
    before = run_module(module, inputs)[0]
    text = apply_passes(module, "skip-zeros")
    after = run_module(module, inputs)[0]
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4 * (np.abs(before).max() + 1))
    assert apply_passes(module, "skip-zeros") == text


def test_channels_on_the_last_axis(filled: Filled, apply_passes: Apply, samples: Samples) -> None:
    """Sequences [batch, time, channels]; the middle layer has a constant and an unread channel."""
    module = filled(
        """
        func.func @forward(%x: tensor<?x5x4xf32>) -> tensor<?x5x3xf32> {
          %w = ternary.parameter "w" : tensor<4x6x!ternary.trit>
          %b = tensor.parameter "b" : tensor<6xf32>
          %u = ternary.parameter "u" : tensor<6x3x!ternary.trit>
          %s = tensor.parameter "s" : tensor<f32>
          %0 = ternary.linear %x, %w bias(%b : tensor<6xf32>)
            : tensor<?x5x4xf32>, tensor<4x6x!ternary.trit> -> tensor<?x5x6xf32>
          %1 = tensor.gelu %0 : (tensor<?x5x6xf32>) -> tensor<?x5x6xf32>
          %2 = ternary.matmul %1, %u scale(%s : tensor<f32>)
            : tensor<?x5x6xf32>, tensor<6x3x!ternary.trit> -> tensor<?x5x3xf32>
          func.return %2 : tensor<?x5x3xf32>
        }
        """,
        0,
        {
            "w": np.array([1, 1, 0, 1, 1, 1], np.int8) * np.ones((4, 6), np.int8),
            "u": np.array([[1], [0], [1], [-1], [1], [1]], np.int8) * np.ones((6, 3), np.int8),
        },
    )
    inputs = samples(module)
    before = run_module(module, inputs)[0]
    text = apply_passes(module, "skip-zeros")
    assert "tensor<4x4x!ternary.trit>" in text and "tensor<4x3x!ternary.trit>" in text
    np.testing.assert_allclose(run_module(module, inputs)[0], before, rtol=1e-4, atol=1e-5)


def test_float_weights_are_not_read(apply_passes: Apply, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        pytest.fail("the parameter file was opened")

    monkeypatch.setattr(ParameterStore, "_stored_names", refuse)
    types = "(tensor<?x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32>"
    module = parse_module(
        f"""
        module attributes {{tensor.parameters = #tensor.store<"absent", sha256 = "0">}} {{
          func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {{
            %w = tensor.parameter "w" : tensor<4x4xf32>
            %0 = tensor.linear %x, %w : {types}
            %1 = tensor.linear %0, %w : {types}
            func.return %1 : tensor<?x4xf32>
          }}
        }}
        """
    )
    text = str(module)
    assert apply_passes(module, "skip-zeros") == text


def test_a_softmax_mixes_channels(filled: Filled, apply_passes: Apply) -> None:
    module = filled(
        """
        func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x3xf32> {
          %w = ternary.parameter "w" : tensor<4x3x!ternary.trit>
          %u = ternary.parameter "u" : tensor<3x3x!ternary.trit>
          %0 = ternary.linear %x, %w
            : tensor<?x4xf32>, tensor<4x3x!ternary.trit> -> tensor<?x3xf32>
          %1 = tensor.softmax %0 {axis = 1 : i64} : (tensor<?x3xf32>) -> tensor<?x3xf32>
          %2 = ternary.linear %1, %u
            : tensor<?x3xf32>, tensor<3x3x!ternary.trit> -> tensor<?x3xf32>
          func.return %2 : tensor<?x3xf32>
        }
        """,
        0,
        {"w": np.ones((4, 3), np.int8), "u": DEAD_IN_BOTH},
    )
    assert "tensor<4x3x!ternary.trit>" in apply_passes(module, "skip-zeros")


def two_readers(second: str) -> str:
    return f"""
    func.func @forward(%x: tensor<?x4xf32>) -> (tensor<?x3xf32>, tensor<?x3xf32>) {{
      %w = ternary.parameter "w" : tensor<4x3x!ternary.trit>
      %u = ternary.parameter "u" : tensor<3x3x!ternary.trit>
      %v = ternary.parameter "v" : tensor<3x3x!ternary.trit>
      %0 = ternary.linear %x, %w {{activation = "relu"}}
        : tensor<?x4xf32>, tensor<4x3x!ternary.trit> -> tensor<?x3xf32>
      %1 = ternary.linear %0, %u
        : tensor<?x3xf32>, tensor<3x3x!ternary.trit> -> tensor<?x3xf32>
      %2 = {second}
      func.return %1, %2 : tensor<?x3xf32>, tensor<?x3xf32>
    }}
    """


LINEAR = "ternary.linear %0, %v : tensor<?x3xf32>, tensor<3x3x!ternary.trit> -> tensor<?x3xf32>"
ADD = "tensor.add %0, %1 : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>"
DEAD_IN_BOTH = np.array([[0, 0, 0], [1, 0, -1], [1, 1, 1]], np.int8)


@pytest.mark.parametrize(
    ("second", "unread_by_second", "left"), [(LINEAR, 0, 2), (LINEAR, 1, 3), (ADD, 0, 3)]
)
def test_every_reader_must_do_without(
    filled: Filled,
    apply_passes: Apply,
    samples: Samples,
    second: str,
    unread_by_second: int,
    left: int,
) -> None:
    v = np.ones((3, 3), np.int8)
    v[unread_by_second] = 0
    w = np.ones((4, 3), np.int8)
    module = filled(two_readers(second), 0, {"w": w, "u": DEAD_IN_BOTH, "v": v})
    inputs = samples(module)
    before = run_module(module, inputs)
    assert f"tensor<4x{left}x!ternary.trit>" in apply_passes(module, "skip-zeros")
    for found, expected in zip(run_module(module, inputs), before, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_pruned_weights_keep_their_names(filled: Filled, apply_passes: Apply) -> None:
    u = np.array([[0, 0, 0], [1, 0, -1], [1, 1, 1]], np.int8)
    v = u.copy()
    module = filled(two_readers(LINEAR), 0, {"w": np.ones((4, 3), np.int8), "u": u, "v": v})
    apply_passes(module, "skip-zeros")
    found = {op.key.data: parameter_value(op).shape for op in parameters(module)}
    assert found == {"w.pruned": (4, 2), "u.pruned": (2, 3), "v.pruned": (2, 3)}


@pytest.mark.parametrize(
    ("sparse", "share", "marked"),
    [
        ("auto", 0.0, False),
        ("auto", 0.25, False),
        ("auto", 0.5, True),
        ("auto", 1.0, True),
        ("blocks", 0.0, False),
        ("blocks", 0.25, True),
        ("never", 1.0, False),
    ],
)
def test_the_cost_rule(
    filled: Filled, apply_passes: Apply, sparse: str, share: float, marked: bool
) -> None:
    weight = np.ones((16, 512), np.int8)
    for block in range(int(share * 8)):
        row, column = divmod(block, 2)
        weight[4 * row : 4 * row + 4, 256 * column : 256 * column + 256] = 0
    assert zero_block_share(weight, (4, 256)) == share
    text = """
    func.func @forward(%x: tensor<?x16xf32>) -> tensor<?x512xf32> {
      %w = ternary.parameter "w" : tensor<16x512x!ternary.trit>
      %y = ternary.linear %x, %w {ternary.form = "block_sparse"}
        : tensor<?x16xf32>, tensor<16x512x!ternary.trit> -> tensor<?x512xf32>
      func.return %y : tensor<?x512xf32>
    }
    """
    module = filled(text, 0, {"w": weight})
    assert ("block_sparse" in apply_passes(module, f"skip-zeros{{sparse={sparse}}}")) is marked


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 6), st.integers(1, 6))
def test_the_share_of_zero_blocks(rows: int, columns: int, height: int, width: int) -> None:
    rng = np.random.default_rng(rows * 20 + columns)
    matrix = (rng.random((rows, columns)) < 0.1).astype(np.int8)
    blocks = [
        matrix[r : r + height, c : c + width]
        for r in range(0, rows, height)
        for c in range(0, columns, width)
    ]
    expected = sum(block.size for block in blocks if not block.any()) / matrix.size
    assert zero_block_share(matrix, (height, width)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": (4,)}, r"block=ROWS,COLUMNS, got \[4\]"),
        ({"block": (0, 4)}, r"block=ROWS,COLUMNS, got \[0, 4\]"),
        ({"sparse": "always"}, "sparse one of auto, blocks, never, got 'always'"),
        ({"min_share": 1.5}, r"min-share in \[0, 1\], got 1.5"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SkipZerosPass(**options)


def test_a_constant_that_becomes_spikes_is_no_number() -> None:
    """A channel of fives is a train of ones, which a delay holds back for a step."""
    module = parse_module("""
func.func @forward(%x: tensor<2x1x2xi8>) -> tensor<2x1x1xi32> {
  %w = ternary.constant [1, 0, 1, 0] : tensor<2x2x!ternary.trit>
  %b = tensor.constant dense<[0, 5]> : tensor<2xi32>
  %h = ternary.linear %x, %w bias(%b : tensor<2xi32>)
       : tensor<2x1x2xi8>, tensor<2x2x!ternary.trit> -> tensor<2x1x2xi32>
  %s = spike.from_tensor %h : (tensor<2x1x2xi32>) -> !spike.train<2x1x2>
  %d = spike.delay %s {steps = 1 : i64} : (!spike.train<2x1x2>) -> !spike.train<2x1x2>
  %t = spike.to_tensor %d : (!spike.train<2x1x2>) -> tensor<2x1x2xi32>
  %v = ternary.constant [-1, 1] : tensor<2x1x!ternary.trit>
  %y = ternary.linear %t, %v : tensor<2x1x2xi32>, tensor<2x1x!ternary.trit> -> tensor<2x1x1xi32>
  func.return %y : tensor<2x1x1xi32>
}""")
    SkipZerosPass().apply(Context(), module)
    module.verify()
    for x, second in (([[3, -3], [9, 9]], 1), ([[3, 0], [9, 9]], 0)):
        (y,) = run_module(module, [np.array(x, np.int8).reshape(2, 1, 2)])
        assert y.reshape(-1).tolist() == [0, second]
