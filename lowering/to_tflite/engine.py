"""Runs a model in LiteRT, and compares it with the reference interpreter before it is written."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ...dialects.interpret import run_module
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type
from ...ir.arrays import Array
from ...ir.errors import BackendError, LoweringError, TritonError, first_line
from ...ir.extras import install
from ..comparison import BATCH, disagreement, products, sample_inputs
from ..engine import ArtifactEngine
from .first_remark import without_first_remark

MOST_PRODUCTS = 2 * 10**9
"""As many multiplications the interpreter makes for a check, so that it takes a second at most."""


def run_tflite(
    model: bytes,
    inputs: Sequence[Array],
    *,
    threads: int = 1,
    delegates: bool = True,
    reference: bool = False,
) -> list[Array]:
    """Run a model in LiteRT; inputs and outputs in the order of the graph.

    Args:
        model: the file.
        inputs: arrays, with any batch.
        threads: how many LiteRT may use.
        delegates: whether XNNPACK may take over what it can, as LiteRT does by default.
        reference: whether LiteRT's reference kernels run it, which are slow.

    Raises:
        BackendError: `ai-edge-litert` is missing, or LiteRT refuses the model or the inputs, or
            keeps results for itself.
    """
    interpreter = _invoked(model, inputs, threads, delegates, reference, keep=False)
    outputs = interpreter.get_output_details()
    try:
        return [interpreter.get_tensor(port["index"]).copy() for port in outputs]
    except ValueError as error:
        raise BackendError(f"LiteRT gives no results: {first_line(error)}") from error


def tensors_of(
    model: bytes, inputs: Sequence[Array], *, delegates: bool = False, reference: bool = False
) -> dict[int, Array]:
    """What LiteRT computes for each tensor of a model, by number; see `run_tflite`."""
    interpreter = _invoked(model, inputs, 1, delegates, reference, keep=True)
    tensors: dict[int, Array] = {}
    for port in interpreter.get_tensor_details():
        with suppress(ValueError):  # nothing was computed for it
            tensors[port["index"]] = interpreter.get_tensor(port["index"]).copy()
    return tensors


def _invoked(
    model: bytes,
    inputs: Sequence[Array],
    threads: int,
    delegates: bool,
    reference: bool,
    *,
    keep: bool,
) -> Any:
    """LiteRT's interpreter after a run; with `keep` it has the values of all tensors."""
    try:
        from ai_edge_litert.interpreter import (  # pyright: ignore[reportMissingImports]
            Interpreter,
            OpResolverType,
        )
    except ImportError:
        raise BackendError(f"LiteRT is missing: {install('tflite')}") from None
    resolvers: Any = OpResolverType
    kernels = resolvers.AUTO if delegates else resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    if reference:
        kernels = resolvers.BUILTIN_REF
    try:
        with without_first_remark():
            interpreter: Any = Interpreter(
                model_content=model,
                num_threads=threads,
                experimental_op_resolver_type=kernels,
                experimental_preserve_all_tensors=keep,
            )
        ports = interpreter.get_input_details()
        if len(ports) != len(inputs):
            raise BackendError(f"the model takes {len(ports)} inputs, got {len(inputs)}")
        for port, array in zip(ports, inputs, strict=True):
            if tuple(port["shape"]) != array.shape:
                interpreter.resize_tensor_input(port["index"], array.shape)
        with without_first_remark():
            interpreter.allocate_tensors()
        for port, array in zip(ports, inputs, strict=True):
            interpreter.set_tensor(port["index"], np.ascontiguousarray(array).reshape(array.shape))
        interpreter.invoke()
        return interpreter
    except (RuntimeError, ValueError) as error:
        raise BackendError(f"LiteRT refuses the model: {first_line(error)}") from error


def run_faithfully(
    model: bytes, inputs: Sequence[Array], *, reference: bool
) -> tuple[list[Array], bool]:
    """`run_tflite` with the kernels on which a file is exact, and whether it was these.

    LiteRT's reference kernels lack a few operators; files with them run on those of the default.

    Args:
        model: the file.
        inputs: as for `run_tflite`.
        reference: whether the file is exact on the reference kernels alone.

    Raises:
        BackendError: as for `run_tflite`.
    """
    if reference:
        try:
            return run_tflite(model, inputs, reference=True), True
        except BackendError as error:
            if "Didn't find op" not in str(error):
                raise
    return run_tflite(model, inputs), not reference


class TFLiteEngine(ArtifactEngine):
    """A TFLite model in LiteRT, on the kernels on which it is exact.

    Images go in and come out in the order of the file; the manifest says which.
    """

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Engine.run`."""
        manifest = self.artifact.manifest
        input_axes, output_axes = (
            cast("list[Any]", manifest[f"{end}_axes"]) for end in ("input", "output")
        )
        laid = [x.transpose(axes) for x, axes in zip(inputs, input_axes, strict=True)]
        reference = manifest.get("kernels") == "reference"
        model = next(iter(self.artifact.files.values()))
        outputs, _ = run_faithfully(model, laid, reference=reference)
        self.name = f"litert {version('ai-edge-litert')}"
        return [y.transpose(np.argsort(axes)) for y, axes in zip(outputs, output_axes, strict=True)]


def self_check(
    model: bytes,
    module: ModuleOp,
    function: FuncOp,
    orders: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]],
    *,
    coarse: bool,
    inputs: Sequence[Array] | None = None,
    reference: bool = False,
) -> bool:
    """Run the model in LiteRT and in the interpreter and compare; whether the numbers were.

    Large programs are compared on fewer samples. Where one alone is too much they run in LiteRT and
    nowhere else, which finds models that it refuses.

    Args:
        model: the file.
        module: the program that was emitted, and its entry.
        function: the entry of `module`.
        orders: of each input's and each output's axes in the file.
        coarse: whether the file rounds more than float32 does.
        inputs: of the program; by default `sample_inputs`.
        reference: whether the file is exact on LiteRT's reference kernels.

    Raises:
        LoweringError: LiteRT refuses the model, or computes something else.
    """
    free = [DYNAMIC in dense_type(argument).get_shape()[:1] for argument in function.args]
    affordable = MOST_PRODUCTS // max(products(function) // (BATCH if any(free) else 1), 1)
    whole = sample_inputs(module, function) if inputs is None else inputs
    inputs = [x[: max(affordable, 1)] if f else x for x, f in zip(whole, free, strict=True)]
    try:
        expected = run_module(module, inputs) if affordable else None
    except TritonError:
        return False  # the sizes chosen here do not suit the program
    laid_inputs = [x.transpose(order) for x, order in zip(inputs, orders[0], strict=True)]
    try:
        actual, faithful = run_faithfully(model, laid_inputs, reference=reference)
    except BackendError as error:
        raise LoweringError(f"the self-check of the TFLite model failed: {error}") from None
    if expected is None:
        return False
    laid = [want.transpose(order) for want, order in zip(expected, orders[1], strict=True)]
    problem = disagreement(laid, actual, module, coarse=coarse or not faithful)
    if problem is not None:
        raise LoweringError(
            f"the self-check of the TFLite model failed: {problem}; the option self-check=false "
            "writes it nevertheless"
        )
    return True
