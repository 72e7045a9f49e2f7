"""A few cases of each kind, and that a planted fault is found and made small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.interpret import RULES
from triton_dsl.dialects.tensor import AddOp, MaximumOp, SubOp, Tensor
from triton_dsl.dialects.ternary import Ternary
from triton_dsl.passes.fuse_linear import FuseLinearPass

from . import driver, meaning, module_rules
from .cases import INTERPRETER, Check, check

SEEDS = {
    "tri": range(6),
    "networks": range(2),
    "spiking": range(3),
    "ir": range(5),
    "onnx": range(5),
    "torch": range(2),
    "circuits": range(1),
    "integers": range(2),
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


NOT_MADE = {"tensor.constant", "tensor.parameter", "ternary.constant", "ternary.parameter"}
"""What comes with the operands of others."""


def test_every_op_is_made_and_has_a_meaning() -> None:
    ops = {op for dialect in (Tensor, Ternary) for op in dialect.operations}
    # The dialect `tensor` also lists the ops that xDSL has of that name.
    ours = {op for op in ops if op.__module__.startswith("triton_dsl")}
    ops = {op for op in ours if op.name not in NOT_MADE}
    assert ops == set(module_rules.MADE) == set(meaning.MEANING)


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


@pytest.mark.parametrize("kind", ["tri", "ir"])
def test_a_fault_of_the_interpreter_is_found_and_reduced(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as faulty:
        faulty.setitem(RULES, SubOp, swapped)
        faulty.setitem(RULES, MaximumOp, smaller)
        path = found_and_reduced(kind, Check("", INTERPRETER), tmp_path)
        test = written_test(path)
        with pytest.raises(AssertionError):
            test()
    test()  # without the fault, the test that was written passes


def written_test(path: Path) -> Any:
    """The test function of a file that the driver wrote."""
    namespace: dict[str, Any] = {}
    exec(compile(path.read_text("utf-8"), path.name, "exec"), namespace)
    (test,) = (value for name, value in namespace.items() if name.startswith("test_"))
    return test


@pytest.mark.parametrize("kind", ["tri", "ir"])
def test_a_fault_of_a_pass_is_found_and_reduced(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    original = FuseLinearPass.apply

    def wrong(self: FuseLinearPass, ctx: Any, op: Any) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, AddOp) and inner.lhs.type == inner.result.type:
                inner.result.replace_all_uses_with(inner.lhs)
        original(self, ctx, op)

    with monkeypatch.context() as faulty:
        faulty.setattr(FuseLinearPass, "apply", wrong)
        checked = Check("canonicalize,fuse-linear,cse", INTERPRETER)
        test = written_test(found_and_reduced(kind, checked, tmp_path))
        with pytest.raises(AssertionError):
            test()
    test()


@pytest.mark.slow
def test_counts_add_up_and_a_single_seed_moves_nothing(tmp_path: Path) -> None:
    def run(seed: int | None) -> driver.Tally:
        found = driver.fuzz(["ir"], seconds=None, count=2, seed=seed, jobs=1, folder=tmp_path)
        assert found == 0
        return driver.read_state(tmp_path / "state.json")["ir"]

    assert (run(None).cases, run(None).next) == (2, 4)
    again = run(1)
    assert (again.cases, again.next) == (6, 4)
    assert again.ran["interpreter"] == 6
