"""Programs on a simulated circuit: what `triton verify -t verilog` runs.

Inputs are quantised and results dequantised here as the circuit's report says; between the two
every bit is that of the simulated registers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir.errors import BackendError
from ..lowering.artifact import Artifact
from ..lowering.to_verilog.interface import Interface, Port, pack, unpack
from ..lowering.to_verilog.testbench import vector_files
from ..runtime.verilog import simulate

Array = NDArray[Any]


def run_verilog(
    artifact: Artifact, inputs: Sequence[Array], simulator: str | None = None
) -> tuple[str, list[Array]]:
    """Simulate a circuit on the inputs of the program; the simulator, and the program's results.

    Args:
        artifact: a folder of the target `verilog`.
        inputs: of `@forward`, in order; a free axis (of trains that after time) is one frame an
            element.
        simulator: see `runtime.verilog.simulate`.

    Raises:
        BackendError: no simulator, or the circuit does not finish as it should.
        LoweringError: an input is out of the range that the circuit was made for.
    """
    interface = Interface.from_dict(json.loads(artifact.text("report.json")))
    integers = [_quantized(port, x) for port, x in zip(interface.inputs, inputs, strict=True)]
    beats = max((len(x) for x in integers), default=1)
    integers = [np.broadcast_to(x, (beats, x.shape[1])) for x in integers]
    words = pack(interface.inputs, integers)
    results = _simulated(artifact, interface, words, simulator)
    outputs = unpack(interface.outputs, results[1])
    return results[0], [
        _dequantized(port, x) for port, x in zip(interface.outputs, outputs, strict=True)
    ]


def _simulated(
    artifact: Artifact, interface: Interface, words: Sequence[int], simulator: str | None
) -> tuple[str, list[int]]:
    """The simulator, and the words of the results."""
    once = len(words) == interface.beats_in
    sent = [*words, *words] if once else list(words)
    frames = len(sent) // interface.beats_in
    rtl = {
        Path(name).name: artifact.text(name) for name in artifact.files if name.startswith("rtl/")
    }
    wanted = frames * interface.beats_out
    tests = vector_files(interface, sent, [0] * wanted)
    with TemporaryDirectory() as folder:
        run = simulate({**rtl, **tests}, f"{interface.name}_tb", Path(folder), simulator)
        written = Path(folder) / f"{interface.name}_results.mem"
        lines = written.read_text().split() if written.exists() else []
    said = ("latency is", "interval is", "tlast")
    if len(lines) != wanted or any(text in run.output for text in said):
        last = run.output.strip().splitlines()[-1:]
        raise BackendError(f"the circuit gave {len(lines)} of {wanted} beats: {' '.join(last)}")
    if not all(set(line) <= set("0123456789abcdef") for line in lines):
        raise BackendError("the circuit gave undefined bits")
    return run.engine, [int(line, 16) for line in lines[: wanted // 2 if once else wanted]]


def _quantized(port: Port, x: Array) -> Array:
    """The integers [frames, elements] of an input, as `tensor.quantize` makes them."""
    how = port.quantized
    if how is not None:
        scale, zero_point = _along(how, x.ndim, np.float32)
        steps = np.rint(x / scale) + zero_point
        x = np.clip(np.nan_to_num(steps.astype(np.float64)), how["low"], how["high"])
    if port.free:
        x = np.moveaxis(x, port.frame_axis, 0)
    return x.reshape(len(x) if port.free else 1, prod(port.shape)).astype(np.int64)


def _dequantized(port: Port, integers: Array) -> Array:
    """The values of an output in the program's shape, as `tensor.dequantize` makes them."""
    if port.free:
        sizes = [n for axis, n in enumerate(port.shape) if axis != port.frame_axis]
        x = np.moveaxis(integers.reshape(len(integers), *sizes), 0, port.frame_axis)
    else:
        x = integers[0].reshape(port.shape)
    if port.quantized is None:
        return x.astype(port.dtype)
    scale, zero_point = _along(port.quantized, x.ndim, np.int64)
    return (x - zero_point).astype(np.float32) * scale


def _along(how: Mapping[str, Any], rank: int, zero_type: type[Any]) -> tuple[Array, Array]:
    """Scale and zero point, in shapes that broadcast along the axis."""
    shape = [1] * rank
    if isinstance(how["scale"], list) or isinstance(how["zero_point"], list):
        shape[how["axis"]] = -1
    scale, zero = np.array(how["scale"], np.float32), np.array(how["zero_point"], zero_type)
    return (
        scale.reshape(shape) if scale.ndim else scale,
        zero.reshape(shape) if zero.ndim else zero,
    )
