"""Networks that were not read from NIR: what they become, and what NIR cannot hold."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import LoweringError, UnsupportedError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.from_nir import NirWarning, import_nir
from triton_dsl.lowering.targets import compile_to_target


def network(lines: list[str], size: int = 3, store: dict[str, Any] | None = None) -> ModuleOp:
    body = "\n".join(lines)
    module = parse_module(f"""
spike.network @net dt = 1.0e-3 {{
  spike.input @in {{shape = array<i64: {size}>, signal = "current"}}
  {body}
}}
func.func @forward(%x: tensor<?x?x{size}xf32>) -> tensor<?x?x{size}xf32> {{
  %o = spike.simulate @net(%x) : (tensor<?x?x{size}xf32>) -> tensor<?x?x{size}xf32>
  func.return %o : tensor<?x?x{size}xf32>
}}""")
    attach_store(module, ParameterStore.of(store or {}))
    return module


def graph_of(module: ModuleOp) -> tuple[Any, ModuleOp]:
    (data,) = compile_to_target(module, "nir").files.values()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.nir"
        path.write_bytes(data)
        return nir.read(path, type_check=False), import_nir(path)


def test_trits_become_numbers_with_their_scale() -> None:
    trits = np.array([[1, 0, -1], [0, 1, 1], [-1, -1, 0]], np.int8)
    scale = np.array([0.5, 2, 4], np.float32)
    module = network(
        [
            '%w = ternary.parameter "w" : tensor<3x3x!ternary.trit>',
            '%s = tensor.parameter "s" : tensor<3xf32>',
            'spike.population @n {model = "integrator", shape = array<i64: 3>}',
            "spike.projection @p @in -> @n weights(%w : tensor<3x3x!ternary.trit>)",
            "  scale(%s : tensor<3xf32>)",
            "spike.probe @o @n",
        ],
        store={"w": pack_trits(trits), "s": scale},
    )
    found, again = graph_of(module)
    np.testing.assert_array_equal(found.nodes["p"].weight, trits.T * scale[:, None])
    assert found.nodes["p"].weight.dtype == np.float32
    x = np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32)
    wanted = run_module(module, [x])[0]
    np.testing.assert_allclose(run_module(again, [x])[0], wanted, rtol=1e-5, atol=1e-6)


def test_delays_become_nodes() -> None:
    module = network([
        'spike.population @n {model = "integrator", shape = array<i64: 3>}',
        'spike.projection @p @in -> @n {connection = "one_to_one", delay = 3 : i64}',
        "spike.probe @o @n",
    ])  # fmt: skip
    found, _ = graph_of(module)
    assert sorted(found.edges) == [("in", "p"), ("n", "o"), ("p", "n")]
    np.testing.assert_array_equal(found.nodes["p"].delay, [0.003] * 3)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_networks_compute_the_same_after_nir(data: st.DataObject) -> None:
    """Sums, relays, delays and feedback of networks that NIR did not make."""
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    names = data.draw(st.permutations(["a", "b", "c", "d"]))
    lines: list[str] = []
    for name in names:
        model = data.draw(st.sampled_from(("relay", "leaky_integrator", "integrator")))
        tau = "tau = 2.0e-2 : f64" if model == "leaky_integrator" else ""
        lines.append(
            f'spike.population @{name} {{model = "{model}", shape = array<i64: 3>, '
            f"parameters = {{{tau}}}}}"
        )
    pairs = [("in", names[0])]
    for index, target in enumerate(names):
        sources = data.draw(st.lists(st.sampled_from(["in", *names]), unique=True, max_size=2))
        pairs += [(s, target) for s in sources if (s, target) not in pairs]
        if index and not sources:
            pairs.append((names[index - 1], target))
    store: dict[str, Any] = {}
    for index, (source, target) in enumerate(pairs):
        forward = source == "in" or names.index(source) < names.index(target)
        delay = data.draw(st.integers(0 if forward else 1, 2))
        weighted = data.draw(st.booleans())
        weights = ""
        if weighted:
            store[f"w{index}"] = random.uniform(-0.5, 0.5, (3, 3)).astype(np.float32)
            lines.append(f'%w{index} = tensor.parameter "w{index}" : tensor<3x3xf32>')
            weights = f"weights(%w{index} : tensor<3x3xf32>)"
        kind = "linear" if weighted else "one_to_one"
        lines.append(
            f"spike.projection @p{index} @{source} -> @{target} {weights} "
            f'{{connection = "{kind}", delay = {delay} : i64}}'
        )
    lines.append(f"spike.probe @o @{names[-1]}")
    module = network(lines, store=store)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NirWarning)
            _, again = graph_of(module)
    except UnsupportedError as error:
        assert "twice" in str(error) or "receives nothing" in str(error)
        return
    x = random.standard_normal((6, 2, 3)).astype(np.float32)
    inputs = [op for op in again.walk() if op.name == "spike.input"]
    if len(inputs) > 1:
        return  # what received nothing got an Input
    outputs = [op for op in again.walk() if op.name == "spike.probe"]
    index = next(i for i, op in enumerate(outputs) if op.properties["sym_name"].data == "o")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    found = run_module(again, [x])[index]
    np.testing.assert_allclose(found, run_module(module, [x])[0], rtol=1e-4, atol=1e-5)


def test_everything_that_nir_cannot_hold_is_listed() -> None:
    module = network([
        'spike.population @soft {model = "integrate_fire", shape = array<i64: 3>,'
        ' reset = "subtract"}',
        'spike.population @ge {model = "threshold", shape = array<i64: 3>, compare = "ge"}',
        'spike.population @sd {model = "sigma_delta", shape = array<i64: 3>}',
        'spike.projection @p @in -> @soft {connection = "one_to_one"}',
        'spike.projection @q @in -> @ge {connection = "one_to_one"}',
        'spike.projection @r @in -> @sd {connection = "one_to_one"}',
        'spike.population @twice {model = "integrator", shape = array<i64: 3>}',
        'spike.projection @s @in -> @twice {connection = "one_to_one"}',
        'spike.projection @t @in -> @twice {connection = "one_to_one"}',
        "spike.probe @o @sd",
    ])  # fmt: skip
    with pytest.raises(UnsupportedError) as caught:
        compile_to_target(module, "nir")
    text = str(caught.value)
    for part in ("@soft", '"to_value"', "@ge", 'compare "gt"', "no 'sigma_delta'", "'in' twice"):
        assert part in text
    assert len(caught.value.problems) == 4


def test_what_stands_beside_a_network_is_refused() -> None:
    module = parse_module("""
func.func @forward(%x: tensor<4x2x3xf32>) -> !spike.train<4x2x3> {
  %s = spike.lif %x {beta = 0.9 : f64} : (tensor<4x2x3xf32>) -> !spike.train<4x2x3>
  func.return %s : !spike.train<4x2x3>
}""")
    with pytest.raises(UnsupportedError, match=r"spike\.lif at .*nothing beside it"):
        compile_to_target(module, "nir")
    with pytest.raises(LoweringError, match=r"needs a module with one spike\.network, got 0"):
        compile_to_target(ModuleOp([]), "nir")


def test_missing_weights_are_named() -> None:
    module = network([
        '%w = tensor.parameter "fc.weight" : tensor<3x3xf32>',
        'spike.population @n {model = "integrator", shape = array<i64: 3>}',
        "spike.projection @p @in -> @n weights(%w : tensor<3x3xf32>)",
        "spike.probe @o @n",
    ])  # fmt: skip
    with pytest.raises(LoweringError, match=r"'fc\.weight' have no values; give --weights"):
        compile_to_target(module, "nir")


def test_names_that_hdf5_cannot_have() -> None:
    module = network([
        'spike.population @"a/b" {model = "integrator", shape = array<i64: 3>}',
        'spike.projection @p @in -> @"a/b" {connection = "one_to_one"}',
        'spike.probe @o @"a/b"',
    ])  # fmt: skip
    with pytest.raises(UnsupportedError, match="rename it without '/'"):
        compile_to_target(module, "nir")
