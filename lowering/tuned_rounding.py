"""Levels, scales and biases of a rounded program, tuned so that it gives what the float one gives.

Each layer was rounded so that its own sums stay near (`passes.round_weights`). Here all layers
learn together, on the same samples and without labels: levels are rounded where they are used, with
gradients that go straight through (Bengio et al. 2013); what is made small is the divergence of the
results from those of the float program, and the squared error of what each layer gives (Li et al.
2021, BRECQ, reconstruct blocks so). PyTorch computes the gradients. Not here: training with labels
(`runtime.training`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from ..dialects import tensor
from ..dialects.inference import tensor_type
from ..dialects.parameters import Array
from ..ir.interpreter import entry_function
from ..ir.progress import tracked
from ..passes.analysis.compile_time import literal, literal_value
from ..passes.analysis.layers import PlainLayer, weight_of
from ..passes.analysis.replacement import insert_before
from ..passes.calibration.observation import returning
from ..passes.round_weights.compensated_layers import RoundedWeights, replaced_by
from .targets import compile_to_target
from .to_pytorch.load import load_module

if TYPE_CHECKING:
    from torch import Tensor

EDGE = 0.45
"""How far from its level a weight may start, in steps: no level changes before it has learned."""


@dataclass(frozen=True)
class Tuning:
    """How long and how fast.

    Attributes:
        epochs: how often the samples are gone through.
        rate: of Adam for weights, in steps of their grids, and for logarithms of steps and biases;
            it falls to 0.
        layers: the weight of the squared errors of layers beside the divergence of the results.
        seed: of the order of samples.
    """

    epochs: int = 30
    rate: float = 2e-3
    layers: float = 1.0
    seed: int = 0


def has_torch() -> bool:
    """Whether PyTorch is installed, without which nothing is tuned."""
    return find_spec("torch") is not None


def tuned(
    program: ModuleOp,
    function: str,
    rounding: Mapping[PlainLayer, RoundedWeights],
    batches: Sequence[Sequence[Array]],
    tuning: Tuning,
    *,
    progress: bool = False,
) -> list[RoundedWeights]:
    """What the layers of `rounding` get after tuning, in order.

    Args:
        program: the float program, which stays as it is.
        function: its function.
        rounding: layers of it with what they were rounded to, biases included.
        batches: samples, each with one array an argument of the function.
        tuning: how long.
        progress: show a bar on stderr when it is a terminal.

    Raises:
        BackendError: PyTorch is missing.
    """
    import torch

    outputs = _results(program, function, list(rounding))
    teacher = load_module(compile_to_target(outputs, "pytorch"))
    values: dict[SSAValue, SSAValue] = {}
    copied = program.clone(values)
    grids: list[_Grid] = []
    for number, (layer, rounded) in enumerate(rounding.items()):
        op = values[layer.result].owner
        assert isinstance(op, PlainLayer)
        grids.append(_Grid(copied, op, rounded, f"tuned{number}"))
    outputs = _results(copied, function, [grid.layer for grid in grids])
    student = load_module(compile_to_target(outputs, "pytorch"))
    steps = [grid.levels for grid in grids]
    rest = [value for grid in grids for value in (grid.log_scale, grid.bias)]
    optimiser = torch.optim.Adam([{"params": steps}, {"params": rest}], lr=tuning.rate)
    total = tuning.epochs * len(batches)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(total, 1))
    order = np.random.default_rng(tuning.seed)
    for _ in tracked(range(tuning.epochs), "Tuning", shown=progress):
        for number in order.permutation(len(batches)):
            batch = [torch.from_numpy(array) for array in batches[number]]
            with torch.no_grad():
                wanted = teacher(*batch)
            parts = {key: value for grid in grids for key, value in grid.parameters().items()}
            found = torch.func.functional_call(student, parts, tuple(batch))
            optimiser.zero_grad()
            _loss(found, wanted, tuning.layers).backward()
            optimiser.step()
            schedule.step()
    return [grid.rounded() for grid in grids]


def _results(program: ModuleOp, function: str, layers: Sequence[Operation]) -> ModuleOp:
    """A program that gives the first result of `program`, and those of its layers."""
    entry = entry_function(program, function)
    end = entry.body.block.last_op
    assert end is not None
    return returning(program, entry, [end.operands[0], *(op.results[0] for op in layers)])


def _loss(found: Sequence[Tensor], wanted: Sequence[Tensor], share: float) -> Tensor:
    """The divergence of the first results, in nats a sample, and the error of the others."""
    from torch.nn import functional

    logs = [functional.log_softmax(side[0], dim=-1) for side in (found, wanted)]
    lost = functional.kl_div(*logs, log_target=True, reduction="batchmean")
    errors = [
        (a - b).square().mean() / b.var().clamp_min(1e-12)
        for a, b in zip(found[1:], wanted[1:], strict=True)
    ]
    return lost + share * sum(errors, lost.new_zeros(())) / max(len(errors), 1)


class _Grid:
    """The weight and the bias of a layer while they learn.

    Args:
        module: holds the layer, and gets it with parameters for both.
        layer: a copy of the float one.
        rounded: what it starts from.
        name: of both, before a dot.
    """

    def __init__(
        self, module: ModuleOp, layer: PlainLayer, rounded: RoundedWeights, name: str
    ) -> None:
        import torch

        self.start = rounded
        weight = literal_value(weight_of(layer))
        assert weight is not None
        scale = rounded.along(layer)
        most, levels = rounded.most, rounded.levels.astype(np.float32)
        ratio = weight / np.where(scale == 0, 1, scale)
        low = np.where(levels > -most, levels - EDGE, -most - EDGE)
        high = np.where(levels < most, levels + EDGE, most + EDGE)
        self.levels = torch.tensor(np.clip(ratio, low, high, dtype=np.float32), requires_grad=True)
        self.log_scale = torch.tensor(np.log(np.maximum(scale, 1e-30)), requires_grad=True)
        bias = np.zeros(rounded.scale.shape, scale.dtype) if rounded.bias is None else rounded.bias
        self.bias = torch.tensor(bias, requires_grad=True)
        self.keys: list[str] = []
        values: list[SSAValue] = []
        for part, array in (("weight", rounded.dense(layer)), ("bias", bias)):
            type = TensorType(tensor_type(layer.result).element_type, array.shape)
            parameter = literal(module, f"{name}.{part}", array, type, keep_name=True)
            insert_before(layer, parameter)
            assert isinstance(parameter, tensor.ParameterOp)
            self.keys.append(parameter.key.data)
            values.append(parameter.result)
        self.layer = replaced_by(layer, values[:1], values[1])

    def parameters(self) -> dict[str, Tensor]:
        """The weight on its grid, and the bias, by key."""
        held = self.levels.clamp(-self.start.most, self.start.most)
        levels = held + (held.round() - held).detach()
        return dict(zip(self.keys, (levels * self.log_scale.exp(), self.bias), strict=True))

    def rounded(self) -> RoundedWeights:
        """What was learned."""
        import torch

        with torch.no_grad():
            held = self.levels.clamp(-self.start.most, self.start.most).round()
            scale = self.log_scale.exp().reshape(-1)
        return replace(
            self.start,
            levels=held.numpy().astype(np.int8),
            scale=scale.numpy().astype(self.start.scale.dtype),
            bias=self.bias.detach().numpy(),
        )
