"""What an ONNX graph computes, by ONNX's own reference, and how much rounding may change it.

Each node is evaluated by itself, so that its result can be disturbed as in `oracle`. ONNX Runtime,
without its optimisations, must agree: where the two do not, one of them is wrong, and the case is
not determined.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto
from onnx.reference import ReferenceEvaluator

from . import digits
from .cases import Expected, Undetermined, difference
from .oracle import CANCELLING, HALF_UNITS, RUNS, SAFETY, UNITS

Array = NDArray[Any]


Noise = Callable[[tuple[int, ...]], Array]
"""Random numbers of a shape, from -1 to 1."""


def noise_of(seed: int, index: int) -> Noise:
    """The noise of a run; each odd one is the opposite of the one before, as in `oracle`."""
    rng = np.random.default_rng([seed, index // 2])
    sign = 1 - 2 * (index % 2)
    return lambda shape: sign * rng.uniform(-1, 1, shape)


def operators(names: str) -> frozenset[str]:
    """Names that stand apart."""
    return frozenset(names.split())


EXACT = operators(
    """
    Transpose Reshape Flatten Unsqueeze Squeeze Slice Pad Concat Split Expand Tile Gather
    GatherND GatherElements ScatterElements ScatterND DepthToSpace SpaceToDepth Trilu TopK
    OneHot Shape Size Identity EyeLike ReverseSequence Compress Where Max Min ReduceMax
    ReduceMin Relu Abs Neg Clip Floor Ceil Round Sign Equal Less Greater LessOrEqual
    GreaterOrEqual And Or Xor Not IsNaN IsInf ArgMax ArgMin MaxPool GlobalMaxPool Hardmax
    CastLike ThresholdedRelu ConstantOfShape
"""
)
LINEAR = operators(
    """
    Add Sub Mul Sum MatMul Gemm Conv ConvTranspose ReduceSum CumSum Einsum ReduceSumSquare
"""
)
SUMS = LINEAR | operators("ReduceMean AveragePool GlobalAveragePool ReduceL1 Mean Resize")


class Evaluator:
    """Runs the nodes of a graph one by one."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self._sessions: dict[bytes, ReferenceEvaluator] = {}

    def node(self, node: NodeProto, inputs: Sequence[Array | None]) -> list[Array]:
        """The outputs of one node.

        Raises:
            Undetermined: the reference cannot run it.
        """
        key = node.SerializeToString()
        feeds = {n: a for n, a in zip(node.input, inputs, strict=True) if n and a is not None}
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                if key not in self._sessions:
                    self._sessions[key] = ReferenceEvaluator(node, opsets={"": self.opset})
                results: Any = self._sessions[key].run(None, feeds)
        except Exception as error:
            raise Undetermined(f"the reference cannot run {node.op_type}") from error
        return [np.asarray(r) for r in results]

    def run(
        self,
        nodes: Sequence[NodeProto],
        values: Mapping[str, Array],
        noise: Noise | None = None,
    ) -> dict[str, Array]:
        """Every value of the graph, disturbed where there is noise."""
        known = dict(values)
        sizes: dict[str, Array] = {}
        for node in nodes:
            inputs = [known.get(n) if n else None for n in node.input]
            if noise is not None and node.op_type.startswith("QLinear"):
                inputs[6] = _nudged(inputs[6], noise)
            results = self.node(node, inputs)
            for name, result in zip(node.output, results, strict=False):
                if noise is not None and result.dtype.kind == "f":
                    result, sizes[name] = self._disturbed(node, inputs, result, sizes, noise)
                known[name] = result
        return known

    def _disturbed(
        self,
        node: NodeProto,
        inputs: Sequence[Array | None],
        result: Array,
        sizes: Mapping[str, Array],
        noise: Noise,
    ) -> tuple[Array, Array]:
        kind = node.op_type
        size = np.abs(result)
        if kind in EXACT or kind in SUMS:
            terms = self._of_terms(node, inputs, sizes, result)
            size = size if terms is None else np.maximum(size, terms)
        elif kind not in POINTWISE and result.size:
            size = np.full_like(result, np.max(size))
        elif kind not in PRECISE:
            size = size + size.dtype.type(CANCELLING)
        errors = _of_digits(node, inputs)
        exact = kind in EXACT or (kind in LINEAR and _is_exact(result, size))
        whole = kind == "Cast" and inputs[0] is not None and inputs[0].dtype.kind in "iub"
        exact = exact or (whole and _is_exact(result, size))
        if exact and errors is None:
            return result, size
        moved = result.astype(np.float64)
        if not exact:
            step = float(np.finfo(result.dtype).eps)
            unit = step * (HALF_UNITS if step > 1e-4 else UNITS)
            moved = moved + unit * size.astype(np.float64) * noise(result.shape)
        if errors is not None:
            moved = moved + errors * noise(result.shape)
        with np.errstate(over="ignore"):
            return np.asarray(moved).astype(result.dtype), size

    def _of_terms(
        self,
        node: NodeProto,
        inputs: Sequence[Array | None],
        sizes: Mapping[str, Array],
        result: Array,
    ) -> Array | None:
        """The node on the sizes of what it sums."""
        kind = node.op_type
        if kind in {"Floor", "Ceil", "Round", "Sign", "Hardmax", "ReduceMin", "Min", "TopK"}:
            return None
        large = [
            sizes.get(name, np.abs(a)) if a is not None and a.dtype.kind == "f" else a
            for name, a in zip(node.input, inputs, strict=True)
        ]
        if kind in {"Relu", "Neg", "Abs", "Clip"}:
            return large[0]
        changed = NodeProto()
        changed.CopyFrom(node)
        if kind == "Sub":
            changed.op_type = "Add"
        for attribute in changed.attribute:
            if attribute.name in ("alpha", "beta"):
                attribute.f = abs(attribute.f)
        try:
            (terms, *_) = self.node(changed, large)
        except Undetermined:
            return None
        return terms if terms.shape == result.shape else None


PRECISE = operators("Div Sqrt Reciprocal Cast DequantizeLinear Mod")
POINTWISE = operators(
    """
    Exp Log Sqrt Reciprocal Sigmoid Tanh Erf Softplus Softsign Elu Selu LeakyRelu
    HardSigmoid Celu Sin Cos Tan Atan Asin Acos Sinh Cosh Asinh Acosh Atanh HardSwish Mish
    Gelu Div Pow Mod PRelu Cast DequantizeLinear QuantizeLinear
"""
)


def _of_digits(node: NodeProto, inputs: Sequence[Array | None]) -> Array | None:
    """How far a product by trits may be off; `None` if it is none."""
    if node.op_type not in ("MatMul", "Gemm", "Conv", "ConvTranspose"):
        return None
    x, weights = inputs[0], inputs[1]
    assert x is not None and weights is not None
    if x.dtype == np.float64:
        return None
    if node.op_type == "Conv":
        return digits.of_convolution(x, weights)
    if node.op_type == "ConvTranspose":
        groups = next((a.i for a in node.attribute if a.name == "group"), 1)
        return digits.of_transposed_convolution(x, weights, groups)
    if node.op_type == "MatMul":
        return digits.of_matrices(x, weights) if x.ndim and weights.ndim == 2 else None
    values = {a.name: a.f if a.name in ("alpha", "beta") else a.i for a in node.attribute}
    rows = x.T if values.get("transA") else x
    errors = digits.of_matrices(rows, weights.T if values.get("transB") else weights)
    return None if errors is None else abs(values.get("alpha", 1.0)) * errors


def _nudged(scale: Array | None, noise: Noise) -> Array | None:
    """A scale a little off: what is as good as half a step may be rounded either way."""
    if scale is None:
        return None
    change = UNITS * float(np.finfo(scale.dtype).eps) * noise(scale.shape)
    return np.asarray(scale * (1 + change)).astype(scale.dtype)


def _is_exact(result: Array, size: Array) -> bool:
    step = float(np.finfo(result.dtype).eps)
    fine = 2.0 ** np.floor(np.log2(1 / step) / 2)
    scaled = result.astype(np.float64) * fine
    small = size.size == 0 or float(np.max(size)) * fine <= 1 / (UNITS * step)
    return small and bool((scaled == np.round(scaled)).all())


def run_plainly(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """ONNX Runtime without optimisations.

    Raises:
        Undetermined: it does not take the model.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        outputs: Any = session.run(None, dict(inputs))
    except Exception as error:
        kinds = " ".join(sorted({n.op_type for n in model.graph.node}))
        raise Undetermined(f"ONNX Runtime does not take the model: {kinds}") from error
    return [np.asarray(o) for o in outputs]


def bounded(
    model: onnx.ModelProto,
    opset: int,
    constants: Mapping[str, Array],
    inputs: Mapping[str, Array],
    results: Sequence[str],
    seed: int,
) -> Expected:
    """What the graph computes, with bounds.

    Raises:
        Undetermined: the oracles do not agree, or a value is not finite.
    """
    evaluator = Evaluator(opset)
    values = {**constants, **inputs}
    clean = evaluator.run(model.graph.node, values)
    for value in clean.values():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise Undetermined("a number that is not finite")
    runs = [evaluator.run(model.graph.node, values, noise_of(seed, index)) for index in range(RUNS)]
    coarse = max(
        (float(np.finfo(v.dtype).eps) for v in clean.values() if v.dtype.kind == "f"), default=0.0
    )
    bounds: list[Array] = []
    for name in results:
        value = clean[name]
        others = [run[name] for run in runs]
        if any(o.shape != value.shape for o in others):
            raise Undetermined("a shape that hangs on rounding")
        if value.dtype.kind != "f":
            same = np.all([o == value for o in others], axis=0)
            bounds.append(np.where(same, 0.0, np.inf))
            continue
        wide = value.astype(np.float64)
        spread = np.max([np.abs(o - wide) for o in others], axis=0, initial=0.0)
        spread = np.where(np.isnan(spread), np.inf, spread)
        step = float(np.finfo(value.dtype).eps)
        bound = SAFETY * spread + 4 * step * np.abs(wide) + float(np.finfo(value.dtype).tiny)
        jumps = spread > max(0.05, 100 * coarse) * (np.abs(wide) + 1e-3)
        bounds.append(np.where(jumps, np.inf, bound))
    expected = Expected(tuple(clean[name] for name in results), tuple(bounds))
    disagreement = difference(expected, run_plainly(model, inputs))
    if disagreement is not None:
        kinds = " ".join(sorted({n.op_type for n in model.graph.node}))
        raise Undetermined(f"ONNX Runtime and the reference disagree: {kinds}")
    return expected
