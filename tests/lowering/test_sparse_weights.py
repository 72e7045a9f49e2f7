"""Synapses whose weights stand without their zeros, beside the same weights with them."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import store_of
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import BackendError, ParameterError
from triton_dsl.ir.sparse_matrix import SparseMatrix, sparse_parts
from triton_dsl.lowering.compile_model import compile_model
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_mlir import import_mlir
from triton_dsl.lowering.module_file import ModuleFile
from triton_dsl.lowering.simulator import simulator
from triton_dsl.lowering.weights import attach_weights

pytest.importorskip("llvmlite")

Array = NDArray[Any]
INS, OUTS = 150, 70
ELEMENTS = {"trit": "!ternary.trit", "i8": "i8", "f32": "f32", "f64": "f64"}
DTYPES = {"trit": np.int8, "i8": np.int8, "f32": np.float32, "f64": np.float64}


def matrix(kind: str, ins: int = INS, outs: int = OUTS, share: float = 0.1) -> Any:
    """A CSR matrix of SciPy; some rows are empty."""
    rng = np.random.default_rng(3)
    values = {
        "trit": rng.choice([-1, 1], (ins, outs)),
        "i8": rng.integers(-128, 128, (ins, outs)),
    }.get(kind, rng.normal(size=(ins, outs)))
    values = np.where(rng.random((ins, outs)) < share, values, 0).astype(DTYPES[kind])
    values[::7] = 0
    return scipy.sparse.csr_array(values)


def layer(kind: str, weight: Any) -> ModuleOp:
    """A synapse with a scale and a bias, and neurons; gives both."""
    element = "f64" if kind == "f64" else "f32"
    scale = "" if kind[0] == "f" else "scale(%c : tensor<f32>) "
    module = parse_module(f"""
func.func @forward(%s: !spike.train<?x?x{INS}>) -> !spike.train<?x?x{OUTS}> {{
  %w = {"ternary" if kind == "trit" else "tensor"}.parameter "w" : tensor<{INS}x{OUTS}x{ELEMENTS[kind]}>
  %c = tensor.constant dense<0.25> : tensor<f32>
  %b = tensor.constant dense<0.125> : tensor<{OUTS}x{element}>
  %i = spike.linear %s, %w {scale}bias(%b : tensor<{OUTS}x{element}>) : !spike.train<?x?x{INS}>,
    tensor<{INS}x{OUTS}x{ELEMENTS[kind]}> -> tensor<?x?x{OUTS}x{element}>
  %o = spike.lif %i {{beta = 0.75 : f64}} : (tensor<?x?x{OUTS}x{element}>) -> !spike.train<?x?x{OUTS}>
  func.return %o : !spike.train<?x?x{OUTS}>
}}""")  # noqa: E501
    attach_weights(module, {"w": weight})
    return module


def spikes(steps: int, batch: int, activity: float = 0.3) -> Array:
    return np.random.default_rng(1).random((steps, batch, INS)) < activity


@pytest.mark.parametrize("kind", list(ELEMENTS))
def test_spikes_are_those_of_weights_with_zeros(kind: str) -> None:
    weight = matrix(kind)
    runner = simulator(layer(kind, weight), threads=2)
    dense = simulator(layer(kind, weight.toarray()), "event")
    for steps, batch, activity in ((9, 3, 0.3), (9, 2, 1.0), (70, 1, 0.05)):
        x = spikes(steps, batch, activity)
        dense.reset()
        wanted = dense(x)
        for most in (None, 4):
            runner.reset()
            np.testing.assert_array_equal(runner.run([x], slice_steps=most)[0], wanted)
        assert 0 < wanted.mean() < 1


@pytest.mark.parametrize("kind", ["trit", "i8", "f64"])
def test_the_interpreter_writes_the_zeros_out(kind: str) -> None:
    weight, x = matrix(kind), spikes(5, 2)
    (wanted,) = run_module(layer(kind, weight.toarray()), [x])
    np.testing.assert_array_equal(run_module(layer(kind, weight), [x])[0], wanted)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_formats_of_scipy_and_pytorch() -> None:
    weight, x = matrix("f32"), spikes(6, 2)
    wanted = simulator(layer("f32", weight))(x)
    dense = torch.from_numpy(weight.toarray())
    forms = [weight.tocoo(), weight.tocsc(), scipy.sparse.csr_matrix(weight)]
    for form in [*forms, dense.to_sparse_csr(), dense.to_sparse()]:
        np.testing.assert_array_equal(simulator(layer("f32", form))(x), wanted)


def test_arrays_are_used_in_place() -> None:
    weight = matrix("i8")
    store = store_of(layer("i8", weight))
    assert np.shares_memory(store.read("w.data"), weight.data)
    assert np.shares_memory(store.read("w.indices"), weight.indices)
    assert "w" not in store


def test_a_network_whose_zeros_fit_no_memory() -> None:
    """2^20 neurons that see each other: 2^40 pairs, three synapses each, some of them double."""
    count, steps = 1 << 20, 6
    rng = np.random.default_rng(0)
    weight = scipy.sparse.csr_array(
        (
            rng.integers(-50, 128, 3 * count, dtype=np.int8),
            np.sort(rng.integers(0, count, (count, 3), dtype=np.int32), axis=1).reshape(-1),
            np.arange(0, 3 * count + 1, 3),
        ),
        shape=(count, count),
    )
    trains, currents = f"!spike.train<?x?x{count}>", f"tensor<?x?x{count}xf32>"
    module = parse_module(f"""
func.func @forward(%x: {currents}) -> {trains} {{
  %y = spike.recurrent %x : ({currents}) -> {trains} {{
  ^bb0(%a: {currents}, %f: {trains}):
    %w = tensor.parameter "w" : tensor<{count}x{count}xi8>
    %c = tensor.constant dense<0.015625> : tensor<f32>
    %j = spike.linear %f, %w scale(%c : tensor<f32>)
        : {trains}, tensor<{count}x{count}xi8> -> {currents}
    %k = tensor.add %a, %j : ({currents}, {currents}) -> {currents}
    %s = spike.integrate_fire %k : ({currents}) -> {trains}
    spike.yield %s : {trains}
  }}
  func.return %y : {trains}
}}""")
    attach_weights(module, {"w": weight})
    x = (rng.random((steps, 1, count)) < 0.1).astype(np.float32)
    exact = weight.astype(np.float64).T / 64
    v, fired = np.zeros(count), np.zeros(count, bool)
    wanted = np.zeros((steps, 1, count), bool)
    for t in range(steps):
        v += x[t, 0] + exact @ fired
        fired = wanted[t, 0] = v >= 1
        v -= fired
    np.testing.assert_array_equal(simulator(module).run([x], slice_steps=2)[0], wanted)
    assert 0.05 < wanted.mean() < 0.5
    with pytest.raises(ParameterError, match="too many zeros to write them out"):
        run_module(module, [x])


def test_files_hold_the_parts(tmp_path: Path) -> None:
    weight, x = matrix("f32"), spikes(4, 2)
    module = layer("f32", weight)
    with ModuleFile(tmp_path / "m.mlir") as file:
        file.add(module)
    again = import_mlir(tmp_path / "m.mlir")
    assert "w" not in store_of(again)
    np.testing.assert_array_equal(simulator(again)(x), simulator(module)(x))


def test_one_matrix_of_two_synapses_in_any_order_of_columns() -> None:
    trains, currents = f"!spike.train<?x?x{OUTS}>", f"tensor<?x?x{OUTS}xf32>"
    given_trains = f"!spike.train<?x?x{INS}>"
    module = parse_module(f"""
func.func @forward(%s: {given_trains}) -> ({trains}, {trains}) {{
  %w = tensor.parameter "w" : tensor<{INS}x{OUTS}xf32>
  %i = spike.linear %s, %w : {given_trains}, tensor<{INS}x{OUTS}xf32> -> {currents}
  %o = spike.integrate_fire %i : ({currents}) -> {trains}
  %d = spike.delay %s {{steps = 2 : i64}} : ({given_trains}) -> {given_trains}
  %j = spike.linear %d, %w : {given_trains}, tensor<{INS}x{OUTS}xf32> -> {currents}
  %p = spike.integrate_fire %j : ({currents}) -> {trains}
  func.return %o, %p : {trains}, {trains}
}}""")
    weight = matrix("f32")
    turned = weight.copy()
    for first, end in pairwise(turned.indptr):
        turned.indices[first:end] = turned.indices[first:end][::-1].copy()
        turned.data[first:end] = turned.data[first:end][::-1].copy()
    turned.has_sorted_indices = False
    attach_weights(module, {"w": turned})
    x = spikes(12, 3)
    first, late = simulator(module, threads=2).run([x], slice_steps=5)
    np.testing.assert_array_equal(first[:-2], late[2:])
    with pytest.raises(ParameterError, match=r"extra 'w\.indptr'"):
        attach_weights(module, {"w": weight})
    v, wanted, dense = np.zeros((3, OUTS), "f4"), np.zeros((12, 3, OUTS), bool), weight.toarray()
    for t in range(12):
        total = np.zeros_like(v)
        for i in range(INS):  # floats add up in the order of the inputs
            total += dense[i] * x[t, :, i, None]
        v = v + total
        wanted[t] = v >= 1
        v = v - wanted[t]
    np.testing.assert_array_equal(first, wanted)


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(ParameterError, match="'w': expected numbers of float32, got float64"):
        layer("f32", matrix("f64"))
    with pytest.raises(ParameterError, match=r"'w': expected trits in \{-1, 0, 1\}"):
        layer("trit", matrix("i8"))
    with pytest.raises(ParameterError, match="'w': expected compressed rows of a matrix"):
        layer("i8", matrix("i8", ins=INS + 1))
    with pytest.raises(ParameterError, match="'w': expected columns from 0 to 69, got some"):
        layer("i8", matrix("i8", outs=OUTS + 50))
    broken = matrix("f32")
    broken.data[3] = np.inf
    with pytest.raises(ParameterError, match="'w': expected finite numbers"):
        layer("f32", broken)
    for target in ("native", "pytorch", "onnx"):
        with pytest.raises(ParameterError, match=rf"'{target}' takes no sparse weights \(w\)"):
            compile_model(layer("i8", matrix("i8")), target)
    with pytest.raises(BackendError, match="holds no sparse weights"):
        run_target(layer("i8", matrix("i8")), "native", [spikes(4, 2)])


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 8),
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(-100, 100))),
)
def test_numbers_of_the_same_place_are_added(
    rows: int, columns: int, entries: list[tuple[int, int, int]]
) -> None:
    inside = [(i % rows, j % columns, v) for i, j, v in entries]
    i, j, v = (np.array([e[n] for e in inside], np.int64) for n in range(3))
    given_matrix = scipy.sparse.coo_array((v, (i, j)), shape=(rows, columns))
    parts = sparse_parts(given_matrix)
    assert parts is not None
    expected = np.zeros((rows, columns), np.int64)
    for row, column, value in inside:
        expected[row, column] += value
    np.testing.assert_array_equal(SparseMatrix((rows, columns), *parts).dense(), expected)
