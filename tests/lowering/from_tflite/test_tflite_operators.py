"""Operators on floats and plain integers: the interpreter beside LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from triton_dsl.lowering.to_tflite.graph import Element

IMAGE = (2, 6, 4, 3)
B, I32, I64 = Element.BOOL, Element.INT32, Element.INT64
DEFAULT = ("CEIL", "ELU", "ROUND", "LOCAL_RESPONSE_NORMALIZATION")
"""What the reference kernels leave out, or compute wrongly."""


def ints(values: Any) -> Any:
    """Whole numbers as the file stores them."""
    return np.array(values, np.int32)


def reals(values: Any) -> Any:
    """Real numbers as the file stores them."""
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {}) for kind in (
            "ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "L2_NORMALIZATION",
            "LOGISTIC", "LOG_SOFTMAX", "NEG", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1",
            "ROUND", "SIGN", "SIN", "SQUARE", "TANH", "ZEROS_LIKE",
        )),
        ("GELU", {"approximate": True}),
        ("LEAKY_RELU", {"alpha": 0.2}),
        ("SOFTMAX", {"beta": 0.5}),
    ],
)  # fmt: skip
def test_functions_of_one_tensor(bench: Any, kind: str, options: dict[str, Any]) -> None:
    bench.check(kind, [bench.tensor("x", IMAGE)], bench.tensor("y", IMAGE),
                reference=kind not in DEFAULT, **options)  # fmt: skip


@pytest.mark.parametrize("kind", ["LOG", "RSQRT", "SQRT"])
def test_functions_of_positive_numbers(bench: Any, kind: str) -> None:
    x = np.random.default_rng(0).random(IMAGE).astype(np.float32) + 0.01
    bench.check(kind, [bench.tensor("x", IMAGE)], bench.tensor("y", IMAGE), given=[x])


@pytest.mark.parametrize("activation", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL", "DIV"])
def test_arithmetic_with_fused_activations(bench: Any, kind: str, activation: int) -> None:
    inputs = [bench.tensor("x", IMAGE), bench.tensor("y", (3,))]
    bench.check(kind, inputs, bench.tensor("z", IMAGE), fusedActivationFunction=activation)


@pytest.mark.parametrize(
    "kind",
    ["MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD", "EQUAL", "NOT_EQUAL",
     "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"],
)  # fmt: skip
def test_functions_of_two_tensors(bench: Any, kind: str) -> None:
    truth = kind.startswith(("EQUAL", "NOT", "LESS", "GREATER"))
    inputs = [bench.tensor("x", IMAGE), bench.tensor("y", (1, 6, 1, 3))]
    bench.check(kind, inputs, bench.tensor("z", IMAGE, B if truth else Element.FLOAT32))


@pytest.mark.parametrize(
    ("kind", "element"),
    [("LOGICAL_AND", B), ("LOGICAL_OR", B), ("BITWISE_XOR", I32), ("ADD", I32), ("MUL", I32),
     ("SUB", I32)],
)  # fmt: skip
def test_plain_integers_and_truth_values(bench: Any, kind: str, element: Element) -> None:
    inputs = [bench.tensor(name, IMAGE, element) for name in "xy"]
    bench.check(kind, inputs, bench.tensor("z", IMAGE, element))


def test_shifts_to_the_right(bench: Any) -> None:
    element = Element.UINT32
    inputs = [bench.tensor("x", (9,), element), bench.constant(np.arange(9, dtype=np.uint32))]
    bench.check("RIGHT_SHIFT", inputs, bench.tensor("z", (9,), element))


CASES: dict[str, tuple[str, list[Any], Any, dict[str, Any]]] = {
    "add_n": ("ADD_N", [IMAGE, IMAGE, IMAGE], IMAGE, {}),
    "prelu": ("PRELU", [IMAGE, reals([[[0.1, -0.2, 3.0]]])], IMAGE, {}),
    "pow": ("POW", [IMAGE, reals(2)], IMAGE, {}),
    "squeeze": ("SQUEEZE", [(2, 1, 3, 1)], (2, 3, 1), {"squeezeDims": [1]}),
    "expand": ("EXPAND_DIMS", [(2, 3), ints(-1)], (2, 3, 1), {}),
    "transpose": ("TRANSPOSE", [IMAGE, ints([3, 0, 2, 1])], (3, 2, 4, 6), {}),
    "reshape": ("RESHAPE", [IMAGE, ints([2, -1, 6])], (2, 12, 6), {}),
    "broadcast": ("BROADCAST_TO", [(1, 3), ints([2, 4, 3])], (2, 4, 3), {}),
    "fill": ("FILL", [ints([2, 3]), ()], (2, 3), {}),
    "tile": ("TILE", [(2, 3), ints([2, 3])], (4, 9), {}),
    "slice": ("SLICE", [IMAGE, ints([0, 1, 0, 1]), ints([-1, 3, 2, 2])], (2, 3, 2, 2), {}),
    "strided": (
        "STRIDED_SLICE",
        [IMAGE, ints([0, -1, 3, 0]), ints([2, 0, 0, 1]), ints([1, -2, -1, 1])],
        (2, 3, 3), {"endMask": 2, "shrinkAxisMask": 8},
    ),
    "ellipsis": (
        "STRIDED_SLICE",
        [IMAGE, ints([0, 0, 1]), ints([0, 0, 2]), ints([1, 1, 1])],
        (2, 6, 4, 1, 1), {"ellipsisMask": 1, "newAxisMask": 2},
    ),
    "reverse": ("REVERSE_V2", [IMAGE, ints([1])], IMAGE, {}),
    "sequences": ("REVERSE_SEQUENCE", [(3, 4, 2), ints([1, 4, 2])], (3, 4, 2), {"seqDim": 1}),
    "gather": ("GATHER", [IMAGE, ints([[2, 0], [1, 1]])], (2, 2, 2, 4, 3), {"axis": 1}),
    "gather_nd": ("GATHER_ND", [IMAGE, ints([[0, 3], [1, 5]])], (2, 4, 3), {}),
    "scatter_nd": ("SCATTER_ND", [ints([[0], [3], [0]]), (3, 4), ints([5, 4])], (5, 4), {}),
    "embedding": ("EMBEDDING_LOOKUP", [ints([2, 0]), (4, 3)], (2, 3), {}),
    "padv2": (
        "PADV2", [IMAGE, ints([[0, 0], [1, 1], [2, 0], [0, 1]]), reals(1.5)],
        (2, 8, 6, 4), {},
    ),
    "reflect": (
        "MIRROR_PAD", [IMAGE, ints([[0, 0], [1, 1], [2, 0], [0, 1]])], (2, 8, 6, 4),
        {"mode": 0},
    ),
    "symmetric": (
        "MIRROR_PAD", [IMAGE, ints([[0, 0], [1, 1], [2, 0], [0, 1]])], (2, 8, 6, 4),
        {"mode": 1},
    ),
    "to_batch": (
        "SPACE_TO_BATCH_ND", [IMAGE, ints([2, 3]), ints([[1, 1], [1, 1]])],
        (12, 4, 2, 3), {},
    ),
    "from_batch": (
        "BATCH_TO_SPACE_ND", [(12, 4, 2, 3), ints([2, 3]), ints([[1, 1], [1, 1]])],
        IMAGE, {},
    ),
    "to_depth": ("SPACE_TO_DEPTH", [IMAGE], (2, 3, 2, 12), {"blockSize": 2}),
    "from_depth": ("DEPTH_TO_SPACE", [(2, 3, 2, 12)], IMAGE, {"blockSize": 2}),
    "concatenation": ("CONCATENATION", [IMAGE, (2, 6, 4, 1)], (2, 6, 4, 4), {"axis": -1}),
    "pack": ("PACK", [IMAGE, IMAGE], (2, 6, 2, 4, 3), {"valuesCount": 2, "axis": 2}),
    "cumsum": ("CUMSUM", [IMAGE, ints(1)], IMAGE, {"exclusive": True, "reverse": True}),
    "matmul": ("BATCH_MATMUL", [(2, 3, 4), (2, 5, 4)], (2, 3, 5), {"adjX": False, "adjY": True}),
    "responses": (
        "LOCAL_RESPONSE_NORMALIZATION", [(2, 4, 4, 9)], (2, 4, 4, 9),
        {"radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.7},
    ),
    **{
        kind.lower(): (kind, [IMAGE, ints([-1, 1])], (2, 4), {"keepDims": False})
        for kind in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
    },
    **{
        f"{kind.lower()}_{half}{corners}": (
            kind, [IMAGE, ints([9, 7])], (2, 9, 7, 3),
            {"halfPixelCenters": half, "alignCorners": corners},
        )
        for kind in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
        for half, corners in ((False, False), (True, False), (False, True))
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_shapes_parts_and_images(bench: Any, case: str) -> None:
    kind, given, shape, options = CASES[case]
    inputs = [
        bench.tensor(f"x{index}", part) if isinstance(part, tuple) else bench.constant(part)
        for index, part in enumerate(given)
    ]
    bench.check(kind, inputs, bench.tensor("y", shape), reference=kind not in DEFAULT, **options)


def test_splits(bench: Any) -> None:
    x, half = bench.tensor("x", IMAGE), [bench.tensor(n, (2, 3, 4, 3)) for n in "ab"]
    bench.check("SPLIT", [bench.constant(ints(1)), x], half, numSplits=2)
    parts = [bench.tensor("a", (2, 2, 4, 3)), bench.tensor("b", (2, 4, 4, 3))]
    sizes = [bench.constant(ints([2, -1])), bench.constant(ints(1))]
    bench.check("SPLIT_V", [x, *sizes], parts, numSplits=2)
    rows = [bench.tensor(n, (6, 4, 3)) for n in "ab"]
    bench.check("UNPACK", [x], rows, num=2, axis=0)


def test_choices_and_places(bench: Any) -> None:
    x = bench.tensor("x", IMAGE)
    both = [x, bench.tensor("y", IMAGE)]
    bench.check("SELECT_V2", [bench.tensor("c", (4, 3), B), *both], bench.tensor("z", IMAGE))
    bench.check("SELECT", [bench.tensor("c", (2,), B), *both], bench.tensor("z", IMAGE))
    axis = bench.constant(ints(-1))
    bench.check("ARG_MAX", [x, axis], bench.tensor("y", (2, 6, 4), I64), outputType=4)
    bench.check("ARG_MIN", [x, axis], bench.tensor("y", (2, 6, 4), I32), outputType=2)
    top = [bench.tensor("v", (5, 3)), bench.tensor("i", (5, 3), I32)]
    bench.check("TOPK_V2", [bench.tensor("x", (5, 7)), bench.constant(ints(3))], top)
    ends = [bench.constant(reals(v)) for v in (2, -1)]
    places = np.array([[0, 3], [-1, 2], [4, -4]], np.int32)
    for axis, shape in ((-1, (3, 2, 4)), (0, (4, 3, 2)), (1, (3, 4, 2))):
        bench.check("ONE_HOT", [bench.tensor("x", (3, 2), I32), bench.constant(ints(4)), *ends],
                    bench.tensor("y", shape), given=[places], axis=axis)  # fmt: skip
    for kind in ("REDUCE_ALL", "REDUCE_ANY"):
        bench.check(kind, [bench.tensor("x", IMAGE, B), bench.constant(ints([2]))],
                    bench.tensor("y", (2, 6, 1, 3), B), keepDims=True)  # fmt: skip


def test_what_tells_sizes_and_types(bench: Any) -> None:
    x = bench.tensor("x", IMAGE)
    bench.check("SHAPE", [x], bench.tensor("y", (4,), I32), outType=2)
    bench.check("RANK", [x], bench.tensor("y", (), I32))
    bench.check("CAST", [x], bench.tensor("y", IMAGE, I32), inDataType=0, outDataType=2)
    counts = [bench.constant(ints(n)) for n in (1, 9, 2)]
    bench.check("RANGE", counts, bench.tensor("y", (4,), I32))


WINDOW = {"strideW": 2, "strideH": 2}
POOL = {**WINDOW, "filterWidth": 3, "filterHeight": 2}


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"])
def test_pools(bench: Any, kind: str, padding: int) -> None:
    shape = (2, 3, 2, 3) if padding == 0 else (2, 3, 1, 3)
    bench.check(kind, [bench.tensor("x", IMAGE)], bench.tensor("y", shape), padding=padding, **POOL)


def floats(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_convolutions(bench: Any) -> None:
    x, plain = bench.tensor("x", (2, 9, 9, 4)), {"dilationWFactor": 1, "dilationHFactor": 1}
    grouped = [x, bench.constant(floats(1, 6, 3, 3, 2)), bench.constant(floats(2, 6))]
    bench.check("CONV_2D", grouped, bench.tensor("y", (2, 9, 9, 6)), padding=0, strideW=1,
                strideH=1, dilationWFactor=2, dilationHFactor=2,
                fusedActivationFunction=3)  # fmt: skip
    deep = [x, bench.constant(floats(3, 1, 3, 2, 8)), bench.constant(floats(4, 8))]
    bench.check("DEPTHWISE_CONV_2D", deep, bench.tensor("y", (2, 4, 4, 8)), padding=1,
                depthMultiplier=2, **WINDOW, **plain)  # fmt: skip


@pytest.mark.parametrize(("padding", "sizes"), [(0, (3, 3, 6)), (1, (2, 1, 4))])
def test_convolutions_in_three_dimensions(
    bench: Any, padding: int, sizes: tuple[int, int, int]
) -> None:
    inputs = [bench.tensor("x", (2, 5, 6, 6, 3)), bench.constant(floats(1, 2, 4, 3, 3, 4)),
              bench.constant(floats(2, 4))]  # fmt: skip
    bench.check("CONV_3D", inputs, bench.tensor("y", (2, *sizes, 4)), padding=padding, strideD=2,
                strideH=2, strideW=1, dilationDFactor=1, dilationHFactor=1, dilationWFactor=1,
                fusedActivationFunction=1)  # fmt: skip


@pytest.mark.parametrize(("padding", "sizes"), [(0, (12, 8)), (1, (13, 9))])
def test_transposed_convolutions(bench: Any, padding: int, sizes: tuple[int, int]) -> None:
    shape = (2, *sizes, 5)
    inputs = [bench.constant(ints(shape)), bench.constant(floats(1, 5, 3, 3, 3)),
              bench.tensor("x", IMAGE), bench.constant(floats(2, 5))]  # fmt: skip
    bench.check("TRANSPOSE_CONV", inputs, bench.tensor("y", shape), padding=padding, **WINDOW)


@pytest.mark.parametrize("keep", [False, True])
def test_fully_connected_layers(bench: Any, keep: bool) -> None:
    weight = bench.constant(floats(1, 6, 4))
    shape = (2, 5, 6) if keep else (10, 6)
    bench.check("FULLY_CONNECTED", [bench.tensor("x", (2, 5, 4)), weight, None],
                bench.tensor("y", shape), keepNumDims=keep)  # fmt: skip
