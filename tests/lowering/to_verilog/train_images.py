"""Random integer programs on images of spikes, as text with the values of their parameters."""

from math import prod
from typing import Literal

from .trains import TrainProgram

Shared = Literal["all", "channel", "position"]
"""Which neurons have the same threshold."""


class TrainImageProgram(TrainProgram):
    """A program while it is being written; vectors come behind `flatten`.

    Attributes:
        size: the channels, or the neurons of a vector.
        image: rows and columns of the newest value, or columns alone; none of a vector.
    """

    def __init__(self, seed: int, steps: int, channels: int, image: tuple[int, ...]) -> None:
        self.image = image
        super().__init__(seed, steps, channels)

    def places(self) -> tuple[int, ...]:
        """The shape of a step of the newest value, without the batch."""
        return (self.size, *self.image)

    def conv(
        self,
        outputs: int,
        weights: str,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        bias: bool = False,
        groups: int = 1,
    ) -> None:
        """A convolution with random weights, `i8` or `!ternary.trit`."""
        key = self._new("conv")
        shape = (outputs, self.size // groups, *[kernel] * len(self.image))
        type = f"tensor<{'x'.join(map(str, shape))}x{weights}>"
        dialect, high = ("tensor", 7) if weights == "i8" else ("ternary", 1)
        self.values[f"{key}.weight"] = self.rng.integers(-high, high + 1, shape)
        self._put(f'%w_{key} = {dialect}.parameter "{key}.weight" : {type}')
        more = ""
        if bias:
            self.values[f"{key}.bias"] = self.rng.integers(-3, 4, outputs)
            self._put(f'%b_{key} = tensor.parameter "{key}.bias" : tensor<{outputs}xi32>')
            more = f"bias(%b_{key} : tensor<{outputs}xi32>) "
        rank = len(self.image)
        entries = (
            f"strides = {_array([stride] * rank)}, padding = {_array([padding] * 2 * rank)}, "
            f"dilation = {_array([1] * rank)}, groups = {groups} : i64"
        )
        line = f"spike.conv %{self.name}, %w_{key} {more}{{{entries}}} : {self.train()}, {type} -> "
        self.size = outputs
        self.image = tuple((n + 2 * padding - kernel) // stride + 1 for n in self.image)
        self._result(key, line + self.current())

    def fire(
        self,
        decay: int | None,
        reset: str,
        shared: Shared,
        *,
        membrane: bool,
        period: int | None = None,
    ) -> None:
        """Neurons whose thresholds are the same for all, for a channel, or for none."""
        key = self._new("neurons")
        ones = [1] * len(self.image)
        shape = {"all": (), "channel": (self.size, *ones), "position": self.places()}[shared]
        self.values[f"{key}.threshold"] = self.rng.integers(2, 15, shape)
        type = f"tensor<{''.join(f'{n}x' for n in shape)}i32>"
        self._put(f'%t_{key} = tensor.parameter "{key}.threshold" : {type}')
        leak = "" if decay is None else f"decay = {decay}.0 : f64, shift = 3 : i64, "
        model = "integrate_fire" if decay is None else "integer_lif"
        if period is not None:
            model, leak = "refractory_lif", leak.replace("decay", "beta") or "beta = 1.0 : f64, "
            leak += f"period = {period}.0 : f64, "
        final = f", tensor<?x{self.row()}xi32>" if membrane else ""
        line = (
            f'spike.{model} %{self.name} threshold(%t_{key} : {type}) {{{leak}reset = "{reset}"}} '
            f": ({self.current()}) -> ({self.train()}{final})"
        )
        if membrane:
            self._put(f"%{key}, %v_{key} = {line}")
            self.name = key
        else:
            self._result(key, line)

    def pool(self, kernel: int) -> None:
        """A spike where a window has one."""
        rank = len(self.image)
        entries = (
            f"kernel = {_array([kernel] * rank)}, strides = {_array([kernel] * rank)}, "
            f"padding = {_array([0] * 2 * rank)}"
        )
        line = f"spike.max_pool %{self.name} {{{entries}}} : ({self.train()}) -> "
        self.image = tuple((n - kernel) // kernel + 1 for n in self.image)
        self._result(self._new("pool"), line + self.train())

    def flatten(self) -> None:
        """All places of a step as one vector."""
        key = self._new("flat")
        before = self.current()
        self._put(f"%d_{key} = spike.to_tensor %{self.name} : ({self.train()}) -> {before}")
        self.size, self.image = prod(self.places()), ()
        self._put(
            f"%r_{key} = tensor.reshape_to %d_{key} {{shape = {_array([-2, -3, self.size])}}} "
            f": ({before}) -> {self.current()}"
        )
        self._result(key, f"spike.from_tensor %r_{key} : ({self.current()}) -> {self.train()}")


def _array(values: list[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>"
