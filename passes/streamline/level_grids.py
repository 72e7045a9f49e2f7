"""Integers on grids for values with few levels, and the ops that make them.

A value of a network with few-bit activations is a function of an integer (`level_functions`); here
it becomes the integers of an evenly spaced grid: by a `tensor.quantize` at an input, of its
`tensor.sign` where the only step is at 0, and by counted thresholds elsewhere. Not here: which
values those are (`streamline`), and what is returned (`level_results`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i8, i32
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...dialects.shapes import is_float
from ...dialects.traits import MovesElements, has
from ...ir.locations import location_name
from ..adder_graph.graph import InputRange
from ..adder_graph.optimize_adder_graph import type_range
from ..analysis.compile_time import literal, literal_value
from ..analysis.layers import is_layer, layer_name, rebuilt, weight_of
from ..analysis.replacement import insert_before
from ..requantize.integer_forms import interval
from .input_quantizers import edges_of, quantizer
from .level_functions import (
    LEVELS,
    LevelFunction,
    LevelGrid,
    NoFunctionError,
    affine,
    channels_on,
    columns,
    levels_of,
    of_type,
    tabled,
    uniform_levels,
)
from .level_products import weight_channel, with_signs
from .roundings import Rounded, rounding_error
from .stated_inputs import StatedInput

_UNQUANTIZED = "its input is no quantised value: it needs a quantiser of at most 8 bits before it"


class LevelGrids:
    """The functions found so far and their grids.

    Attributes:
        module: takes large constants.
        anchor: the op that is being visited; ops go before it.
        functions: what values are, as functions of integers.
        results: values of integer type that are those of the program.
    """

    def __init__(self, module: ModuleOp, anchor: Operation, input_bits: int | None = None) -> None:
        self.module = module
        self.input_bits = input_bits
        self.anchor = anchor
        self.functions: dict[SSAValue, LevelFunction] = {}
        self.results: dict[SSAValue, SSAValue] = {}
        self._grids: dict[SSAValue, LevelGrid] = {}
        self.entered: dict[SSAValue, LevelGrid] = {}
        """Values that integers enter as, all channels on one grid with a scale above 0."""
        self._rounded: dict[SSAValue, Rounded] = {}
        self.undecided: dict[str, tuple[int, int]] = {}
        """Of sums by name: at how many, of how many, roundings decide between levels."""

    def move_to(self, anchor: Operation) -> None:
        """Make what is asked for from here on anew, before another op."""
        self.anchor = anchor
        self._grids.clear()

    def add(self, op: Operation, source: Operation | None = None) -> SSAValue:
        """Insert `op` for the op being visited, at the location of `source` if one is given."""
        insert_before(self.anchor, op, source)
        return op.results[0]

    def constant(self, key: str, values: Array, element: Attribute) -> SSAValue:
        """A known value."""
        array = np.asarray(values)
        type = TensorType(element, array.shape)
        return self.add(literal(self.module, key, array, type, buffer=True))

    def wide(self, value: SSAValue) -> SSAValue:
        """A value as i32."""
        return self.of_element(value, i32)

    def of_element(self, value: SSAValue, element: Attribute) -> SSAValue:
        """A value as such elements."""
        if tensor_type(value).element_type == element:
            return value
        return self.add(tensor.ConvertOp(value, element))

    def integers(self, op: tensor.ConvertOp) -> tuple[int, int]:
        """Bounds of the integers that become floats.

        Raises:
            NoFunctionError: all of their type may be there, and the floats do not hold them all.
        """
        value = op.operand
        whole = type_range(value)
        if self.input_bits is not None and isinstance(value, BlockArgument):
            given = InputRange.of_bits(self.input_bits, signed=whole.low < 0)
            return max(given.low, whole.low), min(given.high, whole.high)
        low, high = interval(value)
        low, high = max(low, whole.low), min(high, whole.high)
        held = float(of_type(op.result, np.array(float(whole.high))))
        if low == whole.low and held != whole.high:
            raise NoFunctionError(
                f"{tensor_type(op.result).element_type} does not hold every integer of "
                f"{tensor_type(value).element_type}: say with input-bits how many bits an argument "
                "has, or compute this in integers"
            )
        return low, high

    def is_same(self, op: tensor.ConvertOp) -> bool:
        """Whether floats become the integers that they were made of."""
        grid, result = self.entered.get(op.operand), op.result
        if grid is None or (grid.scale, grid.offset) != (1, 0) or is_float(tensor_type(result)):
            return False
        held = type_range(result)
        return held.low <= grid.bounds[0] and grid.bounds[1] <= held.high

    def enter(self, value: SSAValue, grid: LevelGrid) -> None:
        """Note that `value` is on a grid.

        Raises:
            NoFunctionError: its integers have no 32 bits, and would wrap around.
        """
        held = type_range(grid.root)
        if grid.bounds != (held.low, held.high) and max(-grid.bounds[0], grid.bounds[1]) >= 2**31:
            raise NoFunctionError("its integers have no 32 bits")
        rank = tensor_type(value).get_num_dims()

        def lift(points: Array) -> Array:
            return of_type(value, grid.real(points)).reshape(-1, *[1] * (rank - 1))

        self.functions[value] = LevelFunction(grid.root, grid.bounds, value, lift, value)
        if grid.exactly is None and grid.scale > 0:
            self.entered[value] = grid

    def mean(
        self, op: Operation, of: LevelGrid, total: SSAValue, count: int, bounds: tuple[int, int]
    ) -> None:
        """Note that an op is the mean of `count` values, whose integers have sums in `bounds`.

        Raises:
            NoFunctionError: as `enter`.
        """
        self.enter(op.results[0], LevelGrid(total, of.scale / count, of.offset, bounds))
        self.note_rounded(op, total, of, np.ones((1, count)))

    def note_rounded(
        self, op: Operation, total: SSAValue, of: LevelGrid | None, weights: Array
    ) -> None:
        """Note by which weights [channels, inputs], or means, floats of a grid were summed.

        Args:
            op: with the float sums; its first result is on the integers `total`.
            total: the sums of integers.
            of: what is summed; `None` where channels have a step each.
            weights: what each is multiplied by.
        """
        error = rounding_error(of, weights)
        if error:
            self._rounded[total] = Rounded(location_name(op) or op.name, error)

    def _note_undecided(self, function: LevelFunction, places: Array) -> None:
        """Count the sums near which a level begins, so that roundings of floats decide.

        Args:
            function: of the sums.
            places: integers at which levels begin.
        """
        root, bounds = function.root, function.bounds
        while root not in self._rounded and has(root.owner, MovesElements):
            root = root.owner.operands[0]
        if root not in self._rounded or bounds is None:
            return
        rounded = self._rounded[root]
        points = np.unique(np.clip(np.concatenate([places - 1, places], axis=None), *bounds))
        most: Array = np.abs(function.lift(np.array(bounds)).astype(np.float64)).max(axis=0)

        def lift(points: Array, error: float) -> Array:
            values = function.lift(points)
            return (values + error * most).astype(values.dtype)

        low, high = (
            columns(replace(function, lift=partial(lift, error=sign * rounded.error)).at(points))
            for sign in (-1, 1)
        )
        number = int((low != high).any(axis=1).sum())
        if number:
            self.undecided[rounded.name] = number, bounds[1] - bounds[0] + 1

    def grid(self, value: SSAValue) -> LevelGrid:
        """A value with few levels as integers on a grid.

        Raises:
            NoFunctionError: it has many, or they are not evenly spaced.
        """
        if value not in self.functions:
            raise NoFunctionError("it is no function of one integer")
        if value not in self._grids:
            function = self.functions[value]
            quantized = function.bounds is None
            self._grids[value] = self._quantized(function) if quantized else self._counted(function)
        return self._grids[value]

    def spaced(self, value: SSAValue) -> LevelGrid:
        """A value that is the same scale·integer + offset in all channels, however many it takes.

        Raises:
            NoFunctionError: it is no such value, and has not few levels either.
        """
        if value in self.entered:
            return self.entered[value]
        function = self.functions.get(value)
        if function is not None and function.bounds is not None:
            made = _evenly(function)
            if made is not None:
                return made
        return self.grid(value)

    def stated(self, argument: SSAValue, form: StatedInput) -> None:
        """An argument that holds what the user says."""
        low, high = form.low, form.high
        shift = -128 - low if high > 127 else 0
        step = 2 * form.scale if form.of_sign else form.scale
        real = self.add(tensor.SignOp(argument)) if form.of_sign else argument
        root = self._quantized_by(
            real, 1.0 if form.of_sign else form.scale, shift, (low + shift, high + shift)
        )
        offset = (-form.scale if form.of_sign else 0.0) - shift * step
        self.enter(argument, LevelGrid(root, step, offset, (low + shift, high + shift)))

    def _quantized_by(
        self, real: SSAValue, scale: float, zero: int, bounds: tuple[int, int]
    ) -> SSAValue:
        point = self.constant("input.scale", np.array(scale, np.float32), f32)
        shift = self.constant("input.zero_point", np.array(zero, _type(zero)), i8)
        return self.add(tensor.QuantizeOp(real, point, shift, low=bounds[0], high=bounds[1]))

    def _quantized(self, function: LevelFunction) -> LevelGrid:
        """A float argument that a function takes to few levels: `quantize`, or thresholds."""
        bits = np.arange(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32)
        points = np.sort(bits.view(np.float32)[np.isfinite(bits.view(np.float32))])
        values = columns(function.at(points))
        uniform = uniform_levels(values)
        if values.shape[1] != 1 or uniform is None or (np.diff(values[:, 0]) < 0).any():
            raise NoFunctionError(_UNQUANTIZED)
        step, lowest, number = uniform

        def counts(x: Array) -> Array:
            return np.rint((columns(function.at(x))[:, 0] - lowest) / step).astype(np.int64)

        fitting = quantizer(counts, number, step)
        if fitting is not None:
            scale, zero, of_sign = fitting
            low = 0 if number <= 127 else -128
            real = self.add(tensor.SignOp(function.root)) if of_sign else function.root
            root = self._quantized_by(real, scale, zero + low, (low, low + number))
        else:
            rank = tensor_type(function.root).get_num_dims()
            if not rank:
                raise NoFunctionError(_UNQUANTIZED)  # thresholds stand along an axis
            low, edges = 0, edges_of(counts, number)
            known = self.constant("input.thresholds", edges.reshape(1, -1), f32)
            root = self.add(tensor.MultiThresholdOp(function.root, known, axis=min(1, rank - 1)))
        exactly = tabled(np.unique(values), step, lowest, low)
        return LevelGrid(root, step, lowest - low * step, (low, low + number), exactly)

    def _counted(self, function: LevelFunction) -> LevelGrid:
        """What a function makes of integers, as the number of thresholds that they reach."""
        assert function.bounds is not None
        low, high = function.bounds
        made = _evenly(function) if high - low < LEVELS else None
        if made is not None:
            return made
        levels = levels_of(function)
        uniform = None if levels is None else uniform_levels(levels)
        if uniform is None:
            raise NoFunctionError(
                "what it takes is not on few, evenly spaced levels: it needs a quantiser of at "
                "most 8 bits before it"
            )
        step, lowest, number = uniform
        counted = self.counted(function, np.array([step]), np.array([lowest]), number)
        exactly = None if levels is None else tabled(levels, step, lowest, 0)
        return LevelGrid(counted, step, lowest, (0, number), exactly)

    def counted(self, function: LevelFunction, step: Array, lowest: Array, number: int) -> SSAValue:
        """The levels above the lowest that values reach, by thresholds of the integers.

        Args:
            function: with levels `lowest`, `lowest + step`, …; one of each, or one a channel.
            step: above 0.
            lowest: the first level.
            number: the last level's number, in the channel with the most.

        Raises:
            NoFunctionError: a channel rises and falls by more levels than an activation has.
        """
        if turns(function):
            rises, falls = _places_of_turns(function, lowest, step)
            self._note_undecided(function, np.concatenate([rises, falls], axis=1))
            return self.add(
                tensor.SubOp(
                    self.wide(self._reached(function, rises)),
                    self.wide(self._reached(function, falls)),
                )
            )
        function = self.rising(function)
        assert function.bounds is not None
        thresholds = function.bounds[0] + _below(function, lowest, step, number)
        self._note_undecided(function, thresholds)
        return self._reached(function, thresholds)

    def _reached(self, function: LevelFunction, thresholds: Array) -> SSAValue:
        """How many thresholds, [channels, number] or [1, number], the integers reach."""
        known = self.constant("thresholds", thresholds.astype(np.int32), i32)
        axis = channel_of(function) if thresholds.shape[0] > 1 else 1
        return self.add(tensor.MultiThresholdOp(self.wide(function.root), known, axis=axis))

    def rising(self, function: LevelFunction) -> LevelFunction:
        """A function of integers that never falls: of negated ones in channels where it fell.

        Raises:
            NoFunctionError: a channel rises and falls.
        """
        assert function.bounds is not None
        falling, rising = _directions(function)
        if not falling.any():
            return function
        if (rising & falling).any():
            raise NoFunctionError("its values rise and fall")
        low, high = function.bounds
        most = max(abs(low), abs(high))
        signs = np.where(falling, -1, 1)
        along = channels_on(function.value, channel_of(function), signs)

        def lift(points: Array) -> Array:
            """Sums beyond the bounds, which there are not, as those at them."""
            up, down = (function.at(np.clip(sign * points, low, high)) for sign in (1, -1))
            return np.where(along < 0, down, up)

        root = self._negated(function, signs)
        return LevelFunction(root, (-most, most), function.value, lift, function.value)

    def _negated(self, function: LevelFunction, signs: Array) -> SSAValue:
        """The integers of a function, times -1 or 1 in each channel: by the weight of a layer."""
        product = function.root.owner
        if not is_layer(product):
            vector = channels_on(function.value, channel_of(function), signs.astype(np.int32))[0]
            factor = self.constant("signs", vector, i32)
            return self.add(tensor.MulOp(self.wide(function.root), factor))
        weight = literal_value(weight_of(product))
        assert weight is not None
        signed = with_signs(weight, weight_channel(product), signs)
        key = f"{layer_name(product) or 'weight'}.signed"
        known = self.constant(key, signed, tensor_type(weight_of(product)).element_type)
        return self.add(rebuilt(product, weight=known), product)

    def centred(self, grid: LevelGrid) -> LevelGrid:
        """Integers whose 0 is the real number 0, for products that pad with it."""
        for factor in (1, 2):
            shift = factor * grid.offset / grid.scale
            if abs(shift - round(shift)) >= 1e-4:
                continue
            by = round(shift)
            least, most = (factor * bound + by for bound in grid.bounds)
            ends = (*grid.bounds, *(factor * bound for bound in grid.bounds), by, least, most)
            narrow = (
                min(ends) >= -128 and max(ends) <= 127 and tensor_type(grid.root).element_type == i8
            )
            root = grid.root if narrow else self.wide(grid.root)
            if factor == 2:
                root = self.add(tensor.AddOp(root, root))
            if by:
                kind = (np.int8, i8) if narrow else (np.int32, i32)
                offset = self.constant("shift", np.array(by, kind[0]), kind[1])
                root = self.add(tensor.AddOp(root, offset))
            return LevelGrid(root, grid.scale / factor, 0.0, (least, most))
        raise NoFunctionError("padding is between two levels")


def plain(
    root: SSAValue, entry: SSAValue, bounds: tuple[int, int] | None, rank: int
) -> LevelFunction:
    """The values of the root themselves."""

    def lift(points: Array) -> Array:
        return points.reshape(-1, *[1] * (rank - 1))

    return LevelFunction(root, bounds, entry, lift, entry)


def _evenly(function: LevelFunction) -> LevelGrid | None:
    """A function that is the same scale·integer + offset in all channels, with a scale above 0."""
    fitted = affine(function)
    if fitted is None or np.ptp(fitted[0]) or np.ptp(fitted[1]) or fitted[0][0] <= 0:
        return None
    assert function.bounds is not None
    scale, offset = (float(part[0]) for part in fitted)

    def exactly(points: Array) -> Array:
        return columns(function.at(points))[:, 0].astype(np.float64)

    return LevelGrid(function.root, scale, offset, function.bounds, exactly)


def _directions(function: LevelFunction) -> tuple[Array, Array]:
    """Whether each channel falls anywhere, and whether it rises."""
    falling = rising = np.zeros(1, bool)
    for _, steps in function.changes():
        falling = falling | (steps < 0).any(axis=0)
        rising = rising | (steps > 0).any(axis=0)
    return falling, rising


def turns(function: LevelFunction) -> bool:
    """Whether a function of integers rises and falls in one channel.

    Raises:
        NoFunctionError: as `LevelFunction.pieces`.
    """
    falling, rising = _directions(function)
    return bool((falling & rising).any())


def _places_of_turns(function: LevelFunction, lowest: Array, step: Array) -> tuple[Array, Array]:
    """The integers where each channel rises by a level, and those where it falls by one.

    Returns:
        Both [channels, number], a channel with fewer filled up with what no integer reaches. A
        level above the lowest at the first integer is a rise there.

    Raises:
        NoFunctionError: a channel has more than twice `LEVELS` of either.
    """
    assert function.bounds is not None
    up: list[list[int]] = []
    down: list[list[int]] = []
    before: Array = np.zeros((1, 1), np.int64)
    for points, values in function.pieces():
        counts = np.rint((values.astype(np.float64) - lowest) / step).astype(np.int64)
        before = np.broadcast_to(before, (1, counts.shape[1]))
        changes = np.diff(counts, axis=0, prepend=before)
        before = counts[-1:]
        up, down = up or [[] for _ in changes[0]], down or [[] for _ in changes[0]]
        for found, sign in ((up, 1), (down, -1)):
            for channel, each in enumerate(found):
                each += np.repeat(points, np.maximum(sign * changes[:, channel], 0)).tolist()
        if max(len(each) for each in (*up, *down)) > 2 * LEVELS:
            raise NoFunctionError("its values rise and fall too often")
    return _filled(up, function.bounds[1] + 1), _filled(down, function.bounds[1] + 1)


def _filled(rows: list[list[int]], by: int) -> Array:
    most = max(map(len, rows))
    return np.array([[*row, *[by] * (most - len(row))] for row in rows])


def _below(function: LevelFunction, lowest: Array, step: Array, number: int) -> Array:
    """At how many integers each channel is below each level but the lowest, [channels, number]."""
    found = np.zeros(1, np.int64)
    for _, values in function.pieces():
        counts = np.rint((values.astype(np.float64) - lowest) / step).astype(np.int64)
        channels = int(values.shape[1])
        places = counts + np.arange(channels) * (number + 1)
        found = found + np.bincount(places.reshape(-1), minlength=channels * (number + 1))
    return found.reshape(-1, number + 1).cumsum(axis=1)[:, :-1]


def channel_of(function: LevelFunction) -> int:
    """The axis along which a function differs."""
    shape = function.at(np.array([0])).shape
    (axis,) = [axis for axis, size in enumerate(shape) if size != 1] or [1]
    return axis


def _type(value: int) -> type[np.int8]:
    if not -128 <= value <= 127:
        raise NoFunctionError("a zero point has no 8 bits")
    return np.int8
