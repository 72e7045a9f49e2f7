"""What a program of PyTorch computes in float64, and how much rounding may change it.

Each operation of a run is disturbed at random by a few units in the last place of the type that the
program computes in. The spread of several runs bounds the error of any engine, whatever the order
of its sums: a result that cancels spreads as far as its terms, and an integer that hangs on a float
near a jump comes out different and counts as not determined (stochastic arithmetic, Vignes 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from . import digits
from .cases import Expected, Undetermined

Array = NDArray[Any]
aten: Any = torch.ops.aten

RUNS = 8
"""In pairs of opposite disturbances: what is at a jump is on either side of it in one of a pair."""
UNITS = 16
"""A disturbance, in units in the last place: sums of some hundred terms, and functions that engines
approximate, err by no more."""
HALF_UNITS = 2
"""The same for types of 16 bits, which engines compute in float32 and round once an operation."""
SAFETY = 4
"""What the spread of `RUNS` runs is multiplied by."""

EXACT = {
    *(aten.view, aten.reshape, aten._unsafe_view, aten.permute, aten.transpose, aten.t),
    *(aten.slice, aten.select, aten.expand, aten.unsqueeze, aten.squeeze, aten.clone, aten.alias),
    *(aten.split, aten.split_with_sizes, aten.unbind, aten.cat, aten.stack, aten.constant_pad_nd),
    *(aten.where, aten.index, aten.index_select, aten.gather, aten.embedding, aten.detach),
    *(aten.flip, aten.repeat, aten.roll, aten.as_strided, aten.lift_fresh, aten.copy_),
    *(aten.maximum, aten.minimum, aten.amax, aten.amin, aten.max, aten.min, aten.clamp),
    *(aten.clamp_min, aten.clamp_max, aten.relu, aten.hardtanh, aten.neg, aten.abs, aten.sort),
    *(aten.max_pool2d_with_indices, aten.floor, aten.ceil, aten.round, aten.trunc, aten.sign),
    *(aten._to_copy, aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge, aten.argmax),
    *(aten.full, aten.zeros, aten.ones, aten.scalar_tensor, aten.full_like, aten.zeros_like),
    *(aten.ones_like, aten.arange, aten.empty, aten.new_zeros, aten.fill, aten.topk, aten.sgn),
    *(aten.empty_like, aten.new_empty, aten.narrow, aten.diagonal, aten.tril, aten.triu),
    *(aten.masked_fill, aten.scatter, aten.max_pool3d_with_indices, aten.reflection_pad2d),
    *(aten.replication_pad2d, aten.reflection_pad1d, aten.replication_pad1d, aten.rand),
}
"""Operations that move, choose or round to whole numbers: exact functions of what they get."""

PRECISE = {aten.div, aten.sqrt, aten.rsqrt, aten.reciprocal, aten.mul}
"""Functions that are rounded once, whatever their argument."""

CANCELLING = 0.25
"""A part of functions such as gelu, elu and mish: they end in a difference of numbers near 1 or
less, which leaves small results with the error of those."""

LINEAR = {
    *(aten.add, aten.sub, aten.rsub, aten.mul, aten.mm, aten.bmm, aten.addmm, aten.sum, aten.mv),
    *(aten.convolution, aten.dot, aten.cumsum, aten.baddbmm, aten.prod),
}
"""Operations whose result is exact where numbers are small multiples of a power of two."""

FOLDED = {aten.mm, aten.bmm, aten.addmm, aten.mv, aten.dot, aten.baddbmm, aten.convolution}
"""Products: a constant that divides one may be folded into its weights, which rounds each of them,
though product and quotient may be exact."""

WHOLE = {aten.floor, aten.ceil, aten.round, aten.trunc, aten.sign, aten.sgn}
"""Functions to whole numbers, behind which nothing is folded."""


class Disturbance(TorchDispatchMode):
    """Disturbs the result of every operation in proportion to the terms that it sums.

    Args:
        generator: of the disturbance; none for a clean run.
        unit: the relative error of one operation.
        largest: the largest number that the types of the program hold.
        sign: 1, or -1 for the opposite of what the generator gives.
    """

    def __init__(
        self, generator: torch.Generator | None, unit: float, largest: float, sign: int = 1
    ) -> None:
        super().__init__()
        self.generator = generator
        self.sign = sign
        self.unit = unit
        self.largest = largest
        self.fine = 2.0 ** np.floor(np.log2(1 / unit) / 2)
        self.overflows = False
        self._sizes = WeakTensorKeyDictionary()
        self._folded = WeakTensorKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        packet = func.overloadpacket
        if packet is aten.floor_divide:
            args = (self._dividend(args[0], args[1]), *args[1:])
        result = func(*args, **kwargs)
        if isinstance(result, list | tuple):
            if packet not in EXACT and len(result):
                return type(result)([self._disturbed(func, packet, r, args, kwargs) if i == 0 else r
                                     for i, r in enumerate(result)])  # fmt: skip
            sizes = self._of_terms(func, args, kwargs)
            for part, size in zip(result, sizes or [None] * len(result), strict=True):
                self._note(part, size)
                self._note_folding(packet, part, args)
            return result
        result = self._disturbed(func, packet, result, args, kwargs)
        self._note_folding(packet, result, args)
        return result

    def _note_folding(self, packet: Any, result: Any, args: Any) -> None:
        """Remember results whose constants may stand in the weights of a product before them."""
        if packet in WHOLE or not (isinstance(result, Tensor) and result.is_floating_point()):
            return
        flat = [v for a in args for v in (a if isinstance(a, list | tuple) else [a])]
        before = any(isinstance(v, Tensor) and v in self._folded for v in flat)
        if before or packet in FOLDED:
            self._folded[result] = True

    def _dividend(self, x: Any, divisor: Any) -> Any:
        """What is divided and rounded down, as inexact as if the division were folded before it."""
        power = not isinstance(divisor, Tensor) and np.frexp(abs(divisor))[0] == 0.5
        if self.generator is None or power or x not in self._folded:
            return x
        return x + self._noise(self.unit * self._size(x))

    def _noise(self, sizes: Tensor) -> Tensor:
        """Random numbers of at most these magnitudes."""
        noise = torch.rand(sizes.shape, generator=self.generator, dtype=torch.float64)
        return self.sign * sizes * (2 * noise - 1)

    def _disturbed(self, func: Any, packet: Any, result: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(result, Tensor) or not result.is_floating_point():
            return result
        size: Any = None
        if packet in EXACT or packet in LINEAR or packet in (aten.mean, aten.avg_pool2d):
            size = self._of_terms(func, args, kwargs)
        elif packet is aten.div and isinstance(args[1], Tensor):
            size = self._size(args[0]) / args[1].abs()
        if not isinstance(size, Tensor) or size.shape != result.shape:
            pointwise = torch.Tag.pointwise in func.tags
            size = result.abs() if pointwise or result.numel() == 0 else result.abs().max()
            size = size.expand_as(result)
            if packet not in PRECISE:
                size = size + CANCELLING
        size = torch.maximum(size, result.abs())
        if result.numel() and not bool((size <= self.largest).all()):
            self.overflows = True
        if self.generator is not None and not self._is_exact(packet, result, size, args):
            result = result + self._noise(self.unit * size)
        in_digits = self.generator is not None and self.unit > UNITS * 2.0**-52
        errors = _of_digits(packet, args) if in_digits else None
        if errors is not None:
            result = result + self._noise(torch.tensor(errors).expand_as(result))
        self._note(result, size)
        return result

    def _is_exact(self, packet: Any, result: Tensor, size: Tensor, args: Any) -> bool:
        """Whether every engine computes this result without rounding."""
        converted = packet is aten._to_copy and not args[0].is_floating_point()
        if packet not in LINEAR and not converted:
            return packet in EXACT
        scaled = result * self.fine
        small = size.numel() == 0 or float(size.max()) * self.fine <= 1 / self.unit
        return small and bool((scaled == scaled.round()).all())

    def _note(self, tensor: Any, size: Any) -> None:
        if isinstance(tensor, Tensor) and tensor.is_floating_point() and isinstance(size, Tensor):
            self._sizes[tensor] = size

    def _size(self, tensor: Tensor) -> Tensor:
        """How large the terms are that `tensor` was summed from."""
        size = self._sizes.get(tensor)
        return tensor.abs() if size is None else size

    def _of_terms(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The same operation on the sizes of the terms, where that bounds the result's."""
        packet = func.overloadpacket
        if packet in (aten.floor, aten.round, aten.trunc, aten.sign, aten.eq, aten.argmax):
            return None

        def large(value: Any) -> Any:
            if isinstance(value, Tensor):
                return self._size(value) if value.is_floating_point() else value
            if isinstance(value, list | tuple):
                return type(value)(large(v) for v in value)
            return value

        sizes = [large(a) for a in args]
        if packet in (aten.relu, aten.neg, aten.abs, aten.clamp, aten.hardtanh, aten.clamp_min):
            return sizes[0]
        if packet in (aten.sub, aten.rsub):
            func = aten.add.Tensor if isinstance(sizes[1], Tensor) else aten.add.Scalar
        if packet in (aten.add, aten.sub, aten.rsub, aten.mul) and not isinstance(args[1], Tensor):
            sizes[1] = abs(args[1])
        if packet is aten.minimum:
            func = aten.maximum.default
        if packet in (aten.amin, aten.min):
            return None
        if packet is aten.constant_pad_nd and len(sizes) > 2:
            sizes[2] = abs(sizes[2])
        try:
            return func(*sizes, **kwargs)
        except (RuntimeError, TypeError):
            return None


def _of_digits(packet: Any, args: Any) -> Array | None:
    """How far a product by trits may be off; `None` if it is none."""
    if packet in (aten.mm, aten.addmm):
        x, weights = args[-2].numpy(), args[-1].numpy()
        return digits.of_matrices(x, weights)
    if packet is aten.mv:
        return digits.of_matrices(args[1].numpy(), args[0].numpy().T)
    if packet in (aten.bmm, aten.baddbmm):
        x, weights = args[-2].numpy(), args[-1].numpy()
        parts = [digits.of_matrices(a, b) for a, b in zip(x, weights, strict=True)]
        known = [part for part in parts if part is not None]
        return np.stack(known) if known and len(known) == len(parts) else None
    if packet is aten.convolution and not args[6]:
        return digits.of_convolution(args[0].numpy(), args[1].numpy())
    return None


def bounded(
    run: Callable[[], Sequence[Tensor]], dtypes: Sequence[str], units: Sequence[str], seed: int
) -> Expected:
    """The outputs of a run in float64, in the types of the program, with their bounds.

    Args:
        run: computes the outputs; floats in float64, everything else in its own type.
        dtypes: the NumPy types of the outputs.
        units: the types that the program computes in; the coarsest decides.
        seed: of the disturbances.

    Raises:
        Undetermined: a number does not fit the types of the program, or is not finite.
    """
    import ml_dtypes

    infos = [ml_dtypes.finfo(np.dtype(name)) for name in units if _is_float(name)]
    epsilon = max((float(info.eps) for info in infos), default=2.0**-52)
    unit = (UNITS if epsilon < 1e-4 else HALF_UNITS) * epsilon
    largest = min((float(info.max) for info in infos), default=1e300) / 8
    tiny = max((float(info.smallest_normal) for info in infos), default=1e-300)
    with torch.no_grad():
        clean = Disturbance(None, unit, largest)
        with clean:
            values = [v.numpy() for v in run()]
        if clean.overflows or not all(np.isfinite(v).all() for v in values if v.dtype.kind == "f"):
            raise Undetermined("a number beyond the types of the program")
        runs: list[list[Array]] = []
        for index in range(RUNS):
            generator = torch.Generator().manual_seed(seed * RUNS + index // 2)
            with Disturbance(generator, unit, largest, 1 - 2 * (index % 2)):
                runs.append([v.numpy() for v in run()])
    results: list[Array] = []
    bounds: list[Array] = []
    for index, (value, name) in enumerate(zip(values, dtypes, strict=True)):
        others = [each[index] for each in runs]
        results.append(value.astype(np.dtype(name)))
        if value.dtype.kind != "f":
            same = np.all([o == value for o in others], axis=0)
            bounds.append(np.where(same, 0.0, np.inf))
            continue
        spread = np.max([np.abs(o - value) for o in others], axis=0, initial=0.0)
        step = float(ml_dtypes.finfo(np.dtype(name)).eps)
        bound = SAFETY * spread + 2 * step * np.abs(value) + tiny
        # What jumps with the disturbances is not determined.
        spread = np.where(np.isnan(spread), np.inf, spread)
        jumps = spread > max(0.05, 50 * unit) * (np.abs(value) + 1e-3)
        bounds.append(np.where(jumps, np.inf, bound))
    return Expected(tuple(results), tuple(bounds))


def _is_float(name: str) -> bool:
    return np.dtype(name).kind == "f" or name == "bfloat16"
