"""Whether a pass keeps what a module computes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from triton_dsl.dialects import tensor
from triton_dsl.dialects.parameters import attach_store, store_of
from triton_dsl.dialects.registry import parse_module, triton_context
from triton_dsl.ir.errors import PassError
from triton_dsl.ir.instrument import run_passes
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.to_native.linalg import ConvertTensorToLinalgPass
from triton_dsl.passes.infer_shapes import InferShapesPass
from triton_dsl.runtime.equivalence import SemanticsCheck, Tolerance, difference

LINEAR = """
func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x3xf32> {
  %w = tensor.parameter "w" : tensor<4x3xf32>
  %y = tensor.matmul %x, %w : (tensor<?x4xf32>, tensor<4x3xf32>) -> tensor<?x3xf32>
  %z = tensor.add %y, %y : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  func.return %z : tensor<?x3xf32>
}
"""

INTEGER = """
func.func @forward(%x: tensor<?xi64>) -> tensor<?xi64> {
  %y = tensor.add %x, %x : (tensor<?xi64>, tensor<?xi64>) -> tensor<?xi64>
  func.return %y : tensor<?xi64>
}
"""

ARITH = """
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = arith.addf %x, %x : tensor<2xf32>
  func.return %y : tensor<2xf32>
}
"""


@dataclass(frozen=True)
class Replace(ModulePass):
    """Replaces each `tensor.add` by what `made` gives for it."""

    made: Callable[[tensor.AddOp], list[Operation]]
    name: ClassVar[str] = "replace"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for add in [o for o in op.walk() if isinstance(o, tensor.AddOp)]:
            new = self.made(add)
            assert add.parent is not None
            add.parent.insert_ops_before(new, add)
            add.result.replace_all_uses_with(new[-1].results[0])
            add.detach()
            add.erase()


@dataclass(frozen=True)
class Approximate(Replace):
    name: ClassVar[str] = "approximate"
    approximate: ClassVar[bool] = True


def as_add(op: tensor.AddOp) -> list[Operation]:
    return [tensor.AddOp(op.rhs, op.lhs)]


def as_sub(op: tensor.AddOp) -> list[Operation]:
    return [tensor.SubOp(op.lhs, op.rhs)]


def as_relu(op: tensor.AddOp) -> list[Operation]:
    return [add := tensor.AddOp(op.lhs, op.rhs), tensor.ReluOp(add)]


def as_nan(op: tensor.AddOp) -> list[Operation]:
    return [zero := tensor.SubOp(op.lhs, op.lhs), tensor.DivOp(zero, zero)]


def check(text: str, current: ModulePass, module: ModuleOp | None = None) -> SemanticsCheck:
    semantics = SemanticsCheck(seed=5)
    run_passes(triton_context(), module or parse_module(text), [current], [semantics])
    return semantics


@pytest.mark.parametrize("text", [LINEAR, INTEGER])
def test_a_right_pass_goes_through(text: str) -> None:
    semantics = check(text, Replace(as_add))
    assert semantics.checked == ["replace"]
    assert semantics.skipped == {}


@pytest.mark.parametrize("text", [LINEAR, INTEGER])
def test_a_wrong_pass_is_named(text: str) -> None:
    with pytest.raises(PassError) as caught:
        check(text, Replace(as_sub))
    message = str(caught.value)
    assert message.startswith("pass 'replace' changes the result: result 0 at [")
    assert "a difference of" in message
    assert message.endswith("(function 'forward', input 1 of 3, seed 5)")


@dataclass(frozen=True)
class FixBatchAnd(ModulePass):
    """Fixes the batch size, as `infer-shapes` does, and replaces each `tensor.add`."""

    made: Callable[[tensor.AddOp], list[Operation]]
    name: ClassVar[str] = "fix-batch"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        InferShapesPass(batch=2).apply(ctx, op)
        Replace(self.made).apply(ctx, op)


def test_a_pass_may_change_the_types_of_inputs() -> None:
    assert "tensor<?x" in LINEAR
    semantics = check(LINEAR, FixBatchAnd(as_add))
    assert semantics.checked == ["fix-batch"]
    assert semantics.skipped == {}
    with pytest.raises(PassError, match="pass 'fix-batch' changes the result: result 0"):
        check(LINEAR, FixBatchAnd(as_sub))


def test_a_function_that_takes_more_inputs_is_left_out() -> None:
    module = parse_module(LINEAR)
    semantics = check(LINEAR, ConvertTensorToLinalgPass(), module)
    assert semantics.skipped == {"forward": "pass 'convert-tensor-to-linalg' changed what it takes"}


def test_a_pass_may_make_no_nan() -> None:
    with pytest.raises(PassError, match=r"result 0 is NaN at \[0, 0\] instead of"):
        check(LINEAR, Replace(as_nan))
    with pytest.raises(PassError, match="NaN"):
        check(LINEAR, Approximate(as_nan))


def test_an_approximate_pass_is_reported() -> None:
    semantics = check(LINEAR, Approximate(as_relu))
    (note,) = semantics.notes
    assert note.startswith("pass 'approximate' is approximate: function 'forward' changes by ")


def test_an_approximate_pass_keeps_its_own_tolerance() -> None:
    semantics = SemanticsCheck(approximate_within=Tolerance(relative=1e-3))
    with pytest.raises(PassError, match="pass 'approximate' changes the result"):
        run_passes(triton_context(), parse_module(LINEAR), [Approximate(as_relu)], [semantics])


def test_what_an_approximate_pass_gives_is_the_next_reference() -> None:
    semantics = SemanticsCheck()
    module = parse_module(LINEAR.replace("func.return %z", TWICE + "func.return %z2"))
    passes = [Approximate(as_relu), Replace(as_add)]
    run_passes(triton_context(), module, passes, [semantics])
    assert semantics.checked == ["approximate", "replace"]


TWICE = "%z2 = tensor.relu %z : (tensor<?x3xf32>) -> tensor<?x3xf32>\n  "


def test_parameters_come_from_the_store() -> None:
    @dataclass(frozen=True)
    class Negate(ModulePass):
        name = "negate"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            values = store_of(op).read("w")
            attach_store(op, ParameterStore.of({"w": -values}))

    module = parse_module(LINEAR)
    attach_store(module, ParameterStore.of({"w": np.ones((4, 3), np.float32)}))
    with pytest.raises(PassError, match="pass 'negate' changes the result"):
        check("", Negate(), module)


def test_the_module_is_left_alone() -> None:
    module = parse_module(LINEAR)
    before = str(module)
    SemanticsCheck().start(module)
    assert str(module) == before


def test_what_the_interpreter_lacks_is_left_out_and_named() -> None:
    semantics = check(ARITH, Replace(as_add))
    assert semantics.checked == []
    assert "arith.addf" in semantics.skipped["forward"]


def test_a_removed_function_is_named() -> None:
    @dataclass(frozen=True)
    class Remove(ModulePass):
        name = "remove"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            for function in [o for o in op.ops if isinstance(o, FuncOp)]:
                function.detach()
                function.erase()

    assert check(LINEAR, Remove()).skipped == {"forward": "pass 'remove' removed it"}


def test_a_function_that_no_longer_runs_is_an_error() -> None:
    def other_shape(op: tensor.AddOp) -> list[Operation]:
        return [tensor.ReshapeToOp(op.lhs, [7, 3])]

    with pytest.raises(PassError, match="changed function 'forward': it no longer runs"):
        check(LINEAR, Replace(other_shape))


ONE = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (ONE, ONE, None),
        (ONE, ONE + 5e-5, None),
        (ONE, ONE + 1e-3, "a difference of 0.001"),
        (ONE * 1e6, ONE * 1e6 + 50, None),
        (ONE, ONE[0], "has shape [2] instead of [2, 2]"),
        (ONE, ONE.astype(np.float64), "has type float64 instead of float32"),
        (ONE * np.nan, ONE * np.nan, None),
        (ONE * np.inf, ONE * np.inf, None),
        (ONE * np.inf, -ONE * np.inf, "a difference of inf"),
        (ONE, ONE * np.inf, "a difference of inf"),
        (ONE * np.nan, ONE, "a difference of inf"),
        (ONE.astype(np.float16), (ONE + 0.004).astype(np.float16), None),
        (np.array([2**60]), np.array([2**60 + 1]), "a difference of 1 (allowed: 0)"),
        (np.array([True]), np.array([False]), "is False instead of True"),
        (ONE[:0], ONE[:0], None),
    ],
)
def test_differences(before: np.ndarray, after: np.ndarray, expected: str | None) -> None:
    found = difference((before,), (after,), Tolerance())
    if expected is None:
        assert found is None
    else:
        assert found is not None and expected in found


def test_another_number_of_results() -> None:
    assert difference((ONE,), (), Tolerance()) == "1 results became 0"
