"""Synapses as placement counts them are those of PyTorch's layers and of plain loops."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings

from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.spike import NetworkOp
from triton_dsl.lowering.placement import workload_of
from triton_dsl.lowering.placement.connectivity import Connectivity, Dense, Diagonal, Sparse


def matrix_of(ways: Connectivity) -> np.ndarray:
    """The synapses as counts [sources, targets]."""
    matrix = np.zeros((ways.sources, ways.targets), int)
    sources, targets = ways.edges(0, ways.sources)
    np.add.at(matrix, (sources, targets), 1)
    return matrix


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_all_forms_count_alike(sources: int, targets: int, data: st.DataObject) -> None:
    bits = data.draw(
        st.lists(st.booleans(), min_size=sources * targets, max_size=sources * targets)
    )
    mask = np.array(bits, np.bool_).reshape(sources, targets)
    rows, indices = np.nonzero(mask)
    first = np.searchsorted(rows, np.arange(sources + 1))
    cuts = np.array(sorted({0, *data.draw(st.lists(st.integers(0, targets - 1), max_size=3))}))
    start = data.draw(st.integers(0, sources - 1))
    stop = data.draw(st.integers(start + 1, sources))
    ends = [*cuts[1:], targets]
    runs = list(zip(cuts, ends, strict=True))
    wanted = [[row[a:b].sum() for a, b in runs] for row in mask[start:stop]]
    for ways in (Dense(mask), Sparse(first, indices, targets)):
        np.testing.assert_array_equal(ways.counts(start, stop, cuts), wanted)
        np.testing.assert_array_equal(ways.fan_in, mask.sum(0))
        np.testing.assert_array_equal(matrix_of(ways), mask)
        assert ways.synapses == mask.sum()


def test_one_to_one() -> None:
    np.testing.assert_array_equal(matrix_of(Diagonal(4)), np.eye(4))
    np.testing.assert_array_equal(Diagonal(4).counts(1, 3, np.array([0, 2])), [[1, 0], [0, 1]])


CONV = """
spike.network @net dt = 1.0 {{
  %w = tensor.constant dense<{weights}> : tensor<{out}x{into}x{k}x{k}xf32>
  spike.input @x {{shape = array<i64: {channels}, {height}, {width}>}}
  spike.population @y {{model = "integrate_fire", shape = array<i64: {shape}>}}
  spike.projection @c @x -> @y weights(%w : tensor<{out}x{into}x{k}x{k}xf32>)
    {{connection = "conv", strides = array<i64: {s}, {s}>, groups = {groups} : i64,
      dilation = array<i64: {d}, {d}>, padding = array<i64: {p}, {p}, {p}, {p}>}}
}}
"""


@settings(max_examples=30)
@given(
    groups=st.integers(1, 2),
    k=st.integers(1, 3),
    s=st.integers(1, 2),
    d=st.integers(1, 2),
    p=st.integers(0, 1),
    height=st.integers(5, 7),
    seed=st.integers(0, 99),
)
@example(groups=1, k=1, s=1, d=1, p=0, height=5, seed=6)  # every weight is 0
def test_convolutions_of_pytorch(
    groups: int, k: int, s: int, d: int, p: int, height: int, seed: int
) -> None:
    """The gradient of each output with respect to the input is not 0 where there is a synapse."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(-1, 2, (2, 2, k, k))
    x = torch.ones(1, 2 * groups, height, 6, dtype=torch.float64)

    def convolve(x: torch.Tensor) -> torch.Tensor:
        w = torch.tensor(weights, dtype=torch.float64)
        return torch.nn.functional.conv2d(x, w, None, s, p, d, groups)

    y = convolve(x)
    jacobian = torch.autograd.functional.jacobian(convolve, x)
    assert isinstance(jacobian, torch.Tensor)
    wanted = jacobian.reshape(y.numel(), x.numel()).T.numpy() != 0
    values = {"out": 2, "into": 2, "channels": 2 * groups, "width": 6, "height": height}
    text = CONV.format(
        weights=weights.tolist(), shape=", ".join(map(str, y.shape[1:])), k=k, s=s, d=d, p=p,
        groups=groups, **values,
    )  # fmt: skip
    (network,) = parse_module(text).body.block.ops
    assert isinstance(network, NetworkOp)
    (edge,) = workload_of(network).synapses
    np.testing.assert_array_equal(matrix_of(edge.connectivity), wanted)
    np.testing.assert_array_equal(edge.connectivity.fan_in, wanted.sum(0))
    cuts = np.array([0, y.numel() // 2])
    counted = edge.connectivity.counts(3, 9, cuts)
    np.testing.assert_array_equal(counted, np.add.reduceat(wanted[3:9], cuts, axis=1, dtype=int))


@pytest.mark.parametrize("connection", ["avg_pool", "sum_pool"])
def test_pools(connection: str) -> None:
    text = f"""
    spike.network @net dt = 1.0 {{
      spike.input @x {{shape = array<i64: 2, 4, 6>}}
      spike.population @y {{model = "integrate_fire", shape = array<i64: 2, 2, 2>}}
      spike.projection @c @x -> @y {{connection = "{connection}", kernel = array<i64: 2, 3>}}
    }}"""
    (network,) = parse_module(text).body.block.ops
    assert isinstance(network, NetworkOp)
    (edge,) = workload_of(network).synapses
    places = np.arange(48).reshape(2, 2, 2, 2, 3).transpose(0, 1, 3, 2, 4).reshape(8, 6)
    for target, sources in enumerate(places):
        np.testing.assert_array_equal(
            np.flatnonzero(matrix_of(edge.connectivity)[:, target]), sources
        )
