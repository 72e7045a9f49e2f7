"""Random modules of IR, made of the ops that the dialects `tensor` and `ternary` list.

An op gets operands of types that it takes, from the values at hand or from new parameters; the
op's own inference gives its result types, and `meaning` its values, so that no op is given what it
is not defined on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.elements import element_of, numpy_dtype
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.parameters import (
    add_parameter,
    add_trits,
    attach_store,
    dense_constant,
    parameter_value,
    parameters,
)
from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.dialects.tensor.activation import LogSoftmaxOp, SoftmaxOp
from triton_dsl.dialects.tensor.elementwise import ArithmeticOp, FloatUnaryOp, UnaryOp
from triton_dsl.dialects.tensor.reduction import ReduceOp
from triton_dsl.dialects.ternary.types import TritType
from triton_dsl.ir.printing import module_text
from triton_dsl.ir.store import ParameterStore
from triton_dsl.tools.reduction import Runnable, smaller_modules

from . import cases, meaning, oracle
from .cases import Case, Check, Expected, Undetermined, checks_of

Array = NDArray[Any]
Maker = Callable[["Builder"], Operation | None]

LARGEST = 1e4
"""The largest number that an op may make: sums of products stay within 32 bits."""
WIDEST = 2000
"""The most elements of a value."""


@dataclass(frozen=True)
class Generated(Case):
    """A module with its parameters in memory.

    Attributes:
        whole: the module and its inputs.
    """

    KIND: ClassVar[str] = "ir"
    whole: Runnable

    def inputs(self) -> list[Array]:
        return list(self.whole.inputs)

    def module(self) -> ModuleOp:
        return self.whole.module.clone()

    def expected(self) -> Expected:
        function = meaning.entry(self.whole.module)
        last = function.body.block.last_op
        assert last is not None
        types = [numpy_dtype(tensor_type(v).element_type).name for v in last.operands]
        units = {
            numpy_dtype(tensor_type(v).element_type).name
            for op in function.body.walk()
            for v in (*op.operands, *op.results)
        }
        return oracle.bounded(
            lambda: meaning.compute(function, self.whole.inputs), types, sorted(units), self.seed
        )

    def size(self) -> int:
        return sum(bool(op.operands) for op in meaning.entry(self.whole.module).body.block.ops) - 1

    def building(self) -> tuple[list[str], list[str]]:
        entries = [
            f"{op.key.data!r}: "
            + ("pack_trits({})" if isinstance(op, ternary.ParameterOp) else "{}").format(
                cases.array_source(parameter_value(op))
            )
            for op in parameters(self.whole.module)
        ]
        imports = ["from triton_dsl.dialects.registry import parse_module"]
        lines = ['text = """', *module_text(self.whole.module).splitlines(), '"""']
        lines.append("module = parse_module(text)")
        if entries:
            imports += [
                "from triton_dsl.dialects.parameters import attach_store",
                "from triton_dsl.ir.store import ParameterStore",
                "from triton_dsl.ir.trits import pack_trits",
            ]
            lines.append(f"attach_store(module, ParameterStore.of({{{', '.join(entries)}}}))")
        return imports, lines

    def reductions(self) -> Iterator[Self]:
        for check in self.checks:
            passes = check.pipeline.split(",")
            for index in range(len(passes) if len(passes) > 1 else 0):
                shorter = ",".join((*passes[:index], *passes[index + 1 :]))
                yield self.only(Check(shorter, check.engine))
        for whole in smaller_modules(self.whole):
            yield replace(self, whole=whole)


class Builder:
    """Builds one random function."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.sizes = self.random.choice([(1, 2, 3, 4, 5), (1, 1, 2), (1, 3, 8, 9), (4, 5, 7)])
        self.module = ModuleOp([])
        attach_store(self.module, ParameterStore.unsaved())
        self.values: dict[SSAValue, Tensor] = {}
        self.inputs: list[Array] = []
        names = [*["float32"] * 5, "float64", "float16", "int8", "int32", "int64", "bool", "trit"]
        batch = self.random.choice([1, 2, 3])
        free = self.random.random() < 0.5
        types: list[TensorType[Attribute]] = []
        main = self.random.choice(names[:8])
        for _ in range(self.random.choice([1, 2, 2])):
            name = main if self.random.random() < 0.7 else self.random.choice(names)
            shape = (batch, *self.shape())
            array = self.array(shape, name)
            element = TritType() if name == "trit" else element_of(array.dtype)
            types.append(TensorType(element, (DYNAMIC, *shape[1:]) if free else shape))
            self.inputs.append(array)
        self.block = Block(arg_types=types)
        self.values.update(
            zip(self.block.args, (meaning.held(a) for a in self.inputs), strict=True)
        )
        function = FuncOp("forward", FunctionType.from_lists(types, []), Region(self.block))
        self.module.body.block.add_op(function)
        self.function = function

    def shape(self) -> tuple[int, ...]:
        """A random shape without the batch."""
        return tuple(
            self.random.choice(self.sizes) for _ in range(self.random.choice([0, 1, 1, 2, 2, 3, 3]))
        )

    def array(self, shape: Sequence[int], name: str) -> Array:
        """Random numbers, often multiples of one half."""
        if name == "bool":
            return self.numbers.random(shape) < 0.5
        if name == "trit":
            return self.numbers.integers(-1, 2, shape).astype(np.int8)
        if name.startswith("int"):
            return self.numbers.integers(-9, 10, shape).astype(name)
        numbers = self.numbers.standard_normal(shape)
        if self.numbers.random() < 0.4:
            numbers = np.round(numbers * 2) / 2
        return np.asarray(numbers).astype(name)

    def build(self, seed: int, steps: int) -> Generated:
        """A module of about so many ops."""
        made: list[SSAValue] = []
        for _ in range(20 * steps):
            if len(made) >= steps:
                break
            op = self.random.choice(MAKERS)(self)
            if op is not None:
                made.extend(op.results)
        returned = [made[-1] if made else self.block.args[0]]
        if len(made) > 1 and self.random.random() < 0.25:
            returned.append(self.random.choice(made[:-1]))
        self.block.add_op(ReturnOp(*returned))
        self.function.properties["function_type"] = FunctionType.from_lists(
            [a.type for a in self.block.args], [v.type for v in returned]
        )
        return Generated(seed, checks_of(self.random), Runnable(self.module, tuple(self.inputs)))

    def pick(self, fits: Callable[[SSAValue], bool]) -> SSAValue | None:
        """A value that fits, sooner a late one."""
        fitting = [v for v in self.values if fits(v)]
        if not fitting:
            return None
        return fitting[-1] if self.random.random() < 0.6 else self.random.choice(fitting)

    def add(self, make: Callable[[], Operation]) -> Operation | None:
        """The op, if its operands fit and its results are finite and not too large."""
        try:
            op = make()
        except VerifyException:
            return None
        try:
            results = meaning.apply(op, [self.values[v] for v in op.operands])
        except (Undetermined, IndexError):  # also an extreme of no elements
            results = ()
        if not results or not all(self._is_plain(r) for r in results):
            op.drop_all_references()
            op.erase(safe_erase=False)
            return None
        self.block.add_op(op)
        self.values.update(zip(op.results, results, strict=True))
        return op

    def _is_plain(self, result: Tensor) -> bool:
        if result.numel() > WIDEST:
            return False
        if result.numel() == 0 or result.dtype == torch.bool:
            return True
        return bool(torch.isfinite(result).all()) and float(result.abs().max()) <= LARGEST

    def given(self, array: Array, element: Attribute | None = None) -> SSAValue:
        """A new parameter, or sometimes a constant, of these values."""
        trits = isinstance(element, TritType)
        if trits:
            op: Operation = (
                ternary.ConstantOp([int(v) for v in array.ravel()], array.shape)
                if array.size <= 16 and self.random.random() < 0.3
                else add_trits(self.module, f"p{len(self.values)}", array)
            )
        elif array.size <= 16 and self.random.random() < 0.5:
            op = dense_constant(array, element_of(array.dtype))
        else:
            op = add_parameter(self.module, f"p{len(self.values)}", array)
        self.block.add_op(op)
        self.values[op.results[0]] = meaning.held(array)
        return op.results[0]

    def like(self, value: SSAValue, shape: Sequence[int], positive: bool = False) -> SSAValue:
        """A new parameter of another value's type, in another shape."""
        element = tensor_type(value).element_type
        name = "trit" if isinstance(element, TritType) else numpy_dtype(element).name
        array = self.array(shape, name)
        if positive:
            array = (np.abs(array.astype(np.float64)) + 0.5).astype(array.dtype)
        return self.given(array, element)

    def other(self, value: SSAValue) -> SSAValue:
        """An operand for a binary op: a value of the same type, or one that broadcasts."""
        same = [v for v in self.values if v.type == value.type]
        if self.random.random() < 0.5:
            return self.random.choice(same)
        shape = [1 if self.random.random() < 0.3 else n for n in self.dims(value)]
        if shape:
            shape[0] = 1
        return self.like(value, shape[self.random.randrange(len(shape) + 1) :])

    def dims(self, value: SSAValue) -> tuple[int, ...]:
        """The sizes at run time."""
        return tuple(self.values[value].shape)

    def each(self, count: int, *choices: int) -> list[int]:
        """So many random choices."""
        return [self.random.choice(choices) for _ in range(count)]


def is_float(v: SSAValue) -> bool:
    return numpy_dtype(tensor_type(v).element_type).kind == "f"


def is_trit(v: SSAValue) -> bool:
    return isinstance(tensor_type(v).element_type, TritType)


def is_truth(v: SSAValue) -> bool:
    return numpy_dtype(tensor_type(v).element_type).kind == "b"


def is_integer(v: SSAValue) -> bool:
    return not is_trit(v) and numpy_dtype(tensor_type(v).element_type).kind in "iu"


def is_number(v: SSAValue) -> bool:
    return is_float(v) or is_integer(v)


def rank(v: SSAValue) -> int:
    return tensor_type(v).get_num_dims()


POSITIVE = (tensor.LogOp, tensor.SqrtOp, tensor.RsqrtOp)


def unary(kind: type[UnaryOp]) -> Maker:
    """An element-wise function of one operand, with its properties where it has some."""

    def make(b: Builder) -> Operation | None:
        fits = is_float if issubclass(kind, FloatUnaryOp) else is_number
        x = b.pick(is_truth if kind is tensor.NotOp else fits)
        if x is None:
            return None
        if kind in POSITIVE and not bool((b.values[x] > 0.05).all()):
            x = b.like(x, b.dims(x), positive=True)
        if kind is tensor.LeakyReluOp:
            return b.add(lambda: tensor.LeakyReluOp(x, b.random.choice([0.01, 0.25, -0.5])))
        if kind is tensor.GeluOp:
            return b.add(lambda: tensor.GeluOp(x, b.random.choice(["exact", "tanh"])))
        if kind is tensor.ClampOp:
            low, high = b.random.choice([(-1.0, 2.0), (None, 1.0), (0.0, None), (-3.0, -1.0)])
            return b.add(lambda: tensor.ClampOp(x, min=low, max=high))
        if kind in (SoftmaxOp, LogSoftmaxOp):
            if not rank(x):
                return None
            axis = b.random.randrange(-rank(x), rank(x))
            soft = SoftmaxOp if kind is SoftmaxOp else LogSoftmaxOp
            return b.add(lambda: soft(x, axis))
        return b.add(lambda: kind(x))

    return make


def arithmetic(kind: type[ArithmeticOp]) -> Maker:
    """An element-wise function of two operands."""

    def make(b: Builder) -> Operation | None:
        x = b.pick(is_number)
        if x is None:
            return None
        y = b.other(x)
        if kind in (tensor.DivOp, tensor.ModOp) and bool((b.values[y].abs() < 0.4).any()):
            y = b.like(x, b.dims(y), positive=True)
            if bool((b.values[y].abs() < 0.4).any()):
                return None
        pair = (x, y) if b.random.random() < 0.7 or kind in (tensor.DivOp, tensor.ModOp) else (y, x)
        return b.add(lambda: kind(*pair))

    return make


def powers(b: Builder) -> Operation | None:
    x = b.pick(is_float)
    if x is None:
        return None
    base = b.like(x, b.dims(x), positive=True)
    return b.add(lambda: tensor.PowOp(base, x))


def logic(kind: type[tensor.AndOp] | type[tensor.OrOp]) -> Maker:
    def make(b: Builder) -> Operation | None:
        x = b.pick(is_truth)
        return None if x is None else b.add(lambda: kind(x, b.other(x)))

    return make


def comparison(b: Builder) -> Operation | None:
    x = b.pick(lambda v: not is_trit(v))
    if x is None:
        return None
    predicate = b.random.choice(["eq", "ne", "lt", "le", "gt", "ge"])
    if is_truth(x):
        predicate = b.random.choice(["eq", "ne"])
    return b.add(lambda: tensor.CompareOp(x, b.other(x), predicate))


def choice(b: Builder) -> Operation | None:
    condition, x = b.pick(is_truth), b.pick(is_number)
    if condition is None or x is None:
        return None
    return b.add(lambda: tensor.WhereOp(condition, x, b.other(x)))


def conversion(b: Builder) -> Operation | None:
    x = b.pick(lambda v: True)
    if x is None:
        return None
    name = b.random.choice(
        ["float32", "float32", "float64", "float16", "int8", "int16", "int32", "int64", "bool"]
    )
    return b.add(lambda: tensor.ConvertOp(x, element_of(np.dtype(name))))


def matmul(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_number(v) and rank(v) >= 1)
    if x is None:
        return None
    n, wide = b.dims(x)[-1], b.random.choice(b.sizes)
    kind = b.random.random()
    if kind < 0.2:
        return b.add(lambda: tensor.MatmulOp(x, b.like(x, (n,))))
    if kind < 0.4 and rank(x) == 3:
        return b.add(lambda: tensor.MatmulOp(x, b.like(x, (b.dims(x)[0], n, wide))))
    if kind < 0.6 and rank(x) >= 2:
        return b.add(lambda: tensor.MatmulOp(b.like(x, (wide, b.dims(x)[-2])), x))
    return b.add(lambda: tensor.MatmulOp(x, b.like(x, (n, wide))))


def linear(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_number(v) and rank(v) >= 1)
    if x is None:
        return None
    wide = b.random.choice(b.sizes)
    bias = b.like(x, (wide,)) if b.random.random() < 0.5 else None
    return b.add(lambda: tensor.LinearOp(x, b.like(x, (b.dims(x)[-1], wide)), bias))


def window(b: Builder, x: SSAValue, kernel: Sequence[int]) -> dict[str, Any]:
    """Strides, padding and dilation of a convolution of an image."""
    axes = len(kernel)
    low = b.each(axes, 0, 0, 1, 2)
    return {
        "strides": b.each(axes, 1, 1, 2, 3),
        "padding": [*low, *(low if b.random.random() < 0.6 else b.each(axes, 0, 1, 2))],
        "dilation": b.each(axes, 1, 1, 2),
    }


def is_image(v: SSAValue) -> bool:
    return rank(v) in (3, 4)


def convolution(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_image(v) and is_number(v))
    if x is None:
        return None
    channels = b.dims(x)[1]
    groups = b.random.choice([1, 1, channels])
    out = groups * b.random.choice([1, 2])
    kernel = b.each(rank(x) - 2, 1, 2, 3)
    weight = b.like(x, (out, channels // groups, *kernel))
    bias = b.like(x, (out,)) if b.random.random() < 0.5 else None
    return b.add(lambda: tensor.ConvOp(x, weight, bias, groups=groups, **window(b, x, kernel)))


def einsum(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_number(v) and rank(v) in (2, 3))
    if x is None:
        return None
    dims = b.dims(x)
    if rank(x) == 2:
        equations: dict[str, Sequence[int]] = {
            "ij,jk->ik": (dims[1], 3), "ij,ij->i": dims, "ij,k->kij": (2,), "ij,ij->ji": dims,
            "ij,j->i": (dims[1],),
        }  # fmt: skip
    else:
        equations = {
            "bij,bjk->bik": (dims[0], dims[2], 3), "bij,kj->bki": (3, dims[2]),
            "bij,bij->bj": dims, "bij,j->bi": (dims[2],),
        }  # fmt: skip
    equation = b.random.choice(list(equations))
    return b.add(lambda: tensor.EinsumOp([x, b.like(x, equations[equation])], equation))


def attention(b: Builder) -> Operation | None:
    q = b.pick(lambda v: is_float(v) and rank(v) in (3, 4))
    if q is None:
        return None
    *batch, length, size = b.dims(q)
    keys, wide = b.random.choice(b.sizes), b.random.choice(b.sizes)
    causal = b.random.random() < 0.3
    if causal:
        keys = length
    k, v = b.like(q, (*batch, keys, size)), b.like(q, (*batch, keys, wide))
    mask = None
    if not causal and b.random.random() < 0.4:
        mask = b.like(q, (length, keys))
    scale = b.random.choice([None, 0.5])
    return b.add(
        lambda: tensor.ScaledDotProductAttentionOp(q, k, v, mask, scale=scale, is_causal=causal)
    )


def batch_norm(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_float(v) and rank(v) >= 2)
    if x is None:
        return None
    n = (b.dims(x)[1],)
    given = [b.like(x, n, positive=i == 3) for i in range(4)]
    return b.add(lambda: tensor.BatchNormOp(x, *given, epsilon=b.random.choice([1e-5, 0.1])))


def norm(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_float(v) and rank(v) >= 2)
    if x is None:
        return None
    shape = b.dims(x)[b.random.randrange(1, rank(x)) :]
    if b.random.random() < 0.5:
        return b.add(lambda: tensor.RmsNormOp(x, b.like(x, shape), b.random.choice([1e-6, 0.1])))
    bias = b.like(x, shape) if b.random.random() < 0.5 else None
    return b.add(lambda: tensor.LayerNormOp(x, b.like(x, shape), bias))


def scale_of(b: Builder, x: SSAValue, axis: int) -> SSAValue:
    """A scale: a scalar or one a channel; often a power of two, so that ties occur."""
    shape = () if b.random.random() < 0.5 or axis >= rank(x) else (b.dims(x)[axis],)
    if b.random.random() < 0.5:
        return b.given(np.full(shape, 0.5, np.float32))
    return b.given((b.numbers.random(shape) + 0.1).astype(np.float32))


def quantise(b: Builder) -> Operation | None:
    x = b.pick(lambda v: numpy_dtype(tensor_type(v).element_type).name == "float32")
    if x is None:
        return None
    axis = b.random.randrange(rank(x)) if rank(x) else 0
    name, low, high = b.random.choice(
        [("int8", -128, 127), ("int8", -8, 7), ("int8", 0, 15), ("int16", -300, 300)]
    )
    zero = b.given(np.asarray(b.numbers.integers(-3, 4)).astype(name))
    axis_kept = axis if rank(x) else 1
    scale = scale_of(b, x, axis_kept)
    return b.add(lambda: tensor.QuantizeOp(x, scale, zero, axis=axis_kept, low=low, high=high))


def dequantise(b: Builder) -> Operation | None:
    x = b.pick(is_integer)
    if x is None:
        return None
    axis = b.random.randrange(rank(x)) if rank(x) else 1
    dtype = numpy_dtype(tensor_type(x).element_type)
    zero = b.given(np.asarray(b.numbers.integers(-3, 4)).astype(dtype))
    scale = scale_of(b, x, axis)
    return b.add(lambda: tensor.DequantizeOp(x, scale, zero, axis=axis))


def rescaling(b: Builder, channels: int) -> tuple[SSAValue, SSAValue, SSAValue, int, int]:
    """Multiplier, shift, zero point and bounds."""
    shape = b.random.choice([(), (channels,)])
    multiplier = b.given(np.asarray(b.numbers.integers(-99, 200, shape)).astype(np.int32))
    shift = b.given(np.asarray(b.numbers.integers(1, 9, shape)).astype(np.int32))
    zero = b.given(np.asarray(b.numbers.integers(-3, 4)).astype(np.int8))
    low, high = b.random.choice([(-128, 127), (-8, 7), (0, 127)])
    return multiplier, shift, zero, low, high


def is_i32(v: SSAValue) -> bool:
    return not is_trit(v) and numpy_dtype(tensor_type(v).element_type).name == "int32"


def requantise(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_i32(v) and rank(v) >= 1)
    if x is None:
        return None
    axis = b.random.randrange(rank(x))
    m, s, zero, low, high = rescaling(b, b.dims(x)[axis])
    return b.add(lambda: tensor.RequantizeOp(x, m, s, zero, axis=axis, low=low, high=high))


def steps_of(b: Builder, x: SSAValue, rows: int, dtype: np.dtype[Any]) -> SSAValue:
    """Ascending thresholds."""
    shape = (b.random.choice([1, rows]), b.random.choice([1, 3, 7]))
    return b.given(np.sort(b.array(shape, dtype.name), axis=1))


def thresholds(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_number(v) and rank(v) >= 1)
    if x is None:
        return None
    axis = b.random.randrange(rank(x))
    dtype = numpy_dtype(tensor_type(x).element_type)
    steps = steps_of(b, x, b.dims(x)[axis], dtype)
    return b.add(lambda: tensor.MultiThresholdOp(x, steps, axis=axis))


def pooling(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_image(v) and is_float(v))
    if x is None:
        return None
    kind = b.random.choice(["max", "avg", "global"])
    if kind == "global":
        return b.add(lambda: tensor.GlobalAvgPoolOp(x))
    kernel = b.each(rank(x) - 2, 1, 2, 3)
    strides = b.each(rank(x) - 2, 1, 2, 3)
    padding = [b.random.randrange(k // 2 + 1) for _ in range(2) for k in kernel]
    if kind == "max":
        return b.add(lambda: tensor.MaxPoolOp(x, kernel, strides, padding))
    counted = b.random.random() < 0.5
    return b.add(lambda: tensor.AvgPoolOp(x, kernel, strides, padding, count_include_pad=counted))


def reduction(kind: type[ReduceOp]) -> Maker:
    def make(b: Builder) -> Operation | None:
        floats = kind is tensor.ReduceMeanOp
        x = b.pick(lambda v: (is_float(v) if floats else is_number(v)) and rank(v) >= 1)
        if x is None:
            return None
        axes = b.random.sample(range(rank(x)), b.random.randint(1, rank(x)))
        axes = [a - rank(x) if b.random.random() < 0.4 else a for a in axes]
        return b.add(lambda: kind(x, axes, keepdims=b.random.random() < 0.5))

    return make


def argmax(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_number(v) and rank(v) >= 1)
    if x is None:
        return None
    axis = b.random.randrange(-rank(x), rank(x))
    return b.add(lambda: tensor.ArgmaxOp(x, axis, keepdims=b.random.random() < 0.5))


def joining(b: Builder) -> Operation | None:
    x = b.pick(lambda v: rank(v) >= 1)
    if x is None:
        return None
    others = [v for v in b.values if v.type == x.type]
    parts = [x, *(b.random.choice(others) for _ in range(b.random.choice([0, 1, 2])))]
    return b.add(lambda: tensor.ConcatenateOp(parts, b.random.randrange(-rank(x), rank(x))))


def splitting(b: Builder) -> Operation | None:
    x = b.pick(lambda v: rank(v) >= 2)
    if x is None:
        return None
    axis = b.random.randrange(1, rank(x))
    n = b.dims(x)[axis]
    first = b.random.randrange(1, n + 1)
    return b.add(lambda: tensor.SplitOp(x, axis, [first, n - first] if first < n else [n]))


def expanding(b: Builder) -> Operation | None:
    x = b.pick(lambda v: True)
    if x is None:
        return None
    shape = [3 if n == 1 and b.random.random() < 0.6 else -1 for n in tensor_type(x).get_shape()]
    return b.add(lambda: tensor.ExpandOp(x, [*b.each(b.random.choice([0, 0, 1]), 1, 2), *shape]))


def flattening(b: Builder) -> Operation | None:
    x = b.pick(lambda v: rank(v) >= 1)
    if x is None:
        return None
    start = b.random.randrange(rank(x))
    end = b.random.randrange(start, rank(x))
    return b.add(lambda: tensor.FlattenOp(x, start, end - rank(x)))


def gathering(b: Builder) -> Operation | None:
    indices = b.pick(lambda v: is_integer(v) and rank(v) >= 1)
    if indices is None or bool((b.values[indices] < 0).any()):
        return None
    rows = int(b.values[indices].max()) + 1 if b.values[indices].numel() else 1
    if rows > 50:
        return None
    table = b.given(b.array((rows, 3), "float32"))
    return b.add(lambda: tensor.GatherRowsOp(table, indices))


def padding(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_number(v) and rank(v) >= 1)
    if x is None:
        return None
    low, high = ([0, *b.each(rank(x) - 1, 0, 1, 2)] for _ in range(2))
    value = float(b.random.choice([0, 0, 1, -2]))
    return b.add(lambda: tensor.PadToOp(x, low, high, value))


def permuting(b: Builder) -> Operation | None:
    x = b.pick(lambda v: rank(v) >= 2)
    if x is None:
        return None
    perm = list(range(rank(x)))
    b.random.shuffle(perm)
    return b.add(lambda: tensor.PermuteOp(x, perm))


def reshaping(b: Builder) -> Operation | None:
    x = b.pick(lambda v: rank(v) >= 1)
    if x is None:
        return None
    shape = tensor_type(x).get_shape()
    rest = int(np.prod(b.dims(x)[1:]))
    if DYNAMIC in shape[1:]:
        return None
    first = b.random.choice([n for n in range(1, rest + 1) if rest % n == 0] or [0])
    if not first:
        return None
    targets = [[-2, first, rest // first], [-2, -1], [-1, first], [-2, 1, first, -1]]
    if DYNAMIC not in shape:
        targets += [[b.dims(x)[0] * rest], [first, -1]]
    return b.add(lambda: tensor.ReshapeToOp(x, b.random.choice(targets)))


def slicing(b: Builder) -> Operation | None:
    x = b.pick(lambda v: rank(v) >= 1)
    if x is None:
        return None
    shape = tensor_type(x).get_shape()
    starts, ends, steps = [], [], []
    for n in shape:
        low, high = (0, 0) if n == DYNAMIC else (-n, n)
        starts.append(b.random.randint(low, max(low, high - 1)))
        ends.append(b.random.choice([2**63 - 1, 2**63 - 1, b.random.randint(low, high)]))
        steps.append(b.random.choice([1, 1, 2, 3]))
        if n == DYNAMIC:
            ends[-1], steps[-1] = 2**63 - 1, 1
    op = b.add(lambda: tensor.SliceOp(x, starts, ends, steps))
    if op is not None and 0 in b.dims(op.results[0]):
        del b.values[op.results[0]]  # values without elements end many programs
        op.detach()
        op.erase()
        return None
    return op


def squeezing(b: Builder) -> Operation | None:
    x = b.pick(lambda v: 1 in tensor_type(v).get_shape())
    if x is None:
        return None
    ones = [a for a, n in enumerate(tensor_type(x).get_shape()) if n == 1]
    axes = b.random.sample(ones, b.random.randint(1, len(ones)))
    axes = [a - rank(x) if b.random.random() < 0.4 else a for a in axes]
    return b.add(lambda: tensor.SqueezeOp(x, axes))


def unsqueezing(b: Builder) -> Operation | None:
    x = b.pick(lambda v: rank(v) <= 4)
    if x is None:
        return None
    count = b.random.choice([1, 1, 2])
    axes = b.random.sample(range(rank(x) + count), count)
    return b.add(lambda: tensor.UnsqueezeOp(x, axes))


def trits(b: Builder, shape: Sequence[int]) -> SSAValue:
    """A new parameter of trits."""
    return b.given(b.array(shape, "trit"), TritType())


def ternary_input(v: SSAValue) -> bool:
    """Whether a product with trits takes it."""
    return is_trit(v) or is_float(v) or numpy_dtype(tensor_type(v).element_type).kind == "i"


def summed(v: SSAValue) -> str:
    """The type of sums of trits times integers."""
    return "int64" if numpy_dtype(tensor_type(v).element_type) == np.int64 else "int32"


def ternary_matmul(b: Builder) -> Operation | None:
    x = b.pick(lambda v: ternary_input(v) and rank(v) >= 1)
    if x is None:
        return None
    wide = b.random.choice(b.sizes)
    scale = None
    if is_float(x) and b.random.random() < 0.4:
        scale = b.like(x, b.random.choice([(), (wide,)]))
    return b.add(lambda: ternary.MatmulOp(x, trits(b, (b.dims(x)[-1], wide)), scale))


def optional_steps(b: Builder, x: SSAValue, channels: int) -> dict[str, Any]:
    """Random steps after a product, as `FusedOp` takes them."""
    options: dict[str, Any] = {}
    if is_float(x):
        if b.random.random() < 0.5:
            options["scale"] = b.like(x, b.random.choice([(), (channels,)]))
        if b.random.random() < 0.5:
            options["bias"] = b.like(x, (channels,))
        options["activation"] = b.random.choice(["none", "relu", "relu6"])
        if b.random.random() < 0.2:
            dtype = numpy_dtype(tensor_type(x).element_type)
            options["thresholds"] = steps_of(b, x, channels, dtype)
        return options
    if b.random.random() < 0.5:
        options["bias"] = b.given(b.array((channels,), summed(x)))
    options["activation"] = b.random.choice(["none", "relu"])
    after = b.random.random()
    if after < 0.25:
        options["thresholds"] = steps_of(b, x, channels, np.dtype(summed(x)))
    elif after < 0.6 and summed(x) == "int32":
        names = ("multiplier", "shift", "zero_point", "low", "high")
        options |= dict(zip(names, rescaling(b, channels), strict=True))
    return options


def ternary_linear(b: Builder) -> Operation | None:
    x = b.pick(lambda v: ternary_input(v) and rank(v) >= 1)
    if x is None:
        return None
    wide = b.random.choice(b.sizes)
    weight = trits(b, (b.dims(x)[-1], wide))
    return b.add(lambda: ternary.LinearOp(x, weight, **optional_steps(b, x, wide)))


def ternary_convolution(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_image(v) and ternary_input(v))
    if x is None:
        return None
    channels = b.dims(x)[1]
    groups = b.random.choice([1, 1, channels])
    out = groups * b.random.choice([1, 2])
    kernel = b.each(rank(x) - 2, 1, 2, 3)
    weight = trits(b, (out, channels // groups, *kernel))
    options = {**optional_steps(b, x, out), **window(b, x, kernel)}
    return b.add(lambda: ternary.ConvOp(x, weight, groups=groups, **options))


def ternarising(b: Builder) -> Operation | None:
    x = b.pick(is_float)
    if x is None:
        return None
    rule = b.random.choice(["fixed", "fixed", "twn", "absmean"])
    threshold = b.random.choice([0.0, 0.5, 0.3]) if rule == "fixed" else None
    scale = b.random.choice(["none", "tensor", "channel"] if rank(x) else ["none", "tensor"])
    axis = b.random.randrange(-rank(x), rank(x)) if rank(x) else -1
    return b.add(
        lambda: ternary.TernarizeOp(x, rule=rule, threshold=threshold, scale=scale, axis=axis)
    )


def packing(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_trit(v) and DYNAMIC not in tensor_type(v).get_shape())
    if x is None:
        return None
    packed = b.add(lambda: ternary.PackOp(x))
    if packed is None or b.random.random() < 0.3:
        return packed
    return b.add(lambda: ternary.UnpackOp(packed.results[0], b.dims(x)))


def trits_as_floats(b: Builder) -> Operation | None:
    x = b.pick(is_trit)
    if x is None:
        return None
    axis = b.random.randrange(rank(x)) if rank(x) else -1
    scale = None if b.random.random() < 0.4 else scale_of(b, x, axis if rank(x) else 1)
    return b.add(lambda: ternary.DequantizeOp(x, scale, axis=axis))


def adder_graph(b: Builder) -> Operation | None:
    x = b.pick(lambda v: ternary_input(v) and not is_trit(v) and rank(v) >= 1)
    if x is None:
        return None
    inputs = b.dims(x)[-1]
    if not inputs:
        return None
    nodes: list[tuple[int, int, int, int]] = []
    for index in range(b.random.choice([0, 1, 3, 6])):
        first, second = (b.random.randrange(inputs + index) for _ in range(2))
        nodes.append((first, second, b.random.choice([1, -1]), b.random.choice([0, 0, 0, 1])))
    outputs = [
        (b.random.randrange(inputs + len(nodes)), b.random.choice([1, -1, 0]))
        for _ in range(b.random.choice(b.sizes))
    ]
    return b.add(lambda: ternary.AdderGraphOp(x, inputs, nodes, outputs))


_UNARY = [
    op for op in tensor.Tensor.operations if issubclass(op, UnaryOp)
]  # what a new element-wise op needs is its meaning
_ARITHMETIC = [op for op in tensor.Tensor.operations if issubclass(op, ArithmeticOp)]
_REDUCTIONS = [op for op in tensor.Tensor.operations if issubclass(op, ReduceOp)]

MADE: dict[type[Operation], Maker] = {
    **{kind: unary(kind) for kind in _UNARY},
    **{kind: arithmetic(kind) for kind in _ARITHMETIC},
    **{kind: reduction(kind) for kind in _REDUCTIONS},
    tensor.AndOp: logic(tensor.AndOp),
    tensor.OrOp: logic(tensor.OrOp),
    tensor.ArgmaxOp: argmax,
    tensor.AvgPoolOp: pooling,
    tensor.BatchNormOp: batch_norm,
    tensor.CompareOp: comparison,
    tensor.ConcatenateOp: joining,
    tensor.ConvertOp: conversion,
    tensor.ConvOp: convolution,
    tensor.DequantizeOp: dequantise,
    tensor.EinsumOp: einsum,
    tensor.ExpandOp: expanding,
    tensor.FlattenOp: flattening,
    tensor.GatherRowsOp: gathering,
    tensor.GlobalAvgPoolOp: pooling,
    tensor.LayerNormOp: norm,
    tensor.LinearOp: linear,
    tensor.MatmulOp: matmul,
    tensor.MaxPoolOp: pooling,
    tensor.MultiThresholdOp: thresholds,
    tensor.PadToOp: padding,
    tensor.PermuteOp: permuting,
    tensor.PowOp: powers,
    tensor.QuantizeOp: quantise,
    tensor.RequantizeOp: requantise,
    tensor.ReshapeToOp: reshaping,
    tensor.RmsNormOp: norm,
    tensor.ScaledDotProductAttentionOp: attention,
    tensor.SliceOp: slicing,
    tensor.SplitOp: splitting,
    tensor.SqueezeOp: squeezing,
    tensor.UnsqueezeOp: unsqueezing,
    tensor.WhereOp: choice,
    ternary.AdderGraphOp: adder_graph,
    ternary.ConvOp: ternary_convolution,
    ternary.DequantizeOp: trits_as_floats,
    ternary.LinearOp: ternary_linear,
    ternary.MatmulOp: ternary_matmul,
    ternary.PackOp: packing,
    ternary.TernarizeOp: ternarising,
    ternary.UnpackOp: packing,
}
"""What makes each op; parameters and constants come with the others."""

MAKERS = [*MADE.values(), *[ternary_linear, ternary_convolution, linear, convolution] * 3]


def generate(seed: int) -> Case:
    """The module of a seed."""
    steps = random.Random(seed).choice([1, 2, 2, 3, 4, 6, 10])
    return Builder(seed).build(seed, steps)


__all__ = ["MADE", "Generated", "generate", "parse_module"]
