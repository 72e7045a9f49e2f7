"""Runs a model in LiteRT, and compares it with the reference interpreter before it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.elements import numpy_dtype
from ...dialects.interpret import run_module
from ...dialects.shapes import DYNAMIC, is_float
from ...dialects.spike.types import dense_type
from ...ir.errors import BackendError, LoweringError, TritonError

Array = NDArray[Any]

TOLERANCE = 1e-3
"""Of float programs, relative to the largest value of an output."""

COARSE_TOLERANCE = 0.25
"""The same for narrower arithmetic: it finds what is wrong, not what is rounded."""


def run_tflite(
    model: bytes, inputs: Sequence[Array], *, threads: int = 1, delegates: bool = True
) -> list[Array]:
    """Run a model in LiteRT; inputs and outputs in the order of the graph.

    Args:
        model: the file.
        inputs: arrays, with any batch.
        threads: how many LiteRT may use.
        delegates: whether XNNPACK may take over what it can, as LiteRT does by default.

    Raises:
        BackendError: `ai-edge-litert` is missing, or LiteRT refuses the model or the inputs.
    """
    try:
        from ai_edge_litert.interpreter import (  # pyright: ignore[reportMissingImports]
            Interpreter,
            OpResolverType,
        )
    except ImportError:
        raise BackendError("LiteRT is missing: pip install 'triton-dsl[tflite]'") from None
    resolvers: Any = OpResolverType
    kernels = resolvers.AUTO if delegates else resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        interpreter: Any = Interpreter(
            model_content=model, num_threads=threads, experimental_op_resolver_type=kernels
        )
        ports = interpreter.get_input_details()
        if len(ports) != len(inputs):
            raise BackendError(f"the model takes {len(ports)} inputs, got {len(inputs)}")
        for port, array in zip(ports, inputs, strict=True):
            if tuple(port["shape"]) != array.shape:
                interpreter.resize_tensor_input(port["index"], array.shape)
        interpreter.allocate_tensors()
        for port, array in zip(ports, inputs, strict=True):
            interpreter.set_tensor(port["index"], np.ascontiguousarray(array).reshape(array.shape))
        interpreter.invoke()
        outputs = interpreter.get_output_details()
        return [interpreter.get_tensor(port["index"]).copy() for port in outputs]
    except (RuntimeError, ValueError) as error:
        raise BackendError(f"LiteRT refuses the model: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def self_check(
    model: bytes,
    module: ModuleOp,
    function: FuncOp,
    orders: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]],
    *,
    coarse: bool,
    inputs: Sequence[Array] | None = None,
) -> None:
    """Run the model in LiteRT and in the interpreter and compare.

    Args:
        model: the file.
        module: the program that was emitted, and its entry.
        function: the entry of `module`.
        orders: of each input's and each output's axes in the file.
        coarse: whether the file rounds more than float32 does.
        inputs: of the program; by default `sample_inputs`.

    Raises:
        LoweringError: LiteRT refuses the model, or computes something else.
    """
    inputs = sample_inputs(module, function) if inputs is None else inputs
    try:
        expected = run_module(module, inputs)
    except TritonError:
        return  # the sizes chosen here do not suit the program
    given = [x.transpose(order) for x, order in zip(inputs, orders[0], strict=True)]
    try:
        actual = run_tflite(model, given)
    except BackendError as error:
        raise LoweringError(f"the self-check of the TFLite model failed: {error}") from None
    strict = not coarse and not _has_steps(module)
    for index, (want, got, order) in enumerate(zip(expected, actual, orders[1], strict=True)):
        want = want.transpose(order)
        if got.shape != want.shape or got.dtype != want.dtype:
            raise LoweringError(
                f"the self-check of the TFLite model failed: output {index} is {got.dtype}"
                f"{list(got.shape)} in LiteRT, and {want.dtype}{list(want.shape)} by definition"
            )
        off = _difference(want, got)
        limit = 0.0 if want.dtype.kind in "iub" else TOLERANCE
        if off > (limit if strict else COARSE_TOLERANCE) and (strict or want.dtype.kind == "f"):
            raise LoweringError(
                f"the self-check of the TFLite model failed: output {index} differs from the "
                f"interpreter by {off:.2g} of its largest value; the option self-check=false "
                "writes it nevertheless"
            )


def _difference(want: Array, got: Array) -> float:
    """The largest difference over the largest value, or over 1 where that is less."""
    if not want.size:
        return 0.0
    wide, other = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(wide)
    if not np.array_equal(wide[~finite], other[~finite], equal_nan=True):
        return float("inf")
    most = max(float(np.abs(wide[finite]).max(initial=0.0)), 1e-6)
    off = np.abs(wide[finite] - other[finite])
    return float("inf") if np.isnan(off).any() else float(off.max(initial=0.0)) / most


def sample_inputs(module: ModuleOp, function: FuncOp) -> list[Array]:
    """Typical numbers for each argument: two samples, 16 for other sizes that are free.

    Integers are small, and 0 or 1 where rows of a table are picked.
    """
    random = np.random.default_rng(0)
    picks = any(isinstance(op, tensor.GatherRowsOp) for op in module.walk())
    return [_sample(argument, random, picks) for argument in function.args]


def _sample(argument: SSAValue, random: np.random.Generator, picks: bool) -> Array:
    type = dense_type(argument)
    shape = [
        (16 if axis else 2) if size == DYNAMIC else size
        for axis, size in enumerate(type.get_shape())
    ]
    dtype = numpy_dtype(type.element_type)
    if is_float(type):
        return random.standard_normal(shape).astype(dtype)
    if dtype == np.bool_:
        return random.random(shape) < 0.5
    trits = isinstance(type.element_type, ternary.TritType)
    low, high = (-1, 1) if trits else (0, 1) if picks else (-8, 8)
    return random.integers(max(low, np.iinfo(dtype).min), high + 1, shape).astype(dtype)


def _has_steps(module: ModuleOp) -> bool:
    """Whether floats are rounded or compared: there a last bit decides over a whole step."""
    stepping = (
        tensor.ArgmaxOp,
        tensor.CompareOp,
        tensor.ConvertOp,
        tensor.FloorOp,
        tensor.ModOp,
        tensor.MultiThresholdOp,
        tensor.QuantizeOp,
        tensor.RoundOp,
        tensor.SignOp,
        ternary.TernarizeOp,
        spike.NeuronOp,
    )
    return any(
        isinstance(op, stepping) and is_float(dense_type(op.operands[0])) for op in module.walk()
    )
