"""Ops are built of their fields, by position or by name, and say which they lack."""

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import IntegerAttr, TensorType, f32, i64
from xdsl.ir import SSAValue

from triton_dsl.dialects import spike, tensor
from triton_dsl.dialects.inference import InferredOp


def value(*shape: int) -> SSAValue:
    return test.TestOp(result_types=[TensorType(f32, shape)]).results[0]


def test_by_position_and_by_name() -> None:
    x, scale = value(4, 8), value(8)
    one = tensor.LayerNormOp(x, scale, None, 0.5)
    other = tensor.LayerNormOp(epsilon=0.5, scale=scale, input=x)
    assert one.properties == other.properties and one.operands == other.operands
    assert one.bias is None and other.bias is None


def test_an_optional_operand_is_passed_over_by_a_property() -> None:
    delay = spike.DelayOp(value(4, 8), 2)
    assert delay.delays is None and delay.initial is None
    assert delay.steps == IntegerAttr(2, i64)


def test_properties_of_a_base_class_come_first() -> None:
    op = tensor.ReduceVarianceOp(value(4, 8), [1], True, 1)
    assert op.axes.get_values() == (1,) and op.keepdims.value.data
    assert op.correction.value.data == 1.0


def test_what_is_left_out_has_its_default_and_attributes_stay() -> None:
    x = value(4, 8)
    assert tensor.LeakyReluOp(x).alpha.value.data == 0.01
    assert tensor.LeakyReluOp(x, None).alpha.value.data == 0.01
    axis = IntegerAttr(0, i64)
    assert tensor.SoftmaxOp(x, axis).axis is axis


def test_results_on_request() -> None:
    x = value(4, 8)
    assert len(spike.DelayOp(x, 2).results) == 1
    assert len(spike.DelayOp(x, 2, final=True).results) == 2
    assert len(spike.LifOp(x, 0.5, final=True).final) == 1


@pytest.mark.parametrize(
    ("kind", "count", "named", "message"),
    [
        (tensor.AddOp, 1, {}, "tensor.add takes lhs, rhs, got no rhs"),
        (tensor.AddOp, 3, {}, "tensor.add takes lhs, rhs, got 3 by position"),
        (tensor.CompareOp, 2, {}, "takes lhs, rhs, predicate, got no predicate"),
        (tensor.GeluOp, 1, {"slope": 1.0}, "takes operand, approximate, got slope"),
        (tensor.ReluOp, 1, {"operand": None}, "takes operand, got 1 by position"),
    ],
)
def test_what_is_missing(
    kind: type[InferredOp], count: int, named: dict[str, object], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        kind(*[value(4)] * count, **named)
