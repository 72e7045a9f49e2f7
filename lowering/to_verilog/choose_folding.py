"""The pass `choose-folding`: which form each product with trits takes in hardware."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...ir.attribute_data import dictionary_of
from ...ir.errors import OptionError
from ...ir.interpreter import entry_function
from .circuit.folding.choice import Choice, FoldableLayer, Goal, Measured
from .circuit.folding.forms import Folded, Serial, note_form, parsed_forms
from .circuit.folding.layers import ProductOp, products, split_products
from .circuit.folding.measuring import conversion_pass, measured
from .circuit.folding.reaching import reached
from .circuit.pacing import DEVICE

FOLDING = "verilog.folding"
"""The attribute of a module with the forms that were chosen: a dictionary a layer."""


@dataclass(frozen=True)
class ChooseFoldingPass(ModulePass):
    """Choose how many cycles each product with trits takes in hardware.

    A product of integers with a known matrix of trits [K, N] can be *unrolled* (every addition in
    hardware of its own, a beat a cycle), *digit-serial* (the same additions, for some bits of the
    numbers a cycle) or *folded* (SIMD inputs and PE columns a cycle, weights in a memory). With
    `target-fps` every layer takes the least area that keeps up; with `lut-budget` the network gets
    as quick as it can in that area; with both the first is to be reached within the second. The
    product gets the attribute `verilog.form`, which `convert-ternary-to-hw` follows; the module
    gets `verilog.folding` with the choice for every layer.

        %y = ternary.matmul %x, %w : tensor<?x64xi8>, tensor<64x32x!ternary.trit> -> …
        // becomes, with folding="fc1:pe=8,simd=16"
        %y = ternary.matmul %x, %w {ternary.weight = "fc1.weight",
             verilog.form = {kind = "folded", pe = 8 : i64, simd = 16 : i64}} : …

    Areas are by closed formulas: LUTs, and a block of memory for as many as devices have for one.
    With `circuit` they only propose: the circuit is built, its interval and its area by
    `to_verilog.estimate` are compared with the goal, and the choice is made again where they miss.

    Raises:
        OptionError: an option is out of its range, names no layer or what a layer cannot take, or
            the goal cannot be reached; then the message says what can.
    """

    name = "choose-folding"

    target_fps: float | int | None = None
    """Frames a second that the circuit must take, at `clock`."""

    lut_budget: int | None = None
    """LUTs that all products together may take; with `circuit` those of the whole circuit."""

    folding: str = ""
    """Forms of layers: `fc1:pe=8,simd=16;fc2:unrolled;fc3:digit=2`; the others are chosen."""

    input_bits: int | None = None
    """The width of inputs of integer type, where it is less than that of their type."""

    clock: float | int = 100.0
    """The clock, in MHz."""

    reloadable: str = ""
    """Folded layers whose weights can be loaded at run time, as `fc1;fc2`; `true` for all."""

    circuit: str | None = None
    """Options of `convert-ternary-to-hw` with which circuits are built, to compare with the goal;
    by formulas alone where it is not given."""

    build: bool = False
    """Leave the circuit that was compared with the goal, with `@forward` beside it."""

    def __post_init__(self) -> None:
        for option, value in (("target-fps", self.target_fps), ("lut-budget", self.lut_budget)):
            if value is not None and not 0 < value < float("inf"):
                raise OptionError(f"{self.name} expects {option} above 0, got {value}")
        if not 0 < self.clock < float("inf"):
            raise OptionError(f"{self.name} expects clock in MHz above 0, got {self.clock}")
        if self.input_bits is not None and not 1 <= self.input_bits <= 32:
            raise OptionError(f"{self.name} expects input-bits in [1, 32], got {self.input_bits}")
        parsed_forms(self.folding)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = entry_function(op, "forward")
        split_products(function)
        foldable = products(function, self.input_bits, self._grade)
        cycles = None
        if self.target_fps is not None:
            cycles = int(self.clock * 1e6 / self.target_fps)
            if not cycles:
                raise OptionError(
                    f"target-fps={self.target_fps:g} is more than a frame a cycle at "
                    f"{self.clock:g} MHz"
                )
        goal = Goal(cycles, self.lut_budget, float(self.clock))
        layers = [layer for _, layer in foldable]
        choices, circuit = self._chosen(ctx, op, layers, goal)
        if circuit is None or not self.build:
            self._note(foldable, choices)
        rows = [_row(*pair) for pair in zip(layers, choices, strict=True)]
        entries = {
            "clock": float(self.clock),
            "layers": rows,
            "cycles": cycles,
            "interval": None if circuit is None else circuit.interval,
        }
        op.attributes[FOLDING] = dictionary_of({k: v for k, v in entries.items() if v is not None})

    @property
    def _grade(self) -> str:
        """Of the devices that circuits are for."""
        return DEVICE if self.circuit is None else conversion_pass(self.circuit).device

    def _chosen(
        self, ctx: Context, module: ModuleOp, layers: Sequence[FoldableLayer], goal: Goal
    ) -> tuple[list[Choice], Measured | None]:
        """The choices, and what the circuit takes where one was built; with `build` it is there."""
        forms = parsed_forms(self.folding)
        if self.circuit is None or (goal.cycles is None and goal.luts is None):
            return reached(layers, forms, goal)[0], None
        conversion = replace(conversion_pass(self.circuit), keep_function=self.build)
        latest: list[tuple[list[Choice], ModuleOp]] = []

        def build(choices: Sequence[Choice], *, sized: bool = goal.luts is not None) -> Measured:
            trial = module.clone()
            function = entry_function(trial, "forward")
            self._note(products(function, self.input_bits, self._grade), choices)
            # Of large circuits there is memory for one.
            latest[:] = [([*choices], trial)] if self.build else []
            return measured(ctx, trial, conversion, sized=sized)

        choices, circuit = reached(layers, forms, goal, build)
        if self.build:
            if latest[0][0] != choices:
                build(choices, sized=False)
            _become(module, latest[0][1])
        return choices, circuit

    def _note(
        self, foldable: Sequence[tuple[ProductOp, FoldableLayer]], choices: Sequence[Choice]
    ) -> None:
        """Give the products their forms.

        Raises:
            OptionError: weights are to be loaded of a layer that there is not or that has none in
                a memory.
        """
        names = list(filter(None, (name.strip() for name in self.reloadable.split(";"))))
        wanted = set(names) - {"true"}
        folded = {
            layer.name
            for (_, layer), choice in zip(foldable, choices, strict=True)
            if isinstance(choice.form, Folded)
        }
        if (names and not folded) or not wanted <= folded:
            known = f"those of {', '.join(sorted(folded))}" if folded else "no layer is folded so"
            shown = ", ".join(f"'{name}'" for name in sorted(wanted - folded)) or "any layer"
            raise OptionError(
                f"reloadable: the weights of {shown} are not in a memory, only of layers with "
                f'folding="LAYER:pe=P,simd=S": {known}'
            )
        loaded = folded if "true" in names else wanted
        for (product, layer), choice in zip(foldable, choices, strict=True):
            form = choice.form
            if isinstance(form, Folded) and layer.name in loaded:
                form = replace(form, loadable=True)
            note_form(product, form)


def _become(module: ModuleOp, other: ModuleOp) -> None:
    """Let a module have what another one has, which is empty then."""
    module.body.erase_block(module.body.block)
    other.body.move_blocks(module.body)
    module.attributes.update(other.attributes)


def _row(layer: FoldableLayer, choice: Choice) -> dict[str, object]:
    k, n = layer.product.shape
    pe, simd = n, k
    if isinstance(choice.form, Folded):
        pe, simd = choice.form.folding.pe, choice.form.folding.simd
    return {
        "layer": layer.name,
        "form": type(choice.form).__name__.lower(),
        "inputs": k,
        "outputs": n,
        "pe": pe,
        "simd": simd,
        "digit": choice.form.digit if isinstance(choice.form, Serial) else 0,
        "cycles": choice.cycles,
        "luts": choice.cost.luts,
        "flip_flops": choice.cost.flip_flops,
        "block_memories": choice.cost.blocks,
    }
