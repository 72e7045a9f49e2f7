"""The pass `quantize-activations`: integers into products with trits, on calibrated scales."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array, parameters
from ...dialects.shapes import is_float
from ...ir.errors import OptionError, PassError, did_you_mean, expect_from, expect_one_of
from ...ir.interpreter import entry_function
from ...ir.locations import error_at
from ..analysis.compile_time import is_literal, literal, literal_value
from ..analysis.layers import (
    Layer,
    PlainLayer,
    TernaryLayer,
    input_of,
    is_layer,
    is_ternary,
    weight_of,
)
from ..analysis.replacement import erase_unused_except, insert_before, replace_results, unused_ops
from ..calibration.grids import Grid, Quantization
from ..calibration.observation import observe, read_batches
from ..calibration.observers import OBSERVERS
from ..calibration.ranges import Range, recorded_calibration, recorded_range
from ..requantize.computed_products import is_of_activations, make_integer
from ..requantize.dense_products import DenseIntegerProduct
from ..requantize.integer_products import IntegerProduct
from ..requantize.requantize import has_integer_form
from ..skip_zeros.bias_correction import correct_biases, correctable, mean_sums
from .calibrate import no_samples
from .precision import Widths, check_layers, parsed_precision, width

_AVERAGES = (tensor.AvgPoolOp, tensor.GlobalAvgPoolOp, tensor.ReduceMeanOp)

Product = Layer


@dataclass(frozen=True)
class QuantizeActivationsPass(ModulePass):
    """Quantise what enters ternary products, and make the products integer.

    Takes the ranges that `calibrate` recorded, or runs the reference interpreter on sample inputs,
    for every float activation that enters a `ternary.linear`, a `ternary.conv`, or a mean on the
    way to one. The activation x goes
    on a grid of integers q, x ≈ s·(q - z), and all its users see s·(q - z). A product then sums
    integers exactly, and the scale of its result is s times the scale of its weights, for each
    channel; bias and activation follow in float.

        %y = ternary.linear %x, %w scale(%s : tensor<10xf32>) bias(%b : tensor<10xf32>)
             : tensor<?x64xf32>, tensor<64x10x!ternary.trit> -> tensor<?x10xf32>
        // becomes
        %q = tensor.quantize %x, %sx, %zero : …
        %acc = ternary.linear %q, %w
             : tensor<?x64xi8>, tensor<64x10x!ternary.trit> -> tensor<?x10xi32>
        %z = tensor.dequantize %acc, %sx_times_s, %zero32 {axis = -1 : i64} : …
        %y = tensor.add %z, %b : (tensor<?x10xf32>, tensor<10xf32>) -> tensor<?x10xf32>

    With `products`, a product of two activations sums the integers of both in the same way.

    Results change by the quantisation error. Activations have one scale a tensor: a product sums
    over its input channels, so their scales could not be taken out of the sum. `requantize` makes
    what stands between two products integer too.

    From Python, `calibrate` takes samples as arrays and `quantize` takes ranges.
    """

    name = "quantize-activations"
    approximate: ClassVar[bool] = True

    bits: int = 8
    """Bits of an activation, 2 to 8; always stored in an i8."""

    data: str | None = None
    """A `.npz`, `.safetensors` or `.npy` file of sample inputs: one array an argument of the
    function, under its name; the first axis counts the samples. By default the ranges are those
    that `calibrate` recorded."""

    samples: int | None = None
    """Use the first so many samples; all by default."""

    batch: int = 64
    """Samples run at a time."""

    observer: str = "minmax"
    """How a range follows from what was seen: `minmax`, `percentile` (leave out outliers),
    `entropy` (least information lost) or `mse` (least squared error)."""

    percentile: int | float = 99.9
    """For `observer=percentile`: leave out what lies beyond this percentile and its mirror."""

    symmetric: bool = True
    """Zero point 0. With `false`, the grid is shifted to cover the range exactly."""

    signed: bool = True
    """With `symmetric` and `false` here, activations that are never negative use all levels."""

    keep_first: bool = False
    """Leave the first product of the function in float."""

    keep_last: bool = False
    """Leave the last product of the function in float."""

    correct_bias: bool = False
    """Keep the mean result of each channel of a product on the samples of `data`, by its bias."""

    dense: bool = False
    """Also put the inputs of `tensor.linear` and `tensor.conv` on a grid; these products stay in
    float."""

    weights: int | None = None
    """Make products with float weights integer too, with weights of so many bits, 2 to 8: one scale
    an output channel. Weights that lie on a grid stay."""

    comparable: bool = True
    """With `weights`: one scale for all channels in products that no other product follows, so that
    the integers of a result can be compared."""

    products: bool = False
    """Make products of two activations integer too (`tensor.matmul`): both go on grids. Attention
    has such products once `expand-attention` has written it out."""

    precision: str = ""
    """Other bits for layers by name: `conv1:bits=4,weights=3;fc:weights=6`. Such a name is the key
    of a weight, with `.weight` behind or without; `weights` counts where that option is given."""

    skip: tuple[str, ...] = ()
    """Keys of parameters whose products stay as they are."""

    function: str = "forward"
    """The function to change."""

    def __post_init__(self) -> None:
        expect_from(f"{self.name} expects bits", self.bits, 2, 8)
        expect_from(f"{self.name} expects weights", self.weights, 2, 8)
        expect_one_of(f"{self.name} expects observer", self.observer, OBSERVERS)
        if not 50 < self.percentile <= 100:
            raise OptionError(
                f"{self.name} expects a percentile above 50 and up to 100, got {self.percentile}"
            )
        expect_from(f"{self.name} expects samples", self.samples, 1)
        expect_from(f"{self.name} expects batch", self.batch, 1)
        parsed_precision(self.precision)

    @cached_property
    def _stated(self) -> Mapping[str, Widths]:
        return parsed_precision(self.precision)

    def grid(self, name: str) -> Grid:
        """The integer grids the options ask for, for the activation of that name."""
        bits = width(self._stated, name, "bits", self.bits)
        return Grid(bits, self.symmetric, self.signed)

    def bits_of_weights(self, name: str) -> int | None:
        """Those of the layer whose weight has that name; `None` where weights stay floats."""
        if self.weights is None:
            return None
        return width(self._stated, name, "weights", self.weights)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        keys = [parameter.key.data for parameter in parameters(op)]
        for key in self.skip:
            if key not in keys:
                raise OptionError(
                    f"{self.name}: no parameter has the key '{key}'{did_you_mean(key, keys)}"
                )
        ranges: Mapping[str, Range] = {}
        samples: Sequence[Sequence[Array]] = ()
        function = entry_function(op, self.function)
        if self.data is not None:
            samples = read_batches(function, self.data, size=self.batch, limit=self.samples)
        if activations(op, self):
            if samples:
                ranges = calibrate(op, samples, self, progress=True)
            elif recorded_calibration(function) is not None:
                ranges = recorded_ranges(op, self)
            else:
                raise PassError(f"{no_samples(self.name)}; or run 'calibrate' before")
        quantize(op, ranges, self, samples)


def activations(
    module: ModuleOp, options: QuantizeActivationsPass | None = None
) -> dict[str, SSAValue]:
    """The float values that the pass puts on a grid, by name, in program order.

    A name is the key of the weight that the value meets first, or the op's name with a number.
    """
    options = options or QuantizeActivationsPass()
    block = _block(entry_function(module, options.function))
    names: dict[SSAValue, str] = {}
    seen: set[SSAValue] = set()
    for product in _selected(block, options):
        for user in (*_averages_before(product, seen), product):
            value = user.operands[0]
            if is_float(tensor_type(value)) and _quantized(value) is None:
                names.setdefault(value, _name(user))
    for product in _of_activations(block, options):
        for value in product.operands:
            if _quantized(value) is None:
                names.setdefault(value, product.name)
    order = {op: index for index, op in enumerate(block.ops)}
    named: dict[str, SSAValue] = {}
    for value in sorted(names, key=lambda v: _position(v, order)):
        name, number = names[value], 0
        while name in named:
            number += 1
            name = f"{names[value]}.{number}"
        named[name] = value
    return named


def calibrate(
    module: ModuleOp,
    samples: Iterable[Sequence[Array]],
    options: QuantizeActivationsPass | None = None,
    *,
    progress: bool = False,
) -> dict[str, Range]:
    """The range of each of the module's `activations` on sample batches.

    Args:
        module: the program, with weights.
        samples: batches, each with one array an argument of the function.
        options: what to observe and how; the defaults of the pass otherwise.
        progress: show a bar on stderr when it is a terminal.

    Raises:
        PassError: there are no samples, or an activation is not finite on them.
    """
    options = options or QuantizeActivationsPass()
    return observe(
        module,
        entry_function(module, options.function),
        activations(module, options),
        samples,
        observer=options.observer,
        percentile=options.percentile,
        grids=options.grid,
        progress=progress,
    )


def recorded_ranges(
    module: ModuleOp, options: QuantizeActivationsPass | None = None
) -> dict[str, Range]:
    """The range of each of the module's `activations` as `calibrate` recorded it in the program.

    Raises:
        PassError: some have none.
    """
    values = activations(module, options)
    ranges = {name: recorded_range(value) for name, value in values.items()}
    missing = [name for name, range in ranges.items() if range is None]
    if missing:
        raise PassError(
            f"no range is recorded for the input of {', '.join(missing)}: it was made after "
            "'calibrate', or became infinite or NaN; run 'calibrate' right before"
        )
    return {name: seen for name, seen in ranges.items() if seen is not None}


def quantize(
    module: ModuleOp,
    ranges: Mapping[str, Range],
    options: QuantizeActivationsPass | None = None,
    samples: Sequence[Sequence[Array]] = (),
) -> None:
    """Rewrite `module` in place, with the ranges that `calibrate` gave.

    Args:
        module: the program.
        ranges: by the names of `activations`.
        options: what to put on a grid, and on which.
        samples: for the option `correct_bias`: batches as for `calibrate`.

    Raises:
        OptionError: `precision` names no layer.
        PassError: an activation has no range, or there are no samples to correct biases with.
    """
    options = options or QuantizeActivationsPass()
    values = activations(module, options)
    missing = [name for name in values if name not in ranges]
    if missing:
        raise PassError(
            f"no calibrated range for {', '.join(missing)}; calibrate the same module, "
            "with the same options"
        )
    block = _block(entry_function(module, options.function))
    unused = unused_ops(block)
    products = list(_selected(block, options))
    check_layers(options.precision, [_name(product) for product in products])
    function = entry_function(module, options.function)
    layers: list[Layer] = [p for p in products if options.correct_bias and correctable(p)]
    means = mean_sums(module, function, layers, samples)
    for name, value in values.items():
        _insert_pair(module, block, value, options.grid(name).quantization(ranges[name]))
    if layers:
        wanted = zip(layers, means, strict=True)
        replaced = correct_biases(module, function, dict(wanted), samples)
        products = [cast(Product, replaced.get(op, op)) for op in products]
    last = _last_products(products)
    for product in products:
        weights = options.bits_of_weights(_name(product))
        _make_integer(module, product, weights, options.comparable and product in last)
    for product in _of_activations(block, options):
        lhs, rhs = (_quantized(value) for value in product.operands)
        if lhs is not None and rhs is not None:
            make_integer(module, product, lhs, rhs)
    erase_unused_except(block, unused)


def quantized_layers(module: ModuleOp, options: QuantizeActivationsPass) -> dict[PlainLayer, str]:
    """The products with float parameters that the pass makes integer, with the keys of those."""
    block = _block(entry_function(module, options.function))
    products = [op for op in _selected(block, options) if isinstance(op, PlainLayer)]
    owners = ((op, weight_of(op).owner) for op in products)
    return {op: w.key.data for op, w in owners if isinstance(w, tensor.ParameterOp)}


def _block(function: FuncOp) -> Block:
    if len(function.body.blocks) != 1:
        raise PassError(error_at(function, "expects a function of one block"))
    return function.body.block


def _position(value: SSAValue, order: Mapping[Operation, int]) -> tuple[int, int]:
    owner = value.owner
    if isinstance(owner, Operation):
        return order[owner], list(owner.results).index(cast(OpResult, value))
    return -1, cast(BlockArgument, value).index


def _selected(block: Block, options: QuantizeActivationsPass) -> Iterator[Product]:
    products = [op for op in block.ops if is_layer(op) and _is_wanted(op, options)]
    first, last = int(options.keep_first), len(products) - int(options.keep_last)
    for op in products[first:last]:
        if is_float(tensor_type(input_of(op))):
            yield op


def _of_activations(block: Block, options: QuantizeActivationsPass) -> list[tensor.MatmulOp]:
    """The products of two activations that are to be integer."""
    return [op for op in block.ops if options.products and is_of_activations(op)]


def _is_wanted(op: Layer, options: QuantizeActivationsPass) -> bool:
    if options.skip and _name(op) in options.skip:
        return False
    if is_ternary(op):
        return True
    if options.weights is not None:
        return is_literal(weight_of(op).owner)
    return options.dense and not isinstance(op, tensor.MatmulOp)


def _last_products(products: Sequence[Product]) -> set[Operation]:
    """The products whose results reach no other product."""
    asked = set[Operation](products)
    reaching: set[Operation] = set()
    waiting = [value.owner for product in products for value in product.operands]
    while waiting:
        op = waiting.pop()
        if isinstance(op, Operation) and op not in reaching:
            reaching.add(op)
            waiting.extend(value.owner for value in op.operands)
    return asked - reaching


def _averages_before(product: Product, seen: set[SSAValue]) -> list[Operation]:
    """The means between `product` and the products or inputs before it, but for values `seen`."""
    averages: list[Operation] = []
    waiting = [input_of(product)]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, _AVERAGES):
            averages.append(value.owner)
        owner = value.owner
        if isinstance(owner, _AVERAGES) or has_integer_form(owner):
            waiting.extend(owner.operands)
    return averages


def _name(user: Operation) -> str:
    if isinstance(user, _AVERAGES):
        return user.name
    owner = user.operands[1].owner
    if isinstance(owner, tensor.ParameterOp | ternary.ParameterOp):
        return owner.key.data
    return user.name


def _quantized(value: SSAValue) -> tensor.DequantizeOp | None:
    """The op behind a value that is on a grid of at most 8 bits already, one scale a tensor."""
    owner = value.owner
    if isinstance(owner, tensor.ConvertOp):
        owner = owner.operand.owner
    if not isinstance(owner, tensor.DequantizeOp):
        return None
    scalar = all(not tensor_type(v).get_shape() for v in (owner.scale, owner.zero_point))
    known = is_literal(owner.scale.owner) and is_literal(owner.zero_point.owner)
    return owner if scalar and known and tensor_type(owner.input).element_type == i8 else None


def _insert_pair(module: ModuleOp, block: Block, value: SSAValue, grid: Quantization) -> None:
    """Put `value` on a grid: all its users get the dequantised value."""
    owner = value.owner
    anchor = owner.next_op if isinstance(owner, Operation) else block.first_op
    assert anchor is not None
    users = list(value.uses)
    source = owner if isinstance(owner, Operation) else users[0].operation
    element = tensor_type(value).element_type
    scale = literal(module, "scale", np.array(grid.scale, np.float32), TensorType(f32, []))
    zero = literal(module, "zero", np.array(grid.zero_point, np.int8), TensorType(i8, []))
    ops: list[Operation] = [scale, zero]
    narrow = value
    if element != f32:
        ops.append(convert := tensor.ConvertOp(value, f32))
        narrow = convert.result
    quantized = tensor.QuantizeOp(narrow, scale, zero, low=grid.low, high=grid.high)
    restored = tensor.DequantizeOp(quantized, scale, zero)
    ops += [quantized, restored]
    result = restored.result
    if element != f32:
        ops.append(convert := tensor.ConvertOp(restored, element))
        result = convert.result
    for op in ops:
        insert_before(anchor, op, source)
    if value.name_hint:
        scale.result.name_hint = f"{value.name_hint}_scale"
        quantized.result.name_hint = f"{value.name_hint}_q"
        restored.result.name_hint = f"{value.name_hint}_dq"
    for use in users:
        use.operation.operands[use.index] = result


def _make_integer(module: ModuleOp, product: Product, weights: int | None, last: bool) -> None:
    """Feed a product the integers its input comes from; scale, bias and the rest follow it."""
    restored = _quantized(input_of(product))
    if restored is None:
        return
    if isinstance(product, TernaryLayer):
        rewriting = IntegerProduct(module, product)
    elif weights is not None:
        rewriting = DenseIntegerProduct(module, product, weights, shared=last)
    else:
        return
    scale, zero = literal_value(restored.scale), literal_value(restored.zero_point)
    assert scale is not None and zero is not None
    accumulated = rewriting.sums(restored.input, int(zero))
    replace_results(product, [rewriting.followed(accumulated, float(scale), int(zero))])
