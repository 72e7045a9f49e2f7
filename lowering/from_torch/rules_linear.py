"""Rules of products: linear layers, convolutions, attention, einsum, and our packed products.

Weights that are known become parameters in the form that the op takes, or trits; a product of a
spike train is `spike.linear` on the whole train.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ...ir.printing import value_name
from ...ir.trits import pack_trits, unpack_trits
from .rules_elementwise import Rule
from .rules_shape import cut, pads
from .sizes import ProblemError, Sizes, is_free, static
from .torch_builder import Builder, Call, Known, Weight, array_of, keep


def transposed(values: Any) -> Any:
    """[out, in] as [in, out]."""
    return values.t().contiguous()


def _linear(e: Builder, call: Call) -> SSAValue:
    x, weight = e.value(call["input"]), call["weight"]
    bias = None if call["bias"] is None else e.value(call["bias"])
    if e.known(weight) is None:
        product = e.add(tensor.MatmulOp(x, e.permute(e.value(weight), [1, 0])))
        return product if bias is None else e.add(tensor.AddOp(product, bias))
    return product_with(e, x, e.weight(weight, transposed), bias)


def product_with(e: Builder, x: SSAValue, weight: Weight, bias: SSAValue | None) -> SSAValue:
    """x · W + bias for a weight [in, out]; rows that a reshape made of axes are those again."""
    rows = _rows(e, x)
    if rows is not None:
        source, sizes = rows
        product = product_with(e, source, weight, bias)
        made = (*sizes[:-1], tensor_type(product).get_shape()[-1])
        return e.reshape(product, made, (math.prod(sizes[:-1]), made[-1]))
    train = _train(e, x)
    if train is not None and tensor_type(x).get_num_dims() > 1:
        scale = weight.scale
        if weight.is_trits and scale is None:
            scale = e.number(1.0, tensor_type(x).element_type)
        return e.add(spike.LinearOp(train, weight.value, scale=scale, bias=bias))
    if weight.is_trits:
        return e.add(ternary.LinearOp(x, weight.value, scale=weight.scale, bias=bias))
    return e.add(tensor.LinearOp(x, weight.value, bias))


def _train(e: Builder, x: SSAValue) -> SSAValue | None:
    """The train that `x` is, or that a reshape within each step makes of one."""
    if isinstance(x.owner, spike.ToTensorOp):
        return x.owner.operand
    source, steps = x, tensor_type(x).get_shape()[:1]
    while isinstance(source.owner, tensor.ReshapeToOp):
        source = source.owner.operand
        if tensor_type(source).get_shape()[:1] != steps or steps[0] == DYNAMIC:
            return None
    return e.add(spike.FromTensorOp(x)) if isinstance(source.owner, spike.ToTensorOp) else None


def _rows(e: Builder, x: SSAValue) -> tuple[SSAValue, Sizes] | None:
    """What a matrix x was reshaped from, with its rows as axes again, where that says more.

    It does for spikes, and where several free sizes became one.
    """
    if x not in e.sources or tensor_type(x).get_num_dims() != 2:
        return None
    source, sizes = e.sources[x]
    columns = tensor_type(x).get_shape()[1]
    if not isinstance(source.owner, spike.ToTensorOp) and sum(map(is_free, sizes)) < 2:
        return None
    for cut_at in range(2, len(sizes)):
        inner = sizes[cut_at:]
        if not any(map(is_free, inner)) and math.prod(inner) == columns:
            apart = (*sizes[:cut_at], columns)
            return e.reshape(source, sizes, apart), apart
    return None


def _matmul(e: Builder, call: Call) -> SSAValue:
    lhs, rhs = call["self"], call.get("other", call.get("mat2"))
    x = e.value(lhs)
    if e.known(rhs) is not None and len(e.sizes(rhs)) == 2:
        weight = e.weight(rhs, keep, channel_axis=1)
        return product_with(e, x, weight, None) if weight.is_trits else e.add(
            tensor.MatmulOp(x, weight.value)
        )  # fmt: skip
    return e.add(tensor.MatmulOp(x, e.value(rhs)))


def _addmm(e: Builder, call: Call) -> SSAValue:
    if call["beta"] != 1 or call["alpha"] != 1:
        raise ProblemError("it has factors alpha and beta; multiply before")
    lhs, rhs = ("batch1", "batch2") if "batch1" in call.arguments else ("mat1", "mat2")
    product = _matmul(e, Call(call.node, call.name, {"self": call[lhs], "other": call[rhs]}))
    return e.add(tensor.AddOp(product, e.value(call["self"])))


def _dot(e: Builder, call: Call) -> SSAValue:
    other = call.get("tensor", call.get("vec"))
    return e.add(tensor.MatmulOp(e.value(call["self"]), e.value(other)))


def _einsum(e: Builder, call: Call) -> SSAValue:
    equation = str(call["equation"]).replace(" ", "")
    if "..." in equation:
        raise ProblemError("its equation has an ellipsis; write the axes as letters")
    terms, arrow, output = equation.partition("->")
    if not arrow:
        letters = terms.replace(",", "")
        output = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    found = {letter: chr(ord("a") + i) for i, letter in
             enumerate(dict.fromkeys(c for c in terms + output if c.isalpha()))}  # fmt: skip
    renamed = "".join(found.get(c, c) for c in f"{terms}->{output}")
    return e.add(tensor.EinsumOp([e.value(v) for v in call["tensors"]], renamed))


def _bilinear(e: Builder, call: Call) -> SSAValue:
    inputs = [e.value(call[name]) for name in ("input1", "input2")]
    lead = "abcdefgh"[: call.rank - 1]
    equation = f"{lead}i,oij,{lead}j->{lead}o"
    product = e.add(tensor.EinsumOp([inputs[0], e.value(call["weight"]), inputs[1]], equation))
    return product if call["bias"] is None else e.add(tensor.AddOp(product, e.value(call["bias"])))


def pair(values: Any, rank: int) -> list[int]:
    """A window property as one number an axis."""
    given: list[Any] = [*values] if isinstance(values, Sequence) else [values]
    found = static(given, "window")
    return found * rank if len(found) == 1 else found


def _conv(e: Builder, call: Call) -> SSAValue:
    sizes = e.sizes(call["input"])
    spatial = len(e.sizes(call["weight"])) - 2
    if spatial > 2:
        raise ProblemError("convolutions have 1 or 2 axes in the IR")
    x = e.value(call["input"])
    if len(sizes) == spatial + 1:
        x = e.add(tensor.UnsqueezeOp(x, [0]))
        result = _convolved(e, call, x, spatial)
        return e.add(tensor.SqueezeOp(result, [0]))
    return _convolved(e, call, x, spatial)


def _convolved(e: Builder, call: Call, x: SSAValue, spatial: int) -> SSAValue:
    strides, dilation = pair(call["stride"], spatial), pair(call["dilation"], spatial)
    groups = int(call["groups"])
    bias = None if call["bias"] is None else e.value(call["bias"])
    if call.get("transposed", False):
        padding, extra = pair(call["padding"], spatial), pair(call["output_padding"], spatial)
        return _conv_transpose(e, call, x, strides, padding, extra, dilation)
    kernel = static(e.sizes(call["weight"])[2:], "kernel")
    given = call["padding"]
    if isinstance(given, str):
        total = [d * (k - 1) if given == "same" else 0
                 for d, k in zip(dilation, kernel, strict=True)]  # fmt: skip
        low, high = [n // 2 for n in total], [n - n // 2 for n in total]
    else:
        low = high = pair(given, spatial)
    options: dict[str, Any] = {
        "strides": strides,
        "padding": [*low, *high],
        "dilation": dilation,
        "groups": groups,
    }
    return convolution(e, x, call["weight"], bias, options)


def convolution(
    e: Builder, x: SSAValue, weight: Any, bias: SSAValue | None, options: dict[str, Any]
) -> SSAValue:
    """A convolution with a weight of the graph."""
    if e.known(weight) is None:
        return e.add(tensor.ConvOp(x, e.value(weight), bias, **options))
    return _conv_with(e, x, e.weight(weight, keep), bias, options)


def _conv_with(
    e: Builder, x: SSAValue, weight: Weight, bias: SSAValue | None, options: dict[str, Any]
) -> SSAValue:
    train = _folded_train(x)
    if train is not None:
        scale = weight.scale
        if weight.is_trits and scale is None:
            scale = e.number(1.0, tensor_type(x).element_type)
        steps = e.add(spike.ConvOp(train, weight.value, scale=scale, bias=bias, **options))
        rank = tensor_type(steps).get_num_dims()
        return e.add(tensor.ReshapeToOp(steps, [-1, *[-2 - axis for axis in range(2, rank)]]))
    if weight.is_trits:
        return e.add(ternary.ConvOp(x, weight.value, scale=weight.scale, bias=bias, **options))
    return e.add(tensor.ConvOp(x, weight.value, bias, **options))


def _folded_train(x: SSAValue) -> SSAValue | None:
    """The train [T, N, C, …] whose first two axes `x` [T·N, C, …] has as one."""
    fold = x.owner
    if not isinstance(fold, tensor.ReshapeToOp):
        return None
    source = fold.operand.owner
    if not isinstance(source, spike.ToTensorOp):
        return None
    before, after = tensor_type(fold.operand).get_shape(), tensor_type(x).get_shape()
    fits = len(before) == len(after) + 1 and before[2:] == after[1:]
    return source.operand if fits and min(before[2:], default=0) > 0 else None


def _conv_transpose(
    e: Builder,
    call: Call,
    x: SSAValue,
    strides: list[int],
    padding: list[int],
    extra: list[int],
    dilation: list[int],
) -> SSAValue:
    """A transposed convolution: zeros between the elements, then a convolution of stride 1.

    Dumoulin & Visin 2016, "A guide to convolution arithmetic", section 4.
    """
    known = e.known(call["weight"])
    if known is None:
        raise ProblemError("its weight is computed; only parameters are turned round")
    groups, spatial = int(call["groups"]), len(strides)
    x = _spaced(e, x, strides)
    kernel = static(e.sizes(call["weight"])[2:], "kernel")
    low = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
    high = [n + more for n, more in zip(low, extra, strict=True)]
    cuts = [n for axis in reversed(range(spatial)) for n in (min(low[axis], 0), min(high[axis], 0))]
    x = pads(e, x, cuts, 0.0)
    weight = e.weight(call["weight"], _turned if groups == 1 else _TurnedGroups(groups),
                      channel_axis=1)  # fmt: skip
    if weight.is_trits and groups > 1 and weight.scale is not None:
        shape = tensor_type(weight.scale).get_shape()
        weight.scale = e.add(tensor.ConcatenateOp([weight.scale] * groups, 0)) if shape else (
            weight.scale
        )  # fmt: skip
    bias = None if call["bias"] is None else e.value(call["bias"])
    options = {
        "strides": [1] * spatial,
        "padding": [max(n, 0) for n in (*low, *high)],
        "dilation": dilation,
        "groups": groups,
    }
    return _conv_with(e, x, weight, bias, options)


def _turned(weight: Any) -> Any:
    """[in, out, …] as [out, in, …], turned round."""
    return _TurnedGroups(1)(weight)


class _TurnedGroups:
    """[in, out/groups, …] as [out, in/groups, …], turned round."""

    def __init__(self, groups: int) -> None:
        self.groups = groups

    def __call__(self, weight: Any) -> Any:
        inputs, outputs, *kernel = weight.shape
        axes = list(range(2, weight.dim()))
        apart = weight.flip(axes).reshape(self.groups, inputs // self.groups, outputs, *kernel)
        joined = apart.transpose(1, 2).reshape(
            outputs * self.groups, inputs // self.groups, *kernel
        )
        return joined.contiguous()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TurnedGroups) and other.groups == self.groups

    def __hash__(self) -> int:
        return hash(self.groups)


def _spaced(e: Builder, x: SSAValue, strides: list[int]) -> SSAValue:
    """x with strides - 1 zeros between its elements along each spatial axis."""
    for index, stride in enumerate(strides):
        if stride == 1:
            continue
        axis, shape = 2 + index, list(tensor_type(x).get_shape())
        size = shape[axis]
        if size < 0:
            raise ProblemError("its image must have fixed sizes")
        x = e.add(tensor.UnsqueezeOp(x, [axis + 1]))
        high = [0] * (len(shape) + 1)
        high[axis + 1] = stride - 1
        x = e.add(tensor.PadToOp(x, [0] * len(high), high))
        kept = [-2 if a == 0 else n for a, n in enumerate(shape)]
        kept[axis] = size * stride
        x = cut(e, e.add(tensor.ReshapeToOp(x, kept)), axis, 0, (size - 1) * stride + 1)
    return x


def _packed_trits(e: Builder, argument: Any, shape: Sequence[int]) -> SSAValue:
    """A buffer of packed trits as a parameter of the shape that the op states."""
    known = e.values.get(argument)
    if not isinstance(known, Known):
        raise ProblemError("its packed weight must be a buffer")
    trits = unpack_trits(array_of(known.tensor), tuple(shape))
    name = e.store.add(known.keys[0] if known.keys else "weight", pack_trits(trits))
    value = e.add(ternary.ParameterOp(name, shape))
    value.name_hint = value_name(name)
    return value


def _ternary_linear(e: Builder, call: Call) -> SSAValue:
    sizes = e.sizes(call["x"])
    shape = static([sizes[-1], call["out_features"]], "sizes")
    x = e.value(call["x"])
    dtype = call["x"].meta["val"].dtype
    trits = _packed_trits(e, call["weight"], shape)
    scale, bias = (
        None if call[name] is None else e.operand(call[name], dtype) for name in ("scale", "bias")
    )
    return product_with(e, x, Weight(trits, scale, is_trits=True), bias)


def _ternary_conv(e: Builder, call: Call) -> SSAValue:
    x, dtype = e.value(call["x"]), call["x"].meta["val"].dtype
    trits = _packed_trits(e, call["weight"], static(call["shape"], "shape"))
    scale, bias = (
        None if call[name] is None else e.operand(call[name], dtype) for name in ("scale", "bias")
    )
    options: dict[str, Any] = {
        "strides": pair(call["stride"], 2),
        "padding": static(call["padding"], "padding"),
        "dilation": pair(call["dilation"], 2),
        "groups": int(call["groups"]),
    }
    return _conv_with(e, x, Weight(trits, scale, is_trits=True), bias, options)


RULES: dict[str, Rule] = {
    "aten::addmm": _addmm,
    "aten::baddbmm": _addmm,
    "aten::bilinear": _bilinear,
    "aten::bmm": _matmul,
    "aten::conv1d": _conv,
    "aten::conv2d": _conv,
    "aten::convolution": _conv,
    "aten::dot": _dot,
    "aten::einsum": _einsum,
    "aten::linear": _linear,
    "aten::matmul": _matmul,
    "aten::mm": _matmul,
    "aten::mv": _dot,
    "triton_dsl::ternary_conv2d": _ternary_conv,
    "triton_dsl::ternary_linear": _ternary_linear,
}
"""By the name of the operator."""
