"""The tests that come with the standard, and the table of what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from triton_dsl.lowering.from_onnx.onnx_backend import reference_backend
from triton_dsl.lowering.from_onnx.onnx_operators import REFUSED, RULES

from .onnx_coverage import (
    BEGIN,
    END,
    GROUPS,
    OTHER_VALUES,
    measure,
    node_cases,
    table,
    written,
)

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "onnx_import.md"

KINDS = ("pytorch-converted", "pytorch-operator")
CASES = {case.name: case for kind in KINDS for case in load_model_tests(kind=kind)}


def read(path: Path) -> Any:
    proto = onnx.TensorProto()
    proto.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(proto)


@pytest.mark.parametrize("name", sorted(CASES))
def test_models_of_pytorch(name: str) -> None:
    """All 117 models that came from PyTorch, with the values that PyTorch computed."""
    case = CASES[name]
    assert case.model_dir is not None
    folder = Path(case.model_dir)
    data = folder / "test_data_set_0"
    inputs = [read(data / f"input_{i}.pb") for i in range(len([*data.glob("input_*.pb")]))]
    outputs = reference_backend().run_model(onnx.load(folder / "model.onnx"), inputs)
    assert len(outputs) == len([*data.glob("output_*.pb")])
    for index, got in enumerate(outputs):
        want = read(data / f"output_{index}.pb")
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, 1e-3, 1e-5)


def test_the_backend_runs_on_the_cpu_alone() -> None:
    assert reference_backend().supports_device("CPU")
    assert not reference_backend().supports_device("CUDA")


LEFT_OUT = {"MaxRoiPool", "TfIdfVectorizer"}
"""Operators of the standard that serve no ternary or spiking network."""


def test_every_other_operator_of_the_standard_is_read_or_refused_with_a_reason() -> None:
    assert not set(RULES) & set(REFUSED)
    schemas: list[Any] = [s for s in onnx.defs.get_all_schemas() if s.domain == ""]
    functions = {
        schema.name
        for schema in schemas
        if schema.has_function or schema.has_context_dependent_function
    }
    named = {schema.name for schema in schemas}
    assert len(named) > 190
    assert named - functions - set(RULES) - set(REFUSED) == LEFT_OUT
    random = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
              "RandomUniformLike"}  # fmt: skip
    text = {"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"}
    assert named & set(REFUSED) == {"ImageDecoder", *random, *text}


def test_the_document_has_a_table_between_its_marks() -> None:
    text = DOCUMENT.read_text("utf-8")
    inner = text.partition(BEGIN)[2].partition(END)[0]
    assert all(f"| {group} |" in inner for group in GROUPS.values())
    assert written(text, inner.strip()) == text


def of_one_node(name: str) -> tuple[Any, Any, list[Any]]:
    """A test of one node: what it takes, what it expects, and what the program gives."""
    case = node_cases()[name]
    inputs, expected = case.data_sets[0]
    return inputs, expected, list(reference_backend().run_model(case.model, inputs))


@pytest.mark.slow
def test_attention_in_half_precision_is_closer_than_what_is_expected() -> None:
    """Why `test_attention_4d_causal_fp16` gives other values: against the formula in f64."""
    inputs, (expected,), (got,) = of_one_node("test_attention_4d_causal_fp16")
    q, k, v = (array.astype(np.float64) for array in inputs)
    weights = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    weights = np.where(np.tri(*weights.shape[-2:], dtype=bool), weights, -np.inf)
    weights = np.exp(weights - weights.max(-1, keepdims=True))
    exact = weights / weights.sum(-1, keepdims=True) @ v
    far = np.abs(got - expected) > 1e-7 + 1e-3 * np.abs(expected)
    assert far.sum() == 2
    assert (np.abs(got - exact) < np.abs(expected - exact))[far].all()
    assert np.abs(got - exact).max() < np.abs(expected - exact).max()


@pytest.mark.slow
def test_an_inverse_transform_gives_the_zeros_that_are_exact() -> None:
    """Why `test_dft_inverse` gives other values: against NumPy's transform in f64."""
    inputs, (expected,), (got,) = of_one_node("test_dft_inverse")
    signal = inputs[0].astype(np.float64)
    exact = np.fft.ifft(signal[..., 0] + 1j * signal[..., 1], axis=1)
    exact = np.stack([exact.real, exact.imag], -1)
    far = np.abs(got - expected) > 1e-7 + 1e-3 * np.abs(expected)
    assert far.sum() == 10
    assert np.abs(exact[far]).max() < 1e-14
    assert np.abs(got[far]).max() < 1e-13 < 1e-7 < np.abs(expected[far]).min()


@pytest.mark.slow
def test_a_list_with_a_scalar_has_the_expected_values() -> None:
    """Why `test_loop16_seq_none` fails: its comparison, not its values."""
    _, (expected,), (got,) = of_one_node("test_loop16_seq_none")
    assert len(got) == len(expected) == 6
    for made, wanted in zip(got, expected, strict=True):
        assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(made, wanted)


@pytest.mark.slow
def test_the_whole_suite_gives_the_table_of_the_document() -> None:
    coverage = measure()
    passed = {group: len(names) for group, names in coverage.passed.items()}
    assert passed["models converted from PyTorch"] == 82
    assert passed["operators of PyTorch"] == 35
    assert passed["one node"] >= 1786
    assert set(coverage.failed) == set(OTHER_VALUES)
    text = DOCUMENT.read_text("utf-8")
    if f"`onnx` {onnx.__version__}," in text:
        assert written(text, table(coverage)) == text
