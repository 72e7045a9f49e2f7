"""The pass `convert-ternary-to-llvm`: whole functions to memory, loops and calls of kernels.

`compilation` takes a module through the steps. `program` holds what is known of a function on its
way; `shapes`, `structured`, `padding`, `products`, `bitplane_products` and `spiking` have the rules
for its ops. `views`, `sizes` and `arena` are about memory, `nests`, `schedule`, `combiners`,
`loops`, `tile_values`, `reductions` and `sequels` about loops, `writer` about code, `assembly`
about functions, `inlining` about calls. Not here: kernels (`to_native.kernels`), what an op means
(`to_native.linalg`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ....ir.errors import BackendError, OptionError
from ....runtime.native.abi.linear import PRECISIONS
from ....runtime.native.processor import host_features
from ..interface import INTERFACE_ATTRIBUTE
from ..kernels.recipes import RECIPES, Recipe, best_recipe, recipe_named
from .compilation import compiled


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

    trace: tuple[int, ...] = ()
    """Free sizes: the program times its steps on this machine, and the attribute `native.trace`
    says what each does for them (`to_native.profiling`). Without any it does not."""

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
        functions = compiled(op, _recipe(self.recipe), self)
        for old in list(op.ops):
            op.body.block.erase_op(old)
        op.body.block.add_ops(functions)


def _recipe(name: str | None) -> Recipe:
    """The recipe of that name, whatever this processor is; by default the best for it."""
    if name is not None:
        return recipe_named(name, frozenset[str]().union(*(r.features for r in RECIPES)))
    try:
        return best_recipe(host_features())
    except BackendError:
        return RECIPES[-1]
