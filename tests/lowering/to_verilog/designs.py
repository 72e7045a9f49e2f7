"""Small programs, one for each kind of hardware, that every tool is shown."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.stages import run_stages
from triton_dsl.lowering.targets import read_options
from triton_dsl.lowering.to_verilog.options import VerilogOptions
from triton_dsl.lowering.to_verilog.target import VerilogTarget

from .images import ImageProgram
from .test_verilog_target import network, random_values
from .train_images import TrainImageProgram
from .trains import TrainProgram

Array = NDArray[Any]
Program = Callable[..., ModuleOp]
Source = tuple[str, dict[str, Array], dict[str, Any]]


def _dense(source: str, after: str, argmax: bool, **options: Any) -> Source:
    sizes = [6, 5, 4]
    values = random_values(np.random.default_rng(1), sizes)
    return network(sizes, source, after, argmax), values, {"input_bits": 3, **options}


def _convolutions(folding: str = "") -> Source:
    """Padding, a stride, pooling, and a vector at the end."""
    written = ImageProgram(1, 2, 5, 6, "ui8")
    written.conv(3, (3, 3), padding=(1, 1, 1, 1), fused=True)
    written.pool((2, 2), (2, 2), (0, 0, 0, 0))
    size = int(np.prod(written.shape))
    written.unary("flatten", shape=(size,), attr="{start = 1 : i64, end = 3 : i64}")
    written.matmul(3)
    return written.text(), written.values, {"input_bits": 2, "folding": folding}


def _residual(**options: Any) -> Source:
    """Two ways of different length: a FIFO on the shorter."""
    written = ImageProgram(2, 2, 4, 4, "i8")
    written.conv(2, (1, 1))
    start = written.mark()
    written.conv(2, (3, 3), padding=(1, 1, 1, 1))
    written.binary("add", start)
    return written.text(), written.values, {"input_bits": 3, **options}


def _memories() -> Source:
    """Lines so long that they stand in block RAM, and weights in ROMs."""
    written = ImageProgram(3, 1, 3, 70, "ui8")
    written.conv(2, (2, 2), fused=True)
    return written.text(), written.values, {"input_bits": 2, "folding": "conv1:pe=1,simd=2"}


def _spiking() -> Source:
    """Leaky neurons, a delay, neurons whose last potentials are read, and counts of spikes."""
    written = TrainProgram(0, 5, 6)
    written.linear(4, "!ternary.trit", bias=False)
    written.neurons(7, "subtract", "ge", each=True)
    written.delay(2)
    written.linear(3, "i8", bias=True)
    written.neurons(None, "to_value", "gt", each=True, membrane=True)
    for kind in ("count", "last", "membrane"):
        written.result(kind)
    return written.text(), written.values, {}


def _feedback() -> Source:
    """Neurons that hear what they said two steps before."""
    written = TrainProgram(1, 4, 5)
    written.linear(4, "i8", bias=True)
    written.feedback("!ternary.trit", 1, 6, "subtract")
    written.result("train")
    return written.text(), written.values, {}


def _train_images() -> Source:
    """Windows on spikes, potentials in a memory, pooling, and a vector behind them."""
    written = TrainImageProgram(2, 3, 2, (4, 5))
    written.conv(3, "!ternary.trit", 3, padding=1, bias=True)
    written.fire(7, "subtract", "channel", membrane=False)
    written.pool(2)
    written.flatten()
    written.linear(3, "i8", bias=False)
    written.neurons(None, "none", "ge", each=False)
    written.result("train")
    return written.text(), written.values, {}


DESIGNS: dict[str, Callable[[], Source]] = {
    "dense": lambda: _dense("i8", "relu thresholds", True),
    "rescaled": lambda: _dense("i8", "none", False, pipeline=2),
    "bits": lambda: _dense("ui8", "thresholds", False, input_bits=1),
    "combinational": lambda: _dense("ui8", "thresholds", True, pipeline=0),
    "folded": lambda: _dense("i8", "thresholds", True, folding="fc1:pe=2,simd=3;fc2:pe=4,simd=1"),
    "loaded": lambda: _dense(
        "i8",
        "thresholds",
        False,
        folding="fc1:pe=2,simd=3;fc2:pe=4,simd=1",
        stream_width=16,
        reloadable="true",
    ),
    "digit-serial": lambda: _dense("ui8", "relu thresholds", False, folding="fc1:digit=1"),
    "conv": _convolutions,
    "folded conv": lambda: _convolutions("conv1:pe=3,simd=3"),
    "residual": _residual,
    "dense in words": lambda: _dense("i8", "none", False, stream_width=16),
    "residual in words": lambda: _residual(stream_width=32),
    "memories": _memories,
    "spiking": _spiking,
    "feedback": _feedback,
    "spiking conv": _train_images,
}


def source(program: Program, name: str) -> tuple[ModuleOp, dict[str, Any]]:
    """A program and the options of the target for it."""
    text, values, options = DESIGNS[name]()
    return program(text, values), {"time_budget": 0.01, "vectors": 4, **options}


@cache
def hardware(program: Program, name: str, **more: Any) -> tuple[ModuleOp, Artifact]:
    """A design as hw, comb and seq, and the files that the target makes of that; for reading."""
    module, values = source(program, name)
    target = VerilogTarget()
    options = read_options(target, {**values, **more})
    assert isinstance(options, VerilogOptions)
    run_stages(module, target.stages(options))
    return module, target.emit(module, options)
