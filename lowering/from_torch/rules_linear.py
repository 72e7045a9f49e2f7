"""Rules of linear layers, matmuls, convolutions and einsum, also with packed trits.

Weights that are known become parameters in the form that the op takes, or trits; a product of a
spike train is `spike.linear` on the whole train.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor
from torch.fx import Node
from xdsl.ir import SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ...dialects.tensor.formula import Formula
from ...dialects.tensor.window import ConvWindow
from ...ir.trits import unpack_trits
from ..ir_builder import with_zeros_between
from ..problems import ProblemError
from .calls import Call, fake_tensor
from .rules_onnx import deep_convolution, same, sized
from .rules_shape import pads
from .sizes import Sizes, is_free, product, static
from .torch_builder import Builder, Known, Rule, Weight, array_of, keep, transposed


def _plus(e: Builder, x: SSAValue, bias: SSAValue | None) -> SSAValue:
    return x if bias is None else e.add(tensor.AddOp(x, bias))


def _linear(e: Builder, call: Call) -> SSAValue:
    x, weight = e.value(call["input"]), call["weight"]
    bias = e.optional(call.optional("bias"))
    if len(e.sizes(weight)) == 1:  # one output, without an axis
        return _matmul_of(e, call["input"], weight, bias)
    if e.known(weight) is None:
        return _plus(e, e.add(tensor.MatmulOp(x, e.permute(e.value(weight), [1, 0]))), bias)
    return linear_with(e, x, e.weight(x, weight, transposed), bias)


def linear_with(e: Builder, x: SSAValue, weight: Weight, bias: SSAValue | None) -> SSAValue:
    """x · W + bias for a weight [in, out]; rows that a reshape made of axes are those again."""
    rows = _rows(e, x)
    if rows is not None:
        source, sizes = rows
        result = linear_with(e, source, weight, bias)
        apart = (*sizes[:-1], tensor_type(result).get_shape()[-1])
        return e.reshape(result, apart, (product(sizes[:-1]), apart[-1]))
    train = _train(e, x)
    if train is not None and tensor_type(x).get_num_dims() > 1:
        scale = _spike_scale(e, x, weight)
        return e.add(spike.LinearOp(train, weight.value, scale=scale, bias=bias))
    if weight.is_trits:
        return e.add(ternary.LinearOp(x, weight.value, scale=weight.scale, bias=bias))
    return e.add(tensor.LinearOp(x, weight.value, bias))


def _spike_scale(e: Builder, x: SSAValue, weight: Weight) -> SSAValue | None:
    """The scale of a weight for spikes, of which one of trits must have one."""
    if weight.is_trits and weight.scale is None:
        return e.number(1.0, tensor_type(x).element_type)
    return weight.scale


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
        if product(inner) == columns:
            apart = (*sizes[:cut_at], columns)
            return e.reshape(source, sizes, apart), apart
    return None


def _matmul_of(e: Builder, lhs: Node, rhs: Node, bias: SSAValue | None = None) -> SSAValue:
    x = e.value(lhs)
    if e.known(rhs) is None or len(e.sizes(rhs)) != 2:
        return _plus(e, e.add(tensor.MatmulOp(x, e.value(rhs))), bias)
    weight = e.weight(x, rhs, keep, channel_axis=1)
    if _rows(e, x) is not None and (bias is None or tensor_type(bias).get_num_dims() < 2):
        return linear_with(e, x, weight, bias)
    if weight.is_trits:
        return _plus(e, linear_with(e, x, weight, None), bias)
    return _plus(e, e.add(tensor.MatmulOp(x, weight.value)), bias)


def _matmul(e: Builder, call: Call) -> SSAValue:
    return _matmul_of(e, call["self"], call["other" if "other" in call else "mat2"])


def _addmm(e: Builder, call: Call) -> SSAValue:
    beta, alpha = call.number("beta"), call.number("alpha")
    pairs = (("batch1", "batch2"), ("mat1", "mat2"), ("mat", "vec"))
    lhs, rhs = next((call[one], call[other]) for one, other in pairs if one in call)
    if beta != 1 or alpha != 1:
        scaled = Formula(e, _matmul_of(e, lhs, rhs)) * alpha
        # PyTorch leaves out what has the factor 0, NaN too.
        return (scaled + Formula(e, e.value(call["self"])) * beta if beta else scaled).value
    return _matmul_of(e, lhs, rhs, e.value(call["self"]))


def _dot(e: Builder, call: Call) -> SSAValue:
    other = call["tensor" if "tensor" in call else "vec"]
    return e.add(tensor.MatmulOp(e.value(call["self"]), e.value(other)))


def _einsum(e: Builder, call: Call) -> SSAValue:
    inputs = [sized(e, e.value(node), e.sizes(node)) for node in call.tensors("tensors")]
    return same(e, "Einsum", inputs, {"equation": call.word("equation")})[0]


def _bilinear(e: Builder, call: Call) -> SSAValue:
    inputs = [e.value(call[name]) for name in ("input1", "input2")]
    lead = "abcdefgh"[: call.rank - 1]
    equation = f"{lead}i,oij,{lead}j->{lead}o"
    result = e.add(tensor.EinsumOp([inputs[0], e.value(call["weight"]), inputs[1]], equation))
    return _plus(e, result, e.optional(call.optional("bias")))


def _conv(e: Builder, call: Call) -> SSAValue:
    spatial = len(e.sizes(call["weight"])) - 2
    if spatial > 2:
        return deep_convolution(e, call)
    x = e.value(call["input"])
    convolved = _conv_transpose if call.flag("transposed") else _convolved
    if len(e.sizes(call["input"])) > spatial + 1:
        return convolved(e, call, x, spatial)
    image = e.add(tensor.UnsqueezeOp(x, [0]))
    return e.add(tensor.SqueezeOp(convolved(e, call, image, spatial), [0]))


def _convolved(e: Builder, call: Call, x: SSAValue, spatial: int) -> SSAValue:
    bias, dilation = e.optional(call.optional("bias")), call.window("dilation", spatial)
    mode = call.arguments["padding"]
    if isinstance(mode, str):
        kernel = static(e.sizes(call["weight"])[2:], "kernel")
        total = [d * (k - 1) if mode == "same" else 0
                 for d, k in zip(dilation, kernel, strict=True)]  # fmt: skip
        low, high = [n // 2 for n in total], [n - n // 2 for n in total]
    else:
        low = high = call.window("padding", spatial)
    window: ConvWindow = {
        "strides": call.window("stride", spatial),
        "padding": [*low, *high],
        "dilation": dilation,
        "groups": call.integer("groups"),
    }
    if e.known(call["weight"]) is None:
        return e.add(tensor.ConvOp(x, e.value(call["weight"]), bias, **window))
    return _conv_with(e, x, e.weight(x, call["weight"], keep), bias, window)


def _conv_with(
    e: Builder, x: SSAValue, weight: Weight, bias: SSAValue | None, window: ConvWindow
) -> SSAValue:
    train = _folded_train(x)
    if train is not None:
        scale = _spike_scale(e, x, weight)
        steps = e.add(spike.ConvOp(train, weight.value, scale=scale, bias=bias, **window))
        rank = tensor_type(steps).get_num_dims()
        return e.add(tensor.ReshapeToOp(steps, [-1, *[-2 - axis for axis in range(2, rank)]]))
    if weight.is_trits:
        return e.add(ternary.ConvOp(x, weight.value, scale=weight.scale, bias=bias, **window))
    return e.add(tensor.ConvOp(x, weight.value, bias, **window))


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


def _conv_transpose(e: Builder, call: Call, x: SSAValue, spatial: int) -> SSAValue:
    """A transposed convolution: zeros between the elements, then a convolution of stride 1.

    Dumoulin & Visin 2016, "A guide to convolution arithmetic", section 4.
    """
    bias = e.optional(call.optional("bias"))
    strides, padding, extra, dilation = (
        call.window(name, spatial) for name in ("stride", "padding", "output_padding", "dilation")
    )
    if e.known(call["weight"]) is None:
        raise ProblemError("its weight is computed; only parameters are turned round")
    x, groups = with_zeros_between(e, x, strides), call.integer("groups")
    kernel = static(e.sizes(call["weight"])[2:], "kernel")
    low = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
    high = [n + more for n, more in zip(low, extra, strict=True)]
    cuts = [n for axis in reversed(range(spatial)) for n in (min(low[axis], 0), min(high[axis], 0))]
    x = pads(e, x, cuts, 0.0)
    weight = e.weight(x, call["weight"], _Turned(groups), channel_axis=1)
    if groups > 1 and weight.scale is not None and tensor_type(weight.scale).get_shape():
        scale = e.add(tensor.ConcatenateOp([weight.scale] * groups, 0))
        weight = replace(weight, scale=scale)
    window: ConvWindow = {
        "strides": [1] * spatial,
        "padding": [max(n, 0) for n in (*low, *high)],
        "dilation": dilation,
        "groups": groups,
    }
    return _conv_with(e, x, weight, bias, window)


@dataclass(frozen=True)
class _Turned:
    """[in, out/groups, …] as [out, in/groups, …], turned round."""

    groups: int

    def __call__(self, weight: Tensor) -> Tensor:
        inputs, outputs, *kernel = weight.shape
        axes = list(range(2, weight.dim()))
        apart = weight.flip(axes).reshape(self.groups, inputs // self.groups, outputs, *kernel)
        joined = apart.transpose(1, 2).reshape(
            outputs * self.groups, inputs // self.groups, *kernel
        )
        return joined.contiguous()


def _packed_weight(e: Builder, call: Call, shape: Sequence[int]) -> tuple[Weight, SSAValue | None]:
    """A buffer of packed trits as a weight of the shape that the op states, and the bias."""
    known = e.values.get(call["weight"])
    if not isinstance(known, Known):
        raise ProblemError("its packed weight must be a buffer")
    values = unpack_trits(array_of(known.tensor), tuple(shape))
    trits = e.trits(known.keys[0] if known.keys else "weight", values)
    dtype = fake_tensor(call["x"]).dtype
    scale, bias = (e.optional(call.optional(name), dtype) for name in ("scale", "bias"))
    return Weight(trits, scale, is_trits=True), bias


def _ternary_linear(e: Builder, call: Call) -> SSAValue:
    shape = static([e.sizes(call["x"])[-1], call.integer("out_features")], "sizes")
    x = e.value(call["x"])
    return linear_with(e, x, *_packed_weight(e, call, shape))


def _ternary_conv(e: Builder, call: Call) -> SSAValue:
    x = e.value(call["x"])
    weight, bias = _packed_weight(e, call, call.integers("shape"))
    window: ConvWindow = {
        "strides": call.window("stride", 2),
        "padding": call.integers("padding"),
        "dilation": call.window("dilation", 2),
        "groups": call.integer("groups"),
    }
    return _conv_with(e, x, weight, bias, window)


RULES: dict[str, Rule] = {
    "aten::_int_mm": lambda e, call: same(e, "MatMulInteger", [call["self"], call["mat2"]], {})[0],
    **dict.fromkeys(("aten::addmm", "aten::addmv", "aten::baddbmm"), _addmm),
    "aten::bilinear": _bilinear,
    **dict.fromkeys(("aten::bmm", "aten::matmul", "aten::mm"), _matmul),
    **dict.fromkeys(("aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::convolution"), _conv),
    **dict.fromkeys(("aten::dot", "aten::mv"), _dot),
    "aten::einsum": _einsum,
    "aten::linear": _linear,
    "triton_dsl::ternary_conv2d": _ternary_conv,
    "triton_dsl::ternary_linear": _ternary_linear,
}
"""By the name of the operator."""
