"""The synapses of a network: projections from inputs and populations to populations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    TensorType,
    f32,
    f64,
    i8,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    opt_operand_def,
    opt_prop_def,
)
from xdsl.utils.exceptions import VerifyException

from ...ir.definition import irdl_op_definition
from ..inference import Value, tensor_type
from ..shapes import (
    Shape,
    broadcasts_to,
    is_integer,
    show_shape,
    window_output,
)
from ..tensor.window import conv_shape
from ..ternary.types import is_trit
from .network import EdgeOp, InputOp, NetworkOp, lookup, one_of
from .population import PopulationOp

CONNECTIONS = ("linear", "conv", "one_to_one", "avg_pool", "sum_pool")


@irdl_op_definition
class ProjectionOp(EdgeOp):
    """Synapses from a population or input to a population: PyNN's Projection, NIR's weight nodes.

    What the target receives at step t is scale·f(s[t - d]) + bias, with f by `connection`:
    `linear` s · W, W [in, out] over the places in row-major order; `conv` as `tensor.conv`;
    `one_to_one` s, or s times weights that broadcast, in row-major order; `avg_pool` or `sum_pool`
    over windows. Weights are f32, f64, i8 or trits, with an optional float scale (a scalar or one
    an output channel) and bias (one an output channel); f64 is rounded to f32 where it is used.
    d is `delay` in steps, and for each place of the source what `delays` adds, integers of at
    least 0 (NIR's Delay).

        spike.projection @fc @pixels -> @out weights(%w : tensor<784x10x!ternary.trit>)
            {delay = 1 : i64}
    """

    name = "spike.projection"

    weights = opt_operand_def(TensorType)
    scale = opt_operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    delays = opt_operand_def(TensorType)
    groups = opt_prop_def(IntegerAttr[IntegerType])
    kernel = opt_prop_def(DenseArrayBase[IntegerType])
    strides = opt_prop_def(DenseArrayBase[IntegerType])
    padding = opt_prop_def(DenseArrayBase[IntegerType])
    dilation = opt_prop_def(DenseArrayBase[IntegerType])

    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$sym_name $source `->` $target "
        "(`weights` `(` $weights^ `:` type($weights) `)`)? "
        "(`scale` `(` $scale^ `:` type($scale) `)`)? "
        "(`bias` `(` $bias^ `:` type($bias) `)`)? "
        "(`delays` `(` $delays^ `:` type($delays) `)`)? attr-dict"
    )

    def __init__(
        self, name: str, source: str, target: str, weights: Value | None = None, **named: Any
    ) -> None:
        super().__init__(name, source, target, weights=weights, **named)

    def ends(self) -> tuple[InputOp | PopulationOp, PopulationOp]:
        """The ops that it comes from and goes to.

        Raises:
            VerifyException: one of them does not exist, or is of another kind.
        """
        source = lookup(self, self.source, (InputOp, PopulationOp), "an input or a population")
        target = lookup(self, self.target, (PopulationOp,), "a population")
        assert isinstance(source, InputOp | PopulationOp) and isinstance(target, PopulationOp)
        return source, target

    def window(self) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Strides, padding and dilation, given or by default."""
        spatial = len(self.ends()[0].shape.get_values()) - 1
        kernel = None if self.kernel is None else self.kernel.get_values()
        strides = kernel or [1] * spatial if self.strides is None else self.strides.get_values()
        padding = [0] * 2 * spatial if self.padding is None else self.padding.get_values()
        dilation = [1] * spatial if self.dilation is None else self.dilation.get_values()
        return strides, padding, dilation

    def group_count(self) -> int:
        """The groups of a convolution."""
        return 1 if self.groups is None else self.groups.value.data

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), NetworkOp):
            return
        where = f"'{self.name}' @{self.sym_name.data}"
        one_of(self, "connection", self.connection.data, CONNECTIONS)
        if self.delay.value.data < 0:
            raise VerifyException(
                f"{where} expects a delay of at least 0, got {self.delay.value.data}"
            )
        source, target = self.ends()
        self._check_operands(where)
        self._check_delays(where, tuple(source.shape.get_values()))
        try:
            shape = self.result_shape(tuple(source.shape.get_values()))
        except VerifyException as error:
            raise VerifyException(f"{where} {error}") from None
        wanted = tuple(target.shape.get_values())
        fits = shape == wanted
        if self.connection.data in ("linear", "one_to_one"):
            fits = prod(shape) == prod(wanted)
        if not fits:
            raise VerifyException(
                f"{where} gives {show_shape(shape)}, expected {show_shape(wanted)} "
                f"for @{target.sym_name.data}"
            )
        self._check_vectors(where, shape)

    def _check_operands(self, where: str) -> None:
        connection = self.connection.data
        pools = connection in ("avg_pool", "sum_pool")
        windows = ("kernel",) if pools else ()
        allowed = {*windows, "strides", "padding"} if pools else set[str]()
        if connection == "conv":
            allowed = {"strides", "padding", "dilation", "groups"}
        for name in ("kernel", "strides", "padding", "dilation", "groups"):
            if (getattr(self, name) is not None and name not in allowed) or (
                getattr(self, name) is None and name in windows
            ):
                raise VerifyException(f"{where} {connection}: expects {name} {_only(name)}")
        if self.weights is None and connection in ("linear", "conv"):
            raise VerifyException(f"{where} {connection}: expects weights")
        if pools and (self.weights or self.scale or self.bias):
            raise VerifyException(f"{where} {connection}: expects no weights, scale or bias")
        if self.weights is not None:
            type = tensor_type(self.weights)
            if not (type.element_type in (f32, f64, i8) or is_trit(type)):
                raise VerifyException(
                    f"{where} expects weights of f32, f64, i8 or trits, got {type}"
                )

    def _check_delays(self, where: str, shape: Shape) -> None:
        if self.delays is None:
            return
        type = tensor_type(self.delays)
        if not is_integer(type) or not broadcasts_to(type.get_shape(), shape):
            raise VerifyException(
                f"{where} expects delays of integers that broadcast to {show_shape(shape)}, "
                f"got {type}"
            )

    def _check_vectors(self, where: str, shape: Shape) -> None:
        channels = prod(shape) if self.connection.data == "linear" else shape[0]
        for what in ("scale", "bias"):
            value: SSAValue | None = getattr(self, what)
            if value is None:
                continue
            type = tensor_type(value)
            sizes = ((), (channels,)) if what == "scale" else ((channels,),)
            if type.element_type not in (f32, f64) or type.get_shape() not in sizes:
                raise VerifyException(
                    f"{where} expects {what} of {channels} f32 or f64"
                    f"{' or one' if what == 'scale' else ''}, got {type}"
                )

    def result_shape(self, source: Shape) -> Shape:
        """The shape of what the target receives for a source of the given shape."""
        connection, weights = self.connection.data, self.weights
        matrix = () if weights is None else tensor_type(weights).get_shape()
        if connection == "linear":
            if len(matrix) != 2 or matrix[0] != prod(source):
                raise VerifyException(
                    f"expects weights [{prod(source)}, out] for a source of {show_shape(source)}, "
                    f"got {show_shape(matrix)}"
                )
            return (matrix[1],)
        if connection == "one_to_one":
            if weights is not None and not broadcasts_to(matrix, source):
                raise VerifyException(
                    f"expects weights that broadcast to {show_shape(source)}, "
                    f"got {show_shape(matrix)}"
                )
            return source
        strides, padding, dilation = self.window()
        if connection == "conv":
            groups = self.group_count()
            return conv_shape((1, *source), matrix, strides, padding, dilation, groups)[1:]
        assert self.kernel is not None
        kernel, spatial = self.kernel.get_values(), len(source) - 1
        if spatial not in (1, 2) or not len(kernel) == len(strides) == len(padding) // 2 == spatial:
            raise VerifyException(
                f"expects a kernel for the {max(spatial, 0)} axes of {show_shape(source)}, "
                f"got {list(kernel)}"
            )
        if min(*kernel, *strides) < 1 or min(padding) < 0:
            raise VerifyException("expects sizes and strides of at least 1 and pads of at least 0")
        sizes = [
            window_output(source[1 + a], kernel[a], strides[a], padding[a], padding[spatial + a], 1)
            for a in range(spatial)
        ]
        return (source[0], *sizes)


def _only(name: str) -> str:
    if name == "kernel":
        return "for pools, and only there"
    return "for convolutions" + (" and pools alone" if name in ("strides", "padding") else " alone")
