"""Float programs to integer ones from samples: which layer gets how few bits.

Every layer gets the bits that are asked for; where the result is then too far from the float
program, the layers that lose most for what they save keep more of them. The passes that it runs can
be run one by one with `triton-opt`: see docs/quantization.md. Not here: training (`training`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp

from ..dialects.inference import tensor_type
from ..dialects.interpret import run_module
from ..dialects.parameters import Array
from ..dialects.registry import triton_context, verify_module
from ..dialects.shapes import element_count
from ..ir.errors import OptionError
from ..ir.pipeline import did_you_mean
from ..passes.analysis.layers import Layer, weight_of
from ..passes.calibration.observation import bind_samples
from ..passes.quantize_activations.quantize_activations import (
    QuantizeActivationsPass,
    calibrate,
    quantize,
    quantized_layers,
)
from ..passes.requantize.requantize import RequantizePass
from ..passes.ternarize.ternarize import TernarizePass
from .conversion import named_samples
from .held_out import HeldOut
from .models import Model, import_for
from .stages import apply_passes

BITS: Mapping[str, float] = {"int8": 8, "int4": 4, "ternary": 2}
"""What a layer may get, and the bits of a weight."""

_FLOAT = 32
_BEFORE = (
    "free-batch,drop-dynamic-rounding,fold-constants,fuse-linear,fold-constants,canonicalize,"
    "recognize-quantizers"
)
_MOST_CALIBRATING = 1000
"""The most samples that calibrate."""


@dataclass(frozen=True)
class LayerBits:
    """What a layer got.

    Attributes:
        key: of its weight.
        op: the name of the op.
        weights: how many there are.
        bits: of one of them, 32 where it stays a float.
        accuracy: with this layer alone as narrow as was asked, and
        divergence: that of the results from those of the float program, in nats a sample.
    """

    key: str
    op: str
    weights: int
    bits: float
    accuracy: float
    divergence: float


@dataclass(frozen=True)
class Quantized:
    """A program with few bits, and what it is worth.

    Attributes:
        module: the program.
        layers: in the order of the program.
        accuracy, before: the share of right classes on samples that calibrated nothing, of this
            program and of the float one.
        divergence: of the results from those of the float program, in nats a sample.
        measured: on how many samples.
    """

    module: ModuleOp = field(repr=False)
    layers: Sequence[LayerBits]
    accuracy: float
    before: float
    divergence: float
    measured: int

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
    keep: Collection[str] = (),
    observer: str = "minmax",
    function: str = "forward",
) -> Quantized:
    """A program of integers for a float one, without training.

    Activations get 8 bits. With `ternary`, trits and scales of a layer are those that keep its sums
    near the float ones (`ternarize{method=gptq}`). Biases keep the mean of each channel. If the
    result then loses more than `drop`, layers keep more bits, 8 where trits or 4 bits were asked
    for and floats where 8 were: those first that alone lose most a weight.

    Args:
        program: the float program, with weights, which stays as it is; or what it is imported from,
            see `models.import_model`.
        samples: inputs [count, …]: an array for the one argument, one for each, or by name. The
            last fourth, 1000 at most, judges; of the others the first 1000 calibrate.
        bits: of weights.
        labels: the classes of the samples; without them the float program is right.
        drop: the most accuracy to lose, as a share of the samples that judge.
        keep: keys of weights whose layers keep more bits in any case.
        observer: how ranges of activations follow from samples, see `calibrate`.
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
    named = isinstance(samples, Mapping)
    examples = samples if named else [samples] if not isinstance(samples, Sequence) else samples
    module = import_for(program, examples).clone()
    apply_passes(module, _BEFORE)
    arrays = named_samples(samples, module, function)
    search = _Search(module, arrays, labels, bits, observer, function)
    search.check(keep)
    return search.chosen(drop, keep)


class _Search:
    """Choices of bits for one program, each measured once."""

    def __init__(
        self,
        module: ModuleOp,
        samples: Mapping[str, Array],
        labels: Array | None,
        bits: str,
        observer: str,
        function: str,
    ) -> None:
        self.module, self.bits, self.observer, self.function = module, bits, observer, function
        self.held = HeldOut(module, samples, labels, function)
        self.options = QuantizeActivationsPass(
            weights=8, signed=False, observer=observer, correct_bias=True, function=function
        )
        self.layers: dict[str, Layer] = quantized_layers(module, self.options)
        if not self.layers:
            raise OptionError("the program has no layer with float weights to quantise")

    def check(self, keep: Collection[str]) -> None:
        """Refuse keys that no layer has."""
        for key in keep:
            if key not in self.layers:
                hint = did_you_mean(key, self.layers) or f"; there are {', '.join(self.layers)}"
                raise OptionError(f"no layer has the weight '{key}'{hint}")

    def chosen(self, drop: float, keep: Collection[str]) -> Quantized:
        """The choice with the fewest bits that loses little enough.

        Raises:
            OptionError: there is none.
        """
        before, _ = self.held.judged(self._run(self.module))
        alone = {key: self._judged(self._alone(key)) for key in self.layers}
        free = [key for key in self.layers if key not in keep]
        free.sort(key=lambda key: -alone[key][1] / self._count(key))
        tried: dict[int, tuple[ModuleOp, float, float]] = {}

        def fits(count: int) -> bool:
            module = self._with({*keep, *free[:count]})
            tried[count] = module, *self._judged(module)
            return tried[count][1] >= before - drop

        few = 0
        if not fits(0):
            low, few = 0, len(free)
            if not fits(few):
                best = max(accuracy for _, accuracy, _ in tried.values())
                raise OptionError(
                    f"no choice of bits is right for {before - drop:.4f} of the samples, as asked: "
                    f"the float program is for {before:.4f}, the best choice for {best:.4f}; "
                    "allow a larger drop, or train with quantisation"
                )
            while few - low > 1:
                middle = (low + few) // 2
                low, few = (low, middle) if fits(middle) else (middle, few)
        module, accuracy, divergence = tried[few]
        kept = {*keep, *free[:few]}
        layers = [
            LayerBits(
                key,
                layer.name,
                self._count(key),
                self._wide if key in kept else BITS[self.bits],
                *alone[key],
            )
            for key, layer in self.layers.items()
        ]
        measured = len(self.held.right)
        return Quantized(module, layers, accuracy, before, divergence, measured)

    @property
    def _wide(self) -> int:
        """Bits of weights that are kept."""
        return _FLOAT if self.bits == "int8" else 8

    def _count(self, key: str) -> int:
        return element_count(tensor_type(weight_of(self.layers[key])).get_shape()) or 0

    def _alone(self, key: str) -> ModuleOp:
        """One layer as narrow as was asked, the others as they are, or as wide as they may be."""
        others = {other for other in self.layers if other != key}
        if self.bits != "ternary":
            return self._with(others)
        module = self.module.clone()
        self._ternarize(module, others)
        return module

    def _with(self, kept: Collection[str]) -> ModuleOp:
        """All layers as narrow as was asked, but for some."""
        module = self.module.clone()
        if self.bits == "ternary" and len(kept) < len(self.layers):
            self._ternarize(module, kept)
        options = replace(
            self.options,
            weights=4 if self.bits == "int4" else 8,
            wide=tuple(sorted(kept)) if self.bits == "int4" else (),
            skip=tuple(sorted(kept)) if self.bits == "int8" else (),
        )
        batches = self._batches()
        quantize(module, calibrate(module, batches, options), options, batches)
        RequantizePass().apply(triton_context(), module)
        apply_passes(module, "cse,dce")
        verify_module(module)
        return module

    def _ternarize(self, module: ModuleOp, kept: Collection[str]) -> None:
        ternarize = TernarizePass(method="gptq", skip=tuple(sorted(kept)), function=self.function)
        ternarize.compensate(module, self._batches(), progress=False)

    def _batches(self) -> Sequence[Sequence[Array]]:
        held = self.held
        return bind_samples(held.entry, held.samples, size=64, limit=_MOST_CALIBRATING)

    def _judged(self, module: ModuleOp) -> tuple[float, float]:
        return self.held.judged(self._run(module))

    def _run(self, module: ModuleOp) -> Callable[[Sequence[Array]], Array]:
        return lambda batch: run_module(module, batch, self.function)[0]
