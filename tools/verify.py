"""The same inputs through the reference interpreter and the real engine of each target.

`verify_module` is the library face of `triton verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ..ir.errors import LoweringError, OptionError, PassError, TritonError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..lowering.artifact import Artifact

Array = NDArray[Any]

RTOL, ATOL = 1e-4, 1e-5
"""Tolerance for float programs, |a - b| ≤ ATOL + RTOL · max|a| over one output: sums of a few
thousand f32 products in any order stay within. A sum whose terms cancel errs in proportion to the
terms, hence the largest value of the output and not each value by itself, as in
`dialects.equivalence.Tolerance`."""


@dataclass(frozen=True)
class Comparison:
    """One target against the interpreter.

    Attributes:
        target: target and options.
        engine: what ran it.
        max_abs: largest absolute difference over all outputs.
        max_rel: largest difference relative to the interpreter's value, where that is not 0.
        argmax_agreement: share of rows with the same argmax on the last axis; `None` for outputs
            of rank 0.
        bit_exact: whether every output is equal bit for bit.
        exact_required: whether the program is integer, so that anything but equality is a failure.
        agrees: the verdict.
        bytes: size of the artefact.
    """

    target: str
    engine: str
    max_abs: float
    max_rel: float
    argmax_agreement: float | None
    bit_exact: bool
    exact_required: bool
    agrees: bool
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dictionary."""
        return asdict(self)


def default_targets() -> tuple[str, ...]:
    """The targets that are verified when none is named: `native` and `tflite` where installed."""
    from importlib.util import find_spec

    needed = {"native": "llvmlite", "tflite": "ai_edge_litert"}
    return ("pytorch", "onnx", *(name for name, module in needed.items() if find_spec(module)))


def verify_module(
    module: ModuleOp,
    inputs: Sequence[Array],
    targets: Sequence[str] | None = None,
    *,
    rtol: float = RTOL,
    atol: float = ATOL,
    on_refusal: Callable[[str, TritonError], None] | None = None,
) -> list[Comparison]:
    """Compile `module` to each target, run it there and compare with the interpreter.

    Args:
        module: the program.
        inputs: of `@forward`, in order.
        targets: with their options; `default_targets` when not given.
        rtol: relative tolerance of float programs.
        atol: absolute tolerance of float programs.
        on_refusal: told of each default target that cannot express the program, and why; without
            it, of a target that was asked for, or where none can, the error is raised.

    Raises:
        OptionError: a target without an engine here.
        TritonError: the program does not compile or run.
    """
    from ..dialects.interpret import run_module

    expected = run_module(module, inputs)
    exact = is_integer_program(module)
    rows: list[Comparison] = []
    refusals: list[TritonError] = []
    for target in default_targets() if targets is None else targets:
        try:
            engine, actual, size = run_target(module, target, inputs)
        except (LoweringError, PassError) as error:
            if targets is not None or on_refusal is None:
                raise
            refusals.append(error)
            on_refusal(target, error)
            continue
        rows.append(compare(target, engine, expected, actual, exact, size, rtol=rtol, atol=atol))
    if refusals and not rows:
        raise refusals[0]
    return rows


def run_target(
    module: ModuleOp, target: str, inputs: Sequence[Array]
) -> tuple[str, list[Array], int]:
    """Compile `module` to a target and run it: the engine's name, the outputs, the artefact's size.

    Raises:
        OptionError: no engine runs this target.
        TritonError: the program does not compile or run.
    """
    from ..lowering.targets import compile_to_target

    if target.partition("{")[0] == "native":
        return _run_native(module, target, inputs)
    artifact = compile_to_target(module.clone(), target)
    engine, outputs = run_artifact(target, artifact, inputs)
    return engine, outputs, sum(len(content) for content in artifact.files.values())


def _run_native(
    module: ModuleOp, target: str, inputs: Sequence[Array]
) -> tuple[str, list[Array], int]:
    """In this process, as `tools.native` runs programs; the size is that of code and constants."""
    from ..lowering.options import parse_options, parse_target_spec
    from ..lowering.to_native.target import NativeOptions
    from ..runtime.native.program import load_program
    from .native import program_content

    options = parse_options(NativeOptions, "native", parse_target_spec(target).options)
    content = program_content(module, options)
    program = load_program(content)
    return f"native ({program.interface.recipe})", program.run(inputs), len(content)


def run_artifact(
    target: str, artifact: Artifact, inputs: Sequence[Array]
) -> tuple[str, list[Array]]:
    """Run an artefact on its engine; the engine's name and version, and the outputs.

    Raises:
        OptionError: no engine runs this target.
    """
    from importlib.metadata import version

    name = target.partition("{")[0]
    if name == "pytorch":
        from ..lowering.to_pytorch.load import load_module
        from ..runtime.engines import run_torch

        outputs = run_torch(load_module(artifact), inputs)
        return f"torch {version('torch')}", outputs
    if name == "onnx":
        from ..lowering.artifact import write_artifact
        from ..runtime.engines import run_onnx

        if len(artifact.files) == 1:
            outputs = run_onnx(next(iter(artifact.files.values())), inputs)
        else:  # weights beside the model are found by the model's path
            with TemporaryDirectory() as folder:
                outputs = run_onnx(write_artifact(artifact, Path(folder))[0], inputs)
        return f"onnxruntime {version('onnxruntime')}", outputs
    if name == "verilog":
        from .verilog import run_verilog

        return run_verilog(artifact, inputs)
    if name == "tflite":
        return f"litert {version('ai-edge-litert')}", _run_litert(artifact, inputs)
    raise OptionError(f"target '{name}' has no engine to verify it on")


def _run_litert(artifact: Artifact, inputs: Sequence[Array]) -> list[Array]:
    """Images go in and come out in the order of the file; the manifest says which."""
    from ..lowering.to_tflite.engine import run_faithfully

    given, made = (
        cast("list[Any]", artifact.manifest[f"{end}_axes"]) for end in ("input", "output")
    )
    laid = [x.transpose(axes) for x, axes in zip(inputs, given, strict=True)]
    reference = artifact.manifest.get("kernels") == "reference"
    outputs, _ = run_faithfully(next(iter(artifact.files.values())), laid, reference=reference)
    return [y.transpose(np.argsort(axes)) for y, axes in zip(outputs, made, strict=True)]


def compare(
    target: str,
    engine: str,
    expected: Sequence[Array],
    actual: Sequence[Array],
    exact: bool,
    size: int,
    *,
    rtol: float = RTOL,
    atol: float = ATOL,
) -> Comparison:
    """The differences between two lists of outputs."""
    same_form = len(expected) == len(actual) and all(
        e.shape == a.shape and e.dtype == a.dtype for e, a in zip(expected, actual, strict=True)
    )
    if not same_form:
        nan = float("nan")
        return Comparison(target, engine, nan, nan, None, False, exact, False, size)
    pairs = [
        (e.astype(np.float64), a.astype(np.float64))
        for e, a in zip(expected, actual, strict=True)
        if e.size
    ]
    max_abs = max((float(_difference(e, a).max()) for e, a in pairs), default=0.0)
    max_rel = max((_relative(e, a) for e, a in pairs), default=0.0)
    bit_exact = all(e.tobytes() == a.tobytes() for e, a in zip(expected, actual, strict=True))
    close = all(_difference(e, a).max() <= atol + rtol * _largest(e) for e, a in pairs)
    rows = [(e, a) for e, a in pairs if e.ndim]
    agreement = None
    if rows:
        same = np.concatenate([np.ravel(e.argmax(axis=-1) == a.argmax(axis=-1)) for e, a in rows])
        agreement = float(same.mean())
    agrees = bit_exact if exact else close
    return Comparison(target, engine, max_abs, max_rel, agreement, bit_exact, exact, agrees, size)


def _difference(expected: Array, actual: Array) -> Array:
    with np.errstate(invalid="ignore"):
        difference = np.abs(expected - actual)
    same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
    return np.where(same, 0.0, np.where(np.isnan(difference), np.inf, difference))


def _largest(expected: Array) -> float:
    return float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)))


def _relative(expected: Array, actual: Array) -> float:
    scale = np.abs(expected)
    nonzero = (scale > 0) & np.isfinite(scale)
    if not nonzero.any():
        return 0.0
    return float((_difference(expected, actual)[nonzero] / scale[nonzero]).max())


def is_integer_program(module: ModuleOp) -> bool:
    """Whether every result is exact by definition: float values are only quantised, dequantised,
    converted, compared or moved, so that all engines must agree bit for bit."""
    from ..dialects import spike, tensor, ternary
    from ..dialects.shapes import is_float
    from ..dialects.spike.types import dense_type

    harmless = (
        tensor.ParameterOp,
        tensor.ConstantOp,
        tensor.QuantizeOp,
        tensor.DequantizeOp,
        tensor.ConvertOp,
        tensor.CompareOp,
        tensor.ReluOp,
        tensor.ReshapeToOp,
        tensor.FlattenOp,
        tensor.PermuteOp,
        tensor.SliceOp,
        tensor.SqueezeOp,
        tensor.UnsqueezeOp,
        tensor.MaxPoolOp,
        tensor.MultiThresholdOp,
        ternary.ParameterOp,
        ternary.ConstantOp,
        spike.EncodeOp,
        spike.FromTensorOp,
        spike.ToTensorOp,
    )
    for op in module.walk():
        if op.name.split(".")[0] not in ("tensor", "ternary", "spike") or isinstance(op, harmless):
            continue
        if isinstance(op, spike.AttentionOp | spike.SimulateOp):
            return False  # floats inside
        if any(is_float(dense_type(value)) for value in (*op.operands, *op.results)):
            return False
    return True
