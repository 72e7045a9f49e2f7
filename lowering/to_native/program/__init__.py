"""The pass `convert-ternary-to-llvm`: whole functions to memory, loops and calls of kernels.

`compilation` takes a module through the steps. `program` holds what is known of a function on its
way; `shapes`, `structured`, `padding`, `products`, `bitplane_products` and `spiking` have the rules
for its ops. `views`, `sizes` and `arena` are about memory, `nests`, `schedule`, `combiners`,
`loops`, `tile_values`, `reductions` and `sequels` about loops, `writer` about code, `assembly`
about functions, `inlining` about calls. Not here: kernels (`to_native.kernels`), what an op means
(`to_native.linalg`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from ....ir.errors import BackendError, OptionError
from ....runtime.native.abi.linear import PRECISIONS, Precision
from ....runtime.native.processor import host_features
from ..kernels.recipes import RECIPES, Recipe, best_recipe, recipe_named
from .compilation import Compilation
from .sizes import Size

INTERFACE_ATTRIBUTE = "native.interface"
HELD_ATTRIBUTE = "native.held"
"""Arrays that are not the program's, and where in the constants their addresses shall stand."""

TRACE_ATTRIBUTE = "native.trace"
"""What the steps of a traced program do: `trace.Trace` as JSON."""


@dataclass(frozen=True)
class ConvertTernaryToLLVMPass(ModulePass):
    """Take the function `@forward` of a module to memory: pointers, loops and kernels.

    The module holds what `convert-tensor-to-linalg{keep=ternary}` leaves, spiking neurons and
    event-driven synapses included. Tensors become buffers in
    one workspace, or views of others; `linalg` ops become loops with explicit vectors; products
    with trits become calls of kernels for the instruction set `recipe`. The result has two
    functions to call, see `abi.interface`; all constants stand in the parameter store as
    `forward.constants`, and the attribute `native.interface` says what goes in and out. A module
    that has it already stays as it is.

        func.func @forward(%x: tensor<?x784xf32>) -> tensor<?x10xf32> {…}
        // becomes
        llvm.func @forward(%x: !llvm.ptr, %y: !llvm.ptr, %constants: !llvm.ptr,
                           %workspace: !llvm.ptr, %batch: i64) {…}
        llvm.func @forward_workspace_bytes(%batch: i64) -> i64 {…}

    Raises:
        OptionError: an unknown recipe or precision.
        UnsupportedError: ops that cannot be compiled, all of them; the module is as it was.
        ParameterError: a parameter has no values.
    """

    name = "convert-ternary-to-llvm"

    recipe: str | None = None
    """The instruction set of loops and kernels; by default the best that this processor has."""

    precision: str = "float32"
    """`float32`: products of float activations with trits are as accurate as float32.
    `dynamic-int8`: each row of activations is rounded to int8 first."""

    trace: int = 0
    """A batch: the program times its steps on this machine, and the attribute `native.trace` says
    what each does for that batch (`to_native.profiling`). 0: it does not."""

    outside: bool = False
    """Whether matrices of trits, in panels (`abi.linear`), and outputs that an input is the first
    part of are in memory of whoever runs the program. Only the addresses of matrices stand among
    the constants then, so that the code is that of any weights."""

    winograd: bool = True
    """Whether convolutions with windows of 3×3 may go by tiles of places (`winograd`)."""
    additions: bool = True
    """Whether convolutions with trits may be code that adds (`additions`)."""

    together: bool = False
    """Whether threads shall share out one sample: there is a third function then (`abi.phases`)."""

    kept: bool = True
    """Whether trits may be expanded once, by the first call, into memory of the program's own."""

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise OptionError(
                f"{self.name} expects precision={' or precision='.join(PRECISIONS)}, "
                f"got '{self.precision}'"
            )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if INTERFACE_ATTRIBUTE in op.attributes:
            return
        recipe = _recipe(self.recipe)
        batch = self.trace or None
        precision = cast("Precision", self.precision)
        compilation = Compilation(
            op,
            recipe,
            precision,
            batch,
            outside=self.outside,
            winograd=self.winograd,
            adds=self.additions,
            together=self.together,
            kept=self.kept,
        )
        functions = compilation.compile()
        for old in list(op.ops):
            op.body.block.erase_op(old)
        op.body.block.add_ops(functions)
        noted: dict[str, Attribute] = {
            "inputs": ArrayAttr(compilation.inputs),
            "outputs": ArrayAttr(compilation.outputs),
            "recipe": StringAttr(recipe.name),
        }
        if any(size.number is None for sizes in compilation.sizes for size in sizes):
            noted["sizes"] = ArrayAttr(map(_polynomials, compilation.sizes))
        if compilation.phases:
            noted["phases"] = DenseArrayBase.from_list(i64, compilation.phases)
            noted["apart"] = IntegerAttr(compilation.apart, i64)
        for key, number in (("kept", compilation.kept), ("least", compilation.least)):
            if number:
                noted[key] = IntegerAttr(number, i64)
        if compilation.shared:
            pairs = [DenseArrayBase.from_list(i64, pair) for pair in compilation.shared]
            noted["shared"] = ArrayAttr(pairs)
        op.attributes[INTERFACE_ATTRIBUTE] = DictionaryAttr(noted)
        if compilation.trace is not None:
            op.attributes[TRACE_ATTRIBUTE] = StringAttr(compilation.trace.to_json())
        if compilation.held:
            held = {name: IntegerAttr(offset, i64) for name, offset in compilation.held}
            op.attributes[HELD_ATTRIBUTE] = DictionaryAttr(held)


def _polynomials(sizes: Iterable[Size]) -> Attribute:
    """The factors of each size, the constant first."""
    return ArrayAttr(DenseArrayBase.from_list(i64, size.coefficients or (0,)) for size in sizes)


def _recipe(name: str | None) -> Recipe:
    """The recipe of that name, whatever this processor is; by default the best for it."""
    if name is not None:
        return recipe_named(name, frozenset[str]().union(*(r.features for r in RECIPES)))
    try:
        return best_recipe(host_features())
    except BackendError:
        return RECIPES[-1]
