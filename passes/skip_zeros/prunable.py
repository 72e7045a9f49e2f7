"""A layer with its values in memory, and what dropping channels does to them.

The op itself stays as it is until `commit` puts a smaller one in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from ...dialects import interpret, spike, tensor, ternary
from ...dialects.elements import numpy_dtype
from ...dialects.inference import InferredOp, tensor_type
from ...dialects.parameters import Array, module_of
from ...dialects.shapes import AnyTensor
from ...dialects.spike.types import dense_type, like
from ...dialects.ternary.linear import accumulator
from ..analysis.compile_time import has_value, is_literal, literal, literal_value
from ..analysis.layers import (
    Layer,
    Synapse,
    channel_axis,
    input_of,
    is_conv,
    is_ternary,
    options_of,
    rebuilt,
    weight_of,
)
from ..analysis.replacement import insert_before, replace

Mask = NDArray[np.bool_]
Convolution = ternary.ConvOp | tensor.ConvOp | spike.ConvOp

_PER_CHANNEL = ("scale", "bias", "thresholds", "multiplier", "shift")


class PrunableLayer:
    """A layer whose weight and options are known numbers, read when first asked for."""

    only_zeros: ClassVar[bool] = False
    """Whether a constant channel may go only if it is zero to those who read it."""

    def __init__(self, op: Layer | Synapse) -> None:
        self.op: Layer | Synapse = op
        self._sources = {"weight": weight_of(op), **options_of(op)}
        self._changed: set[str] = set()

    @staticmethod
    def of(op: Layer | Synapse) -> PrunableLayer | None:
        """The layer, if all of its values are known. Reads none."""
        layer = PrunableLayer(op)
        return layer if layer.is_known() else None

    def is_known(self) -> bool:
        """Whether all of its values are known. Reads none."""
        owners = [value.owner for value in self._sources.values()]
        return all(is_literal(o) and has_value(o) for o in owners)

    @property
    def value(self) -> SSAValue:
        """The channels that it gives."""
        return self.op.result

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """The values by operand name (`weight`, `bias`, …); those dropped are left out."""
        by_name = {name: literal_value(value) for name, value in self._sources.items()}
        return {name: array for name, array in by_name.items() if array is not None}

    @property
    def is_ternary(self) -> bool:
        """Whether the weight is made of trits."""
        return is_ternary(self.op)

    @property
    def grouped(self) -> bool:
        """Whether the layer is a convolution in several groups."""
        return isinstance(self.op, Convolution) and self.op.groups.value.data > 1

    @property
    def padded(self) -> bool:
        """Whether zeros are put around the input."""
        return isinstance(self.op, Convolution) and any(self.op.padding.get_values())

    @cached_property
    def dead_outputs(self) -> Mask:
        """The output channels to which no input contributes."""
        weight = self.arrays["weight"]
        return ~_any_along(weight, 0 if is_conv(self.op) else 1)

    @cached_property
    def dead_features(self) -> Mask:
        """The input features (convolutions: channels) that contribute to no output."""
        weight = self.arrays["weight"]
        return ~_any_along(weight, 1 if is_conv(self.op) else 0)

    @cached_property
    def at_zero(self) -> Array:
        """The output, one value a channel, where the input is zero: that of dead channels, always.

        Computed by the reference interpreter.
        """
        weight = self.arrays["weight"]
        if isinstance(self.op, ternary.ConvOp | tensor.ConvOp):
            dilation = self.op.dilation.get_values()
            window = [d * (k - 1) + 1 for d, k in zip(dilation, weight.shape[2:], strict=True)]
            shape = (1, weight.shape[1] * self.op.groups.value.data, *window)
        else:
            shape = (1, weight.shape[0])
        element = tensor_type(input_of(self.op)).element_type
        named = {"input": np.zeros(shape, numpy_dtype(element)), **self.arrays}
        sources = {"input": input_of(self.op), **self._sources}
        elements = {n: tensor_type(v).element_type for n, v in sources.items()}
        elements.setdefault("bias", self._accumulator)
        block = Block(arg_types=[TensorType(elements[n], a.shape) for n, a in named.items()])
        arguments = dict(zip(named, block.args, strict=True))
        op = self._rebuilt(arguments)
        operands = [named[n] for v in op.operands for n, a in arguments.items() if a is v]
        (result,) = interpret.evaluate(op, operands)
        return result.reshape(*result.shape[:2], -1)[0, :, 0]

    def drop_outputs(self, keep: Mask) -> None:
        """Remove the output channels that `keep` leaves out."""
        for name, array in self.arrays.items():
            if name == "weight":
                self._set(name, array[keep] if is_conv(self.op) else array[:, keep])
            elif name in _PER_CHANNEL and array.ndim and len(array) == len(keep):
                self._set(name, array[keep])

    def drop_inputs(self, keep: Mask, constants: Array) -> None:
        """Remove the input features that `keep` leaves out.

        Args:
            keep: one entry a feature (convolutions: a channel).
            constants: the value that each feature has; that of removed ones goes into the bias.
        """
        weight, gone = self.arrays["weight"], ~keep
        wide = np.int64 if constants.dtype.kind in "iub" else np.float64
        if is_conv(self.op):
            lost = weight[:, gone].astype(wide).reshape(len(weight), int(gone.sum()), -1).sum(2)
            offset = lost @ constants[gone].astype(wide)
            self._set("weight", weight[:, keep])
        else:
            offset = constants[gone].astype(wide) @ weight[gone].astype(wide)
            self._set("weight", weight[keep])
        if offset.any():
            self._add_to_bias(offset)

    def _add_to_bias(self, offset: Array) -> None:
        dtype = numpy_dtype(self._accumulator)
        if "scale" in self.arrays:
            offset = offset * self.arrays["scale"].astype(np.float64)
        bias = self.arrays.get("bias")
        self._set(
            "bias", (offset if bias is None else bias.astype(offset.dtype) + offset).astype(dtype)
        )

    @property
    def _accumulator(self) -> Any:
        type = tensor_type(input_of(self.op))
        return accumulator(type) if self.is_ternary else type.element_type

    def _set(self, name: str, array: Array) -> None:
        self.arrays[name] = array
        self._changed.add(name)
        for mask in ("dead_outputs", "dead_features", "at_zero"):
            self.__dict__.pop(mask, None)

    def _rebuilt(self, operands: Mapping[str, SSAValue]) -> InferredOp:
        facts = {"sparsity": None} if self.is_ternary else {}
        return rebuilt(self.op, **operands, **facts)

    def commit(self) -> None:
        """Put the smaller layer, with new literals, in the place of the op."""
        if not self._changed:
            return
        weight = self._sources["weight"]
        operands = {
            name: new_literal(
                self.op,
                self._sources.get(name),
                self.arrays[name],
                self._type(name),
                otherwise=f"{_key(weight)}.{name}",
            )
            for name in sorted(self._changed)
        }
        old, channels = self.op, self.arrays["weight"].shape[0 if is_conv(self.op) else 1]
        new = self._rebuilt(operands)
        set_channels(old.result, channel_axis(old), channels)
        replace(old, new)
        self.op = cast("Layer | Synapse", new)
        self._changed.clear()

    def _type(self, name: str) -> AnyTensor:
        source = self._sources.get(name)
        element = self._accumulator if source is None else tensor_type(source).element_type
        return TensorType(element, self.arrays[name].shape)


def _any_along(weight: Array, axis: int) -> Mask:
    """Whether any element of each slice across `axis` is not zero."""
    others = tuple(a for a in range(weight.ndim) if a != axis)
    return np.logical_or.reduce(weight != 0, axis=others)


def _key(value: SSAValue) -> str:
    """The key of a parameter, or `constant`."""
    owner = value.owner
    is_parameter = isinstance(owner, tensor.ParameterOp | ternary.ParameterOp)
    return owner.key.data if is_parameter else "constant"


def new_literal(
    op: Operation,
    source: SSAValue | None,
    array: Array,
    type: AnyTensor,
    *,
    otherwise: str = "constant",
) -> SSAValue:
    """A literal before `op` for `array`, named after the literal that it is a part of.

    Args:
        op: the op that will use it.
        source: the literal's result; `None` if there was none.
        array: the values.
        type: their type.
        otherwise: the key where there is no `source`.
    """
    owner = op if source is None else source.owner
    assert isinstance(owner, Operation)
    key = otherwise if source is None else _key(source)
    new = literal(
        module_of(op),
        key if key.endswith(".pruned") else f"{key}.pruned",
        array,
        type,
        buffer=isinstance(owner, tensor.ParameterOp) and owner.buffer is not None,
        keep_name=isinstance(owner, ternary.ParameterOp),
    )
    insert_before(op, new, owner)
    new.result.name_hint = None if source is None else source.name_hint
    return new.result


def set_channels(value: SSAValue, axis: int, size: int) -> None:
    """Give the type of `value` `size` elements on `axis`."""
    shape = dense_type(value).get_shape()
    Rewriter.replace_value_with_new_type(
        value, like(value, (*shape[:axis], size, *shape[axis + 1 :]))
    )
