"""Layers of a float program made ternary one after the other, each on what those before it give.

The program runs on samples twice, side by side: as it was, and with the layers that are ternary
already. At each layer to ternarize, the inputs of the second run and the results of the first one
say what its trits, scales and bias are to be (see `compensated_rounding`); the layer is replaced,
and both runs go on. What no later op needs is dropped, but of each value that is still needed, both
forms are kept for all samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

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
from ..analysis.compile_time import compile_time_values, literal
from ..analysis.layers import PlainLayer, as_ternary, input_of, weight_of
from ..analysis.replacement import insert_before, replace
from .compensated_rounding import Compensation, Floats, Moments, rounded

ROW_BYTES = 1 << 26
"""Windows of a convolution are copied for at most this many bytes at a time."""


@dataclass
class Plan:
    """What to make ternary.

    Attributes:
        layers: the layers to replace, with the key of the weight of each.
        compensation: how hard to look for trits.
        correct_bias: give each layer the bias with which its mean results are the float ones.
    """

    layers: Mapping[PlainLayer, str]
    compensation: Compensation = field(default_factory=Compensation)
    correct_bias: bool = True


@dataclass(frozen=True)
class TernaryWeights:
    """What a layer got: trits in the shape of its weight, a scale and a bias for each channel."""

    trits: Array
    scale: Array
    bias: Array | None


def compensate(
    module: ModuleOp,
    function: FuncOp,
    plan: Plan,
    batches: Iterable[Sequence[Array]],
    *,
    progress: bool = True,
) -> list[tuple[str, TernaryWeights]]:
    """Make layers of `function` ternary, in place; what each got, with the key of its weight.

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
    """Both runs: `before` has the float values, `after` those of the ternary program.

    A value that is equal in both has the same list in both.
    """

    def __init__(self, module: ModuleOp, plan: Plan, batches: Sequence[Sequence[Array]]) -> None:
        self.module = module
        self.plan = plan
        self.batches = batches
        self.before: dict[SSAValue, list[Array]] = {}
        self.after: dict[SSAValue, list[Array]] = {}
        self.shared: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}
        self.found: list[tuple[str, TernaryWeights]] = []

    def run(self, block: Block, *, progress: bool) -> None:
        """Evaluate op by op, and replace the layers of the plan."""
        for argument, arrays in zip(block.args, zip(*self.batches, strict=True), strict=True):
            self.before[argument] = self.after[argument] = list(arrays)
        ops = [op for op in block.ops if not isinstance(op, ReturnOp)]
        known = compile_time_values(ops)
        last = {value: op for op in ops for value in op.operands}
        for op in tracked(ops, "Ternarizing", shown=progress):
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
        """Put a ternary layer in the place of a float one; the results of both."""
        old, weight, x = layer.result, weight_of(layer), input_of(layer)
        element, values = tensor_type(old).element_type, self.before[weight][0]
        wanted = self.before.pop(old)
        moments = _moments(layer, values.shape, self.after[x], wanted)
        if not np.isfinite(moments.products).all():
            raise PassError(error_at(layer, "gets or gives infinite values or NaN on the samples"))
        matrix = _matrix(layer, values)
        exact = self.after[x] is self.before[x]
        if weight not in self.shared:
            self._round(layer, matrix, moments, exact)
        trits, scale = self.shared[weight]
        approximate = self._approximate(layer, trits, scale)
        bias = None if isinstance(layer, tensor.MatmulOp) else layer.bias
        if self.plan.correct_bias:
            fixed = np.zeros(approximate.shape[:2]) if bias is None else self.before[bias][0]
            shift = _shift(matrix, approximate, moments, fixed if exact else None)
            key = f"{self.plan.layers[layer]}.bias"
            bias = self._literal(layer, key, shift.astype(numpy_dtype(element)), element)
        got = TernaryWeights(
            self.after[trits][0],
            self.after[scale][0],
            None if bias is None else self.after[bias][0],
        )
        self.found.append((self.plan.layers[layer], got))
        new = as_ternary(layer, trits, scale, bias)
        replace(layer, new)
        self.before[new.results[0]] = wanted
        self.after[new.results[0]] = self._evaluated(new, self.after)[0]
        return old, new.results[0]

    def _round(self, layer: PlainLayer, matrix: Array, moments: Moments, exact: bool) -> None:
        """Find trits and scale of the weight of `layer`, and put them before it."""
        weight = weight_of(layer)
        fixed = None if isinstance(layer, tensor.MatmulOp) else layer.bias
        biases = np.zeros(matrix.shape[:2])
        if fixed is not None:
            biases += self.before[fixed][0].reshape(biases.shape)
        trits: list[Array] = []
        scales: list[Array] = []
        for group, rows in enumerate(matrix):
            hessian, products = moments.of_group(group, centred=self.plan.correct_bias)
            if not self.plan.correct_bias:
                products = products - np.outer(biases[group], moments.means()[0][group])
            candidates = rounded(rows, hessian, None if exact else products, self.plan.compensation)
            trits.append(candidates[0])
            scales.append(candidates[1])
        shape, element = tensor_type(weight).get_shape(), tensor_type(weight).element_type
        key = self.plan.layers[layer]
        self.shared[weight] = (
            self._literal(layer, f"{key}.trits", _weight(layer, np.stack(trits), shape), trit),
            self._literal(
                layer,
                f"{key}.scale",
                np.concatenate(scales).astype(numpy_dtype(element)),
                element,
            ),
        )

    def _approximate(self, layer: PlainLayer, trits: SSAValue, scale: SSAValue) -> Floats:
        """The weight that the ternary layer has, as `_matrix` gives it."""
        matrix = _matrix(layer, self.after[trits][0]).astype(np.float64)
        scales = self.after[scale][0].astype(np.float64)
        return matrix * scales.reshape(*matrix.shape[:2], 1)

    def _literal(self, layer: PlainLayer, key: str, array: Array, element: Attribute) -> SSAValue:
        """A new constant or parameter before `layer`, known in both runs."""
        array = np.ascontiguousarray(array)
        constant = literal(self.module, key, array, TensorType(element, array.shape))
        insert_before(layer, constant)
        self.before[constant.result] = self.after[constant.result] = [array] * len(self.batches)
        return constant.result


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
    for batch, wanted in zip(inputs, results, strict=True):
        for rows, targets in _rows(layer, shape, batch, wanted):
            if moments is None:
                moments = Moments(len(rows), rows.shape[2], targets.shape[2])
            moments.add(rows, targets)
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
