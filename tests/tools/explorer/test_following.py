"""Ops are followed through rewrites: by being the same, by what replaced them, by their users."""

from xdsl.context import Context

from triton_dsl.dialects import tensor
from triton_dsl.dialects.registry import parse_module
from triton_dsl.passes.analysis.replacement import insert_before, replace
from triton_dsl.passes.fuse_linear import FuseLinearPass
from triton_dsl.tools.explorer.following import (
    Objects,
    origins,
    replacements,
    values_followed,
)

PROGRAM = """
func.func @forward(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  %w = tensor.parameter "w" : tensor<4x3xf32>
  %b = tensor.parameter "b" : tensor<3xf32>
  %y = tensor.matmul %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    loc("a"("m.py":1:1))
  %z = tensor.add %y, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    loc("b"("m.py":2:1))
  %r = tensor.relu %z : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("c"("m.py":3:1))
  func.return %r : tensor<2x3xf32>
}
"""


def names(objects: Objects, numbers: list[int]) -> list[str]:
    return [objects.ops[number].name for number in numbers]


def test_a_fused_op_comes_from_all_that_it_does() -> None:
    module = parse_module(PROGRAM)
    before = Objects(module)
    with replacements() as noted:
        FuseLinearPass().apply(Context(), module)
    after = Objects(module)
    found = origins(before, after, noted)
    comes = {op.name: names(before, found[n]) for n, op in enumerate(after.ops)}
    assert comes["tensor.linear"] == ["tensor.matmul", "tensor.add"]
    assert comes["tensor.relu"] == ["tensor.relu"]
    assert comes["func.return"] == ["func.return"]
    sums = before.value_number[before.ops[4].results[0]]
    (linear,) = [op for op in after.ops if op.name == "tensor.linear"]
    assert values_followed(before, after, noted)[after.value_number[linear.results[0]]] == sums


def test_an_op_that_falls_apart_and_one_that_goes() -> None:
    module = parse_module(PROGRAM)
    before = Objects(module)
    relu = before.ops[5]
    with replacements() as noted:
        negated = tensor.NegOp(relu.operands[0])
        insert_before(relu, negated)
        replace(relu, tensor.MaximumOp(negated.results[0], relu.operands[0]))
    after = Objects(module)
    found = origins(before, after, noted)
    comes = {op.name: names(before, found[n]) for n, op in enumerate(after.ops)}
    # The maximum took the place of the relu; the other has its place in the source.
    assert comes["tensor.maximum"] == ["tensor.relu"]
    assert comes["tensor.neg"] == ["tensor.relu"]


def test_a_copy_is_followed_by_its_place() -> None:
    module = parse_module(PROGRAM)
    copy = module.clone()
    found = origins(Objects(module), Objects(copy), {})
    assert found[3:6] == [[3], [4], [5]]


def test_listening_ends() -> None:
    module = parse_module(PROGRAM)
    value = Objects(module).ops[5].results[0]
    with replacements() as noted:
        pass
    value.replace_all_uses_with(value)
    relu = Objects(module).ops[5]
    replace(relu, tensor.AbsOp(relu.operands[0]))
    assert noted == {}
