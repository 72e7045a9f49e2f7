"""A few cases of each kind, and that a planted fault is found and made small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.interpret import RULES
from triton_dsl.dialects.tensor import MaximumOp, SubOp
from triton_dsl.passes.fuse_linear import FuseLinearPass

from . import driver
from .cases import INTERPRETER, Check, check

SEEDS = {
    "tri": range(12),
    "ir": range(8),
    "onnx": range(8),
    "torch": range(4),
    "circuits": range(1),
}


@pytest.mark.parametrize("kind", driver.kinds())
def test_cases_agree_with_their_oracle(kind: str) -> None:
    make = driver.generator(kind)
    compared = 0
    for seed in SEEDS[kind]:
        outcome = check(make(seed))
        assert outcome.finding is None, f"seed {seed}: {outcome.finding}"
        compared += sum(outcome.ran.values())
    assert compared


@pytest.mark.parametrize("kind", driver.kinds())
def test_a_case_is_a_function_of_its_seed(kind: str) -> None:
    make = driver.generator(kind)
    for seed in (3, 4):
        one, other = make(seed), make(seed)
        assert one.checks == other.checks
        assert one.building() == other.building()
        for a, b in zip(one.inputs(), other.inputs(), strict=True):
            np.testing.assert_array_equal(a, b)


def swapped(op: Any, x: Any, y: Any) -> Any:
    return y - x


def smaller(op: Any, x: Any, y: Any) -> Any:
    return np.minimum(x, y)


def test_a_fault_of_the_interpreter_is_found_and_reduced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(RULES, SubOp, swapped)
    monkeypatch.setitem(RULES, MaximumOp, smaller)
    path = found_and_reduced("tri", Check("", INTERPRETER), tmp_path)
    monkeypatch.undo()
    namespace: dict[str, Any] = {}
    exec(compile(path.read_text("utf-8"), path.name, "exec"), namespace)
    (test,) = (value for name, value in namespace.items() if name.startswith("test_"))
    test()  # without the fault, the test that was written passes
    monkeypatch.setitem(RULES, SubOp, swapped)
    monkeypatch.setitem(RULES, MaximumOp, smaller)
    with pytest.raises(AssertionError):
        test()


def found_and_reduced(kind: str, checked: Check, folder: Path) -> Path:
    """The test that is written for the first case that fails; it has at most three operations."""
    make = driver.generator(kind)
    for seed in range(200):
        case = make(seed).only(checked)
        outcome = check(case)
        if outcome.finding is not None:
            small, finding = driver.reduced(case, outcome.finding)
            assert small.size() <= 3, small.building()
            return driver.write_failure(folder, small, finding)
    pytest.fail("the fault was not found")


def test_a_fault_of_a_pass_is_found_and_reduced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from triton_dsl.dialects.tensor import AddOp
    from triton_dsl.passes.fuse_linear import FuseLinearPass

    original = FuseLinearPass.apply

    def wrong(self: FuseLinearPass, ctx: Any, op: Any) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, AddOp):
                inner.result.replace_all_uses_with(inner.lhs)
        original(self, ctx, op)

    monkeypatch.setattr(FuseLinearPass, "apply", wrong)
    found_and_reduced("tri", Check("canonicalize,fuse-linear,cse", INTERPRETER), tmp_path)
