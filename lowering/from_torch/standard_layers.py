"""Layers of `torch.nn` as single operators of an exported graph.

`torch.export` runs each operator on tensors without values, and for a free batch most of its time
goes into shapes, strides and guards that PyTorch derives in Python: a `ReLU6` is eight operators
there, `nn.MultiheadAttention` thirty. While a module is exported, the layers that are known here
put an operator of their own in the place of that, whose result has the shape of its input. Behind
it, `settled` puts PyTorch's operators in their places; attention alone stays, since it has a rule.

Not here: layers of other libraries (`library_neurons`), and ops (`rules_*`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache, partial, wraps
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch._ops import _OpNamespace  # pyright: ignore[reportPrivateUsage]
from torch.export import ExportedProgram
from torch.fx import Node
from torch.library import Library
from torch.nn.modules import transformer
from torch.nn.utils.rnn import PackedSequence

from .calls import fake_tensor, nodes_of, operator_name, overload_name, schema_of
from .padded_sequences import rows_of, steps_of
from .sizes import is_node

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

_RECURRENT = ("gru", "lstm", "rnn_relu", "rnn_tanh")
"""Layers of recurrent cells; what PyTorch derives of them fixes the number of steps."""

OF_LENGTHS = {f"{NAMESPACE}::{name}_of_lengths": name for name in _RECURRENT}
"""The same for sequences that end before the last step, and their names."""

_IN_PLACE = ("hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "relu", "silu")

FRESH = frozenset({
    "aten::add.Tensor", "aten::batch_norm", "aten::conv1d", "aten::conv2d", "aten::div.Tensor",
    "aten::group_norm", "aten::hardswish", "aten::hardtanh", "aten::layer_norm", "aten::linear",
    "aten::matmul", "aten::mul.Tensor", "aten::relu", "aten::sigmoid", "aten::silu",
    "aten::sub.Tensor", "aten::tanh",
})  # fmt: skip
"""Operators whose result shares memory with none of their operands."""

Forward: TypeAlias = "Callable[..., Tensor | tuple[Tensor, Any]]"
"""What a layer has in the place of its `forward`."""


@cache
def operators() -> _OpNamespace:
    """The operators, defined at the first call."""
    library = torch.library.Library(NAMESPACE, "DEF")
    _libraries.append(library)

    def same(x: Tensor, *_rest: object, **_named: object) -> Tensor:
        return x.new_empty(x.shape)

    def nothing(*_arguments: object, **_named: object) -> None:
        return None

    def projected(x: Tensor, weight: Tensor, _bias: Tensor | None) -> Tensor:
        return x.new_empty((*x.shape[:-1], weight.shape[0]))

    def recurrent(
        x: Tensor, hx: Sequence[Tensor] | Tensor, _params: object, _biases: bool, _layers: int,
        _dropout: float, _train: bool, ways: bool, _batch_first: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        starts = [hx] if isinstance(hx, torch.Tensor) else hx
        y = x.new_empty((*x.shape[:2], (1 + ways) * starts[0].shape[-1]))
        return (y, *(start.new_empty(start.shape) for start in starts))

    def of_lengths(x: Tensor, _lengths: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return recurrent(x, *rest)

    def define(name: str, schema: str, fake: Callable[..., Any]) -> None:
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
    rest = (
        "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
        "bool bidirectional, bool batch_first"
    )
    for name in _RECURRENT:
        states = 2 if name == "lstm" else 1
        results = ", ".join(["Tensor"] * (1 + states))
        start = "Tensor[]" if states > 1 else "Tensor"
        signature = f"{start} hx, {rest}) -> ({results})"
        define(name, f"(Tensor input, {signature}", recurrent)
        define(f"{name}_of_lengths", f"(Tensor input, Tensor lengths, {signature}", of_lengths)
    return getattr(torch.ops, NAMESPACE)


_libraries: list[Library] = []
"""A library's operators go with it."""


@contextmanager
def shortened(module: nn.Module) -> Generator[None]:
    """Layers within `module` give single operators in a `with` block.

    Layers are known by their very class: a subclass computes what it likes.
    """
    makers = _makers()
    replaced: list[nn.Module] = []
    try:
        for part in module.modules():
            maker = makers.get(type(part))
            if maker is not None and "forward" not in part.__dict__ and not part.training:
                part.__dict__["forward"] = _unless_cast(maker(part), part)
                replaced.append(part)
        yield
    finally:
        for part in replaced:
            del part.__dict__["forward"]


def _unless_cast(forward: Forward, part: nn.Module) -> Forward:
    """`forward`, but within `torch.autocast`, which knows PyTorch's own operators alone."""
    otherwise: Forward = partial(type(part).forward, part)

    @wraps(forward)  # torch.export reads the signature of the module that it is given
    def chosen(*arguments: Any, **named: Any) -> Tensor | tuple[Tensor, Any]:
        is_cast = any(map(torch.is_autocast_enabled, ("cpu", "cuda")))
        return (otherwise if is_cast else forward)(*arguments, **named)

    return chosen


@contextmanager
def masks_as_given() -> Generator[None]:
    """Transformers of PyTorch use the masks that they are given in a `with` block.

    They compare the values of a mask with those of a causal one otherwise, to say that it is one.
    """
    name = "_detect_is_causal_mask"
    detect = getattr(transformer, name)

    def said(_mask: Tensor | None, is_causal: bool | None = None, _size: int | None = None) -> bool:
        return is_causal is True

    setattr(transformer, name, said)
    try:
        yield
    finally:
        setattr(transformer, name, detect)


@contextmanager
def batched_experts(module: nn.Module) -> Generator[None]:
    """Mixtures of experts of transformers gather weights for each token in a `with` block.

    Their other forms sort tokens by expert, in groups whose sizes depend on values.
    """
    field, changed = "_experts_implementation_internal", dict[int, tuple[Any, str]]()
    for part in module.modules():
        config = getattr(part, "config", None)
        chosen = getattr(config, field, None)
        if chosen in ("eager", "grouped_mm"):
            changed.setdefault(id(config), (config, chosen))
    try:
        for config, _ in changed.values():
            setattr(config, field, "batched_mm")
        yield
    finally:
        for config, chosen in changed.values():
            setattr(config, field, chosen)


def settled(program: ExportedProgram) -> bool:
    """Put PyTorch's operators in the places of those defined here; whether that is possible.

    It is not where a tensor is changed in place that others may see under another name.
    """
    for node in nodes_of(program):
        name = operator_name(node).removeprefix(f"{NAMESPACE}::")
        if operator_name(node) in (name, ATTENTION, *OF_LENGTHS):
            continue
        if name.endswith("_") and not _reread(program, node):
            return False
        overloads = getattr(torch.ops.aten, name.removesuffix("_"))
        node.target = overloads.input if name in _RECURRENT else overloads.default
    return True


def _reread(program: ExportedProgram, node: Node) -> bool:
    """Let what reads the tensor that `node` changes read its result; whether nobody else does."""
    changed = node.args[0]
    if not is_node(changed) or not _is_alone(changed):
        return False
    nodes = nodes_of(program)
    later = set(nodes[nodes.index(node) :])
    if not later.issuperset(changed.users):
        return False
    node.meta["val"] = fake_tensor(changed)
    for user in set(changed.users) - {node}:
        user.replace_input_with(changed, node)
    return True


def _is_alone(node: Node) -> bool:
    """Whether the memory of a result is that of no other tensor in use."""
    while node.op == "call_function" and schema_of(node) is not None:
        if overload_name(node) in FRESH:
            return True
        if not operator_name(node).endswith("_") or not node.args:
            return False
        source, writer = node.args[0], node
        if not is_node(source) or set(source.users) != {writer}:
            return False
        node = source
    return False


@cache
def _makers() -> dict[type[nn.Module], Callable[[Any], Forward]]:
    """For each class of layers the function that makes the `forward` of one."""
    bounds = ("min_val", "max_val")
    return {
        nn.BatchNorm1d: _batch_norm,
        nn.BatchNorm2d: _batch_norm,
        nn.Dropout: _nothing,
        nn.Dropout1d: _nothing,
        nn.Dropout2d: _nothing,
        nn.GELU: _gelu,
        nn.GRU: partial(_recurrent, "gru"),
        nn.Hardsigmoid: partial(_activation, "hardsigmoid", ()),
        nn.Hardswish: partial(_activation, "hardswish", ()),
        nn.Hardtanh: partial(_activation, "hardtanh", bounds),
        nn.LSTM: partial(_recurrent, "lstm"),
        nn.LayerNorm: _layer_norm,
        nn.LeakyReLU: partial(_activation, "leaky_relu", ("negative_slope",)),
        nn.Linear: _linear,
        nn.MultiheadAttention: _attention,
        nn.RNN: lambda part: _recurrent(f"rnn_{part.nonlinearity}", part),
        nn.ReLU: partial(_activation, "relu", ()),
        nn.ReLU6: partial(_activation, "hardtanh", bounds),
        nn.SiLU: partial(_activation, "silu", ()),
        nn.Sigmoid: partial(_activation, "sigmoid", ()),
        nn.Tanh: partial(_activation, "tanh", ()),
    }


def _is_float(input: Tensor) -> bool:
    return hasattr(input, "is_floating_point") and input.is_floating_point()


def _forward(
    part: nn.Module,
    compute: Callable[[Tensor], Tensor],
    fits: Callable[[Tensor], bool] = _is_float,
) -> Forward:
    """`compute` for what fits, and what the layer's class does for anything else."""
    otherwise = partial(type(part).forward, part)

    def forward(input: Tensor) -> Tensor:
        return compute(input) if fits(input) else otherwise(input)

    return forward


def _activation(name: str, fields: Sequence[str], part: nn.Module) -> Forward:
    in_place = getattr(part, "inplace", False)
    operator = getattr(operators(), f"{name}_" if in_place else name)
    arguments = [float(getattr(part, field)) for field in fields]

    def compute(input: Tensor) -> Tensor:
        result = operator(input, *arguments)
        return input if in_place else result

    return _forward(part, compute)


def _gelu(part: nn.GELU) -> Forward:
    return _forward(part, lambda x: operators().gelu(x, approximate=part.approximate))


def _nothing(part: nn.Module) -> Forward:
    """Dropout in evaluation mode."""
    return _forward(part, lambda x: x, lambda x: True)


def _batch_norm(part: nn.BatchNorm2d) -> Forward:
    def compute(input: Tensor) -> Tensor:
        part._check_input_dim(input)  # pyright: ignore[reportPrivateUsage]
        statistics = (part.weight, part.bias, part.running_mean, part.running_var)
        return operators().batch_norm(input, *statistics, False, 0.0, part.eps, True)

    return _forward(part, compute, lambda x: part.running_mean is not None and _is_float(x))


def _layer_norm(part: nn.LayerNorm) -> Forward:
    def compute(input: Tensor) -> Tensor:
        rest = (part.weight, part.bias, part.eps, True)
        return operators().layer_norm(input, list(part.normalized_shape), *rest)

    return _forward(part, compute)


def _linear(part: nn.Linear) -> Forward:
    def fits(input: Tensor) -> bool:
        return _is_float(input) and input.dtype == part.weight.dtype

    return _forward(part, lambda x: operators().linear(x, part.weight, part.bias), fits)


def _attention(part: nn.MultiheadAttention) -> Forward:
    """Attention of a sequence to itself, without masks and without its weights as a result."""
    otherwise: Forward = partial(type(part).forward, part)
    plain = part.bias_k is None and part.bias_v is None and not part.add_zero_attn

    def forward(
        query: Tensor, key: Tensor, value: Tensor, *rest: Any, **options: Any
    ) -> tuple[Tensor, Tensor | None]:
        masked = options.get("key_padding_mask") is not None or options.get("attn_mask") is not None
        is_plain = plain and query is key and key is value and query.dim() == 3
        weight: Tensor | None = getattr(part, "in_proj_weight", None)
        if rest or masked or not is_plain or options.get("need_weights", True) or (
            weight is None or query.dtype != weight.dtype
        ):  # fmt: skip
            return otherwise(query, key, value, *rest, **options)
        projection = part.out_proj
        result = operators().attention(
            query, weight, part.in_proj_bias, projection.weight, projection.bias,
            part.num_heads, part.batch_first,
        )  # fmt: skip
        return result, None

    return forward


def _recurrent(name: str, part: nn.RNNBase) -> Forward:
    """Recurrent cells over batches of sequences, all of one length or packed."""
    otherwise: Forward = partial(type(part).forward, part)
    names: list[str] = part._flat_weights_names  # pyright: ignore[reportPrivateUsage]
    count = part.num_layers * (1 + part.bidirectional)
    widths = [part.hidden_size, part.hidden_size][: 1 + (name == "lstm")]
    widths[0] = part.proj_size or part.hidden_size

    def moved(states: Any, places: Tensor | None) -> Any:
        return states if places is None else [state.index_select(1, places) for state in states]

    def forward(input: Any, hx: Any = None) -> tuple[Any, Any]:
        # While it is exported, the list of its weights has others than its attributes.
        weights = [getattr(part, key) for key in names]
        is_packed = isinstance(input, PackedSequence)
        if not is_packed and (not isinstance(input, torch.Tensor) or input.dim() != 3):
            return otherwise(input, hx)
        x, *lengths = steps_of(input) if is_packed else (input,)
        is_batch_first = part.batch_first and not is_packed
        if x.dtype != weights[0].dtype:
            return otherwise(input, hx)
        if hx is None:
            batch = x.shape[0 if is_batch_first else 1]
            starts = [x.new_zeros((count, batch, width)) for width in widths]
        else:
            starts = list(hx) if name == "lstm" else [hx]
            starts = moved(starts, input.sorted_indices) if is_packed else starts
        if any(start.dim() != 3 for start in starts):
            return otherwise(input, hx)
        given: Any = tuple(starts) if name == "lstm" else starts[0]
        rest = (part.bias, part.num_layers, 0.0, False, part.bidirectional, is_batch_first)
        if is_packed:
            run = getattr(operators(), f"{name}_of_lengths")
            y, *ends = run(x, *lengths, given, weights, *rest)
            y = PackedSequence(rows_of(y), *input[1:])
            ends = moved(ends, input.unsorted_indices)
        else:
            part.check_forward_args(x, given, None)  # pyright: ignore[reportArgumentType]
            y, *ends = getattr(operators(), name)(x, given, weights, *rest)
        return y, tuple(ends) if name == "lstm" else ends[0]

    return forward
