"""Random modules of IR, built of ops that get operands of types that they take.

Operands are values at hand, or new parameters; the op's own inference gives its result types, and
`meaning` its values, so that no op is given what it is not defined on. `module_rules` has a maker
for each op of `tensor` and `ternary`.
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

from triton_dsl.dialects import ternary
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
from triton_dsl.dialects.shapes import DYNAMIC
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

    def build(self, seed: int, steps: int, makers: Sequence[Maker]) -> Generated:
        """A module of about so many ops."""
        made: list[SSAValue] = []
        for _ in range(20 * steps):
            if len(made) >= steps:
                break
            op = self.random.choice(makers)(self)
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
