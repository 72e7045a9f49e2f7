"""How much may happen between two registers: so many levels of adders, or a period of the clock.

Not here: where registers go (`circuit`), and the delays of devices (`to_verilog.estimate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log2

from ....ir.errors import OptionError
from ..estimate.areas import Areas, areas_of
from ..estimate.families import Kind, delay, family_of

DEVICE = "ultrascale+"
"""The family that circuits are for where nothing else is said."""

_READY_STAGES = 6
"""The most stages that ready passes through in a cycle where no clock is asked for."""

_READERS = 256
"""Registers that wait for the ready of a stage, about."""

_SHARED = 6
"""Readers of a bit that an op gives, about: other ops, and each place of an extended sign."""

_READERS_OF_USER = 2
"""Look-up tables of an adder that read a bit, about: those of its place and the next one's."""

_CHAINED = 6
"""Inputs of look-up tables before carry chains that compare."""

_BITS_OF_LEVEL = 3
"""Further bits that a comparison takes in with another level of logic; at best five, but synthesis
makes it small."""

_ROW = 16
"""Sites of a long row."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Pacing:
    """Where registers are wanted. False if nowhere.

    Attributes:
        levels: a register after so many levels of adders; 0 for none. Without meaning with a
            `clock`.
        clock: in MHz: as few registers as let no path take longer than its period.
        device: the family whose delays count, and whose look-up tables the circuit is made for.
        plain_sums: whether synthesis may merge sums of sums of one cycle.
        rows: whether the tool makes a family's primitives of `fabric.row`.
    """

    levels: int = 1
    clock: float | None = None
    device: str = DEVICE
    plain_sums: bool = False
    rows: bool = True

    def __bool__(self) -> bool:
        return bool(self.levels) or self.clock is not None

    @property
    def is_every_level(self) -> bool:
        """Whether there is a register behind each adder."""
        return self.clock is None and self.levels == 1

    @property
    def keeps_sums_apart(self) -> bool:
        """Whether sums of sums of one cycle are written so that Yosys does not merge them: on ECP5
        the merged ones are smaller, as measured."""
        return not self.plain_sums and self.device != "ecp5"

    @cached_property
    def limit(self) -> float:
        """The most between two registers: levels, or nanoseconds."""
        if self.clock is None:
            return self.levels
        return 1000 / self.clock - delay(self.device, "register")

    @cached_property
    def ready_stages(self) -> int:
        """How many stages ready may pass through in a cycle: two look-up tables each, and many
        readers.
        """
        if self.clock is None:
            return _READY_STAGES
        last = self.after_spreading(_READERS)
        return max(1, int((self.limit - last) / (2 * self.cost("mux") + last)))

    @cached_property
    def areas(self) -> Areas:
        """What parts take in the family."""
        return areas_of(self.device)

    @cached_property
    def lut_inputs(self) -> int:
        """The inputs of a look-up table."""
        return family_of(self.device).inputs

    def cost(self, kind: Kind, width: int = 1, levels: int = 1) -> float:
        """What an op takes of the limit, with the net before it; never more than all of it.

        Args:
            kind: see `to_verilog.estimate.families.delay`.
            width: of the op.
            levels: what counts without a clock.

        Raises:
            OptionError: no clock so fast is possible with the op between two registers.
        """
        if self.clock is None:
            return levels
        period = delay(self.device, "net") + delay(self.device, kind, width)
        if period > self.limit + _ROUNDING:
            most = int(1000 / (period + delay(self.device, "register")))
            raise OptionError(
                f"clock={self.clock:g} is too fast for {self.device}: one '{kind}' of {width} "
                f"bits lets it run at {most} MHz"
            )
        return min(period + self.after_spreading(_SHARED), self.limit)

    def comparison(self, width: int, numbers: int) -> float:
        """What a comparison takes: of two numbers, or of one with a constant.

        One of few bits with a constant is levels of logic. On fabrics with large look-up tables so
        is one of two numbers, and pairs of bits meet in logic before a carry chain.
        """
        period = self.cost("compare", width)
        is_chained = self.lut_inputs >= _CHAINED
        if self.clock is None or not (is_chained or numbers == 1):
            return period
        bits = width * numbers
        if bits < 2 * self.lut_inputs + is_chained:
            levels = 1 + -(-max(0, bits - self.lut_inputs) // _BITS_OF_LEVEL)
            period = levels * self.cost("mux")
        elif numbers == 2:
            period += self.cost("mux")
        return min(period, self.limit)

    def is_logic(self, bits: int) -> bool:
        """Whether so many bits are compared with a constant by two levels of look-up tables."""
        return bits < 2 * self.lut_inputs

    def has_rows(self, readers: int = 1) -> bool:
        """Whether the fabric has `fabric.row`, and one of bits with so many readers takes no more
        than a period."""
        if not (self.rows and family_of(self.device).macro):
            return False
        if self.clock is None:
            return True
        row = delay(self.device, "net") + delay(self.device, "add", _ROW) + self.cost("mux")
        return row + self.after_spreading(readers) <= self.limit + _ROUNDING

    def row(self, width: int, readers: int = 1) -> float:
        """What a row of bits with so many readers takes: a look-up table leads to the next, and
        that to the carry chain."""
        steps = self.cost("add", width) + self.cost("mux") + self.after_spreading(readers)
        return min(steps, self.limit or 1)

    def after_memory(self, readers: int) -> float:
        """How much later than a register's a word of a block memory is where it is read."""
        if self.clock is None:
            return 0
        known = family_of(self.device)
        return known.memory - known.clock_to_q + self.after_spreading(readers)

    def after_spreading(self, readers: int) -> float:
        """How much later a bit is where it is read for having so many readers."""
        return 0 if self.clock is None else family_of(self.device).fanout * log2(max(1, readers))

    def after_sharing(self, users: int) -> float:
        """How much later than `cost` says a number is where so many adders take it."""
        return max(
            0, self.after_spreading(_READERS_OF_USER * users) - self.after_spreading(_SHARED)
        )

    def after_selection(self, readers: int) -> float:
        """How much later than a register's a bit is behind one selection by a bit of a register.

        Args:
            readers: selections by the same bit.
        """
        if self.clock is None:
            return 0
        period = delay(self.device, "net") + delay(self.device, "mux")
        return min(period + self.after_spreading(readers), self.limit)

    def has_room_for_reset(self, level: float) -> bool:
        """Whether a constant may be selected by the reset of the register behind it.

        The reset works only while the register is enabled: one more look-up table and net.
        """
        return self.clock is None or level + self.cost("mux") <= self.limit + _ROUNDING

    def fits(self, level: float, cost: float) -> bool:
        """Whether an op can follow in the same cycle."""
        return not self or not level or level + cost <= self.limit + _ROUNDING
