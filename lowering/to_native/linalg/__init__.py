"""The pass `convert-tensor-to-linalg`: to ops that LLVM's own `mlir-opt` reads and takes further.

A file a family of ops holds the rules (`elementwise`, `shape`, `linear`, `reduction`,
`quantization`, `ternary`); `scalars`, `builder` and `reshaping` are what they build with;
`signature` is about functions, parameters and constants, `keeping` about ops that stay. Not here:
bufferisation and all that comes after, which is MLIR's business or `to_native.program`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    ModuleOp,
    f32,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from ....dialects import tensor
from ....dialects import ternary as ternary_dialect
from ....dialects.inference import tensor_type
from ....dialects.shapes import with_element
from ....ir.errors import OptionError, UnsupportedError
from ....ir.locations import location_text
from ....passes.analysis.compile_time import ParameterOp, is_literal
from ....passes.analysis.replacement import replace_results
from ...emission import no_form
from ..ternary_products import is_long, is_quick_in_floats, kernel_takes, product_takes
from . import elementwise, linear, quantization, reduction, shape, signature, ternary
from .keeping import Keeper, is_spiking, split_products
from .linalg_builder import MAY_FUSE, LinalgBuilder, Rule, element, may_fuse

RULES: dict[type[Operation], Rule] = {
    **elementwise.RULES,
    **linear.RULES,
    **reduction.RULES,
    **quantization.RULES,
    **shape.RULES,
    **ternary.RULES,
}
"""For each op the function that builds what takes its place."""


def takes(kind: type[Operation], element: Attribute) -> bool:
    """Whether an op stays; a running sum only where it has no parts, over a free axis."""
    return kind in RULES and not issubclass(kind, tensor.CumulativeOp)


CHOICES = ("arguments", "constants")
KEPT = ("none", "ternary", "rounded", "products")


@dataclass(frozen=True)
class ConvertTensorToLinalgPass(ModulePass):
    """Lower our `tensor` and `ternary` ops to `linalg`, `arith`, `math` and upstream's `tensor`.

    The result holds nothing that LLVM's `mlir-opt` does not know. Trits become i8 in {-1, 0, 1},
    unsigned integers signless ones. Integers are exact; floats are computed in their own type, f16
    and bf16 in f32 with one rounding an op. Sizes `?` become `tensor.dim`; where two of them meet
    on one axis they must be equal, as a `?` is never stretched to another size. A random
    `ternary.ternarize` cannot be lowered.

        %y = tensor.add %x, %b : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
        // becomes
        %n = tensor.dim %x, %c0 : tensor<?x4xf32>
        %e = tensor.empty(%n) : tensor<?x4xf32>
        %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
             affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], …}
             ins(%x, %b : tensor<?x4xf32>, tensor<4xf32>) outs(%e : tensor<?x4xf32>) {…}

    Raises:
        OptionError: an unknown choice for `parameters`.
        UnsupportedError: ops that cannot be lowered, all of them; the module is as it was.
        ParameterError: `parameters=constants`, and a parameter has no values.
    """

    name = "convert-tensor-to-linalg"

    parameters: str = "arguments"
    """`arguments`: each parameter becomes an argument of its function, after those that are there,
    with the attribute `tensor.parameter`, its key. `constants`: an `arith.constant`, for small
    models."""

    keep: str = "none"
    """`ternary`: products that native kernels take stay as they are (`to_native.ternary_products`),
    where need be without the steps that follow them, and so do parameters and constants. Where they
    meet lowered types there are casts (`builtin.unrealized_conversion_cast`). Ops of `spike` stay
    too. `rounded`: the same, and float images are rounded to int8 where trits are no depthwise
    convolution. `products`: no product stays with steps that follow it."""

    rows: int = 0
    """Products of integers of 8 bits with so many rows or more do not stay, if it is not 0."""

    floats: bool = False
    """Whether products of floats do not stay where they are quicker with floats for their trits,
    on a processor that has no instruction for the dot product of four bytes."""

    def __post_init__(self) -> None:
        if self.keep not in KEPT:
            raise OptionError(
                f"{self.name} expects keep={' or keep='.join(KEPT)}, got '{self.keep}'"
            )
        if self.parameters not in CHOICES:
            raise OptionError(
                f"{self.name} expects parameters={' or parameters='.join(CHOICES)}, "
                f"got '{self.parameters}'"
            )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        keeps_ternary = self.keep != "none"
        as_arguments = self.parameters == "arguments" and not keeps_ternary
        _check(op, as_arguments, keeps_ternary=keeps_ternary)
        declared: dict[str, FuncOp] = {}
        for function in [f for f in op.walk() if isinstance(f, FuncOp)]:
            if not function.is_declaration:
                declared.update(_lower(function, as_arguments, self.keep, self._taken))
            signature.lower_function_type(function)
        _declare(op, declared)
        if not keeps_ternary:
            signature.rename_store(op, keep=as_arguments)

    def _taken(self, op: Operation) -> bool:
        """Whether a product with trits stays."""
        if not _TAKEN.get(self.keep, kernel_takes)(op):
            return False
        if self.rows and is_long(op, self.rows):
            return False
        return not (self.floats and is_quick_in_floats(op))


def _check(module: ModuleOp, as_arguments: bool, *, keeps_ternary: bool) -> None:
    """Refuse a module with ops that cannot be lowered."""
    problems = [
        (op.name, location_text(op), reason)
        for op in module.walk()
        if not (keeps_ternary and is_spiking(op)) and (reason := _unsupported(op)) is not None
    ]
    if as_arguments:
        problems += [
            (call.name, location_text(call), "calls a function with parameters; inline it first")
            for call in signature.calls_of_parametrised(module)
        ]
    if problems:
        raise UnsupportedError("linalg", problems)


_TAKEN = {"products": product_takes}

_OURS = {*tensor.OPERATIONS, *ternary_dialect.Ternary.operations}


def _unsupported(op: Operation) -> str | None:
    if type(op) in RULES or is_literal(op):
        return None
    if type(op) in _OURS or is_spiking(op):
        return no_form(op, "linalg")
    return None


def _lower(
    function: FuncOp, as_arguments: bool, keep: str, taken: Callable[[Operation], bool]
) -> dict[str, FuncOp]:
    """Lower the body of a function but for products that are taken; the library functions that it
    calls then."""

    products = split_products(function, taken) if keep != "none" else {}
    ops = list(function.body.walk())
    if not ops:
        return {}
    builder = LinalgBuilder(ops[0])
    builder.of_numbers.update(op for op in ops if quantization.is_of_numbers(op))
    builder.of_small.update(op for op in builder.of_numbers if quantization.is_of_small(op))
    keeper = Keeper(ops if keep != "none" else [], taken)
    signature.lower_argument_types(function, builder)
    arguments = signature.ParameterArguments(function)
    for op in ops:
        builder.move_to(op)
        if keeper.keeps(op):
            keeper.keep(builder, op)
        elif keep == "rounded" and ternary.is_rounded(op):
            _replace(builder, op, _lowered(builder, op, ternary.rounded_conv))
        elif isinstance(op, ternary_dialect.FusedOp) and op in products:
            operands = op.named(op.operands)
            _replace(builder, op, [ternary.finish(builder, op, products[op], operands)])
        elif isinstance(op, ParameterOp) and as_arguments:
            _replace(builder, op, [arguments.value_of(op)])
        elif is_literal(op):
            _replace(builder, op, [signature.constant(builder, op)])
        elif (rule := RULES.get(type(op))) is not None:
            values = _lowered(builder, op, rule)
            if MAY_FUSE in op.attributes:
                for value in values:
                    may_fuse(value.owner)
            _replace(builder, op, values)
        else:
            for result in op.results:
                signature.lower_type_of(result, builder)
    return builder.declarations


def _lowered(builder: LinalgBuilder, op: Operation, rule: Rule) -> list[SSAValue]:
    """What takes the place of the results of `op`. f16 and bf16 are widened around the rule."""
    operands = list(op.operands)
    if type(op) not in shape.RULES:
        operands = [
            builder.convert_elements(value, f32)
            if isinstance(element(value), Float16Type | BFloat16Type)
            else value
            for value in operands
        ]
    computed = rule(builder, op, *operands)
    results = list(computed) if isinstance(computed, tuple) else [computed]
    return [
        builder.convert_elements(value, LinalgBuilder.signless(tensor_type(result).element_type))
        for value, result in zip(results, op.results, strict=True)
    ]


def _replace(builder: LinalgBuilder, op: Operation, values: list[SSAValue]) -> None:
    fitting: list[SSAValue] = []
    for value, result in zip(values, op.results, strict=True):
        wanted = tensor_type(result)
        wanted = with_element(wanted, LinalgBuilder.signless(wanted.element_type))
        fitting.append(builder.cast_to(value, wanted))
        if signature.is_unsigned_tensor(result.type):
            builder.unsigned.add(fitting[-1])
    replace_results(op, fitting)


def _declare(module: ModuleOp, functions: dict[str, FuncOp]) -> None:
    """Add declarations of library functions that the module lacks."""
    present = {f.sym_name.data for f in module.walk() if isinstance(f, FuncOp)}
    for name, function in functions.items():
        if name not in present:
            module.body.block.add_op(function)
