"""Layers of a float program on few levels, one after the other, each on what those before it give.

The program runs on samples twice, side by side: as it was, and with the layers that are rounded
already. At each layer to round, the inputs of the second run and the results of the first one say
what its levels, scales and bias are to be (see `compensated_rounding`); the layer is replaced, by a
ternary one where its levels are trits, and both runs go on. What no later op needs is dropped, but
of each value that is still needed, both forms are kept for all samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_changes

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from ...dialects import interpret, tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.interpret import check_inputs
from ...dialects.parameters import Array
from ...dialects.tensor.interpret_linear import conv_windows, window_rows
from ...dialects.ternary.types import trit
from ...ir.errors import PassError
from ...ir.locations import error_at
from ...ir.progress import tracked
from ..analysis.compile_time import Literal, compile_time_values, literal, literal_value
from ..analysis.layers import (
    PlainLayer,
    as_ternary,
    input_of,
    is_conv,
    options_of,
    rebuilt,
    weight_of,
)
from ..analysis.replacement import insert_before, replace
from .compensated_rounding import Compensation, Floats, Moments, rounded

ROW_BYTES = 1 << 26
"""Windows of a convolution are copied for at most this many bytes at a time."""

MOST_ROWS = 1 << 17
"""Of a convolution with more windows on all samples, every second, third … one is looked at."""


@dataclass
class Plan:
    """What to round.

    Attributes:
        layers: the layers to replace, with the key of the weight of each.
        compensation: how hard to look for levels, and how many there are.
        correct_bias: give each layer the bias with which its mean results are the float ones.
        most: the largest level, of layers that have others.
        alone: round each layer as if no other were, for what each costs.
    """

    layers: Mapping[PlainLayer, str]
    compensation: Compensation = field(default_factory=Compensation)
    correct_bias: bool = True
    most: Mapping[PlainLayer, int] = field(default_factory=dict[PlainLayer, int])
    alone: bool = False


@dataclass(frozen=True)
class RoundedWeights:
    """What a layer got: levels in the shape of its weight, a scale and a bias for each channel.

    Levels are trits where `most`, the largest that there may be, is 1.
    """

    levels: Array
    scale: Array
    bias: Array | None
    most: int = 1

    def dense(self, layer: PlainLayer) -> Array:
        """The weight that levels and scales stand for, in the type of the scales."""
        return self.levels * self.along(layer)

    def along(self, layer: PlainLayer) -> Array:
        """The scales, in a shape to be multiplied by the weight of a layer."""
        rank = self.levels.ndim
        return self.scale.reshape(-1, *[1] * (rank - 1)) if is_conv(layer) else self.scale


def compensate(
    module: ModuleOp,
    function: FuncOp,
    plan: Plan,
    batches: Iterable[Sequence[Array]],
    *,
    progress: bool = True,
) -> list[tuple[str, RoundedWeights]]:
    """Round layers of `function`, in place; what each got, with the key of its weight.

    Args:
        module: the program, with weights.
        function: its function; of one block.
        plan: which layers, and how.
        batches: samples, each with one array an argument of the function; all are kept at once.
        progress: show a bar on stderr when it is a terminal.

    Raises:
        PassError: there are no samples; a layer stands in a region or in another function; a
            value becomes infinite or NaN.
    """
    block = function.body.block
    outside = [op for op in plan.layers if op.parent is not block]
    if outside:
        raise PassError(
            error_at(
                outside[0],
                f"stands outside the body of '{function.sym_name.data}', where its inputs are not "
                "known: inline what is around it, or leave its weight out with 'skip'",
            )
        )
    checked = [check_inputs(function, batch) for batch in batches]
    if not checked:
        raise PassError("calibration needs at least one sample")
    walk = _Walk(module, plan, checked)
    walk.run(block, progress=progress)
    return walk.found


class _Walk:
    """Both runs: `before` has the float values, `after` those of the rounded program.

    A value that is equal in both has the same list in both.
    """

    def __init__(self, module: ModuleOp, plan: Plan, batches: Sequence[Sequence[Array]]) -> None:
        self.module = module
        self.plan = plan
        self.batches = batches
        self.before: dict[SSAValue, list[Array]] = {}
        self.after: dict[SSAValue, list[Array]] = {}
        self.shared: dict[SSAValue, tuple[RoundedWeights, Sequence[SSAValue]]] = {}
        self.found: list[tuple[str, RoundedWeights]] = []

    def run(self, block: Block, *, progress: bool) -> None:
        """Evaluate op by op, and replace the layers of the plan."""
        for argument, arrays in zip(block.args, zip(*self.batches, strict=True), strict=True):
            self.before[argument] = self.after[argument] = list(arrays)
        ops = [op for op in block.ops if not isinstance(op, ReturnOp)]
        known = compile_time_values(ops)
        last = {value: op for op in ops for value in op.operands}
        for op in tracked(ops, "Rounding weights", shown=progress):
            operands, constant = list(op.operands), all(r in known for r in op.results)
            before = self._evaluated(op, self.before, constant)
            self.before.update(zip(op.results, before, strict=True))
            if isinstance(op, PlainLayer) and op in self.plan.layers:
                old, new = self._replace(op)
                if old in last:
                    last[new] = last.pop(old)
            elif all(self.after[value] is self.before[value] for value in operands):
                self.after.update(zip(op.results, before, strict=True))
            else:
                after = self._evaluated(op, self.after, constant)
                self.after.update(zip(op.results, after, strict=True))
            for value in operands:
                if last.get(value) is op:
                    self.before.pop(value, None)
                    self.after.pop(value, None)

    def _evaluated(
        self, op: Operation, values: Mapping[SSAValue, list[Array]], constant: bool = False
    ) -> list[list[Array]]:
        """The results of an op, each for all batches; what is constant is evaluated once."""
        count = len(self.batches)
        results: list[list[Array]] = [[] for _ in op.results]
        for number in range(1 if constant else count):
            arrays = [values[value][number] for value in op.operands]
            for column, array in zip(results, interpret.evaluate(op, arrays), strict=True):
                column.append(array)
        return [column * count for column in results] if constant else results

    def _replace(self, layer: PlainLayer) -> tuple[SSAValue, SSAValue]:
        """Put a rounded layer in the place of a float one; the results of both."""
        old, weight, x = layer.result, weight_of(layer), input_of(layer)
        element, values = tensor_type(old).element_type, self.before[weight][0]
        wanted = self.before.pop(old)
        targets = self._made_up(old, wanted)
        moments = _moments(layer, values.shape, self.after[x], targets)
        if not np.isfinite(moments.products).all():
            raise PassError(error_at(layer, "gets or gives infinite values or NaN on the samples"))
        matrix = _matrix(layer, values)
        exact = self.after[x] is self.before[x] and targets is wanted
        key = self.plan.layers[layer]
        if weight not in self.shared:
            got = self._rounded(layer, matrix, moments, exact)
            made = [self._inserted(layer, op) for op in literals(self.module, layer, key, got)]
            self.shared[weight] = got, made
        got, values = self.shared[weight]
        bias = None if isinstance(layer, tensor.MatmulOp) else layer.bias
        if self.plan.correct_bias:
            approximate = _matrix(layer, got.dense(layer)).astype(np.float64)
            fixed = np.zeros(approximate.shape[:2]) if bias is None else self.before[bias][0]
            shift = _shift(matrix, approximate, moments, fixed if exact else None)
            shift = np.ascontiguousarray(shift.astype(numpy_dtype(element)))
            type = TensorType(element, shift.shape)
            bias = self._inserted(layer, literal(self.module, f"{key}.bias", shift, type))
        biases = None if bias is None else self.after[bias][0]
        self.found.append((key, with_changes(got, bias=biases)))
        new = replaced_by(layer, values, bias)
        self.before[new.results[0]] = wanted
        after = wanted if self.plan.alone else self._evaluated(new, self.after)[0]
        self.after[new.results[0]] = after
        return old, new.results[0]

    def _made_up(self, result: SSAValue, wanted: Sequence[Array]) -> Sequence[Array]:
        """What a layer should give so that a sum with the result of others is the float one.

        Of both branches of a residual block, the later one so makes up for the errors of the other.
        """
        uses = list(result.uses)
        if self.plan.alone or len(uses) != 1 or not isinstance(uses[0].operation, tensor.AddOp):
            return wanted
        other = uses[0].operation.operands[1 - uses[0].index]
        before, after = (values.get(other) for values in (self.before, self.after))
        if before is None or after is None or before is after or other.type != result.type:
            return wanted
        return [w + (b - a) for w, b, a in zip(wanted, before, after, strict=True)]

    def _rounded(
        self, layer: PlainLayer, matrix: Array, moments: Moments, exact: bool
    ) -> RoundedWeights:
        """Find levels and scales of the weight of `layer`."""
        fixed = None if isinstance(layer, tensor.MatmulOp) else layer.bias
        biases = np.zeros(matrix.shape[:2])
        if fixed is not None:
            biases += self.before[fixed][0].reshape(biases.shape)
        options = self.plan.compensation
        options = with_changes(options, most=self.plan.most.get(layer, options.most))
        parts: list[tuple[Array, Floats]] = []
        for group, rows in enumerate(matrix):
            hessian, products = moments.of_group(group, centred=self.plan.correct_bias)
            if not self.plan.correct_bias:
                products = products - np.outer(biases[group], moments.means()[0][group])
            parts.append(rounded(rows, hessian, None if exact else products, options))
        return _joined(layer, parts, options.most)

    def _inserted(self, layer: PlainLayer, constant: Literal) -> SSAValue:
        """A new constant or parameter before `layer`, known in both runs."""
        insert_before(layer, constant)
        value = constant.results[0]
        array = literal_value(value)
        assert array is not None
        self.before[value] = self.after[value] = [array] * len(self.batches)
        return value


def plain(layer: PlainLayer, weight: Array, most: int) -> RoundedWeights:
    """The weight of a layer with each number rounded by itself, for the best scale of a channel."""
    options = Compensation(sweeps=0, most=most)
    matrix = _matrix(layer, weight)
    one = np.eye(matrix.shape[2])
    return _joined(layer, [rounded(rows, one, None, options) for rows in matrix], most)


def put(module: ModuleOp, layer: PlainLayer, key: str, weights: RoundedWeights) -> Operation:
    """Put a rounded layer in the place of a float one; its bias stays where there is no other."""
    made = literals(module, layer, key, weights)
    for op in made:
        insert_before(layer, op)
    bias = options_of(layer).get("bias")
    if weights.bias is not None:
        type = TensorType(tensor_type(layer.result).element_type, weights.bias.shape)
        insert_before(layer, op := literal(module, f"{key}.bias", weights.bias, type))
        bias = op.results[0]
    return replaced_by(layer, [op.results[0] for op in made], bias)


def literals(
    module: ModuleOp, layer: PlainLayer, key: str, weights: RoundedWeights
) -> Sequence[Literal]:
    """Trits and their scales, or the weight that other levels stand for; not inserted."""
    element = tensor_type(weight_of(layer)).element_type
    if weights.most > 1:
        dense = np.ascontiguousarray(weights.dense(layer))
        type = TensorType(element, dense.shape)
        return [literal(module, f"{key}.rounded", dense, type, keep_name=True)]
    return [
        literal(module, f"{key}.trits", weights.levels, TensorType(trit, weights.levels.shape)),
        literal(module, f"{key}.scale", weights.scale, TensorType(element, weights.scale.shape)),
    ]


def _joined(layer: PlainLayer, parts: Sequence[tuple[Array, Floats]], most: int) -> RoundedWeights:
    """What the groups of a layer got."""
    type = tensor_type(weight_of(layer))
    levels = np.stack([levels for levels, _ in parts])
    scale = np.concatenate([scale for _, scale in parts])
    shaped = np.ascontiguousarray(_weight(layer, levels, type.get_shape()))
    return RoundedWeights(shaped, scale.astype(numpy_dtype(type.element_type)), None, most)


def replaced_by(
    layer: PlainLayer, literals: Sequence[SSAValue], bias: SSAValue | None
) -> Operation:
    """Put a layer with a weight, or with trits and scales, in the place of another."""
    if len(literals) > 1:
        new = as_ternary(layer, literals[0], literals[1], bias)
    elif bias is None:
        new = rebuilt(layer, weight=literals[0])
    else:
        new = rebuilt(layer, weight=literals[0], bias=bias)
    replace(layer, new)
    return new


def _matrix(layer: PlainLayer, weight: Array) -> Array:
    """The weight of a layer as rows of outputs: [groups, outs, ins]."""
    if isinstance(layer, tensor.ConvOp):
        groups = layer.groups.value.data
        return weight.reshape(groups, weight.shape[0] // groups, -1)
    return weight.T[None]


def _weight(layer: PlainLayer, matrix: Array, shape: Sequence[int]) -> Array:
    """What `_matrix` gives, as the weight of the layer."""
    return matrix.reshape(shape) if isinstance(layer, tensor.ConvOp) else matrix[0].T


def _moments(
    layer: PlainLayer, shape: Sequence[int], inputs: Sequence[Array], results: Sequence[Array]
) -> Moments:
    """The moments of the inputs and results of a layer, whose weight has this shape."""
    moments: Moments | None = None
    places = int(np.prod(results[0].shape[2:])) if isinstance(layer, tensor.ConvOp) else 1
    step = -(-places * sum(map(len, inputs)) // MOST_ROWS) if places > 1 else 1
    while math.gcd(step, places) > 1:
        step += 1
    first = 0
    for batch, wanted in zip(inputs, results, strict=True):
        for rows, targets in _rows(layer, shape, batch, wanted):
            if moments is None:
                moments = Moments(len(rows), rows.shape[2], targets.shape[2])
            moments.add(rows[:, first::step], targets[:, first::step])
            first = (first - rows.shape[1]) % step
    if moments is None:
        raise PassError(error_at(layer, "gets no inputs on the samples"))
    return moments


def _rows(
    layer: PlainLayer, shape: Sequence[int], inputs: Array, results: Array
) -> Iterator[tuple[Array, Array]]:
    """What is multiplied [groups, rows, ins], and what comes of it [groups, rows, outs]."""
    if not isinstance(layer, tensor.ConvOp):
        yield inputs.reshape(1, -1, shape[0]), results.reshape(1, -1, shape[1])
        return
    windows = conv_windows(
        inputs,
        shape[2:],
        layer.strides.get_values(),
        layer.padding.get_values(),
        layer.dilation.get_values(),
    )
    groups = layer.groups.value.data
    images = max(1, ROW_BYTES // max(1, 8 * int(np.prod(windows.shape[1:]))))
    for start in range(0, len(inputs), images):
        part = results[start : start + images]
        targets = part.reshape(len(part), groups, shape[0] // groups, -1).transpose(1, 0, 3, 2)
        rows = window_rows(windows[start : start + images], groups)
        yield rows, targets.reshape(groups, -1, targets.shape[3])


def _shift(matrix: Array, approximate: Floats, moments: Moments, bias: Array | None) -> Floats:
    """The bias [outs] with which the mean results are those wanted.

    Args:
        matrix: the weight, [groups, outs, ins].
        approximate: the one in its place.
        moments: of the inputs the layer really sees.
        bias: the layer's, where these are the inputs that it saw before too.
    """
    inputs, targets = moments.means()
    if bias is None:
        return (targets - np.einsum("goi,gi->go", approximate, inputs)).reshape(-1)
    moved = np.einsum("goi,gi->go", matrix.astype(np.float64) - approximate, inputs)
    return bias.astype(np.float64).reshape(-1) + moved.reshape(-1)
