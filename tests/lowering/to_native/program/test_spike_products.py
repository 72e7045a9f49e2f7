"""Synapses that multiply by all inputs, in machine code beside NumPy, and which have tables."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.stages import run_stages
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.lowering.to_native.target import native_stages

pytest.importorskip("llvmlite")

Array = NDArray[Any]
INS, OUTS = 37, 70


def synapse(lead: str, weight: str, sums: str, weights: Array, body: str = "") -> ModuleOp:
    """A product of a train [lead, ins]; `body` may use %s and %i and gives a second result %r."""
    train, dense = f"!spike.train<{lead}x{INS}>", f"tensor<{lead}x{OUTS}x{sums}>"
    dialect, element = ("ternary", "!ternary.trit") if weight == "trit" else ("tensor", weight)
    matrix, numbers = f"tensor<{INS}x{OUTS}x{element}>", f"tensor<{lead}x{INS}x{sums}>"
    product = f"%i = spike.linear %s, %w : {train}, {matrix} -> {dense}"
    if weight == "i32":
        product = f"""%n = spike.to_tensor %s : ({train}) -> {numbers}
  %i = tensor.matmul %n, %w : ({numbers}, {matrix}) -> {dense}"""
    results = f"{dense}, {numbers}" if body else dense
    module = parse_module(f"""
func.func @forward(%s: {train}) -> ({results}) {{
  %w = {dialect}.parameter "w" : {matrix}
  {product}
  {body}
  func.return %i{", %r" if body else ""} : {results}
}}""")
    attach_store(
        module, ParameterStore.of({"w": pack_trits(weights) if weight == "trit" else weights})
    )
    return module


def has_table(module: ModuleOp) -> bool:
    work = module.clone()
    run_stages(work, native_stages("", "dense"), verify=False)
    return "@spike_product" in str(work)


def weights_of(kind: str) -> Array:
    """Small numbers, so that sums are exact."""
    low, high = (-1, 2) if kind == "trit" else (-128, 128)
    weights = np.random.default_rng(0).integers(low, high, (INS, OUTS))
    return weights.astype({"trit": "i1", "i8": "i1", "i32": "i4", "f32": "f4", "f64": "f8"}[kind])


KINDS = ("trit", "i8", "i32", "f32", "f64")
LEADS = ("16", "20x1", "?x1", "5x?", "4x2x3")
PAIRS = [
    pytest.param(kind, lead, marks=() if kind == "f32" or lead == "5x?" else pytest.mark.slow)
    for kind in KINDS
    for lead in LEADS
]


@pytest.mark.parametrize(("kind", "lead"), PAIRS)
def test_products_of_all_inputs_have_tables(kind: str, lead: str) -> None:
    weights = weights_of(kind)
    module = synapse(lead, kind, "i32" if kind in ("i8", "trit") else kind, weights)
    assert has_table(module)
    run = native_program(module, {"spikes": "dense"})
    for free in (1, 2, 7) if "?" in lead else (1,):
        shape = [int(n) for n in lead.replace("?", str(free)).split("x")]
        x = np.random.default_rng(free).random((*shape, INS)) < 0.4
        np.testing.assert_array_equal(run(x), x.astype("f8") @ weights.astype("f8"))


@pytest.mark.parametrize("case", ["few rows", "wide integers", "infinite"])
def test_others_have_none(case: str) -> None:
    kind = "i32" if case == "wide integers" else "f32"
    weights = weights_of(kind)
    weights[3, 4] = {"few rows": 1, "wide integers": 128, "infinite": np.inf}[case]
    lead = "5x3" if case == "few rows" else "5x?"
    module = synapse(lead, kind, kind, weights)
    assert not has_table(module)
    x = np.random.default_rng(0).random((5, 3, INS)) < 0.4
    with np.errstate(invalid="ignore"):
        expected = x.astype("f8") @ weights.astype("f8")
    run = native_program(module, {"spikes": "dense"})
    np.testing.assert_array_equal(run(x), expected)


def test_spikes_that_others_read_become_numbers_too() -> None:
    body = f"%r = spike.to_tensor %s : (!spike.train<5x?x{INS}>) -> tensor<5x?x{INS}xf32>"
    weights = weights_of("f32")
    module = synapse("5x?", "f32", "f32", weights, body)
    assert has_table(module)
    x = np.random.default_rng(0).random((5, 4, INS)) < 0.4
    sums, numbers = native_program(module, {"spikes": "dense"})(x)
    np.testing.assert_array_equal(sums, x.astype("f8") @ weights.astype("f8"))
    np.testing.assert_array_equal(numbers, x.astype("f4"))


@pytest.mark.parametrize("rows", [0, 1])
def test_a_batch_of_nothing(rows: int) -> None:
    module = synapse("20x?", "f32", "f32", weights_of("f32"))
    x = np.ones((20, rows, INS), bool)
    assert native_program(module, {"spikes": "dense"})(x).shape == (20, rows, OUTS)
