"""Corrections of a converted program on sample inputs: biases, and the weights of its readout.

Both compare currents of the spiking program with the values of the float program. No label is
looked at and no weight is trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from ...dialects import interpret, spike, tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.interpret import run_module
from ...dialects.parameters import Array
from ...ir.interpreter import entry_function
from ..analysis.compile_time import literal, literal_value
from ..analysis.replacement import insert_before
from ..calibration.observation import returning
from .channels import channel_axis, is_synapse
from .converter import Converted
from .signals import Site

RIDGE = 1e-3
"""How much the weights of a readout are held at 1/T, as a share of the mean energy of a step."""


def correct(
    before: ModuleOp,
    values: Mapping[SSAValue, SSAValue],
    module: ModuleOp,
    converted: Converted,
    batches: Sequence[Sequence[Array]],
    *,
    bias: bool,
    weighted: bool,
    function: str = "forward",
) -> None:
    """Correct a converted program in place, from its inputs to its results.

    - `bias`: the mean over samples, time and places of each channel's current becomes that of the
      float program, layer by layer (Li et al. 2021, "A free lunch from ANN", bias shift).
    - `weighted`: the readout becomes Σ w[t]·current[t] + c with the w that is nearest to the float
      results by least squares: at a constant current, early spikes tell more than late ones.

    Args:
        before: the float program.
        values: the values of `before` by those that the converter replaced.
        module: the spiking program.
        converted: what the converter told about it.
        batches: samples, each with one array an argument of the function; all are kept at once.
        bias: whether to correct biases.
        weighted: whether to weight the readout over time.
        function: the function's name.
    """
    sites = [
        site
        for site in converted.sites
        if (site.decoded is not None or (bias and not _is_constant(site)))
        and site.original in values
    ]
    if not sites or not (bias or weighted):
        return
    wanted = [values[site.original] for site in sites]
    axes = [channel_axis(value) for value in wanted]
    reference = returning(before, entry_function(before, function), wanted)
    parts = [run_module(reference, batch, function) for batch in batches]
    targets = [np.concatenate(column) for column in zip(*parts, strict=True)]
    plan = {
        site.current: (site, target, axis)
        for site, target, axis in zip(sites, targets, axes, strict=True)
    }
    _Walk(module, plan, bias, weighted).run(entry_function(module, function), batches)


def _is_constant(site: Site) -> bool:
    return isinstance(site.current.owner, spike.EncodeOp)


class _Walk:
    """One run of a program on samples that corrects each site before it computes what follows."""

    def __init__(
        self,
        module: ModuleOp,
        plan: Mapping[SSAValue, tuple[Site, Array, int]],
        bias: bool,
        weighted: bool,
    ) -> None:
        self.module = module
        self.plan = plan
        self.bias = bias
        self.weighted = weighted
        self.values: dict[SSAValue, list[Array]] = {}
        self.count = 0
        self.behind: dict[SSAValue, tuple[SSAValue, Array]] = {}

    def run(self, function: Operation, batches: Sequence[Sequence[Array]]) -> None:
        """Evaluate op by op; what no later op needs is dropped."""
        block = function.regions[0].block
        for argument, arrays in zip(block.args, zip(*batches, strict=True), strict=True):
            self.values[argument] = list(arrays)
        self.count = len(batches)
        ops = list(block.ops)[:-1]
        last = {value: op for op in ops for value in op.operands}
        for op in ops:
            results: list[list[Array]] = [[] for _ in op.results]
            for number in range(self.count):
                inputs = [self.values[value][number] for value in op.operands]
                for column, array in zip(results, interpret.evaluate(op, inputs), strict=True):
                    column.append(array)
            self.values.update(zip(op.results, results, strict=True))
            for value in op.operands:
                if last.get(value) is op:
                    self.values.pop(value, None)
            for result in op.results:
                if result in self.plan:
                    self._correct(result, *self.plan[result])
                if result in self.behind:
                    added, shift = self.behind[result]
                    self.values[added] = [array + shift for array in self.values[result]]

    def _correct(self, current: SSAValue, site: Site, target: Array, axis: int) -> None:
        currents = np.concatenate(self.values[current], axis=1).astype(np.float64)
        if site.decoded is not None and self.weighted:
            self._weight(site, currents, target.astype(np.float64), axis)
        else:
            shift = _mean(target, axis) - _mean(currents.mean(axis=0), axis)
            self._shift(current, shift, axis)

    def _shift(self, current: SSAValue, shift: Array, axis: int) -> None:
        """Add `shift`, one number a channel, to a current, by the bias of its synapse if it can."""
        owner = current.owner
        element = tensor_type(current).element_type
        shaped = _along(shift, self.values[current][0].ndim - 1, axis).astype(numpy_dtype(element))
        if isinstance(owner, spike.LinearOp | spike.ConvOp) and is_synapse(owner):
            old = None if owner.bias is None else literal_value(owner.bias)
            if owner.bias is not None and old is not None:
                new = (old.astype(np.float64) + shift).astype(old.dtype)
                key = f"{owner.weight.name_hint or 'synapse'}.bias"
                constant = literal(self.module, key, new, tensor_type(owner.bias))
                insert_before(owner, constant, owner)
                index = list(owner.operands).index(owner.bias)
                owner.operands[index] = constant.result
                self.values[constant.result] = [new] * self.count
                # Added to the sums at hand too, rounded as the new bias rounds them.
                self.values[current] = [
                    with_other_bias(array, old, new, axis) for array in self.values[current]
                ]
                return
        added = self._after(current, shaped)
        self.values[added] = [array + shaped for array in self.values[current]]

    def _weight(self, site: Site, currents: Array, target: Array, axis: int) -> None:
        weights = readout_weights(currents, target, axis)
        steps = len(currents)
        element = tensor_type(site.current).element_type
        shape = [steps, *[1] * (currents.ndim - 1)]
        factors = (weights * steps).reshape(shape).astype(numpy_dtype(element))
        assert site.decoded is not None
        decode = site.decoded.owner
        assert isinstance(decode, spike.DecodeOp)
        constant = literal(self.module, "readout", factors, TensorType(element, shape), buffer=True)
        scaled = tensor.MulOp(site.current, constant)
        for op in (constant, scaled):
            insert_before(decode, op, decode)
        decode.operands[0] = scaled.result
        read = np.tensordot(weights, currents, 1)
        self.values[constant.result] = [factors] * self.count
        self.values[scaled.result] = [array * factors for array in self.values[site.current]]
        self._add(site.decoded, _mean(target, axis) - _mean(read, axis), axis)

    def _add(self, decoded: SSAValue, shift: Array, axis: int) -> None:
        type = tensor_type(decoded)
        shaped = _along(shift, type.get_num_dims(), axis).astype(numpy_dtype(type.element_type))
        self.behind[decoded] = self._after(decoded, shaped), shaped

    def _after(self, value: SSAValue, shaped: Array) -> SSAValue:
        """Put a sum with a constant behind `value`, for all its users; the sum."""
        owner = value.owner
        assert isinstance(owner, Operation)
        block = owner.parent
        assert block is not None
        element = tensor_type(value).element_type
        type = TensorType(element, shaped.shape)
        constant = literal(self.module, "shift", np.ascontiguousarray(shaped), type, buffer=True)
        users = list(value.uses)
        added = tensor.AddOp(value, constant)
        for op in (added, constant):
            op.location = owner.location
            block.insert_op_after(op, owner)
        for use in users:
            use.operation.operands[use.index] = added.result
        return added.result


def with_other_bias(sums: Array, old: Array, new: Array, axis: int) -> Array:
    """Sums [T, N, …] with the bias `old`, with the bias `new` instead."""
    difference = new.astype(np.float64) - old.astype(np.float64)
    return (sums + _along(difference, sums.ndim - 1, axis)).astype(sums.dtype)


def readout_weights(currents: Array, target: Array, axis: int) -> Array:
    """The w [T] for which Σ w[t]·currents[t] is nearest to `target`, up to a constant a channel.

    Args:
        currents: [T, N, …], f64.
        target: [N, …], f64.
        axis: the axis of the channels of `target`.
    """
    steps = len(currents)
    others = tuple(a for a in range(target.ndim) if a != axis)
    centred = currents - currents.mean(axis=tuple(a + 1 for a in others), keepdims=True)
    wanted = (target - target.mean(axis=others, keepdims=True)).reshape(-1)
    flat = centred.reshape(steps, -1)
    gram = flat @ flat.T
    held = RIDGE * float(np.trace(gram)) / steps
    if not held > 0:
        return np.full(steps, 1 / steps)
    linalg: Any = np.linalg
    weights: Array = linalg.solve(gram + held * np.eye(steps), flat @ wanted + held / steps)
    return weights


def _mean(values: Array, axis: int) -> Array:
    """The mean of each channel, f64."""
    others = tuple(a for a in range(values.ndim) if a != axis)
    return values.astype(np.float64).mean(axis=others)


def _along(vector: Array, rank: int, axis: int) -> Array:
    """One number a channel, to broadcast to a value of `rank` axes, or to it over time."""
    return vector.reshape([-1, *[1] * (rank - 1 - axis)])
