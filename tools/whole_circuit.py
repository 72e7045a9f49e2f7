"""The whole circuit of a program against the interpreter: what `triton verify --layers` ends with.

It is the circuit that the target writes, with all of its checks; the results for samples are
compared with the program as it was written. Not here: single layers (`layer_verification`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ..dialects.interpret import run_module
from ..ir.arrays import Array
from ..ir.errors import BackendError, TritonError
from ..lowering.stages import run_stages
from ..lowering.to_verilog.circuit.interface import Interface, noted_interface
from ..lowering.to_verilog.host.circuit_driver import dequantized
from ..lowering.to_verilog.options import VerilogOptions
from ..lowering.to_verilog.simulation import received
from ..lowering.to_verilog.target import VerilogTarget
from ..lowering.to_verilog.testbench import golden, random_inputs
from ..passes.expose_logits import left_out
from .circuit_comparison import compared
from .layer_results import LayerChecks, LayerResult
from .verify import compare, is_integer_program

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


WHOLE = "all together"
"""What the whole circuit is called among layers."""

_CYCLES = 50_000
"""The most cycles of random frames: a folded circuit takes thousands of them for each."""


def check_whole(
    module: ModuleOp,
    samples: Sequence[Array],
    options: VerilogOptions,
    checks: LayerChecks,
) -> LayerResult:
    """The whole circuit, simulated and compared.

    Random frames go in first, then the samples, where these are asked for. What comes out is
    compared with the integer program bit for bit, and with the program as it was written.

    Args:
        module: the program.
        samples: inputs of `@forward`, in order.
        options: of the target; one that it refuses, a device without room, is a result too.
        checks: how.

    Raises:
        BackendError: no simulator is installed.
    """
    start = perf_counter()
    work, target = module.clone(), VerilogTarget()
    in_folder = replace(options, form="folder")
    try:
        target.prepare(work, in_folder)
        run_stages(work, target.stages(in_folder))
        interface = noted_interface(work)
        files = target.emit(work, in_folder).files
        rtl = {PurePath(n).name: t.decode() for n, t in files.items() if n.startswith("rtl/")}
        frames = _frames(interface, checks)
        result = _simulated(module, work, samples, rtl, frames, checks)
    except BackendError:
        raise
    except TritonError as error:
        said = f"it cannot be built: {error}"
        result = LayerResult(WHOLE, (), 0, 0, 0, 0, "none", None, said, None, 0.0)
    return replace(result, seconds=round(perf_counter() - start, 3))


def _frames(interface: Interface, checks: LayerChecks) -> int:
    """How many random ones: those of a layer, as far as simulation does not take too long."""
    beats = max(interface.beats_in, interface.beats_out)
    return max(4, min(-(-checks.vectors // beats), _CYCLES // interface.interval))


def _simulated(
    module: ModuleOp,
    work: ModuleOp,
    samples: Sequence[Array],
    rtl: Mapping[str, str],
    frames: int,
    checks: LayerChecks,
) -> LayerResult:
    interface = noted_interface(work)
    inputs = random_inputs(interface, frames, [checks.seed, 1 << 16])
    parts = list(_as_written(interface, inputs, samples))
    if checks.with_samples:
        recorded = interface.frames(samples)
        count = len(recorded[0]) if recorded else 1
        inputs = [np.concatenate(pair) for pair in zip(inputs, recorded, strict=True)]
        parts.append((slice(frames, frames + count), list(samples)))
    total = len(inputs[0])
    expected = golden(work, interface, inputs)
    comparison = compared(rtl, interface, inputs, expected, frames, checks.simulator)
    complaint = comparison.complaint
    if comparison.difference is None and complaint is None:
        complaint = _unlike(module, work, comparison.outputs, parts)
    return LayerResult(
        WHOLE,
        (),
        total,
        total - frames,
        interface.beats_in,
        interface.latency,
        comparison.engine,
        comparison.difference,
        complaint,
        None,
        0.0,
    )


def _as_written(
    interface: Interface, frames: Sequence[Array], samples: Sequence[Array]
) -> Iterator[tuple[slice, list[Array]]]:
    """Integers of the circuit as arguments of the program, together where an axis counts frames."""
    ports = (*interface.inputs, *interface.outputs)
    size = len(frames[0]) if all(port.free for port in ports) else 1
    for start in range(0, len(frames[0]), size):
        part = slice(start, start + size)
        yield (
            part,
            [
                dequantized(port.record, x[part]).astype(sample.dtype)
                for port, x, sample in zip(interface.inputs, frames, samples, strict=True)
            ],
        )


def _unlike(
    module: ModuleOp,
    work: ModuleOp,
    outputs: Sequence[Array],
    parts: Sequence[tuple[slice, Sequence[Array]]],
) -> str | None:
    """How results differ from those of the program as it was written."""
    exact, interface, left = is_integer_program(module), noted_interface(work), left_out(work)
    for part, arguments in parts:
        actual = received(interface, [y[part] for y in outputs], left)
        row = compare(WHOLE, "", run_module(module, arguments), actual, exact, 0)
        if not row.agrees:
            return f"its results differ from the program as written by {row.max_abs:.6g}"
    return None
