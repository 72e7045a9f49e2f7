"""`optimize_onnx_model`: an ONNX file made smaller and faster, and compared with what it was."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import BackendError, LoweringError, OptionError, UnsupportedError, refuse
from ...ir.safe_write import PendingFiles
from ...runtime.engines import open_session, require_runtime, run_session
from ..artifact import write_artifact
from ..comparison import BATCH, LENGTH, difference
from ..from_onnx import from_onnx
from ..targets import compile_to_target
from .engine import EXACT_BYTES, saturates
from .model import IR_VERSIONS, require_onnx
from .onnx_writer import TRITS

Level = Literal["basic", "extended", "all"]

LEVELS = ("basic", "extended", "all")

TOLERANCE = 1e-4
"""How far results may be from those of the model before, relative to the largest one."""

WRONG = ("Pad_Fusion",)
"""Optimisations of ONNX Runtime that change what a model computes: it takes pads with zeros in
front of a MaxPool for pads of the pool, which never win."""

_LARGE = 1 << 30
_NOT_STORED = 1 << 10


def optimize_onnx_model(
    input_path: str | Path,
    output_path: str | Path,
    optimization_level: Level = "all",
    *,
    self_check: bool = True,
) -> Path:
    """Write an optimised form of an ONNX model; its path.

    - `basic`: read as IR, simplified, and written again: standard operators, runs everywhere,
      ternary weights stay packed. A model that the IR cannot express goes through the basic
      optimisations of ONNX Runtime instead.
    - `extended`: ONNX Runtime's own fused operators too; the result runs there alone, with integer
      products that saturate on no processor.
    - `all`: layouts for the processor at hand too; the result is for such processors alone.

    Args:
        input_path: the model, with the files beside it.
        output_path: where to; it may be the same file.
        optimization_level: see above.
        self_check: compare both models in ONNX Runtime on generated inputs.

    Raises:
        OptionError: an unknown level, or no such file.
        SourceError: no ONNX model.
        LoweringError: the results are not those of the model before.
        BackendError: onnx or onnxruntime is missing, or refuses the model.
    """
    if optimization_level not in LEVELS:
        raise OptionError(
            f"expected optimization_level one of {', '.join(LEVELS)}, got '{optimization_level}'"
        )
    source, target = Path(input_path), Path(output_path)
    refuse(not source.is_file(), f"cannot read '{source}': no such file")
    with TemporaryDirectory() as folder:
        optimized = None
        if optimization_level == "basic":
            optimized = _simplified(source, Path(folder) / target.name)
        if optimized is None:
            optimized = _by_runtime(source, Path(folder) / target.name, optimization_level)
        if self_check:
            _compare(source, optimized)
        with PendingFiles() as pending:
            for path in sorted(Path(folder).iterdir()):
                pending.add(target.parent / path.name, path.read_bytes())
    return target


def _simplified(source: Path, target: Path) -> Path | None:
    """The model through the IR; `None` where the IR cannot express it."""
    onnx = require_onnx()
    model = onnx.load(source, load_external_data=False)
    opsets = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    opset = min(max(opsets.get("ai.onnx", 21), min(IR_VERSIONS)), max(IR_VERSIONS))
    try:
        module = from_onnx(source, recognize_ternary=_holds_trits(source))
        options = {"opset": opset, "self_check": False}
        artifact = compile_to_target(module, "onnx", options)
    except UnsupportedError:
        return None
    return write_artifact(artifact, target, manifest=False)[0]


def _by_runtime(source: Path, target: Path, level: Level) -> Path:
    """The model as ONNX Runtime writes it after its own optimisations."""
    levels = require_runtime().GraphOptimizationLevel
    wanted = {
        "basic": levels.ORT_ENABLE_BASIC,
        "extended": levels.ORT_ENABLE_EXTENDED,
        "all": levels.ORT_ENABLE_ALL,
    }
    configure = {
        "graph_optimization_level": wanted[level],
        "optimized_model_filepath": str(target),
    }
    entries = dict(EXACT_BYTES) if level != "all" or saturates() else {}
    if _stored_bytes(source) > _LARGE:
        entries |= {
            "session.optimized_model_external_initializers_file_name": f"{target.name}.data",
            "session.optimized_model_external_initializers_min_size_in_bytes": str(_NOT_STORED),
        }
    # Packed trits would be folded to floats, sixteen times as large.
    without = ["ConstantFolding"] if _holds_trits(source) else []
    open_session(source, configure=configure, entries=entries, without=[*without, *WRONG])
    return target


def _stored_bytes(source: Path) -> int:
    beside = (path for path in source.parent.iterdir() if path.suffix == ".data")
    return sum(path.stat().st_size for path in (source, *beside))


def _holds_trits(source: Path) -> bool:
    model = require_onnx().load(source, load_external_data=False)
    inline = any(stored.name == TRITS for stored in model.graph.initializer)
    return inline or any(function.name.startswith("ternary.") for function in model.functions)


def _compare(before: Path, after: Path) -> None:
    """Run both models on the same inputs.

    Raises:
        LoweringError: the results differ, or the new model cannot be run.
    """
    old = open_session(before, entries=EXACT_BYTES, without=WRONG)
    inputs = generated_inputs(old)
    try:
        expected = run_session(old, inputs)
    except BackendError:
        inputs, expected = [], []  # the sizes chosen here do not suit the model
    try:
        new = open_session(after)
        actual = run_session(new, inputs) if expected else []
    except BackendError as error:
        raise LoweringError(f"the optimised ONNX model fails: {error}") from None
    names = [port.name for port in old.get_outputs()]
    if names != [port.name for port in new.get_outputs()]:
        raise LoweringError("the optimised ONNX model has other outputs than the model before")
    for name, want, got in zip(names, expected, actual, strict=False):
        limit = 0.0 if want.dtype.kind in "iub" else TOLERANCE
        off = difference(want, got) if want.shape == got.shape else float("inf")
        if off > limit:
            raise LoweringError(
                f"the optimised ONNX model differs from the model before: output '{name}' by "
                f"{off:.2g} of its largest value"
            )


def generated_inputs(session: Any) -> list[Array]:
    """Typical numbers for the inputs of a session; sizes of one name are equal."""
    random = np.random.default_rng(0)
    sizes: dict[str, int] = {}

    def size(axis: int, stated: object) -> int:
        if isinstance(stated, int):
            return stated
        default = LENGTH if axis else BATCH
        return sizes.setdefault(stated, default) if isinstance(stated, str) else default

    return [
        _numbers(port.type, [size(axis, stated) for axis, stated in enumerate(port.shape)], random)
        for port in session.get_inputs()
    ]


def _numbers(type: str, shape: Sequence[int], random: np.random.Generator) -> Array:
    element = re.sub(r"tensor\((.*)\)", r"\1", type)
    names = {"float": "float32", "double": "float64"}
    if element == "bool":
        return random.random(shape) < 0.5
    if "float" in element or element == "double":
        return random.standard_normal(shape).astype(names.get(element, element))
    return random.integers(0, 2, shape).astype(element)
