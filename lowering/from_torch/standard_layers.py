"""Layers of `torch.nn` as single operators of an exported graph.

`torch.export` runs each operator on tensors without values, and for a free batch most of its time
goes into shapes, strides and guards that PyTorch derives in Python: a `ReLU6` is eight operators
there, `nn.MultiheadAttention` thirty. While a module is exported, the layers that are known here
put an operator of their own in the place of that, whose result has the shape of its input. Behind
it, `settled` puts PyTorch's operators in their places; attention alone stays, since it has a rule.

Not here: layers of other libraries (`library_neurons`), and ops (`rules_*`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

NAMESPACE = "triton_dsl_layers"
ATTENTION = f"{NAMESPACE}::attention"

_SCHEMAS = {
    "batch_norm": "(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
    "Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled)",
    "gelu": "(Tensor self, *, str approximate)",
    "hardsigmoid": "(Tensor self)",
    "hardswish": "(Tensor self)",
    "hardtanh": "(Tensor self, Scalar min_val, Scalar max_val)",
    "layer_norm": "(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, "
    "float eps, bool cudnn_enable)",
    "leaky_relu": "(Tensor self, Scalar negative_slope)",
    "relu": "(Tensor self)",
    "sigmoid": "(Tensor self)",
    "silu": "(Tensor self)",
    "tanh": "(Tensor self)",
}
"""Operators that give what they take in shape and type, with their arguments in PyTorch."""

_IN_PLACE = ("hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "relu", "silu")

FRESH = frozenset({
    "aten::add.Tensor", "aten::batch_norm", "aten::conv1d", "aten::conv2d", "aten::div.Tensor",
    "aten::group_norm", "aten::hardswish", "aten::hardtanh", "aten::layer_norm", "aten::linear",
    "aten::matmul", "aten::mul.Tensor", "aten::relu", "aten::sigmoid", "aten::silu",
    "aten::sub.Tensor", "aten::tanh",
})  # fmt: skip
"""Operators whose result shares memory with none of their operands."""

Forward = Callable[..., Any]


@cache
def operators() -> Any:
    """The operators, defined at the first call."""
    import torch

    library = torch.library.Library(NAMESPACE, "DEF")
    _kept.append(library)

    def same(x: Any, *_rest: Any, **_named: Any) -> Any:
        return x.new_empty(x.shape)

    def nothing(*_arguments: Any, **_named: Any) -> None:
        return None

    def projected(x: Any, weight: Any, _bias: Any) -> Any:
        return x.new_empty((*x.shape[:-1], weight.shape[0]))

    def define(name: str, schema: str, fake: Forward) -> None:
        library.define(name + schema)
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)

    for name, schema in _SCHEMAS.items():
        define(name, f"{schema} -> Tensor", same)
    for name in _IN_PLACE:
        schema = _SCHEMAS[name].replace("Tensor self", "Tensor(a!) self")
        define(f"{name}_", f"{schema} -> ()", nothing)
    define("linear", "(Tensor input, Tensor weight, Tensor? bias) -> Tensor", projected)
    define(
        "attention",
        "(Tensor x, Tensor in_weight, Tensor? in_bias, Tensor out_weight, Tensor? out_bias, "
        "int heads, bool batch_first) -> Tensor",
        same,
    )
    return getattr(torch.ops, NAMESPACE)


_kept: list[Any] = []
"""A library's operators go with it."""


@contextmanager
def shortened(module: Any) -> Generator[None]:
    """Layers within `module` give single operators in a `with` block.

    Layers are known by their very class: a subclass computes what it likes.
    """
    made: dict[Any, Any] = dict(_makers())
    found: list[Any] = []
    try:
        for part in module.modules():
            maker = made.get(type(part))
            if maker is not None and "forward" not in part.__dict__ and not part.training:
                part.__dict__["forward"] = maker(part)
                found.append(part)
        yield
    finally:
        for part in found:
            del part.__dict__["forward"]


def settled(program: Any) -> bool:
    """Put PyTorch's operators in the places of those defined here; whether that is possible.

    It is not where a tensor is changed in place that others may see under another name.
    """
    import torch

    aten: Any = torch.ops.aten
    for node in list(program.graph.nodes):
        if node.op != "call_function" or getattr(node.target, "namespace", "") != NAMESPACE:
            continue
        name = node.target._opname
        if f"{NAMESPACE}::{name}" == ATTENTION:
            continue
        functional = getattr(aten, name.removesuffix("_")).default
        if name.endswith("_") and not _reread(program.graph, node):
            return False
        node.target = functional
    return True


def _reread(graph: Any, node: Any) -> bool:
    """Let what reads the tensor that `node` changes read its result; whether nobody else does."""
    changed = node.args[0]
    if not _is_alone(changed):
        return False
    later: set[Any] = set()
    behind = False
    for other in graph.nodes:
        if behind:
            later.add(other)
        behind = behind or other is node
    if any(user is not node and user not in later for user in changed.users):
        return False
    node.meta["val"] = changed.meta["val"]
    for user in set(changed.users) - {node}:
        user.replace_input_with(changed, node)
    return True


def _is_alone(node: Any) -> bool:
    """Whether the memory of a result is that of no other tensor in use."""
    while node.op == "call_function" and getattr(node.target, "_schema", None) is not None:
        name = node.target.name()
        if name in FRESH:
            return True
        if not name.partition(".")[0].endswith("_") or not node.args:
            return False
        (node, *_), written = node.args, node
        if not hasattr(node, "users") or set(node.users) != {written}:
            return False
    return False


@cache
def _makers() -> dict[type, Callable[[Any], Forward]]:
    from torch import nn

    def of(name: str, *fields: str) -> Callable[[Any], Forward]:
        def maker(part: Any) -> Forward:
            return _activation(part, name, tuple(float(getattr(part, field)) for field in fields))

        return maker

    bounds = ("min_val", "max_val")
    return {
        nn.BatchNorm1d: _batch_norm,
        nn.BatchNorm2d: _batch_norm,
        nn.Dropout: _nothing,
        nn.Dropout1d: _nothing,
        nn.Dropout2d: _nothing,
        nn.GELU: _gelu,
        nn.Hardsigmoid: of("hardsigmoid"),
        nn.Hardswish: of("hardswish"),
        nn.Hardtanh: of("hardtanh", *bounds),
        nn.LayerNorm: _layer_norm,
        nn.LeakyReLU: of("leaky_relu", "negative_slope"),
        nn.Linear: _linear,
        nn.MultiheadAttention: _attention,
        nn.ReLU: of("relu"),
        nn.ReLU6: of("hardtanh", *bounds),
        nn.SiLU: of("silu"),
        nn.Sigmoid: of("sigmoid"),
        nn.Tanh: of("tanh"),
    }


def _is_float(x: Any) -> bool:
    return hasattr(x, "is_floating_point") and x.is_floating_point()


def _otherwise(part: Any) -> Forward:
    """What the layer's class does."""
    kind = cast("Any", type(part))
    return kind.forward.__get__(part)


def _activation(part: Any, name: str, arguments: tuple[Any, ...]) -> Forward:
    made, in_place = getattr(operators(), name), getattr(part, "inplace", False)
    changing = getattr(operators(), f"{name}_") if in_place else None
    otherwise = _otherwise(part)

    def forward(input: Any) -> Any:
        if not _is_float(input):
            return otherwise(input)
        if changing is None:
            return made(input, *arguments)
        changing(input, *arguments)
        return input

    return forward


def _gelu(part: Any) -> Forward:
    otherwise = _otherwise(part)

    def forward(input: Any) -> Any:
        if not _is_float(input):
            return otherwise(input)
        return operators().gelu(input, approximate=part.approximate)

    return forward


def _nothing(part: Any) -> Forward:
    """Dropout in evaluation mode."""
    del part

    def forward(input: Any) -> Any:
        return input

    return forward


def _batch_norm(part: Any) -> Forward:
    otherwise = _otherwise(part)

    def forward(input: Any) -> Any:
        if part.running_mean is None or not _is_float(input):
            return otherwise(input)
        part._check_input_dim(input)
        statistics = (part.weight, part.bias, part.running_mean, part.running_var)
        return operators().batch_norm(input, *statistics, False, 0.0, part.eps, True)

    return forward


def _layer_norm(part: Any) -> Forward:
    otherwise, shape = _otherwise(part), list(part.normalized_shape)

    def forward(input: Any) -> Any:
        if not _is_float(input):
            return otherwise(input)
        return operators().layer_norm(input, shape, part.weight, part.bias, part.eps, True)

    return forward


def _linear(part: Any) -> Forward:
    otherwise = _otherwise(part)

    def forward(input: Any) -> Any:
        if not _is_float(input) or input.dtype != part.weight.dtype:
            return otherwise(input)
        return operators().linear(input, part.weight, part.bias)

    return forward


def _attention(part: Any) -> Forward:
    """Attention of a sequence to itself, without masks and without its weights as a result."""
    otherwise = _otherwise(part)
    plain = (
        part.in_proj_weight is not None
        and part.bias_k is None
        and part.bias_v is None
        and not part.add_zero_attn
    )

    def forward(query: Any, key: Any, value: Any, *rest: Any, **given: Any) -> Any:
        masked = given.get("key_padding_mask") is not None or given.get("attn_mask") is not None
        is_plain = plain and query is key and key is value and query.dim() == 3
        if rest or masked or not is_plain or given.get("need_weights", True) or (
            query.dtype != part.in_proj_weight.dtype
        ):  # fmt: skip
            return otherwise(query, key, value, *rest, **given)
        projection = part.out_proj
        made = operators().attention(
            query, part.in_proj_weight, part.in_proj_bias, projection.weight, projection.bias,
            part.num_heads, part.batch_first,
        )  # fmt: skip
        return made, None

    return forward
