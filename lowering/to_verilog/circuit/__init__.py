"""The pass `convert-ternary-to-hw`: an integer program as a circuit of `hw`, `comb` and `seq`.

`conversion` takes a function through it, `refusals` says what it refuses, `circuit_rules` has the
ops. `stages` are the parts of a circuit, joined by valid and ready, and `pipeline` is the
arithmetic of one: all of a program that is one piece of arithmetic. `signals` is what is known of a
number, `arrays` holds them in the shapes of tensors, `arithmetic` computes with them, `circuit`
writes bits and registers, `bit_counts` sums of single bits, `modules` the modules of both, `stream`
those with AXI4-Streams around them, `ports` what goes in and out, `interface` all of that from
outside, `memories` has RAMs and ROMs. Not here: Verilog (`lowering.to_verilog`), the search for
shared adders (`passes.adder_graph`), and that for cheap multipliers (`passes.requantize`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ....ir.attribute_data import attribute_of
from ....ir.errors import OptionError
from ....ir.interpreter import entry_function
from ....passes.adder_graph.optimize_adder_graph import check_search
from ....passes.quantize_activations.expose_integers import ExposeIntegersPass
from ..estimate.families import family_of
from .circuit import Search
from .conversion import Conversion
from .folding.layers import split_products
from .framing import STREAM_WIDTHS
from .interface import INTERFACE
from .liveness import live
from .module_names import without_copies
from .pacing import DEVICE, Pacing
from .stages.building import BuildOptions

__all__ = ["LOADS", "ConvertTernaryToHwPass"]

LOADS = "verilog.loads"
"""The attribute of a module with the memories that can be loaded, in order, by symbol."""


@dataclass(frozen=True)
class ConvertTernaryToHwPass(ModulePass):
    """Make the function `@forward`, whose tensors are integers, a pipelined circuit.

    Every number gets exactly the bits that it needs, by interval arithmetic from the inputs on.
    A product with known weights takes the form that is smallest: rows of look-up tables, single
    bits that are counted, or shared adders, those of a `ternary.adder_graph` where
    `optimize-adder-graph` was run before. Quantisation at the edges is left to the caller, as by
    `expose-integers`. Biases, signs and zero points cost no
    adder where thresholds, bounds or a rescaling follow; `tensor.requantize` becomes thresholds or
    a multiplication by the fewest digits that give the same result for every number there can be.

        func.func @forward(%x: tensor<?x2xi8>) -> tensor<?x1xi32> {
          %y = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64: 0, 1, -1, 0>,
               outputs = array<i64: 2, 1>} : (tensor<?x2xi8>) -> tensor<?x1xi32>
          func.return %y : tensor<?x1xi32>
        }
        // becomes a module with the arithmetic and one with an AXI stream around it
        hw.module @network_core(in %clock : !seq.clock, in %enable : i1, in %x : i16,
                                out y : i9) {…}
        hw.module @network(in %aclk : !seq.clock, in %aresetn : i1, in %s_axis_tdata : i16, …) {…}

    One vector goes in a beat; the free leading axis counts beats. All paths have the same number of
    registers. A program with a convolution or pooling becomes a network of stages, one pixel a beat
    (`stages`). The attribute `verilog.interface` says what the streams carry, and the latency.

    Raises:
        OptionError: an option is out of its range.
        UnsupportedError: ops that cannot become hardware, all of them; the function is as it was.
    """

    name = "convert-ternary-to-hw"

    input_bits: int | None = None
    """The width of inputs of integer type, where it is less than that of their type."""

    pipeline: int = 1
    """A register after so many levels of adders; 0 for none at all."""

    clock: float | int | None = None
    """In MHz: instead of `pipeline`, as few registers as let no path take longer than a period."""

    device: str = DEVICE
    """The family of FPGAs: `ultrascale+`, `7-series`, `ecp5`, `ice40-hx` or `ice40-up`. Its delays
    count for `clock`, and sums of single bits are made for its look-up tables."""

    cost: str = "bits"
    """What to make small in products on images, see `optimize-adder-graph`."""

    max_depth: int | None = None
    """The most levels of adders in a product, see `optimize-adder-graph`."""

    time_budget: float | int = 1.0
    """About how many seconds to search a product, see `optimize-adder-graph`."""

    stream_width: int | None = None
    """Bits of a word of the streams, 8 to 1,024 and a power of two; by default a word is a beat."""

    plain_sums: bool = False
    """Write sums of sums of one cycle as sums: most tools keep them apart or make them smaller."""

    rows: bool = True
    """Let products be rows of look-up tables where the family has primitives for them: elsewhere,
    in plain Verilog, they are larger than adders."""

    keep_function: bool = False
    """Leave `@forward` beside the circuit, as what a test compares with."""

    def __post_init__(self) -> None:
        if self.input_bits is not None and not 1 <= self.input_bits <= 32:
            raise OptionError(f"{self.name} expects input-bits in [1, 32], got {self.input_bits}")
        if self.pipeline < 0:
            raise OptionError(f"{self.name} expects pipeline of 0 or more, got {self.pipeline}")
        if self.clock is not None and not 0 < self.clock < float("inf"):
            raise OptionError(f"{self.name} expects clock in MHz, got {self.clock}")
        check_search(self.name, self.cost, self.max_depth, self.time_budget)
        if self.stream_width is not None and self.stream_width not in STREAM_WIDTHS:
            known = ", ".join(map(str, STREAM_WIDTHS))
            raise OptionError(
                f"{self.name} expects stream-width of {known}, got {self.stream_width}"
            )
        family_of(self.device)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ExposeIntegersPass().apply(ctx, op)
        conversion = self.conversion(op)
        conversion.check()
        modules, interface = conversion.convert()
        modules = live(without_copies(modules))
        if not self.keep_function:
            for old in list(op.ops):
                if isinstance(old, FuncOp):
                    op.body.block.erase_op(old)
        op.body.block.add_ops(modules)
        if conversion.loads is not None:
            op.attributes[LOADS] = attribute_of([m.symbol for m in conversion.loads.memories])
        op.attributes[INTERFACE] = StringAttr(json.dumps(interface.to_dict()))

    def conversion(self, module: ModuleOp) -> Conversion:
        """What makes the circuit of a program; what follows its products becomes ops of its own."""
        function = entry_function(module, "forward")
        split_products(function)
        clock = None if self.clock is None else float(self.clock)
        pacing = Pacing(self.pipeline, clock, self.device, self.plain_sums, self.rows)
        search = Search(self.cost, float(self.time_budget), self.max_depth)
        options = BuildOptions(pacing, search, self.stream_width or 0)
        return Conversion(module, function, self.input_bits, options)
