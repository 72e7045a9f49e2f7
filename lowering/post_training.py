"""Float programs to integer ones from samples: which layer gets how few bits.

Every layer gets the bits that are asked for; where the result is then too far from the float
program, the layers that lose most for what they save keep more of them, and where there is room in
a budget they do so too. What a layer costs is measured with that layer alone. Not here: how weights
are rounded (`ternarize.compensated_layers`), nor training (`training`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ..dialects.inference import tensor_type
from ..dialects.interpret import run_module
from ..dialects.parameters import Array
from ..dialects.registry import triton_context, verify_module
from ..dialects.shapes import element_count
from ..ir.errors import OptionError, did_you_mean
from ..ir.interpreter import entry_function
from ..passes.analysis.compile_time import literal_value
from ..passes.analysis.layers import PlainLayer, weight_of
from ..passes.calibration.observation import bind_samples
from ..passes.quantize_activations.quantize_activations import (
    QuantizeActivationsPass,
    calibrate,
    quantize,
    quantized_layers,
)
from ..passes.requantize.requantize import RequantizePass
from ..passes.ternarize.compensated_layers import (
    Plan,
    RoundedWeights,
    compensate,
    plain,
    put,
)
from .conversion import named_samples
from .engine import engine_of
from .held_out import HeldOut
from .models import Model, import_for
from .stages import apply_passes

BITS: Mapping[str, int] = {"int8": 8, "int4": 4, "ternary": 2}
"""What a layer may get, and the bits of a weight."""

MOST = {8: 64, 4: 7, 2: 1}
"""The largest level of weights of so many bits. Two of 64 times a byte fit 16 bits each, so that
processors without an instruction for dot products add pairs of them without saturation."""

_FLOAT = 32
_BEFORE = (
    "free-batch,drop-dynamic-rounding,fold-constants,fuse-linear,fold-constants,canonicalize,"
    "recognize-quantizers"
)
_MOST_CALIBRATING = 1000
"""The most samples that calibrate."""

_LEAST_GAIN = 1e-6
"""In nats a sample: layers that gain no more are not worth bits."""

_ALONE = 2
"""Batches of samples that say what a layer alone costs."""


@dataclass(frozen=True)
class LayerBits:
    """What a layer got.

    Attributes:
        key: of its weight.
        op: the name of the op.
        weights: how many there are.
        bits: of one of them, 32 where it stays a float.
        accuracy: with this layer alone as narrow as was asked, and
        divergence: that of the results from those of the float program, see `HeldOut.judged`.
        plain_accuracy, plain_divergence: the same with each of its weights rounded by itself.
    """

    key: str
    op: str
    weights: int
    bits: int
    accuracy: float
    divergence: float
    plain_accuracy: float
    plain_divergence: float


@dataclass(frozen=True)
class Quantized:
    """A program with few bits, and what it is worth.

    Attributes:
        module: the program.
        layers: in the order of the program.
        accuracy, before: the share of right classes, or R², on samples that calibrated nothing, of
            this program and of the float one.
        divergence: of the results from those of the float program, see `HeldOut.judged`.
        measured: on how many samples.
        share: what `accuracy` is: `accuracy` by labels, `agreement` with the float program or `R²`.
    """

    module: ModuleOp = field(repr=False)
    layers: Sequence[LayerBits]
    accuracy: float
    before: float
    divergence: float
    measured: int
    share: str

    def stored(self) -> tuple[float, float]:
        """Bytes of the weights of all layers: in float, and as they are."""
        count = sum(layer.weights for layer in self.layers)
        return count * _FLOAT / 8, sum(layer.weights * layer.bits / 8 for layer in self.layers)


def quantize_program(
    program: Model,
    samples: Array | Sequence[Array] | Mapping[str, Array],
    bits: str = "int8",
    *,
    labels: Array | None = None,
    drop: float = 0.01,
    budget: float | None = None,
    keep: Collection[str] = (),
    observer: str = "minmax",
    measure: str | None = None,
    function: str = "forward",
) -> Quantized:
    """A program of integers for a float one, without labels.

    Activations get 8 bits. Levels and scales of a layer are those that keep its sums near the float
    ones behind the layers before it (`ternarize.compensated_layers`). Biases keep the mean of each
    channel. If the result then loses more than `drop`, layers keep more bits, 8 where trits or 4
    bits were asked for and floats where 8 were: those first that alone lose most a weight. With a
    `budget` in the place of `drop`, layers get 4 or 8 bits one after the other, those first that
    gain most a bit, as long as there is room.

    Args:
        program: the float program, with weights, which stays as it is; or what it is imported from,
            see `models.import_model`.
        samples: inputs [count, …]: an array for the one argument, one for each, or by name. The
            last fourth, 1000 at most, judges; of the others the first 1000 calibrate.
        bits: of weights.
        labels: the classes of the samples; without them the float program is right.
        drop: the most accuracy to lose, as a share of the samples that judge; or the most R².
        budget: the most bits of a weight, on average over all layers, whatever is lost.
        keep: keys of weights whose layers keep more bits in any case.
        observer: how ranges of activations follow from samples, see `calibrate`.
        measure: how results are judged: `classes`, or `signal`, by how much of their variance is
            kept. By default `classes` where there are labels or the first result is [samples, two
            or more], see `HeldOut`.
        function: the function to change.

    Raises:
        OptionError: the samples do not fit, a key is none, there is no layer to quantise, or no
            choice loses as little as was asked.
        PassError: an activation is not finite on the samples.
    """
    if bits not in BITS:
        raise OptionError(f"expected bits one of {', '.join(BITS)}, got '{bits}'")
    if not 0 <= drop <= 1:
        raise OptionError(f"expected a share of samples from 0 to 1 to lose, got {drop}")
    if budget is not None and not budget >= BITS[bits]:
        raise OptionError(f"expected a budget of {BITS[bits]} bits or more a weight, got {budget}")
    named = isinstance(samples, Mapping)
    examples = samples if named else [samples] if not isinstance(samples, Sequence) else samples
    module = import_for(program, examples).clone()
    apply_passes(module, _BEFORE)
    arrays = named_samples(samples, module, function)
    held = HeldOut(module, arrays, labels, function, measure)
    search = _Search(module, held, bits, observer)
    search.check(keep)
    return search.within(budget, keep) if budget is not None else search.chosen(drop, keep)


class _Search:
    """Choices of bits for one program."""

    def __init__(
        self,
        module: ModuleOp,
        held: HeldOut,
        bits: str,
        observer: str,
    ) -> None:
        self.module, self.bits, self.held = module, BITS[bits], held
        self.function = held.function
        self.options = QuantizeActivationsPass(
            weights=8,
            signed=False,
            observer=observer,
            correct_bias=True,
            comparable=False,
            function=held.function,
        )
        self.layers = quantized_layers(module, self.options)
        if not self.layers:
            raise OptionError("the program has no layer with float weights to quantise")
        self.counts = {key: self._count(layer) for layer, key in self.layers.items()}
        self.before, _ = self._judged(module)

    def check(self, keep: Collection[str]) -> None:
        """Refuse keys that no layer has."""
        for key in keep:
            if key not in self.counts:
                hint = did_you_mean(key, self.counts) or f"; there are {', '.join(self.counts)}"
                raise OptionError(f"no layer has the weight '{key}'{hint}")

    def chosen(self, drop: float, keep: Collection[str]) -> Quantized:
        """The choice with the fewest bits that loses little enough.

        Raises:
            OptionError: there is none.
        """
        alone = self._alone(self.bits)
        free = [key for key in self.counts if key not in keep]
        free.sort(key=lambda key: -alone[key][1] / self.counts[key])
        tried: dict[int, Quantized] = {}

        def fits(count: int) -> bool:
            wide = {*keep, *free[:count]}
            widths = {k: self._wide if k in wide else self.bits for k in self.counts}
            tried[count] = self._quantized(widths, alone)
            return tried[count].accuracy >= self.before - drop

        few = 0
        if not fits(0):
            low, few = 0, len(free)
            if not fits(few):
                best = max(done.accuracy for done in tried.values())
                least = self.before - drop
                raise OptionError(
                    f"no choice of bits has the {self.held.share} {least:.4f} that is asked for: "
                    f"the float program has {self.before:.4f}, the best choice {best:.4f}; "
                    "allow a larger drop, or train with quantisation"
                )
            while few - low > 1:
                middle = (low + few) // 2
                low, few = (low, middle) if fits(middle) else (middle, few)
        return tried[few]

    def within(self, budget: float, keep: Collection[str]) -> Quantized:
        """The choice that alone loses least with at most so many bits a weight.

        Raises:
            OptionError: the layers that are kept leave no room.
        """
        ladder = [bits for bits in sorted(MOST) if bits >= self.bits]
        costs = {bits: self._alone(bits) for bits in ladder}
        widths = {k: self._wide if k in keep else self.bits for k in self.counts}
        room = budget * sum(self.counts.values())
        room -= sum(self.counts[key] * bits for key, bits in widths.items())
        if room < 0:
            raise OptionError(f"the layers that are kept take more than {budget:g} bits a weight")
        while True:
            steps: list[tuple[float, str, int]] = []
            for key, bits in widths.items():
                for wider in ladder:
                    price = (wider - bits) * self.counts[key]
                    gain = costs[bits][key][1] - costs[wider][key][1] if price > 0 else 0.0
                    if gain > _LEAST_GAIN and price <= room:
                        steps.append((gain / price, key, wider))
            if not steps:
                return self._quantized(widths, costs[self.bits])
            _, key, wider = max(steps)
            room -= (wider - widths[key]) * self.counts[key]
            widths[key] = wider

    @property
    def _wide(self) -> int:
        """Bits of weights that are kept."""
        return _FLOAT if self.bits == 8 else 8

    def _count(self, layer: PlainLayer) -> int:
        return element_count(tensor_type(weight_of(layer)).get_shape()) or 0

    def _alone(self, bits: int) -> dict[str, tuple[float, float, float, float]]:
        """What each layer costs alone on so many bits, and with its weights rounded plainly."""
        found = self._rounded(dict.fromkeys(self.counts, bits), alone=True)
        costs: dict[str, tuple[float, float, float, float]] = {}
        for layer, key in self.layers.items():
            weight = literal_value(weight_of(layer))
            assert weight is not None
            by_itself = plain(layer, weight, MOST[bits])
            both = [{op: w} for op, w in ((layer, found[layer]), (layer, by_itself))]
            judged = [self._judged(self._with(rounding), _ALONE) for rounding in both]
            costs[key] = *judged[0], *judged[1]
        return costs

    def _rounded(
        self, widths: Mapping[str, int], *, alone: bool = False
    ) -> dict[PlainLayer, RoundedWeights]:
        """What layers get with so many bits, by what their inputs are; floats stay as they are."""
        values: dict[SSAValue, SSAValue] = {}
        module = self.module.clone(values)
        narrow = {op: key for op, key in self.layers.items() if widths[key] < _FLOAT}
        copies: dict[PlainLayer, str] = {}
        for op, key in narrow.items():
            copy = values[op.result].owner
            assert isinstance(copy, PlainLayer)
            copies[copy] = key
        most = {op: MOST[widths[key]] for op, key in copies.items()}
        entry = entry_function(module, self.function)
        plan = Plan(copies, most=most, alone=alone)
        found = compensate(module, entry, plan, self._batches(), progress=False)
        return {op: weights for op, (_, weights) in zip(narrow, found, strict=True)}

    def _with(self, rounding: Mapping[PlainLayer, RoundedWeights]) -> ModuleOp:
        """The float program with some layers rounded."""
        values: dict[SSAValue, SSAValue] = {}
        module = self.module.clone(values)
        for layer, weights in rounding.items():
            copy = values[layer.result].owner
            assert isinstance(copy, PlainLayer)
            put(module, copy, self.layers[layer], weights)
        apply_passes(module, "cse,dce")
        return module

    def _quantized(
        self, widths: Mapping[str, int], alone: Mapping[str, tuple[float, float, float, float]]
    ) -> Quantized:
        """All layers with so many bits, and integers between them."""
        rounding = self._rounded(widths)
        module = self._with(rounding)
        kept = tuple(sorted(key for key, bits in widths.items() if bits == _FLOAT))
        options = replace(self.options, skip=kept)
        batches = self._batches()
        quantize(module, calibrate(module, batches, options), options, batches)
        RequantizePass().apply(triton_context(), module)
        apply_passes(module, "cse,dce")
        verify_module(module)
        names = {key: layer.name for layer, key in self.layers.items()}
        layers = [
            LayerBits(key, names[key], count, widths[key], *alone[key])
            for key, count in self.counts.items()
        ]
        accuracy, divergence = self._judged(module)
        held = self.held
        return Quantized(module, layers, accuracy, self.before, divergence, held.count, held.share)

    def _batches(self) -> Sequence[Sequence[Array]]:
        held = self.held
        return bind_samples(held.entry, held.samples, size=64, limit=_MOST_CALIBRATING)

    def _judged(self, module: ModuleOp, batches: int | None = None) -> tuple[float, float]:
        return self.held.judged(self._run(module), batches)

    def _run(self, module: ModuleOp) -> Callable[[Sequence[Array]], Sequence[Array]]:
        """What runs a program: PyTorch where it is installed, else the interpreter."""
        if find_spec("torch") is None:
            return lambda batch: run_module(module, batch, self.function)
        return engine_of(module, "pytorch").run
