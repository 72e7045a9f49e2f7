"""The tests that come with the standard, and the table of what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from triton_dsl.lowering.from_onnx.backend import reference_backend
from triton_dsl.lowering.from_onnx.coverage import (
    BEGIN,
    END,
    GROUPS,
    core_tests,
    measure,
    table,
    written,
)
from triton_dsl.lowering.from_onnx.rules import REFUSED, RULES

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "onnx_import.md"

LEFT_OF_THE_CORE = {
    "test_attention_4d_causal_fp16": "f16 sums rounded at each step, by NumPy, within 1e-3",
    "test_attention_4d_causal_fp16_expanded": "the same",
    "test_training_dropout": "draws random numbers",
    "test_training_dropout_default": "draws random numbers",
    "test_training_dropout_default_mask": "draws random numbers",
    "test_training_dropout_mask": "draws random numbers",
}
"""Tests of the core that do not pass, and why."""

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


def test_no_operator_has_a_rule_and_is_refused() -> None:
    assert not set(RULES) & set(REFUSED)


def test_the_document_has_a_table_between_its_marks() -> None:
    text = DOCUMENT.read_text("utf-8")
    inner = text.partition(BEGIN)[2].partition(END)[0]
    assert all(f"| {group} |" in inner for group in GROUPS.values())
    assert written(text, inner.strip()) == text


@pytest.mark.slow
def test_the_whole_suite_gives_the_table_of_the_document() -> None:
    coverage = measure()
    passed = {group: len(names) for group, names in coverage.passed.items()}
    assert passed["models converted from PyTorch"] == 82
    assert passed["operators of PyTorch"] == 35
    assert passed["one node"] > 1345  # what ONNX Runtime passes
    core = core_tests()
    assert len(core) >= 1172 and len(frozenset[str]().union(*core.values())) >= 113
    left = sorted(set(core) - set(coverage.passed["one node"]))
    assert [name for name in left if name not in LEFT_OF_THE_CORE] == []
    text = DOCUMENT.read_text("utf-8")
    if f"`onnx` {onnx.__version__}," in text:
        assert written(text, table(coverage)) == text
